//! Decides what a search for messages finds: those of one recipient or reference, newest first, once they have become
//! visible. It keeps a bounded number of the latest, as providers keep a bounded number of days.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::Instant;

/// The most messages that can be found.
const KEPT_MAX: usize = 10_000;
/// The most messages in one answer.
pub const PAGE: usize = 50;

/// The messages that can be found.
#[derive(Debug)]
pub struct Listing {
    visible_after: Duration,
    kept: VecDeque<(Instant, Listed)>,
}

/// One message as it is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its identifier.
    pub id: String,
    /// Whom it is for.
    pub to: String,
    /// What the client called it.
    pub reference: Option<String>,
    /// Its text.
    pub text: Option<String>,
    /// When it was accepted.
    pub made_at: Timestamp,
}

impl Listing {
    /// An empty one, in which a message shows so long after it was accepted.
    pub fn new(visible_after: Duration) -> Self {
        Self {
            visible_after,
            kept: VecDeque::new(),
        }
    }

    /// Adds a message that was accepted at `now`.
    pub fn add(&mut self, message: Listed, now: Instant) {
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back((now, message));
    }

    /// The visible messages that the query `wanted` (`to`, `reference`) means, newest first, one page of them.
    pub fn find(&self, query: &str, now: Instant) -> Vec<&Listed> {
        let wanted: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
        let means = |listed: &Listed| {
            wanted.iter().all(|(name, value)| match &**name {
                "to" => listed.to == **value,
                "reference" => listed.reference.as_deref() == Some(value),
                _ => true,
            })
        };
        self.kept
            .iter()
            .rev()
            .filter(|(accepted, _)| now.duration_since(*accepted) >= self.visible_after)
            .map(|(_, listed)| listed)
            .filter(|listed| means(listed))
            .take(PAGE)
            .collect()
    }

    /// Forgets every message.
    pub fn clear(&mut self) {
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, to: &str, reference: &str) -> Listed {
        Listed {
            id: id.to_owned(),
            to: to.to_owned(),
            reference: Some(reference.to_owned()),
            text: None,
            made_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn ids(found: Vec<&Listed>) -> Vec<&str> {
        found.into_iter().map(|listed| listed.id.as_str()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn messages_show_after_the_delay_newest_first_and_by_what_is_asked_for() {
        let mut listing = Listing::new(Duration::from_secs(2));
        let start = Instant::now();
        listing.add(message("m-1", "+12025550143", "r-1"), start);
        listing.add(message("m-2", "+12025550143", "r-2"), start);
        listing.add(
            message("m-3", "+12025550199", "r-1"),
            start + Duration::from_secs(1),
        );
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(listing.find("to=%2B12025550143", at(1)).is_empty());
        assert_eq!(
            ids(listing.find("to=%2B12025550143", at(2))),
            ["m-2", "m-1"]
        );
        assert_eq!(ids(listing.find("reference=r-1", at(3))), ["m-3", "m-1"]);
        assert_eq!(
            ids(listing.find("reference=r-1&to=%2B12025550143", at(3))),
            ["m-1"]
        );
        assert!(
            listing.find("to=+12025550143", at(3)).is_empty(),
            "a raw + is a blank"
        );
        listing.clear();
        assert!(listing.find("", at(9)).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_message_goes_when_too_many_are_kept() {
        let mut listing = Listing::new(Duration::ZERO);
        let now = Instant::now();
        for number in 0..=KEPT_MAX {
            listing.add(message(&number.to_string(), "a", &number.to_string()), now);
        }
        assert!(listing.find("reference=0", now).is_empty());
        assert_eq!(ids(listing.find("reference=1", now)), ["1"]);
        assert_eq!(listing.find("", now).len(), PAGE);
    }
}
