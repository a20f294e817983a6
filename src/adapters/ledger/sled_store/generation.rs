//! Decides how one generation's stories lie in one sled, and when they are durable there.
//! It does not know which generation is asked or written: that is `shelf`.
//!
//! sled 0.34's own flush ends in `sync_file_range`, which neither writes the file's metadata nor empties the drive's
//! cache, so each flush is followed by `sync_data` on sled's one file. sled takes a file that was cut or emptied for a
//! shorter or an empty database; so each batch carries its number, and the witness keeps the latest number that was
//! made durable: a database that ends before its witness is damaged.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::encoding;
use super::fault::{Fault, OpenError};
use super::manifest::{self, Line, LineState};
use super::witness::Witness;
use crate::adapters::ledger::LedgerError;
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::ledger_entry::Story;
use crate::domain::time::Timestamp;

/// Where a database keeps the number of its latest batch; no ledger key is this short.
const BATCH: &[u8] = b"batch";

/// One generation.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) id: u64,
    /// The beginning of its period.
    pub(super) from: Timestamp,
    directory: PathBuf,
    cache_bytes: u64,
    /// Absent only while it is being opened again.
    store: RwLock<Option<Store>>,
    witness: Witness,
    batch: AtomicU64,
    entries: AtomicU64,
    last_write: AtomicI64,
}

#[derive(Debug)]
struct Store {
    db: sled::Db,
    file: File,
}

/// One story on its way to the disk.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) key: LedgerKey,
    /// As `encoding` writes it.
    pub(super) story: Vec<u8>,
    /// Whether this generation holds no version of it yet.
    pub(super) fresh: bool,
    /// When it was last written to.
    pub(super) at: Timestamp,
}

