//! Unknown outcomes at a provider that recognises no keys and can be asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sendonce::stub_provider::{Fault, Options};

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{Embedded, Home, KEYLESS_PROFILE, SOON, STUB_PROFILE, Sent, Setup, sms};
use crate::scripted::{Act, Scripted, accepting, answer, refusing};
use crate::standing::Standing;
use crate::stub::{Stub, mix};

pub(super) const BY_REFERENCE: &str = r#"
unacknowledged = "500ms"

[lookup]
proof  = "reference"
url    = "http://127.0.0.1:8090/v1/messages?reference={{ reference }}"
delay  = "500ms"
keeps  = "1h"
items  = "/messages"
page   = 50
id     = "/id"
ours   = { "/reference" = "{{ reference }}" }
"#;

const BY_CONTENT: &str = r#"
unacknowledged = "500ms"

[lookup]
proof   = "content"
url     = "http://127.0.0.1:8090/v1/messages?to={{ to }}"
delay   = "500ms"
keeps   = "1h"
items   = "/messages"
page    = 50
id      = "/id"
ours    = { "/to" = "{{ to }}", "/text" = "{{ content.text }}" }
made_at = { at = "/made_at", as = "rfc3339" }
"#;

fn asked(how: &str) -> String {
    format!("{KEYLESS_PROFILE}{how}")
}

/// A provider that takes half of all messages without its answer arriving, and of the others not all.
async fn lossy() -> Stub {
    Stub::start(Options {
        keys: false,
        lookups: Some(Duration::from_millis(200)),
        seed: 7,
        faults: mix(&[
            (Fault::AcceptThenHang, 0.25),
            (Fault::AcceptThenReset, 0.25),
            (Fault::ErrorBeforeAccepting, 0.25),
        ]),
        ..Options::default()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_every_lost_answer_is_looked_up_and_each_message_goes_out_once() {
    let kafka = Embedded::with_partitions(1);
    let stub = lossy().await;
    let setup = Setup::new(&kafka, &stub.url()).with_profile(&asked(BY_REFERENCE));
    let home = Home::new(&setup);
    let intents: Vec<_> = (0..40)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), "hello")))
        .collect();
    kafka.publish(&intents).await;

    let worker = home.start(&setup);
    kafka.until_committed().await;
    let looked_up = |finding| [("provider", "stub"), ("finding", finding)];
    let present = worker
        .count("sendonce_lookups_total", &looked_up("present"))
        .await;
    let absent = worker
        .count("sendonce_lookups_total", &looked_up("absent"))
        .await;
    assert!(
        present >= 5 && absent >= 2,
        "{present} present, {absent} absent"
    );
    assert_eq!(worker.count("sendonce_unknown_open", &[]).await, 0);
    Standing::of(&kafka, &home).stub(&stub).holds(worker).await;
    assert_eq!(reasons(&dead_letters(&kafka)), []);
    let stats = stub.stats().await;
    assert_eq!((stats.deliveries, stats.duplicate_deliveries), (40, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_of_a_process_that_was_killed_is_looked_up_by_the_next_one() {
    let kafka = Embedded::with_partitions(1);
    let stub = Stub::start(Options {
        keys: false,
        lookups: Some(Duration::ZERO),
        faults: mix(&[(Fault::AcceptThenHang, 1.0)]),
        ..Options::default()
    })
    .await;
    let setup = Setup::new(&kafka, &stub.url()).with_profile(&asked(BY_REFERENCE));
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "hello"))]).await;
    let mut worker = home.start(&setup);
    stub.until_delivered(1).await;
    worker.kill();
    worker.ended(SOON).await;

    let setup = setup.in_another_group();
    let worker = home.start(&setup);
    kafka.until_committed_in_another_group().await;
    let standing = Standing::of(&kafka, &home).stub(&stub).in_another_group();
    standing.holds(worker).await;
    assert_eq!(reasons(&dead_letters(&kafka)), []);
    assert_eq!(stub.stats().await.deliveries, 1);
}

