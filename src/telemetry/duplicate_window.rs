//! Decides how large a share of the recent ends of intents were duplicates that were avoided or are suspected. Pure: the
//! totals and the time arrive as arguments.

use std::collections::VecDeque;
use std::time::Duration;

use crate::domain::time::Timestamp;

/// How far back "recent" goes.
pub const WINDOW: Duration = Duration::from_mins(5);
/// No two samples that are kept are closer than this: 61 samples at most.
const STEP: Duration = Duration::from_secs(5);

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Intents accepted or dead-lettered.
    pub outcomes: u64,
    /// Records that came again and were not sent again.
    pub suppressed: u64,
    /// Answers from the provider's memory.
    pub replayed: u64,
    /// First attempts whose key the provider already knew.
    pub suspected: u64,
}

/// Shares of the recent ends of intents, each 0 to 1, all 0 when there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// That were suppressed.
    pub suppressed: f64,
    /// That had answers from the provider's memory.
    pub replayed: f64,
    /// That are suspected.
    pub suspected: f64,
}

/// Samples of the totals, the oldest as old as the window.
#[derive(Clone, Debug, Default)]
pub struct DuplicateWindow {
    samples: VecDeque<(Timestamp, Totals)>,
}

impl DuplicateWindow {
    /// Takes note of the totals at `now`, and tells the shares of what came within the window before it. A clock that goes
    /// back begins the window anew.
    pub fn observe(&mut self, now: Timestamp, totals: Totals) -> Shares {
        if self.samples.back().is_some_and(|(last, _)| *last > now) {
            self.samples.clear();
        }
        let begin = now.minus(WINDOW);
        // The newest sample that is not younger than the window is its beginning.
        while self.samples.get(1).is_some_and(|(at, _)| *at <= begin) {
            self.samples.pop_front();
        }
        let before = self
            .samples
            .front()
            .map_or_else(Totals::default, |(_, totals)| *totals);
        if self
            .samples
            .back()
            .is_none_or(|(last, _)| now.since(*last) >= STEP)
        {
            self.samples.push_back((now, totals));
        }
        shares(before, totals)
    }
}

fn shares(before: Totals, after: Totals) -> Shares {
    let grown = |total: fn(&Totals) -> u64| total(&after).saturating_sub(total(&before));
    let ends = grown(|totals| totals.outcomes) + grown(|totals| totals.suppressed);
    let share = |part: u64| {
        if ends == 0 {
            0.0
        } else {
            (part as f64 / ends as f64).min(1.0)
        }
    };
    Shares {
        suppressed: share(grown(|totals| totals.suppressed)),
        replayed: share(grown(|totals| totals.replayed)),
        suspected: share(grown(|totals| totals.suspected)),
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "every value is exact in binary")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn totals(outcomes: u64, suppressed: u64) -> Totals {
        Totals {
            outcomes,
            suppressed,
            ..Totals::default()
        }
    }

    #[test]
    fn nothing_has_ended_and_the_share_is_zero() {
        let mut window = DuplicateWindow::default();
        assert_eq!(window.observe(at(0), Totals::default()), Shares::default());
        assert_eq!(
            window.observe(at(900), Totals::default()),
            Shares::default()
        );
    }

    #[test]
    fn a_share_is_of_the_ends_within_the_last_five_minutes() {
        let mut window = DuplicateWindow::default();
        window.observe(at(0), totals(0, 0));
        assert_eq!(window.observe(at(10), totals(6, 2)).suppressed, 0.25);
        assert_eq!(
            window.observe(at(310), totals(6, 2)).suppressed,
            0.0,
            "idle since"
        );
        assert_eq!(window.observe(at(320), totals(7, 3)).suppressed, 0.5);
    }

    #[test]
    fn replays_beyond_the_ends_count_as_all_of_them() {
        let mut window = DuplicateWindow::default();
        let replayed = Totals {
            outcomes: 1,
            replayed: 3,
            ..Totals::default()
        };
        assert_eq!(window.observe(at(0), replayed).replayed, 1.0);
    }

    #[test]
    fn a_clock_that_goes_back_begins_anew() {
        let mut window = DuplicateWindow::default();
        window.observe(at(1000), totals(10, 0));
        window.observe(at(100), totals(10, 0));
        assert_eq!(window.observe(at(110), totals(11, 1)).suppressed, 0.5);
    }

    proptest! {
        /// Oracle: ends with their moments, of which those after the beginning of the window are counted.
        #[test]
        fn the_share_is_that_of_the_ends_after_the_windows_beginning(
            steps in prop::collection::vec((5i64..90, 0u64..5, 0u64..5), 1..80),
        ) {
            let mut window = DuplicateWindow::default();
            let mut now = 0;
            let mut all = Totals::default();
            let mut ends: Vec<(i64, u64, u64)> = Vec::new();
            for (step, outcomes, suppressed) in steps {
                now += step;
                all.outcomes += outcomes;
                all.suppressed += suppressed;
                ends.push((now, outcomes, suppressed));
                let got = window.observe(at(now), all).suppressed;
                // The window begins at the newest sample that is at least five minutes old.
                let begin = ends.iter().map(|end| end.0).rfind(|at| *at <= now - 300);
                let recent = ends.iter().filter(|end| begin.is_none_or(|begin| end.0 > begin));
                let begins_at_first = begin.is_none();
                let recent: Vec<_> = recent.skip(usize::from(begins_at_first && ends.len() > 1)).collect();
                let (o, s) = recent.iter().fold((0, 0), |(o, s), end| (o + end.1, s + end.2));
                let want = if o + s == 0 { 0.0 } else { s as f64 / (o + s) as f64 };
                prop_assert!((got - want).abs() < 1e-9, "got {got}, want {want}");
                prop_assert!(window.samples.len() <= 62);
            }
        }
    }
}
