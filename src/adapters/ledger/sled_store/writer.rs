//! Decides how writes are grouped: whatever waits is written together, flushed once and synced once, and only then does
//! anyone hear of it. It does not know where a story lies, nor what it says.
//!
//! One thread, `ledger-writer`, does all the writing. Its queue has no bound of its own: every caller waits for its answer,
//! so it holds at most one write for each open intent, and the pipeline bounds those.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::block::Frame;
use super::generation::Generation;
use super::shelf::Shelf;
use super::{FlushReport, FlushWatch, profiles};
use crate::adapters::ledger::{LedgerError, Recorded};
use crate::domain::idempotency_key::{LedgerKey, ProfileHash};
use crate::domain::ledger_entry::Story;
use crate::domain::time::Timestamp;

/// How often a disk that refused is asked again while nobody wants to write.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// After a flush of this many writes more are gathered before the next one.
const GATHER_FROM: usize = 16;
/// How long they are gathered at most. A flush costs the processor some 250 µs whatever it holds, most of it in waking sled's
/// idle threads.
const GATHER: Duration = Duration::from_millis(1);

/// Generations that may wait for the sealer at once.
const UNSEALED_MAX: usize = 2;

type Told<T> = oneshot::Sender<Result<T, LedgerError>>;

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Write a story over the expected one.
    Persist {
        key: LedgerKey,
        expected: Option<Arc<Story>>,
        story: Arc<Story>,
        /// When the latest of its entries was written.
        at: Timestamp,
        encoded: Vec<u8>,
        told: Told<Recorded>,
    },
    /// Keep a profile.
    Keep {
        hash: ProfileHash,
        text: Arc<str>,
        told: Told<()>,
    },
    /// Write open stories of generation `from` into the newest one, unless they have moved on by themselves.
    Carry {
        from: u64,
        stories: Vec<Carried>,
        told: mpsc::Sender<Result<(), LedgerError>>,
    },
    /// Begin a new generation if the newest one's period is over at this moment.
    Turn {
        now: Timestamp,
        told: mpsc::Sender<Result<(), LedgerError>>,
    },
}

/// An open story of a generation that expires, as it lies there.
#[derive(Debug)]
pub(super) struct Carried {
    key: LedgerKey,
    at: Timestamp,
    story: Vec<u8>,
}

impl Carried {
    pub(super) fn copy(frame: &Frame<'_>) -> Self {
        Self {
            key: frame.key,
            at: frame.at,
            story: frame.story.to_vec(),
        }
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            key: self.key,
            at: self.at,
            open: true,
            story: &self.story,
        }
    }
}

/// Where orders wait for the writer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    orders: Vec<Order>,
    /// The writer is woken when this many wait.
    wanted: usize,
    closed: bool,
}

