//! Decides which generation is asked and which is written: reads go from the newest to the oldest, writes to the newest.
//! It does not know how a generation keeps its stories, nor how writes are grouped.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use super::directory::DirectoryLock;
use super::encoding;
use super::fault::OpenError;
use super::generation::{self, Generation};
use super::manifest::{Line, LineState, Manifest};
use crate::adapters::ledger::LedgerError;
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::ledger_entry::Story;
use crate::domain::time::Timestamp;

/// Open stories that were written lately and are held in memory: at least this many, at most twice as many. Their next write
/// is likely near; a settled one is rarely asked for again.
const RECENT: usize = 8192;

/// All generations, and what was written to them lately.
#[derive(Debug)]
pub(super) struct Shelf {
    root: PathBuf,
    /// Held until nobody reads or writes any more.
    _lock: DirectoryLock,
    period: Duration,
    cache_bytes: u64,
    /// Oldest first; empty only while the first one is being made.
    generations: RwLock<Arc<[Arc<Generation>]>>,
    manifest: Mutex<Manifest>,
    recent: Mutex<Recent>,
}

/// Durable open stories that can be had without asking the disk.
#[derive(Debug, Default)]
struct Recent {
    young: HashMap<LedgerKey, Arc<Story>>,
    old: HashMap<LedgerKey, Arc<Story>>,
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
        let mut manifest = Manifest::read(root)?;
        let unfinished: Vec<Line> = manifest
            .generations
            .iter()
            .filter(|line| matches!(line.state, LineState::Creating | LineState::Expiring))
            .cloned()
            .collect();
        for line in unfinished {
            generation::discard(root, line.id)?;
            manifest.remove(line.id);
        }
        manifest.check_for_strangers(root)?;
        let opened: Result<Vec<_>, _> = manifest
            .generations
            .iter()
            .map(|line| Generation::open(root, line, cache_bytes).map(Arc::new))
            .collect();
        let shelf = Self {
            root: root.to_owned(),
            _lock: lock,
            period,
            cache_bytes,
            generations: RwLock::new(opened?.into()),
            manifest: Mutex::new(manifest),
            recent: Mutex::default(),
        };
        match shelf.newest() {
            None => shelf.begin(now)?,
            Some(newest) => shelf.seal_all_before(newest.id)?,
        }
        Ok(shelf)
    }

    /// Where everything is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The durable story under `key`.
    pub(super) fn recall(&self, key: LedgerKey) -> Result<Option<Arc<Story>>, LedgerError> {
        if let Some(recent) = self.recent().of(key) {
            return Ok(Some(recent));
        }
        for generation in self.all().iter().rev() {
            if let Some(story) = generation.find(key)? {
                return Ok(Some(Arc::new(story)));
            }
        }
        Ok(None)
    }

    /// Calls `visit` with the newest durable version of every story, until it returns false. From the oldest generation to
    /// the newest, so that a story which is written meanwhile is seen twice rather than never.
    pub(super) fn each(&self, visit: &mut dyn FnMut(&Story) -> bool) -> Result<(), LedgerError> {
        for generation in self.all().iter() {
            let (mut failed, mut going) = (None, true);
            generation.each(&mut |frame| {
                let story = match self.moved_on(generation.id, frame.key) {
                    Ok(true) => return true,
                    Ok(false) => encoding::decode(frame.story)
                        .map_err(|reason| LedgerError::Damaged(reason.into())),
                    Err(error) => Err(error),
                };
                match story {
                    Ok(story) => going = visit(&story),
                    Err(error) => failed = Some(error),
                }
                going && failed.is_none()
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

    /// Whether a generation newer than `from` holds a version of the story.
    pub(super) fn moved_on(&self, from: u64, key: LedgerKey) -> Result<bool, LedgerError> {
        for generation in self.all().iter().rev().take_while(|held| held.id > from) {
            if generation.holds(key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All generations, oldest first.
    pub(super) fn all(&self) -> Arc<[Arc<Generation>]> {
        Arc::clone(
            &self
                .generations
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// The one that takes writes.
    pub(super) fn newest(&self) -> Option<Arc<Generation>> {
        self.all().last().cloned()
    }

    /// Takes note that `stories` have become durable.
    pub(super) fn remember(&self, stories: impl Iterator<Item = (LedgerKey, Arc<Story>)>) {
        let mut recent = self.recent();
        for (key, story) in stories {
            recent.remember(key, story);
        }
    }

    /// Forgets what is held in memory: the disk may know better.
    pub(super) fn forget_recent(&self) {
        *self.recent() = Recent::default();
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a write at `at` belongs into a new generation.
    pub(super) fn is_over(&self, newest: &Generation, at: Timestamp) -> bool {
        at >= newest.from.plus(self.period) || newest.is_full()
    }

    /// Begins the generation whose period holds `at`, and seals the one before it.
    pub(super) fn begin(&self, at: Timestamp) -> Result<(), OpenError> {
        let millis = i64::try_from(self.period.as_millis()).unwrap_or(i64::MAX);
        let into = at.as_millis().rem_euclid(millis.max(1));
        let from = Timestamp::from_millis(at.as_millis().saturating_sub(into));
        let line = self.change(|manifest| manifest.add(from))?;
        let generation = Generation::create(&self.root, &line, self.cache_bytes)?;
        self.change(|manifest| manifest.turn(line.id, LineState::Open))?;
        self.replace(|held| held.push(Arc::new(generation)));
        self.seal_all_before(line.id)
    }

    fn seal_all_before(&self, newest: u64) -> Result<(), OpenError> {
        for generation in self.all().iter().filter(|held| held.id < newest) {
            let sealed = generation.seal()?;
            self.change(|manifest| manifest.turn(generation.id, LineState::Sealed(sealed)))?;
        }
        Ok(())
    }

    /// Takes out a generation whose stories have all been carried forward or may be forgotten.
    pub(super) fn drop_generation(&self, id: u64) -> Result<(), OpenError> {
        self.change(|manifest| manifest.turn(id, LineState::Expiring))?;
        self.replace(|held| held.retain(|generation| generation.id != id));
        self.forget_recent();
        generation::discard(&self.root, id)?;
        self.change(|manifest| manifest.remove(id))
    }

    fn replace(&self, change: impl FnOnce(&mut Vec<Arc<Generation>>)) {
        let mut held = self
            .generations
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut changed = held.to_vec();
        change(&mut changed);
        *held = changed.into();
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

impl Recent {
    fn of(&self, key: LedgerKey) -> Option<Arc<Story>> {
        let story = self.young.get(&key).or_else(|| self.old.get(&key));
        story.map(Arc::clone)
    }

    fn remember(&mut self, key: LedgerKey, story: Arc<Story>) {
        self.old.remove(&key);
        if story.is_settled() {
            self.young.remove(&key);
            return;
        }
        if self.young.len() >= RECENT {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, story);
    }
}
