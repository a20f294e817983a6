//! Decides how a generation keeps its stories while it takes writes: blocks in a database, a map over them in memory, a
//! witness beside them. It does not know which generation is asked or written: that is `shelf`.
//!
//! The map is changed only after the blocks are durable, so nothing can be found before that. sled takes a file that was cut
//! or emptied for a shorter or an empty database; the witness keeps the number of durable blocks, and a database with fewer of
//! them is damaged.
//!
//! The map costs some 30 bytes a story and is built anew from the blocks at start, and sled's cache may in the worst case come
//! to hold the whole file. `STORIES_MAX` bounds both.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use super::block::{self, Frame, Place};
use super::database::Database;
use super::fault::{Fault, OpenError};
use super::manifest;
use super::witness::Witness;
use crate::adapters::ledger::LedgerError;
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::time::Timestamp;

/// A generation that holds this many stories takes no more: what a map of 2^17 slots holds before it doubles.
const STORIES_MAX: usize = (1 << 17) / 8 * 7;

/// A generation that takes writes, or has not been sealed yet.
#[derive(Debug)]
pub(super) struct Young {
    /// The beginning of its period.
    pub(super) from: Timestamp,
    directory: PathBuf,
    cache_bytes: u64,
    /// Absent only while it is being opened again.
    database: RwLock<Option<Database>>,
    /// Where the newest version of each story lies.
    map: RwLock<HashMap<LedgerKey, Place>>,
    witness: Witness,
    /// Durable blocks.
    blocks: AtomicU32,
    last_write: AtomicI64,
}

impl Young {
    /// Makes an empty one in `directory`, which must not exist.
    pub(super) fn create(
        directory: &Path,
        from: Timestamp,
        cache_bytes: u64,
    ) -> Result<Self, OpenError> {
        let fault = |error: io::Error| OpenError::io(directory, &error);
        fs::create_dir_all(directory).map_err(fault)?;
        let database = Database::open(directory, cache_bytes)?;
        database.append(&[]).map_err(|fault| fault.at(directory))?;
        let witness = Witness::create(directory).map_err(fault)?;
        manifest::sync_files(directory).map_err(fault)?;
        let mut made = directory;
        // The directory itself, the one of all generations, and the ledger's.
        for _ in 0..3 {
            manifest::sync_directory(made).map_err(fault)?;
            made = made.parent().unwrap_or(made);
        }
        Ok(Self::over(directory, from, cache_bytes, database, witness))
    }

    /// Opens the one in `directory`, and checks that nothing durable is missing from it.
    pub(super) fn open(
        directory: &Path,
        from: Timestamp,
        cache_bytes: u64,
    ) -> Result<Self, OpenError> {
        let witness = Witness::open(directory)?;
        let file = directory.join("db");
        if !file.exists() {
            return Err(OpenError::damaged(&file, "it is missing"));
        }
        let database = Database::open(directory, cache_bytes)?;
        let young = Self::over(directory, from, cache_bytes, database, witness);
        young.take_blocks().map_err(|fault| fault.at(directory))?;
        Ok(young)
    }

    fn over(
        directory: &Path,
        from: Timestamp,
        cache_bytes: u64,
        database: Database,
        witness: Witness,
    ) -> Self {
        Self {
            from,
            directory: directory.to_owned(),
            cache_bytes,
            database: RwLock::new(Some(database)),
            map: RwLock::default(),
            witness,
            blocks: AtomicU32::new(0),
            last_write: AtomicI64::new(from.as_millis()),
        }
    }

    /// Maps what the blocks hold, and checks that they are all there. What a crash left written but not synced is made
    /// durable first, since it counts from now on.
    fn take_blocks(&self) -> Result<(), Fault> {
        let witnessed = self
            .witness
            .read()?
            .ok_or_else(|| Fault::Damaged("its witness cannot be read".to_owned()))?;
        let mut next = 0;
        let mut found = Vec::new();
        let mut last = self.from;
        self.with(|database| {
            database.sync()?;
            database.each_block(|number, block| {
                if number != next {
                    return Err(Fault::Damaged(format!("block {next} is missing from it")));
                }
                next = next.saturating_add(1);
                block::each_frame(block, |at, frame| {
                    last = last.max(frame.at);
                    found.push((frame.key, Place { block: number, at }));
                })
                .map_err(Fault::Damaged)?;
                Ok(true)
            })
        })?;
        if next < witnessed {
            return Err(Fault::Damaged(format!(
                "it ends at block {next}, but {witnessed} were durable"
            )));
        }
        self.arrive(next, &found, last);
        Ok(())
    }

