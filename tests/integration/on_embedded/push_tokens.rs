//! P60: what a push service says of our own token costs no push anything, and what it says of a device's token ends that push
//! alone. The shipped profile of APNs, over HTTP/1.1.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::dead_letters::dead_letters;
use crate::product::{Embedded, Home, Sent, Setup};
use crate::scripted::{Act, Scripted, Seen, Turn, answer};
use crate::standing::Standing;

/// As it ships, but for the protocol and for how soon a token may be followed by another one.
fn apns(key: &std::path::Path) -> String {
    include_str!("../../../config/providers/apns.toml")
        .replace("http   = \"2\"", "")
        .replace("reuse_min = \"20m\"", "reuse_min = \"1s\"")
        .replace("/run/secrets/apns-key.p8", &key.display().to_string())
}

fn push(device: &str) -> Sent {
    Sent::json(&serde_json::json!({
        "id": format!("event-{device}"), "channel": "push", "to": device,
        "content": {"text": "Your code is 482901"},
    }))
}

fn said(status: &str, reason: &str) -> Turn {
    Act::Answer(answer(status, "", &format!(r#"{{"reason":"{reason}"}}"#))).not_taking()
}

fn taken() -> Turn {
    Act::Answer(answer("200 OK", "apns-id: a-1\r\n", "")).taking()
}

fn token(request: &Seen) -> &str {
    request.header("authorization").expect("a token")
}

/// Brokers, a worker's home and its setup, for pushes to `provider`.
fn stage(provider: &Scripted) -> (Embedded, Home, Setup) {
    let kafka = Embedded::with_partitions(1);
    let mut setup = Setup::new(&kafka, &provider.url())
        .set("RETRY__BASE", "10ms")
        .set("RETRY__PROBE_INTERVAL", "300ms");
    for (name, value) in [
        ("APNS_TOPIC", "com.example.app"),
        ("APNS_KEY_ID", "ABC123DEFG"),
        ("APNS_TEAM_ID", "DEF123GHIJ"),
    ] {
        setup.environment.push((name.to_owned(), value.to_owned()));
    }
    let home = Home::new(&setup);
    let key = home.path("apns-key.p8");
    let pair = rcgen::KeyPair::generate().expect("a key on P-256");
    std::fs::write(&key, pair.serialize_pem()).expect("a file");
    let setup = setup.with_profile(&apns(&key));
    home.configure(&setup);
    (kafka, home, setup)
}

#[tokio::test(flavor = "multi_thread")]
async fn p60_a_token_that_has_expired_is_renewed_once_and_every_push_is_accepted() {
    // Whatever bears the first token is refused once one push has been taken.
    let provider = Scripted::by(|request, before| match before.first() {
        Some(first) if token(first) == token(request) => {
            said("403 Forbidden", "ExpiredProviderToken")
        }
        Some(_) | None => taken(),
    })
    .await;
    let (kafka, home, setup) = stage(&provider);
    let worker = home.start(&setup);
    kafka.publish(&[push("first")]).await;
    provider.until_seen(1).await;
    // As long as a token has to be kept.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let pushes: Vec<_> = (0..50).map(|n| push(&format!("device-{n}"))).collect();
    kafka.publish(&pushes).await;
    kafka.until_committed().await;
    // Pushes have no key, and all say the same.
    Standing::of(&kafka, &home).holds(worker).await;

    assert!(dead_letters(&kafka).is_empty());
    let seen = provider.seen();
    let tokens: BTreeSet<_> = seen.iter().map(token).collect();
    assert_eq!(tokens.len(), 2, "renewed once");
    assert_eq!(seen.iter().filter(|push| push.taken).count(), 51);
}

#[tokio::test(flavor = "multi_thread")]
async fn p60_what_is_said_of_a_device_ends_its_push_and_what_is_said_of_us_ends_none() {
    let provider = Scripted::by(|request, before| {
        let device = request.line.split(['/', ' ']).nth(4).expect("a device");
        let asked = before.iter().filter(|one| one.line == request.line);
        match device {
            "gone" => said("410 Gone", "Unregistered"),
            "bad" => said("400 Bad Request", "BadDeviceToken"),
            // About our key, whoever it is for, until somebody has mended it.
            "ours" if asked.count() < 3 => said("403 Forbidden", "InvalidProviderToken"),
            _ => taken(),
        }
    })
    .await;
    let (kafka, home, setup) = stage(&provider);
    let worker = home.start(&setup);
    kafka
        .publish(&[push("gone"), push("bad"), push("ours"), push("well")])
        .await;
    kafka.until_committed().await;
    // Pushes have no key, and all say the same.
    Standing::of(&kafka, &home).holds(worker).await;

    let mut letters: Vec<_> = dead_letters(&kafka)
        .into_iter()
        .map(|letter| (letter.reason, letter.detail))
        .collect();
    letters.sort();
    let rejected = |detail: &str| ("rejected".to_owned(), detail.to_owned());
    assert_eq!(
        letters,
        [rejected("recipient_gone"), rejected("recipient_invalid")]
    );
    let taken = provider.seen().into_iter().filter(|push| push.taken);
    assert_eq!(taken.count(), 2);
}
