//! Decides when the next attempt is due. It does not decide whether there is one: that is `dispatch`.

use std::time::Duration;

use super::attempt::{Verdict, Wait};
use super::time::{Timestamp, UnitFraction};

/// Full jitter: the n-th wait is drawn evenly from zero to `base` · 2ⁿ, never above `cap`.
///
/// Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The ceiling of the first wait.
    pub base: Duration,
    /// The ceiling of every wait.
    pub cap: Duration,
}

impl Backoff {
    /// The wait after the failure number `n`, counted from 0; at least a millisecond.
    pub fn wait(self, n: u32, jitter: UnitFraction) -> Duration {
        jitter.of(self.ceiling(n)).max(Duration::from_millis(1))
    }

    /// What that wait stays below.
    pub fn ceiling(self, n: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(n)
            .and_then(|factor| self.base.checked_mul(factor));
        doubled.unwrap_or(self.cap).min(self.cap)
    }
}

/// How an answer is followed up in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// After failures.
    pub backoff: Backoff,
    /// Between polls of a key that the provider is still working on, unless it names a wait.
    pub in_progress_wait: Duration,
    /// Between probes of an account that refuses us.
    pub probe_interval: Duration,
}

impl Pace {
    /// No earlier than this may the next attempt start. `spent` is the budget used before this answer.
    ///
    /// A wait that the provider asked for replaces the local schedule and is never undercut: jitter only adds.
    pub fn due(
        &self,
        verdict: Verdict,
        wait: Option<Wait>,
        spent: u32,
        now: Timestamp,
        jitter: UnitFraction,
    ) -> Option<Timestamp> {
        let drawn = self.backoff.wait(spent, jitter);
        let local = match verdict {
            Verdict::Accepted | Verdict::Rejected | Verdict::Conflict => return None,
            Verdict::NotSent | Verdict::Throttled | Verdict::Unknown => drawn,
            Verdict::InProgress => self.in_progress_wait + jitter.of(self.in_progress_wait),
            Verdict::Misconfigured | Verdict::AccountHold => {
                self.probe_interval + jitter.of(self.probe_interval / 10)
            }
        };
        let span = match wait {
            Some(asked) => asked.at_least.saturating_add(drawn),
            None => local,
        };
        Some(now.plus(span))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::attempt::WaitScope;
    use super::*;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_millis(500),
        cap: Duration::from_secs(60),
    };
    const PACE: Pace = Pace {
        backoff: BACKOFF,
        in_progress_wait: Duration::from_secs(1),
        probe_interval: Duration::from_secs(60),
    };
    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn half() -> UnitFraction {
        UnitFraction::new(0.5).unwrap()
    }

    #[test]
    fn the_ceiling_doubles_from_half_a_second_to_a_minute() {
        let almost_one = UnitFraction::new(1.0 - f64::EPSILON).unwrap();
        let ceilings: Vec<u128> = (0..10)
            .map(|n| BACKOFF.wait(n, almost_one).as_millis().next_multiple_of(10))
            .collect();
        assert_eq!(
            ceilings,
            [
                500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000
            ]
        );
    }

    #[test]
    fn a_wait_is_never_zero_and_never_overflows() {
        assert_eq!(
            BACKOFF.wait(0, UnitFraction::ZERO),
            Duration::from_millis(1)
        );
        assert_eq!(BACKOFF.wait(u32::MAX, half()), Duration::from_secs(30));
    }

    #[test]
    fn a_wait_that_was_asked_for_is_only_ever_lengthened() {
        let asked = Some(Wait {
            at_least: Duration::from_secs(120),
            scope: WaitScope::Intent,
            unit_doubt: false,
        });
        let due = PACE
            .due(Verdict::Throttled, asked, 0, NOW, UnitFraction::ZERO)
            .unwrap();
        assert_eq!(due, NOW.plus(Duration::from_millis(120_001)));
        let due = PACE.due(Verdict::Throttled, asked, 0, NOW, half()).unwrap();
        assert_eq!(due, NOW.plus(Duration::from_millis(120_250)));
    }

    #[test]
    fn an_end_has_no_due_time() {
        for verdict in [Verdict::Accepted, Verdict::Rejected, Verdict::Conflict] {
            assert_eq!(PACE.due(verdict, None, 0, NOW, half()), None);
        }
    }

    proptest! {
        #[test]
        fn a_drawn_wait_lies_below_its_ceiling(n in 0_u32..200, drawn in 0.0..1.0_f64) {
            let wait = BACKOFF.wait(n, UnitFraction::new(drawn).unwrap());
            let ceiling = (0.5 * 2_f64.powi(i32::try_from(n).unwrap())).min(60.0);
            prop_assert!(wait >= Duration::from_millis(1));
            prop_assert!(wait.as_secs_f64() <= ceiling + 0.001);
        }
    }
}
