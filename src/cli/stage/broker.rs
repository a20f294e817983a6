//! The brokers of a rehearsal: those embedded in librdkafka, or real ones. It decides how much an embedded one may be given,
//! and says so loudly when it dropped something.
//!
//! The embedded broker keeps 5 MiB or 100,000 records of a partition and silently drops the oldest beyond that
//! (`rd_kafka_mock_partition_new` in rdkafka_mock.c of librdkafka 2.12.1); it creates no topics for its clients.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::future_producer::OwnedDeliveryResult;
use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::time::{Instant, sleep_until};

use super::cast::{Cue, RECORD_BYTES_MAX};

/// What the embedded broker keeps of one partition, in bytes.
const EMBEDDED_BYTES_MAX: u64 = 5 * 1024 * 1024;
/// What the embedded broker keeps of one partition, in records.
const EMBEDDED_RECORDS_MAX: u64 = 100_000;
/// The fewest partitions of a topic.
const PARTITIONS_MIN: u64 = 8;
/// How long any one question may take: a busy machine is within it.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Brokers to play with.
pub struct Broker {
    bootstrap: String,
    embedded: Option<MockCluster<'static, DefaultProducerContext>>,
}

/// The first and the next offset of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// The first offset that is kept.
    pub low: i64,
    /// The offset of the next record.
    pub high: i64,
}

/// So many partitions hold that many records: the fill stays below a half of what an embedded broker keeps, as keys are
/// spread by their hash.
pub fn partitions_for(records: u64) -> i32 {
    let by_bytes = (records * RECORD_BYTES_MAX).div_ceil(EMBEDDED_BYTES_MAX / 2);
    let by_records = records.div_ceil(EMBEDDED_RECORDS_MAX / 2);
    i32::try_from(PARTITIONS_MIN.max(by_bytes).max(by_records)).unwrap_or(i32::MAX)
}

impl Broker {
    /// Brokers inside this process, on ports of their own.
    ///
    /// # Errors
    ///
    /// When librdkafka cannot start them.
    pub fn embedded(count: i32) -> anyhow::Result<Self> {
        let cluster = MockCluster::new(count).context("the embedded brokers cannot be started")?;
        Ok(Self {
            bootstrap: cluster.bootstrap_servers(),
            embedded: Some(cluster),
        })
    }

    /// Real brokers.
    pub fn at(bootstrap: &str) -> Self {
        Self {
            bootstrap: bootstrap.to_owned(),
            embedded: None,
        }
    }

    /// `bootstrap.servers`.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Makes a topic. On an embedded broker it must be made before a client asks for it.
    ///
    /// # Errors
    ///
    /// When the brokers refuse.
    pub async fn create_topic(&self, topic: &str, partitions: i32) -> anyhow::Result<()> {
        if let Some(cluster) = &self.embedded {
            return cluster
                .create_topic(topic, partitions, 1)
                .with_context(|| format!("{topic} cannot be created"));
        }
        let admin: AdminClient<DefaultClientContext> = self.client().create()?;
        // The brokers' own default number of copies.
        let topics = [NewTopic::new(
            topic,
            partitions,
            TopicReplication::Fixed(-1),
        )];
        for result in admin
            .create_topics(
                &topics,
                &AdminOptions::new().operation_timeout(Some(ANSWER_WITHIN)),
            )
            .await?
        {
            result.map_err(|(topic, code)| anyhow::anyhow!("{topic} cannot be created: {code}"))?;
        }
        Ok(())
    }

    /// Deletes topics of real brokers; the embedded ones go with this process.
    ///
    /// # Errors
    ///
    /// When the brokers refuse.
    pub async fn delete_topics(&self, topics: &[&str]) -> anyhow::Result<()> {
        if self.embedded.is_none() {
            let admin: AdminClient<DefaultClientContext> = self.client().create()?;
            for result in admin.delete_topics(topics, &AdminOptions::new()).await? {
                result.map_err(|(topic, code)| {
                    anyhow::anyhow!("{topic} cannot be deleted: {code}")
                })?;
            }
        }
        Ok(())
    }

