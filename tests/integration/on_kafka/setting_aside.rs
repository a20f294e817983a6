//! Dead letters on brokers with limits of their own, on brokers that are away, and in topics of another shape.

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::place::Place;
use crate::dead_letters::reasons;
use crate::kafka_cluster::{Cluster, Size, private, shared};
use crate::product::{Home, SOON, STUB_PROFILE, Sent, code, patient, sms};
use crate::scripted::{Scripted, accepting, refusing};

/// A valid intent of exactly so many bytes.
fn of_size(id: &str, bytes: usize) -> Sent {
    let with = |text: &str| sms(id, text).to_string().len();
    Sent::json(&sms(id, &"a".repeat(bytes - with(""))))
}

async fn refusing_all() -> Scripted {
    Scripted::playing([refusing("400 Bad Request")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn p42_what_fits_the_brokers_default_limits_is_set_aside_whole() {
    let Some(kafka) = shared() else { return };
    let place = Place::new(kafka, "p42-whole", 1).await;
    let provider = refusing_all().await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    let record = of_size("e-1042", 999_900);
    place.publish(std::slice::from_ref(&record)).await;

    let worker = home.start(&setup);
    place.until_committed_to_the_end().await;
    let letters = place.letters();
    assert_eq!(reasons(&letters), [("rejected", "refused")]);
    assert_eq!(letters[0].value, record.value, "its bytes are unchanged");
    assert_eq!(letters[0].value.as_ref().map(Vec::len), Some(999_900));
    assert_eq!(provider.seen().len(), 1);
    let rejected = [("reason", "rejected")];
    assert_eq!(
        worker.count("sendonce_dead_letters_total", &rejected).await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p42_what_the_dead_letter_topic_does_not_take_leaves_its_value_out_and_what_fits_alone_is_whole()
 {
    let Some(kafka) = shared() else { return };
    let place = Place::without_topics(kafka, "p42-small");
    kafka.create_topics(&[("p42-small", 1)]).await;
    let limit = [("max.message.bytes", "500000")];
    kafka.create_topic("p42-small.dlq", 1, &limit).await;
    let provider = refusing_all().await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    // The second and the third together are over the limit, as one batch would be.
    let records = [
        of_size("large", 999_900),
        of_size("first half", 300_000),
        of_size("second half", 300_000),
    ];
    place.publish(&records).await;

    let worker = home.start(&setup);
    place.until_committed_to_the_end().await;
    let letters = place.letters();
    let told = [
        ("rejected", "value_omitted"),
        ("rejected", "refused"),
        ("rejected", "refused"),
    ];
    assert_eq!(reasons(&letters), told);
    assert_eq!(letters[0].value, None);
    assert_eq!(letters[0].origin, (0, 0));
    assert_eq!(letters[0].header("event-id"), Some("large"));
    assert_eq!(letters[0].header("value-size"), Some("999900"));
    let value = records[0].value.as_ref().expect("a value");
    let hash: String = Sha256::digest(value)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(letters[0].header("value-sha256"), Some(&*hash));
    assert_eq!(letters[1].value, records[1].value);
    assert_eq!(letters[2].value, records[2].value);
    assert_eq!(provider.seen().len(), 3);
    assert_eq!(worker.count("sendonce_dead_letters_total", &[]).await, 3);
}

/// A topic whose one partition lies on these brokers alone.
async fn create_on(kafka: &Cluster, name: &str, brokers: &[i32]) {
    let admin: AdminClient<DefaultClientContext> = kafka.client().create().expect("an admin");
    let replicas = [brokers];
    let topic = NewTopic::new(name, 1, TopicReplication::Variable(&replicas))
        .set("min.insync.replicas", "1");
    let created = admin.create_topics([&topic], &AdminOptions::new()).await;
    for created in created.expect("an answer") {
        created.expect("a topic");
    }
    kafka.until_led(name, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p43a_a_dead_letter_whose_broker_is_away_is_tried_until_it_is_acknowledged() {
    let Some(kafka) = private(Size::Three, &[]) else {
        return;
    };
    let place = Place::without_topics(&kafka, "p43a");
    create_on(&kafka, "p43a", &[1, 2]).await;
    create_on(&kafka, "p43a.dlq", &[3]).await;
    let provider = Scripted::by(|request, _| {
        if request.body.contains("refuse me") {
            refusing("400 Bad Request")
        } else {
            accepting()
        }
    })
    .await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE))
        .set("KAFKA__PROPERTIES__MESSAGE_TIMEOUT_MS", "2000");
    let home = Home::new(&setup);
    let worker = home.start(&setup);
    worker.until_ready().await;

    kafka.kill(3);
    let records = [
        Sent::json(&sms("accepted before", "hello")),
        Sent::json(&sms("refused", "refuse me")),
        Sent::json(&sms("accepted behind", "hello")),
    ];
    place.publish(&records).await;
    worker.until_not_ready("dead_letters").await;
    let accepted = [("outcome", "accepted")];
    worker
        .until_count("sendonce_outcomes_total", &accepted, 2)
        .await;
    let committed = [("result", "ok")];
    worker
        .until_count("sendonce_commits_total", &committed, 1)
        .await;
    assert_eq!(
        place.committed(),
        [Some(1)],
        "not over what is not acknowledged"
    );

    kafka.restart(3);
    worker.until_ready().await;
    place.until_committed_to_the_end().await;
    let letters = place.letters();
    assert_eq!(reasons(&letters), [("rejected", "refused")]);
    assert_eq!(letters[0].value, records[1].value);
    assert_eq!(
        provider.seen().len(),
        3,
        "the provider was not called again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p43c_a_missing_topic_is_found_at_start_or_created_if_that_was_asked_for() {
    let Some(kafka) = shared() else { return };
    let place = Place::without_topics(kafka, "p43c");
    let provider = Scripted::playing([accepting()]).await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    assert_eq!(code(home.start(&setup).ended(SOON).await), 78);
    assert!(
        home.log().contains("topic p43c does not exist"),
        "{}",
        home.log()
    );

    kafka.create_topics(&[("p43c", 1)]).await;
    assert_eq!(code(home.start(&setup).ended(SOON).await), 78);
    assert!(
        home.log().contains("topic p43c.dlq does not exist"),
        "{}",
        home.log()
    );

    let setup = setup
        .set("KAFKA__CREATE_TOPICS", "true")
        .set("KAFKA__PARTITIONS", "3");
    place
        .publish(&[Sent::json(&json!({"id": "e-1043", "to": "nobody"}))])
        .await;
    let _worker = home.start(&setup);
    place.until_committed_to_the_end().await;
    assert_eq!(kafka.watermarks("p43c.dlq").len(), 3);
    assert_eq!(place.letters().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn p43d_a_dead_letter_topic_of_one_partition_takes_letters_from_every_partition() {
    let Some(kafka) = shared() else { return };
    let place = Place::without_topics(kafka, "p43d");
    kafka.create_topics(&[("p43d", 6), ("p43d.dlq", 1)]).await;
    let provider = refusing_all().await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    place
        .publish(&[Sent::json(&sms("e-1043", "hello")).keyed("k").at(5)])
        .await;

    let _worker = home.start(&setup);
    place.until_committed_to_the_end().await;
    let letters = place.letters();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].origin, letters[0].partition), ((5, 0), 0));
    assert_eq!(letters[0].key.as_deref(), Some(&b"k"[..]));
    assert_eq!(provider.seen().len(), 1);
}
