//! Tokens that are signed or fetched: who is asked for them how often, what is shown there, and what a failure means.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::server::{PATIENT, Server, answer, profile, request, response};
use crate::adapters::clock::{BootMoment, Clock};
use crate::adapters::provider::credentials::tests::{
    EC_OF_RFC_7515, RSA_OF_RFC_7515, is_signed_by_rfc_7515,
};
use crate::adapters::provider::{Connecting, ProviderClient};
use crate::config::secret::References;
use crate::domain::classify::{Answer, NotSentCause};
use crate::domain::signing::jwt::{JwtAlgorithm, hs256};
use crate::domain::token::NoToken;

const FETCHED: &str = r#"{ kind = "client_credentials", token_url = "/token", client_id = "env:ID", client_secret = "env:SECRET", scope = "send all" }"#;

/// What a stand-in for a provider and its token endpoint does with a request.
type Script = dyn Fn(&str, usize) -> String + Send + Sync;

/// Answers requests as `script` says of each and of how many tokens were asked for before it.
async fn server(script: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> Server {
    let script: Arc<Script> = Arc::new(script);
    let asked = Arc::new(AtomicUsize::new(0));
    Server::start(move |_, mut connection| {
        let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
        async move {
            while let Some(request) = connection.request().await {
                let is_token = request.starts_with("POST /token ");
                let before = asked.fetch_add(usize::from(is_token), Ordering::SeqCst);
                let answer = script(&request, before);
                if answer.is_empty()
                    || connection
                        .stream
                        .write_all(answer.as_bytes())
                        .await
                        .is_err()
                {
                    // Nothing is said until the client goes.
                    let _ = connection.request().await;
                    return;
                }
            }
        }
    })
    .await
}

fn granted(token: &str, life: u64) -> String {
    let body = format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":{life}}}"#);
    answer("200 OK", "", &body)
}

/// A provider that takes everything, and whose tokens `t-0`, `t-1` and so on live for so many seconds.
async fn issuing(life: u64) -> Server {
    server(
        move |request, before| match request.starts_with("POST /token ") {
            true => granted(&format!("t-{before}"), life),
            false => answer("200 OK", "", "{}"),
        },
    )
    .await
}

fn client(server: &Server, auth: &str) -> ProviderClient {
    let references = References::new(&[
        ("ID".into(), "the-client".into()),
        ("SECRET".into(), "s3cret".into()),
        ("RSA".into(), RSA_OF_RFC_7515.into()),
        ("EC".into(), EC_OF_RFC_7515.into()),
        (
            "ACCOUNT".into(),
            serde_json::json!({
                "type": "service_account", "project_id": "p", "private_key_id": "key-1",
                "private_key": RSA_OF_RFC_7515, "client_email": "app@p.iam.example",
                "token_uri": "https://elsewhere.example/token",
            })
            .to_string()
            .into(),
        ),
    ]);
    let profile = server.profile(&format!("auth = {auth}"));
    ProviderClient::connecting(&profile, &references, &Connecting::default()).unwrap()
}

async fn send(server: &Server, client: &ProviderClient) -> Answer {
    client
        .send(&server.request("{}"), BootMoment::after(PATIENT))
        .await
}

fn status(answer: &Answer) -> u16 {
    response(answer.clone()).status
}

/// Requests to the provider itself, by the token that they carry.
fn carried(server: &Server) -> Vec<String> {
    let seen = server.seen();
    let sends = seen
        .whole
        .iter()
        .filter(|request| request.starts_with("POST /send"));
    sends.map(|request| bearer(request)).collect()
}

fn bearer(request: &str) -> String {
    let mut lines = request.lines();
    let header = lines.find_map(|line| line.strip_prefix("authorization: "));
    let header = header.unwrap().to_owned();
    let (scheme, token) = header.split_once(' ').unwrap();
    assert!(scheme.eq_ignore_ascii_case("bearer"), "{scheme}");
    token.to_owned()
}

/// The fields of the form that the token endpoint was last sent, without its head.
fn last_form(server: &Server) -> (String, Vec<(String, String)>) {
    let seen = server.seen();
    let mut asked = seen
        .whole
        .iter()
        .filter(|request| request.starts_with("POST /token "));
    let (head, body) = asked.next_back().unwrap().split_once("\r\n\r\n").unwrap();
    let form = url::form_urlencoded::parse(body.as_bytes()).into_owned();
    (head.to_owned(), form.collect())
}

/// Header and claims of a token.
fn parts(token: &str) -> [Value; 2] {
    let mut parts = token
        .split('.')
        .map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
    [parts.next(), parts.next()].map(|part| serde_json::from_slice(&part.unwrap()).unwrap())
}

/// Whether a claimed moment is now, give or take what a test takes.
fn is_now(moment: &Value) -> bool {
    let now = Clock::wall().as_millis() / 1_000;
    (now - 20..=now + 1).contains(&moment.as_i64().unwrap())
}

#[tokio::test]
async fn one_token_is_fetched_for_all_and_shown_to_the_provider_alone() {
    let server = issuing(3_600).await;
    let client = client(&server, FETCHED);
    let answers = join_all((0..8).map(|_| send(&server, &client))).await;
    assert!(answers.iter().all(|answer| status(answer) == 200));
    assert_eq!(carried(&server), ["t-0"; 8]);
    assert_eq!(server.seen().whole.len(), 9, "one asked for a token");
    let (head, form) = last_form(&server);
    // the-client:s3cret
    assert!(
        head.contains("\r\nauthorization: Basic dGhlLWNsaWVudDpzM2NyZXQ=\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\naccept: application/json\r\n"), "{head}");
    let form: Vec<_> = form
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(
        form,
        [("grant_type", "client_credentials"), ("scope", "send all")]
    );
}

#[tokio::test]
async fn the_client_s_secret_stands_in_the_form_where_that_is_asked_for() {
    let server = issuing(3_600).await;
    let auth = FETCHED.replace("scope =", "secret_in = \"body\", scope =");
    send(&server, &client(&server, &auth)).await;
    let (head, form) = last_form(&server);
    assert!(!head.contains("authorization"), "{head}");
    let last: Vec<_> = form.iter().skip(2).map(|(_, value)| &**value).collect();
    assert_eq!(last, ["the-client", "s3cret"]);
}

#[tokio::test]
async fn a_token_that_is_over_is_fetched_anew() {
    let server = server(
        |request, before| match request.starts_with("POST /token ") {
            // A life of nothing: each serves the request that it was fetched for.
            true => granted(&format!("t-{before}"), 0),
            false => answer("200 OK", "", "{}"),
        },
    )
    .await;
    let client = client(&server, FETCHED);
    for _ in 0..3 {
        send(&server, &client).await;
    }
    assert_eq!(carried(&server), ["t-0", "t-1", "t-2"]);
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_no_unknown_and_is_not_asked_again_at_once() {
    for (status, cause) in [
        ("400 Bad Request", NotSentCause::TokenRefused),
        ("401 Unauthorized", NotSentCause::TokenRefused),
        ("403 Forbidden", NotSentCause::TokenRefused),
        ("302 Found", NotSentCause::TokenRefused),
        ("429 Too Many Requests", NotSentCause::TokenUnavailable),
        ("500 Internal Server Error", NotSentCause::TokenUnavailable),
        ("503 Service Unavailable", NotSentCause::TokenUnavailable),
    ] {
        let server = server(move |_, _| {
            answer(
                status,
                "location: /elsewhere\r\n",
                r#"{"error":"invalid_client"}"#,
            )
        })
        .await;
        let client = client(&server, FETCHED);
        let answers = join_all((0..4).map(|_| send(&server, &client))).await;
        for answer in &answers {
            assert!(
                matches!(answer, Answer::NotSent(told) if *told == cause),
                "{status}: {answer:?}"
            );
        }
        assert_eq!(server.seen().whole.len(), 1, "{status}: one asked, for all");
        let found_out = client.make_ready().await.unwrap_err();
        assert!(!found_out.found_out, "{status}");
        assert!(found_out.wait <= Duration::from_secs(1), "{status}");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_or_breaks_off_or_hangs_is_unavailable() {
    let nowhere = profile("http://127.0.0.1:9", &format!("auth = {FETCHED}"));
    let references = References::new(&[("ID".into(), "c".into()), ("SECRET".into(), "s".into())]);
    let client_of_nowhere =
        ProviderClient::connecting(&nowhere, &references, &Connecting::default()).unwrap();
    let unready = client_of_nowhere.make_ready().await.unwrap_err();
    assert_eq!(
        (unready.why, unready.found_out),
        (NoToken::Unavailable, true)
    );

    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n{\"access_token\":\"t\"}";
    let broken = Server::start(move |_, mut connection| async move {
        connection.request().await;
        connection.write(cut).await;
    })
    .await;
    let unready = client(&broken, FETCHED).make_ready().await.unwrap_err();
    assert_eq!(unready.why, NoToken::Unavailable);

    let hanging = server(|_, _| String::new()).await;
    let client = client(&hanging, FETCHED);
    let request = request(&format!("http://{}/send", hanging.address), "{}");
    let answer = client
        .send(&request, BootMoment::after(Duration::from_millis(300)))
        .await;
    assert!(
        matches!(answer, Answer::NotSent(NotSentCause::TokenUnavailable)),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_grant_beyond_the_cap_is_not_read() {
    let server = server(|_, _| {
        let body = format!(r#"{{"access_token":"{}"}}"#, "x".repeat(100_000));
        answer("200 OK", "", &body)
    })
    .await;
    let unready = client(&server, FETCHED).make_ready().await.unwrap_err();
    assert_eq!(unready.why, NoToken::Unavailable);
}

#[tokio::test]
async fn a_token_that_was_revoked_is_replaced_once_and_one_that_never_worked_is_not() {
    // The provider takes each token once, and refuses it ever after.
    let used: Arc<Mutex<Vec<String>>> = Arc::default();
    let server = server(
        move |request, before| match request.starts_with("POST /token ") {
            true => granted(&format!("t-{before}"), 3_600),
            false => {
                let (token, mut used) = (bearer(request), used.lock().unwrap());
                let known = used.contains(&token) || token == "t-2";
                used.push(token);
                answer(if known { "401 Unauthorized" } else { "200 OK" }, "", "{}")
            }
        },
    )
    .await;
    let client = client(&server, FETCHED);
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(status(&send(&server, &client).await));
    }
    // t-0 works and is refused; t-1 likewise; t-2 never works, and stays.
    assert_eq!(statuses, [200, 401, 200, 401, 401, 401]);
    assert_eq!(carried(&server), ["t-0", "t-0", "t-1", "t-1", "t-2", "t-2"]);
}

#[tokio::test]
async fn what_is_made_ready_is_what_is_sent_with() {
    let server = server(
        |request, before| match request.starts_with("POST /token ") {
            true => granted(&format!("t-{before}"), 3_600),
            false => answer("200 OK", "", "{}"),
        },
    )
    .await;
    let client = client(&server, FETCHED);
    assert_eq!(client.make_ready().await, Ok(()));
    assert_eq!(server.seen().whole.len(), 1);
    send(&server, &client).await;
    assert_eq!(carried(&server), ["t-0"]);
    assert_eq!(server.seen().whole.len(), 2);
}

#[tokio::test]
async fn a_shared_secret_signs_a_token_for_each_request() {
    let server = server(|_, _| answer("200 OK", "", "{}")).await;
    let auth = r#"{ kind = "jwt", algorithm = "HS256", secret = "env:SECRET", issuer = "env:ID" }"#;
    let client = client(&server, auth);
    send(&server, &client).await;
    let token = carried(&server).remove(0);
    let (input, signature) = token.rsplit_once('.').unwrap();
    assert_eq!(signature, URL_SAFE_NO_PAD.encode(hs256(b"s3cret", input)));
    let [header, claims] = parts(&token);
    assert_eq!(header, serde_json::json!({"alg": "HS256", "typ": "JWT"}));
    assert_eq!(claims["iss"], "the-client");
    assert!(is_now(&claims["iat"]));
    assert_eq!(claims.as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn a_private_key_signs_a_token_that_serves_again_and_is_not_signed_anew_too_soon() {
    let server =
        server(|_, _| answer("403 Forbidden", "", r#"{"reason":"ExpiredProviderToken"}"#)).await;
    let auth = r#"{ kind = "jwt", algorithm = "ES256", secret = "env:EC", key_id = "ABC123DEFG", issuer = "DEF123GHIJ",
        prefix = "bearer ", reuse = "50m", reuse_min = "20m" }"#
        .replace('\n', " ");
    let client = client(&server, &auth);
    for _ in 0..3 {
        send(&server, &client).await;
    }
    let tokens = carried(&server);
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    assert!(is_signed_by_rfc_7515(JwtAlgorithm::Es256, &tokens[0]));
    let [header, claims] = parts(&tokens[0]);
    assert_eq!(
        header,
        serde_json::json!({"alg": "ES256", "kid": "ABC123DEFG", "typ": "JWT"})
    );
    assert_eq!(claims["iss"], "DEF123GHIJ");
}

#[tokio::test]
async fn a_client_s_assertion_is_exchanged_for_a_token() {
    let server = issuing(599).await;
    let auth = r#"{ kind = "client_assertion", token_url = "/token", client_id = "api-key", algorithm = "RS512", secret = "env:RSA",
        key_id = "test-1", lifetime = "4m" }"#
        .replace('\n', " ");
    send(&server, &client(&server, &auth)).await;
    assert_eq!(carried(&server), ["t-0"]);
    let (_, form) = last_form(&server);
    let value = |name: &str| form.iter().find(|(own, _)| own == name).unwrap().1.clone();
    assert_eq!(value("grant_type"), "client_credentials");
    assert_eq!(
        value("client_assertion_type"),
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    );
    let assertion = value("client_assertion");
    assert!(is_signed_by_rfc_7515(JwtAlgorithm::Rs512, &assertion));
    let [header, claims] = parts(&assertion);
    assert_eq!(
        header,
        serde_json::json!({"alg": "RS512", "kid": "test-1", "typ": "JWT"})
    );
    assert_eq!(
        (&claims["iss"], &claims["sub"]),
        (&"api-key".into(), &"api-key".into())
    );
    assert_eq!(claims["aud"], format!("http://{}/token", server.address));
    assert_eq!(claims["jti"].as_str().unwrap().len(), 36);
    let life = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert!(life == 240 && is_now(&claims["iat"]));
}

#[tokio::test]
async fn a_service_account_s_assertion_is_exchanged_where_the_profile_says() {
    let server = issuing(3_599).await;
    let auth = r#"{ kind = "jwt_bearer", token_url = "/token", service_account = "env:ACCOUNT", scope = "https://scope.example/send" }"#;
    send(&server, &client(&server, auth)).await;
    assert_eq!(carried(&server), ["t-0"]);
    let (_, form) = last_form(&server);
    assert_eq!(
        form[0],
        (
            "grant_type".to_owned(),
            "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned()
        )
    );
    let assertion = &form[1].1;
    assert!(is_signed_by_rfc_7515(JwtAlgorithm::Rs256, assertion));
    let [header, claims] = parts(assertion);
    assert_eq!(
        header,
        serde_json::json!({"alg": "RS256", "kid": "key-1", "typ": "JWT"})
    );
    assert_eq!(claims["iss"], "app@p.iam.example");
    assert_eq!(claims["scope"], "https://scope.example/send");
    assert_eq!(claims["aud"], format!("http://{}/token", server.address));
    assert!(claims.get("jti").is_none() && claims.get("sub").is_none());
}
