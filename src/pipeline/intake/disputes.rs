//! Partitions that another instance says are its own, until the group's coordinator has said whose they are: when it is asked,
//! and again.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::position::{NextOffset, TopicPartition};
use crate::domain::time::UnitFraction;
use crate::telemetry::metrics::CommitResult;

/// Between two questions, and before a partition is taken back for the second time.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest wait before a partition is taken back.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// A partition that was not disputed for so long after the last wait is taken back at once.
const CALM: Duration = Duration::from_secs(60);

/// What is disputed, and what was lately.
#[derive(Default)]
pub struct Disputes(HashMap<TopicPartition, Dispute>);

struct Dispute {
    state: State,
    /// How long it waited before it was taken back.
    wait: Duration,
}

enum State {
    /// The coordinator is asked at this moment.
    Due(Instant),
    /// It was asked with this position.
    Asked(NextOffset, Receiver<CommitResult>),
    /// The partition was ours at this moment.
    Closed(Instant),
}

/// What a dispute is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The first one, or one that is known.
    Alone,
    /// The second one in a short time.
    Repeated,
    /// One more.
    Again,
}

impl Disputes {
    /// Takes note of a dispute. The coordinator is asked at once the first time, later each time after that.
    pub fn open(
        &mut self,
        partition: TopicPartition,
        now: Instant,
        jitter: UnitFraction,
    ) -> Opened {
        let waited = match self.0.get(&partition) {
            None => None,
            Some(Dispute { state, wait }) => match state {
                State::Due(_) | State::Asked(..) => return Opened::Alone,
                State::Closed(at) if now.duration_since(*at) > CALM + *wait => None,
                State::Closed(_) => Some(*wait),
            },
        };
        let wait = waited.map_or(Duration::ZERO, |wait| (wait * 2).clamp(WAIT_MIN, WAIT_MAX));
        let due = now + wait / 2 + jitter.of(wait / 2);
        let state = State::Due(due);
        self.0.insert(partition, Dispute { state, wait });
        match waited {
            None => Opened::Alone,
            Some(Duration::ZERO) => Opened::Repeated,
            Some(_) => Opened::Again,
        }
    }

    /// Whether nobody has said yet whose this partition is.
    pub fn is_open(&self, partition: &TopicPartition) -> bool {
        self.0.get(partition).is_some_and(Dispute::is_open)
    }

    /// Whether all is said.
    pub fn all_closed(&self) -> bool {
        !self.0.values().any(Dispute::is_open)
    }

    /// For which partitions the coordinator is to be asked now.
    pub fn due(&self, now: Instant) -> Vec<TopicPartition> {
        let is_due = |of: &Dispute| matches!(of.state, State::Due(at) if at <= now);
        let due = self.0.iter().filter(|(_, of)| is_due(of));
        due.map(|(partition, _)| partition.clone()).collect()
    }

    /// The coordinator was asked.
    pub fn asked(
        &mut self,
        partition: &TopicPartition,
        from: NextOffset,
        answer: Receiver<CommitResult>,
    ) {
        self.become_now(partition, State::Asked(from, answer));
    }

    /// It is to be asked again, after a short while.
    pub fn ask_later(&mut self, partition: &TopicPartition, now: Instant) {
        self.become_now(partition, State::Due(now + WAIT_MIN));
    }

    /// The answers that have come, with the position asked with; `None` where none will come.
    pub fn answers(&self) -> Vec<(TopicPartition, NextOffset, Option<CommitResult>)> {
        let answered = |(partition, of): (&TopicPartition, &Dispute)| {
            let State::Asked(from, told) = &of.state else {
                return None;
            };
            match told.try_recv() {
                Ok(answer) => Some((partition.clone(), *from, Some(answer))),
                Err(TryRecvError::Disconnected) => Some((partition.clone(), *from, None)),
                Err(TryRecvError::Empty) => None,
            }
        };
        self.0.iter().filter_map(answered).collect()
    }

    /// The partition is ours.
    pub fn close(&mut self, partition: &TopicPartition, now: Instant) {
        self.become_now(partition, State::Closed(now));
    }

    /// These partitions are not ours any more.
    pub fn forget(&mut self, partitions: &[TopicPartition]) {
        self.0.retain(|of, _| !partitions.contains(of));
    }

    fn become_now(&mut self, partition: &TopicPartition, state: State) {
        if let Some(dispute) = self.0.get_mut(partition) {
            dispute.state = state;
        }
    }
}

impl Dispute {
    fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_is_disputed_without_end_is_taken_back_ever_more_seldom() {
        let of = TopicPartition {
            topic: "t".into(),
            partition: 0,
        };
        let mut disputes = Disputes::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..9 {
            let opened = disputes.open(of.clone(), now, UnitFraction::ZERO);
            assert_eq!(opened == Opened::Repeated, waits.len() == 1, "said once");
            let began = now;
            while disputes.due(now).is_empty() {
                now += Duration::from_millis(500);
            }
            waits.push((now - began).as_millis());
            disputes.close(&of, now);
            assert!(disputes.all_closed());
        }
        let expected = [0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
        assert_eq!(waits, expected);
        now += CALM + WAIT_MAX + WAIT_MIN;
        assert_eq!(
            disputes.open(of.clone(), now, UnitFraction::ZERO),
            Opened::Alone
        );
        assert_eq!(disputes.due(now), [of]);
    }

    #[test]
    fn a_dispute_stands_until_it_is_confirmed_or_the_partition_is_gone() {
        let of = TopicPartition {
            topic: "t".into(),
            partition: 0,
        };
        let mut disputes = Disputes::default();
        let now = Instant::now();
        disputes.open(of.clone(), now, UnitFraction::ZERO);
        let (answer, told) = std::sync::mpsc::channel();
        disputes.asked(&of, NextOffset(3), told);
        assert_eq!((disputes.due(now), disputes.answers()), (vec![], vec![]));
        answer.send(CommitResult::Failed).unwrap();
        let failed = Some(CommitResult::Failed);
        assert_eq!(disputes.answers(), [(of.clone(), NextOffset(3), failed)]);
        disputes.ask_later(&of, now);
        assert!(disputes.is_open(&of) && disputes.due(now).is_empty());
        assert_eq!(disputes.due(now + WAIT_MIN), std::slice::from_ref(&of));
        disputes.forget(&[of]);
        assert!(disputes.all_closed());
    }
}