    /// One who publishes.
    ///
    /// # Errors
    ///
    /// When the client cannot be built.
    pub fn publisher(&self) -> anyhow::Result<FutureProducer> {
        let mut config = self.client();
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "5");
        // That of the Java client, so that all producers agree on a key's partition.
        config.set("partitioner", "murmur2_random");
        Ok(config.create()?)
    }

    /// One who asks what the brokers hold, and what `group` has committed. It never joins the group.
    ///
    /// # Errors
    ///
    /// When the client cannot be built.
    pub fn asker(&self, group: &str) -> anyhow::Result<Asker> {
        let mut config = self.client();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false");
        config.set("isolation.level", "read_committed");
        Ok(Asker {
            client: config.create()?,
        })
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.bootstrap)
            .set("client.id", "sendonce-rehearsal");
        config
    }
}

/// Publishes all cues, `per_second` at most where that is given, and returns each recipient's time of publishing in
/// milliseconds since 1970.
///
/// # Errors
///
/// When one is not acknowledged.
pub async fn publish(
    publisher: &FutureProducer,
    topic: &str,
    cues: impl Iterator<Item = Cue>,
    per_second: Option<u32>,
) -> anyhow::Result<HashMap<String, i64>> {
    /// How many are handed over before their acknowledgements are waited for.
    const AT_ONCE: usize = 1_000;
    let mut published = HashMap::new();
    let mut on_their_way = Vec::new();
    let start = Instant::now();
    let (mut count, mut cues) = (0_u32, cues.peekable());
    while cues.peek().is_some() {
        let due = per_second.map_or(AT_ONCE, |rate| {
            let due = u64::from(rate)
                * u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
                / 1_000;
            usize::try_from(due.saturating_sub(u64::from(count)))
                .unwrap_or(AT_ONCE)
                .min(AT_ONCE)
        });
        for cue in cues.by_ref().take(due) {
            let record = FutureRecord::to(topic).key(&cue.id).payload(&cue.value);
            let acknowledged = publisher.send_result(record).map_err(|(error, _)| error)?;
            on_their_way.push((cue.recipient, acknowledged));
            count += 1;
        }
        if per_second.is_some() && on_their_way.len() < AT_ONCE && cues.peek().is_some() {
            sleep_until(Instant::now() + Duration::from_millis(5)).await;
            continue;
        }
        for (recipient, acknowledged) in on_their_way.drain(..) {
            published.insert(recipient, time_of(acknowledged.await?)?);
        }
    }
    for (recipient, acknowledged) in on_their_way.drain(..) {
        published.insert(recipient, time_of(acknowledged.await?)?);
    }
    Ok(published)
}

fn time_of(result: OwnedDeliveryResult) -> anyhow::Result<i64> {
    let delivery = result
        .map_err(|(error, _)| error)
        .context("an intent was not acknowledged")?;
    delivery
        .timestamp
        .to_millis()
        .context("a record has no time")
}

/// Asks brokers. Its calls block for as long as the brokers take.
pub struct Asker {
    client: BaseConsumer,
}

impl Asker {
    /// What each partition of a topic holds, by number.
    ///
    /// # Errors
    ///
    /// When the brokers do not answer, or there is no such topic.
    pub fn watermarks(&self, topic: &str) -> anyhow::Result<Vec<Watermarks>> {
        let metadata = self.client.fetch_metadata(Some(topic), ANSWER_WITHIN)?;
        let count = metadata
            .topics()
            .iter()
            .find(|found| found.name() == topic)
            .map_or(0, |found| found.partitions().len());
        ensure!(count > 0, "there is no topic {topic}");
        (0..i32::try_from(count)?)
            .map(|partition| {
                let (low, high) = self
                    .client
                    .fetch_watermarks(topic, partition, ANSWER_WITHIN)?;
                Ok(Watermarks { low, high })
            })
            .collect()
    }

