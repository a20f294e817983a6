//! Decides whether a provider still knows a key after a while. A window of a day is not waited for: what a few seconds show is
//! whether there is a memory at all, or a cache that is gone before a retry comes.

use std::time::Duration;

use crate::config::spans;
use crate::domain::profile::Window;

use super::report::{Check, Standing};
use super::seen::{Same, Seen, same_message};

/// Judges the answer to the request of `first` when it came again so long after it. `marked` tells that the profile names a
/// mark of replays.
pub fn judge(window: Window, first: &Seen, again: &Seen, after: Duration, marked: bool) -> Check {
    let claim = format!("a key is remembered for {}", spans::show(window.length));
    let span = spans::show(Duration::from_secs(after.as_secs()));
    let (observed, verdict) = if after >= window.length {
        (
            format!("after {span} nothing is promised any more"),
            Standing::NotApplicable,
        )
    } else if again.is_refused() {
        (
            format!("refused after {span}: {}", again.told()),
            Standing::Broken,
        )
    } else if !again.is_accepted() {
        (format!("after {span}: {}", again.told()), Standing::Unknown)
    } else {
        match same_message(first, again) {
            Same::Yes => (
                format!("still the same message after {span}"),
                Standing::Holds,
            ),
            Same::No => (
                format!("forgotten after {span}: another message, two under one key"),
                Standing::Broken,
            ),
            Same::CannotTell if marked => (
                format!("not answered from memory after {span}"),
                Standing::Broken,
            ),
            Same::CannotTell => (
                format!("accepted after {span}; whose message it is does not show"),
                Standing::Unknown,
            ),
        }
    };
    Check {
        check: "forgetting",
        claim,
        observed,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{accepted, answered, replayed, without_id};
    use super::*;
    use crate::domain::attempt::Verdict;
    use crate::domain::profile::WindowStart;

    const DAY: Window = Window {
        length: Duration::from_secs(86_400),
        margin: Duration::from_secs(105),
        starts: WindowStart::FirstAttempt,
        documented: true,
    };

    fn standing(again: &Seen, after: u64, marked: bool) -> (Standing, String) {
        let after = Duration::from_secs(after);
        let check = judge(DAY, &accepted("a"), again, after, marked);
        (check.verdict, check.observed)
    }

    #[test]
    fn a_replay_after_a_while_holds() {
        assert_eq!(
            standing(&replayed("a"), 5, true),
            (
                Standing::Holds,
                "still the same message after 5s".to_owned()
            )
        );
    }

    #[test]
    fn another_message_says_that_the_key_is_forgotten() {
        assert_eq!(
            standing(&accepted("b"), 3, true),
            (
                Standing::Broken,
                "forgotten after 3s: another message, two under one key".to_owned()
            )
        );
        assert_eq!(
            standing(&without_id(accepted("b")), 3, true).0,
            Standing::Broken
        );
        assert_eq!(
            standing(&without_id(accepted("b")), 3, false).0,
            Standing::Unknown
        );
    }

    #[test]
    fn past_the_window_nothing_is_promised() {
        assert_eq!(
            standing(&accepted("b"), 86_400, true).0,
            Standing::NotApplicable
        );
        assert_eq!(standing(&accepted("b"), 86_399, true).0, Standing::Broken);
    }

    #[test]
    fn a_refusal_breaks_the_promise_and_an_outage_shows_nothing() {
        assert_eq!(
            standing(&answered(422, Verdict::Conflict), 5, true).0,
            Standing::Broken
        );
        assert_eq!(
            standing(&answered(503, Verdict::Unknown), 5, true).0,
            Standing::Unknown
        );
    }
}
