//! Decides what the ledger remembers of one key, and how entries from any order and any writer fold into one story.
//! It does not know where entries are kept, nor what follows from a story: that is `dispatch`.

mod attempts;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use attempts::Attempts;

use super::attempt::{Flags, Verdict};
use super::dead_letter::Reason;
use super::idempotency_key::{
    IdempotencyKey, IntentFingerprint, LedgerKey, ProfileHash, RequestFingerprint,
};
use super::position::Position;
use super::time::Timestamp;

/// One tenure of one partition: drawn anew at each assignment, never an instance's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Writer(pub Uuid);

/// Which attempt of a key: its identity across all writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// 0 at first; each redrive is a new round.
    pub round: u32,
    /// 1 is the first attempt of its round.
    pub attempt: u32,
    /// Who made it.
    pub writer: Writer,
}

/// What the ledger remembers about: an intent under its key, or a record that never became one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The event's id; absent for a record that could not be read.
    pub event_id: Option<Arc<str>>,
    /// The key on the wire; absent for a record that could not be read.
    pub key: Option<IdempotencyKey>,
    /// The intent's fingerprint, or the hash of the record's bytes.
    pub fingerprint: IntentFingerprint,
    /// Where its first record stands.
    pub origin: Position,
    /// That record's timestamp.
    pub recorded_at: Timestamp,
}

/// How its requests are made: pinned by the first attempt and the same ever after.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rendering {
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// The profile version that renders it.
    pub profile: ProfileHash,
    /// What the rendered request must hash to.
    pub request: RequestFingerprint,
}

/// One thing that happened. Entries are events; a `Story` is their fold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Whose story it belongs to.
    pub subject: Subject,
    /// When it was written, by the writer's clock.
    pub at: Timestamp,
    /// Which round it belongs to.
    pub round: u32,
    /// Who wrote it.
    pub writer: Writer,
    /// What happened.
    pub fact: Fact,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// An attempt is about to be made; durable before its first byte leaves.
    Started {
        /// 1 is the first of the round.
        attempt: u32,
        /// By when the request has ended, by the writer's wall clock.
        deadline: Timestamp,
        /// How it was rendered.
        rendering: Rendering,
    },
    /// An attempt has been answered, or given up as unanswered.
    Answered {
        /// Which one.
        attempt: u32,
        /// What the answer means.
        answer: Answered,
    },
    /// A dead letter is about to be produced.
    DeadLettering {
        /// Why.
        reason: Reason,
        /// The finer cause, one short label.
        detail: Arc<str>,
    },
    /// The broker has acknowledged the dead letter.
    DeadLettered {
        /// Where it stands.
        at: Position,
    },
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// What the answer means.
    pub verdict: Verdict,
    /// What else it says.
    pub flags: Flags,
    /// Whether a whole answer came: false for timeouts, resets and crashes.
    pub heard: bool,
    /// HTTP status.
    pub status: Option<u16>,
    /// The provider's error code.
    pub provider_code: Option<Arc<str>>,
    /// The provider's message id.
    pub message_id: Option<Arc<str>>,
    /// Why, one short label.
    pub detail: Arc<str>,
    /// No earlier than this may the next attempt start.
    pub due: Option<Timestamp>,
}

/// All that is known of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    /// What it is about.
    pub subject: Subject,
    /// How its requests are made, once an attempt has started.
    pub rendering: Option<Rendering>,
    /// Every attempt that anyone made.
    pub attempts: Attempts,
    /// Dead letters by round.
    pub dead: BTreeMap<u32, DeadFacts>,
    /// The latest moment written in any of its entries.
    pub updated_at: Timestamp,
}

/// What is known of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptFacts {
    /// Its start; absent if only its answer has been seen so far.
    pub started: Option<Started>,
    /// Its answer; absent while it runs, or if its maker died.
    pub answered: Option<Answered>,
}

