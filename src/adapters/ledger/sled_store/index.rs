//! Decides how the newest version of a story is found within a generation: by a map in memory while it is young, by sorted
//! pages on disk behind a filter once it is sealed. It does not know what is in a story.
//!
//! A map costs some 30 bytes of memory a story and is rebuilt from the blocks at start; so only the generation that takes
//! writes has one, and `STORIES_MAX` bounds it. A sealed generation costs 10 bits a story.

use std::collections::HashMap;

use super::block::Place;
use super::filter::Filter;
use crate::domain::idempotency_key::LedgerKey;

/// A generation that holds this many stories takes no more: what a map of 2^20 slots holds before it doubles.
pub(super) const STORIES_MAX: usize = (1 << 20) / 8 * 7;
/// Entries on one page, 3 KiB.
const PAGE_ENTRIES: usize = 128;
const ENTRY: usize = 24;

/// Where the newest version of each story lies.
#[derive(Debug)]
pub(super) enum Index {
    /// All of it.
    Young(HashMap<LedgerKey, Place>),
    /// What surely is not on the pages.
    Sealed(Filter),
}

/// One page of a sealed index, and the first key on it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) first: LedgerKey,
    pub(super) bytes: Vec<u8>,
}

/// The pages of a sealed index, in the order of their keys, and their filter.
pub(super) fn seal(map: &HashMap<LedgerKey, Place>) -> (Vec<Page>, Filter) {
    let mut entries: Vec<(LedgerKey, Place)> =
        map.iter().map(|(key, place)| (*key, *place)).collect();
    entries.sort_unstable();
    let mut filter = Filter::with_room_for(u64::try_from(entries.len()).unwrap_or(u64::MAX));
    let pages = entries
        .chunks(PAGE_ENTRIES)
        .filter_map(|chunk| {
            let (first, _) = chunk.first()?;
            let mut bytes = Vec::with_capacity(chunk.len() * ENTRY);
            for (key, place) in chunk {
                filter.insert(*key);
                bytes.extend_from_slice(&key.0);
                bytes.extend_from_slice(&place.block.to_be_bytes());
                bytes.extend_from_slice(&place.at.to_be_bytes());
            }
            Some(Page {
                first: *first,
                bytes,
            })
        })
        .collect();
    (pages, filter)
}

/// Where a page says that `key` lies.
pub(super) fn look_up(page: &[u8], key: LedgerKey) -> Result<Option<Place>, String> {
    let entries = entries(page)?;
    let found = entries.binary_search_by(|entry| entry_key(entry).cmp(&key.0));
    Ok(found.ok().and_then(|at| entries.get(at)).map(entry_place))
}

/// All places on a page.
pub(super) fn places(page: &[u8]) -> Result<impl Iterator<Item = Place>, String> {
    Ok(entries(page)?.iter().map(entry_place))
}

fn entries(page: &[u8]) -> Result<&[[u8; ENTRY]], String> {
    match page.as_chunks() {
        (entries, []) => Ok(entries),
        (_, [_, ..]) => Err("a page of the index is cut".to_owned()),
    }
}

fn entry_key(entry: &[u8; ENTRY]) -> [u8; 16] {
    entry.first_chunk().copied().unwrap_or_default()
}

fn entry_place(entry: &[u8; ENTRY]) -> Place {
    let [.., a, b, c, d, e, f, g, h] = *entry;
    Place {
        block: u32::from_be_bytes([a, b, c, d]),
        at: u32::from_be_bytes([e, f, g, h]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> LedgerKey {
        LedgerKey::of(b"test", &number.to_be_bytes())
    }

    #[test]
    fn what_was_sealed_is_looked_up_and_nothing_else() {
        let map: HashMap<LedgerKey, Place> = (0..1000)
            .map(|number| {
                (
                    key(number),
                    Place {
                        block: number / 10,
                        at: number,
                    },
                )
            })
            .collect();
        let (pages, filter) = seal(&map);
        assert_eq!(pages.len(), 8);
        let find = |key: LedgerKey| {
            let page = pages.iter().rev().find(|page| page.first <= key)?;
            look_up(&page.bytes, key).unwrap()
        };
        for (key, place) in &map {
            assert!(filter.may_hold(*key));
            assert_eq!(find(*key), Some(*place));
        }
        assert!((1000..2000).all(|number| find(key(number)).is_none()));
        let mut all: Vec<Place> = pages
            .iter()
            .flat_map(|page| places(&page.bytes).unwrap())
            .collect();
        let mut expected: Vec<Place> = map.into_values().collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_cut_page_is_an_error() {
        assert!(look_up(&[0; 25], key(1)).is_err());
        assert_eq!(look_up(&[], key(1)), Ok(None));
    }
}
