//! Idempotency keys: P06, P08, P09, P10, P12.

use sendonce::stub_provider::{Fault, Options};
use serde_json::json;

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{Embedded, Home, STUB_PROFILE, Sent, Setup, patient, sms, via};
use crate::scripted::{Act, Gate, Scripted, accepting, answer, refusing};
use crate::standing::Standing;
use crate::stub::{Stub, mix};

const SECOND_NUMBER: &str = "+12025550143";

#[tokio::test(flavor = "multi_thread")]
async fn p06_one_key_through_503_reset_kill_and_restart_and_another_machine_derives_the_same() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([
        refusing("503 Service Unavailable"),
        Act::Reset.not_taking(),
        Act::Hang.not_taking(),
        accepting(),
    ])
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&patient(STUB_PROFILE))
        .set("RETRY__BASE", "20ms");
    let home = Home::new(&setup);
    kafka
        .publish(&[Sent::json(&sms("e-1006", "Your code is 482901"))])
        .await;

    let mut worker = home.start(&setup);
    provider.until_seen(3).await;
    worker.kill();
    let setup = setup.in_another_group();
    let worker = home.start(&setup);
    kafka.until_committed_in_another_group().await;
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .in_another_group()
        .holds(worker)
        .await;

    let seen = provider.seen();
    assert_eq!(seen.len(), 4);
    let key = seen[0].key().expect("a key");
    assert!(seen.iter().all(|request| request.key() == Some(key)));
    let elsewhere = Home::new(&setup);
    let event = [
        "--event-id",
        "e-1006",
        "--channel",
        "sms",
        "--to",
        "+44 7700 900123",
    ];
    let told = elsewhere
        .command(&setup)
        .arg("key")
        .args(event)
        .output()
        .expect("a key");
    assert!(told.status.success(), "{told:?}");
    assert!(
        String::from_utf8_lossy(&told.stdout).contains(key),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p08_an_event_has_a_key_for_each_channel_and_recipient_and_sources_do_not_meet() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, _| {
        if request.body.contains("first") && request.body.contains("bounces@example.com") {
            refusing("400 Bad Request")
        } else {
            accepting()
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url());
    let home = Home::new(&setup);
    let fan_out = |source: &str| {
        let of = |channel: &str, to: &str| {
            Sent::json(&json!({
                "id": "e-1008", "source": source, "channel": channel, "to": to, "content": {"text": source},
            }))
        };
        [
            of("sms", "+447700900123"),
            of("email", "bounces@example.com"),
            of("sms", SECOND_NUMBER),
            of("email", "person@example.com"),
        ]
    };
    let both = [fan_out("first"), fan_out("second")].concat();
    kafka.publish(&both).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    kafka.publish(&both).await;
    worker
        .until_count("sendonce_suppressed_total", &[], 8)
        .await;
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;

    assert_eq!(
        provider.seen().len(),
        8,
        "each once, and nothing for the redelivery"
    );
    assert_eq!(provider.by_key().len(), 8, "eight keys");
    assert_eq!(ledger.stories().len(), 8, "eight stories");
    let delivered = provider
        .seen_with("first")
        .iter()
        .filter(|request| request.taken)
        .count();
    assert_eq!(delivered, 3);
    assert!(
        provider
            .seen_with("second")
            .iter()
            .all(|request| request.taken)
    );
    assert_eq!(reasons(&dead_letters(&kafka)), [("rejected", "refused")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn p09_whatever_an_event_is_called_its_key_is_short_and_visible_ascii() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([accepting()]).await;
    let setup = Setup::new(&kafka, &provider.url());
    let home = Home::new(&setup);
    let long = "x".repeat(600);
    let ids = [
        format!("{}{}", &long[..599], 1),
        format!("{}{}", &long[..599], 2),
        "заказ-42/é".to_owned(),
        "a\r\nX-Evil: 1".to_owned(),
        "1".to_owned(),
        String::new(),
    ];
    let records: Vec<Sent> = ids.iter().map(|id| Sent::json(&sms(id, "hello"))).collect();
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .holds(worker)
        .await;

    assert_eq!(provider.by_key().len(), 5, "five keys, five messages");
    let seen = provider.seen();
    assert_eq!(seen.len(), 5);
    for request in &seen {
        let key = request.key().expect("a key");
        assert!(
            key.len() == 36 && key.bytes().all(|byte| byte.is_ascii_graphic()),
            "{key}"
        );
        assert_eq!(request.header("x-evil"), None);
        let evil = request
            .headers
            .iter()
            .any(|(_, value)| value.contains("Evil"));
        assert!(!evil && !request.line.contains("Evil"), "{request:?}");
    }
    let letters = dead_letters(&kafka);
    assert_eq!(reasons(&letters), [("malformed", "bad_event_id")]);
    assert_eq!(letters[0].origin, (0, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_a_stored_error_ends_the_series_and_one_that_is_not_stored_does_not() {
    let kafka = Embedded::with_partitions(1);
    let stores = Stub::with(&[(Fault::StoredError, 1.0)]).await;
    let forgets = Stub::start(Options {
        faults: mix(&[(Fault::ErrorBeforeAccepting, 1.0)]).at_most_per_key(Some(2)),
        ..Options::default()
    })
    .await;
    let setup = Setup::new(&kafka, &stores.url())
        .provider("forgets", STUB_PROFILE, &forgets.url())
        .set("RETRY__BUDGET", "6")
        .set("RETRY__BASE", "20ms");
    let home = Home::new(&setup);
    let intents = [
        sms("e-1010", "Your code is 482901"),
        via("forgets", sms("e-2010", "Your code is 482901")),
    ];
    kafka.publish(&intents.each_ref().map(Sent::json)).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    assert_eq!(
        worker
            .count("sendonce_provider_replays_total", &[("provider", "stub")])
            .await,
        1
    );
    assert_eq!(worker.count("sendonce_unknown_open", &[]).await, 1);
    Standing::of(&kafka, &home)
        .stub(&stores)
        .stub(&forgets)
        .holds(worker)
        .await;

    let item = stores.deliveries().await.remove(0);
    assert_eq!((item.requests, item.deliveries), (2, 1), "{item:?}");
    let letters = dead_letters(&kafka);
    assert_eq!(reasons(&letters), [("outcome_unknown", "stored_error")]);
    assert_eq!(letters[0].header("key"), item.key.as_deref());
    let item = forgets.deliveries().await.remove(0);
    assert_eq!((item.requests, item.deliveries), (3, 1), "{item:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_the_same_id_with_other_content_is_never_sent_and_tells_both_fingerprints_and_no_text()
{
    let kafka = Embedded::with_partitions(1);
    let gate = Gate::closed();
    let held = Act::AnswerAfter(gate.clone(), answer("201 Created", "", r#"{"id":"msg-1"}"#));
    let provider = Scripted::by(move |request, _| {
        if request.body.contains("slow") {
            held.clone().taking()
        } else if request.body.contains("known elsewhere") {
            refusing("422 Unprocessable Content")
        } else {
            accepting()
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url()).with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    let settled = sms("e-1012", "text A");
    let attempting = sms("e-2012", "slow text A");
    let known_elsewhere = sms("e-3012", "known elsewhere");
    kafka
        .publish(&[&settled, &attempting, &known_elsewhere].map(Sent::json))
        .await;
    let worker = home.start(&setup);
    let accepted = [("outcome", "accepted")];
    worker
        .until_count("sendonce_outcomes_total", &accepted, 1)
        .await;
    provider.until_seen(3).await;
    kafka
        .publish(
            &[sms("e-1012", "text B"), sms("e-2012", "slow text B")]
                .map(|intent| Sent::json(&intent)),
        )
        .await;
    // While A's request hangs, the first B has gone its way, and the second waits.
    let conflicts = [("reason", "payload_conflict")];
    worker
        .until_count("sendonce_dead_letters_total", &conflicts, 2)
        .await;
    worker.until_count("sendonce_records_total", &[], 5).await;
    gate.open();
    kafka.until_committed().await;
    assert_eq!(
        worker
            .count("sendonce_suspected_duplicates_total", &[])
            .await,
        1
    );
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;

    assert_eq!(
        provider.seen().len(),
        3,
        "B was never sent, and 422 was final"
    );
    assert!(provider.seen_with("text B").is_empty());
    let letters = dead_letters(&kafka);
    let conflict = |letter: &str| ("payload_conflict", letter.to_owned());
    let told: Vec<_> = letters
        .iter()
        .map(|one| (one.reason.as_str(), one.detail.clone()))
        .collect();
    assert_eq!(
        told,
        [
            conflict("key_conflict"),
            conflict("id_reused"),
            conflict("id_reused")
        ]
    );
    for (letter, reused) in letters[1..].iter().zip([&settled, &attempting]) {
        let story = ledger.stories().iter().find(|story| {
            let origin = &story.subject.origin;
            story.subject.event_id.as_deref() == reused["id"].as_str() && origin.offset.0 < 3
        });
        let story = story.expect("A's story");
        assert!(story.accepted().is_some());
        let known = story.subject.fingerprint.to_string();
        assert_eq!(letter.header("known-fingerprint"), Some(known.as_str()));
        let own = letter
            .header("intent-fingerprint")
            .expect("B's own fingerprint");
        assert_ne!(own, known);
    }
    for (name, value) in letters.iter().flat_map(|letter| &letter.headers) {
        let private = ["text", "447700900123"]
            .iter()
            .any(|part| value.contains(part));
        assert!(!private, "{name}: {value}");
    }
}