    /// How many records of a topic the group has not committed.
    ///
    /// # Errors
    ///
    /// When the brokers do not answer.
    pub fn uncommitted(&self, topic: &str) -> anyhow::Result<u64> {
        let watermarks = self.watermarks(topic)?;
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(topic, 0, i32::try_from(watermarks.len())? - 1);
        let answer = self.client.committed_offsets(asked, ANSWER_WITHIN)?;
        let committed: HashMap<i32, i64> = answer
            .elements()
            .iter()
            .filter_map(|element| match element.offset() {
                Offset::Offset(next) => Some((element.partition(), next)),
                Offset::Beginning
                | Offset::End
                | Offset::Stored
                | Offset::Invalid
                | Offset::OffsetTail(_) => None,
            })
            .collect();
        let open = (0_i32..).zip(&watermarks).map(|(partition, held)| {
            held.high - committed.get(&partition).copied().unwrap_or(held.low)
        });
        Ok(open.map(|open| u64::try_from(open).unwrap_or(0)).sum())
    }

    /// Every record of a topic, once it is certain that the broker has dropped none.
    ///
    /// # Errors
    ///
    /// When the brokers do not answer, or one has dropped records.
    pub fn records(&self, topic: &str) -> anyhow::Result<Vec<OwnedMessage>> {
        self.nothing_dropped(topic)?;
        let watermarks = self.watermarks(topic)?;
        let mut from = TopicPartitionList::new();
        let mut missing = 0_i64;
        for (partition, held) in (0_i32..)
            .zip(&watermarks)
            .filter(|(_, held)| held.low < held.high)
        {
            from.add_partition_offset(topic, partition, Offset::Offset(held.low))?;
            missing += held.high - held.low;
        }
        let mut records = Vec::new();
        self.client.assign(&from)?;
        while missing > 0 {
            let record = self
                .client
                .poll(ANSWER_WITHIN)
                .with_context(|| format!("{missing} records of {topic} do not come"))??;
            let end = watermarks
                .get(usize::try_from(record.partition())?)
                .map_or(0, |held| held.high);
            if record.offset() < end {
                missing -= 1;
                records.push(record.detach());
            }
        }
        self.client.unassign()?;
        Ok(records)
    }

    /// Fails if a record of a topic has been dropped.
    ///
    /// # Errors
    ///
    /// Names the partition.
    pub fn nothing_dropped(&self, topic: &str) -> anyhow::Result<()> {
        for (partition, held) in self.watermarks(topic)?.iter().enumerate() {
            if held.low != 0 {
                bail!(
                    "the embedded broker has dropped the first {} records of {topic}, partition {partition}: nothing can be concluded",
                    held.low
                );
            }
        }
        Ok(())
    }

    /// How many records a topic holds.
    ///
    /// # Errors
    ///
    /// When the brokers do not answer.
    pub fn count(&self, topic: &str) -> anyhow::Result<u64> {
        Ok(self
            .watermarks(topic)?
            .iter()
            .map(|held| u64::try_from(held.high - held.low).unwrap_or(0))
            .sum())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cast::cue;
    use super::*;

    #[test]
    fn partitions_stay_below_a_half_of_what_the_embedded_broker_keeps() {
        assert_eq!(partitions_for(0), 8);
        assert_eq!(partitions_for(10_000), 8);
        assert_eq!(partitions_for(10_241), 9);
        assert_eq!(partitions_for(100_000), 79);
    }

    #[tokio::test]
    async fn what_is_published_is_held_and_uncommitted() {
        let broker = Broker::embedded(1).unwrap();
        broker.create_topic("t", 2).await.unwrap();
        let published = publish(&broker.publisher().unwrap(), "t", (0..50).map(cue), None)
            .await
            .unwrap();
        assert_eq!(published.len(), 50);
        let asker = broker.asker("g").unwrap();
        assert_eq!(asker.uncommitted("t").unwrap(), 50);
        assert_eq!(asker.records("t").unwrap().len(), 50);
        assert_eq!(asker.count("t").unwrap(), 50);
    }

    #[tokio::test]
    async fn a_broker_that_dropped_records_is_not_trusted() {
        let broker = Broker::embedded(1).unwrap();
        broker.create_topic("t", 1).await.unwrap();
        let large = (0..600).map(|number| Cue {
            value: "x".repeat(10_000),
            ..cue(number)
        });
        publish(&broker.publisher().unwrap(), "t", large, None)
            .await
            .unwrap();
        let error = broker
            .asker("g")
            .unwrap()
            .records("t")
            .unwrap_err()
            .to_string();
        assert!(error.contains("has dropped the first"), "{error}");
    }
}
