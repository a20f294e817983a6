//! Decides why an intent is set aside, and what its dead letter says. It does not produce it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::idempotency_key::{IdempotencyKey, IntentFingerprint, RequestFingerprint};
use super::position::{Position, TopicPartition};
use super::time::Timestamp;

/// Why an intent was set aside. The set is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The record is no intent.
    Malformed,
    /// The provider refused it for good.
    Rejected,
    /// The budget is used up; surely not sent.
    RetriesExhausted,
    /// Sent or not: nobody can say.
    OutcomeUnknown,
    /// The id came again with other content, or the provider says so of the key.
    PayloadConflict,
    /// Too late to be sent.
    Expired,
    /// Over the input limits.
    TooLarge,
    /// No provider is configured for it.
    NoRoute,
    /// An operator stopped it.
    Cancelled,
}

impl Reason {
    /// Every reason, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::Rejected,
        Self::RetriesExhausted,
        Self::OutcomeUnknown,
        Self::PayloadConflict,
        Self::Expired,
        Self::TooLarge,
        Self::NoRoute,
        Self::Cancelled,
    ];

    /// The name in headers, metrics and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Rejected => "rejected",
            Self::RetriesExhausted => "retries_exhausted",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::PayloadConflict => "payload_conflict",
            Self::Expired => "expired",
            Self::TooLarge => "too_large",
            Self::NoRoute => "no_route",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Under whose names the origin is told beside our own headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderFamily {
    /// `__dlq.errors.…`: the names that Kafka's brokers use for share groups (KIP-1191).
    #[default]
    Broker,
    /// `__connect.errors.…`: Kafka Connect's names (KIP-298).
    Connect,
    /// `kafka_dlt-…`: Spring for Apache Kafka's names; numbers are binary, as Spring writes them.
    Spring,
}

/// All that a dead letter tells beside the original record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The record that is set aside.
    pub origin: Position,
    /// The consumer group that does it.
    pub group: Arc<str>,
    /// Why.
    pub reason: Reason,
    /// The finer cause: a short label, with a place where one helps.
    pub detail: String,
    /// The event's id, if it could be read.
    pub event_id: Option<Arc<str>>,
    /// The key, if there is one.
    pub key: Option<IdempotencyKey>,
    /// What was made of it, if an attempt was made.
    pub provider: Option<Arc<str>>,
    /// HTTP status of the last answer.
    pub status: Option<u16>,
    /// The provider's code in the last answer.
    pub provider_code: Option<Arc<str>>,
    /// Attempts of all rounds.
    pub attempts: u32,
    /// Start of the first attempt.
    pub first_attempt_at: Option<Timestamp>,
    /// Start of the last attempt.
    pub last_attempt_at: Option<Timestamp>,
    /// 0 at first; each redrive is a new round.
    pub round: u32,
    /// The intent's fingerprint, if it could be read.
    pub intent_fingerprint: Option<IntentFingerprint>,
    /// The request's fingerprint, if one was rendered.
    pub request_fingerprint: Option<RequestFingerprint>,
    /// At a conflict: the fingerprint of what the ledger knows under this key.
    pub known_fingerprint: Option<IntentFingerprint>,
}

