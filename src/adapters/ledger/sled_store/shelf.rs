//! Decides which generation is asked and which is written: reads go from the newest to the oldest, writes to the newest.
//! It does not know how a generation keeps its stories, nor when a write becomes durable: it is told.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use super::directory::DirectoryLock;
use super::fault::OpenError;
use super::generation::Generation;
use super::manifest::{Line, LineState, Manifest};
use crate::adapters::ledger::LedgerError;
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::ledger_entry::Story;
use crate::domain::time::Timestamp;

/// Stories that were written lately and are held in memory, at most twice this many.
const RECENT: usize = 8192;

/// All generations, and what is on its way into the newest.
#[derive(Debug)]
pub(super) struct Shelf {
    root: PathBuf,
    /// Held until nobody reads or writes any more.
    _lock: DirectoryLock,
    period: Duration,
    cache_bytes: u64,
    /// Oldest first; never empty.
    generations: RwLock<Vec<Arc<Generation>>>,
    manifest: Mutex<Manifest>,
    known: Mutex<Known>,
}

/// What is known of stories without asking the disk. All of it is durable.
#[derive(Debug, Default)]
struct Known {
    /// The last durable version of everything that is written but not flushed.
    in_flight: HashMap<LedgerKey, Option<Arc<Story>>>,
    /// What was written last.
    recent: HashMap<LedgerKey, Arc<Story>>,
    /// What was written before that.
    older: HashMap<LedgerKey, Arc<Story>>,
}

impl Shelf {
    /// Opens everything that `root` holds, and begins the first generation if it holds none.
    pub(super) fn open(
        root: &Path,
        lock: DirectoryLock,
        period: Duration,
        cache_bytes: u64,
        now: Timestamp,
    ) -> Result<Self, OpenError> {
        let mut manifest = Manifest::read(root)?.unwrap_or_else(Manifest::empty);
        let unfinished: Vec<Line> = manifest
            .generations
            .iter()
            .filter(|line| matches!(line.state, LineState::Creating | LineState::Expiring))
            .cloned()
            .collect();
        for line in unfinished {
            super::generation::discard(root, line.id)?;
            manifest.remove(line.id);
        }
        let mut opened = Vec::new();
        for line in &manifest.generations {
            opened.push(Arc::new(Generation::open(root, line, cache_bytes)?));
        }
        let shelf = Self {
            root: root.to_owned(),
            _lock: lock,
            period,
            cache_bytes,
            generations: RwLock::new(opened),
            manifest: Mutex::new(manifest),
            known: Mutex::default(),
        };
        match shelf.newest() {
            None => shelf.begin(now)?,
            Some(newest) => shelf.seal_all_before(newest.id)?,
        }
        Ok(shelf)
    }

    /// The durable story under `key`.
    pub(super) fn recall(&self, key: LedgerKey) -> Result<Option<Arc<Story>>, LedgerError> {
        if let Some(known) = self.known().of(key) {
            return Ok(known);
        }
        let Some(found) = self.find(key)? else {
            return Ok(None);
        };
        // What was read may have been written in between and not be flushed yet. Then its key is in flight by now: a key
        // is put there before it is written, and taken out only after the flush.
        match self.known().in_flight.get(&key) {
            Some(durable) => Ok(durable.clone()),
            None => Ok(Some(Arc::new(found))),
        }
    }

    fn find(&self, key: LedgerKey) -> Result<Option<Story>, LedgerError> {
        for generation in self.all().iter().rev() {
            if let Some(story) = generation.find(key)? {
                return Ok(Some(story));
            }
        }
        Ok(None)
    }

