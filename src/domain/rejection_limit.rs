//! Decides when the intents of one template are no longer sent to one provider because too many of them are rejected, and how
//! it is found out that they are taken again. A deploy that broke a template must not empty a topic into the dead letters.
//!
//! Paused, one intent is tried from time to time: rejected, it is set aside like any other, and the pause goes on; accepted,
//! the others follow by and by, and go on being watched. It does not know what a rejection is, nor who waits.
//!
//! Its moments are those of a clock that never steps; where they begin does not matter.

use std::collections::VecDeque;
use std::time::Duration;

use super::attempt::Verdict;
use super::breaker::Refusal;
use super::time::{Timestamp, UnitFraction};

/// So many intents of a template that nobody has seen accepted are under way at most. Each that is accepted makes room for one
/// more.
const ROOM: u32 = 10;

/// When intents are paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectionRules {
    /// Looks back at so many outcomes.
    pub outcomes: u32,
    /// Pauses when so many percent of them were rejections, however few others there were; after a pause, of those since then.
    pub share_percent: u32,
    /// Between two that are tried.
    pub probe_interval: Duration,
}

/// The limit of one template at one provider.
#[derive(Clone, Debug)]
pub struct RejectionLimit {
    rules: RejectionRules,
    /// The latest outcomes, oldest first; true is a rejection.
    latest: VecDeque<bool>,
    /// As many may be under way.
    room: u32,
    under_way: u32,
    /// Grows with each pause: what was under way before it says nothing of what is found out in it.
    term: u64,
    /// While it is paused, when the next one is tried.
    probe_at: Option<Timestamp>,
    /// There was a pause, and `outcomes` have not come since.
    on_probation: bool,
}

/// What an intent came to, as far as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider took it.
    Accepted,
    /// The provider refused it for good, or no request could be made of it.
    Rejected,
    /// Neither is known.
    Open,
}

/// The right to send one intent. Given back with its outcome, or when it is not used.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Leave {
    term: u64,
}

/// A change that an operator wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing is sent any more but for one at a time.
    Paused {
        /// So many were rejected
        rejected: usize,
        /// of the latest outcomes.
        of: usize,
    },
    /// The one that was tried was rejected too.
    StillRejected,
    /// The one that was tried was accepted: others follow.
    Released,
}

impl Outcome {
    /// What a verdict says of the intent's template.
    pub const fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Accepted => Self::Accepted,
            Verdict::Rejected => Self::Rejected,
            Verdict::NotSent
            | Verdict::Throttled
            | Verdict::Unknown
            | Verdict::InProgress
            | Verdict::Conflict
            | Verdict::Misconfigured
            | Verdict::AccountHold => Self::Open,
        }
    }
}

impl RejectionRules {
    /// Rejections among the latest outcomes that pause.
    pub fn rejections_max(&self) -> usize {
        let share = u64::from(self.outcomes) * u64::from(self.share_percent);
        usize::try_from(share.div_ceil(100).max(1)).unwrap_or(usize::MAX)
    }

    fn outcomes_max(&self) -> usize {
        usize::try_from(self.outcomes).unwrap_or(usize::MAX)
    }
}

impl RejectionLimit {
    /// One that has seen nothing, and pauses nothing.
    pub fn new(rules: RejectionRules) -> Self {
        Self {
            rules,
            latest: VecDeque::new(),
            room: ROOM,
            under_way: 0,
            term: 0,
            probe_at: None,
            on_probation: false,
        }
    }

    /// Leave to send one now, or what to wait for.
    pub fn ask(&mut self, now: Timestamp) -> Result<Leave, Refusal> {
        let room = match self.probe_at {
            Some(then) if then > now => return Err(Refusal::Until(then)),
            Some(_) => 1,
            None => self.room,
        };
        if self.under_way >= room {
            return Err(Refusal::UntilAnswered);
        }
        self.under_way += 1;
        Ok(Leave { term: self.term })
    }

    /// Whether what has not been sent yet may still be sent with this leave: there was no pause since.
    pub fn holds(&self, leave: &Leave) -> bool {
        leave.term == self.term
    }

    /// Takes back a leave that was not used.
    pub fn unused(&mut self, leave: Leave) {
        if self.holds(&leave) {
            self.under_way = self.under_way.saturating_sub(1);
        }
    }

    /// Takes note of what the one with this leave came to.
    pub fn ended(
        &mut self,
        leave: Leave,
        outcome: Outcome,
        now: Timestamp,
        jitter: UnitFraction,
    ) -> Option<Change> {
        let is_late = !self.holds(&leave);
        self.unused(leave);
        match outcome {
            Outcome::Open => None,
            Outcome::Accepted | Outcome::Rejected if is_late => None,
            Outcome::Accepted => self.accepted(),
            Outcome::Rejected => self.rejected(now, jitter),
        }
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.probe_at.is_some()
    }