impl Queue {
    /// Lets the writer have `order`; gives it back if the ledger has been closed.
    pub(super) fn push(&self, order: Order) -> Result<(), Order> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.closed {
            return Err(order);
        }
        waiting.orders.push(order);
        let enough = waiting.orders.len() == waiting.wanted;
        drop(waiting);
        if enough {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Takes no orders from now on. Those that wait are still carried out.
    pub(super) fn close(&self) {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed = true;
        self.arrived.notify_one();
    }

    /// Everything that waits, at the latest after `patience`; `None` once closed and empty. After a large group, whose
    /// callers are likely to come back at once, up to `most` orders are gathered first.
    fn take(&self, patience: Option<Duration>, last: usize, most: usize) -> Option<Vec<Order>> {
        let mut waiting = self.wait_for(1, patience);
        let came = waiting.orders.len();
        if came > 0 && last >= GATHER_FROM {
            let expected = came.saturating_add(last).min(most);
            drop(waiting);
            waiting = self.wait_for(expected, Some(GATHER));
        }
        let orders = std::mem::take(&mut waiting.orders);
        (!orders.is_empty() || !waiting.closed).then_some(orders)
    }

    fn wait_for(&self, wanted: usize, patience: Option<Duration>) -> MutexGuard<'_, Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.wanted = wanted;
        let idle = |waiting: &mut Waiting| waiting.orders.len() < wanted && !waiting.closed;
        match patience {
            Some(patience) => {
                self.arrived
                    .wait_timeout_while(waiting, patience, idle)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
            None => self
                .arrived
                .wait_while(waiting, idle)
                .unwrap_or_else(PoisonError::into_inner),
        }
    }
}

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

/// Lets everyone who waits know that the writer is gone, even if it panicked.
struct Closing(Arc<Queue>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
        drop(self.0.take(None, 0, 0));
    }
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

/// A write that passed its guard.
struct Ready {
    key: LedgerKey,
    story: Arc<Story>,
    at: Timestamp,
    encoded: Vec<u8>,
    told: Told<Recorded>,
}

impl Ready {
    fn frame(&self) -> Frame<'_> {
        Frame {
            key: self.key,
            at: self.at,
            open: !self.story.is_settled(),
            story: &self.encoded,
        }
    }
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
                    Order::Persist { .. } => {
                        group.push(order);
                        if group.len() >= self.batch_max {
                            self.persist(std::mem::take(&mut group));
                        }
                    }
                    Order::Keep { hash, text, told } => {
                        drop(told.send(profiles::keep(self.shelf.root(), hash, &text)));
                    }
                    Order::Carry {
                        from,
                        stories,
                        told,
                    } => drop(told.send(self.carry(from, &stories))),
                    Order::Turn { now, told } => {
                        drop(told.send(self.turn(now)));
                    }
                }
            }
            self.persist(group);
        }
    }

    fn persist(&self, group: Vec<Order>) {
        if group.is_empty() {
            return;
        }
        let newest = match self.generation_for(latest(&group)) {
            Ok(newest) => newest,
            Err(error) => return refuse(group, &error),
        };
        let mut staged: HashMap<LedgerKey, Arc<Story>> = HashMap::with_capacity(group.len());
        let (mut ready, mut refused) = (Vec::with_capacity(group.len()), Vec::new());
        for order in group {
            let Order::Persist {
                key,
                expected,
                story,
                at,
                encoded,
                told,
            } = order
            else {
                continue;
            };
            match self.guard(key, staged.get(&key), expected.as_ref()) {
                Ok(()) => {
                    staged.insert(key, Arc::clone(&story));
                    ready.push(Ready {
                        key,
                        story,
                        at,
                        encoded,
                        told,
                    });
                }
                Err(error) => refused.push((told, error)),
            }
        }
        let written = self.write(&newest, ready.iter().map(Ready::frame), || {
            let durable = ready.iter();
            let durable = durable.map(|ready| (ready.key, Arc::clone(&ready.story)));
            self.shelf.remember(durable);
        });
        for ready in ready {
            drop(ready.told.send(match &written {
                Ok(()) => Ok(Recorded::attested(ready.story)),
                Err(error) => Err(error.clone()),
            }));
        }
        // Only now, so that whoever asks again finds what it lost to.
        for (told, error) in refused {
            drop(told.send(Err(error)));
        }
    }

    /// Fails unless the stored story is still the expected one.
    fn guard(
        &self,
        key: LedgerKey,
        staged: Option<&Arc<Story>>,
        expected: Option<&Arc<Story>>,
    ) -> Result<(), LedgerError> {
        let stored = match staged {
            Some(staged) => Some(Arc::clone(staged)),
            None => self.shelf.recall(key)?,
        };
        let same = match (&stored, expected) {
            (Some(stored), Some(expected)) => Arc::ptr_eq(stored, expected) || stored == expected,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if same {
            Ok(())
        } else {
            Err(LedgerError::Moved(key))
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
        self.report(FlushReport::Begun { writes });
        let young = newest.as_young().ok_or(LedgerError::Closed)?;
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
        if !self.is_writable() {
            self.recover();
        }
        if !self.is_writable() {
            return Err(LedgerError::Unwritable("the disk still refuses".into()));
        }
        let newest = self.shelf.newest().ok_or(LedgerError::Closed)?;
        let over = |young| self.shelf.is_over(young, at);
        if newest.as_young().is_none_or(over) {
            self.begin(at, None)?;
        }
        self.shelf.newest().ok_or(LedgerError::Closed)
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
        let newest = self.shelf.newest().ok_or(LedgerError::Closed)?;
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
            self.shelf.forget_recent();
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

fn latest(group: &[Order]) -> Timestamp {
    group
        .iter()
        .filter_map(|order| match order {
            Order::Persist { at, .. } => Some(*at),
            Order::Keep { .. } | Order::Carry { .. } | Order::Turn { .. } => None,
        })
        .max()
        .unwrap_or(Timestamp::EPOCH)
}

fn refuse(group: Vec<Order>, error: &LedgerError) {
    for order in group {
        if let Order::Persist { told, .. } = order {
            drop(told.send(Err(error.clone())));
        }
    }
}

/// Whatever a write failed of, nothing may be sent until writes succeed again.
fn unwritable(error: LedgerError) -> LedgerError {
    match error {
        LedgerError::Damaged(reason) => LedgerError::Unwritable(reason),
        LedgerError::Moved(_) | LedgerError::Unwritable(_) | LedgerError::Closed => error,
    }
}
