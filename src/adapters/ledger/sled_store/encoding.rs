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
