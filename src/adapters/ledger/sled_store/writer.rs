//! Decides how writes are grouped: whatever waits is written together, flushed once and synced once, and only then does
//! anyone hear of it. It does not know where a story lies, nor what it says.
//!
//! One thread, `ledger-writer`, does all the writing; another, `ledger-sealer`, copies what takes no more writes.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::block::Frame;
use super::generation::Generation;
use super::queue::{Carried, Closing, Order, Queue, Write};
use super::shelf::Shelf;
use super::{FlushReport, FlushWatch, checkpoint, encoding, profiles};
use crate::adapters::ledger::{Changed, LedgerError, Recorded};
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::ledger_entry::{Entry, Story};
use crate::domain::time::Timestamp;

/// How often a disk that refused is asked again while nobody wants to write.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Generations that may wait for the sealer at once.
pub(super) const UNSEALED_MAX: usize = 2;

/// Starts the thread. It ends once `queue` is closed and everything in it has been answered.
pub(super) fn start(
    shelf: Arc<Shelf>,
    queue: Arc<Queue>,
    writable: Arc<AtomicBool>,
    batch_max: usize,
    watch: Option<FlushWatch>,
    ending: mpsc::Sender<()>,
) -> io::Result<()> {
    let (sealer, due) = mpsc::channel();
    let sealing = Arc::clone(&shelf);
    let ended = ending.clone();
    thread::Builder::new()
        .name("ledger-sealer".to_owned())
        .spawn(move || {
            seal_when_due(&sealing, &due);
            drop(ended);
        })?;
    let writer = Writer {
        shelf,
        sealer,
        queue,
        writable,
        batch_max: batch_max.max(1),
        watch,
    };
    thread::Builder::new()
        .name("ledger-writer".to_owned())
        .spawn(move || {
            let _closing = Closing(Arc::clone(&writer.queue));
            writer.run();
            drop(ending);
        })
        .map(drop)
}

struct Writer {
    shelf: Arc<Shelf>,
    /// Told when a generation takes no more writes.
    sealer: mpsc::Sender<Option<Timestamp>>,
    queue: Arc<Queue>,
    /// False from a refused write until the newest generation has been opened again.
    writable: Arc<AtomicBool>,
    batch_max: usize,
    watch: Option<FlushWatch>,
}

impl Writer {
    fn run(self) {
        let mut last = 0;
        loop {
            let patience = (!self.is_writable()).then_some(PROBE_EVERY);
            let Some(orders) = self.queue.take(patience, last, self.batch_max) else {
                return;
            };
            last = orders.len();
            if !self.is_writable() {
                self.recover();
            }
            let mut group = Vec::new();
            for order in orders {
                match order {
                    Order::Persist(write) => {
                        group.push(write);
                        if group.len() >= self.batch_max {
                            self.persist(std::mem::take(&mut group));
                        }
                    }
                    Order::Merge { entries, told } => {
                        // What was asked for before is stored before.
                        self.persist(std::mem::take(&mut group));
                        drop(told.send(self.merge(&entries)));
                    }
                    Order::Checkpoint { checkpoint, told } => {
                        drop(told.send(checkpoint::keep(self.shelf.root(), &checkpoint)));
                    }
                    Order::Keep { hash, text, told } => {
                        drop(told.send(profiles::keep(self.shelf.root(), hash, &text)));
                    }
                    Order::Carry {
                        from,
                        stories,
                        told,
                    } => drop(told.send(self.carry(from, &stories))),
                    Order::Turn { now, told } => drop(told.send(self.turn(now))),
                }
            }
            self.persist(group);
        }
    }

    fn persist(&self, group: Vec<Write>) {
        let Some(at) = group.iter().map(|write| write.at).max() else {
            return;
        };
        let newest = match self.generation_for(at) {
            Ok(newest) => newest,
            Err(error) => {
                for write in group {
                    drop(write.told.send(Err(error.clone())));
                }
                return;
            }
        };
        let mut staged: HashMap<LedgerKey, Arc<Story>> = HashMap::with_capacity(group.len());
        let (mut ready, mut refused) = (Vec::with_capacity(group.len()), Vec::new());
        for write in group {
            match self.guard(&write, staged.get(&write.key)) {
                Ok(()) => {
                    staged.insert(write.key, Arc::clone(&write.story));
                    ready.push(write);
                }
                Err(error) => refused.push((write.told, error)),
            }
        }
        let written = self.write(&newest, ready.iter().map(Write::frame), || {
            let durable = ready.iter();
            let durable = durable.map(|write| (write.key, Arc::clone(&write.story)));
            self.shelf.remember(durable);
        });
        for write in ready {
            drop(write.told.send(match &written {
                Ok(()) => Ok(Recorded::attested(write.story)),
                Err(error) => Err(error.clone()),
            }));
        }
        // Only now, so that whoever asks again finds what it lost to.
        for (told, error) in refused {
            drop(told.send(Err(error)));
        }
    }

