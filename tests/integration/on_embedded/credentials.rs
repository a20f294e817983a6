//! Credentials that are made for each request, or fetched: what the provider receives, what a token endpoint's moods cost the
//! intents, and where tokens are never seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sendonce::domain::attempt::Verdict;

use super::looking_up::BY_REFERENCE;
use crate::dead_letters::dead_letters;
use crate::product::{Embedded, Home, KEYLESS_PROFILE, STUB_PROFILE, Sent, Setup, patient, sms};
use crate::scripted::{Act, Gate, Scripted, Seen, Turn, accepting, answer, refusing};
use crate::standing::{Standing, attempts};

const CLIENT_SECRET: &str = "client-Zq3xRw81";

/// `profile` with these credentials.
fn with_auth(profile: &str, auth: &str) -> String {
    let none = r#"{ kind = "none" }"#;
    assert!(profile.contains(none));
    profile.replace(none, auth)
}

/// `profile` with tokens from `endpoint`.
fn with_tokens_of(profile: &str, endpoint: &Scripted) -> String {
    let auth = format!(
        r#"{{ kind = "client_credentials", token_url = "{}/token", client_id = "env:TEST_CLIENT_ID", client_secret = "env:TEST_CLIENT_SECRET" }}"#,
        endpoint.url()
    );
    with_auth(profile, &auth)
}

fn setup(kafka: &Embedded, provider: &Scripted, profile: &str) -> Setup {
    let mut setup = Setup::new(kafka, &provider.url())
        .with_profile(profile)
        .set("RETRY__BASE", "10ms")
        .set("RETRY__CAP", "100ms")
        .set("RETRY__PROBE_INTERVAL", "300ms")
        .set("BREAKER__FIRST_PROBE", "100ms");
    for (name, value) in [
        ("TEST_CLIENT_ID", "the-client"),
        ("TEST_CLIENT_SECRET", CLIENT_SECRET),
    ] {
        setup.environment.push((name.to_owned(), value.to_owned()));
    }
    setup
}

/// A token that is good for an hour.
fn granting(token: &str) -> Turn {
    let grant = format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":3600}}"#);
    Act::Answer(answer("200 OK", "", &grant)).not_taking()
}

fn bearer(request: &Seen) -> Option<&str> {
    request.header("authorization")?.strip_prefix("Bearer ")
}

