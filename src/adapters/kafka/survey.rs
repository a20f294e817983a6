//! Looks at a cluster without touching it: its brokers, its topics and their settings, and whether the group lets us in.
//! What is good or bad about what it sees, others decide.
//!
//! A token is fetched on the thread that asks, which must be none of an async runtime's.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{ClientConfig, TopicPartitionList};

use crate::adapters::clock::BootMoment;

use super::oauth::TokenSource;
use super::sides::for_both;
use super::speaker::Speaker;

/// A client that looks.
pub struct Survey {
    config: ClientConfig,
    tokens: TokenSource,
    client: BaseConsumer<Speaker>,
    timeout: Duration,
}

/// What a topic is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicShape {
    /// Its partitions.
    pub partitions: usize,
    /// The fewest replicas that any of them has.
    pub replicas: usize,
}

impl Survey {
    /// Makes the client; connects to nothing yet. With a `group.id` in `config`, `committed` can be asked. No question
    /// waits longer than `timeout`.
    ///
    /// # Errors
    ///
    /// When librdkafka does not take the properties.
    pub fn new(config: &ClientConfig, tokens: TokenSource, timeout: Duration) -> KafkaResult<Self> {
        let context = Speaker::new("survey", tokens.clone());
        let client = config.create_with_context(context)?;
        Ok(Self {
            config: config.clone(),
            tokens,
            client,
            timeout,
        })
    }

    /// How many brokers the cluster has.
    ///
    /// # Errors
    ///
    /// When none can be reached, or none lets us in.
    pub fn brokers(&self) -> KafkaResult<usize> {
        self.serve(Duration::ZERO);
        let metadata = self.client.fetch_metadata(None, self.timeout)?;
        Ok(metadata.brokers().len())
    }

    /// What `topic` is like; `None` if there is no such topic.
    ///
    /// # Errors
    ///
    /// When no broker answers, or the topic may not be described.
    pub fn topic(&self, topic: &str) -> KafkaResult<Option<TopicShape>> {
        self.serve(Duration::ZERO);
        let metadata = self.client.fetch_metadata(Some(topic), self.timeout)?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Ok(None);
        };
        match found.error().map(RDKafkaErrorCode::from) {
            None => Ok(Some(TopicShape {
                partitions: found.partitions().len(),
                replicas: found
                    .partitions()
                    .iter()
                    .map(|partition| partition.replicas().len())
                    .min()
                    .unwrap_or(0),
            })
            .filter(|shape| shape.partitions > 0)),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                Ok(None)
            }
            Some(code) => Err(KafkaError::MetadataFetch(code)),
        }
    }

    /// The same of a topic that has just been created: asks until the brokers know of it, or the time is up.
    ///
    /// # Errors
    ///
    /// As `topic`.
    pub fn until_there(&self, topic: &str) -> KafkaResult<Option<TopicShape>> {
        let end = BootMoment::after(self.timeout);
        loop {
            let found = self.topic(topic)?;
            if found.is_some() || end.has_passed() {
                return Ok(found);
            }
            self.serve(Duration::from_millis(100));
        }
    }

    /// All settings of `topic`. The binding's admin client never fetches a token, so this fails with OAUTHBEARER.
    ///
    /// # Errors
    ///
    /// When no broker answers, the topic's settings may not be read, or the broker (the mock cluster, for one) knows no such
    /// question.
    pub async fn settings(&self, topic: &str) -> KafkaResult<BTreeMap<String, String>> {
        let config = for_both(&self.config);
        let context = Speaker::new("survey", self.tokens.clone());
        let admin: AdminClient<Speaker> = config.create_with_context(context)?;
        let options = AdminOptions::new().request_timeout(Some(self.timeout));
        let mut settings = BTreeMap::new();
        let described = admin
            .describe_configs([&ResourceSpecifier::Topic(topic)], &options)
            .await?;
        for resource in described {
            for entry in resource.map_err(KafkaError::AdminOp)?.entries {
                if let Some(value) = entry.value {
                    settings.insert(entry.name, value);
                }
            }
        }
        Ok(settings)
    }

    /// Asks the group's coordinator for its positions in `topic`. Returns in how many of the partitions it has one.
    ///
    /// # Errors
    ///
    /// When the coordinator does not answer, or the group does not let us in.
    pub fn committed(&self, topic: &str, partitions: usize) -> KafkaResult<usize> {
        let mut list = TopicPartitionList::with_capacity(partitions);
        for number in 0..partitions {
            list.add_partition(topic, i32::try_from(number).unwrap_or(i32::MAX));
        }
        let committed = self.client.committed_offsets(list, self.timeout)?;
        let known = committed.elements();
        for element in &known {
            element.error()?;
        }
        let has_position = known
            .iter()
            .filter(|element| element.offset().to_raw() >= Some(0));
        Ok(has_position.count())
    }

    /// Lets the client say what it has to say, for that long: only then it fetches a token that it needs.
    fn serve(&self, span: Duration) {
        drop(self.client.poll(span));
    }
}
