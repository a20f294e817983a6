//! Decides how writes are grouped: whatever waits is written together, flushed once and synced once, and only then does
//! anyone hear of it. It does not know where a story lies, nor what it says.
//!
//! One thread, `ledger-writer`, does all the writing. Its queue has no bound of its own: every caller waits for its answer,
//! so it holds at most one write for each open intent, and the pipeline bounds those.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::generation::{Generation, Put};
use super::shelf::Shelf;
use super::{FlushReport, FlushWatch, profiles};
use crate::adapters::ledger::{LedgerError, Recorded};
use crate::domain::idempotency_key::{LedgerKey, ProfileHash};
use crate::domain::ledger_entry::Story;
use crate::domain::time::Timestamp;

/// How often a disk that refused is asked again while nobody wants to write.
const PROBE_EVERY: Duration = Duration::from_secs(1);

type Told<T> = oneshot::Sender<Result<T, LedgerError>>;

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Write a story over the expected one.
    Persist {
        expected: Option<Arc<Story>>,
        story: Arc<Story>,
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
        stories: Vec<Story>,
        told: mpsc::Sender<Result<(), LedgerError>>,
    },
    /// Begin a new generation if the newest one's period is over at this moment.
    Turn {
        now: Timestamp,
        told: mpsc::Sender<Result<(), LedgerError>>,
    },
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
        drop(waiting);
        self.arrived.notify_one();
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

    /// Everything that waits, at the latest after `patience`; `None` once closed and empty.
    fn take(&self, patience: Option<Duration>) -> Option<Vec<Order>> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |waiting: &mut Waiting| waiting.orders.is_empty() && !waiting.closed;
        let mut waiting = match patience {
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
        };
        let orders = std::mem::take(&mut waiting.orders);
        (!orders.is_empty() || !waiting.closed).then_some(orders)
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
    let writer = Writer {
        shelf,
        queue,
        writable,
        batch_max: batch_max.max(1),
        watch,
    };
    thread::Builder::new()
        .name("ledger-writer".to_owned())
        .spawn(move || {
            writer.run();
            drop(ending);
        })
        .map(drop)
}

struct Writer {
    shelf: Arc<Shelf>,
    queue: Arc<Queue>,
    /// False from a refused write until the newest generation has been opened again.
    writable: Arc<AtomicBool>,
    batch_max: usize,
    watch: Option<FlushWatch>,
}

/// A write that passed its guard.
struct Ready {
    key: LedgerKey,
    before: Option<Arc<Story>>,
    story: Arc<Story>,
    told: Told<Recorded>,
}