/// When an attempt started and by when its request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The start, by the writer's clock.
    pub at: Timestamp,
    /// The end of its request, by the writer's clock.
    pub deadline: Timestamp,
}

/// What is known of one round's dead letter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadFacts {
    /// Why it is being set aside, and since when.
    pub cause: Option<DeadCause>,
    /// Where the broker put it; absent until it acknowledged.
    pub at: Option<Position>,
}

/// Why a round ended in a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeadCause {
    /// When that was decided.
    pub since: Timestamp,
    /// Why.
    pub reason: Reason,
    /// The finer cause, one short label.
    pub detail: Arc<str>,
}

/// Where a story stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// Nobody knows the end yet.
    Open,
    /// The provider took it. Beats everything.
    Accepted(&'a Answered),
    /// Its dead letter is decided, and the broker has not acknowledged it yet.
    DeadLettering(&'a DeadCause),
    /// Its dead letter is in the topic.
    DeadLettered(&'a DeadCause),
}

impl Subject {
    /// Where the ledger keeps it: by key if it has one, else by origin and content.
    pub fn ledger_key(&self) -> LedgerKey {
        match &self.key {
            Some(key) => key.ledger_key(),
            None => LedgerKey::of(
                b"record",
                format!("{} {}", self.origin, self.fingerprint).as_bytes(),
            ),
        }
    }

    /// The least of what several records say of one key is kept: the earliest record, told apart by all it says.
    fn seniority(&self) -> impl Ord + '_ {
        (
            self.recorded_at,
            &self.origin,
            &self.event_id,
            &self.key,
            self.fingerprint.0,
        )
    }
}

impl Story {
    /// A story that begins with `entry`.
    pub fn beginning(entry: &Entry) -> Self {
        let mut story = Self {
            subject: entry.subject.clone(),
            rendering: None,
            attempts: Attempts::default(),
            dead: BTreeMap::new(),
            updated_at: entry.at,
        };
        story.fold(entry);
        story
    }

    /// What `story` becomes by `entry`.
    pub fn continued(story: Option<&Self>, entry: &Entry) -> Self {
        match story {
            Some(story) => {
                let mut story = story.clone();
                story.fold(entry);
                story
            }
            None => Self::beginning(entry),
        }
    }

    /// Adds what `entry` tells. The order of entries does not matter, nor does seeing one twice.
    pub fn fold(&mut self, entry: &Entry) {
        self.updated_at = self.updated_at.max(entry.at);
        if entry.subject.seniority() < self.subject.seniority() {
            self.subject = entry.subject.clone();
        }
        match &entry.fact {
            Fact::Started {
                attempt,
                deadline,
                rendering,
            } => {
                // The earliest start pins the rendering, so it goes before the start that it is compared with.
                let pinned = self.first_start().zip(self.rendering.as_ref());
                if pinned.is_none_or(|(first, known)| (entry.at, rendering) < (first.at, known)) {
                    self.rendering = Some(rendering.clone());
                }
                let started = &mut self.attempt(entry, *attempt).started;
                let (at, deadline) = (entry.at, *deadline);
                *started = Some(started.map_or(Started { at, deadline }, |known| Started {
                    at: known.at.min(at),
                    deadline: known.deadline.max(deadline),
                }));
            }
            Fact::Answered { attempt, answer } => {
                let answered = &mut self.attempt(entry, *attempt).answered;
                if answered
                    .as_ref()
                    .is_none_or(|known| known.order() < answer.order())
                {
                    *answered = Some(answer.clone());
                }
            }
            Fact::DeadLettering { reason, detail } => {
                let cause = DeadCause {
                    since: entry.at,
                    reason: *reason,
                    detail: Arc::clone(detail),
                };
                keep_least(&mut self.dead.entry(entry.round).or_default().cause, cause);
            }
            Fact::DeadLettered { at } => {
                keep_least(
                    &mut self.dead.entry(entry.round).or_default().at,
                    at.clone(),
                );
            }
        }
    }

    fn attempt(&mut self, entry: &Entry, attempt: u32) -> &mut AttemptFacts {
        let id = AttemptId {
            round: entry.round,
            attempt,
            writer: entry.writer,
        };
        self.attempts.of(id)
    }

    /// Where it stands now. An acceptance beats a dead letter, whichever came first.
    pub fn standing(&self) -> Standing<'_> {
        if let Some(answer) = self.accepted() {
            return Standing::Accepted(answer);
        }
        match self.dead.last_key_value() {
            Some((round, dead)) if *round >= self.round() => match (&dead.cause, &dead.at) {
                (Some(cause), Some(_)) => Standing::DeadLettered(cause),
                (Some(cause), None) => Standing::DeadLettering(cause),
                (None, _) => Standing::Open,
            },
            Some(_) | None => Standing::Open,
        }
    }

    /// Whether its end is known and durable, so that its offset may be settled.
    pub fn is_settled(&self) -> bool {
        matches!(
            self.standing(),
            Standing::Accepted(_) | Standing::DeadLettered(_)
        )
    }

    /// The round it is in: the latest that any entry names.
    pub fn round(&self) -> u32 {
        let attempts = self.attempts.keys().next_back().map_or(0, |id| id.round);
        let dead = self.dead.last_key_value().map_or(0, |(round, _)| *round);
        attempts.max(dead)
    }

    /// The acceptance, if any attempt of any round was accepted.
    pub fn accepted(&self) -> Option<&Answered> {
        self.attempts
            .values()
            .filter_map(|facts| facts.answered.as_ref())
            .find(|answer| answer.verdict == Verdict::Accepted)
    }

    /// Whether any attempt of any round may have been taken, for all we know: answered so, or not answered at all.
    pub fn may_have_been_taken(&self) -> bool {
        self.has_unknown_answer() || self.attempts.values().any(|facts| facts.answered.is_none())
    }

    /// Whether any attempt of any round was answered without telling whether it was taken.
    pub fn has_unknown_answer(&self) -> bool {
        self.attempts
            .values()
            .filter_map(|facts| facts.answered.as_ref())
            .any(|answer| matches!(answer.verdict, Verdict::Unknown | Verdict::InProgress))
    }

    /// How many attempts of any round found the provider as a whole down.
    pub fn outages(&self) -> u32 {
        let outages = self
            .attempts
            .values()
            .filter_map(|facts| facts.answered.as_ref())
            .filter(|answer| answer.flags.outage);
        u32::try_from(outages.count()).unwrap_or(u32::MAX)
    }

    /// The earliest start of any attempt: the key's window runs from here.
    pub fn first_start(&self) -> Option<Started> {
        self.attempts
            .values()
            .filter_map(|facts| facts.started)
            .min_by_key(|start| start.at)
    }

    /// The latest start of any attempt.
    pub fn last_start(&self) -> Option<Started> {
        self.attempts
            .values()
            .filter_map(|facts| facts.started)
            .max_by_key(|start| start.at)
    }
}

impl Answered {
    /// Results only raise what is known: the greater of two answers to one attempt stays.
    fn order(&self) -> (u8, impl Ord + '_) {
        let rank = match self.verdict {
            Verdict::Unknown => 0,
            Verdict::InProgress => 1,
            Verdict::NotSent
            | Verdict::Throttled
            | Verdict::Misconfigured
            | Verdict::AccountHold => 2,
            Verdict::Conflict | Verdict::Rejected => 3,
            Verdict::Accepted => 4,
        };
        let rest = (
            self.heard,
            self.verdict,
            &self.message_id,
            self.status,
            &self.provider_code,
            self.flags,
            &self.detail,
            self.due,
        );
        (rank, rest)
    }
}

fn keep_least<T: Ord>(known: &mut Option<T>, told: T) {
    if known.as_ref().is_none_or(|known| told < *known) {
        *known = Some(told);
    }
}

#[cfg(test)]
mod tests;