    fn accepted(&mut self) -> Option<Change> {
        let was_paused = self.probe_at.take().is_some();
        if was_paused {
            self.latest.clear();
            self.room = 1;
            self.on_probation = true;
        }
        self.room = self.room.saturating_add(1);
        self.look_back(false);
        was_paused.then_some(Change::Released)
    }

    fn rejected(&mut self, now: Timestamp, jitter: UnitFraction) -> Option<Change> {
        let interval = self.rules.probe_interval;
        let probe_at = now.plus(interval + jitter.of(interval / 10));
        if self.is_paused() {
            self.probe_at = Some(probe_at);
            return Some(Change::StillRejected);
        }
        let rejected = self.look_back(true);
        let of = self.latest.len();
        let share = usize::try_from(self.rules.share_percent).unwrap_or(100);
        let is_too_much = rejected >= self.rules.rejections_max()
            || (self.on_probation && rejected * 100 >= of * share);
        if !is_too_much {
            return None;
        }
        self.probe_at = Some(probe_at);
        self.term += 1;
        self.under_way = 0;
        Some(Change::Paused { rejected, of })
    }

    /// Adds an outcome to those looked back at. Returns how many of them were rejections.
    fn look_back(&mut self, rejected: bool) -> usize {
        self.latest.push_back(rejected);
        let most = self.rules.outcomes_max();
        while self.latest.len() > most {
            self.latest.pop_front();
        }
        if self.latest.len() >= most {
            self.on_probation = false;
        }
        self.latest.iter().filter(|rejected| **rejected).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: RejectionRules = RejectionRules {
        outcomes: 20,
        share_percent: 50,
        probe_interval: Duration::from_secs(60),
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn ends(limit: &mut RejectionLimit, outcome: Outcome, now: Timestamp) -> Option<Change> {
        let leave = limit.ask(now).unwrap();
        limit.ended(leave, outcome, now, UnitFraction::ZERO)
    }

    fn paused() -> RejectionLimit {
        let mut limit = RejectionLimit::new(RULES);
        for _ in 0..10 {
            ends(&mut limit, Outcome::Rejected, at(0));
        }
        assert!(limit.is_paused());
        limit
    }

    /// The outcomes, `a` accepted, `r` rejected and `o` open, up to the one that pauses; the place of that one.
    fn pauses_at(outcomes: impl IntoIterator<Item = char>) -> Option<usize> {
        let mut limit = RejectionLimit::new(RULES);
        outcomes.into_iter().position(|outcome| {
            let outcome = match outcome {
                'a' => Outcome::Accepted,
                'r' => Outcome::Rejected,
                _ => Outcome::Open,
            };
            let change = ends(&mut limit, outcome, at(0));
            matches!(change, Some(Change::Paused { .. }))
        })
    }

    #[test]
    fn it_pauses_at_the_share_of_the_latest_outcomes_however_few_others_there_were() {
        for (outcomes, paused_at) in [
            ("rrrrrrrrrrrr", Some(9)),
            ("rororororororororororo", Some(18)),
            ("ararararararararararar", Some(19)),
            ("aaaaaaaaaaaaaaaaaaaaaaaarrrrrrrrrr", Some(33)),
            ("rrrrrrrrraaaaaaaaaaaaaarrrrrrrrra", None),
            ("aararaaraaraaraaraaraaraara", None),
        ] {
            assert_eq!(pauses_at(outcomes.chars()), paused_at, "{outcomes}");
        }
    }

    #[test]
    fn paused_one_is_tried_at_a_time_and_its_rejection_goes_on_with_the_pause() {
        let mut limit = paused();
        assert_eq!(limit.ask(at(59)), Err(Refusal::Until(at(60))));
        let probe = limit.ask(at(60)).unwrap();
        assert_eq!(limit.ask(at(60)), Err(Refusal::UntilAnswered));
        let still = limit.ended(probe, Outcome::Rejected, at(61), UnitFraction::ZERO);
        assert_eq!(still, Some(Change::StillRejected));
        assert_eq!(limit.ask(at(120)), Err(Refusal::Until(at(121))));

        // One that was not sent after all, or of which nothing is known, leaves its turn to the next one.
        let probe = limit.ask(at(121)).unwrap();
        limit.unused(probe);
        assert_eq!(ends(&mut limit, Outcome::Open, at(121)), None);
        let probe = limit.ask(at(121)).unwrap();
        let half = UnitFraction::new(0.5).unwrap();
        limit.ended(probe, Outcome::Rejected, at(121), half);
        assert_eq!(limit.ask(at(121)), Err(Refusal::Until(at(184))), "jitter");
    }

    #[test]
    fn an_acceptance_releases_it_and_each_makes_room_for_one_more() {
        let mut limit = paused();
        let released = ends(&mut limit, Outcome::Accepted, at(60));
        assert_eq!(released, Some(Change::Released));
        let mut under_way = vec![limit.ask(at(60)).unwrap(), limit.ask(at(60)).unwrap()];
        assert_eq!(limit.ask(at(60)), Err(Refusal::UntilAnswered));
        for _ in 0..20 {
            let one = under_way.pop().unwrap();
            assert_eq!(
                limit.ended(one, Outcome::Accepted, at(60), UnitFraction::ZERO),
                None
            );
            under_way.extend([limit.ask(at(60)).unwrap(), limit.ask(at(60)).unwrap()]);
        }
        assert_eq!(under_way.len(), 22);
    }

    #[test]
    fn after_a_pause_the_share_is_that_of_what_has_come_since() {
        let mut limit = paused();
        ends(&mut limit, Outcome::Accepted, at(60));
        let again = ends(&mut limit, Outcome::Rejected, at(60));
        assert_eq!(again, Some(Change::Paused { rejected: 1, of: 2 }));

        ends(&mut limit, Outcome::Accepted, at(120));
        for _ in 1..20 {
            assert_eq!(ends(&mut limit, Outcome::Accepted, at(120)), None);
        }
        for _ in 0..9 {
            assert_eq!(ends(&mut limit, Outcome::Rejected, at(120)), None);
        }
        assert!(ends(&mut limit, Outcome::Rejected, at(120)).is_some());
    }

    #[test]
    fn what_was_under_way_before_the_pause_neither_releases_nor_lengthens_it() {
        let mut limit = RejectionLimit::new(RULES);
        let mut early: Vec<Leave> = (0..10).map(|_| limit.ask(at(0)).unwrap()).collect();
        assert_eq!(
            limit.ask(at(0)),
            Err(Refusal::UntilAnswered),
            "ten at first"
        );
        let rules = RejectionRules {
            share_percent: 10,
            ..RULES
        };
        let mut strict = RejectionLimit { rules, ..limit };
        for outcome in [Outcome::Rejected, Outcome::Rejected] {
            let leave = early.pop().unwrap();
            strict.ended(leave, outcome, at(1), UnitFraction::ZERO);
        }
        assert!(strict.is_paused());
        assert!(!strict.holds(&early[0]), "what is not sent yet waits again");
        for outcome in [Outcome::Accepted, Outcome::Rejected, Outcome::Open] {
            let leave = early.pop().unwrap();
            let change = strict.ended(leave, outcome, at(30), UnitFraction::ZERO);
            assert_eq!(change, None);
        }
        assert_eq!(strict.ask(at(60)), Err(Refusal::Until(at(61))));
        let probe = strict.ask(at(61)).unwrap();
        assert!(strict.holds(&probe));
        assert_eq!(strict.ask(at(61)), Err(Refusal::UntilAnswered));
    }

    proptest! {
        /// However it comes: no more are rejected than are said to be before a pause, those under way included.
        #[test]
        fn rejections_before_a_pause_are_bounded(
            outcomes in 1_u32..60,
            share_percent in 1_u32..=100,
            accepted_before in 0_usize..200,
            steps in prop::collection::vec(any::<bool>(), 1..400),
        ) {
            let rules = RejectionRules { outcomes, share_percent, ..RULES };
            let mut limit = RejectionLimit::new(rules);
            for _ in 0..accepted_before {
                ends(&mut limit, Outcome::Accepted, at(0));
            }
            // From now on everything is rejected.
            let (mut under_way, mut rejected) = (Vec::new(), 0);
            for comes in steps {
                if comes {
                    under_way.extend(limit.ask(at(0)));
                } else if let Some(leave) = under_way.pop() {
                    rejected += 1;
                    limit.ended(leave, Outcome::Rejected, at(0), UnitFraction::ZERO);
                }
            }
            rejected += under_way.len();
            let most = rules.rejections_max() + 10 + accepted_before - 1;
            prop_assert!(rejected <= most, "{rejected} > {most}");
        }

        /// Oracle: the whole history, counted anew each time.
        #[test]
        fn it_pauses_exactly_when_the_share_is_reached(
            outcomes in 1_u32..30,
            share_percent in 1_u32..=100,
            history in prop::collection::vec(any::<bool>(), 1..200),
        ) {
            let rules = RejectionRules { outcomes, share_percent, ..RULES };
            let mut limit = RejectionLimit::new(rules);
            for (n, is_rejected) in history.iter().enumerate() {
                let outcome = if *is_rejected { Outcome::Rejected } else { Outcome::Accepted };
                ends(&mut limit, outcome, at(0));
                let from = (n + 1).saturating_sub(outcomes as usize);
                let rejected = history[from..=n].iter().filter(|rejected| **rejected).count();
                let is_reached = rejected * 100 >= outcomes as usize * share_percent as usize;
                prop_assert_eq!(limit.is_paused(), is_reached && *is_rejected, "after {} outcomes", n + 1);
                if limit.is_paused() {
                    break;
                }
            }
        }
    }
}