    fn merge(&self, entries: &[Entry]) -> Result<Vec<Changed>, LedgerError> {
        let Some(at) = entries.iter().map(|entry| entry.at).max() else {
            return Ok(Vec::new());
        };
        let newest = self.generation_for(at)?;
        let mut merged: HashMap<LedgerKey, Changed> = HashMap::with_capacity(entries.len());
        for entry in entries {
            let key = entry.subject.ledger_key();
            let (before, known) = match merged.remove(&key) {
                Some(Changed { before, after }) => (before, Some(after)),
                None => {
                    let stored = self.shelf.recall(key)?;
                    (stored.clone(), stored)
                }
            };
            let after = Arc::new(Story::continued(known.as_deref(), entry));
            merged.insert(key, Changed { before, after });
        }
        merged.retain(|_, story| story.before.as_ref() != Some(&story.after));
        let written: Vec<_> = merged
            .iter()
            .map(|(key, story)| Ok((*key, &story.after, encoding::encode(&story.after)?)))
            .collect::<Result<_, String>>()
            .map_err(|reason| LedgerError::Unwritable(reason.into()))?;
        let frames = written.iter().map(|(key, story, encoded)| Frame {
            key: *key,
            at: story.updated_at,
            open: !story.is_settled(),
            story: encoded,
        });
        self.write(&newest, frames, || {
            let durable = merged.iter();
            let durable = durable.map(|(key, story)| (*key, Arc::clone(&story.after)));
            self.shelf.remember(durable);
        })?;
        Ok(merged.into_values().collect())
    }

    /// Fails unless the stored story, or the one `staged` in the same group, is still the expected one.
    fn guard(&self, write: &Write, staged: Option<&Arc<Story>>) -> Result<(), LedgerError> {
        let stored = match staged {
            Some(staged) => Some(Arc::clone(staged)),
            None => self.shelf.recall(write.key)?,
        };
        let same = match (&stored, &write.expected) {
            (Some(stored), Some(expected)) => Arc::ptr_eq(stored, expected) || stored == expected,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if same {
            Ok(())
        } else {
            Err(LedgerError::Moved(write.key))
        }
    }

    fn write<'a>(
        &self,
        newest: &Generation,
        frames: impl ExactSizeIterator<Item = Frame<'a>> + Clone,
        durable: impl FnOnce(),
    ) -> Result<(), LedgerError> {
        let writes = frames.len();
        if writes == 0 {
            return Ok(());
        }
        let young = newest.as_young().ok_or(LedgerError::Closed)?;
        self.report(FlushReport::Begun { writes });
        let written = young.write(frames);
        if let Err(error) = written {
            self.writable.store(false, Ordering::Release);
            self.report(FlushReport::Refused { writes });
            return Err(unwritable(error));
        }
        durable();
        self.report(FlushReport::Durable { writes });
        Ok(())
    }

    /// The generation that takes a write at `at`, begun if need be.
    fn generation_for(&self, at: Timestamp) -> Result<Arc<Generation>, LedgerError> {
        let newest = self.newest()?;
        let over = |young| self.shelf.is_over(young, at);
        if newest.as_young().is_none_or(over) {
            self.begin(at, None)?;
        }
        self.shelf.newest().ok_or(LedgerError::Closed)
    }

    /// The newest generation, if it takes writes.
    fn newest(&self) -> Result<Arc<Generation>, LedgerError> {
        if !self.is_writable() {
            self.recover();
        }
        if self.is_writable() {
            self.shelf.newest().ok_or(LedgerError::Closed)
        } else {
            Err(LedgerError::Unwritable("the disk still refuses".into()))
        }
    }

    /// Begins a generation at `at`. `now` is the time, where the clock has been asked.
    fn begin(&self, at: Timestamp, now: Option<Timestamp>) -> Result<(), LedgerError> {
        if let Err(error) = self.shelf.begin(at) {
            self.writable.store(false, Ordering::Release);
            return Err(LedgerError::Unwritable(error.to_string().into()));
        }
        // If the sealer has fallen behind, it is better to wait than to hold ever more in memory.
        self.shelf.seal(now, UNSEALED_MAX)?;
        // It is gone only if it panicked; the next expiry seals as well.
        self.sealer.send(now).unwrap_or_default();
        Ok(())
    }

    fn turn(&self, now: Timestamp) -> Result<(), LedgerError> {
        let newest = self.generation_for(now)?;
        let ahead = |young| self.shelf.lies_ahead(young, now);
        if newest.as_young().is_some_and(ahead) {
            self.begin(now, Some(now))?;
        }
        Ok(())
    }

    fn carry(&self, from: u64, stories: &[Carried]) -> Result<(), LedgerError> {
        let newest = self.newest()?;
        let mut frames = Vec::with_capacity(stories.len());
        for story in stories {
            if !self.shelf.moved_on(from, story.key)? {
                frames.push(story.frame());
            }
        }
        self.write(&newest, frames.into_iter(), || ())
    }

    /// Asks the disk again, and opens the newest generation anew if it takes writes.
    fn recover(&self) {
        let recovered = super::probe(self.shelf.root()).is_ok()
            && self
                .shelf
                .newest()
                .and_then(|newest| newest.as_young()?.reopen().ok())
                .is_some();
        if recovered {
            self.writable.store(true, Ordering::Release);
        }
    }

    fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    fn report(&self, report: FlushReport) {
        if let Some(watch) = &self.watch {
            watch(report);
        }
    }
}

/// What fails is tried again at the next expiry.
fn seal_when_due(shelf: &Shelf, due: &mpsc::Receiver<Option<Timestamp>>) {
    for now in due {
        drop(shelf.seal(now, 0));
    }
}

/// Whatever a write failed of, nothing may be sent until writes succeed again.
fn unwritable(error: LedgerError) -> LedgerError {
    match error {
        LedgerError::Damaged(reason) => LedgerError::Unwritable(reason),
        LedgerError::Moved(_) | LedgerError::Unwritable(_) | LedgerError::Closed => error,
    }
}
