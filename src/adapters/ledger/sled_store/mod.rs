//! Decides how the ledger is laid out on disk and who writes it. It knows stories only by their key and their standing.
//!
//! One directory, one process:
//!
//! - `lock`: held while the ledger is open (`directory`);
//! - `format`: which generations there are, replaced as a whole (`manifest`);
//! - `generations/NNNNNNNN/`: a sled, for the stories of one period while it lasts (`young`, `database`, `witness`);
//! - `generations/NNNNNNNN.stories`: the same once the period is over (`sealed`);
//! - `profiles/HASH.toml`: profile versions (`profiles`);
//! - `followed`: how far the log has been followed (`checkpoint`).
//!
//! sled 0.34 never gives disk space back and needs many times the live size in memory to delete, so nothing is ever
//! deleted from it: writes go to the newest generation, a period's stories are then copied into a flat file and the sled is
//! removed, and a generation that is older than the retention is dropped whole after its open stories have been carried
//! forward. `shelf` looks from the newest to the oldest, `writer` groups writes.
//!
//! sled panics where it does not expect damage; that is caught where a database is opened or written, so the program must
//! be built with unwinding panics.

mod block;
mod checkpoint;
mod database;
mod directory;
mod encoding;
mod fault;
mod filter;
mod generation;
mod manifest;
mod profiles;
mod queue;
mod sealed;
mod shelf;
#[cfg(test)]
mod tests;
mod witness;
mod writer;
mod young;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use self::directory::DirectoryLock;
pub use self::fault::OpenError;
use self::generation::Generation;
use self::queue::{Carried, Order, Queue};
use self::shelf::Shelf;
use super::{Changed, Ledger, LedgerError, LedgerSize, Persisting, Recorded};
use crate::domain::idempotency_key::{LedgerKey, ProfileHash};
use crate::domain::ledger_entry::{Entry, Story};
use crate::domain::ledger_log::Checkpoint;
use crate::domain::time::Timestamp;

/// How long `close` waits for what is being written.
const CLOSE_WAIT: Duration = Duration::from_secs(10);
/// Generations that lie in sled at once at most: the newest, those that may wait to be sealed, and one that is being sealed.
const IN_SLED_MAX: u64 = writer::UNSEALED_MAX as u64 + 2;
/// Stories that are carried forward in one write.
const CARRY: usize = 256;

/// Where and how a ledger is kept.
#[derive(Clone)]
pub struct LedgerOptions {
    /// Its directory: this process's alone, on a local file system.
    pub directory: PathBuf,
    /// How long a settled story is remembered after its last write.
    pub retention: Duration,
    /// Generations that make up the retention; a story is forgotten up to one such part later.
    pub generations: NonZeroU32,
    /// Bytes of sled's page caches, all generations together. sled goes beyond it by up to some 50 MiB, and a newest generation
    /// of which everything is read again is held whole, up to 100 MiB.
    pub cache_bytes: u64,
    /// Writes in one flush at most; 0 counts as 1.
    pub batch_max: usize,
    /// Told of each flush, on the writing thread: keep it short.
    pub watch: Option<FlushWatch>,
}

/// Who is told of each flush.
pub type FlushWatch = Arc<dyn Fn(FlushReport) + Send + Sync>;

/// One flush, as it goes. `Begun` is followed by one of the others before the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReport {
    /// This many writes are on their way.
    Begun {
        /// How many.
        writes: usize,
    },
    /// They are durable.
    Durable {
        /// How many.
        writes: usize,
    },
    /// The disk refused them.
    Refused {
        /// How many.
        writes: usize,
    },
}

/// The ledger on disk.
#[derive(Debug)]
pub struct SledLedger {
    shelf: Arc<Shelf>,
    queue: Arc<Queue>,
    writable: Arc<AtomicBool>,
    retention: Duration,
    expiring: Mutex<()>,
    /// Disconnected when the writer has ended.
    ended: Mutex<mpsc::Receiver<()>>,
}

impl SledLedger {
    /// Opens the ledger in `options.directory`, or makes one if there is nothing. `now` begins its first generation.
    ///
    /// Blocks: up to ten seconds for the lock, and while the newest generation is read.
    pub fn open(options: LedgerOptions, now: Timestamp) -> Result<Self, OpenError> {
        let root = options.directory;
        let lock = DirectoryLock::take(&root, now)?;
        let profiles = profiles::directory(&root);
        fs::create_dir_all(&profiles).map_err(|error| OpenError::io(&profiles, &error))?;
        let period = options.retention / options.generations.get();
        let shelf = Arc::new(Shelf::open(
            &root,
            lock,
            period,
            options.cache_bytes / IN_SLED_MAX,
            now,
        )?);
        let queue = Arc::new(Queue::default());
        let writable = Arc::new(AtomicBool::new(true));
        let (ending, ended) = mpsc::channel();
        writer::start(
            Arc::clone(&shelf),
            Arc::clone(&queue),
            Arc::clone(&writable),
            options.batch_max,
            options.watch,
            ending,
        )
        .map_err(|error| OpenError::io(&root, &error))?;
        Ok(Self {
            shelf,
            queue,
            writable,
            retention: options.retention,
            expiring: Mutex::new(()),
            ended: Mutex::new(ended),
        })
    }

    /// Whether the disk took the last write. Turns true again by itself once it does.
    pub fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    /// Bytes that are left on the ledger's file system for this user.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let space = rustix::fs::statvfs(self.shelf.root())?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Takes no more writes, flushes those that wait, and returns when the writer has ended or after ten seconds.
    /// Returns whether it has ended.
    pub fn close(&self) -> bool {
        self.queue.close();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match ended.recv_timeout(CLOSE_WAIT) {
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => true,
            Err(mpsc::RecvTimeoutError::Timeout) => false,
        }
    }

