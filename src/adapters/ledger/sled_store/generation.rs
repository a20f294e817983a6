//! Decides how one generation keeps its stories: blocks in a database, an index over them, a witness beside them.
//! It does not know which generation is asked or written: that is `shelf`.
//!
//! The index is changed only after the blocks are durable, so nothing can be found before that. sled takes a file that was
//! cut or emptied for a shorter or an empty database; the witness keeps the number of durable blocks, and a database with
//! fewer of them is damaged.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::block::{self, Frame, Place};
use super::database::Database;
use super::encoding;
use super::fault::{Fault, OpenError};
use super::index::{self, Index};
use super::manifest::{self, Line, LineState, Sealed};
use super::witness::Witness;
use crate::adapters::ledger::LedgerError;
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::ledger_entry::Story;
use crate::domain::time::Timestamp;

/// One generation.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) id: u64,
    /// The beginning of its period.
    pub(super) from: Timestamp,
    directory: PathBuf,
    cache_bytes: u64,
    /// Absent only while it is being opened again.
    database: RwLock<Option<Database>>,
    index: RwLock<Index>,
    witness: Witness,
    /// Durable blocks.
    blocks: AtomicU32,
    entries: AtomicU64,
    last_write: AtomicI64,
}

impl Generation {
    /// Makes the empty generation that `line` announces, over whatever a crash left of an earlier try.
    pub(super) fn create(root: &Path, line: &Line, cache_bytes: u64) -> Result<Self, OpenError> {
        discard(root, line.id)?;
        let directory = manifest::generation(root, line.id);
        let fault = |error: io::Error| OpenError::io(&directory, &error);
        fs::create_dir_all(&directory).map_err(fault)?;
        let database = Database::open(&directory, cache_bytes)?;
        database.append(&[]).map_err(|fault| fault.at(&directory))?;
        let witness = Witness::create(&directory).map_err(fault)?;
        for made in [directory.as_path(), &manifest::generations(root), root] {
            manifest::sync_directory(made).map_err(fault)?;
        }
        Ok(Self::over(line, directory, cache_bytes, database, witness))
    }

    /// Opens the generation that `line` tells of, and checks that nothing durable is missing from it.
    pub(super) fn open(root: &Path, line: &Line, cache_bytes: u64) -> Result<Self, OpenError> {
        let directory = manifest::generation(root, line.id);
        let witness = Witness::open(&directory)?;
        for needed in ["db", "conf"] {
            let path = directory.join(needed);
            if !path.exists() {
                return Err(OpenError::damaged(&path, "it is missing"));
            }
        }
        let database = Database::open(&directory, cache_bytes)?;
        let generation = Self::over(line, directory, cache_bytes, database, witness);
        match line.state {
            LineState::Sealed(sealed) => generation.take_index(sealed),
            LineState::Creating | LineState::Open | LineState::Expiring => generation.take_blocks(),
        }
        .map_err(|fault| fault.at(&generation.directory))?;
        Ok(generation)
    }

    fn over(
        line: &Line,
        directory: PathBuf,
        cache_bytes: u64,
        database: Database,
        witness: Witness,
    ) -> Self {
        Self {
            id: line.id,
            from: line.from,
            directory,
            cache_bytes,
            database: RwLock::new(Some(database)),
            index: RwLock::new(Index::Young(HashMap::new())),
            witness,
            blocks: AtomicU32::new(0),
            entries: AtomicU64::new(0),
            last_write: AtomicI64::new(line.from.as_millis()),
        }
    }

    /// Opens the database again after the disk refused a write. What it then holds of that write is durable and counts.
    pub(super) fn reopen(&self) -> Result<(), OpenError> {
        let mut database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        drop(database.take());
        *database = Some(Database::open(&self.directory, self.cache_bytes)?);
        drop(database);
        self.take_blocks()
            .map_err(|fault| fault.at(&self.directory))
    }

