//! Writes dead letters: idempotently, with acks=all, and tells where the broker put each. Whether an intent is set
//! aside, and what its headers say, is decided in `domain::dead_letter`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};

use super::oauth::TokenSource;
use super::speaker::Speaker;
use crate::domain::dead_letter::{HeaderFamily, Letter, timestamp_omitted, value_omitted};
use crate::domain::position::{Offset, Position, TopicPartition};
use crate::domain::record::Record;

/// The producer of dead letters.
pub struct DeadLetters {
    producer: FutureProducer<Speaker>,
    destinations: Vec<Destination>,
    family: HeaderFamily,
}

/// Where the dead letters of one topic go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The topic of the intents.
    pub of: Arc<str>,
    /// The topic of their dead letters.
    pub topic: Arc<str>,
    /// That topic's partitions.
    pub partitions: i32,
}

impl DeadLetters {
    /// For records of these topics.
    pub fn new(
        config: &ClientConfig,
        tokens: TokenSource,
        destinations: Vec<Destination>,
        family: HeaderFamily,
    ) -> KafkaResult<Self> {
        let context = Speaker::new("dead-letters", tokens);
        let producer = config.create_with_context(context)?;
        Ok(Self {
            producer,
            destinations,
            family,
        })
    }

    /// Writes the record as a dead letter and waits for the broker's acknowledgement.
    ///
    /// Same partition number as the origin where its topic of dead letters has it, else chosen by the record's key. What the
    /// broker refuses for good is written with less of the record in it: see `Form`.
    ///
    /// # Errors
    ///
    /// When it was not acknowledged in time, or is refused in every form.
    pub async fn produce(&self, record: &Record, letter: &Letter) -> KafkaResult<Position> {
        let mut form = Form::WHOLE;
        loop {
            let error = match self.write(record, letter, form).await {
                Ok(at) => return Ok(at),
                Err(error) => error,
            };
            let code = error.rdkafka_error_code();
            match code.and_then(|code| form.after_refusal(code)) {
                Some(less) => form = less,
                None => return Err(error),
            }
        }
    }

    /// Waits until nothing is on its way any more, for at most `timeout`.
    pub fn flush(&self, timeout: Duration) -> KafkaResult<()> {
        self.producer.flush(timeout)
    }

    async fn write(&self, record: &Record, letter: &Letter, form: Form) -> KafkaResult<Position> {
        let origin = &record.position.partition;
        let mut destinations = self.destinations.iter();
        let destination = destinations.find(|destination| destination.of == origin.topic);
        // Nothing is read from another topic than these; if it were, its letter would be tried until somebody sees it.
        let unknown = KafkaError::MessageProduction(RDKafkaErrorCode::UnknownTopic);
        let destination = destination.ok_or(unknown)?;
        let headers = form.headers(record, letter, self.family);
        let mut owned = OwnedHeaders::new_with_capacity(headers.len());
        for (key, value) in &headers {
            owned = owned.insert(Header {
                key,
                value: value.as_deref(),
            });
        }
        let mut out: FutureRecord<'_, [u8], [u8]> =
            FutureRecord::to(&destination.topic).headers(owned);
        out.key = record.key.as_deref().filter(|_| form.key);
        out.payload = record.value.as_deref().filter(|_| form.value);
        let stamped = record.timestamp.as_millis();
        out.timestamp = Some(stamped).filter(|at| *at > 0 && form.timestamp);
        out.partition = Some(origin.partition).filter(|number| *number < destination.partitions);
        let delivery = self
            .producer
            .send(out, Duration::from_secs(60))
            .await
            .map_err(|(error, _)| error)?;
        Ok(Position {
            partition: TopicPartition {
                topic: Arc::clone(&destination.topic),
                partition: delivery.partition,
            },
            offset: Offset(delivery.offset),
        })
    }
}

/// How much of the record a dead letter repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// Its value and its headers.
    value: bool,
    /// Its Kafka key.
    key: bool,
    /// Its timestamp, as the letter's own.
    timestamp: bool,
}

