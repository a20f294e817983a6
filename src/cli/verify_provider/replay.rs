//! Decides whether a provider recognises a request that comes again under its key, and whether the replay shows as the
//! profile says.

use crate::domain::profile::ReplayMark;

use super::report::{Check, Standing};
use super::seen::{Same, Seen, same_message};

/// Judges the answer to a repeat of the request that `first` answered: one message, and its mark.
pub fn judge(first: &Seen, again: &Seen, marks: &[ReplayMark]) -> [Check; 2] {
    let (observed, verdict) = match same_message(first, again) {
        _ if again.is_refused() => (format!("refused: {}", again.told()), Standing::Broken),
        _ if !again.is_accepted() => (again.told(), Standing::Unknown),
        Same::Yes => (again.told(), Standing::Holds),
        Same::No => (
            format!("another message: two under one key ({})", again.told()),
            Standing::Broken,
        ),
        Same::CannotTell => (
            format!("{}; whose message it is does not show", again.told()),
            Standing::Unknown,
        ),
    };
    let one_message = Check {
        check: "replay",
        claim: "the same key and body are the same message".to_owned(),
        observed,
        verdict,
    };
    let seen = verdict != Standing::Broken && again.is_accepted();
    let (claim, observed, verdict) = match (marks, again.replay) {
        ([], _) => (
            "the profile names no mark of a replay".to_owned(),
            match seen {
                true => difference(first, again),
                false => "no replay was seen".to_owned(),
            },
            Standing::Unknown,
        ),
        (marks, true) => (
            describe(marks),
            "the replay carries it".to_owned(),
            Standing::Holds,
        ),
        (marks, false) if seen => (
            describe(marks),
            "the repeat does not carry it".to_owned(),
            Standing::Broken,
        ),
        (marks, false) => (
            describe(marks),
            "no replay was seen".to_owned(),
            Standing::Unknown,
        ),
    };
    let mark = Check {
        check: "replay_mark",
        claim,
        observed,
        verdict,
    };
    [one_message, mark]
}

fn describe(marks: &[ReplayMark]) -> String {
    let marks: Vec<_> = marks
        .iter()
        .map(|mark| match mark {
            ReplayMark::Header(name, _) => format!("the header {name}"),
            ReplayMark::Body(..) => "a field of the body".to_owned(),
            ReplayMark::Status(_) => "the status".to_owned(),
        })
        .collect();
    format!("a replay shows by {}", marks.join(" or "))
}

/// By what a repeat's answer differs from the first one, where that could be a mark.
fn difference(first: &Seen, again: &Seen) -> String {
    let mut differences = marks_seen(first, again);
    if differences.is_empty() {
        differences.push("nothing tells the two answers apart".to_owned());
    }
    differences.join("; ")
}

/// What could be stated as a replay mark, as lines of TOML.
pub fn marks_seen(first: &Seen, again: &Seen) -> Vec<String> {
    let mut marks = Vec::new();
    if let (Some(one), Some(other)) = (first.status, again.status)
        && one != other
    {
        marks.push(format!("replay = {{ status = {other} }}"));
    }
    for hint in again
        .hints
        .iter()
        .filter(|hint| !first.hints.contains(hint))
    {
        marks.push(match hint.word {
            Some(word) => format!(
                "replay = {{ header = \"{}\", equals = \"{word}\" }}",
                hint.name
            ),
            None => format!("replay = {{ header = \"{}\" }}", hint.name),
        });
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::super::seen::Hint;
    use super::super::seen::tests::{accepted, answered, replayed, without_id};
    use super::*;
    use crate::domain::attempt::Verdict;
    use crate::domain::profile::Test;

    fn marks() -> Vec<ReplayMark> {
        vec![ReplayMark::Header(
            "idempotent-replayed".parse().unwrap(),
            Test::Present,
        )]
    }

    fn standings(first: &Seen, again: &Seen, marks: &[ReplayMark]) -> [Standing; 2] {
        judge(first, again, marks).map(|check| check.verdict)
    }

    #[test]
    fn a_marked_repeat_with_the_same_id_holds() {
        assert_eq!(
            standings(&accepted("a"), &replayed("a"), &marks()),
            [Standing::Holds, Standing::Holds]
        );
    }

    #[test]
    fn another_id_is_a_second_message_under_the_key() {
        let checks = judge(&accepted("a"), &accepted("b"), &marks());
        assert_eq!(checks[0].verdict, Standing::Broken);
        assert_eq!(
            checks[0].observed,
            "another message: two under one key (201, accepted)"
        );
        assert_eq!(
            checks[1].verdict,
            Standing::Unknown,
            "there was no replay that could have carried the mark"
        );
    }

    #[test]
    fn a_repeat_without_the_promised_mark_is_the_same_message_all_the_same() {
        assert_eq!(
            standings(&accepted("a"), &accepted("a"), &marks()),
            [Standing::Holds, Standing::Broken]
        );
    }

    #[test]
    fn without_ids_and_marks_nobody_can_tell() {
        let seen = without_id(accepted("a"));
        assert_eq!(
            standings(&seen, &seen, &[]),
            [Standing::Unknown, Standing::Unknown]
        );
        assert_eq!(
            standings(&seen, &seen, &marks()),
            [Standing::Unknown, Standing::Broken]
        );
    }

    #[test]
    fn a_refused_repeat_breaks_the_promise_and_a_throttled_one_shows_nothing() {
        let first = accepted("a");
        assert_eq!(
            standings(&first, &answered(422, Verdict::Conflict), &marks()),
            [Standing::Broken, Standing::Unknown]
        );
        assert_eq!(
            standings(&first, &answered(429, Verdict::Throttled), &marks()),
            [Standing::Unknown, Standing::Unknown]
        );
    }

    #[test]
    fn what_tells_a_replay_apart_is_named_for_a_profile_without_a_mark() {
        let mut again = accepted("a");
        again.status = Some(200);
        again.hints = vec![
            Hint {
                name: "x-replayed".to_owned(),
                word: Some("true"),
            },
            Hint {
                name: "x-cache-key".to_owned(),
                word: None,
            },
        ];
        let [_, mark] = judge(&accepted("a"), &again, &[]);
        assert_eq!(
            mark.observed,
            "replay = { status = 200 }; replay = { header = \"x-replayed\", equals = \"true\" }; \
             replay = { header = \"x-cache-key\" }"
        );
        let [_, mark] = judge(&accepted("a"), &accepted("a"), &[]);
        assert_eq!(mark.observed, "nothing tells the two answers apart");
    }
}
