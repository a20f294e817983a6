//! Writes dead letters: idempotently, with acks=all, and tells where the broker put each. Whether an intent is set
//! aside, and what its headers say, is decided in `domain::dead_letter`.

use std::time::Duration;

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};

use super::oauth::TokenSource;
use super::speaker::Speaker;
use crate::domain::dead_letter::{HeaderFamily, Letter, value_omitted};
use crate::domain::position::{Offset, Position, TopicPartition};
use crate::domain::record::Record;

/// The producer of dead letters.
pub struct DeadLetters {
    producer: FutureProducer<Speaker>,
    topic: String,
    partitions: i32,
    family: HeaderFamily,
}

impl DeadLetters {
    /// For a topic with this many partitions.
    pub fn new(
        config: &ClientConfig,
        tokens: TokenSource,
        topic: &str,
        partitions: i32,
        family: HeaderFamily,
    ) -> KafkaResult<Self> {
        let context = Speaker::new("dead-letters", tokens);
        let producer = config.create_with_context(context)?;
        Ok(Self {
            producer,
            topic: topic.to_owned(),
            partitions,
            family,
        })
    }

    /// Writes the record as a dead letter and waits for the broker's acknowledgement.
    ///
    /// Same partition number as the origin where the topic has it, else chosen by the record's key. A value that is
    /// too large to be written again is left out, and its size and hash stand for it.
    pub async fn produce(&self, record: &Record, letter: &Letter) -> KafkaResult<Position> {
        let headers = letter.headers(&record.headers, self.family);
        match self.write(record, record.value.as_ref(), &headers).await {
            Err(error) if is_too_large(&error) => {
                let whole = Letter {
                    detail: "value_omitted".into(),
                    ..letter.clone()
                };
                let mut headers = whole.headers(&[], self.family);
                headers.extend(value_omitted(record.value.as_deref().unwrap_or_default()));
                self.write(record, None, &headers).await
            }
            written => written,
        }
    }

    /// Waits until nothing is on its way any more, for at most `timeout`.
    pub fn flush(&self, timeout: Duration) -> KafkaResult<()> {
        self.producer.flush(timeout)
    }

    async fn write(
        &self,
        record: &Record,
        value: Option<&Bytes>,
        headers: &[(String, Option<Bytes>)],
    ) -> KafkaResult<Position> {
        let mut owned = OwnedHeaders::new_with_capacity(headers.len());
        for (key, value) in headers {
            owned = owned.insert(Header {
                key,
                value: value.as_deref(),
            });
        }
        let mut out: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(&self.topic).headers(owned);
        out.key = record.key.as_deref();
        out.payload = value.map(|value| &value[..]);
        out.timestamp = Some(record.timestamp.as_millis()).filter(|at| *at > 0);
        let origin = record.position.partition.partition;
        out.partition = Some(origin).filter(|number| *number < self.partitions);
        let delivery = self
            .producer
            .send(out, Duration::from_secs(60))
            .await
            .map_err(|(error, _)| error)?;
        Ok(Position {
            partition: TopicPartition {
                topic: self.topic.as_str().into(),
                partition: delivery.partition,
            },
            offset: Offset(delivery.offset),
        })
    }
}

fn is_too_large(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge)
}
