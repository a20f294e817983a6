//! Decides whether a provider's account may be asked now: not while the provider wants the account as a whole to wait, not
//! while its circuit is open, and not faster than its rate. It does not know who waits for it, nor in which order they go.
//!
//! Its moments are those of a clock that never steps; where they begin does not matter.

mod rate;

use std::time::Duration;

use super::attempt::{Wait, WaitScope};
use super::breaker::{Breaker, BreakerRules, BreakerState, Noted, Refusal, Signal, Ticket};
use super::time::{Timestamp, UnitFraction};
use rate::{Bucket, Ramp};
pub use rate::{RateLimit, Share};

/// One account's gate.
#[derive(Debug)]
pub struct AccountGate {
    breaker: Breaker,
    pause: Option<Pause>,
    bucket: Option<Bucket>,
    ramp: Option<Ramp>,
}

/// A wait that the provider wants of the account as a whole.
#[derive(Clone, Copy, Debug)]
struct Pause {
    /// When the first answer asked for it.
    since: Timestamp,
    until: Timestamp,
}

/// An answer, as far as it concerns the account as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountAnswer {
    /// What it says of the provider.
    pub signal: Signal,
    /// The wait that the provider asked for.
    pub wait: Option<Wait>,
}

impl AccountGate {
    /// An open one, closed when these rules say so. Without `limit` it has no rate but after pauses.
    pub fn new(rules: BreakerRules, limit: Option<RateLimit>) -> Self {
        Self {
            breaker: Breaker::new(rules),
            pause: None,
            bucket: limit.map(Bucket::new),
            ramp: None,
        }
    }

    /// From now on this share of the rate is ours.
    pub fn share(&mut self, share: Share, now: Timestamp) {
        if let Some(bucket) = &mut self.bucket {
            bucket.share(share, now);
        }
    }

    /// Takes note that, by an intent's story, the provider was down when it was last asked.
    pub fn was_down(&mut self) {
        self.breaker.was_down();
    }

    /// Leave to start one attempt now, or what to wait for.
    pub fn ask(&mut self, now: Timestamp) -> Result<Ticket, Refusal> {
        if let Some(pause) = self.pause {
            if pause.until > now {
                return Err(Refusal::Until(pause.until));
            }
            self.pause = None;
            match &mut self.bucket {
                Some(bucket) => bucket.empty(now),
                None => self.ramp = Some(Ramp::after_pause(self.ramp, pause.since, now)),
            }
        }
        let before = self.breaker.state();
        let ticket = self.breaker.ask(now)?;
        if before == BreakerState::Open
            && let Some(bucket) = &mut self.bucket
        {
            bucket.empty(now);
            // The probe goes all the same.
            return Ok(ticket);
        }
        match self.take_token(now) {
            Ok(()) => Ok(ticket),
            Err(then) => {
                self.breaker.unused(ticket);
                Err(Refusal::Until(then))
            }
        }
    }

    fn take_token(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        if let Some(bucket) = &self.bucket {
            return bucket.take(now);
        }
        if self.ramp.is_some_and(|ramp| ramp.is_over(now)) {
            self.ramp = None;
        }
        self.ramp.as_mut().map_or(Ok(()), |ramp| ramp.take(now))
    }

    /// Takes back a ticket that was not used.
    pub fn unused(&mut self, ticket: Ticket) {
        self.breaker.unused(ticket);
    }

    /// Takes note of what the attempt of `ticket` came to. A pause of the whole account is never shortened, and jitter
    /// makes it longer, so that the instances of a group do not come back in the same moment.
    pub fn answered(
        &mut self,
        ticket: Ticket,
        answer: AccountAnswer,
        now: Timestamp,
        jitter: UnitFraction,
    ) -> Noted {
        let AccountAnswer { signal, wait } = answer;
        if let Some(Wait {
            at_least,
            scope: WaitScope::Account,
            unit_doubt: _,
        }) = wait
        {
            let spread = jitter.of((at_least / 10).max(Duration::from_secs(1)));
            let until = now.plus(at_least + spread);
            let known = self.pause.unwrap_or(Pause { since: now, until });
            self.pause = Some(Pause {
                since: known.since,
                until: known.until.max(until),
            });
        }
        self.breaker.answered(ticket, signal, wait, now, jitter)
    }

