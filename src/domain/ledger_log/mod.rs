//! Decides what counts in the ledger topic: the log through which the ledger follows its partition. Each partition of
//! intents has one partition of this log. Its owner first appends a marker; by the markers before it, whoever reads an entry
//! knows whether its writer was the owner when it was appended. It does not know how the log is kept, nor where the
//! stories are.
//!
//! - An attempt's start and its answer, and a dead letter that stands in its topic, are facts: they always count. A start that
//!   was appended by a former owner may have been followed by its request, so it counts for windows and waits.
//! - That a dead letter is about to be produced is a decision, and only the owner decides: a former owner's counts for
//!   nobody, or two owners could end one intent in two ways.
//! - A start is a leave to send only while its writer is the owner: see `Claim`.

mod owed;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::idempotency_key::ProfileHash;
use super::ledger_entry::{Entry, Fact, Writer};
use super::position::{NextOffset, Offset, TopicPartition};
use super::time::Timestamp;
pub use owed::{Owing, owed};

/// What one record of the ledger topic says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Logged {
    /// From here on this tenure owns the partition.
    Owner(Writer),
    /// Something happened to an intent.
    Entry(Box<Entry>),
    /// The text of a profile version that renders what is open.
    Profile {
        /// Its hash.
        hash: ProfileHash,
        /// Its canonical text.
        text: Arc<str>,
    },
}

/// What a reader does with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A tenure has begun.
    Begun(Writer),
    /// Fold this into its story.
    Fold(Box<Entry>),
    /// A decision of a tenure that was over: nothing.
    TooLate(Writer),
    /// Keep this profile.
    Keep {
        /// Its hash.
        hash: ProfileHash,
        /// Its canonical text.
        text: Arc<str>,
    },
}

/// What has been read of one partition of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogView {
    /// Whose marker was the last one, and where it stands.
    owner: Option<(Writer, Offset)>,
    /// Everything before this has been read.
    read_to: NextOffset,
}

/// How far the ledger of this machine has followed the log: where a process that starts anew goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// What had been read for each partition of intents. All of it is in the ledger.
    pub followed: Vec<(TopicPartition, LogView)>,
    /// What has happened and was recorded here before this moment is in the log, by this machine's clock.
    pub appended_to: Timestamp,
    /// Partitions of intents of which the log may lack all that is recorded here: the ledger was not replicated before.
    pub unpublished: BTreeSet<TopicPartition>,
}

/// Where something was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its own place.
    pub at: Offset,
    /// Everything before this had been read when it was appended. What stands before that was appended to another log.
    pub after: NextOffset,
}

/// Whether what a tenure appended was appended by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The log has not been read that far.
    NotYet,
    /// It is, and its tenure still is the owner's.
    Good,
    /// Another tenure has begun: let go at once.
    Fenced,
}

impl Checkpoint {
    /// That of a ledger that has never followed a log, for one with these partitions.
    pub fn none_yet(partitions: impl IntoIterator<Item = TopicPartition>) -> Self {
        Self {
            followed: Vec::new(),
            appended_to: Timestamp::EPOCH,
            unpublished: partitions.into_iter().collect(),
        }
    }
}

impl LogView {
    /// Nothing has been read yet; reading begins here, with this owner if what came before was read by an earlier process.
    pub const fn beginning(read_to: NextOffset, owner: Option<(Writer, Offset)>) -> Self {
        Self { owner, read_to }
    }

    /// Takes the record at `offset`. Gaps are what the broker keeps for itself. A record that comes after a later one says
    /// that the log was cut or made anew: so is the view.
    pub fn read(&mut self, offset: Offset, logged: Logged) -> Reading {
        if offset.next() <= self.read_to {
            self.owner = None;
        }
        self.read_to = offset.next();
        match logged {
            Logged::Owner(writer) => {
                self.owner = Some((writer, offset));
                Reading::Begun(writer)
            }
            Logged::Entry(entry) if self.counts(&entry) => Reading::Fold(entry),
            Logged::Entry(entry) => Reading::TooLate(entry.writer),
            Logged::Profile { hash, text } => Reading::Keep { hash, text },
        }
    }

    /// Takes note of a record at `offset` that says nothing to us.
    pub fn pass(&mut self, offset: Offset) {
        self.read_to = offset.next();
    }

    fn counts(&self, entry: &Entry) -> bool {
        match entry.fact {
            Fact::Started { .. } | Fact::Answered { .. } | Fact::DeadLettered { .. } => true,
            // Where no marker has been read, it stood before what is left of the log.
            Fact::DeadLettering { .. } => self.owner().is_none_or(|owner| owner == entry.writer),
        }
    }

    /// Whether what `writer` has appended was the owner's.
    pub fn claim(&self, writer: Writer, appended: Appended) -> Claim {
        if appended.at.0 < appended.after.0 {
            // The log that was read has been made anew.
            Claim::Fenced
        } else if self.read_to < appended.at.next() {
            Claim::NotYet
        } else if self.owner() == Some(writer) {
            Claim::Good
        } else {
            // If the other marker came after it, it was the owner's: that helps nobody now.
            Claim::Fenced
        }
    }

    /// Whose marker was the last one.
    pub fn owner(&self) -> Option<Writer> {
        self.owner.map(|(writer, _)| writer)
    }

    /// The last marker, and where it stands: by that a log is known again.
    pub const fn marker(&self) -> Option<(Writer, Offset)> {
        self.owner
    }

