//! Works on records: one task each, from its turn to its settled offset.
//!
//! The loop is the same at first and after a crash: recall the story, ask `domain::dispatch` for the next step, carry it
//! out, persist what it came to. A panic costs the attempt that was running; the story then says so, and the loop goes on,
//! until it has panicked so often that the record is set aside.

mod admitting;
mod attempting;
mod looking_up;
mod persisting;
mod reading;
mod setting_aside;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::watch;
use uuid::Uuid;

use crate::adapters::clock::Clock;
use crate::adapters::kafka::dead_letters::DeadLetters;
use crate::adapters::ledger::Ledger;
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::position::TopicPartition;
use crate::domain::record::Record;
use crate::domain::time::{Timestamp, UnitFraction};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::status::Status;

use super::accounts::Accounts;
use super::depth::Depth;
use super::ledger_log::LedgerLog;
use super::occupancy::Stay;
use super::order::{Queues, Turn};
use super::places::ReadOrder;
use super::tenure::{AtWork, Tenure};
use super::work_threads::Spawner;
pub use reading::Reading;
use setting_aside::About;

/// So often work on a record may panic in one tenure, before the record is set aside.
const PANICS_MAX: u32 = 5;

/// What all workers share.
pub struct Crew {
    parts: Parts,
    turns: Queues<(TopicPartition, Bytes)>,
    in_flight: Queues<LedgerKey>,
    taken: AtomicU64,
    ledger_ended: watch::Sender<bool>,
}

/// What the workers work with.
pub struct Parts {
    /// Where tasks are spawned.
    pub spawner: Spawner,
    /// Time and dice.
    pub clock: Clock,
    /// What has been attempted.
    pub ledger: Arc<dyn Ledger>,
    /// The ledger topic, if the ledger is replicated.
    pub log: Option<Arc<LedgerLog>>,
    /// Where requests go.
    pub accounts: Accounts,
    /// Where intents are set aside.
    pub dead_letters: DeadLetters,
    /// Dead letters that nobody has dealt with.
    pub depth: Arc<Depth>,
    /// How records are read and keyed.
    pub reading: Reading,
    /// A longer wait that a provider asks for is not believed.
    pub wait_max: Duration,
    /// The consumer group's name.
    pub group: Arc<str>,
    /// Whether records of one Kafka key go one after the other.
    pub ordered_by_key: bool,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What the admin listener tells.
    pub status: Arc<Status>,
}

/// Why work on a record stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// The tenure is over: whoever has the partition next goes on from the ledger.
    TenureOver,
    /// The story moved under us: begin again from the ledger.
    StoryMoved,
}

/// One record being worked on.
struct Job {
    record: Record,
    order: ReadOrder,
    tenure: Arc<Tenure>,
    /// What has been found out about the record; it outlives a panic.
    about: Mutex<About>,
    turn: Option<Turn<(TopicPartition, Bytes)>>,
    _stay: Stay,
    _at_work: AtWork,
}