    /// Opens the database again after the disk refused a write, and takes that write out of it.
    pub(super) fn reopen(&self) -> Result<(), OpenError> {
        let mut database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        drop(database.take());
        let opened = Database::open(&self.directory, self.cache_bytes)?;
        opened
            .cut(self.blocks.load(Ordering::Acquire))
            .map_err(|fault| fault.at(&self.directory))?;
        *database = Some(opened);
        Ok(())
    }

    /// What `read` makes of the durable version of the story under `key`.
    pub(super) fn find<T>(
        &self,
        key: LedgerKey,
        read: impl FnOnce(&Frame<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let place = self.map().get(&key).copied();
        let Some(Place { block: number, at }) = place else {
            return Ok(None);
        };
        let block = self.with(|database| database.block(number))?;
        let block =
            block.ok_or_else(|| Fault::Damaged(format!("block {number} is missing from it")))?;
        let frame = block::frame(&block, at).map_err(Fault::Damaged)?;
        if frame.key != key {
            return Err(Fault::Damaged("a story lies in another's place".to_owned()));
        }
        read(&frame).map(Some)
    }

    /// Whether it holds a durable version of the story under `key`.
    pub(super) fn holds(&self, key: LedgerKey) -> bool {
        self.map().contains_key(&key)
    }

    /// Calls `visit` with the newest version of every story that it holds now, until `visit` returns false.
    pub(super) fn each(
        &self,
        mut visit: impl FnMut(Frame<'_>) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let mut newest: Vec<Place> = self.map().values().copied().collect();
        newest.sort_unstable();
        let mut newest = newest.into_iter().peekable();
        self.with(|database| {
            database.each_block(|number, block| {
                let mut going = Ok(true);
                block::each_frame(block, |at, frame| {
                    let here = Place { block: number, at };
                    if matches!(going, Ok(true)) && newest.next_if_eq(&here).is_some() {
                        going = visit(frame);
                    }
                })
                .map_err(Fault::Damaged)?;
                Ok(going? && newest.peek().is_some())
            })
        })
    }

    /// Writes `frames` and makes them durable. After a fault nothing can be written until `reopen`.
    pub(super) fn write<'a>(
        &self,
        frames: impl Iterator<Item = Frame<'a>> + Clone,
    ) -> Result<(), LedgerError> {
        let last = frames.clone().map(|frame| frame.at).max();
        let first = self.blocks.load(Ordering::Acquire);
        let written = block::pack(frames, first)
            .map_err(Fault::Disk)
            .and_then(|packed| {
                self.with(|database| database.append(&packed.blocks))?;
                let blocks = u32::try_from(packed.blocks.len()).unwrap_or(u32::MAX);
                let next = first.saturating_add(blocks);
                self.witness.write(next)?;
                self.arrive(next, &packed.places, last.unwrap_or(self.from));
                Ok(())
            });
        written.map_err(|fault| fault.told(&self.directory))
    }

    /// Lets `places` be found, now that all blocks below `blocks` are durable.
    fn arrive(&self, blocks: u32, places: &[(LedgerKey, Place)], last_write: Timestamp) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.extend(places.iter().copied());
        self.blocks.store(blocks, Ordering::Release);
        self.last_write
            .fetch_max(last_write.as_millis(), Ordering::AcqRel);
    }

    /// Whether it takes no further story, whatever the time.
    pub(super) fn is_full(&self) -> bool {
        self.map().len() >= STORIES_MAX
    }

    /// Stories that it holds a version of.
    pub(super) fn entries(&self) -> u64 {
        u64::try_from(self.map().len()).unwrap_or(u64::MAX)
    }

    /// The latest moment at which any of its stories was written, at the least the beginning of its period.
    pub(super) fn last_write(&self) -> Timestamp {
        Timestamp::from_millis(self.last_write.load(Ordering::Acquire))
    }

    fn map(&self) -> RwLockReadGuard<'_, HashMap<LedgerKey, Place>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, ask: impl FnOnce(&Database) -> Result<T, Fault>) -> Result<T, Fault> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match database.as_ref() {
            Some(database) => ask(database),
            None => Err(Fault::Disk("it could not be opened again".to_owned())),
        }
    }
}
