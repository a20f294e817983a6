//! Says in the product's words what the model says in small numbers, and back.

use std::sync::LazyLock;
use std::time::Duration;

use sendonce::domain::attempt::{Flags, Verdict};
use sendonce::domain::dead_letter::Reason;
use sendonce::domain::dispatch::LOOKED_UP_ABSENT;
use sendonce::domain::idempotency_key::{IdempotencyKey, IntentFingerprint};
use sendonce::domain::ledger_entry::{Answered, AttemptId, Subject, Writer};
use sendonce::domain::position::{Offset, Position, TopicPartition};
use sendonce::domain::time::Timestamp;
use uuid::Uuid;

use super::state::{Id, Said, Tick, Why};

pub const TICK: Duration = Duration::from_mins(1);
/// A tick with the five seconds that the product allows for the flush of a start.
pub const REQUEST_SPAN: Duration = Duration::from_secs(55);
/// From a start to the end of its request, in ticks.
pub const REQUEST_TICKS: Tick = 1;
/// From there to the last moment at which the kernel may deliver it, in ticks.
pub const TRANSPORT_TICKS: Tick = 1;
/// How long a message may stay invisible to look-ups, in ticks.
pub const VISIBILITY_TICKS: Tick = 1;

pub static SUBJECT: LazyLock<Subject> = LazyLock::new(|| Subject {
    event_id: Some("order-7".into()),
    key: IdempotencyKey::from_upstream("order-7"),
    fingerprint: IntentFingerprint([7; 32]),
    origin: position(0),
    recorded_at: moment(0),
});

pub fn position(offset: i64) -> Position {
    Position {
        partition: TopicPartition {
            topic: "send-intents".into(),
            partition: 0,
        },
        offset: Offset(offset),
    }
}

/// The moment at which a clock shows so many ticks.
pub fn moment(ticks: i64) -> Timestamp {
    let beginning = Timestamp::EPOCH.plus(TICK * 60_000);
    let span = TICK * u32::try_from(ticks.abs()).unwrap();
    if ticks < 0 {
        beginning.minus(span)
    } else {
        beginning.plus(span)
    }
}

/// The first tick at which that moment has come.
pub fn ticks(moment_: Timestamp) -> i64 {
    let span = moment_.as_millis() - moment(0).as_millis();
    let tick = i64::try_from(TICK.as_millis()).unwrap();
    span.div_euclid(tick) + i64::from(span.rem_euclid(tick) > 0)
}

pub fn attempt_id(id: Id) -> AttemptId {
    AttemptId {
        round: id.round.into(),
        attempt: id.number.into(),
        writer: Writer(Uuid::from_u128(id.tenure.into())),
    }
}

pub fn id_of(id: AttemptId) -> Id {
    Id {
        round: id.round as u8,
        number: id.attempt as u8,
        tenure: id.writer.0.as_u128() as u8,
    }
}

pub fn reason(why: Why) -> Reason {
    match why {
        Why::OutcomeUnknown => Reason::OutcomeUnknown,
        Why::Rejected => Reason::Rejected,
        Why::RetriesExhausted => Reason::RetriesExhausted,
        Why::Cancelled => Reason::Cancelled,
    }
}

pub fn why(reason: Reason) -> Why {
    match reason {
        Reason::OutcomeUnknown => Why::OutcomeUnknown,
        Reason::Rejected => Why::Rejected,
        Reason::RetriesExhausted => Why::RetriesExhausted,
        Reason::Cancelled => Why::Cancelled,
        Reason::Malformed
        | Reason::PayloadConflict
        | Reason::Expired
        | Reason::TooLarge
        | Reason::NoRoute => panic!("{reason} is outside of this model"),
    }
}

/// The answer in the product's words. `due`: as the reader's clock has it.
pub fn answered(said: Said, due: Option<Timestamp>) -> Answered {
    let (verdict, heard, status, detail) = match said {
        Said::Accepted => (Verdict::Accepted, true, Some(200), "status"),
        Said::Rejected => (Verdict::Rejected, true, Some(400), "status"),
        Said::NotSent => (Verdict::NotSent, false, None, "connect"),
        Said::Throttled { .. } => (Verdict::Throttled, true, Some(429), "status"),
        Said::Lost => (Verdict::Unknown, false, None, "reset"),
        Said::Failed => (Verdict::Unknown, true, Some(503), "status"),
        Said::Absent => (Verdict::NotSent, false, None, LOOKED_UP_ABSENT),
        Said::Withheld => (Verdict::NotSent, false, None, "tenure_over"),
    };
    Answered {
        verdict,
        flags: Flags::default(),
        heard,
        status,
        provider_code: None,
        message_id: None,
        detail: detail.into(),
        due,
    }
}

/// Whether the outcome of an attempt with this answer is still open.
pub fn is_open(said: Said) -> bool {
    matches!(said, Said::Lost | Said::Failed)
}