impl Letter {
    /// The original's headers, less what an earlier dead letter added, and then our own.
    pub fn headers(
        &self,
        original: &[(String, Option<Bytes>)],
        family: HeaderFamily,
    ) -> Vec<(String, Option<Bytes>)> {
        let mut headers: Vec<(String, Option<Bytes>)> = original
            .iter()
            .filter(|(name, _)| !is_ours(name))
            .cloned()
            .collect();
        let mut add = |name: &str, value: String| {
            headers.push((name.to_owned(), Some(Bytes::from(value))));
        };

        let ours = |name: &str| format!("sendonce-{name}");
        add(&ours("reason"), self.reason.name().to_owned());
        add(&ours("detail"), self.detail.clone());
        add(&ours("attempts"), self.attempts.to_string());
        add(&ours("round"), self.round.to_string());
        let known = [
            ("event-id", self.event_id.as_ref().map(ToString::to_string)),
            ("key", self.key.as_ref().map(ToString::to_string)),
            ("provider", self.provider.as_ref().map(ToString::to_string)),
            ("status", self.status.map(|status| status.to_string())),
            (
                "provider-code",
                self.provider_code.as_ref().map(ToString::to_string),
            ),
            (
                "first-attempt-at",
                self.first_attempt_at.map(|at| at.to_string()),
            ),
            (
                "last-attempt-at",
                self.last_attempt_at.map(|at| at.to_string()),
            ),
            (
                "intent-fingerprint",
                self.intent_fingerprint.map(|print| print.to_string()),
            ),
            (
                "known-fingerprint",
                self.known_fingerprint.map(|print| print.to_string()),
            ),
            (
                "request-fingerprint",
                self.request_fingerprint.map(|print| print.to_string()),
            ),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                add(&ours(name), value);
            }
        }
        headers.extend(self.origin_headers(family));
        headers
    }

    fn origin_headers(&self, family: HeaderFamily) -> Vec<(String, Option<Bytes>)> {
        let TopicPartition { topic, partition } = &self.origin.partition;
        let offset = self.origin.offset.0;
        let message = format!("{}: {}", self.reason, self.detail);
        let text = |name: &str, value: String| (name.to_owned(), Some(Bytes::from(value)));
        let binary =
            |name: &str, value: &[u8]| (name.to_owned(), Some(Bytes::copy_from_slice(value)));
        match family {
            HeaderFamily::Broker => vec![
                text("__dlq.errors.topic", topic.to_string()),
                text("__dlq.errors.partition", partition.to_string()),
                text("__dlq.errors.offset", offset.to_string()),
                text("__dlq.errors.group", self.group.to_string()),
                text("__dlq.errors.delivery.count", self.attempts.to_string()),
                text("__dlq.errors.message", message),
            ],
            HeaderFamily::Connect => vec![
                text("__connect.errors.topic", topic.to_string()),
                text("__connect.errors.partition", partition.to_string()),
                text("__connect.errors.offset", offset.to_string()),
                text("__connect.errors.connector.name", self.group.to_string()),
                text("__connect.errors.task.id", partition.to_string()),
                text("__connect.errors.stage", "TASK_PUT".to_owned()),
                text("__connect.errors.class.name", "sendonce".to_owned()),
                text(
                    "__connect.errors.exception.class.name",
                    self.reason.name().to_owned(),
                ),
                text("__connect.errors.exception.message", message),
            ],
            HeaderFamily::Spring => vec![
                text("kafka_dlt-original-topic", topic.to_string()),
                binary("kafka_dlt-original-partition", &partition.to_be_bytes()),
                binary("kafka_dlt-original-offset", &offset.to_be_bytes()),
                text("kafka_dlt-original-consumer-group", self.group.to_string()),
                text("kafka_dlt-exception-fqcn", self.reason.name().to_owned()),
                text("kafka_dlt-exception-message", message),
            ],
        }
    }
}

/// Headers that stand for a value too large to be written again: its size and its SHA-256.
pub fn value_omitted(value: &[u8]) -> Vec<(String, Option<Bytes>)> {
    let hash: [u8; 32] = Sha256::digest(value).into();
    vec![
        (
            "sendonce-value-size".to_owned(),
            Some(Bytes::from(value.len().to_string())),
        ),
        (
            "sendonce-value-sha256".to_owned(),
            Some(Bytes::from(IntentFingerprint(hash).to_string())),
        ),
    ]
}

/// The header that stands for a timestamp which the letter itself may not have: milliseconds since the epoch.
pub fn timestamp_omitted(timestamp: Timestamp) -> (String, Option<Bytes>) {
    let millis = timestamp.as_millis().to_string();
    ("sendonce-timestamp".to_owned(), Some(Bytes::from(millis)))
}

fn is_ours(name: &str) -> bool {
    [
        "sendonce-",
        "__dlq.errors.",
        "__connect.errors.",
        "kafka_dlt-",
    ]
    .iter()
    .any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::super::position::Offset;
    use super::*;

    fn letter() -> Letter {
        Letter {
            origin: Position {
                partition: TopicPartition {
                    topic: "send-intents".into(),
                    partition: 3,
                },
                offset: Offset(181),
            },
            group: "sendonce".into(),
            reason: Reason::Rejected,
            detail: "recipient_invalid".into(),
            event_id: Some("e-181".into()),
            key: IdempotencyKey::from_upstream("row-181"),
            provider: Some("captifi".into()),
            status: Some(400),
            provider_code: Some("invalid_recipient".into()),
            attempts: 2,
            first_attempt_at: Some(Timestamp::from_millis(1_790_000_000_000)),
            last_attempt_at: Some(Timestamp::from_millis(1_790_000_001_000)),
            round: 0,
            intent_fingerprint: Some(IntentFingerprint([1; 32])),
            request_fingerprint: None,
            known_fingerprint: None,
        }
    }

    fn shown(headers: &[(String, Option<Bytes>)]) -> String {
        let line = |(name, value): &(String, Option<Bytes>)| match value {
            Some(value) => format!("{name}: {}", value.escape_ascii()),
            None => format!("{name}: null"),
        };
        headers.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_headers_tell_the_origin_in_each_family_of_names() {
        let original = [
            ("traceparent".to_owned(), Some(Bytes::from_static(b"00-ab"))),
            ("x".to_owned(), None),
        ];
        for family in [
            HeaderFamily::Broker,
            HeaderFamily::Connect,
            HeaderFamily::Spring,
        ] {
            let headers = letter().headers(&original, family);
            insta::assert_snapshot!(format!("headers_{family:?}"), shown(&headers));
        }
    }

    #[test]
    fn a_second_dead_letter_replaces_the_headers_of_the_first() {
        let once = letter().headers(&[], HeaderFamily::Connect);
        let twice = letter().headers(&once, HeaderFamily::Connect);
        assert_eq!(once, twice);
    }
}
