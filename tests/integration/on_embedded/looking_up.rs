//! Unknown outcomes at a provider that recognises no keys and can be asked.

use std::time::Duration;

use sendonce::stub_provider::{Fault, Options};

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{Embedded, Home, KEYLESS_PROFILE, SOON, Sent, Setup, sms};
use crate::scripted::{Act, Scripted, accepting, answer};
use crate::standing::Standing;
use crate::stub::{Stub, mix};

const BY_REFERENCE: &str = r#"
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
