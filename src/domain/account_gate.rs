//! Decides whether a provider's account may be asked now. It pauses when the provider says that the account as a whole
//! must wait, and lets one probe at a time through while credentials, endpoint or credit are refused.

use std::time::Duration;

use super::attempt::{Verdict, Wait, WaitScope};
use super::time::Timestamp;

/// One account's gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountGate {
    state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// Closed until then for everyone.
    Paused { until: Timestamp },
    /// Refused: from then on, one may find out whether that is still so.
    Refused { probe_at: Timestamp },
}

/// What the gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Go.
    Free,
    /// Ask again then.
    ClosedUntil(Timestamp),
}

impl AccountGate {
    /// Whether an attempt may start now. A probe that passes keeps the gate closed to others for `probe_span`, the
    /// longest it may take to be answered.
    pub fn ask(&mut self, now: Timestamp, probe_span: Duration) -> Passage {
        match self.state {
            State::Open => Passage::Free,
            State::Paused { until } if until > now => Passage::ClosedUntil(until),
            State::Paused { .. } => {
                self.state = State::Open;
                Passage::Free
            }
            State::Refused { probe_at } if probe_at > now => Passage::ClosedUntil(probe_at),
            State::Refused { .. } => {
                self.state = State::Refused {
                    probe_at: now.plus(probe_span),
                };
                Passage::Free
            }
        }
    }

    /// Takes note of an answer. `probe_interval` is the time between probes of an account that refuses us.
    pub fn answered(
        &mut self,
        verdict: Verdict,
        wait: Option<Wait>,
        now: Timestamp,
        probe_interval: Duration,
    ) {
        match verdict {
            Verdict::Misconfigured | Verdict::AccountHold => {
                let asked = wait.map_or(Duration::ZERO, |wait| wait.at_least);
                self.state = State::Refused {
                    probe_at: now.plus(probe_interval.max(asked)),
                };
            }
            Verdict::Accepted | Verdict::Rejected | Verdict::InProgress | Verdict::Conflict => {
                if matches!(self.state, State::Refused { .. }) {
                    self.state = State::Open;
                }
            }
            Verdict::Throttled | Verdict::Unknown | Verdict::NotSent => {}
        }
        if let Some(Wait {
            at_least,
            scope: WaitScope::Account,
            unit_doubt: _,
        }) = wait
        {
            let until = now.plus(at_least);
            match &mut self.state {
                State::Paused { until: known } => *known = until.max(*known),
                State::Open => self.state = State::Paused { until },
                State::Refused { .. } => {}
            }
        }
    }

    /// Whether it is closed for the time being.
    pub fn is_closed(&self, now: Timestamp) -> bool {
        match self.state {
            State::Open => false,
            State::Paused { until } => until > now,
            State::Refused { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const SPAN: Duration = Duration::from_secs(35);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn an_account_that_refuses_us_gets_one_probe_a_minute_until_it_answers_otherwise() {
        let mut gate = AccountGate::default();
        assert_eq!(gate.ask(at(0), SPAN), Passage::Free);
        gate.answered(Verdict::Misconfigured, None, at(0), MINUTE);
        assert_eq!(gate.ask(at(59), SPAN), Passage::ClosedUntil(at(60)));
        assert_eq!(gate.ask(at(60), SPAN), Passage::Free, "the probe");
        assert_eq!(
            gate.ask(at(60), SPAN),
            Passage::ClosedUntil(at(95)),
            "nobody beside it"
        );
        gate.answered(Verdict::Misconfigured, None, at(61), MINUTE);
        assert_eq!(gate.ask(at(120), SPAN), Passage::ClosedUntil(at(121)));
        assert_eq!(gate.ask(at(121), SPAN), Passage::Free);
        gate.answered(Verdict::Accepted, None, at(122), MINUTE);
        assert_eq!(gate.ask(at(122), SPAN), Passage::Free);
        assert_eq!(gate.ask(at(122), SPAN), Passage::Free);
    }

    #[test]
    fn a_probe_whose_maker_is_gone_is_followed_by_another() {
        let mut gate = AccountGate::default();
        gate.answered(Verdict::AccountHold, None, at(0), MINUTE);
        assert_eq!(gate.ask(at(60), SPAN), Passage::Free);
        assert_eq!(gate.ask(at(95), SPAN), Passage::Free);
    }

    #[test]
    fn a_wait_for_the_whole_account_closes_it_and_is_never_shortened() {
        let wait = |seconds| {
            Some(Wait {
                at_least: Duration::from_secs(seconds),
                scope: WaitScope::Account,
                unit_doubt: false,
            })
        };
        let mut gate = AccountGate::default();
        gate.answered(Verdict::Throttled, wait(30), at(0), MINUTE);
        gate.answered(Verdict::Throttled, wait(10), at(1), MINUTE);
        assert_eq!(gate.ask(at(29), SPAN), Passage::ClosedUntil(at(30)));
        assert!(gate.is_closed(at(29)));
        assert_eq!(gate.ask(at(30), SPAN), Passage::Free);
        assert!(!gate.is_closed(at(30)));
    }

    #[test]
    fn a_wait_for_one_intent_leaves_the_account_open() {
        let wait = Wait {
            at_least: MINUTE,
            scope: WaitScope::Intent,
            unit_doubt: false,
        };
        let mut gate = AccountGate::default();
        gate.answered(Verdict::Throttled, Some(wait), at(0), MINUTE);
        assert_eq!(gate.ask(at(0), SPAN), Passage::Free);
    }
}