impl Generation {
    /// Makes the empty generation that `line` announces, over whatever a crash left of an earlier try.
    pub(super) fn create(root: &Path, line: &Line, cache_bytes: u64) -> Result<Self, OpenError> {
        let directory = manifest::generation(root, line.id);
        let fault = |error: io::Error| OpenError::io(&directory, &error);
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(fault)?;
        }
        fs::create_dir_all(&directory).map_err(fault)?;
        let store = Store::open(&directory, cache_bytes)?;
        store
            .write(sled::Batch::default(), 0)
            .map_err(|fault| fault.at(&directory))?;
        let witness = Witness::create(&directory).map_err(fault)?;
        for made in [directory.as_path(), &manifest::generations(root), root] {
            manifest::sync_directory(made).map_err(fault)?;
        }
        Ok(Self {
            id: line.id,
            from: line.from,
            directory,
            cache_bytes,
            store: RwLock::new(Some(store)),
            witness,
            batch: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            last_write: AtomicI64::new(line.from.as_millis()),
        })
    }

    /// Opens the generation that `line` tells of, and checks that nothing durable is missing from it.
    pub(super) fn open(root: &Path, line: &Line, cache_bytes: u64) -> Result<Self, OpenError> {
        let directory = manifest::generation(root, line.id);
        let witness = Witness::open(&directory)?;
        if !directory.join("db").exists() {
            return Err(OpenError::damaged(&directory.join("db"), "it is missing"));
        }
        let store = Store::open(&directory, cache_bytes)?;
        let generation = Self {
            id: line.id,
            from: line.from,
            batch: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            last_write: AtomicI64::new(line.from.as_millis()),
            cache_bytes,
            store: RwLock::new(None),
            witness,
            directory,
        };
        generation.take(store)?;
        if let LineState::Sealed(until) = line.state {
            generation
                .last_write
                .store(until.as_millis(), Ordering::Release);
        }
        Ok(generation)
    }

    /// Opens the database again after the disk refused a write, so that what it holds is what is on disk.
    pub(super) fn reopen(&self) -> Result<(), OpenError> {
        drop(
            self.store
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        self.take(Store::open(&self.directory, self.cache_bytes)?)
    }

    /// Checks and counts what `store` holds, and puts it in place.
    fn take(&self, store: Store) -> Result<(), OpenError> {
        let fault = |fault: Fault| fault.at(&self.directory);
        let batch = store.batch().map_err(fault)?;
        let witnessed = self
            .witness
            .read()
            .map_err(|error| OpenError::io(&self.directory, &error))?;
        match (batch, witnessed) {
            (Some(batch), Some(witnessed)) if batch >= witnessed => {}
            (_, Some(_)) => {
                return Err(OpenError::damaged(
                    &self.directory,
                    "entries that were durable are missing from it",
                ));
            }
            (_, None) => {
                return Err(OpenError::damaged(
                    &self.directory,
                    "its witness is unreadable",
                ));
            }
        }
        store
            .file
            .sync_data()
            .map_err(|error| OpenError::io(&self.directory, &error))?;
        let mut entries = 0;
        let mut last = self.from;
        store
            .each(&mut |_, story| {
                entries += 1;
                last = last.max(story.updated_at);
                true
            })
            .map_err(fault)?;
        self.batch.store(batch.unwrap_or(0), Ordering::Release);
        self.entries.store(entries, Ordering::Release);
        self.last_write
            .fetch_max(last.as_millis(), Ordering::AcqRel);
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = Some(store);
        Ok(())
    }

    /// The version of a story that this generation holds, durable or not.
    pub(super) fn find(&self, key: LedgerKey) -> Result<Option<Story>, LedgerError> {
        self.with(|store| store.find(key))
    }

    /// Whether this generation holds a version of a story, durable or not.
    pub(super) fn holds(&self, key: LedgerKey) -> Result<bool, LedgerError> {
        self.with(|store| store.holds(key))
    }

    /// Calls `visit` with everything it holds, durable or not, until `visit` returns false.
    pub(super) fn each(
        &self,
        visit: &mut dyn FnMut(LedgerKey, Story) -> bool,
    ) -> Result<(), LedgerError> {
        let db = self.with(|store| Ok(store.db.clone()))?;
        each(&db, visit).map_err(|fault| fault.told(&self.directory))
    }

    /// Writes `puts` and makes them durable. After a fault nothing is known of them until `reopen`.
    pub(super) fn write(&self, puts: &[Put]) -> Result<(), LedgerError> {
        let number = self.batch.load(Ordering::Acquire).saturating_add(1);
        let mut batch = sled::Batch::default();
        for put in puts {
            batch.insert(&put.key.0, put.story.as_slice());
        }
        self.with(|store| store.write(batch, number))?;
        self.witness
            .write(number)
            .map_err(|error| Fault::Disk(error.to_string()).told(&self.directory))?;
        self.batch.store(number, Ordering::Release);
        let fresh = puts.iter().filter(|put| put.fresh).count();
        self.entries
            .fetch_add(u64::try_from(fresh).unwrap_or(u64::MAX), Ordering::AcqRel);
        if let Some(last) = puts.iter().map(|put| put.at.as_millis()).max() {
            self.last_write.fetch_max(last, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Stories that it holds a version of.
    pub(super) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// The latest moment in any of its stories.
    pub(super) fn last_write(&self) -> Timestamp {
        Timestamp::from_millis(self.last_write.load(Ordering::Acquire))
    }

    fn with<T>(&self, ask: impl FnOnce(&Store) -> Result<T, Fault>) -> Result<T, LedgerError> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        match store.as_ref() {
            Some(store) => ask(store).map_err(|fault| fault.told(&self.directory)),
            None => Err(LedgerError::Unwritable(
                "the generation could not be opened again".into(),
            )),
        }
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

impl Store {
    /// Opens or makes a database. sled asserts where it does not expect damage, so a panic is damage too.
    fn open(directory: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        let config = sled::Config::new()
            .path(directory)
            .cache_capacity(cache_bytes)
            .mode(sled::Mode::LowSpace)
            .flush_every_ms(None)
            .print_profile_on_drop(false);
        let db = match catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(opened) => opened.map_err(|error| Fault::from(error).at(directory))?,
            Err(_panic) => {
                return Err(OpenError::damaged(
                    directory,
                    "sled cannot make sense of it",
                ));
            }
        };
        let path = directory.join("db");
        let file = File::open(&path).map_err(|error| OpenError::io(&path, &error))?;
        Ok(Self { db, file })
    }

    fn batch(&self) -> Result<Option<u64>, Fault> {
        let Some(number) = self.db.get(BATCH)? else {
            return Ok(None);
        };
        match number.as_ref().try_into() {
            Ok(bytes) => Ok(Some(u64::from_be_bytes(bytes))),
            Err(_) => Err(Fault::Damaged("its batch number is cut".to_owned())),
        }
    }

    fn find(&self, key: LedgerKey) -> Result<Option<Story>, Fault> {
        match self.db.get(key.0)? {
            Some(bytes) => encoding::decode(&bytes).map(Some).map_err(Fault::Damaged),
            None => Ok(None),
        }
    }

    fn holds(&self, key: LedgerKey) -> Result<bool, Fault> {
        Ok(self.db.contains_key(key.0)?)
    }

    fn write(&self, mut batch: sled::Batch, number: u64) -> Result<(), Fault> {
        batch.insert(BATCH, &number.to_be_bytes());
        let written = catch_unwind(AssertUnwindSafe(|| {
            self.db.apply_batch(batch)?;
            self.db.flush()
        }));
        match written {
            Ok(written) => written?,
            Err(_panic) => return Err(Fault::Disk("sled gave up on a write".to_owned())),
        };
        self.file.sync_data()?;
        Ok(())
    }

    fn each(&self, visit: &mut dyn FnMut(LedgerKey, Story) -> bool) -> Result<(), Fault> {
        each(&self.db, visit)
    }
}

fn each(db: &sled::Db, visit: &mut dyn FnMut(LedgerKey, Story) -> bool) -> Result<(), Fault> {
    for pair in db.iter() {
        let (key, bytes) = pair?;
        let Ok(key) = <[u8; 16]>::try_from(key.as_ref()) else {
            continue;
        };
        let story = encoding::decode(&bytes).map_err(Fault::Damaged)?;
        if !visit(LedgerKey(key), story) {
            break;
        }
    }
    Ok(())
}
