//! Decides whether a message is still one after its answer was lost: the request goes out whole, its connection is closed
//! before the answer, and the request comes again.

use std::time::Duration;

use super::report::{Check, Standing};
use super::seen::{Same, Seen, same_message};

/// How long after the last byte each try closes its connection. A provider may drop a request whose client has gone before it
/// was read, which shows nothing: the later tries leave it more time, and the answer of the last one may come before the cut.
pub const PAUSES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(2),
    Duration::from_millis(50),
    Duration::from_millis(500),
];

/// One try.
#[derive(Clone, Debug, PartialEq)]
pub struct Try {
    /// The answer that came before the connection could be cut.
    pub before: Option<Seen>,
    /// The answers to the same request after the cut, in their order.
    pub after: Vec<Seen>,
}

impl Try {
    /// Whether it shows that the cut request was taken, so that another try would show no more.
    pub fn is_telling(&self, marked: bool) -> bool {
        let replayed = self.after.last().is_some_and(|seen| seen.replay);
        !marked || replayed || self.before.is_some()
    }
}

/// Judges the tries; the last one counts. `marked` tells that the profile names a mark of replays.
pub fn judge(tries: &[Try], marked: bool) -> Check {
    let (observed, verdict) = match tries.last() {
        None => (
            "a request without a body cannot be cut behind it".to_owned(),
            Standing::NotApplicable,
        ),
        Some(last) => observe(last, tries.len(), marked),
    };
    Check {
        check: "cut_connection",
        claim: "a request whose answer was lost is the same message when it comes again".to_owned(),
        observed,
        verdict,
    }
}

fn observe(last: &Try, tries: usize, marked: bool) -> (String, Standing) {
    let Some(after) = last.after.last() else {
        return ("the request was not repeated".to_owned(), Standing::Unknown);
    };
    if after.is_refused() {
        let observed = format!("the repeat was refused: {}", after.told());
        return (observed, Standing::Broken);
    }
    if !after.is_accepted() {
        return (format!("the repeat: {}", after.told()), Standing::Unknown);
    }
    let Some(before) = &last.before else {
        return match (after.replay, marked) {
            (true, _) => (
                format!("taken, and the repeat was answered from memory (try {tries})"),
                Standing::Holds,
            ),
            (false, true) => (
                format!("the cut request was not taken, in {tries} tries"),
                Standing::Unknown,
            ),
            (false, false) => (
                "accepted; without a mark nobody can tell whether the cut request was taken too"
                    .to_owned(),
                Standing::Unknown,
            ),
        };
    };
    if !before.is_accepted() {
        let observed = format!("answered before the cut: {}", before.told());
        return (observed, Standing::Unknown);
    }
    match same_message(before, after) {
        Same::Yes => (
            format!("the same message; its answer had left before the cut (try {tries})"),
            Standing::Holds,
        ),
        Same::No => (
            "another message: two under one key".to_owned(),
            Standing::Broken,
        ),
        Same::CannotTell => (
            "accepted; whose message it is does not show".to_owned(),
            Standing::Unknown,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{accepted, answered, replayed, without_id};
    use super::*;
    use crate::domain::attempt::Verdict;

    fn cut(after: Seen) -> Try {
        Try {
            before: None,
            after: vec![after],
        }
    }

    fn answered_first(before: Seen, after: Seen) -> Try {
        Try {
            before: Some(before),
            after: vec![after],
        }
    }

    fn standing(tries: &[Try], marked: bool) -> (Standing, String) {
        let check = judge(tries, marked);
        (check.verdict, check.observed)
    }

    #[test]
    fn a_marked_repeat_shows_that_the_cut_request_was_taken() {
        let tries = [cut(accepted("a")), cut(replayed("b"))];
        assert_eq!(
            standing(&tries, true),
            (
                Standing::Holds,
                "taken, and the repeat was answered from memory (try 2)".to_owned()
            )
        );
    }

    #[test]
    fn an_unmarked_repeat_shows_nothing() {
        let tries = [cut(accepted("a"))];
        assert!(!tries[0].is_telling(true));
        assert_eq!(standing(&tries, true).0, Standing::Unknown);
        assert!(
            tries[0].is_telling(false),
            "another try would show no more without a mark"
        );
        assert_eq!(standing(&tries, false).0, Standing::Unknown);
    }

    #[test]
    fn an_answer_that_came_before_the_cut_tells_two_messages_apart() {
        let same = answered_first(accepted("a"), accepted("a"));
        assert_eq!(standing(&[same], true).0, Standing::Holds);
        let another = answered_first(accepted("a"), accepted("b"));
        assert_eq!(standing(&[another], true).0, Standing::Broken);
        let blind = answered_first(without_id(accepted("a")), accepted("b"));
        assert_eq!(standing(&[blind], true).0, Standing::Unknown);
    }

    #[test]
    fn a_repeat_that_is_refused_breaks_the_promise_and_one_that_is_put_off_does_not() {
        let refused = cut(answered(422, Verdict::Conflict));
        assert_eq!(standing(&[refused], true).0, Standing::Broken);
        let busy = cut(answered(409, Verdict::InProgress));
        assert_eq!(standing(&[busy], true).0, Standing::Unknown);
        assert_eq!(standing(&[], true).0, Standing::NotApplicable);
    }
}
