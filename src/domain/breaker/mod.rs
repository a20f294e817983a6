//! Decides when a provider counts as down, how it is found to be up again, and which failures are its own.
//!
//! Closed, it looks back at the latest answers and opens when too many of them were failures of the provider as a whole.
//! Open, nobody may ask until the next probe is due. Half-open, one probe finds out; each good answer then makes room for
//! one more request, each failure halves the room while the share of failures is that of a provider that is down, and none is
//! left means open again. Room that has grown enough closes it, and goes on growing, so that a crowd that has waited comes back
//! by and by. So a provider that fails often, but not often enough to count as down, is let alone again soon.
//!
//! What fails by the provider's fault while it is down must not cost an intent its budget: `Noted::spares` says of which
//! answers that is true. It does not know what an answer means for its intent, and a provider that is slow without failing
//! is none of its business.

mod signal;
#[cfg(test)]
pub(super) mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use super::attempt::{Wait, WaitScope};
use super::time::{Timestamp, UnitFraction};
pub use signal::{Cause, Signal};

/// So much room, and it counts as recovered.
const RECOVERED_AT: u32 = 10;
/// So many answers are looked at while it recovers.
const LATEST: usize = 10;

/// When it opens and how it probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRules {
    /// Looks back at so many answers at most.
    pub answers: u32,
    /// And no further than this.
    pub window: Duration,
    /// Opens when so many percent of `answers` were failures, however few others there were.
    pub share_percent: u32,
    /// Opens when so many answers in a row were failures, however long ago: below the budget of an intent, so that one that is
    /// alone does not use its budget up. Where a whole lot of `answers` has come within the window, the row must have lasted
    /// for `first_probe`: in a crowd a short one is an accident.
    pub in_row: u32,
    /// From opening to the first probe; doubles with each probe that fails.
    pub first_probe: Duration,
    /// Its bound, and the time between probes of an account that refuses us.
    pub probe_interval: Duration,
}

/// One provider account's circuit.
#[derive(Clone, Debug)]
pub struct Breaker {
    rules: BreakerRules,
    phase: Phase,
    /// Grows whenever it opens: what was asked before is not what is found out after.
    term: u64,
    /// Requests of this term on the wire.
    in_flight: u32,
    /// Something has been found out since it was made.
    heard: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    Closed {
        /// The latest answers, oldest first; true is a failure.
        answers: VecDeque<(Timestamp, bool)>,
        failures_in_row: u32,
        /// When the first of them came.
        row_since: Timestamp,
        /// As many requests may be on the wire; no limit once it is above what anybody sends.
        room: u32,
    },
    Open {
        cause: Cause,
        probe_at: Timestamp,
        interval: Duration,
    },
    HalfOpen {
        /// One while a probe finds out.
        room: u32,
        /// What the next probe waits for if this one fails.
        interval: Duration,
        /// A probe has gone well since it opened.
        proven: bool,
        /// The latest answers since it opened; true is a failure.
        latest: VecDeque<bool>,
    },
}

/// The right to make one request. Given back with its answer, or when it is not used.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Ticket {
    term: u64,
}

/// Why nothing may be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Ask again then.
    Until(Timestamp),
    /// Ask again when an answer has come.
    UntilAnswered,
}

/// How it stands, for those who look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// All may ask.
    Closed,
    /// Nobody may.
    Open,
    /// It is being found out whether all may.
    HalfOpen,
}

/// A change that an operator wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has opened.
    Opened(Cause),
    /// A probe went well: more are let through.
    Recovering,
    /// What followed a probe that went well failed: open again. A probe that fails changes nothing.
    FellBack(Cause),
    /// It has closed.
    Closed,
}

/// What an answer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The provider as a whole was failing: the attempt is not to be held against its intent.
    pub spares: bool,
    /// What it changed.
    pub change: Option<Change>,
}