/// Vendors' row 133, whole: one of two equal texts was taken and its answer lost, the other was accepted.
#[tokio::test(flavor = "multi_thread")]
async fn v133_of_equal_texts_to_one_number_each_is_sent_once() {
    let kafka = Embedded::with_partitions(1);
    let stub = lossy().await;
    let nameless = asked(BY_CONTENT).replace("reference = \"{{ reference }}\"\n", "");
    let setup = Setup::new(&kafka, &stub.url()).with_profile(&nameless);
    let home = Home::new(&setup);
    let equal: Vec<_> = (0..12)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), "Your order has shipped")))
        .collect();
    kafka.publish(&equal).await;

    let worker = home.start(&setup);
    kafka.until_committed().await;
    Standing::of(&kafka, &home).holds(worker).await;
    assert_eq!(reasons(&dead_letters(&kafka)), []);
    // All requests are the same bytes, so that only their number can tell.
    let stats = stub.stats().await;
    assert_eq!((stats.keys, stats.deliveries), (1, 12));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_that_is_refused_proves_no_absence_and_the_outcome_stays_unknown() {
    let kafka = Embedded::with_partitions(1);
    let refusals = [
        "401 Unauthorized",
        "429 Too Many Requests",
        "503 Service Unavailable",
    ];
    let provider = Scripted::by(move |request, seen| {
        if request.line.starts_with("GET") {
            let status = refusals[seen.len() % refusals.len()];
            return Act::Answer(answer(status, "", r#"{"messages":[]}"#)).not_taking();
        }
        match request.body.contains("lost") {
            true => Act::Hang.taking(),
            false => accepting(),
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&asked(BY_REFERENCE))
        .set("RETRY__BASE", "20ms")
        .set("RETRY__CAP", "20ms")
        .set("RETRY__BUDGET", "4");
    let home = Home::new(&setup);
    let records = [
        Sent::json(&sms("e-1", "lost")),
        Sent::json(&sms("e-2", "hello")),
    ];
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let nothing = [("finding", "nothing")];
    assert_eq!(worker.count("sendonce_lookups_total", &nothing).await, 4);
    drop(worker);
    assert_eq!(
        reasons(&dead_letters(&kafka)),
        [("outcome_unknown", "no_key")]
    );
    let posts = provider
        .seen()
        .iter()
        .filter(|one| one.line.starts_with("POST"))
        .count();
    assert_eq!(posts, 2, "nothing is sent again");
}

/// What a provider lists for the one number and text, made at a moment relative to our clock.
fn listing(seconds: i64) -> Vec<u8> {
    let made_at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    let body = format!(
        r#"{{"messages":[{{"id":"m-1","to":"+447700900123","text":"lost","made_at":"{made_at:.0}"}}]}}"#
    );
    answer("200 OK", "", &body)
}

/// By the provider's clock, which is two minutes behind ours, what it took is older than our first attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_runs_two_minutes_ahead_makes_no_second_message() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, seen| {
        if request.line.starts_with("GET") {
            // By the provider's clock, two minutes behind ours.
            return Act::Answer(listing(-120)).not_taking();
        }
        match seen.iter().any(|one| one.line.starts_with("POST")) {
            false => Act::Hang.taking(),
            true => accepting(),
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&format!("{KEYLESS_PROFILE}{BY_CONTENT}"))
        .set("RETRY__BASE", "20ms")
        .set("RETRY__CAP", "20ms");
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "lost"))]).await;
    let _worker = home.start(&setup);
    kafka.until_committed().await;
    let taken = provider.seen().iter().filter(|one| one.taken).count();
    assert_eq!(taken, 1);
}

/// What a search by content finds may be a message that was accepted without an id.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_accepted_without_an_id_is_not_taken_for_an_equal_one() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, seen| {
        if request.line.starts_with("GET") {
            return Act::Answer(listing(0)).not_taking();
        }
        match seen
            .iter()
            .filter(|one| one.line.starts_with("POST"))
            .count()
        {
            0 => Act::Answer(answer("201 Created", "", "{}")).taking(),
            1 => Act::Hang.not_taking(),
            _ => accepting(),
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&format!("{KEYLESS_PROFILE}{BY_CONTENT}"))
        .set("RETRY__BASE", "20ms")
        .set("RETRY__CAP", "20ms");
    let home = Home::new(&setup);
    let equal = |id: &str| Sent::json(&sms(id, "lost")).keyed("k");
    kafka.publish(&[equal("e-1"), equal("e-2")]).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let accepted = worker
        .count("sendonce_outcomes_total", &[("outcome", "accepted")])
        .await;
    let taken = provider.seen().iter().filter(|one| one.taken).count();
    assert_eq!(
        accepted, taken as u64,
        "accepted by us, taken by the provider"
    );
}

