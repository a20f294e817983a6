//! That the brokers under the suites do what the suites rely on.

use std::net::TcpStream;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::kafka_cluster::{Cluster, Size, private, shared};

/// Produces `count` numbered records to partition 0, each acknowledged by all in-sync replicas.
async fn produce(cluster: &Cluster, topic: &str, count: usize) {
    let producer: FutureProducer = cluster
        .client()
        .set("enable.idempotence", "true")
        .create()
        .expect("a producer");
    for number in 0..count {
        let value = number.to_string();
        let record = FutureRecord::<(), str>::to(topic)
            .partition(0)
            .payload(&value);
        producer
            .send(record, Duration::from_secs(30))
            .await
            .unwrap_or_else(|(why, _)| panic!("record {number}: {why}"));
    }
}

fn values(cluster: &Cluster, topic: &str) -> Vec<String> {
    let records = cluster.records(topic);
    let payloads = records
        .iter()
        .map(|record| record.payload().expect("a value"));
    payloads
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_read_back_in_order_and_nothing_is_committed_yet() {
    let Some(cluster) = shared() else { return };
    let topic = "brokers-read-back";
    cluster.create_topics(&[(topic, 2)]).await;

    produce(cluster, topic, 5).await;

    assert_eq!(values(cluster, topic), ["0", "1", "2", "3", "4"]);
    assert_eq!(cluster.watermarks(topic), [(0, 5), (0, 0)]);
    assert_eq!(cluster.committed("brokers-nobody", topic), [None, None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_for_commits_ends_at_the_commit_of_the_last_record() {
    let Some(cluster) = shared() else { return };
    let (topic, group) = ("brokers-commits", "brokers-committing");
    cluster.create_topics(&[(topic, 1)]).await;
    produce(cluster, topic, 2).await;

    let consumer: BaseConsumer = cluster
        .client()
        .set("group.id", group)
        .create()
        .expect("a consumer");
    let mut to = TopicPartitionList::new();
    to.add_partition_offset(topic, 0, Offset::Offset(2))
        .expect("an offset");
    consumer.commit(&to, CommitMode::Sync).expect("committed");

    cluster
        .until_committed_to_the_end(group, topic, Duration::from_secs(10))
        .await;
    assert_eq!(cluster.committed(group, topic), [Some(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_a_broker_is_killed_and_comes_back() {
    let Some(cluster) = private(Size::Three, &[]) else {
        return;
    };
    let topic = "killed";
    cluster.create_topics(&[(topic, 1)]).await;
    produce(&cluster, topic, 3).await;

    cluster.kill(1);
    produce(&cluster, topic, 3).await;
    cluster.restart(1);

    assert_eq!(values(&cluster, topic), ["0", "1", "2", "0", "1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_broker_keeps_its_port_and_says_nothing_and_a_dropped_one_is_gone() {
    let Some(cluster) = private(Size::One, &[]) else {
        return;
    };
    let broker = cluster.broker(1).to_owned();
    let asker: BaseConsumer = cluster.client().create().expect("a consumer");
    let answers = |within| asker.fetch_metadata(None, within).is_ok();
    assert!(answers(Duration::from_secs(30)));

    cluster.freeze(1);
    assert!(!answers(Duration::from_secs(1)));
    assert!(TcpStream::connect(&broker).is_ok());

    cluster.thaw(1);
    assert!(answers(Duration::from_secs(30)));

    drop(cluster);
    assert!(TcpStream::connect(&broker).is_err());
}