    /// How its circuit stands.
    pub fn state(&self) -> BreakerState {
        self.breaker.state()
    }
}

#[cfg(test)]
mod outages;
#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::domain::breaker::Cause;
    use crate::domain::breaker::tests::RULES;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn throttled(seconds: u64, scope: WaitScope) -> AccountAnswer {
        AccountAnswer {
            signal: Signal::Alive,
            wait: Some(Wait {
                at_least: Duration::from_secs(seconds),
                scope,
                unit_doubt: false,
            }),
        }
    }

    fn answer(gate: &mut AccountGate, answer: AccountAnswer, now: Timestamp, jitter: f64) {
        let ticket = gate.ask(at(0)).unwrap();
        let jitter = UnitFraction::new(jitter).unwrap();
        gate.answered(ticket, answer, now, jitter);
    }

    #[test]
    fn a_wait_for_the_whole_account_closes_it_and_is_never_shortened() {
        let mut gate = AccountGate::new(RULES, None);
        let [first, second] = [gate.ask(at(0)).unwrap(), gate.ask(at(0)).unwrap()];
        let account = |seconds| throttled(seconds, WaitScope::Account);
        gate.answered(first, account(30), at(0), UnitFraction::ZERO);
        gate.answered(second, account(10), at(1), UnitFraction::ZERO);
        assert_eq!(gate.ask(at(29)), Err(Refusal::Until(at(30))));
        assert!(gate.ask(at(30)).is_ok());
    }

    #[test]
    fn p26_a_pause_is_lengthened_by_up_to_a_tenth_so_that_instances_do_not_come_back_together() {
        let mut gate = AccountGate::new(RULES, None);
        answer(&mut gate, throttled(30, WaitScope::Account), at(0), 0.5);
        let until = Timestamp::from_millis(31_500);
        assert_eq!(gate.ask(at(0)), Err(Refusal::Until(until)));
    }

    #[test]
    fn a_bucket_has_nothing_saved_up_after_a_pause() {
        let limit = RateLimit {
            per_second: NonZeroU32::new(10).unwrap(),
            burst: NonZeroU32::new(5),
        };
        let mut gate = AccountGate::new(RULES, Some(limit));
        answer(&mut gate, throttled(30, WaitScope::Account), at(0), 0.0);
        let until = Timestamp::from_millis(30_100);
        assert_eq!(gate.ask(at(30)), Err(Refusal::Until(until)));
        assert!(gate.ask(until).is_ok());
        let next = Timestamp::from_millis(30_200);
        assert_eq!(gate.ask(until), Err(Refusal::Until(next)));
    }

    #[test]
    fn a_wait_for_one_intent_leaves_the_account_open() {
        let mut gate = AccountGate::new(RULES, None);
        answer(&mut gate, throttled(60, WaitScope::Intent), at(0), 0.5);
        assert!(gate.ask(at(0)).is_ok());
    }

    #[test]
    fn a_wait_for_one_intent_keeps_no_probe_of_the_account_for_days() {
        let probed_from = |scope| {
            let mut gate = AccountGate::new(RULES, None);
            let days = AccountAnswer {
                signal: Signal::Down(Cause::ServerError),
                wait: throttled(3 * 86_400, scope).wait,
            };
            let tickets: Vec<_> = (0..5).map(|_| gate.ask(at(0)).unwrap()).collect();
            for ticket in tickets {
                gate.answered(ticket, days, at(0), UnitFraction::ZERO);
            }
            gate.ask(at(0)).unwrap_err()
        };
        assert_eq!(probed_from(WaitScope::Intent), Refusal::Until(at(60)));
        let days = Refusal::Until(at(3 * 86_400));
        assert_eq!(probed_from(WaitScope::Account), days);
    }

    #[test]
    fn p22_an_open_circuit_closes_it_too() {
        let mut gate = AccountGate::new(RULES, None);
        let expired = AccountAnswer {
            signal: Signal::Down(Cause::Tls),
            wait: None,
        };
        for n in 1..=5 {
            let ticket = gate.ask(at(0)).unwrap();
            let noted = gate.answered(ticket, expired, at(0), UnitFraction::ZERO);
            assert_eq!(noted.spares, n == 5);
        }
        assert_eq!(gate.state(), BreakerState::Open);
        assert_eq!(gate.ask(at(0)), Err(Refusal::Until(at(1))));
    }
}
