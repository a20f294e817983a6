//! Writes dead letters: idempotently, with acks=all, and tells where the broker put each. Whether an intent is set
//! aside, and what its headers say, is decided in `domain::dead_letter`.

use std::time::Duration;

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
        let whole = Form {
            value: true,
            key: true,
            timestamp: true,
        };
        let reduced = Form {
            value: false,
            ..whole
        };
        let least = Form {
            value: false,
            key: false,
            timestamp: false,
        };
        let mut forms = [whole, reduced, least].into_iter();
        let mut form = whole;
        loop {
            match self.write(record, letter, form).await {
                Err(error) if is_final(&error) => {
                    match forms.find(|next| next.is_less_than(form)) {
                        Some(less) => form = less,
                        None => return Err(error),
                    }
                }
                written => return written,
            }
        }
    }

    /// Waits until nothing is on its way any more, for at most `timeout`.
    pub fn flush(&self, timeout: Duration) -> KafkaResult<()> {
        self.producer.flush(timeout)
    }

    async fn write(&self, record: &Record, letter: &Letter, form: Form) -> KafkaResult<Position> {
        let value = record.value.as_deref().filter(|_| form.value);
        let headers = if form.value {
            letter.headers(&record.headers, self.family)
        } else {
            let detail = "value_omitted".to_owned();
            let mut headers = Letter {
                detail,
                ..letter.clone()
            }
            .headers(&[], self.family);
            headers.extend(value_omitted(record.value.as_deref().unwrap_or_default()));
            headers
        };
        let mut owned = OwnedHeaders::new_with_capacity(headers.len());
        for (key, value) in &headers {
            owned = owned.insert(Header {
                key,
                value: value.as_deref(),
            });
        }
        let mut out: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(&self.topic).headers(owned);
        out.key = record.key.as_deref().filter(|_| form.key);
        out.payload = value;
        let stamped = record.timestamp.as_millis();
        out.timestamp = Some(stamped).filter(|at| *at > 0 && form.timestamp);
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

/// How much of the record a dead letter repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    value: bool,
    key: bool,
    timestamp: bool,
}

impl Form {
    fn is_less_than(self, other: Self) -> bool {
        let parts = |form: Self| [form.value, form.key, form.timestamp];
        parts(self) != parts(other) && parts(self).iter().zip(parts(other)).all(|(a, b)| *a <= b)
    }
}

/// Whether the same letter would be refused again: it is written with less of the record in it.
fn is_final(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidMessage
                | RDKafkaErrorCode::InvalidMessageSize
                | RDKafkaErrorCode::InvalidTimestamp
                | RDKafkaErrorCode::InvalidRecord
        )
    )
}
