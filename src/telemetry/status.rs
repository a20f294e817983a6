//! Decides whether the process is live (its loops turn) and ready (nothing on a closed list stands against it). What
//! stands against it, others tell.

use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A loop that has not turned for this long does not turn any more. Above all that a loop may wait for in one turn: taking
/// up partitions asks the coordinator and the brokers for up to a minute.
pub const LIVE_WITHIN: Duration = Duration::from_secs(90);

/// The loops that must turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loop {
    /// Reads records and answers rebalances.
    Intake,
    /// Shows sizes and ages, and lets the ledger forget.
    Upkeep,
}

/// Why the process is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotReady {
    /// No partition is assigned.
    NotAssigned,
    /// The ledger takes no writes: nothing is sent.
    LedgerNotWritable,
    /// A dead letter could not be written: its partition waits.
    DeadLettersUnavailable,
    /// The profile that began an intent cannot be had: that intent waits, until the process is started with it.
    ProfileMissing,
    /// The ledger topic takes no entries: nothing is sent.
    LedgerTopicUnavailable,
    /// A partition of the ledger topic holds what this version cannot read: it is not taken up here.
    LedgerTopicUnreadable,
    /// Another instance says that it owns a partition that is ours: the partition waits.
    OwnerDisputed,
    /// Records wait, and nothing moves.
    Stalled,
    /// The process is ending.
    Draining,
}

/// What stands against being ready, and when each loop last turned.
#[derive(Debug)]
pub struct Status {
    /// One bit for each reason: every durable write clears one, so it must be cheap.
    against: AtomicU16,
    beats: Mutex<Vec<(Loop, Instant)>>,
}

impl Loop {
    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intake => "intake",
            Self::Upkeep => "upkeep",
        }
    }
}

impl NotReady {
    /// Every reason, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::NotAssigned,
        Self::LedgerNotWritable,
        Self::DeadLettersUnavailable,
        Self::ProfileMissing,
        Self::LedgerTopicUnavailable,
        Self::LedgerTopicUnreadable,
        Self::OwnerDisputed,
        Self::Stalled,
        Self::Draining,
    ];

    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotAssigned => "not_assigned",
            Self::LedgerNotWritable => "ledger_not_writable",
            Self::DeadLettersUnavailable => "dead_letters_unavailable",
            Self::ProfileMissing => "profile_missing",
            Self::LedgerTopicUnavailable => "ledger_topic_unavailable",
            Self::LedgerTopicUnreadable => "ledger_topic_unreadable",
            Self::OwnerDisputed => "owner_disputed",
            Self::Stalled => "stalled",
            Self::Draining => "draining",
        }
    }

    const fn bit(self) -> u16 {
        match self {
            Self::NotAssigned => 1,
            Self::LedgerNotWritable => 1 << 1,
            Self::DeadLettersUnavailable => 1 << 2,
            Self::Stalled => 1 << 3,
            Self::Draining => 1 << 4,
            Self::ProfileMissing => 1 << 5,
            Self::LedgerTopicUnavailable => 1 << 6,
            Self::LedgerTopicUnreadable => 1 << 7,
            Self::OwnerDisputed => 1 << 8,
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for Status {
    /// Not ready, since nothing is assigned yet; live, since no loop has begun.
    fn default() -> Self {
        Self {
            against: AtomicU16::new(NotReady::NotAssigned.bit()),
            beats: Mutex::default(),
        }
    }
}

impl Status {
    /// Takes note of a reason. Returns whether it is new, so that it is logged once.
    pub fn set(&self, reason: NotReady) -> bool {
        let before = self.against.fetch_or(reason.bit(), Ordering::SeqCst);
        before & reason.bit() == 0
    }

    /// Takes note that a reason has gone. Returns whether it was there.
    pub fn clear(&self, reason: NotReady) -> bool {
        if self.against.load(Ordering::SeqCst) & reason.bit() == 0 {
            return false;
        }
        let before = self.against.fetch_and(!reason.bit(), Ordering::SeqCst);
        before & reason.bit() != 0
    }

    /// What stands against being ready; nothing if it is ready.
    pub fn not_ready(&self) -> Vec<NotReady> {
        let against = self.against.load(Ordering::SeqCst);
        let stands = |reason: &NotReady| against & reason.bit() != 0;
        NotReady::ALL.into_iter().filter(stands).collect()
    }

    /// Takes note that a loop has turned. From its first turn on, it must go on turning.
    pub fn beat(&self, turned: Loop) {
        let now = Instant::now();
        let mut beats = self.beats();
        match beats.iter_mut().find(|(known, _)| *known == turned) {
            Some((_, last)) => *last = now,
            None => beats.push((turned, now)),
        }
    }

    /// Takes note that a loop has ended as it should: it need not turn any more.
    pub fn ended(&self, ended: Loop) {
        self.beats().retain(|(known, _)| *known != ended);
    }

    /// The loops that have begun and do not turn any more; none if the process is live.
    pub fn stuck(&self) -> Vec<Loop> {
        let now = Instant::now();
        self.beats()
            .iter()
            .filter(|(_, last)| now.saturating_duration_since(*last) > LIVE_WITHIN)
            .map(|(stuck, _)| *stuck)
            .collect()
    }

    fn beats(&self) -> MutexGuard<'_, Vec<(Loop, Instant)>> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_unassigned_and_is_ready_once_nothing_stands_against_it() {
        let status = Status::default();
        assert_eq!(status.not_ready(), [NotReady::NotAssigned]);
        assert!(status.clear(NotReady::NotAssigned));
        assert!(!status.clear(NotReady::NotAssigned));
        assert_eq!(status.not_ready(), []);
    }

    #[test]
    fn a_reason_is_new_only_once() {
        let status = Status::default();
        assert!(status.set(NotReady::LedgerNotWritable));
        assert!(!status.set(NotReady::LedgerNotWritable));
        assert_eq!(
            status.not_ready(),
            [NotReady::NotAssigned, NotReady::LedgerNotWritable]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_has_begun_must_go_on_turning_until_it_ends() {
        let status = Status::default();
        assert_eq!(status.stuck(), []);
        status.beat(Loop::Intake);
        tokio::time::advance(LIVE_WITHIN).await;
        assert_eq!(status.stuck(), []);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(status.stuck(), [Loop::Intake]);
        status.beat(Loop::Intake);
        assert_eq!(status.stuck(), []);
        tokio::time::advance(LIVE_WITHIN * 2).await;
        status.ended(Loop::Intake);
        assert_eq!(status.stuck(), []);
    }
}
