//! Decides how often the log speaks of attempts that were not accepted: at once, and then at most once a minute with
//! counts. An outage must not fill a disk.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::attempt::Verdict;
use crate::domain::time::Timestamp;

/// Between two tellings.
const PAUSE: Duration = Duration::from_secs(60);

/// What was not accepted since the last telling.
#[derive(Debug, Default)]
pub struct Troubles {
    counts: BTreeMap<(Verdict, &'static str), u64>,
    told_at: Option<Timestamp>,
}

impl Troubles {
    /// Takes note of an answer, and tells the counts if it is time: `3 unknown (read_timeout), 1 throttled (rate)`.
    pub fn note(
        &mut self,
        verdict: Verdict,
        detail: &'static str,
        now: Timestamp,
    ) -> Option<String> {
        if verdict == Verdict::Accepted {
            return None;
        }
        *self.counts.entry((verdict, detail)).or_insert(0) += 1;
        let early = self
            .told_at
            .is_some_and(|told| now < told.plus(PAUSE) && now >= told);
        if early {
            return None;
        }
        self.told_at = Some(now);
        let counts = std::mem::take(&mut self.counts);
        let told: Vec<String> = counts
            .iter()
            .map(|((verdict, detail), count)| format!("{count} {verdict} ({detail})"))
            .collect();
        Some(told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_at_once_and_then_at_most_once_a_minute_with_its_counts() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let mut troubles = Troubles::default();
        assert_eq!(troubles.note(Verdict::Accepted, "status", at(0)), None);
        let told = troubles.note(Verdict::Unknown, "read_timeout", at(0));
        assert_eq!(told.as_deref(), Some("1 unknown (read_timeout)"));
        assert_eq!(troubles.note(Verdict::Unknown, "read_timeout", at(1)), None);
        assert_eq!(troubles.note(Verdict::Throttled, "status", at(59)), None);
        let told = troubles.note(Verdict::Unknown, "read_timeout", at(60));
        assert_eq!(
            told.as_deref(),
            Some("1 throttled (status), 2 unknown (read_timeout)")
        );
    }

    #[test]
    fn a_clock_that_stepped_back_does_not_silence_it() {
        let mut troubles = Troubles::default();
        assert!(
            troubles
                .note(Verdict::NotSent, "dns", Timestamp::from_millis(1_000_000))
                .is_some()
        );
        assert!(
            troubles
                .note(Verdict::NotSent, "dns", Timestamp::from_millis(0))
                .is_some()
        );
    }
}
