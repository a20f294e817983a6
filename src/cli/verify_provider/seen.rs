//! Decides what one answer shows of how a provider treats its keys, and whether two answers are about one message. It knows
//! no claim: what a profile promises is held against it by each check.

use std::time::Duration;

use crate::domain::attempt::{Classified, Verdict};
use crate::domain::classify::Answer;

/// What one answer shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// What it means by the profile's rules.
    pub verdict: Verdict,
    /// Whether it carries a replay mark of the profile.
    pub replay: bool,
    /// Whether a repeat would get nothing else.
    pub last_word: bool,
    /// Whether a rule says that the key can never be used again.
    pub burned: bool,
    /// The provider's id for the message.
    pub message_id: Option<String>,
    /// HTTP status, absent when no answer came.
    pub status: Option<u16>,
    /// Why, in one word of the classifier's.
    pub detail: &'static str,
    /// The wait that the provider asked for.
    pub wait: Option<Duration>,
    /// Headers by whose name an answer may say that it comes from memory, with their values where those are plain words.
    pub hints: Vec<Hint>,
    /// From the start of the request to the end of the answer.
    pub took: Duration,
}

/// A header that may say that an answer comes from memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Its name.
    pub name: String,
    /// Its value, if that is a plain word such as `true`.
    pub word: Option<&'static str>,
}

/// Whether two answers are about one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Same {
    /// They are.
    Yes,
    /// They are about two.
    No,
    /// Nobody can tell: there are no ids, and no mark says that the later one comes from memory.
    CannotTell,
}

impl Seen {
    /// What `answer`, read as `classified`, shows.
    pub fn of(answer: &Answer, classified: Classified, took: Duration) -> Self {
        let hints = match answer {
            Answer::Response(response) => response
                .headers
                .iter()
                .filter(|(name, _)| may_be_a_mark(name.as_str()))
                .map(|(name, value)| Hint {
                    name: name.as_str().to_owned(),
                    word: plain_word(value.as_bytes()),
                })
                .collect(),
            Answer::NotSent(_) | Answer::Lost(_) => Vec::new(),
        };
        Self {
            verdict: classified.verdict,
            replay: classified.flags.replay,
            last_word: classified.flags.last_word,
            burned: classified.flags.burned,
            message_id: classified.message_id,
            status: classified.status,
            detail: classified.detail,
            wait: classified.wait.map(|wait| wait.at_least),
            hints,
            took,
        }
    }

    /// Whether the message was taken, by this request or an earlier one.
    pub fn is_accepted(&self) -> bool {
        self.verdict == Verdict::Accepted
    }

    /// Whether the provider answered, and will not take the message.
    pub fn is_refused(&self) -> bool {
        matches!(self.verdict, Verdict::Rejected | Verdict::Conflict)
    }

    /// The answer in a few words, without anything that the provider wrote.
    pub fn told(&self) -> String {
        let replay = if self.replay { ", a replay" } else { "" };
        match self.status {
            Some(status) if self.verdict.name() == self.detail => {
                format!("{status}, {}{replay}", self.verdict)
            }
            Some(status) => format!("{status}, {} ({}){replay}", self.verdict, self.detail),
            None => format!("no answer, {} ({})", self.verdict, self.detail),
        }
    }
}

/// Whether `later`, an answer under the same key, is about the message of `first`.
pub fn same_message(first: &Seen, later: &Seen) -> Same {
    match (&first.message_id, &later.message_id) {
        (Some(one), Some(other)) if one == other => Same::Yes,
        (Some(_), Some(_)) => Same::No,
        (None, _) | (_, None) if later.replay => Same::Yes,
        (None, _) | (_, None) => Same::CannotTell,
    }
}

fn may_be_a_mark(name: &str) -> bool {
    ["replay", "idempoten", "duplicate", "cache"]
        .iter()
        .any(|part| name.contains(part))
}

fn plain_word(value: &[u8]) -> Option<&'static str> {
    ["true", "false", "1", "0", "yes", "no", "hit", "miss"]
        .into_iter()
        .find(|word| word.as_bytes().eq_ignore_ascii_case(value))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An acceptance with this message id.
    pub(in crate::cli::verify_provider) fn accepted(id: &str) -> Seen {
        Seen {
            verdict: Verdict::Accepted,
            replay: false,
            last_word: false,
            burned: false,
            message_id: Some(id.to_owned()),
            status: Some(201),
            detail: "accepted",
            wait: None,
            hints: Vec::new(),
            took: Duration::from_millis(40),
        }
    }

    /// The same from memory, marked as the profile says.
    pub(in crate::cli::verify_provider) fn replayed(id: &str) -> Seen {
        Seen {
            replay: true,
            ..accepted(id)
        }
    }

    /// Another answer.
    pub(in crate::cli::verify_provider) fn answered(status: u16, verdict: Verdict) -> Seen {
        Seen {
            verdict,
            message_id: None,
            status: Some(status),
            detail: verdict.name(),
            ..accepted("")
        }
    }

    /// The same without its message id.
    pub(in crate::cli::verify_provider) fn without_id(seen: Seen) -> Seen {
        Seen {
            message_id: None,
            ..seen
        }
    }

    #[test]
    fn two_answers_are_about_one_message_by_their_ids_or_else_by_the_mark() {
        let first = accepted("a");
        assert_eq!(same_message(&first, &accepted("a")), Same::Yes);
        assert_eq!(same_message(&first, &accepted("b")), Same::No);
        assert_eq!(
            same_message(&first, &replayed("b")),
            Same::No,
            "a mark does not make two ids one"
        );
        assert_eq!(same_message(&first, &without_id(replayed("a"))), Same::Yes);
        assert_eq!(
            same_message(&without_id(first), &accepted("b")),
            Same::CannotTell
        );
    }

    #[test]
    fn an_answer_is_told_without_what_the_provider_wrote() {
        assert_eq!(replayed("secret").told(), "201, accepted, a replay");
        let mut lost = answered(500, Verdict::Unknown);
        lost.detail = "stored_error";
        assert_eq!(lost.told(), "500, unknown (stored_error)");
        lost.status = None;
        lost.detail = "read_timeout";
        assert_eq!(lost.told(), "no answer, unknown (read_timeout)");
    }
}