/// A key that is too long goes out as a hash of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_took_is_found_by_its_key_after_the_window() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, seen| {
        let sent: Vec<_> = seen.iter().filter_map(|one| one.key()).collect();
        if request.line.starts_with("GET") {
            let known = sent.iter().any(|key| request.line.contains(key));
            let status = if known { "200 OK" } else { "404 Not Found" };
            return Act::Answer(answer(status, "", r#"{"id":"msg-1"}"#)).not_taking();
        }
        match sent.is_empty() {
            true => Act::Hang.taking(),
            false => accepting(),
        }
    })
    .await;
    let lookup = "\nunacknowledged = \"500ms\"\n\n[lookup]\nproof = \"key\"\nurl = \"http://127.0.0.1:8090/v1/messages/{{ key }}\"\n\
                  delay = \"500ms\"\nkeeps = \"1h\"\nabsent = 404\n";
    let profile = STUB_PROFILE
        .replace("max_len       = 255", "max_len       = 36")
        .replace("\"24h\"", "\"72s\"");
    let setup = Setup::new(&kafka, &provider.url()).with_profile(&format!("{profile}{lookup}"));
    let home = Home::new(&setup);
    let mut intent = sms("e-1", "lost");
    intent["idempotency_key"] = "orders/2026/11/30/customer-000000000181/attempt".into();
    kafka.publish(&[Sent::json(&intent)]).await;
    let _worker = home.start(&setup);
    kafka.until_committed().await;
    let posts = provider
        .seen()
        .iter()
        .filter(|one| one.line.starts_with("POST"))
        .count();
    assert_eq!(posts, 1);
}

/// One unknown outcome, whose look-ups alone fail.
#[tokio::test(flavor = "multi_thread")]
async fn look_ups_that_fail_do_not_hold_up_sends_that_would_go_well() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, _| {
        if request.line.starts_with("GET") {
            return refusing("503 Service Unavailable");
        }
        match request.body.contains("lost") {
            true => Act::Hang.taking(),
            false => accepting(),
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&asked(BY_REFERENCE))
        .set("RETRY__BASE", "20ms")
        .set("RETRY__CAP", "20ms");
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "lost"))]).await;
    let worker = home.start(&setup);
    let nothing = [("finding", "nothing")];
    worker
        .until_count("sendonce_lookups_total", &nothing, 6)
        .await;
    kafka.publish(&[Sent::json(&sms("e-2", "hello"))]).await;
    kafka.until_committed().await;

    let opened = "sendonce_provider_circuit_opened_total";
    assert_eq!(worker.count(opened, &[]).await, 0);
    assert_eq!(worker.count("sendonce_lookups_total", &nothing).await, 8);
    drop(worker);
    assert_eq!(
        reasons(&dead_letters(&kafka)),
        [("outcome_unknown", "no_key")]
    );
    assert!(provider.seen_with("hello").iter().any(|one| one.taken));
}

/// Sends have found the provider down: what its look-ups fail through then is not held against the intents.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_outlasts_the_budget_of_look_ups_and_every_outcome_is_found_all_the_same() {
    let kafka = Embedded::with_partitions(1);
    let is_back = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_back);
    let provider = Scripted::by(move |request, _| {
        if !told.load(Ordering::SeqCst) {
            return refusing("503 Service Unavailable");
        }
        match request.line.starts_with("GET") {
            true => Act::Answer(answer("200 OK", "", r#"{"messages":[]}"#)).not_taking(),
            false => accepting(),
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&asked(BY_REFERENCE))
        .set("RETRY__BASE", "20ms")
        .set("RETRY__CAP", "20ms")
        .set("RETRY__BUDGET", "6")
        .set("RETRY__PROBE_INTERVAL", "200ms")
        .set("BREAKER__FIRST_PROBE", "100ms");
    let home = Home::new(&setup);
    let intents: Vec<_> = (0..5)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), "hello")))
        .collect();
    kafka.publish(&intents).await;
    let worker = home.start(&setup);
    let nothing = [("finding", "nothing")];
    worker
        .until_count("sendonce_lookups_total", &nothing, 5 * 6 + 1)
        .await;
    is_back.store(true, Ordering::SeqCst);
    kafka.until_committed().await;
    Standing::of(&kafka, &home).holds(worker).await;
    assert_eq!(reasons(&dead_letters(&kafka)), []);
    let taken = provider.seen().iter().filter(|one| one.taken).count();
    assert_eq!(taken, 5);
}
