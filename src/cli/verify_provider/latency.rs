//! Decides how long sends take, and which request timeout follows. No vendor publishes this; a timeout below it makes
//! outcomes unknown that need not be.

use std::time::Duration;

use crate::config::spans;
use crate::domain::profile::Timeouts;

use super::report::{Check, Standing};

/// The proposed timeout leaves a request this many times as long as the slowest in a hundred took: an account that was tried
/// with a few sends has not shown its bad days.
const ROOM: u32 = 10;

/// The shortest request timeout that is proposed.
const TIMEOUT_MIN: Duration = Duration::from_secs(10);

/// What the sends took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// How many were measured.
    pub count: usize,
    /// The median, by nearest rank.
    pub p50: Duration,
    /// The slowest in a hundred, by nearest rank; the slowest of all where there are fewer.
    pub p99: Duration,
}

impl Latency {
    /// What these sends took; `None` of none.
    pub fn of(mut took: Vec<Duration>) -> Option<Self> {
        took.sort_unstable();
        let count = took.len();
        let rank = |percent: usize| {
            let rank = (count * percent).div_ceil(100);
            took.get(rank.checked_sub(1)?).copied()
        };
        Some(Self {
            count,
            p50: rank(50)?,
            p99: rank(99)?,
        })
    }

    /// A request timeout with room, in whole seconds: connecting, and ten times the slowest in a hundred.
    pub fn timeout(&self, connect: Duration) -> Duration {
        let span = connect.saturating_add(self.p99.saturating_mul(ROOM));
        let seconds = span.as_secs() + u64::from(span.subsec_nanos() > 0);
        Duration::from_secs(seconds).max(TIMEOUT_MIN)
    }
}

/// Judges what sends took against the profile's patience. `overdue` is how many had no answer within it.
pub fn judge(latency: Option<&Latency>, overdue: usize, timeouts: &Timeouts) -> Check {
    let measured = latency.map(|latency| {
        format!(
            "p50 {}, p99 {} of {} sends; proposed timeout {}",
            shown(latency.p50),
            shown(latency.p99),
            latency.count,
            spans::show(latency.timeout(timeouts.connect))
        )
    });
    let stated = timeouts.p99.map(|slow| slow.within);
    let slower = latency
        .filter(|latency| stated.is_some_and(|stated| latency.p99 > stated))
        .map(|latency| latency.count);
    let (observed, verdict) = match (overdue, measured) {
        (0, None) => ("nothing was measured".to_owned(), Standing::Unknown),
        (0, Some(measured)) => match slower {
            None => (measured, Standing::Holds),
            Some(100..) => (format!("slower than it says: {measured}"), Standing::Broken),
            Some(_) => (
                format!("slower, of too few to tell (--samples 100): {measured}"),
                Standing::Unknown,
            ),
        },
        (overdue, measured) => {
            let measured = measured.map_or(String::new(), |measured| format!("; {measured}"));
            (
                format!("{overdue} sends had no answer in time{measured}"),
                Standing::Broken,
            )
        }
    };
    let in_time = format!("an answer comes within {}", spans::show(timeouts.request));
    Check {
        check: "latency",
        claim: match stated {
            None => in_time,
            Some(stated) => format!("{in_time}, 99 of 100 within {}", spans::show(stated)),
        },
        observed,
        verdict,
    }
}

fn shown(span: Duration) -> String {
    format!("{} ms", span.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::profile::{SlowAnswers, TIMEOUTS_DEFAULT};

    fn millis(millis: impl IntoIterator<Item = u64>) -> Option<Latency> {
        Latency::of(millis.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn the_ranks_are_those_of_the_sorted_sends() {
        let latency = millis((1..=200).rev()).unwrap();
        assert_eq!(
            (
                latency.count,
                latency.p50.as_millis(),
                latency.p99.as_millis()
            ),
            (200, 100, 198)
        );
        let one = millis([7]).unwrap();
        assert_eq!((one.p50.as_millis(), one.p99.as_millis()), (7, 7));
        assert_eq!(millis([]), None);
    }

    #[test]
    fn the_proposed_timeout_leaves_room_and_is_no_shorter_than_ten_seconds() {
        let connect = Duration::from_secs(5);
        let timeout = |p99| millis([p99]).unwrap().timeout(connect).as_secs();
        assert_eq!(timeout(40), 10);
        assert_eq!(timeout(801), 14);
        assert_eq!(timeout(2_000), 25);
    }

    #[test]
    fn a_stated_p99_is_held_against_a_hundred_sends_at_least() {
        let timeouts = Timeouts {
            p99: Some(SlowAnswers {
                within: Duration::from_millis(40),
                measured: false,
            }),
            ..TIMEOUTS_DEFAULT
        };
        let verdict = |count: u64, took: u64| {
            let latency = millis((0..count).map(|_| took));
            judge(latency.as_ref(), 0, &timeouts).verdict
        };
        assert_eq!(verdict(100, 40), Standing::Holds);
        assert_eq!(verdict(100, 41), Standing::Broken);
        assert_eq!(verdict(99, 41), Standing::Unknown);
    }

    #[test]
    fn a_send_that_had_no_answer_in_time_breaks_the_promise() {
        let latency = millis([40, 50]);
        let check = judge(latency.as_ref(), 0, &TIMEOUTS_DEFAULT);
        assert_eq!(
            (check.observed.as_str(), check.verdict),
            (
                "p50 40 ms, p99 50 ms of 2 sends; proposed timeout 10s",
                Standing::Holds
            )
        );
        let check = judge(latency.as_ref(), 1, &TIMEOUTS_DEFAULT);
        assert_eq!(check.verdict, Standing::Broken);
        assert!(
            check
                .observed
                .starts_with("1 sends had no answer in time; p50")
        );
        assert_eq!(judge(None, 0, &TIMEOUTS_DEFAULT).verdict, Standing::Unknown);
    }
}