/// So many SMS, each with its number as id and text.
fn intents(count: usize) -> Vec<Sent> {
    let one = |n: usize| Sent::json(&sms(&format!("n-{n}"), &format!("text {n}")));
    (0..count).map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn p53_a_fetched_token_is_shared_and_is_in_no_log_metric_header_or_ledger() {
    let kafka = Embedded::with_partitions(1);
    let endpoint = Scripted::playing([granting("token-Hk29vLpQ")]).await;
    let provider = Scripted::by(|request, _| match request.body.contains("text 1") {
        true => {
            let echo = r#"{"message":"token-Hk29vLpQ of the-client may not"}"#;
            Act::Answer(answer("400 Bad Request", "", echo)).not_taking()
        }
        false => accepting(),
    })
    .await;
    let profile = with_tokens_of(STUB_PROFILE, &endpoint);
    let setup = setup(&kafka, &provider, &profile).set("LOG__LEVEL", "trace");
    let home = Home::new(&setup);
    kafka.publish(&intents(8)).await;

    let worker = home.start(&setup);
    kafka.until_committed().await;
    let metrics = worker.metrics().await.text().to_owned();
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.holds(worker).await;

    assert_eq!(endpoint.seen().len(), 1, "one token for all");
    let asked = &endpoint.seen()[0];
    assert_eq!(asked.line, "POST /token HTTP/1.1");
    assert_eq!(asked.body, "grant_type=client_credentials");
    let sent = provider.seen();
    assert_eq!(sent.len(), 8);
    assert!(
        sent.iter()
            .all(|request| bearer(request) == Some("token-Hk29vLpQ"))
    );
    let letters = dead_letters(&kafka);
    assert_eq!(letters.len(), 1);
    let headers = format!("{:?}", letters[0].headers);
    let log = home.log();
    assert!(log.contains("TRACE"), "at the noisiest level");
    for private in ["token-Hk29vLpQ", CLIENT_SECRET, "dGhlLWNsaWVudD"] {
        for (place, text) in [("log", &log), ("metrics", &metrics), ("headers", &headers)] {
            let line = text.lines().find(|line| line.contains(private));
            assert_eq!(line, None, "{private} in the {place}");
        }
        assert!(!home.ledger_holds(private), "{private} in the ledger");
    }
}

/// What the trouble of a token endpoint must cost the intents of a provider without keys: nothing.
async fn costs_nothing(trouble: Turn, opened_by: &str) {
    let kafka = Embedded::with_partitions(1);
    let healed = Arc::new(AtomicBool::new(false));
    let endpoint = {
        let healed = Arc::clone(&healed);
        Scripted::by(move |_, _| match healed.load(Ordering::SeqCst) {
            true => granting("t-1"),
            false => trouble.clone(),
        })
        .await
    };
    let provider = Scripted::playing([accepting()]).await;
    let profile = with_tokens_of(KEYLESS_PROFILE, &endpoint);
    let setup = setup(&kafka, &provider, &profile).set("RETRY__BUDGET", "2");
    let home = Home::new(&setup);
    kafka.publish(&intents(6)).await;

    let worker = home.start(&setup);
    worker
        .until_count(
            "sendonce_provider_circuit_opened_total",
            &[("reason", opened_by)],
            1,
        )
        .await;
    // Probes go on, and ask nobody but the endpoint.
    let asked = endpoint.seen().len();
    endpoint.until_seen(asked + 2).await;
    let metrics = worker.metrics().await;
    assert_eq!(metrics.count("sendonce_attempts_total", &[]), 0);
    assert_eq!(metrics.count("sendonce_dead_letters_total", &[]), 0);
    assert!(provider.seen().is_empty());

    healed.store(true, Ordering::SeqCst);
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;
    assert!(dead_letters(&kafka).is_empty());
    assert_eq!(provider.seen().len(), 6);
    assert!(ledger.stories().iter().all(|story| attempts(story) == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_refuses_makes_the_account_misconfigured_and_costs_no_intent_anything() {
    costs_nothing(refusing("401 Unauthorized"), "misconfigured").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_in_trouble_opens_the_circuit_and_costs_no_intent_anything() {
    costs_nothing(refusing("503 Service Unavailable"), "token").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_cannot_be_reached_is_trouble_too() {
    costs_nothing(Act::Reset.not_taking(), "token").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_expires_on_time_while_its_token_is_waited_for() {
    let kafka = Embedded::with_partitions(1);
    let gate = Gate::closed();
    let grant = answer("200 OK", "", r#"{"access_token":"t-1","expires_in":3600}"#);
    let endpoint = Scripted::playing([Act::AnswerAfter(gate.clone(), grant).not_taking()]).await;
    let provider = Scripted::playing([accepting()]).await;
    let profile = with_tokens_of(KEYLESS_PROFILE, &endpoint);
    let setup = setup(&kafka, &provider, &profile);
    let home = Home::new(&setup);
    let worker = home.start(&setup);
    kafka.publish(&intents(1)).await;
    endpoint.until_seen(1).await;
    let mut code = sms("code", "482901");
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    code["expires_at"] = soon.to_string().into();
    kafka.publish(&[Sent::json(&code)]).await;
    let expired = [("reason", "expired")];
    worker
        .until_count("sendonce_dead_letters_total", &expired, 1)
        .await;
    assert!(provider.seen().is_empty());

    gate.open();
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.holds(worker).await;
    assert_eq!(dead_letters(&kafka).len(), 1);
    assert_eq!(provider.seen().len(), 1, "the one that could wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_heals_without_a_restart() {
    let kafka = Embedded::with_partitions(1);
    let endpoint = Scripted::by(|_, before| granting(&format!("t-{}", before.len()))).await;
    // The first token is good for two messages.
    let provider = Scripted::by(|request, before| {
        let taken = before.iter().filter(|one| one.taken).count();
        match bearer(request) == Some("t-0") && taken >= 2 {
            true => refusing("401 Unauthorized"),
            false => accepting(),
        }
    })
    .await;
    let profile = with_tokens_of(KEYLESS_PROFILE, &endpoint);
    let setup = setup(&kafka, &provider, &profile).set("DISPATCH__CONCURRENCY", "1");
    let home = Home::new(&setup);
    kafka.publish(&intents(5)).await;

    let worker = home.start(&setup);
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;
    assert!(dead_letters(&kafka).is_empty());
    let tokens: Vec<_> = provider
        .seen()
        .iter()
        .map(|one| bearer(one).unwrap().to_owned())
        .collect();
    assert_eq!(tokens, ["t-0", "t-0", "t-0", "t-1", "t-1", "t-1"]);
    assert_eq!(endpoint.seen().len(), 2);
    let refused: Vec<_> = ledger
        .stories()
        .iter()
        .flat_map(|story| story.attempts.values())
        .filter_map(|facts| facts.answered.as_ref())
        .filter(|answered| answered.verdict == Verdict::Misconfigured)
        .collect();
    assert_eq!(refused.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_has_the_same_token_and_what_its_endpoint_does_is_not_held_against_the_outcome() {
    let kafka = Embedded::with_partitions(1);
    // The token of the send is over at once, and the look-up's comes after some trouble.
    let endpoint = Scripted::by(|_, before| match before.len() {
        0 | 1 => {
            let grant = format!(r#"{{"access_token":"t-{}","expires_in":0}}"#, before.len());
            Act::Answer(answer("200 OK", "", &grant)).not_taking()
        }
        2..=4 => refusing("503 Service Unavailable"),
        _ => granting("t-last"),
    })
    .await;
    let provider = Scripted::by(|request, before| {
        let sent = before.iter().find(|one| one.line.starts_with("POST"));
        match (request.line.starts_with("GET"), sent) {
            (true, Some(sent)) => {
                let message: serde_json::Value = serde_json::from_str(&sent.body).unwrap();
                let listing = serde_json::json!({
                    "messages": [{"id": "m-1", "reference": message["reference"]}],
                });
                Act::Answer(answer("200 OK", "", &listing.to_string())).not_taking()
            }
            (true | false, _) => Act::Reset.taking(),
        }
    })
    .await;
    let profile = with_tokens_of(KEYLESS_PROFILE, &endpoint) + BY_REFERENCE;
    let setup = setup(&kafka, &provider, &profile).set("RETRY__BUDGET", "2");
    let home = Home::new(&setup);
    kafka.publish(&intents(1)).await;

    let worker = home.start(&setup);
    kafka.until_committed().await;
    let present = [("finding", "present")];
    assert_eq!(worker.count("sendonce_lookups_total", &present).await, 1);
    assert!(dead_letters(&kafka).is_empty());
    let tokens: Vec<_> = provider
        .seen()
        .iter()
        .map(|one| bearer(one).unwrap().to_owned())
        .collect();
    assert_eq!(tokens, ["t-1", "t-last"]);
}

/// What I1 asks, whatever signs: method, URL and body are the same for every attempt, byte by byte.
#[tokio::test(flavor = "multi_thread")]
async fn i1_a_retry_is_signed_anew_and_is_the_same_request() {
    let hmac = r#"{ kind = "hmac", secret = "env:TEST_CLIENT_SECRET", signs = "{{ timestamp_ms }}.{{ header idempotency-key }}.{{ target }}.{{ body }}", headers = { X-At = "{{ timestamp_ms }}", X-Mac = "{{ signature }}" } }"#;
    let aws = r#"{ kind = "aws_sigv4", access_key_id = "env:TEST_CLIENT_ID", secret_access_key = "env:TEST_CLIENT_SECRET", region = "eu-west-1", service = "ses" }"#;
    let jwt = r#"{ kind = "jwt", algorithm = "HS256", secret = "env:TEST_CLIENT_SECRET", issuer = "us" }"#;
    let query = r#"{ kind = "query", parameters = { api_key = "env:TEST_CLIENT_SECRET" } }"#;
    for (auth, line) in [
        (hmac, "POST /v1/messages HTTP/1.1"),
        (aws, "POST /v1/messages HTTP/1.1"),
        (jwt, "POST /v1/messages HTTP/1.1"),
        (query, "POST /v1/messages?api_key=client-Zq3xRw81 HTTP/1.1"),
    ] {
        let kafka = Embedded::with_partitions(1);
        let provider = Scripted::playing([
            refusing("503 Service Unavailable"),
            Act::Reset.taking(),
            accepting(),
        ])
        .await;
        let profile = patient(&with_auth(STUB_PROFILE, auth));
        let setup = setup(&kafka, &provider, &profile).set("LOG__LEVEL", "trace");
        let home = Home::new(&setup);
        kafka.publish(&intents(1)).await;
        let worker = home.start(&setup);
        kafka.until_committed().await;
        let standing = Standing::of(&kafka, &home).scripted(&provider);
        let ledger = standing.holds(worker).await;
        let seen = provider.seen();
        assert_eq!(seen.len(), 3, "{auth}");
        for request in &seen {
            assert_eq!(request.line, line);
            assert_eq!(
                (request.key(), &request.body),
                (seen[0].key(), &seen[0].body)
            );
        }
        let story = ledger.story("n-0");
        assert_eq!(attempts(story), 3, "one fingerprint, three attempts");
        assert!(story.accepted().is_some());
        let log = home.log();
        assert_eq!(log.lines().find(|line| line.contains(CLIENT_SECRET)), None);
        assert!(!home.ledger_holds(CLIENT_SECRET));
    }
}