    /// Writes the open stories of `generation` into the newest one. Returns how many those are.
    fn carry_forward(&self, generation: &Generation) -> Result<u64, LedgerError> {
        let mut kept: u64 = 0;
        let mut open = Vec::new();
        generation.each(|frame| {
            if frame.open {
                kept = kept.saturating_add(1);
                open.push(Carried::copy(&frame));
            }
            if open.len() >= CARRY {
                self.carry(generation.id, std::mem::take(&mut open))?;
            }
            Ok(true)
        })?;
        self.carry(generation.id, open)?;
        Ok(kept)
    }

    fn carry(&self, from: u64, stories: Vec<Carried>) -> Result<(), LedgerError> {
        if stories.is_empty() {
            return Ok(());
        }
        self.order(|told| Order::Carry {
            from,
            stories,
            told,
        })
    }

    fn order(
        &self,
        order: impl FnOnce(mpsc::Sender<Result<(), LedgerError>>) -> Order,
    ) -> Result<(), LedgerError> {
        let (told, waiting) = mpsc::channel();
        self.queue
            .push(order(told))
            .map_err(|_refused| LedgerError::Closed)?;
        waiting.recv().unwrap_or(Err(LedgerError::Closed))
    }
}

impl Drop for SledLedger {
    fn drop(&mut self) {
        self.close();
    }
}

impl Ledger for SledLedger {
    fn recall(&self, key: LedgerKey) -> Result<Option<Recorded>, LedgerError> {
        Ok(self.shelf.recall(key)?.map(Recorded::attested))
    }

    fn persist(&self, expected: Option<Arc<Story>>, entry: Entry) -> Persisting<Recorded> {
        let (told, waiting) = Persisting::new();
        let story = Story::continued(expected.as_deref(), &entry);
        let encoded = match encoding::encode(&story) {
            Ok(encoded) => encoded,
            Err(reason) => {
                drop(told.send(Err(LedgerError::Unwritable(reason.into()))));
                return waiting;
            }
        };
        let order = Order::Persist(queue::Write {
            key: entry.subject.ledger_key(),
            expected,
            story: Arc::new(story),
            encoded,
            at: entry.at,
            told,
        });
        // A closed queue gives the order back; dropping it tells the caller.
        drop(self.queue.push(order));
        waiting
    }

    fn merge(&self, entries: Vec<Entry>) -> Persisting<Vec<Changed>> {
        let (told, waiting) = Persisting::new();
        drop(self.queue.push(Order::Merge { entries, told }));
        waiting
    }

    fn keep_profile(&self, hash: ProfileHash, text: Arc<str>) -> Persisting<()> {
        let (told, waiting) = Persisting::new();
        drop(self.queue.push(Order::Keep { hash, text, told }));
        waiting
    }

    fn profile(&self, hash: ProfileHash) -> Result<Option<Arc<str>>, LedgerError> {
        profiles::find(self.shelf.root(), hash)
    }

    fn keep_checkpoint(&self, checkpoint: Checkpoint) -> Persisting<()> {
        let (told, waiting) = Persisting::new();
        drop(self.queue.push(Order::Checkpoint { checkpoint, told }));
        waiting
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>, LedgerError> {
        checkpoint::find(self.shelf.root())
    }

    fn each_story(&self, visit: &mut dyn FnMut(&Story) -> bool) -> Result<(), LedgerError> {
        self.shelf.each(visit)
    }

    fn expire(&self, now: Timestamp) -> Result<u64, LedgerError> {
        let _alone = self.expiring.lock().unwrap_or_else(PoisonError::into_inner);
        // On a full disk this fails, and what gives space back must be tried all the same.
        let turned = self.order(|told| Order::Turn { now, told });
        let mut gone: u64 = 0;
        let held = self.shelf.all();
        for generation in held.iter().rev().skip(1).rev() {
            if generation.last_write().plus(self.retention) >= now {
                continue;
            }
            let kept = self.carry_forward(generation)?;
            self.shelf
                .drop_generation(generation.id)
                .map_err(|error| LedgerError::Unwritable(error.to_string().into()))?;
            gone = gone.saturating_add(generation.entries().saturating_sub(kept));
        }
        self.shelf.seal(Some(now), 0)?;
        turned.map(|()| gone)
    }

    fn size(&self) -> LedgerSize {
        LedgerSize {
            entries: self.shelf.all().iter().map(|held| held.entries()).sum(),
            bytes: bytes_under(self.shelf.root()),
        }
    }
}

impl fmt::Debug for LedgerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerOptions")
            .field("directory", &self.directory)
            .field("retention", &self.retention)
            .field("generations", &self.generations)
            .field("cache_bytes", &self.cache_bytes)
            .field("batch_max", &self.batch_max)
            .finish_non_exhaustive()
    }
}

/// Whether the disk takes a write and a sync, tried on a file of its own.
fn probe(root: &Path) -> io::Result<()> {
    let path = root.join("probe");
    let tried = File::create(&path).and_then(|mut file| {
        file.write_all(&[0; 64 * 1024])?;
        file.sync_all()
    });
    fs::remove_file(&path)?;
    tried
}

/// Bytes of all files under `directory`; what vanishes meanwhile does not count.
fn bytes_under(directory: &Path) -> u64 {
    let Ok(listing) = fs::read_dir(directory) else {
        return 0;
    };
    listing
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_under(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}
