//! Decides what a provider makes of another body under a key that it knows: a conflict, or silence.

use crate::domain::attempt::Verdict;

use super::report::{Check, Standing};
use super::seen::{Same, Seen, same_message};

const NAME: &str = "other_body";

/// Whether a provider notices another body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// It refuses it.
    Yes,
    /// It answers as if nothing were different.
    No,
    /// Its answer does not tell.
    CannotTell,
}

/// What the answer to another body under the key of `first` shows.
pub fn noticed(other: &Seen) -> Noticed {
    match other.verdict {
        Verdict::Accepted => Noticed::No,
        Verdict::Conflict | Verdict::Rejected => Noticed::Yes,
        Verdict::NotSent
        | Verdict::Throttled
        | Verdict::Unknown
        | Verdict::InProgress
        | Verdict::Misconfigured
        | Verdict::AccountHold => Noticed::CannotTell,
    }
}

/// Judges the answer to another body under the key of `first`; `None` if no other body could be made.
pub fn judge(compares_body: Option<bool>, first: &Seen, other: Option<&Seen>) -> Check {
    let claim = match compares_body {
        Some(true) => "another body under a known key is a conflict",
        Some(false) => "another body under a known key is not noticed",
        None => "nobody knows whether another body is noticed (compares_body)",
    };
    let (observed, verdict) = match other {
        None => (
            "no part of the content changes the body: give --other-content".to_owned(),
            Standing::Unknown,
        ),
        Some(other) => observe(compares_body, first, other),
    };
    Check {
        check: NAME,
        claim: claim.to_owned(),
        observed,
        verdict,
    }
}

fn observe(compares_body: Option<bool>, first: &Seen, other: &Seen) -> (String, Standing) {
    let told = other.told();
    let observed = match (noticed(other), same_message(first, other)) {
        (Noticed::No, Same::No) => {
            format!("silently accepted as another message: two under one key ({told})")
        }
        (Noticed::No, Same::Yes) => format!("silently answered with the first message ({told})"),
        (Noticed::No, Same::CannotTell) => format!("silently accepted ({told})"),
        (Noticed::Yes, _) if other.verdict == Verdict::Conflict => format!("a conflict ({told})"),
        (Noticed::Yes, _) => format!("refused, but no rule calls it a conflict ({told})"),
        (Noticed::CannotTell, _) if other.verdict == Verdict::InProgress => {
            format!("called in progress ({told})")
        }
        (Noticed::CannotTell, _) => told,
    };
    let verdict = match (compares_body, other.verdict) {
        (Some(true), Verdict::Conflict) => Standing::Holds,
        (Some(true), Verdict::Accepted | Verdict::Rejected | Verdict::InProgress) => {
            Standing::Broken
        }
        (Some(false), Verdict::Accepted) if same_message(first, other) == Same::No => {
            Standing::Broken
        }
        (Some(false), Verdict::Accepted) => Standing::Holds,
        (Some(false), Verdict::Conflict | Verdict::Rejected) => Standing::Broken,
        (None, _)
        | (Some(false), Verdict::InProgress)
        | (
            Some(true | false),
            Verdict::NotSent
            | Verdict::Throttled
            | Verdict::Unknown
            | Verdict::Misconfigured
            | Verdict::AccountHold,
        ) => Standing::Unknown,
    };
    (observed, verdict)
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{accepted, answered, replayed};
    use super::*;

    fn standing(compares_body: Option<bool>, other: &Seen) -> (Standing, String) {
        let check = judge(compares_body, &accepted("a"), Some(other));
        (check.verdict, check.observed)
    }

    #[test]
    fn a_conflict_holds_where_bodies_are_compared() {
        assert_eq!(
            standing(Some(true), &answered(422, Verdict::Conflict)),
            (Standing::Holds, "a conflict (422, conflict)".to_owned())
        );
    }

    #[test]
    fn silence_breaks_the_promise_whichever_message_it_is_about() {
        assert_eq!(
            standing(Some(true), &replayed("a")),
            (
                Standing::Broken,
                "silently answered with the first message (201, accepted, a replay)".to_owned()
            )
        );
        assert_eq!(
            standing(Some(true), &accepted("b")),
            (
                Standing::Broken,
                "silently accepted as another message: two under one key (201, accepted)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_refusal_that_no_rule_calls_a_conflict_is_missing_in_the_profile() {
        let (standing, observed) = standing(Some(true), &answered(400, Verdict::Rejected));
        assert_eq!(standing, Standing::Broken);
        assert!(observed.starts_with("refused, but no rule"), "{observed}");
    }

    #[test]
    fn a_provider_that_does_not_look_must_answer_with_the_first_message() {
        assert_eq!(standing(Some(false), &replayed("a")).0, Standing::Holds);
        assert_eq!(standing(Some(false), &accepted("b")).0, Standing::Broken);
        assert_eq!(
            standing(Some(false), &answered(422, Verdict::Conflict)).0,
            Standing::Broken
        );
    }

    #[test]
    fn where_nothing_is_promised_nothing_is_broken() {
        for other in [
            accepted("b"),
            replayed("a"),
            answered(422, Verdict::Conflict),
        ] {
            assert_eq!(standing(None, &other).0, Standing::Unknown);
        }
        assert_eq!(
            standing(Some(true), &answered(503, Verdict::Unknown)).0,
            Standing::Unknown
        );
        assert_eq!(
            judge(Some(true), &accepted("a"), None).verdict,
            Standing::Unknown
        );
    }
}
