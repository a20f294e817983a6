//! What a test asks of any broker, Apache Kafka or the one embedded in librdkafka: what it holds, and what was committed.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::message::OwnedMessage;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::waiting::until;

/// How long any one question to a broker may take. Generous: an election on a busy machine is within it.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Brokers at an address. Whoever asks them is kept: a new client a question would cost more than the question.
#[derive(Clone)]
pub struct Kafka {
    bootstrap: String,
    askers: Arc<Mutex<HashMap<String, Arc<BaseConsumer>>>>,
}

impl Kafka {
    /// The brokers at `bootstrap`.
    pub fn at(bootstrap: String) -> Self {
        Self {
            bootstrap,
            askers: Arc::default(),
        }
    }

    /// `bootstrap.servers`.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// A client's settings, with the address in.
    pub fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.bootstrap())
            .set("reconnect.backoff.max.ms", "500");
        config
    }

    /// The first and the next offset of each partition of `topic`.
    pub fn watermarks(&self, topic: &str) -> Vec<(i64, i64)> {
        self.try_watermarks(topic).expect("watermarks")
    }

    /// The same, or why the brokers do not say.
    fn try_watermarks(&self, topic: &str) -> KafkaResult<Vec<(i64, i64)>> {
        let asker = self.asker_of("asker");
        let metadata = asker.fetch_metadata(Some(topic), ANSWER_WITHIN)?;
        let partitions = metadata
            .topics()
            .iter()
            .flat_map(|topic| topic.partitions());
        let mut numbers: Vec<i32> = partitions.map(|partition| partition.id()).collect();
        numbers.sort_unstable();
        numbers
            .into_iter()
            .map(|number| asker.fetch_watermarks(topic, number, ANSWER_WITHIN))
            .collect()
    }

    /// What `group` has committed in each partition of `topic`: the next offset it would read.
    pub fn committed(&self, group: &str, topic: &str) -> Vec<Option<i64>> {
        self.try_committed(group, topic).expect("committed offsets")
    }

    /// The same, or why the brokers do not say: after a start a coordinator reads its groups first.
    pub fn try_committed(&self, group: &str, topic: &str) -> KafkaResult<Vec<Option<i64>>> {
        let partitions = self.try_watermarks(topic)?.len();
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(topic, 0, i32::try_from(partitions).expect("few") - 1);
        let answer = self
            .asker_of(group)
            .committed_offsets(asked, ANSWER_WITHIN)?;
        let mut committed: Vec<(i32, Option<i64>)> = answer
            .elements()
            .iter()
            .map(|element| {
                (
                    element.partition(),
                    element.offset().to_raw().filter(|offset| *offset >= 0),
                )
            })
            .collect();
        committed.sort_unstable();
        Ok(committed.into_iter().map(|(_, offset)| offset).collect())
    }

    /// Waits until `group` has committed the end of every partition of `topic`.
    pub async fn until_committed_to_the_end(&self, group: &str, topic: &str, at_most: Duration) {
        until(
            &format!("{group} to commit the end of {topic}"),
            at_most,
            async || (self.committed(group, topic), self.watermarks(topic)),
            |(committed, watermarks)| {
                let ends = watermarks.iter().map(|(_, next)| *next);
                committed
                    .iter()
                    .zip(ends)
                    .all(|(at, end)| at.unwrap_or(0) == end)
            },
        )
        .await;
    }

    /// All records that `topic` holds now, partition after partition in offset order.
    pub fn records(&self, topic: &str) -> Vec<OwnedMessage> {
        let watermarks = self.watermarks(topic);
        let mut from = TopicPartitionList::new();
        let mut missing: Vec<i64> = Vec::new();
        for (partition, (first, next)) in watermarks.iter().enumerate() {
            let number = i32::try_from(partition).expect("few");
            if first < next {
                from.add_partition_offset(topic, number, Offset::Offset(*first))
                    .expect("an offset");
            }
            missing.push(next - first);
        }
        let reader = self.asker();
        reader.assign(&from).expect("an assignment");
        let mut records: Vec<OwnedMessage> = Vec::new();
        while missing.iter().any(|count| *count > 0) {
            let record = reader
                .poll(ANSWER_WITHIN)
                .expect("a record before the time is over")
                .expect("a record")
                .detach();
            let partition =
                usize::try_from(rdkafka::Message::partition(&record)).expect("a partition");
            missing[partition] -= 1;
            records.push(record);
        }
        records.sort_by_key(|record| {
            (
                rdkafka::Message::partition(record),
                rdkafka::Message::offset(record),
            )
        });
        records
    }

    /// A client that asks and never joins a group.
    pub fn asker(&self) -> BaseConsumer {
        self.new_asker("asker")
    }

    /// The one that asks on behalf of a group.
    fn asker_of(&self, group: &str) -> Arc<BaseConsumer> {
        let mut askers = self.askers.lock().expect("askers");
        let asker = askers.entry(group.to_owned());
        Arc::clone(asker.or_insert_with(|| Arc::new(self.new_asker(group))))
    }

    fn new_asker(&self, group: &str) -> BaseConsumer {
        self.client()
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "false")
            .create()
            .expect("a consumer")
    }
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kafka").field(&self.bootstrap).finish()
    }
}