    /// Where everything is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a generation newer than `from` holds a version of the story.
    pub(super) fn moved_on(&self, from: u64, key: LedgerKey) -> Result<bool, LedgerError> {
        for generation in self.all().iter().rev().take_while(|held| held.id > from) {
            if generation.holds(key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Calls `visit` with the newest durable version of every story, until it returns false. From the oldest generation to
    /// the newest, so that a story which is written meanwhile is seen twice rather than never.
    pub(super) fn each(&self, visit: &mut dyn FnMut(&Story) -> bool) -> Result<(), LedgerError> {
        for generation in self.all() {
            let (mut failed, mut going) = (None, true);
            generation.each(&mut |key, story| {
                match self.moved_on(generation.id, key) {
                    Ok(true) => return true,
                    Ok(false) => {}
                    Err(error) => {
                        failed = Some(error);
                        return false;
                    }
                }
                let in_flight = self.known().in_flight.get(&key).cloned();
                going = match in_flight {
                    Some(Some(durable)) => visit(&durable),
                    Some(None) => true,
                    None => visit(&story),
                };
                going
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            if !going {
                break;
            }
        }
        Ok(())
    }

    /// All generations, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Generation>> {
        self.generations
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The one that takes writes.
    pub(super) fn newest(&self) -> Option<Arc<Generation>> {
        self.generations
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .last()
            .cloned()
    }

    /// Takes note that `stories` are about to be written over what is durable now.
    pub(super) fn depart(&self, stories: impl Iterator<Item = (LedgerKey, Option<Arc<Story>>)>) {
        self.known().in_flight.extend(stories);
    }

    /// Takes note that `stories` have been flushed.
    pub(super) fn arrive(&self, stories: impl Iterator<Item = (LedgerKey, Arc<Story>)>) {
        let mut known = self.known();
        for (key, story) in stories {
            known.in_flight.remove(&key);
            known.remember(key, story);
        }
    }

    /// Takes note that everything in flight has either reached the disk or never will: the disk has been read anew.
    pub(super) fn settle(&self) {
        let mut known = self.known();
        known.in_flight = HashMap::new();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a write at `at` belongs into a new generation: its period is over, or lies in the future by mistake.
    pub(super) fn is_over(&self, newest: &Generation, at: Timestamp) -> bool {
        at >= newest.from.plus(self.period)
    }

    /// Begins the generation whose period holds `at`, and seals the one before it.
    pub(super) fn begin(&self, at: Timestamp) -> Result<(), OpenError> {
        let period = i64::try_from(self.period.as_millis())
            .unwrap_or(i64::MAX)
            .max(1);
        let from = Timestamp::from_millis(
            at.as_millis()
                .saturating_sub(at.as_millis().rem_euclid(period)),
        );
        let line = self.change(|manifest| manifest.add(from))?;
        let generation = Generation::create(&self.root, &line, self.cache_bytes)?;
        self.change(|manifest| manifest.turn(line.id, LineState::Open))?;
        self.generations
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(generation));
        self.seal_all_before(line.id)
    }

    fn seal_all_before(&self, newest: u64) -> Result<(), OpenError> {
        for generation in self.all() {
            if generation.id < newest {
                let until = generation.last_write();
                self.change(|manifest| manifest.turn(generation.id, LineState::Sealed(until)))?;
            }
        }
        Ok(())
    }

    /// Takes out a generation whose stories have all been carried forward or may be forgotten.
    pub(super) fn drop_generation(&self, id: u64) -> Result<(), OpenError> {
        self.change(|manifest| manifest.turn(id, LineState::Expiring))?;
        self.generations
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|generation| generation.id != id);
        self.known().forget();
        super::generation::discard(&self.root, id)?;
        self.change(|manifest| manifest.remove(id))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Manifest) -> T) -> Result<T, OpenError> {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = manifest.clone();
        let told = change(&mut changed);
        if changed != *manifest {
            changed
                .write(&self.root)
                .map_err(|error| OpenError::io(&self.root, &error))?;
            *manifest = changed;
        }
        Ok(told)
    }
}

impl Known {
    fn of(&self, key: LedgerKey) -> Option<Option<Arc<Story>>> {
        self.in_flight.get(&key).cloned().or_else(|| {
            let recent = self.recent.get(&key).or_else(|| self.older.get(&key));
            recent.map(|story| Some(Arc::clone(story)))
        })
    }

    fn forget(&mut self) {
        self.recent = HashMap::new();
        self.older = HashMap::new();
    }

    fn remember(&mut self, key: LedgerKey, story: Arc<Story>) {
        if self.recent.len() >= RECENT {
            self.older = std::mem::take(&mut self.recent);
        }
        self.older.remove(&key);
        self.recent.insert(key, story);
    }
}
