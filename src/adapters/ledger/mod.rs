//! Keeps stories: what has been attempted, answered and set aside under each key. It decides nothing about them.
//!
//! Two implementations stand behind the one trait: `sled_store` on disk and `memory`, which forgets what was not flushed.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod examples;
pub mod memory;
pub mod sled_store;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::domain::idempotency_key::{LedgerKey, ProfileHash};
use crate::domain::ledger_entry::{Entry, Story};
use crate::domain::ledger_log::Checkpoint;
use crate::domain::offset_tracker::Persisted;
use crate::domain::time::Timestamp;

/// A durable memory of stories, one process at a time.
pub trait Ledger: Send + Sync + 'static {
    /// The durable story under `key`. Never tells what has been written but not flushed yet.
    fn recall(&self, key: LedgerKey) -> Result<Option<Recorded>, LedgerError>;

    /// Folds `entry` into `expected`, its subject's story so far, and flushes.
    ///
    /// Resolves once the result is durable, together with others in one flush. Fails with `LedgerError::Moved` and
    /// changes nothing if the stored story is no longer `expected`; fails with `LedgerError::Unwritable` and changes nothing
    /// if the disk refuses, to be tried again. If the process ends first, the next one may or may not find it.
    fn persist(&self, expected: Option<Arc<Story>>, entry: Entry) -> Persisting<Recorded>;

    /// Folds entries that were read from elsewhere into whatever is stored of their subjects, and flushes once.
    ///
    /// Resolves once all of it is durable, with each story that it has changed. What is known already changes nothing and is
    /// not written. Fails with
    /// `LedgerError::Unwritable` and changes nothing if the disk refuses, to be tried again as a whole.
    fn merge(&self, entries: Vec<Entry>) -> Persisting<Vec<Changed>>;

    /// Keeps a profile's text under its hash, durably, for as long as the ledger remembers stories.
    fn keep_profile(&self, hash: ProfileHash, text: Arc<str>) -> Persisting<()>;

    /// The profile kept under `hash`.
    fn profile(&self, hash: ProfileHash) -> Result<Option<Arc<str>>, LedgerError>;

    /// Keeps, durably and in place of the last one, how far this ledger has followed the log.
    fn keep_checkpoint(&self, checkpoint: Checkpoint) -> Persisting<()>;

    /// The last checkpoint. None if there is none that can be read: following begins anew then.
    fn checkpoint(&self) -> Result<Option<Checkpoint>, LedgerError>;

    /// Calls `visit` with the newest version of every story, in no order. Stops early when `visit` returns false. Of a story
    /// that is written meanwhile the older version may be seen too, and first. `visit` must not write to this ledger.
    fn each_story(&self, visit: &mut dyn FnMut(&Story) -> bool) -> Result<(), LedgerError>;

    /// Forgets settled stories that were last written more than the retention before `now`, giving their space back: some
    /// at once, all of them within another generation's time. Open ones are kept. Returns how many went. Blocks while it
    /// copies; to be called every few minutes.
    fn expire(&self, now: Timestamp) -> Result<u64, LedgerError>;

    /// Its size.
    fn size(&self) -> LedgerSize;
}

/// A durable story, with the proof.
#[derive(Debug)]
pub struct Recorded {
    /// The story as it is on disk.
    pub story: Arc<Story>,
    /// That it is on disk.
    pub persisted: Persisted,
}

impl Recorded {
    /// Called by the ledgers when a flush has come back, or for what was read as durable.
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the one place where the ledgers attest"
    )]
    fn attested(story: Arc<Story>) -> Self {
        Self {
            story,
            persisted: Persisted::attest(),
        }
    }
}

/// What a story was and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Before; absent if there was none.
    pub before: Option<Arc<Story>>,
    /// Now.
    pub after: Arc<Story>,
}

/// What the ledger holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerSize {
    /// Stories, each counted once per generation that holds a version of it.
    pub entries: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// A write on its way to the disk. Dropping it does not call the write back.
#[derive(Debug)]
#[must_use]
pub struct Persisting<T>(oneshot::Receiver<Result<T, LedgerError>>);

impl<T> Persisting<T> {
    /// The waiting side, and the one that tells it.
    pub fn new() -> (oneshot::Sender<Result<T, LedgerError>>, Self) {
        let (told, waiting) = oneshot::channel();
        (told, Self(waiting))
    }
}

impl<T> Future for Persisting<T> {
    type Output = Result<T, LedgerError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|told| told.unwrap_or(Err(LedgerError::Closed)))
    }
}

/// Why the ledger could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// The stored story is not the expected one: someone else wrote in between.
    #[error("the story under {0:?} has moved on")]
    Moved(LedgerKey),
    /// The disk refused. Nothing may be sent until it takes writes again.
    #[error("the ledger cannot be written: {0}")]
    Unwritable(Arc<str>),
    /// What is on disk cannot be read as ours.
    #[error("the ledger is damaged: {0}")]
    Damaged(Arc<str>),
    /// The ledger has been shut down, or the thread that writes it has panicked.
    #[error("the ledger is closed")]
    Closed,
}
