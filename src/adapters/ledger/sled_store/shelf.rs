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
use super::manifest::{self, LineState, Manifest};
use super::young::Young;
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
    /// Held while a generation is sealed or dropped: one at a time, and never both with the same one.
    sealing: Mutex<()>,
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
        manifest.check_for_strangers(root)?;
        let mut held = Vec::new();
        let mut lines = std::mem::take(&mut manifest.generations);
        for line in &lines {
            let path = manifest::generation(root, line.id);
            match line.state {
                LineState::Creating | LineState::Expiring => generation::discard(root, line.id)?,
                LineState::Open => {
                    let young = Young::open(&path, line.from, cache_bytes)?;
                    held.push(Arc::new(Generation::young(line.id, path, young)));
                }
                LineState::Sealed => {
                    held.push(Arc::new(Generation::sealed(root, line.id)?));
                    generation::discard_young(root, line.id)?;
                }
            }
        }
        lines.retain(|line| matches!(line.state, LineState::Open | LineState::Sealed));
        manifest.generations = lines;
        let shelf = Self {
            root: root.to_owned(),
            _lock: lock,
            period,
            cache_bytes,
            generations: RwLock::new(held.into()),
            manifest: Mutex::new(manifest),
            recent: Mutex::default(),
            sealing: Mutex::default(),
        };
        if shelf
            .newest()
            .is_none_or(|newest| newest.as_young().is_none())
        {
            shelf.begin(now)?;
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
            let mut going = true;
            generation.each(|frame| {
                if !self.moved_on(generation.id, frame.key)? {
                    let story = encoding::decode(frame.story);
                    going = visit(&story.map_err(|reason| LedgerError::Damaged(reason.into()))?);
                }
                Ok(going)
            })?;
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

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a write at `at` belongs into a new generation. Entries of long ago belong into this one: they may have been
    /// learnt from elsewhere.
    pub(super) fn is_over(&self, young: &Young, at: Timestamp) -> bool {
        young.is_full() || at >= young.from.plus(self.period)
    }

    /// Whether the clock has been set back since `young` was begun. It must not hold today's stories until that day comes.
    pub(super) fn lies_ahead(&self, young: &Young, now: Timestamp) -> bool {
        young.from > now.plus(self.period)
    }

    /// Begins the generation whose period holds `at`. The one before it takes no more writes.
    pub(super) fn begin(&self, at: Timestamp) -> Result<(), OpenError> {
        let millis = i64::try_from(self.period.as_millis()).unwrap_or(i64::MAX);
        let into = at.as_millis().rem_euclid(millis.max(1));
        let from = Timestamp::from_millis(at.as_millis().saturating_sub(into));
        let line = self.change(|manifest| manifest.add(from))?;
        generation::discard(&self.root, line.id)?;
        let path = manifest::generation(&self.root, line.id);
        let young = Young::create(&path, from, self.cache_bytes)?;
        self.change(|manifest| manifest.turn(line.id, LineState::Open))?;
        self.replace(|held| held.push(Arc::new(Generation::young(line.id, path, young))));
        Ok(())
    }

    /// Seals every generation that takes no more writes, oldest first, until at most `spared` are left unsealed. None of them
    /// will be held for younger than `now`, where the clock has been asked.
    pub(super) fn seal(&self, now: Option<Timestamp>, spared: usize) -> Result<(), LedgerError> {
        let _alone = self.sealing.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.all();
        let waiting = held.iter().rev().skip(1).rev();
        let waiting: Vec<_> = waiting.filter(|held| held.as_young().is_some()).collect();
        let due = waiting.len().saturating_sub(spared);
        for generation in waiting.into_iter().take(due) {
            let id = generation.id;
            let sealed = Arc::new(generation.seal(&self.root, now)?);
            self.change(|manifest| manifest.turn(id, LineState::Sealed))
                .map_err(|error| LedgerError::Unwritable(error.to_string().into()))?;
            self.replace(|held| {
                for generation in held.iter_mut().filter(|held| held.id == id) {
                    *generation = Arc::clone(&sealed);
                }
            });
            generation::discard_young(&self.root, id)
                .map_err(|error| LedgerError::Unwritable(error.to_string().into()))?;
        }
        Ok(())
    }

    /// Takes out a generation whose stories have all been carried forward or may be forgotten.
    pub(super) fn drop_generation(&self, id: u64) -> Result<(), OpenError> {
        let _alone = self.sealing.lock().unwrap_or_else(PoisonError::into_inner);
        self.change(|manifest| manifest.turn(id, LineState::Expiring))?;
        self.replace(|held| held.retain(|generation| generation.id != id));
        *self.recent() = Recent::default();
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
