//! Decides what a key means when it comes again: it is the provider's memory. It does not know what really happened before
//! (the truth does, and never forgets), nor how an answer is written.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The SHA-256 of a request's method, URL and body.
pub type RequestHash = [u8; 32];

/// How a provider keeps its word about keys.
#[derive(Clone, Copy, Debug)]
pub struct Conduct {
    /// How long a key is remembered after its acceptance.
    pub window: Duration,
    /// Whether another request under a known key is a conflict; it gets the first one's answer otherwise.
    pub compares_body: bool,
    /// Whether a key is known while its first request is still being worked on.
    pub locks: bool,
}

/// The keys that a provider remembers, each for the length of its window.
#[derive(Debug)]
pub struct Memory {
    conduct: Conduct,
    kept: HashMap<Box<str>, Kept>,
}

/// What a key means now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recall {
    /// Nothing is known of it: the request is a new one.
    Fresh,
    /// It has been answered, and this is the answer.
    Answered(Answer),
    /// Its first request is still being worked on.
    InProgress,
    /// It belongs to another request.
    Conflict,
}

/// The answer that a key keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Accepted, under the number of the message.
    Accepted(u64),
    /// A server error, stored although the message of this number was accepted.
    StoredError(u64),
    /// A server error; nothing was accepted.
    Failed,
}

impl Answer {
    /// The number of the message that was accepted, if one was.
    pub const fn message(self) -> Option<u64> {
        match self {
            Self::Accepted(message) | Self::StoredError(message) => Some(message),
            Self::Failed => None,
        }
    }
}

/// One key's entry.
#[derive(Clone, Copy, Debug)]
struct Kept {
    request: RequestHash,
    answer: Answer,
    accepted_at: Instant,
    answered_at: Instant,
}

impl Memory {
    /// An empty memory.
    pub fn new(conduct: Conduct) -> Self {
        Self {
            conduct,
            kept: HashMap::new(),
        }
    }

    /// What a key means to a request at the time `now`. A key whose window is over is forgotten here.
    pub fn recall(&mut self, key: &str, request: &RequestHash, now: Instant) -> Recall {
        let Some(kept) = self.kept.get(key) else {
            return Recall::Fresh;
        };
        if now.duration_since(kept.accepted_at) >= self.conduct.window {
            self.kept.remove(key);
            Recall::Fresh
        } else if !self.conduct.locks && now < kept.answered_at {
            Recall::Fresh
        } else if self.conduct.compares_body && kept.request != *request {
            Recall::Conflict
        } else if now < kept.answered_at {
            Recall::InProgress
        } else {
            Recall::Answered(kept.answer)
        }
    }

    /// Keeps an answer for a key; until `answered_at` the key is in progress.
    pub fn keep(
        &mut self,
        key: &str,
        request: RequestHash,
        answer: Answer,
        accepted_at: Instant,
        answered_at: Instant,
    ) {
        self.kept.insert(
            key.into(),
            Kept {
                request,
                answer,
                accepted_at,
                answered_at,
            },
        );
    }

    /// Forgets every key.
    pub fn clear(&mut self) {
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);
    const HONEST: Conduct = Conduct {
        window: WINDOW,
        compares_body: true,
        locks: true,
    };
    const ONE: RequestHash = [1; 32];
    const OTHER: RequestHash = [2; 32];

    #[tokio::test(start_paused = true)]
    async fn a_key_is_in_progress_then_answered_then_forgotten() {
        let start = Instant::now();
        let mut memory = Memory::new(HONEST);
        assert_eq!(memory.recall("k", &ONE, start), Recall::Fresh);
        memory.keep(
            "k",
            ONE,
            Answer::Accepted(1),
            start,
            start + Duration::from_secs(2),
        );
        assert_eq!(
            memory.recall("k", &ONE, start + Duration::from_millis(1_999)),
            Recall::InProgress
        );
        assert_eq!(
            memory.recall("k", &ONE, start + Duration::from_secs(2)),
            Recall::Answered(Answer::Accepted(1))
        );
        assert_eq!(
            memory.recall("k", &ONE, start + Duration::from_millis(59_999)),
            Recall::Answered(Answer::Accepted(1))
        );
        assert_eq!(memory.recall("k", &ONE, start + WINDOW), Recall::Fresh);
    }

    #[tokio::test(start_paused = true)]
    async fn another_request_under_the_key_is_a_conflict_even_while_the_first_is_in_progress() {
        let start = Instant::now();
        let mut memory = Memory::new(HONEST);
        memory.keep(
            "k",
            ONE,
            Answer::StoredError(1),
            start,
            start + Duration::from_secs(2),
        );
        assert_eq!(memory.recall("k", &OTHER, start), Recall::Conflict);
        assert_eq!(
            memory.recall("k", &OTHER, start + Duration::from_secs(3)),
            Recall::Conflict
        );
        assert_eq!(memory.recall("other", &OTHER, start), Recall::Fresh);
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_ignores_the_body_gives_another_request_the_first_answer() {
        let start = Instant::now();
        let mut memory = Memory::new(Conduct {
            compares_body: false,
            ..HONEST
        });
        memory.keep("k", ONE, Answer::Accepted(1), start, start);
        assert_eq!(
            memory.recall("k", &OTHER, start),
            Recall::Answered(Answer::Accepted(1))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_without_a_lock_knows_a_key_only_once_it_has_answered() {
        let start = Instant::now();
        let answered = start + Duration::from_secs(2);
        let mut memory = Memory::new(Conduct {
            locks: false,
            ..HONEST
        });
        memory.keep("k", ONE, Answer::Accepted(1), start, answered);
        assert_eq!(memory.recall("k", &ONE, start), Recall::Fresh);
        assert_eq!(
            memory.recall("k", &ONE, answered),
            Recall::Answered(Answer::Accepted(1))
        );
    }
}
