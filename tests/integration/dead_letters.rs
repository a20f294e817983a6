//! What stands in the dead-letter topic, read back.

use std::collections::BTreeMap;

use rdkafka::Message as _;

use crate::kafka_view::Kafka;
use crate::product::headers;

/// One dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Why.
    pub reason: String,
    /// The finer cause.
    pub detail: String,
    /// Where its record stood: partition and offset.
    pub origin: (i32, i64),
    /// The partition that it stands in itself.
    pub partition: i32,
    /// Its Kafka key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// All its headers.
    pub headers: BTreeMap<String, String>,
}

impl DeadLetter {
    /// One header of ours.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .get(&format!("sendonce-{name}"))
            .map(String::as_str)
    }
}

/// All dead letters of `send-intents`, by where their records stood.
pub fn dead_letters(kafka: &Kafka) -> Vec<DeadLetter> {
    dead_letters_in(kafka, "send-intents.dlq")
}

/// All dead letters in this topic, by where their records stood.
pub fn dead_letters_in(kafka: &Kafka, topic: &str) -> Vec<DeadLetter> {
    let records = kafka.records(topic);
    let mut letters: Vec<DeadLetter> = records
        .iter()
        .map(|record| {
            let headers = headers(record);
            let text = |name: &str| headers.get(name).cloned().unwrap_or_default();
            let number = |name: &str| text(name).parse::<i64>().expect("a number");
            DeadLetter {
                reason: text("sendonce-reason"),
                detail: text("sendonce-detail"),
                origin: (
                    number("__dlq.errors.partition")
                        .try_into()
                        .expect("a partition"),
                    number("__dlq.errors.offset"),
                ),
                partition: record.partition(),
                key: record.key().map(<[u8]>::to_vec),
                value: record.payload().map(<[u8]>::to_vec),
                headers,
            }
        })
        .collect();
    letters.sort_by_key(|letter| letter.origin);
    letters
}

/// Reason and detail of each, the detail without its place.
pub fn reasons(letters: &[DeadLetter]) -> Vec<(&str, &str)> {
    letters
        .iter()
        .map(|letter| {
            let detail = letter.detail.split(" at ").next().unwrap_or_default();
            (letter.reason.as_str(), detail)
        })
        .collect()
}
