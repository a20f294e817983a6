//! Decides which errors a provider was seen to remember under a key. Every request that failed and came again tells, whatever
//! it was sent for; with `--failing` one is sent for this alone.

use crate::domain::attempt::Verdict;
use crate::domain::profile::Stores;

use super::report::{Check, Standing};
use super::seen::Seen;

/// An error whose repeat was answered: whether that came from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The error's status.
    pub status: u16,
    /// Whether the repeat carried the replay mark.
    pub stored: bool,
    /// Whether a rule called the key burned.
    pub burned: bool,
}

/// The errors in these series of answers, each to one request, whose repeats were answered.
pub fn repeated(series: &[Vec<Seen>]) -> Vec<Repeated> {
    series
        .iter()
        .flat_map(|series| series.iter().zip(series.iter().skip(1)))
        .filter_map(|(error, next)| {
            let is_error = match error.verdict {
                Verdict::Rejected | Verdict::Unknown => !error.replay,
                Verdict::Accepted
                | Verdict::NotSent
                | Verdict::Throttled
                | Verdict::InProgress
                | Verdict::Conflict
                | Verdict::Misconfigured
                | Verdict::AccountHold => false,
            };
            let status = error.status.filter(|_| is_error)?;
            next.status?;
            Some(Repeated {
                status,
                stored: next.replay,
                burned: next.burned,
            })
        })
        .collect()
}

/// Judges what was remembered. `marked` tells that the profile names a mark of replays: without one nothing shows.
pub fn judge(stores: Option<Stores>, repeated: &[Repeated], marked: bool) -> Check {
    let claim = match stores {
        Some(Stores::All) => "every answer is stored, errors too",
        Some(Stores::Success) => "only successes are stored",
        Some(Stores::SuccessAndClientErrors) => "successes and 4xx are stored",
        Some(Stores::Burns) => "a failure burns the key",
        None => "nobody knows which answers are stored (stores)",
    };
    let (observed, verdict) = match repeated {
        [] => (
            "no request failed and came again: name one that does with --failing".to_owned(),
            Standing::Unknown,
        ),
        _ if !marked => (
            "an error came again; without a mark nobody can tell from where".to_owned(),
            Standing::Unknown,
        ),
        repeated => (told(repeated), standing(stores, repeated)),
    };
    Check {
        check: "stores",
        claim: claim.to_owned(),
        observed,
        verdict,
    }
}

fn standing(stores: Option<Stores>, repeated: &[Repeated]) -> Standing {
    let Some(stores) = stores else {
        return Standing::Unknown;
    };
    let keeps = |seen: &Repeated| match stores {
        Stores::All => seen.stored,
        Stores::Success => !seen.stored,
        Stores::SuccessAndClientErrors => seen.stored == (400..500).contains(&seen.status),
        Stores::Burns => seen.burned,
    };
    match repeated.iter().all(keeps) {
        true => Standing::Holds,
        false => Standing::Broken,
    }
}

fn told(repeated: &[Repeated]) -> String {
    let mut told: Vec<_> = repeated
        .iter()
        .map(|seen| match (seen.stored, seen.burned) {
            (_, true) => format!("a {} burned its key", seen.status),
            (true, false) => format!("a {} was stored: a retry replays it", seen.status),
            (false, false) => format!("a {} was not stored: a retry runs again", seen.status),
        })
        .collect();
    told.sort();
    told.dedup();
    told.join("; ")
}

/// What a profile that says nothing could state.
pub fn proposal(repeated: &[Repeated]) -> Option<&'static str> {
    let stored = |range: std::ops::Range<u16>| {
        let mut seen = repeated.iter().filter(|seen| range.contains(&seen.status));
        let first = seen.next()?.stored;
        seen.all(|seen| seen.stored == first).then_some(first)
    };
    match (stored(400..500), stored(500..600)) {
        (Some(true), Some(true)) => Some("stores = \"all\""),
        (Some(true), Some(false)) => Some("stores = \"success_and_4xx\""),
        (Some(false), Some(false)) => Some("stores = \"success\""),
        (Some(false), Some(true)) | (None, _) | (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{accepted, answered};
    use super::*;

    fn error(status: u16, stored: bool) -> Repeated {
        Repeated {
            status,
            stored,
            burned: false,
        }
    }

    #[test]
    fn an_error_that_came_again_is_found_in_whatever_series_it_was() {
        let failed = answered(500, Verdict::Unknown);
        let stored = Seen {
            replay: true,
            ..failed.clone()
        };
        let lost = Seen {
            status: None,
            ..failed.clone()
        };
        let series = [
            vec![accepted("a")],
            vec![failed.clone(), stored],
            vec![answered(400, Verdict::Rejected), accepted("b")],
            vec![lost, accepted("c")],
            vec![answered(429, Verdict::Throttled), accepted("d")],
        ];
        assert_eq!(repeated(&series), [error(500, true), error(400, false)]);
    }

    #[test]
    fn what_is_remembered_is_held_against_what_the_profile_says() {
        let (all, success, some, burns) = (
            Some(Stores::All),
            Some(Stores::Success),
            Some(Stores::SuccessAndClientErrors),
            Some(Stores::Burns),
        );
        for (stores, status, stored, verdict) in [
            (all, 500, true, Standing::Holds),
            (all, 500, false, Standing::Broken),
            (success, 500, false, Standing::Holds),
            (success, 500, true, Standing::Broken),
            (some, 400, true, Standing::Holds),
            (some, 400, false, Standing::Broken),
            (some, 500, true, Standing::Broken),
            (some, 500, false, Standing::Holds),
            (burns, 500, true, Standing::Broken),
            (None, 500, true, Standing::Unknown),
        ] {
            let check = judge(stores, &[error(status, stored)], true);
            assert_eq!(check.verdict, verdict, "{stores:?} {status} {stored}");
        }
        let burned = Repeated {
            burned: true,
            ..error(500, false)
        };
        assert_eq!(judge(burns, &[burned], true).verdict, Standing::Holds);
    }

    #[test]
    fn it_says_what_a_retry_does() {
        let check = judge(Some(Stores::Success), &[error(500, true)], true);
        assert_eq!(check.observed, "a 500 was stored: a retry replays it");
    }

    #[test]
    fn without_a_failure_or_a_mark_nothing_shows() {
        assert_eq!(
            judge(Some(Stores::All), &[], true).verdict,
            Standing::Unknown
        );
        assert_eq!(
            judge(Some(Stores::All), &[error(500, false)], false).verdict,
            Standing::Unknown
        );
    }

    #[test]
    fn a_profile_is_told_what_it_could_state_once_both_kinds_of_errors_were_seen() {
        assert_eq!(
            proposal(&[error(400, true), error(500, false)]),
            Some("stores = \"success_and_4xx\"")
        );
        assert_eq!(proposal(&[error(500, false)]), None);
        assert_eq!(
            proposal(&[error(500, false), error(500, true), error(400, true)]),
            None
        );
    }
}