impl BreakerState {
    /// Every state, in the order of the enum.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

impl BreakerRules {
    /// Failures among the answers looked back at that open it.
    fn failures_max(&self) -> usize {
        let share = u64::from(self.answers) * u64::from(self.share_percent);
        usize::try_from(share.div_ceil(100).max(1)).unwrap_or(usize::MAX)
    }
}

impl Breaker {
    /// A closed one.
    pub fn new(rules: BreakerRules) -> Self {
        Self {
            rules,
            phase: Phase::closed(u32::MAX),
            term: 0,
            in_flight: 0,
            heard: false,
        }
    }

    /// Takes note that, by an intent's story, the provider was down when it was last asked. A process that has heard
    /// nothing of the provider yet then begins with a probe, instead of finding out anew at the cost of budgets.
    pub fn was_down(&mut self) {
        if !self.heard {
            self.heard = true;
            self.term += 1;
            self.in_flight = 0;
            self.phase = Phase::HalfOpen {
                room: 1,
                interval: self.first_probe(),
                proven: false,
                latest: VecDeque::new(),
            };
        }
    }

    /// Leave to make one request now, or what to wait for.
    pub fn ask(&mut self, now: Timestamp) -> Result<Ticket, Refusal> {
        let room = match self.phase {
            Phase::Closed { room, .. } | Phase::HalfOpen { room, .. } => room,
            Phase::Open { probe_at, .. } if probe_at > now => return Err(Refusal::Until(probe_at)),
            Phase::Open { interval, .. } => {
                self.phase = Phase::HalfOpen {
                    room: 1,
                    interval,
                    proven: false,
                    latest: VecDeque::new(),
                };
                1
            }
        };
        if self.in_flight >= room {
            return Err(Refusal::UntilAnswered);
        }
        self.in_flight += 1;
        Ok(Ticket { term: self.term })
    }

