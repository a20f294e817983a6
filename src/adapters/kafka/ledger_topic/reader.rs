//! Reads the ledger topic, partition by partition, from where it is told to and on without end. It is a member of no group.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::Message as _;
use rdkafka::{ClientConfig, Offset as Place, TopicPartitionList};

use super::encoding::{Unreadable, decode};
use crate::adapters::kafka::oauth::TokenSource;
use crate::adapters::kafka::speaker::Speaker;
use crate::domain::ledger_log::Logged;
use crate::domain::position::{NextOffset, Offset, Position, TopicPartition};

/// What one look at the log brought.
#[derive(Debug)]
pub enum Told {
    /// A record.
    Record {
        /// Where it stands.
        at: Position,
        /// What it says.
        logged: Result<Logged, Unreadable>,
    },
    /// Something went wrong that the client goes on trying to mend.
    Fault(KafkaError),
    /// Nothing within the time.
    Nothing,
}

/// A reader of the ledger topic.
pub struct LedgerReader {
    inner: BaseConsumer<Speaker>,
}

impl LedgerReader {
    /// Reads nothing yet.
    ///
    /// # Errors
    ///
    /// When librdkafka does not take the properties.
    pub fn new(config: &ClientConfig, tokens: TokenSource) -> KafkaResult<Self> {
        let inner = config.create_with_context(Speaker::new("ledger-reader", tokens))?;
        Ok(Self { inner })
    }

    /// Reads these partitions from now on, each from the given place, or from its beginning; and no others. Where the place
    /// turns out not to be in the log any more, reading goes back to the log's beginning, and the offsets with it.
    ///
    /// # Errors
    ///
    /// When librdkafka does not take them.
    pub fn follow(&self, partitions: &[(TopicPartition, Option<NextOffset>)]) -> KafkaResult<()> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for (partition, from) in partitions {
            let place = from.map_or(Place::Beginning, |next| Place::Offset(next.0));
            list.add_partition_offset(&partition.topic, partition.partition, place)?;
        }
        self.inner.assign(&list)
    }

    /// Looks once, for at most `timeout`.
    pub fn poll(&self, timeout: Duration) -> Told {
        match self.inner.poll(timeout) {
            Some(Ok(message)) => Told::Record {
                at: Position {
                    partition: TopicPartition {
                        topic: message.topic().into(),
                        partition: message.partition(),
                    },
                    offset: Offset(message.offset()),
                },
                logged: decode(message.payload()),
            },
            Some(Err(error)) => Told::Fault(error),
            None => Told::Nothing,
        }
    }

    /// The oldest offset of a partition and the one after the newest, asked of the broker.
    ///
    /// # Errors
    ///
    /// When it does not answer in time.
    pub fn watermarks(
        &self,
        partition: &TopicPartition,
        timeout: Duration,
    ) -> KafkaResult<(Offset, NextOffset)> {
        let (topic, number) = (&partition.topic, partition.partition);
        let (low, high) = self.inner.fetch_watermarks(topic, number, timeout)?;
        Ok((Offset(low), NextOffset(high)))
    }
}
