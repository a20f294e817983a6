//! Which partition of which ledger topic belongs to a partition of intents: the one of the same number.

use std::sync::Arc;

use crate::domain::position::TopicPartition;

/// The log of one intents topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOf {
    /// The intents topic.
    pub intents: Arc<str>,
    /// Its ledger topic.
    pub ledger: Arc<str>,
    /// The partitions of both.
    pub partitions: i32,
}

/// Every log.
pub(super) struct Logs(pub(super) Vec<LogOf>);

impl Logs {
    /// The partition of the log that belongs to this partition of intents. What belongs to no topic of ours any more, because
    /// a lane was taken away, would belong to a topic named as ours are.
    pub(super) fn log_of(&self, intents: &TopicPartition) -> TopicPartition {
        let known = self.0.iter().find(|log| log.intents == intents.topic);
        let topic = match known {
            Some(log) => Arc::clone(&log.ledger),
            None => format!("{}.ledger", intents.topic).into(),
        };
        TopicPartition {
            topic,
            partition: intents.partition,
        }
    }

    /// The partition of intents that this partition of a log belongs to.
    pub(super) fn intents_of(&self, log: &TopicPartition) -> Option<TopicPartition> {
        let of = self.0.iter().find(|of| of.ledger == log.topic)?;
        Some(TopicPartition {
            topic: Arc::clone(&of.intents),
            partition: log.partition,
        })
    }

    /// Every partition of intents.
    pub(super) fn partitions(&self) -> Vec<TopicPartition> {
        let each = |log: &LogOf| {
            let topic = Arc::clone(&log.intents);
            (0..log.partitions).map(move |partition| TopicPartition {
                topic: Arc::clone(&topic),
                partition,
            })
        };
        self.0.iter().flat_map(each).collect()
    }
}
