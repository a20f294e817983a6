//! Decides how a record of the ledger topic is written down: two bytes by which it is ours, a version, then postcard. A
//! version once written stays readable for ever.

use crate::domain::ledger_log::Logged;

/// What every record of ours begins with.
const OURS: [u8; 2] = *b"so";
/// The version that is written.
const VERSION: u8 = 1;
/// What an entry takes, about.
const TYPICAL: usize = 384;

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Somebody else has written into the topic. It says nothing to us.
    #[error("it is none of ours")]
    Foreign,
    /// It is ours and cannot be read: what it says is missing from the stories.
    #[error("{0}")]
    Ours(String),
}

/// The bytes of `logged`.
///
/// # Errors
///
/// When it has none, which no value of ours comes to.
pub(super) fn encode(logged: &Logged) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = Vec::with_capacity(TYPICAL);
    bytes.extend_from_slice(&OURS);
    bytes.push(VERSION);
    postcard::to_extend(logged, bytes)
}

/// Reads what `encode` wrote, in any version.
pub(super) fn decode(bytes: Option<&[u8]>) -> Result<Logged, Unreadable> {
    let ours = bytes.and_then(|bytes| bytes.strip_prefix(&OURS));
    match ours.ok_or(Unreadable::Foreign)?.split_first() {
        Some((&VERSION, logged)) => {
            postcard::from_bytes(logged).map_err(|error| Unreadable::Ours(error.to_string()))
        }
        Some((version, _)) => Err(Unreadable::Ours(format!(
            "it has encoding version {version}, this build reads up to {VERSION}"
        ))),
        None => Err(Unreadable::Ours("it is cut short".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::attempt::{Flags, Verdict};
    use crate::domain::dead_letter::Reason;
    use crate::domain::idempotency_key::{
        IdempotencyKey, IntentFingerprint, ProfileHash, RequestFingerprint,
    };
    use crate::domain::ledger_entry::{Answered, Entry, Fact, Rendering, Subject, Writer};
    use crate::domain::position::{Offset, Position, TopicPartition};
    use crate::domain::time::Timestamp;

    const AT: Timestamp = Timestamp::from_millis(1_792_567_620_000);

    fn position(topic: &str, offset: i64) -> Position {
        Position {
            partition: TopicPartition {
                topic: topic.into(),
                partition: 3,
            },
            offset: Offset(offset),
        }
    }

    fn entry(fact: Fact) -> Logged {
        Logged::Entry(Box::new(Entry {
            subject: Subject {
                event_id: Some("order-181".into()),
                key: IdempotencyKey::from_upstream("order-181"),
                fingerprint: IntentFingerprint([7; 32]),
                origin: position("send-intents", 181),
                recorded_at: AT,
            },
            at: AT,
            round: 1,
            writer: Writer(Uuid::from_u128(5)),
            fact,
        }))
    }

    /// One of each kind.
    fn one_of_each() -> Vec<Logged> {
        let started = Fact::Started {
            attempt: 1,
            deadline: AT,
            rendering: Rendering {
                provider: "captifi".into(),
                profile: ProfileHash([1; 32]),
                request: RequestFingerprint([2; 32]),
            },
        };
        let answered = Fact::Answered {
            attempt: 1,
            answer: Answered {
                verdict: Verdict::Accepted,
                flags: Flags::default(),
                heard: true,
                status: Some(201),
                provider_code: Some("0".into()),
                message_id: Some("m-1".into()),
                detail: "accepted".into(),
                due: Some(AT),
            },
        };
        let dead_lettering = Fact::DeadLettering {
            reason: Reason::OutcomeUnknown,
            detail: "no_key".into(),
        };
        let dead_lettered = Fact::DeadLettered {
            at: position("send-intents.dlq", 12),
        };
        vec![
            Logged::Owner(Writer(Uuid::from_u128(5))),
            entry(started),
            entry(answered),
            entry(dead_lettering),
            entry(dead_lettered),
            Logged::Profile {
                hash: ProfileHash([1; 32]),
                text: "name = \"captifi\"".into(),
            },
        ]
    }

    #[test]
    fn every_kind_is_read_as_it_was_written_and_version_1_stays_as_it_is() {
        let mut written = String::new();
        for logged in one_of_each() {
            let bytes = encode(&logged).unwrap();
            assert_eq!(decode(Some(&bytes)), Ok(logged));
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            written.push_str(&hex);
            written.push('\n');
        }
        insta::assert_snapshot!("version_1", written);
    }

    #[test]
    fn what_is_not_ours_is_told_from_what_is_ours_and_cannot_be_read() {
        for foreign in [None, Some(&b""[..]), Some(b"s"), Some(b"{\"id\":1}")] {
            assert_eq!(decode(foreign), Err(Unreadable::Foreign));
        }
        for logged in one_of_each() {
            let bytes = encode(&logged).unwrap();
            for length in OURS.len()..bytes.len() {
                let cut = decode(Some(&bytes[..length]));
                assert!(matches!(cut, Err(Unreadable::Ours(_))), "{cut:?}");
            }
        }
        let later = Unreadable::Ours("it has encoding version 9, this build reads up to 1".into());
        assert_eq!(decode(Some(b"so\x09rest")), Err(later));
    }
}
