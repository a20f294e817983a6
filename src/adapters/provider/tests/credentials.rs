//! Credentials go into their place and nowhere else; signatures are what the other side computes of what it received.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::server::{PATIENT, Server, answer};
use crate::adapters::clock::BootMoment;
use crate::adapters::provider::{ClientFault, Connecting, ProviderClient};
use crate::config::secret::References;
use crate::domain::profile::{Auth, HmacAuth};
use crate::domain::signing::aws::{self, AwsKeys, AwsScope};
use crate::domain::signing::{Outgoing, mac};
use crate::domain::time::Timestamp;

fn references() -> References {
    References::new(&[
        ("TOKEN".into(), "s3cret".into()),
        ("USER".into(), "AC1".into()),
        ("SESSION".into(), "session".into()),
        ("COLON".into(), "a:b".into()),
        ("BROKEN".into(), "a\r\nX-Evil: 1".into()),
    ])
}

fn client(server: &Server, auth: &str) -> Result<ProviderClient, ClientFault> {
    let profile = server.profile(&format!("auth = {auth}"));
    ProviderClient::connecting(&profile, &references(), &Connecting::default())
}

#[tokio::test]
async fn each_kind_writes_its_header() {
    for (auth, header) in [
        (
            r#"{ kind = "bearer", secret = "env:TOKEN" }"#,
            "authorization: Bearer s3cret",
        ),
        // RFC 7617, section 2: base64 of AC1:s3cret.
        (
            r#"{ kind = "basic", username = "env:USER", password = "env:TOKEN" }"#,
            "authorization: Basic QUMxOnMzY3JldA==",
        ),
        (
            r#"{ kind = "header", name = "X-Api-Key", secret = "env:TOKEN" }"#,
            "x-api-key: s3cret",
        ),
        (
            r#"{ kind = "header", name = "Authorization", prefix = "App ", secret = "env:TOKEN" }"#,
            "authorization: App s3cret",
        ),
        (
            r#"{ kind = "query", parameters = { key = "env:TOKEN", user = "env:USER" } }"#,
            "POST /send?key=s3cret&user=AC1 HTTP/1.1",
        ),
    ] {
        let server = Server::answering(answer("200 OK", "", "")).await;
        let client = client(&server, auth).unwrap();
        client
            .send(&server.request("{}"), BootMoment::after(PATIENT))
            .await;
        let whole = server.seen().whole[0].clone();
        assert!(whole.lines().any(|line| line == header), "{auth}");
        assert_eq!(
            whole.matches("s3cret").count() + whole.matches("OnMzY3JldA").count(),
            1
        );
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_or_sent_is_told_by_its_place_and_not_shown() {
    let server = Server::answering("").await;
    for (auth, fault) in [
        (
            r#"{ kind = "bearer", secret = "env:ABSENT" }"#,
            "request.auth.secret: the environment variable ABSENT is not set",
        ),
        (
            r#"{ kind = "bearer", secret = "env:BROKEN" }"#,
            "request.auth.secret: the secret cannot stand in a header",
        ),
        (
            r#"{ kind = "basic", username = "env:COLON", password = "env:TOKEN" }"#,
            "request.auth.username: the secret cannot stand in a header",
        ),
        (
            r#"{ kind = "query", parameters = { key = "env:ABSENT" } }"#,
            "request.auth.parameters.key: the environment variable ABSENT is not set",
        ),
        (
            r#"{ kind = "hmac", secret = "env:COLON", secret_form = "base64", signs = "{{ body }}", headers = { X-Mac = "{{ signature }}" } }"#,
            "request.auth.secret: is not written as secret_form says",
        ),
        (
            r#"{ kind = "jwt", algorithm = "ES256", secret = "env:TOKEN", issuer = "us" }"#,
            "request.auth.secret: is no private key of P-256 in PEM (PKCS#8)",
        ),
        (
            r#"{ kind = "jwt_bearer", token_url = "/token", service_account = "env:TOKEN" }"#,
            "request.auth.service_account: is no key of a service account",
        ),
        (
            r#"{ kind = "client_assertion", token_url = "/token", client_id = "env:ABSENT", algorithm = "RS512", secret = "env:TOKEN" }"#,
            "request.auth.client_id: the environment variable ABSENT is not set",
        ),
    ] {
        let refused = client(&server, auth).err().unwrap();
        assert_eq!(refused.to_string(), fault);
    }
}

/// A request as the other side received it.
struct Received {
    method: Method,
    url: url::Url,
    headers: HeaderMap,
    body: String,
}

impl Received {
    fn read(server: &Server) -> Self {
        let whole = server.seen().whole.last().unwrap().clone();
        let (head, body) = whole.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let mut line = lines.next().unwrap().split(' ');
        let method = line.next().unwrap().parse().unwrap();
        let target = line.next().unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        let headers: HeaderMap = headers.collect();
        let host = headers["host"].to_str().unwrap();
        Self {
            method,
            url: format!("http://{host}{target}").parse().unwrap(),
            body: body.to_owned(),
            headers,
        }
    }

    fn with<'a>(&'a self, headers: &'a HeaderMap) -> Outgoing<'a> {
        Outgoing {
            method: &self.method,
            url: &self.url,
            headers,
            body: self.body.as_bytes(),
        }
    }
}

#[tokio::test]
async fn a_mac_is_over_what_was_received() {
    let server = Server::answering(answer("200 OK", "", "")).await;
    let auth = r#"{ kind = "hmac", secret = "env:TOKEN", written = "base64",
        signs = "{{ method }} {{ target }} {{ host }} {{ header content-type }} {{ header x-at }} {{ body }}",
        headers = { x-mac = "v1={{ signature }}", x-at = "{{ timestamp }}" } }"#
        .replace('\n', " ");
    let client = client(&server, &auth).unwrap();
    client
        .send(
            &server.request(r#"{"to":"+15550100"}"#),
            BootMoment::after(PATIENT),
        )
        .await;
    let received = Received::read(&server);
    let Auth::Hmac(auth) = server.profile(&format!("auth = {auth}")).request.auth else {
        panic!("an HMAC");
    };
    let at = received.headers["x-at"]
        .to_str()
        .unwrap()
        .parse::<i64>()
        .unwrap();
    let auth: HmacAuth = *auth;
    let computed = mac::signed(
        &auth,
        b"s3cret",
        &received.with(&received.headers),
        Timestamp::from_millis(at * 1_000),
    );
    let computed: HeaderMap = computed.unwrap().into_iter().collect();
    assert_eq!(received.headers["x-mac"], computed["x-mac"]);
    assert!(
        received.headers["x-mac"]
            .to_str()
            .unwrap()
            .starts_with("v1=")
    );
}

#[tokio::test]
async fn aws_computes_the_same_signature_of_what_it_received() {
    let server = Server::answering(answer("200 OK", "", "")).await;
    let auth =
        r#"{ kind = "aws_sigv4", access_key_id = "env:USER", secret_access_key = "env:TOKEN",
        session_token = "env:SESSION", region = "eu-west-1", service = "ses" }"#
            .replace('\n', " ");
    let client = client(&server, &auth).unwrap();
    client
        .send(
            &server.request(r#"{"to":"+15550100"}"#),
            BootMoment::after(PATIENT),
        )
        .await;
    let received = Received::read(&server);
    let signed: HeaderMap = received
        .headers
        .iter()
        .filter(|(name, _)| *name == "content-type")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let date = received.headers["x-amz-date"].to_str().unwrap();
    let at = jiff::fmt::strtime::parse("%Y%m%dT%H%M%S%z", format!("{}+0000", &date[..15]))
        .unwrap()
        .to_timestamp()
        .unwrap();
    let keys = AwsKeys {
        access_key_id: "AC1",
        secret_access_key: "s3cret",
        session_token: Some("session"),
    };
    let scope = AwsScope {
        region: "eu-west-1",
        service: "ses",
    };
    let now = Timestamp::from_millis(at.as_millisecond());
    let computed = aws::signed(&received.with(&signed), &keys, &scope, now).unwrap();
    let (_, authorization) = computed.last().unwrap();
    assert_eq!(received.headers["authorization"], authorization.as_str());
    assert!(authorization.contains(
        "/eu-west-1/ses/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "
    ));
    assert_eq!(received.headers["x-amz-security-token"], "session");
}