    /// Everything before this has been read.
    pub const fn read_to(&self) -> NextOffset {
        self.read_to
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::attempt::{Flags, Verdict};
    use crate::domain::dead_letter::Reason;
    use crate::domain::idempotency_key::{IdempotencyKey, IntentFingerprint, RequestFingerprint};
    use crate::domain::ledger_entry::{Answered, Rendering, Subject};
    use crate::domain::position::Position;

    const FIRST: Writer = Writer(Uuid::from_u128(1));
    const SECOND: Writer = Writer(Uuid::from_u128(2));

    fn entry(writer: Writer, fact: Fact) -> Logged {
        let origin = Position {
            partition: TopicPartition {
                topic: "send-intents".into(),
                partition: 3,
            },
            offset: Offset(181),
        };
        Logged::Entry(Box::new(Entry {
            subject: Subject {
                event_id: Some("e-1".into()),
                key: Some(IdempotencyKey::derived(Uuid::nil())),
                fingerprint: IntentFingerprint([0; 32]),
                origin,
                recorded_at: Timestamp::EPOCH,
            },
            at: Timestamp::EPOCH,
            round: 0,
            writer,
            fact,
        }))
    }

    fn started() -> Fact {
        Fact::Started {
            attempt: 1,
            deadline: Timestamp::EPOCH,
            rendering: Rendering {
                provider: "p".into(),
                profile: ProfileHash([0; 32]),
                request: RequestFingerprint([0; 32]),
            },
        }
    }

    fn answered() -> Fact {
        let answer = Answered {
            verdict: Verdict::Accepted,
            flags: Flags::default(),
            heard: true,
            status: Some(201),
            provider_code: None,
            message_id: None,
            detail: "accepted".into(),
            due: None,
        };
        Fact::Answered { attempt: 1, answer }
    }

    fn dead_lettering() -> Fact {
        Fact::DeadLettering {
            reason: Reason::OutcomeUnknown,
            detail: "no_key".into(),
        }
    }

    fn dead_lettered() -> Fact {
        Fact::DeadLettered {
            at: Position {
                partition: TopicPartition {
                    topic: "send-intents.dlq".into(),
                    partition: 3,
                },
                offset: Offset(0),
            },
        }
    }

    /// What each record of a log is to its reader, from the log's beginning.
    fn read(log: &[Logged]) -> Vec<&'static str> {
        let mut view = LogView::beginning(NextOffset(0), None);
        let kind = |reading| match reading {
            Reading::Begun(_) => "begun",
            Reading::Fold(_) => "fold",
            Reading::TooLate(_) => "too late",
            Reading::Keep { .. } => "keep",
        };
        (0..)
            .zip(log)
            .map(|(offset, logged)| kind(view.read(Offset(offset), logged.clone())))
            .collect()
    }

    #[test]
    fn a_former_owner_s_facts_count_and_its_decisions_do_not() {
        for (fact, by_former) in [
            (started(), "fold"),
            (answered(), "fold"),
            (dead_lettered(), "fold"),
            (dead_lettering(), "too late"),
        ] {
            let log = [
                Logged::Owner(FIRST),
                entry(FIRST, fact.clone()),
                Logged::Owner(SECOND),
                entry(SECOND, fact.clone()),
                entry(FIRST, fact),
            ];
            assert_eq!(read(&log), ["begun", "fold", "begun", "fold", by_former]);
        }
    }

    #[test]
    fn a_decision_whose_marker_the_log_has_forgotten_counts() {
        assert_eq!(read(&[entry(FIRST, dead_lettering())]), ["fold"]);
        let went_on = LogView::beginning(NextOffset(7), Some((FIRST, Offset(3))));
        let decision = entry(FIRST, dead_lettering());
        let mut view = went_on;
        assert!(matches!(view.read(Offset(7), decision), Reading::Fold(_)));
    }

    #[test]
    fn a_claim_is_good_once_it_is_read_back_with_its_own_marker_the_latest() {
        let mut view = LogView::beginning(NextOffset(0), None);
        view.read(Offset(0), Logged::Owner(FIRST));
        assert_eq!(view.claim(FIRST, appended(1)), Claim::NotYet);
        view.read(Offset(1), entry(FIRST, started()));
        assert_eq!(view.claim(FIRST, appended(1)), Claim::Good);
        assert_eq!(view.claim(SECOND, appended(1)), Claim::Fenced);
        view.read(Offset(2), Logged::Owner(SECOND));
        assert_eq!(view.claim(FIRST, appended(1)), Claim::Fenced);
        assert_eq!(view.claim(SECOND, appended(2)), Claim::Good);
    }

    #[test]
    fn gaps_are_passed_and_what_says_nothing_to_us_is_read_all_the_same() {
        let mut view = LogView::beginning(NextOffset(5), Some((SECOND, Offset(2))));
        let begun = view.read(Offset(9), Logged::Owner(FIRST));
        assert_eq!(begun, Reading::Begun(FIRST));
        assert_eq!(view.read_to(), NextOffset(10));
        view.pass(Offset(11));
        assert_eq!(view.claim(FIRST, appended(11)), Claim::Good);
    }

    #[test]
    fn what_was_appended_before_what_had_been_read_went_to_another_log() {
        let view = LogView::beginning(NextOffset(202), Some((FIRST, Offset(5))));
        let anew = Appended {
            at: Offset(10),
            after: NextOffset(202),
        };
        assert_eq!(view.claim(FIRST, anew), Claim::Fenced);
    }

    /// Appended there when nothing had been read.
    fn appended(at: i64) -> Appended {
        Appended {
            at: Offset(at),
            after: NextOffset(0),
        }
    }

    #[test]
    fn a_log_that_begins_again_has_no_owner_until_somebody_says_so() {
        let mut view = LogView::beginning(NextOffset(5), Some((FIRST, Offset(2))));
        view.read(Offset(0), entry(FIRST, started()));
        assert_eq!((view.owner(), view.read_to()), (None, NextOffset(1)));
        assert_eq!(view.claim(FIRST, appended(0)), Claim::Fenced);
    }
}
