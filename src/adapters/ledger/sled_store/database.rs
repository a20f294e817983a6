//! Decides how one sled is opened, written and read, and when what was written is durable.
//! It does not know what is in a block.
//!
//! What sled 0.34 needs to be told or watched for:
//!
//! - Its flush ends in `sync_file_range`, which neither writes the file's metadata nor empties the drive's cache; so each
//!   flush is followed by `sync_data` on its one file.
//! - A value near a quarter of a segment goes to a file of its own, which it never syncs; `STORY_BYTES_MAX` keeps away from that.
//! - A snapshot that was being written when the process died is taken for the newest one and refused; it is removed.
//! - It panics where it does not expect damage, on the thread that asks; so every question is asked behind `catch_unwind`.
//! - An applied `Batch` makes every later read take a lock; blocks need no atomicity, so none is used.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use sled::IVec;

use super::fault::{Fault, OpenError};
use super::filter::Filter;
use super::index::Page;
use crate::domain::idempotency_key::LedgerKey;

/// No encoded story may be larger: one of sled's tree pages holds up to 17 blocks of 4 KiB and a story each, and must stay
/// below a quarter of a segment.
pub(super) const STORY_BYTES_MAX: usize = 24 * 1024;
const SEGMENT_BYTES: usize = 2 * 1024 * 1024;
/// A filter is kept in pieces of this size, for the same reason.
const FILTER_PIECE: usize = 16 * 1024;

const BLOCKS: u8 = b'b';
const INDEX: u8 = b'i';
const FILTER: u8 = b'f';

/// One open sled.
#[derive(Debug)]
pub(super) struct Database {
    db: sled::Db,
    file: File,
}

impl Database {
    /// Opens the one in `directory`, or makes one.
    pub(super) fn open(directory: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        remove_half_snapshots(directory).map_err(|error| OpenError::io(directory, &error))?;
        let config = sled::Config::new()
            .path(directory)
            .cache_capacity(cache_bytes)
            .segment_size(SEGMENT_BYTES)
            .mode(sled::Mode::LowSpace)
            .flush_every_ms(None)
            .print_profile_on_drop(false);
        let db = guarded(|| Ok(config.open()?)).map_err(|fault| fault.at(directory))?;
        let path = directory.join("db");
        let file = File::open(&path).map_err(|error| OpenError::io(&path, &error))?;
        Ok(Self { db, file })
    }

    /// Writes `blocks` and makes them durable.
    pub(super) fn append(&self, blocks: &[(u32, Vec<u8>)]) -> Result<(), Fault> {
        guarded(|| {
            for (number, block) in blocks {
                self.db.insert(block_key(*number), block.as_slice())?;
            }
            self.db.flush()?;
            Ok(())
        })?;
        self.sync()
    }

    /// Makes what was flushed durable.
    pub(super) fn sync(&self) -> Result<(), Fault> {
        Ok(self.file.sync_data()?)
    }

    /// Block `number`.
    pub(super) fn block(&self, number: u32) -> Result<Option<IVec>, Fault> {
        guarded(|| Ok(self.db.get(block_key(number))?))
    }

    /// Calls `visit` with every block from `first` on, in the order of their numbers, until it returns false.
    pub(super) fn each_block(
        &self,
        first: u32,
        mut visit: impl FnMut(u32, &[u8]) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let range = self.db.range(block_key(first)..[BLOCKS + 1; 5]);
        each(range, |key, block| match key.split_first_chunk::<1>() {
            Some((_, number)) => match number.try_into() {
                Ok(number) => visit(u32::from_be_bytes(number), block),
                Err(_) => Err(Fault::Damaged("a block has no number".to_owned())),
            },
            None => Err(Fault::Damaged("a block has no number".to_owned())),
        })
    }

    /// Writes a sealed index and makes it durable.
    pub(super) fn write_index(&self, pages: &[Page], filter: &Filter) -> Result<(), Fault> {
        guarded(|| {
            for page in pages {
                self.db
                    .insert(page_key(page.first), page.bytes.as_slice())?;
            }
            for (number, piece) in (0_u32..).zip(filter.bytes().chunks(FILTER_PIECE)) {
                self.db.insert(numbered(FILTER, number), piece)?;
            }
            self.db.flush()?;
            Ok(())
        })?;
        self.sync()
    }

    /// The page of the sealed index that `key` is on, if it is on any.
    pub(super) fn page(&self, key: LedgerKey) -> Result<Option<IVec>, Fault> {
        guarded(|| {
            let mut range = self.db.range(page_key(LedgerKey([0; 16]))..=page_key(key));
            Ok(range.next_back().transpose()?.map(|(_, page)| page))
        })
    }

    /// Calls `visit` with every page of the sealed index.
    pub(super) fn each_page(
        &self,
        mut visit: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        each(self.db.scan_prefix([INDEX]), |_, page| {
            visit(page).map(|()| true)
        })
    }

    /// The sealed index's filter.
    pub(super) fn filter(&self) -> Result<Filter, Fault> {
        let mut bytes = Vec::new();
        each(self.db.scan_prefix([FILTER]), |_, piece| {
            bytes.extend_from_slice(piece);
            Ok(true)
        })?;
        Filter::from_bytes(&bytes).ok_or_else(|| Fault::Damaged("its index is missing".to_owned()))
    }
}

/// Walks `range` until `visit` returns false.
fn each(
    mut range: sled::Iter,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    while let Some((key, value)) = guarded(|| Ok(range.next().transpose()?))? {
        if !visit(&key, &value)? {
            break;
        }
    }
    Ok(())
}

/// What sled answers, a panic taken for damage.
fn guarded<T>(ask: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(ask))
        .unwrap_or_else(|_panic| Err(Fault::Damaged("sled cannot make sense of it".to_owned())))
}

fn remove_half_snapshots(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "generating") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn block_key(number: u32) -> [u8; 5] {
    numbered(BLOCKS, number)
}

fn numbered(kind: u8, number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [kind, a, b, c, d]
}

fn page_key(first: LedgerKey) -> [u8; 17] {
    let mut key = [INDEX; 17];
    for (place, byte) in key.iter_mut().skip(1).zip(first.0) {
        *place = byte;
    }
    key
}
