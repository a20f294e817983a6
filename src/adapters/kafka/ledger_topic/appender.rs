//! Appends to the ledger topic: idempotently, with acks=all, and tells where the broker put each record.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};

use super::encoding::encode;
use crate::adapters::kafka::oauth::TokenSource;
use crate::adapters::kafka::speaker::Speaker;
use crate::domain::ledger_log::Logged;
use crate::domain::position::{Offset, TopicPartition};

/// How long a record may wait for room in the queue.
const ROOM_WITHIN: Duration = Duration::from_secs(30);

/// The producer of the ledger topic.
pub struct LedgerAppender {
    producer: FutureProducer<Speaker>,
}

impl LedgerAppender {
    /// Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// When librdkafka does not take the properties.
    pub fn new(config: &ClientConfig, tokens: TokenSource) -> KafkaResult<Self> {
        let producer = config.create_with_context(Speaker::new("ledger-appender", tokens))?;
        Ok(Self { producer })
    }

    /// Appends `logged` to `partition` of the ledger topic and waits for the broker's acknowledgement. What is appended later
    /// to the same partition lies behind it.
    ///
    /// # Errors
    ///
    /// When it was not acknowledged in time: it may or may not be in the log. To be appended again: seen twice it counts
    /// once.
    pub async fn append(&self, partition: &TopicPartition, logged: &Logged) -> KafkaResult<Offset> {
        let value = encode(logged)
            .map_err(|_never| KafkaError::MessageProduction(RDKafkaErrorCode::InvalidMessage))?;
        let key = match logged {
            Logged::Entry(entry) => Some(entry.subject.ledger_key().0),
            Logged::Owner(_) | Logged::Profile { .. } => None,
        };
        let mut record: FutureRecord<'_, [u8], [u8]> =
            FutureRecord::to(&partition.topic).partition(partition.partition);
        record.key = key.as_ref().map(|key| &key[..]);
        record.payload = Some(&value);
        let delivery = self
            .producer
            .send(record, ROOM_WITHIN)
            .await
            .map_err(|(error, _)| error)?;
        Ok(Offset(delivery.offset))
    }

    /// Waits until nothing is on its way any more, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// When something still is.
    pub fn flush(&self, timeout: Duration) -> KafkaResult<()> {
        self.producer.flush(timeout)
    }
}
