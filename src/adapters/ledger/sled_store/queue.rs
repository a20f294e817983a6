//! Decides how orders wait for the writer, and how many it takes at once. It does not know how they are carried out.
//!
//! The queue has no bound of its own: every caller waits for its answer, so it holds at most one write for each open intent,
//! and the pipeline bounds those.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

use super::block::Frame;
use crate::adapters::ledger::{Changed, LedgerError, Recorded};
use crate::domain::idempotency_key::{LedgerKey, ProfileHash};
use crate::domain::ledger_entry::{Entry, Story};
use crate::domain::ledger_log::Checkpoint;
use crate::domain::time::Timestamp;

/// After a flush of this many writes more are gathered before the next one.
const GATHER_FROM: usize = 16;
/// How long they are gathered at most. A flush costs the processor some 250 µs whatever it holds, most of it in waking sled's
/// idle threads.
const GATHER: Duration = Duration::from_millis(1);

pub(super) type Told<T> = oneshot::Sender<Result<T, LedgerError>>;

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Write a story over the expected one.
    Persist(Write),
    /// Fold entries into what is stored.
    Merge {
        entries: Vec<Entry>,
        told: Told<Vec<Changed>>,
    },
    /// Keep how far the log has been followed.
    Checkpoint {
        checkpoint: Checkpoint,
        told: Told<()>,
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

/// A story to be written.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) key: LedgerKey,
    /// What must be stored for this to be written.
    pub(super) expected: Option<Arc<Story>>,
    pub(super) story: Arc<Story>,
    /// As `encoding` writes it.
    pub(super) encoded: Vec<u8>,
    /// When the latest of its entries was written.
    pub(super) at: Timestamp,
    pub(super) told: Told<Recorded>,
}

impl Write {
    pub(super) fn frame(&self) -> Frame<'_> {
        Frame {
            key: self.key,
            at: self.at,
            open: !self.story.is_settled(),
            story: &self.encoded,
        }
    }
}

/// An open story of a generation that expires, as it lies there.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) key: LedgerKey,
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

    pub(super) fn frame(&self) -> Frame<'_> {
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
    pub(super) fn take(
        &self,
        patience: Option<Duration>,
        last: usize,
        most: usize,
    ) -> Option<Vec<Order>> {
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

/// Lets everyone who waits know that the writer is gone, even if it panicked.
pub(super) struct Closing(pub(super) Arc<Queue>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
        drop(self.0.take(None, 0, 0));
    }
}
