//! Decides how stories are packed into blocks: the values that sled holds, each with some stories one behind the other.
//! It does not know where a block is kept, nor which version of a story is the newest.
//!
//! Every version is written once, behind all others, and never changed. sled pays some 15 µs of processor time for a value at
//! a random place in its tree and about 4 µs for 2 KiB at the tree's end, and one flush is due to about a hundred stories.

use serde::{Deserialize, Serialize, Serializer};

use crate::domain::idempotency_key::LedgerKey;
use crate::domain::time::Timestamp;

/// A block that has reached this many bytes takes no further story.
const BLOCK_BYTES: usize = 2048;

/// Where one version of a story lies within its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The block's number, from 0.
    pub(super) block: u32,
    /// Where its frame begins, in bytes.
    pub(super) at: u32,
}

/// One version of a story, and what must be known of it without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Frame<'a> {
    pub(super) key: LedgerKey,
    /// When it was written.
    pub(super) at: Timestamp,
    /// Whether its end is not known yet.
    pub(super) open: bool,
    /// As `encoding` writes it.
    #[serde(borrow, serialize_with = "as_bytes")]
    pub(super) story: &'a [u8],
}

/// Stories packed into blocks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Packed {
    /// Blocks in the order of their numbers.
    pub(super) blocks: Vec<(u32, Vec<u8>)>,
    /// Where each story went, in the order they came.
    pub(super) places: Vec<(LedgerKey, Place)>,
}

/// Packs `frames` into blocks numbered from `first`, or says why they do not fit.
pub(super) fn pack<'a>(
    frames: impl Iterator<Item = Frame<'a>>,
    first: u32,
) -> Result<Packed, String> {
    let mut packed = Packed::default();
    let (mut number, mut block) = (first, Vec::new());
    for frame in frames {
        if block.len() >= BLOCK_BYTES {
            packed.blocks.push((number, std::mem::take(&mut block)));
            number = number.checked_add(1).ok_or("the generation is full")?;
        }
        let at = u32::try_from(block.len()).map_err(|error| error.to_string())?;
        packed.places.push((frame.key, Place { block: number, at }));
        block = postcard::to_extend(&frame, block).map_err(|error| error.to_string())?;
    }
    if !block.is_empty() {
        packed.blocks.push((number, block));
    }
    Ok(packed)
}

/// A frame on its own, as `frame` reads it.
pub(super) fn bytes(frame: &Frame<'_>) -> Result<Vec<u8>, String> {
    postcard::to_stdvec(frame).map_err(|error| error.to_string())
}

/// The frame that begins at `at`.
pub(super) fn frame(block: &[u8], at: u32) -> Result<Frame<'_>, String> {
    let rest = usize::try_from(at).ok().and_then(|at| block.get(at..));
    let rest = rest.ok_or("a block is shorter than a story's place in it")?;
    postcard::from_bytes(rest).map_err(|error| format!("a story's frame cannot be read: {error}"))
}

/// Calls `visit` with each frame of `block` and the place where it begins.
pub(super) fn each_frame<'a>(
    block: &'a [u8],
    mut visit: impl FnMut(u32, Frame<'a>),
) -> Result<(), String> {
    let mut rest = block;
    while !rest.is_empty() {
        let at = u32::try_from(block.len().saturating_sub(rest.len()))
            .map_err(|error| error.to_string())?;
        let (frame, behind) = postcard::take_from_bytes(rest)
            .map_err(|error| format!("a story's frame cannot be read: {error}"))?;
        visit(at, frame);
        rest = behind;
    }
    Ok(())
}

fn as_bytes<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_story_is_found_where_it_was_packed(
            stories in prop::collection::vec((any::<[u8; 16]>(), any::<i64>(), any::<bool>(),
                prop::collection::vec(any::<u8>(), 0..3000)), 0..40),
            first in 0..u32::MAX / 2,
        ) {
            let frames: Vec<Frame<'_>> = stories
                .iter()
                .map(|(key, at, open, story)| Frame {
                    key: LedgerKey(*key),
                    at: Timestamp::from_millis(*at),
                    open: *open,
                    story,
                })
                .collect();
            let packed = pack(frames.iter().cloned(), first).unwrap();
            let mut walked = Vec::new();
            for (number, block) in &packed.blocks {
                each_frame(block, |at, frame| walked.push((Place { block: *number, at }, frame))).unwrap();
            }
            prop_assert_eq!(walked.len(), frames.len());
            for ((frame, (key, place)), (walked_place, walked)) in
                frames.iter().zip(&packed.places).zip(&walked)
            {
                prop_assert_eq!(key, &frame.key);
                prop_assert_eq!(place, walked_place);
                prop_assert_eq!(walked, frame);
                let (_, block) = packed.blocks.iter().find(|(number, _)| *number == place.block).unwrap();
                prop_assert_eq!(&super::frame(block, place.at).unwrap(), frame);
            }
        }
    }

    #[test]
    fn blocks_follow_one_another_and_end_soon_after_two_kibibytes() {
        let story = [0; 1000];
        let frame = Frame {
            key: LedgerKey([1; 16]),
            at: Timestamp::EPOCH,
            open: true,
            story: &story,
        };
        let packed = pack(std::iter::repeat_n(frame, 9), 7).unwrap();
        let sizes: Vec<(u32, usize)> = packed
            .blocks
            .iter()
            .map(|(number, block)| (*number, block.len()))
            .collect();
        assert_eq!(sizes, [(7, 3 * 1020), (8, 3 * 1020), (9, 3 * 1020)]);
    }

    #[test]
    fn a_cut_block_is_an_error_and_not_a_shorter_one() {
        let frame = Frame {
            key: LedgerKey([1; 16]),
            at: Timestamp::EPOCH,
            open: true,
            story: b"story",
        };
        let packed = pack(std::iter::once(frame), 0).unwrap();
        let (_, block) = &packed.blocks[0];
        for length in 1..block.len() {
            assert!(each_frame(&block[..length], |_, _| ()).is_err());
        }
        assert!(super::frame(block, 100).is_err());
    }
}
