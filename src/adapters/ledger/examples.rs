//! Decides what the ledgers' tests write: made-up entries about made-up intents.
//! It does not know what is tested with them.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{Ledger, Recorded};
use crate::domain::attempt::{Flags, Verdict};
use crate::domain::idempotency_key::{
    IdempotencyKey, IntentFingerprint, ProfileHash, RequestFingerprint,
};
use crate::domain::ledger_entry::{Answered, Entry, Fact, Rendering, Story, Subject, Writer};
use crate::domain::position::{Offset, Position, TopicPartition};
use crate::domain::time::Timestamp;

pub(in crate::adapters::ledger) const RETENTION: Duration = Duration::from_secs(7 * 86_400);
pub(in crate::adapters::ledger) const START: Timestamp = Timestamp::from_millis(1_792_567_620_000);

pub(in crate::adapters::ledger) fn subject(id: u64) -> Subject {
    Subject {
        event_id: Some(format!("order-{id}").into()),
        key: IdempotencyKey::from_upstream(&format!("order-{id}")),
        fingerprint: IntentFingerprint([7; 32]),
        origin: Position {
            partition: TopicPartition {
                topic: "send-intents".into(),
                partition: 3,
            },
            offset: Offset(i64::try_from(id).unwrap()),
        },
        recorded_at: START,
    }
}

pub(in crate::adapters::ledger) fn entry(id: u64, at: Timestamp, fact: Fact) -> Entry {
    Entry {
        subject: subject(id),
        at,
        round: 0,
        writer: Writer(Uuid::from_u128(5)),
        fact,
    }
}

pub(in crate::adapters::ledger) fn started(id: u64, at: Timestamp) -> Entry {
    let fact = Fact::Started {
        attempt: 1,
        deadline: at.plus(Duration::from_secs(35)),
        rendering: Rendering {
            provider: "captifi".into(),
            profile: ProfileHash([1; 32]),
            request: RequestFingerprint([2; 32]),
        },
    };
    entry(id, at, fact)
}

pub(in crate::adapters::ledger) fn answered(id: u64, at: Timestamp, verdict: Verdict) -> Entry {
    let answer = Answered {
        verdict,
        flags: Flags::default(),
        heard: true,
        status: Some(202),
        provider_code: None,
        message_id: Some(format!("SM{id:032x}").into()),
        detail: "status".into(),
        due: None,
    };
    entry(id, at, Fact::Answered { attempt: 1, answer })
}

pub(in crate::adapters::ledger) fn block<T>(waiting: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(waiting)
}

pub(in crate::adapters::ledger) fn persist(
    ledger: &impl Ledger,
    expected: Option<&Recorded>,
    entry: Entry,
) -> Recorded {
    let expected = expected.map(|recorded| Arc::clone(&recorded.story));
    block(ledger.persist(expected, entry)).unwrap()
}

/// Writes a story that is accepted at `at`.
pub(in crate::adapters::ledger) fn settle(
    ledger: &impl Ledger,
    id: u64,
    at: Timestamp,
) -> Recorded {
    let open = persist(ledger, None, started(id, at));
    persist(ledger, Some(&open), answered(id, at, Verdict::Accepted))
}

/// The durable story of intent `id`.
pub(in crate::adapters::ledger) fn recall(ledger: &impl Ledger, id: u64) -> Option<Arc<Story>> {
    let recalled = ledger.recall(subject(id).ledger_key()).unwrap();
    recalled.map(|recorded| recorded.story)
}
