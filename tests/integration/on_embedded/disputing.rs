//! Another instance says in the ledger topic that it owns a partition that the group has given to us.

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use sendonce::stub_provider::Options;

use crate::product::{Embedded, Home, KEYLESS_PROFILE, SOON, Sent, Setup, publish, sms};
use crate::stub::Stub;
use crate::waiting::until;

const LEDGER_TOPIC: &str = "send-intents.ledger";
const CONFIRMED: &str = "confirmed to be ours: a new tenure begins";
const REPEATED: &str = "takes the partition in the ledger topic again and again";

async fn keyless() -> Stub {
    let options = Options {
        keys: false,
        ..Options::default()
    };
    Stub::start(options).await
}

fn replicated(kafka: &Embedded, url: &str) -> Setup {
    Setup::new(kafka, url)
        .with_profile(KEYLESS_PROFILE)
        .set("LEDGER__REPLICATION", "topic")
}

fn intents(from: usize, count: usize) -> Vec<Sent> {
    let one = |n| Sent::json(&sms(&format!("e-{n}"), "hello"));
    (from..from + count).map(one).collect()
}

/// What an earlier owner says late.
fn marker() -> Sent {
    let mut bytes = b"so\x01\x00\x10".to_vec();
    bytes.extend_from_slice(&[9; 16]);
    Sent::bytes(bytes).at(0)
}

async fn until_logged(home: &Home, line: &str) {
    let has = |log: &String| log.contains(line);
    until(line, SOON, async || home.log(), has).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_owner_s_late_word_stops_nothing_where_nothing_was_committed_yet() {
    let kafka = Embedded::with_partitions(1);
    let stub = keyless().await;
    let setup = replicated(&kafka, &stub.url());
    let home = Home::new(&setup);
    let worker = home.start(&setup);
    // The profile and our own marker.
    let end = async || kafka.watermarks(LEDGER_TOPIC)[0].1;
    until("our marker", SOON, end, |end| *end >= 2).await;
    publish(&kafka, LEDGER_TOPIC, &[marker()]).await;
    until_logged(&home, CONFIRMED).await;
    kafka.publish(&intents(0, 3)).await;
    kafka.until_committed().await;
    assert_eq!(stub.stats().await.deliveries, 3);
    worker.until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_rebalances_is_asked_again_whose_a_disputed_partition_is() {
    let kafka = Embedded::with_partitions(1);
    let stub = keyless().await;
    let setup = replicated(&kafka, &stub.url());
    let home = Home::new(&setup);
    kafka.publish(&intents(0, 2)).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let busy = RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
    kafka
        .cluster()
        .request_errors(RDKafkaApiKey::OffsetCommit, &[busy; 2]);
    publish(&kafka, LEDGER_TOPIC, &[marker()]).await;
    worker.until_not_ready("owner_disputed").await;
    until_logged(&home, CONFIRMED).await;
    kafka.publish(&intents(10, 3)).await;
    kafka.until_committed().await;
    assert_eq!(stub.stats().await.deliveries, 5);
    worker.until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_groups_on_one_ledger_topic_take_it_from_each_other_ever_more_seldom_and_double_nothing()
 {
    let kafka = Embedded::with_partitions(1);
    let stub = keyless().await;
    let setup = replicated(&kafka, &stub.url());
    let other = setup.clone().in_another_group();
    let (one, two) = (Home::new(&setup), Home::new(&other));
    kafka.publish(&intents(0, 1)).await;
    let _first = one.start(&setup);
    kafka.until_committed().await;
    let _second = two.start(&other);
    let logs = async || one.log() + &two.log();
    let repeated = |log: &String| log.contains(REPEATED);
    until("a warning", SOON, logs, repeated).await;

    kafka.publish(&intents(10, 20)).await;
    kafka.until_committed().await;
    kafka.until_committed_in_another_group().await;
    for home in [&one, &two] {
        let log = home.log();
        assert!(log.matches(CONFIRMED).count() <= 10, "{log}");
        assert!(log.matches(REPEATED).count() <= 1, "said once");
    }
    assert!(stub.stats().await.deliveries <= 21, "none is sent twice");
}
