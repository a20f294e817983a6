//! A test's own place on brokers that others use too: a topic, its dead letters and a consumer group, all of one name.

use rdkafka::consumer::Consumer as _;

use crate::dead_letters::{DeadLetter, dead_letters_in};
use crate::kafka_cluster::Cluster;
use crate::kafka_view::ANSWER_WITHIN;
use crate::product::{SOON, Sent, Setup, publish};
use crate::waiting::until;

/// A topic, its dead-letter topic, and a group that is named after it.
pub struct Place<'a> {
    kafka: &'a Cluster,
    name: String,
}

impl<'a> Place<'a> {
    /// One with both topics of so many partitions.
    pub async fn new(kafka: &'a Cluster, name: &str, partitions: usize) -> Self {
        let place = Self::without_topics(kafka, name);
        let letters = place.letters_topic();
        kafka
            .create_topics(&[(name, partitions), (&letters, partitions)])
            .await;
        place
    }

    /// One whose topics the test creates itself.
    pub fn without_topics(kafka: &'a Cluster, name: &str) -> Self {
        Self {
            kafka,
            name: name.to_owned(),
        }
    }

    /// The name of the dead-letter topic.
    pub fn letters_topic(&self) -> String {
        format!("{}.dlq", self.name)
    }

    /// The name of the ledger topic.
    pub fn ledger_topic(&self) -> String {
        format!("{}.ledger", self.name)
    }

    /// A worker of the group that sends to the provider at `provider_url`.
    pub fn setup(&self, provider_url: &str) -> Setup {
        Setup::new(self.kafka, provider_url)
            .set("KAFKA__TOPIC", &self.name)
            .set("KAFKA__GROUP", &self.name)
    }

    /// Publishes records in order.
    pub async fn publish(&self, records: &[Sent]) {
        publish(self.kafka, &self.name, records).await;
    }

    /// What the group has committed in each partition.
    pub fn committed(&self) -> Vec<Option<i64>> {
        self.kafka.committed(&self.name, &self.name)
    }

    /// Waits until the group has committed the end of every partition.
    pub async fn until_committed_to_the_end(&self) {
        self.kafka
            .until_committed_to_the_end(&self.name, &self.name, SOON)
            .await;
    }

    /// What was set aside.
    pub fn letters(&self) -> Vec<DeadLetter> {
        dead_letters_in(self.kafka, &self.letters_topic())
    }

    /// Waits until the coordinator counts so many members in a group that has settled.
    pub async fn until_members(&self, count: usize) {
        let asker = self.kafka.asker();
        let members = async || {
            let listed = asker.fetch_group_list(Some(&self.name), ANSWER_WITHIN);
            let listed = listed.ok()?;
            let group = listed.groups().first()?;
            let settled = ["Stable", "Empty"].contains(&group.state());
            settled.then_some(group.members().len())
        };
        let what = format!("{count} members in group {}", self.name);
        until(&what, SOON, members, |members| *members == Some(count)).await;
    }
}