    /// Indexes the blocks that the index does not know yet, and checks that they are all there.
    fn take_blocks(&self) -> Result<(), Fault> {
        let witnessed = self.witnessed()?;
        let mut next = self.blocks.load(Ordering::Acquire);
        let mut found = Vec::new();
        let mut last = self.from;
        self.with(|database| {
            database.sync()?;
            database.each_block(next, |number, block| {
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

    /// Reads the filter of a sealed index.
    fn take_index(&self, sealed: Sealed) -> Result<(), Fault> {
        let witnessed = self.witnessed()?;
        let filter = self.with(|database| {
            if let Some(last) = witnessed.checked_sub(1)
                && database.block(last)?.is_none()
            {
                return Err(Fault::Damaged(format!("block {last} is missing from it")));
            }
            database.filter()
        })?;
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = Index::Sealed(filter);
        self.blocks.store(witnessed, Ordering::Release);
        self.entries.store(sealed.entries, Ordering::Release);
        self.last_write
            .store(sealed.last_write.as_millis(), Ordering::Release);
        Ok(())
    }

    fn witnessed(&self) -> Result<u32, Fault> {
        self.witness
            .read()?
            .ok_or_else(|| Fault::Damaged("its witness cannot be read".to_owned()))
    }

    /// The durable version of a story that this generation holds.
    pub(super) fn find(&self, key: LedgerKey) -> Result<Option<Story>, LedgerError> {
        let found = self.place(key).and_then(|place| match place {
            Some(place) => self.read(key, place).map(Some),
            None => Ok(None),
        });
        found.map_err(|fault| self.told(fault))
    }

    /// Whether this generation holds a durable version of a story.
    pub(super) fn holds(&self, key: LedgerKey) -> Result<bool, LedgerError> {
        let place = self.place(key).map_err(|fault| self.told(fault))?;
        Ok(place.is_some())
    }

    fn place(&self, key: LedgerKey) -> Result<Option<Place>, Fault> {
        match &*self.index.read().unwrap_or_else(PoisonError::into_inner) {
            Index::Young(map) => return Ok(map.get(&key).copied()),
            Index::Sealed(filter) if !filter.may_hold(key) => return Ok(None),
            Index::Sealed(_) => {}
        }
        let page = self.with(|database| database.page(key))?;
        match page {
            Some(page) => index::look_up(&page, key).map_err(Fault::Damaged),
            None => Ok(None),
        }
    }

    fn read(&self, key: LedgerKey, place: Place) -> Result<Story, Fault> {
        let block = self.with(|database| database.block(place.block))?;
        let block = block
            .ok_or_else(|| Fault::Damaged(format!("block {} is missing from it", place.block)))?;
        let frame = block::frame(&block, place.at).map_err(Fault::Damaged)?;
        if frame.key != key {
            return Err(Fault::Damaged("a story lies in another's place".to_owned()));
        }
        encoding::decode(frame.story).map_err(Fault::Damaged)
    }

    /// Calls `visit` with the newest version of every story it holds, until `visit` returns false. What is written
    /// meanwhile is not seen.
    pub(super) fn each(&self, visit: &mut dyn FnMut(Frame<'_>) -> bool) -> Result<(), LedgerError> {
        self.walk(visit).map_err(|fault| self.told(fault))
    }

    fn walk(&self, visit: &mut dyn FnMut(Frame<'_>) -> bool) -> Result<(), Fault> {
        let mut newest = self.newest_places()?;
        newest.sort_unstable();
        let mut newest = newest.into_iter().peekable();
        self.with(|database| {
            database.each_block(0, |number, block| {
                let mut going = true;
                block::each_frame(block, |at, frame| {
                    if going && newest.next_if_eq(&Place { block: number, at }).is_some() {
                        going = visit(frame);
                    }
                })
                .map_err(Fault::Damaged)?;
                Ok(going && newest.peek().is_some())
            })
        })
    }

    fn newest_places(&self) -> Result<Vec<Place>, Fault> {
        if let Index::Young(map) = &*self.index.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(map.values().copied().collect());
        }
        let mut places = Vec::new();
        self.with(|database| {
            database.each_page(|page| {
                places.extend(index::places(page).map_err(Fault::Damaged)?);
                Ok(())
            })
        })?;
        Ok(places)
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
        written.map_err(|fault| self.told(fault))
    }

    /// Lets `places` be found, now that all blocks below `blocks` are durable.
    fn arrive(&self, blocks: u32, places: &[(LedgerKey, Place)], last_write: Timestamp) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        if let Index::Young(map) = &mut *index {
            map.extend(places.iter().copied());
            let entries = u64::try_from(map.len()).unwrap_or(u64::MAX);
            self.entries.store(entries, Ordering::Release);
        }
        self.blocks.store(blocks, Ordering::Release);
        self.last_write
            .fetch_max(last_write.as_millis(), Ordering::AcqRel);
    }

    /// Turns the index from a map in memory into pages on disk. Nothing may be written any more.
    pub(super) fn seal(&self) -> Result<Sealed, OpenError> {
        let sealed = Sealed {
            last_write: self.last_write(),
            entries: self.entries(),
        };
        let (pages, filter) = match &*self.index.read().unwrap_or_else(PoisonError::into_inner) {
            Index::Young(map) => index::seal(map),
            Index::Sealed(_) => return Ok(sealed),
        };
        self.with(|database| database.write_index(&pages, &filter))
            .map_err(|fault| fault.at(&self.directory))?;
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = Index::Sealed(filter);
        Ok(sealed)
    }

    /// Whether it takes no further story, whatever the time.
    pub(super) fn is_full(&self) -> bool {
        match &*self.index.read().unwrap_or_else(PoisonError::into_inner) {
            Index::Young(map) => map.len() >= index::STORIES_MAX,
            Index::Sealed(_) => true,
        }
    }

    /// Stories that it holds a version of.
    pub(super) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// The latest moment in any of its stories, at the least the beginning of its period.
    pub(super) fn last_write(&self) -> Timestamp {
        Timestamp::from_millis(self.last_write.load(Ordering::Acquire))
    }

    fn with<T>(&self, ask: impl FnOnce(&Database) -> Result<T, Fault>) -> Result<T, Fault> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match database.as_ref() {
            Some(database) => ask(database),
            None => Err(Fault::Disk("it could not be opened again".to_owned())),
        }
    }

    fn told(&self, fault: Fault) -> LedgerError {
        fault.told(&self.directory)
    }
}

/// Removes generation `id` from the disk, if it is there. What still reads it reads on from the open file.
pub(super) fn discard(root: &Path, id: u64) -> Result<(), OpenError> {
    let directory = manifest::generation(root, id);
    match fs::remove_dir_all(&directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(OpenError::io(&directory, &error)),
    }
}
