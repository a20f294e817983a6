//! Where reading begins in a partition: where the group committed, and where it has not, where it was told to.

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use sendonce::adapters::clock::Clock;
use sendonce::domain::time::Timestamp;

use super::place::Place;
use crate::kafka_cluster::shared;
use crate::product::{Home, SOON, STUB_PROFILE, Sent, code, patient, sms};
use crate::scripted::{Scripted, accepting};
use crate::stub::Stub;

#[tokio::test(flavor = "multi_thread")]
async fn p40_a_group_whose_offsets_are_gone_reads_all_again_and_sends_nothing() {
    let Some(kafka) = shared() else { return };
    let place = Place::new(kafka, "p40", 4).await;
    let stub = Stub::with(&[]).await;
    let setup = place
        .setup(&stub.url())
        .with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    let records: Vec<Sent> = (0..10_000)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), "hello")).keyed(&n.to_string()))
        .collect();
    place.publish(&records).await;
    let mut worker = home.start(&setup);
    place.until_committed_to_the_end().await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);
    let accepted = stub.stats().await.deliveries;
    assert_eq!((accepted, stub.requests().await), (10_000, 10_000));

    place.until_members(0).await;
    let admin: AdminClient<DefaultClientContext> = kafka.client().create().expect("an admin");
    let deleted = admin.delete_groups(&["p40"], &AdminOptions::new()).await;
    for deleted in deleted.expect("an answer") {
        deleted.expect("it is deleted");
    }
    assert_eq!(place.committed(), [None; 4]);

    let mut worker = home.start(&setup);
    place.until_committed_to_the_end().await;
    let from_ledger = [("reason", "ledger")];
    worker
        .until_count("sendonce_suppressed_total", &from_ledger, 10_000)
        .await;
    assert_eq!(worker.count("sendonce_attempts_total", &[]).await, 0);
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);
    assert_eq!(stub.requests().await, 10_000, "nothing was sent again");
    let told = "the group has no committed position here";
    assert_eq!(
        home.log().matches(told).count(),
        8,
        "a line a partition, each time"
    );
}

fn seen(provider: &Scripted) -> Vec<String> {
    let texts = provider.seen().into_iter().map(|request| {
        let body: serde_json::Value = serde_json::from_str(&request.body).expect("JSON");
        body["content"]["text"].as_str().expect("a text").to_owned()
    });
    texts.collect()
}

fn text(text: &str) -> Sent {
    Sent::json(&sms(text, text))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_at_the_latest_passes_over_what_is_old_and_nothing_that_comes_after() {
    let Some(kafka) = shared() else { return };
    let place = Place::new(kafka, "start-at-latest", 1).await;
    let provider = Scripted::playing([accepting()]).await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    place.publish(&[text("old"), text("also old")]).await;

    let mut worker = home.start_with(&setup, &["--start-at", "latest"]);
    worker.until_ready().await;
    // Killed before it has read anything, it must not begin behind what comes meanwhile.
    worker.kill();
    place.publish(&[text("while nobody ran")]).await;
    let mut worker = home.start_with(&setup, &["--start-at", "latest"]);
    place.until_committed_to_the_end().await;
    place.publish(&[text("new")]).await;
    place.until_committed_to_the_end().await;
    assert_eq!(seen(&provider), ["while nobody ran", "new"]);
    worker.kill();

    // Where the group has committed, it goes on there.
    let mut worker = home.start_with(&setup, &["--start-at", "earliest"]);
    place.publish(&[text("newest")]).await;
    place.until_committed_to_the_end().await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);
    assert_eq!(seen(&provider), ["while nobody ran", "new", "newest"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_at_a_moment_begins_with_the_first_record_of_that_moment_or_later() {
    let Some(kafka) = shared() else { return };
    let place = Place::new(kafka, "start-at-moment", 2).await;
    let provider = Scripted::playing([accepting()]).await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    let hours_ago = |hours: i64| Clock::wall().as_millis() - hours * 3_600_000;
    let at = |name: &str, hours: i64| Sent {
        timestamp_ms: Some(hours_ago(hours)),
        ..text(name).at(0)
    };
    place
        .publish(&[
            at("three hours old", 3),
            at("two hours old", 2),
            at("one hour old", 1),
        ])
        .await;
    // In the other partition nothing is young enough: reading begins at its end.
    place
        .publish(&[Sent {
            timestamp_ms: Some(hours_ago(3)),
            ..text("old in the other").at(1)
        }])
        .await;

    let moment = Timestamp::from_millis(hours_ago(2) - 60_000).to_string();
    let mut worker = home.start_with(&setup, &["--start-at", &moment]);
    place.until_committed_to_the_end().await;
    place.publish(&[text("new in the other").at(1)]).await;
    place.until_committed_to_the_end().await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);
    let mut seen = seen(&provider);
    seen.sort();
    assert_eq!(seen, ["new in the other", "one hour old", "two hours old"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_anew_under_a_running_worker_is_read_from_its_beginning() {
    let Some(kafka) = shared() else { return };
    let place = Place::new(kafka, "made-anew", 1).await;
    let provider = Scripted::playing([accepting()]).await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE))
        .set(
            "KAFKA__PROPERTIES__TOPIC_METADATA_REFRESH_INTERVAL_MS",
            "1000",
        );
    let home = Home::new(&setup);
    let before: Vec<Sent> = (0..5).map(|n| text(&format!("before {n}"))).collect();
    place.publish(&before).await;
    let mut worker = home.start(&setup);
    place.until_committed_to_the_end().await;

    let admin: AdminClient<DefaultClientContext> = kafka.client().create().expect("an admin");
    let deleted = admin.delete_topics(&["made-anew"], &AdminOptions::new());
    for deleted in deleted.await.expect("an answer") {
        deleted.expect("it is deleted");
    }
    kafka.until_led("made-anew", 0).await;
    kafka.create_topics(&[("made-anew", 1)]).await;
    let after: Vec<Sent> = (0..3).map(|n| text(&format!("after {n}"))).collect();
    place.publish(&after).await;
    provider.until_seen(8).await;
    place.until_committed_to_the_end().await;
    assert_eq!(place.committed(), [Some(3)]);
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0, "{}", home.log());
    let told = seen(&provider);
    assert_eq!(
        told.iter().filter(|text| text.starts_with("after")).count(),
        3
    );
    assert_eq!(told.len(), 8, "each once");
}