impl Form {
    const WHOLE: Self = Self {
        value: true,
        key: true,
        timestamp: true,
    };

    /// The form to try after a refusal that the same letter would meet again; `None` if there is no less to try, or if
    /// the same letter may be taken the next time.
    fn after_refusal(self, code: RDKafkaErrorCode) -> Option<Self> {
        let without_timestamp = Self {
            timestamp: false,
            ..self
        };
        let smaller = Self {
            key: self.key && self.value,
            value: false,
            ..self
        };
        let is_about_size = matches!(
            code,
            RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidMessage
                | RDKafkaErrorCode::InvalidMessageSize
        );
        // With `InvalidRecord` the broker does not say what it was. A date costs the least.
        let is_unnamed = code == RDKafkaErrorCode::InvalidRecord;
        let is_about_time = code == RDKafkaErrorCode::InvalidTimestamp;
        let less = if is_about_time || (is_unnamed && self.timestamp) {
            without_timestamp
        } else if is_about_size || is_unnamed {
            smaller
        } else {
            return None;
        };
        (less != self).then_some(less)
    }

    /// The headers of a letter in this form. What is left out, headers stand for.
    fn headers(
        self,
        record: &Record,
        letter: &Letter,
        family: HeaderFamily,
    ) -> Vec<(String, Option<Bytes>)> {
        let mut headers = if self.value {
            letter.headers(&record.headers, family)
        } else {
            let reduced = Letter {
                detail: "value_omitted".to_owned(),
                ..letter.clone()
            };
            let mut headers = reduced.headers(&[], family);
            headers.extend(value_omitted(record.value.as_deref().unwrap_or_default()));
            headers
        };
        if !self.timestamp {
            headers.push(timestamp_omitted(record.timestamp));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_VALUE: Form = Form {
        value: false,
        ..Form::WHOLE
    };
    const NO_TIMESTAMP: Form = Form {
        timestamp: false,
        ..Form::WHOLE
    };

    /// The forms in which a letter is tried that is refused for this reason each time, as value, key, timestamp.
    fn tried(code: RDKafkaErrorCode) -> Vec<[bool; 3]> {
        let forms = std::iter::successors(Some(Form::WHOLE), |form| form.after_refusal(code));
        forms
            .map(|form| [form.value, form.key, form.timestamp])
            .collect()
    }

    #[test]
    fn what_is_too_large_is_tried_without_its_value_and_then_without_its_key() {
        for code in [
            RDKafkaErrorCode::MessageSizeTooLarge,
            RDKafkaErrorCode::InvalidMessage,
            RDKafkaErrorCode::InvalidMessageSize,
        ] {
            let forms = [
                [true, true, true],
                [false, true, true],
                [false, false, true],
            ];
            assert_eq!(tried(code), forms);
        }
    }

    #[test]
    fn a_date_that_is_refused_costs_the_date_alone() {
        let code = RDKafkaErrorCode::InvalidTimestamp;
        assert_eq!(tried(code), [[true, true, true], [true, true, false]]);
        let both = NO_TIMESTAMP.after_refusal(RDKafkaErrorCode::MessageSizeTooLarge);
        assert_eq!(both, NO_VALUE.after_refusal(code));
    }

    #[test]
    fn an_unnamed_fault_of_the_record_costs_no_more_at_a_time_than_it_must() {
        assert_eq!(
            tried(RDKafkaErrorCode::InvalidRecord),
            [
                [true, true, true],
                [true, true, false],
                [false, true, false],
                [false, false, false]
            ]
        );
    }

    #[test]
    fn what_may_be_taken_the_next_time_is_left_whole() {
        for code in [
            RDKafkaErrorCode::MessageTimedOut,
            RDKafkaErrorCode::NotEnoughReplicas,
            RDKafkaErrorCode::TopicAuthorizationFailed,
            RDKafkaErrorCode::UnknownTopicOrPartition,
        ] {
            assert_eq!(Form::WHOLE.after_refusal(code), None);
        }
    }
}
