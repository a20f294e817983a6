//! Decides how a story is written down: a version byte, then postcard. It does not know where the bytes go.
//!
//! A version once written stays readable for ever: when `Story` changes its shape, the old shape stays here as a type
//! of its own under its old number, and the golden bytes below stay as they are.

use super::database::STORY_BYTES_MAX;
use crate::domain::ledger_entry::Story;

/// The version that is written.
const VERSION: u8 = 1;
/// What a story of one attempt takes, about.
const TYPICAL: usize = 384;

/// The bytes of `story`, or why it has none.
pub(super) fn encode(story: &Story) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(TYPICAL);
    bytes.push(VERSION);
    let bytes = postcard::to_extend(story, bytes)
        .map_err(|error| format!("a story cannot be encoded: {error}"))?;
    if bytes.len() > STORY_BYTES_MAX {
        return Err(format!(
            "a story of {} bytes is over the limit of {STORY_BYTES_MAX}",
            bytes.len()
        ));
    }
    Ok(bytes)
}

/// Reads what `encode` wrote, in any version.
pub(super) fn decode(bytes: &[u8]) -> Result<Story, String> {
    match bytes.split_first() {
        Some((&VERSION, story)) => postcard::from_bytes(story)
            .map_err(|error| format!("a story cannot be decoded: {error}")),
        Some((version, _)) => Err(format!(
            "a story has encoding version {version}, this build reads up to {VERSION}"
        )),
        None => Err("a story is empty".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use uuid::Uuid;

    use super::*;
    use crate::adapters::ledger::examples::{START, answered, entry, started};
    use crate::domain::attempt::Verdict;
    use crate::domain::dead_letter::Reason;
    use crate::domain::ledger_entry::{Entry, Fact, Writer};
    use crate::domain::position::{Offset, Position};

    /// A story with every kind of fact in it.
    fn story() -> Story {
        let mut story = Story::beginning(&started(7, START));
        story.fold(&answered(7, START, Verdict::Unknown));
        let cause = Fact::DeadLettering {
            reason: Reason::OutcomeUnknown,
            detail: "read_timeout".into(),
        };
        story.fold(&entry(7, START, cause));
        let at = Position {
            offset: Offset(12),
            ..story.subject.origin.clone()
        };
        story.fold(&entry(7, START, Fact::DeadLettered { at }));
        story.fold(&Entry {
            round: 1,
            writer: Writer(Uuid::from_u128(9)),
            ..answered(7, START, Verdict::Accepted)
        });
        story
    }

    #[test]
    fn version_1_stays_readable_for_ever() {
        let hex = include_str!("golden/story_v1.hex");
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        assert_eq!(decode(&bytes), Ok(story()));
        // Once `Story` has moved on, this half goes and the other one stays.
        let mut written = String::new();
        for byte in encode(&story()).unwrap() {
            write!(written, "{byte:02x}").unwrap();
        }
        assert_eq!(written, String::from_utf8(digits).unwrap());
    }

    #[test]
    fn what_is_not_a_story_is_told_apart() {
        let good = encode(&story()).unwrap();
        for length in 0..good.len() {
            assert!(decode(&good[..length]).is_err(), "{length}");
        }
        let mut later = good;
        later[0] = 9;
        assert_eq!(
            decode(&later),
            Err("a story has encoding version 9, this build reads up to 1".to_owned())
        );
    }

    #[test]
    fn a_story_that_would_not_fit_a_page_is_refused() {
        let mut story = story();
        story.subject.event_id = Some("x".repeat(STORY_BYTES_MAX).into());
        assert!(encode(&story).is_err());
    }
}