impl Writer {
    fn run(self) {
        loop {
            let patience = (!self.is_writable()).then_some(PROBE_EVERY);
            let Some(orders) = self.queue.take(patience) else {
                return;
            };
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
                    } => drop(told.send(self.carry(from, stories))),
                    Order::Turn { now, told } => drop(told.send(self.turn(now))),
                }
            }
            self.persist(group);
        }
    }

    fn persist(&self, group: Vec<Order>) {
        if group.is_empty() {
            return;
        }
        if let Err(error) = self.writable_generation(latest(&group)) {
            return refuse(group, &error);
        }
        let Some(newest) = self.shelf.newest() else {
            return refuse(group, &LedgerError::Closed);
        };
        let mut staged: HashMap<LedgerKey, Arc<Story>> = HashMap::new();
        let (mut puts, mut ready, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for order in group {
            let Order::Persist {
                expected,
                story,
                encoded,
                told,
            } = order
            else {
                continue;
            };
            let key = story.subject.ledger_key();
            let passed = self.guard(&newest, key, staged.get(&key), expected.as_ref());
            let fresh = match passed {
                Ok(fresh) => fresh,
                Err(error) => {
                    refused.push((told, error));
                    continue;
                }
            };
            puts.push(Put {
                key,
                story: encoded,
                fresh,
                at: story.updated_at,
            });
            staged.insert(key, Arc::clone(&story));
            ready.push(Ready {
                key,
                before: expected,
                story,
                told,
            });
        }
        let written = self.write(&newest, &puts, &ready);
        for ready in ready {
            drop(ready.told.send(match &written {
                Ok(()) => Ok(Recorded::attested(ready.story)),
                Err(error) => Err(error.clone()),
            }));
        }
        for (told, error) in refused {
            drop(told.send(Err(error)));
        }
    }

    /// Whether the stored story is still the expected one, and if so whether `newest` has no version of it yet.
    fn guard(
        &self,
        newest: &Generation,
        key: LedgerKey,
        staged: Option<&Arc<Story>>,
        expected: Option<&Arc<Story>>,
    ) -> Result<bool, LedgerError> {
        let stored = match staged {
            Some(staged) => Some(Arc::clone(staged)),
            None => self.shelf.recall(key)?,
        };
        let same = match (&stored, expected) {
            (Some(stored), Some(expected)) => Arc::ptr_eq(stored, expected) || stored == expected,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            return Err(LedgerError::Moved(key));
        }
        Ok(stored.is_none() || (staged.is_none() && !newest.holds(key)?))
    }

    fn write(&self, newest: &Generation, puts: &[Put], ready: &[Ready]) -> Result<(), LedgerError> {
        if puts.is_empty() {
            return Ok(());
        }
        self.shelf
            .depart(ready.iter().map(|ready| (ready.key, ready.before.clone())));
        self.report(FlushReport::Begun { writes: puts.len() });
        let written = newest.write(puts).map_err(|error| match error {
            LedgerError::Damaged(reason) => LedgerError::Unwritable(reason),
            LedgerError::Moved(_) | LedgerError::Unwritable(_) | LedgerError::Closed => error,
        });
        match &written {
            Ok(()) => {
                self.shelf.arrive(
                    ready
                        .iter()
                        .map(|ready| (ready.key, Arc::clone(&ready.story))),
                );
                self.report(FlushReport::Durable { writes: puts.len() });
            }
            Err(_) => {
                self.writable.store(false, Ordering::Release);
                self.report(FlushReport::Refused { writes: puts.len() });
            }
        }
        written
    }

    /// Makes sure that there is a generation to write to at `at`.
    fn writable_generation(&self, at: Timestamp) -> Result<(), LedgerError> {
        if !self.is_writable() {
            self.recover();
        }
        if !self.is_writable() {
            return Err(LedgerError::Unwritable("the disk still refuses".into()));
        }
        let over = self
            .shelf
            .newest()
            .is_none_or(|newest| self.shelf.is_over(&newest, at));
        if over {
            self.shelf
                .begin(at)
                .map_err(|error| LedgerError::Unwritable(error.to_string().into()))?;
        }
        Ok(())
    }

    fn carry(&self, from: u64, stories: Vec<Story>) -> Result<(), LedgerError> {
        let newest = self.shelf.newest().ok_or(LedgerError::Closed)?;
        if newest.id <= from {
            return Err(LedgerError::Unwritable(
                "there is no newer generation".into(),
            ));
        }
        let mut puts = Vec::new();
        for story in stories {
            let key = story.subject.ledger_key();
            if self.shelf.moved_on(from, key)? {
                continue;
            }
            puts.push(Put {
                key,
                story: super::encoding::encode(&story)
                    .map_err(|error| LedgerError::Unwritable(error.into()))?,
                fresh: true,
                at: story.updated_at,
            });
        }
        self.write(&newest, &puts, &[])
    }

    fn turn(&self, now: Timestamp) -> Result<(), LedgerError> {
        self.writable_generation(now)
    }

    /// Asks the disk again, and opens the newest generation anew if it takes writes.
    fn recover(&self) {
        let recovered = super::probe(self.shelf.root()).is_ok()
            && self
                .shelf
                .newest()
                .is_some_and(|newest| newest.reopen().is_ok());
        if recovered {
            self.shelf.settle();
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

fn latest(group: &[Order]) -> Timestamp {
    group
        .iter()
        .filter_map(|order| match order {
            Order::Persist { story, .. } => Some(story.updated_at),
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