impl Job {
    fn about(&self) -> MutexGuard<'_, About> {
        self.about.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    /// A crew that works on nothing yet.
    pub fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            parts,
            turns: Queues::default(),
            in_flight: Queues::default(),
            taken: AtomicU64::new(0),
            ledger_ended: watch::Sender::new(false),
        })
    }

    /// Starts work on a record that its tenure has opened. `stay` is given back when the work ends. To be called in the
    /// order in which records of a lane are read: where places to send are few, they go to its oldest first.
    pub fn take(self: &Arc<Self>, record: Record, tenure: Arc<Tenure>, stay: Stay) {
        let by_key = self
            .parts
            .ordered_by_key
            .then_some(record.key.as_ref())
            .flatten();
        let turn = by_key.map(|key| {
            self.turns
                .enter((record.position.partition.clone(), key.clone()))
        });
        let at_work = tenure.at_work();
        let job = Job {
            record,
            order: ReadOrder {
                lane: stay.lane(),
                number: self.taken.fetch_add(1, Ordering::Relaxed),
            },
            tenure,
            about: Mutex::default(),
            turn,
            _stay: stay,
            _at_work: at_work,
        };
        let crew = Arc::clone(self);
        self.parts
            .spawner
            .spawn(async move { crew.work(job).await });
    }

    /// So many of all partitions are ours, and that share of each account's rate.
    pub fn share_rates(&self, ours: usize, of: usize) {
        self.parts.accounts.share(ours, of);
    }

    /// A name for a tenure that begins.
    pub fn writer_name(&self) -> Uuid {
        self.parts.clock.random_uuid()
    }

    /// A drawn fraction.
    pub fn jitter(&self) -> UnitFraction {
        self.parts.clock.jitter()
    }

    /// Waits until no dead letter is on its way any more, for at most `timeout`.
    pub fn flush(&self, timeout: Duration) {
        if let Err(error) = self.parts.dead_letters.flush(timeout) {
            tracing::warn!(%error, "a dead letter was not acknowledged before the end; it is written again");
        }
    }

    /// Resolves once a worker has found the ledger ended, though nobody had closed it: whatever is read from then on waits
    /// for another process.
    pub async fn ledger_ended(&self) {
        let mut ended = self.ledger_ended.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Whether a worker has found the ledger ended.
    pub fn has_ledger_ended(&self) -> bool {
        *self.ledger_ended.borrow()
    }

    async fn work(&self, job: Job) {
        let (mut failures, mut panics): (u32, u32) = (0, 0);
        loop {
            let step = async {
                self.own(&job).await?;
                self.reach_turn(&job).await?;
                if panics < PANICS_MAX {
                    self.read(&job).await
                } else {
                    Box::pin(self.set_panicked_aside(&job)).await
                }
            };
            let work = std::panic::AssertUnwindSafe(step).catch_unwind().await;
            match work {
                Ok(Ok(settlement)) => {
                    if let Err(fault) = job.tenure.settle(job.record.position.offset, settlement) {
                        tracing::error!(position = %job.record.position, %fault, "a record was settled twice");
                    }
                    return;
                }
                Ok(Err(Stopped::TenureOver)) => return,
                Ok(Err(Stopped::StoryMoved)) => {}
                Err(_) => {
                    panics = panics.saturating_add(1);
                    // What the panic said stays out of the log: it may hold content.
                    let position = &job.record.position;
                    if panics < PANICS_MAX {
                        tracing::error!(%position, panics, "work on a record panicked; it begins again from the ledger");
                    } else {
                        tracing::error!(%position, panics, "work on a record panicked again and again; it is set aside");
                    }
                    self.parts.metrics.panic();
                }
            }
            failures = failures.saturating_add(1);
            let pause = Duration::from_millis(100).saturating_mul(1 << failures.min(9));
            if self.pause(&job.tenure, pause).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the partition is ours in the ledger topic too.
    async fn own(&self, job: &Job) -> Result<(), Stopped> {
        if job.tenure.owns() {
            return Ok(());
        }
        tokio::select! {
            () = job.tenure.owned() => Ok(()),
            () = job.tenure.over() => Err(Stopped::TenureOver),
        }
    }

    /// Waits until all that were read before under the same Kafka key have ended.
    async fn reach_turn(&self, job: &Job) -> Result<(), Stopped> {
        match &job.turn {
            Some(turn) if turn.is_behind() => tokio::select! {
                () = turn.reached() => Ok(()),
                () = job.tenure.over() => Err(Stopped::TenureOver),
            },
            Some(_) | None => Ok(()),
        }
    }

    /// Waits, unless the tenure ends before.
    async fn pause(&self, tenure: &Tenure, span: Duration) -> Result<(), Stopped> {
        tokio::select! {
            () = tokio::time::sleep(span) => Ok(()),
            () = tenure.over() => Err(Stopped::TenureOver),
        }
    }

    /// Waits until that moment by the wall clock, unless the tenure ends before.
    async fn pause_until(&self, tenure: &Tenure, until: Timestamp) -> Result<(), Stopped> {
        loop {
            let now = self.parts.clock.now();
            if now >= until {
                return Ok(());
            }
            // In slices, so that a stepped clock is noticed.
            self.pause(tenure, until.since(now).min(Duration::from_secs(30)))
                .await?;
        }
    }
}