    /// Takes back a ticket that was not used, or whose answer nobody will tell.
    pub fn unused(&mut self, ticket: Ticket) {
        if ticket.term == self.term {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
    }

    /// Takes note of what the request of `ticket` came to. `asked` is the wait that the provider named: one for the account,
    /// or named by an account that refuses us, is kept to before the next probe; one that was named for an intent defers the
    /// probe by no more than the time between probes.
    pub fn answered(
        &mut self,
        ticket: Ticket,
        signal: Signal,
        asked: Option<Wait>,
        now: Timestamp,
        jitter: UnitFraction,
    ) -> Noted {
        let term = self.term;
        let late = ticket.term != term;
        self.unused(ticket);
        let (failed, change) = match signal {
            Signal::Silent => (false, None),
            Signal::Alive if late => (false, None),
            Signal::Down(_) if late => (true, None),
            Signal::Alive => (false, self.alive(now)),
            Signal::Down(cause) => (true, self.down(cause, now)),
        };
        self.heard |= signal != Signal::Silent;
        if self.term != term {
            self.set_probe(asked, now, jitter);
        }
        let is_closed = matches!(self.phase, Phase::Closed { .. });
        Noted {
            spares: failed && (late || !is_closed),
            change,
        }
    }

    /// How it stands.
    pub fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    fn alive(&mut self, now: Timestamp) -> Option<Change> {
        let first = self.first_probe();
        match &mut self.phase {
            Phase::Closed {
                failures_in_row,
                room,
                ..
            } => {
                *failures_in_row = 0;
                *room = room.saturating_add(1);
                self.look_back(now, false);
                None
            }
            Phase::HalfOpen {
                room,
                interval,
                proven,
                latest,
            } => {
                *room += 1;
                look_at_latest(latest, false);
                *interval = first;
                if *room >= RECOVERED_AT {
                    self.phase = Phase::closed(*room);
                    return Some(Change::Closed);
                }
                (!std::mem::replace(proven, true)).then_some(Change::Recovering)
            }
            Phase::Open { .. } => None,
        }
    }

    fn down(&mut self, cause: Cause, now: Timestamp) -> Option<Change> {
        let first = self.first_probe();
        match &mut self.phase {
            Phase::Closed {
                failures_in_row,
                row_since,
                ..
            } => {
                if *failures_in_row == 0 {
                    *row_since = now;
                }
                *failures_in_row += 1;
                let in_row = *failures_in_row >= self.rules.in_row;
                let has_lasted = now.since(*row_since) >= first;
                let (failures, all) = self.look_back(now, true);
                let few = all < usize::try_from(self.rules.answers).unwrap_or(usize::MAX);
                let in_row = in_row && (few || has_lasted);
                if !(cause.is_refusal() || in_row || failures >= self.rules.failures_max()) {
                    return None;
                }
                self.open(cause, first, now);
                Some(Change::Opened(cause))
            }
            Phase::HalfOpen {
                room,
                interval,
                proven,
                latest,
            } => {
                let failures = look_at_latest(latest, true) * 100;
                let share = usize::try_from(self.rules.share_percent).unwrap_or(100);
                if failures >= latest.len() * share {
                    *room /= 2;
                }
                if *room > 0 && !cause.is_refusal() {
                    return None;
                }
                let (interval, proven) = (*interval, *proven);
                self.open(cause, interval, now);
                proven.then_some(Change::FellBack(cause))
            }
            Phase::Open { .. } => None,
        }
    }

    /// Adds an answer to those looked back at. Returns how many of them were failures, and how many there are.
    fn look_back(&mut self, now: Timestamp, failed: bool) -> (usize, usize) {
        let Phase::Closed { answers, .. } = &mut self.phase else {
            return (0, 0);
        };
        answers.push_back((now, failed));
        let most = usize::try_from(self.rules.answers).unwrap_or(usize::MAX);
        while answers.len() > most
            || answers
                .front()
                .is_some_and(|(at, _)| now.since(*at) > self.rules.window)
        {
            answers.pop_front();
        }
        let failures = answers.iter().filter(|(_, failed)| *failed).count();
        (failures, answers.len())
    }

    fn first_probe(&self) -> Duration {
        self.rules.first_probe.min(self.rules.probe_interval)
    }

    fn open(&mut self, cause: Cause, interval: Duration, now: Timestamp) {
        self.term += 1;
        self.in_flight = 0;
        self.phase = Phase::Open {
            cause,
            probe_at: now,
            interval,
        };
    }

    /// Sets the time of the next probe, and what the one after it waits for.
    fn set_probe(&mut self, asked: Option<Wait>, now: Timestamp, jitter: UnitFraction) {
        let most = self.rules.probe_interval;
        if let Phase::Open {
            cause,
            probe_at,
            interval,
        } = &mut self.phase
        {
            if cause.is_refusal() {
                *interval = most;
            }
            let asked = asked.map_or(Duration::ZERO, |wait| match wait.scope {
                WaitScope::Account => wait.at_least,
                WaitScope::Intent | WaitScope::Recipient if cause.is_refusal() => wait.at_least,
                WaitScope::Intent | WaitScope::Recipient => wait.at_least.min(most),
            });
            let wait = (*interval).max(asked);
            *probe_at = now.plus(wait + jitter.of(wait / 10));
            *interval = (*interval * 2).min(most);
        }
    }
}

/// Adds an answer to the latest ones, as many as count as recovered. Returns how many of them were failures.
fn look_at_latest(latest: &mut VecDeque<bool>, failed: bool) -> usize {
    latest.push_back(failed);
    if latest.len() > LATEST {
        latest.pop_front();
    }
    latest.iter().filter(|failed| **failed).count()
}

impl Phase {
    fn closed(room: u32) -> Self {
        Self::Closed {
            answers: VecDeque::new(),
            failures_in_row: 0,
            row_since: Timestamp::EPOCH,
            room,
        }
    }
}
