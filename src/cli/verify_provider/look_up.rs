//! Decides whether a look-up finds what was sent within its delay, and nothing of what was never sent. Its delay is what an
//! unknown outcome waits for: too short a one makes a message that is there look absent, and it is sent again.

use std::time::Duration;

use crate::config::spans;
use crate::domain::reconcile::Finding;

use super::report::{Check, Standing};

const NAME: &str = "look_up";
const ABSENCE_NAME: &str = "look_up_absence";

/// The wait before the look-up of this number, counted from 0: a quarter of a second, twice as long each time, at most 5 s.
pub fn pause(number: u32) -> Duration {
    let pause = Duration::from_millis(250).saturating_mul(1 << number.min(8));
    pause.min(Duration::from_secs(5))
}

/// What was seen of a message that was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Looked {
    /// How long after its acceptance it was found; `None` if it was not.
    pub found_after: Option<Duration>,
    /// How long after its acceptance it was last looked for.
    pub last_after: Duration,
    /// What the last look-up proved.
    pub last: Finding,
    /// Whether the item that was found has the id of the acceptance; `None` if one of them has none.
    pub same_id: Option<bool>,
}

/// Judges the look-ups of a message that was accepted, against the profile's `delay`.
pub fn judge(delay: Duration, looked: &Looked) -> Check {
    let (observed, verdict) = match (looked.found_after, looked.same_id) {
        (Some(_), Some(false)) => (
            "found, with another id than it was accepted under".to_owned(),
            Standing::Broken,
        ),
        (Some(after), _) if after <= delay => {
            (format!("found after {}", shown(after)), Standing::Holds)
        }
        (Some(after), _) => (
            format!("found only after {}", shown(after)),
            Standing::Broken,
        ),
        (None, _) if looked.last_after > delay && looked.last == Finding::Absent => (
            format!("absent after {}", shown(looked.last_after)),
            Standing::Broken,
        ),
        (None, _) => (
            format!(
                "{} after {}: --look-up-patience can be longer",
                proved(&looked.last),
                shown(looked.last_after)
            ),
            Standing::Unknown,
        ),
    };
    Check {
        check: NAME,
        claim: format!("a message is found within {}", spans::show(delay)),
        observed,
        verdict,
    }
}

/// Judges the look-up of what was never sent.
pub fn judge_absence(finding: &Finding) -> Check {
    let verdict = match finding {
        Finding::Absent => Standing::Holds,
        Finding::Present(_) => Standing::Broken,
        Finding::NotYet | Finding::Nothing(_) => Standing::Unknown,
    };
    Check {
        check: ABSENCE_NAME,
        claim: "what was never sent is absent".to_owned(),
        observed: proved(finding),
        verdict,
    }
}

/// Both checks of a profile that says of no way to ask.
pub fn without() -> [Check; 2] {
    let claim = "the profile has no look-up";
    [NAME, ABSENCE_NAME].map(|name| Check::not_applicable(name, claim, "nothing to ask"))
}

fn proved(finding: &Finding) -> String {
    match finding {
        Finding::Present(_) => "present".to_owned(),
        Finding::Absent => "absent".to_owned(),
        Finding::NotYet => "not yet known".to_owned(),
        Finding::Nothing(cause) => format!("nothing proved ({cause})"),
    }
}

/// A measured span, in milliseconds.
fn shown(span: Duration) -> String {
    spans::show(Duration::from_millis(
        u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_secs(30);

    fn found(after: u64, same_id: Option<bool>) -> Looked {
        Looked {
            found_after: Some(Duration::from_secs(after)),
            last_after: Duration::from_secs(after),
            last: Finding::Present(None),
            same_id,
        }
    }

    fn not_found(after: u64, last: Finding) -> Looked {
        Looked {
            found_after: None,
            last_after: Duration::from_secs(after),
            last,
            same_id: None,
        }
    }

    #[test]
    fn what_is_found_within_the_delay_holds() {
        let check = judge(DELAY, &found(12, Some(true)));
        assert_eq!(
            (check.observed.as_str(), check.verdict),
            ("found after 12s", Standing::Holds)
        );
        assert_eq!(judge(DELAY, &found(30, None)).verdict, Standing::Holds);
    }

    #[test]
    fn what_is_found_too_late_or_as_another_message_breaks_the_promise() {
        assert_eq!(judge(DELAY, &found(31, None)).verdict, Standing::Broken);
        assert_eq!(
            judge(DELAY, &found(1, Some(false))).verdict,
            Standing::Broken
        );
    }

    #[test]
    fn an_absence_counts_only_past_the_delay() {
        let absent = |after| judge(DELAY, &not_found(after, Finding::Absent)).verdict;
        assert_eq!(absent(30), Standing::Unknown);
        assert_eq!(absent(31), Standing::Broken);
        let refused = not_found(31, Finding::Nothing("status"));
        let check = judge(DELAY, &refused);
        assert_eq!(check.verdict, Standing::Unknown);
        assert!(
            check.observed.starts_with("nothing proved (status)"),
            "{}",
            check.observed
        );
    }

    #[test]
    fn what_was_never_sent_must_not_be_found() {
        for (finding, verdict) in [
            (Finding::Absent, Standing::Holds),
            (Finding::Present(None), Standing::Broken),
            (Finding::NotYet, Standing::Unknown),
            (Finding::Nothing("status"), Standing::Unknown),
        ] {
            assert_eq!(judge_absence(&finding).verdict, verdict, "{finding:?}");
        }
    }

    #[test]
    fn the_pauses_grow_to_five_seconds() {
        let pauses: Vec<_> = (0..6).map(|number| pause(number).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 5_000]);
        assert_eq!(pause(u32::MAX), Duration::from_secs(5));
    }
}
