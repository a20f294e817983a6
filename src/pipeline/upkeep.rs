//! Shows sizes and ages, and lets the ledger forget. It changes nothing that decides a send.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::adapters::clock::{BootMoment, Clock};
use crate::adapters::kafka::consumer::GroupConsumer;
use crate::adapters::ledger::sled_store::SledLedger;
use crate::adapters::ledger::{Ledger, LedgerError};
use crate::domain::lanes::LaneTopics;
use crate::domain::position::{NextOffset, TopicPartition};
use crate::domain::time::Timestamp;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::status::{Loop, NotReady, Status};

use super::depth::Depth;
use super::free_space::FreeSpace;
use super::occupancy::Occupancy;
use super::tenures::Tenures;

/// Between two rounds.
const ROUND: Duration = Duration::from_secs(1);
/// How much further than the boot clock the wall clock may go between two rounds of forgetting.
const LEAP_MAX: Duration = Duration::from_secs(3_600);
/// Between two looks at what the broker holds.
const BROKER_ROUND: Duration = Duration::from_secs(10);

/// What upkeep works with.
pub struct Upkeep {
    /// Time.
    pub clock: Clock,
    /// What is forgotten in time.
    pub ledger: Arc<SledLedger>,
    /// Asked for watermarks.
    pub consumer: Arc<GroupConsumer>,
    /// What is open.
    pub tenures: Arc<Tenures>,
    /// Which lanes are full.
    pub occupancy: Arc<Occupancy>,
    /// The topics of the lanes.
    pub lanes: LaneTopics,
    /// Dead letters that nobody has dealt with.
    pub depth: Arc<Depth>,
    /// Where it is shown.
    pub metrics: Arc<Metrics>,
    /// What the admin listener tells.
    pub status: Arc<Status>,
    /// Without progress for so long, while records wait, the consumer counts as stalled.
    pub stall_after: Duration,
    /// Between two times that the ledger forgets.
    pub expire_every: Duration,
    /// Turns true when the process ends.
    pub stop: watch::Receiver<bool>,
}

impl Upkeep {
    /// Goes round until the process ends.
    pub async fn run(mut self) {
        let mut broker_round = Instant::now();
        let mut expiry = Instant::now() + self.expire_every;
        let mut progress: HashMap<TopicPartition, Progress> = HashMap::new();
        let mut shown: Vec<TopicPartition> = Vec::new();
        let mut space = FreeSpace::default();
        let mut forgetting: Option<JoinHandle<()>> = None;
        let mut last_forgotten = (self.clock.now(), BootMoment::now());
        loop {
            self.status.beat(Loop::Upkeep);
            shown = self.show_open(&shown);
            if Instant::now() >= broker_round {
                broker_round = Instant::now() + BROKER_ROUND;
                self.show_size(&mut space);
                self.look_at_brokers(&mut progress).await;
            }
            if Instant::now() >= expiry {
                expiry = Instant::now() + self.expire_every;
                if forgetting.as_ref().is_none_or(JoinHandle::is_finished)
                    && self.clock_is_steady(&mut last_forgotten)
                {
                    forgetting = Some(tokio::spawn(let_forget(
                        Arc::<SledLedger>::clone(&self.ledger),
                        Arc::clone(&self.depth),
                        self.clock.now(),
                    )));
                }
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND) => {}
                // An error means that whoever could stop us is gone.
                _ = self.stop.wait_for(|stop| *stop) => break,
            }
        }
        self.status.ended(Loop::Upkeep);
    }

    fn show_open(&self, shown: &[TopicPartition]) -> Vec<TopicPartition> {
        let now = self.clock.now();
        self.metrics.tick(now);
        let tenures = self.tenures.all();
        self.metrics.open_intents(|topic| {
            let of_topic = || {
                let all = tenures.iter();
                all.filter(|tenure| *tenure.partition.topic == *topic)
            };
            let open: usize = of_topic().map(|tenure| tenure.open_count()).sum();
            let oldest = of_topic().filter_map(|tenure| tenure.oldest_open()).min();
            let age = oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
            (count(open), age)
        });
        for tenure in &tenures {
            self.metrics
                .uncommitted_span(&tenure.partition, count(tenure.span()));
        }
        let partitions: Vec<_> = tenures
            .iter()
            .map(|tenure| tenure.partition.clone())
            .collect();
        for gone in shown
            .iter()
            .filter(|partition| !partitions.contains(partition))
        {
            self.metrics.partition_left(gone);
        }
        partitions
    }

    fn show_size(&self, space: &mut FreeSpace) {
        let size = self.ledger.size();
        self.metrics.ledger_size(size.entries, size.bytes);
        let free_bytes = match self.ledger.free_bytes() {
            Ok(free) => free,
            Err(error) => {
                tracing::debug!(%error, "the file system does not tell how much is free");
                return;
            }
        };
        self.metrics.ledger_disk_free(free_bytes);
        if space.is_to_be_told(free_bytes, size.bytes, self.clock.now()) {
            tracing::warn!(
                free_bytes,
                ledger_bytes = size.bytes,
                "the ledger's disk is running full: once it is, nothing is sent until there is room again"
            );
        }
    }

    async fn look_at_brokers(&self, progress: &mut HashMap<TopicPartition, Progress>) {
        let tenures = self.tenures.all();
        progress.retain(|partition, _| tenures.iter().any(|t| t.partition == *partition));
        let mut stalled = false;
        for tenure in tenures {
            let (consumer, partition) = (Arc::clone(&self.consumer), tenure.partition.clone());
            let asked = tokio::task::spawn_blocking(move || {
                consumer.watermarks(&partition, Duration::from_secs(5))
            });
            let Ok(Ok((low, high))) = asked.await else {
                continue;
            };
            let position = tenure.committable().or_else(|| tenure.begun_at());
            let position = position.unwrap_or(NextOffset(low.0));
            let lag = u64::try_from(high.0.saturating_sub(position.0)).unwrap_or(0);
            self.metrics.consumer_lag(&tenure.partition, lag);
            let read = tenure.read_to();
            let known = progress
                .entry(tenure.partition.clone())
                .or_insert_with(|| Progress {
                    read,
                    since: Instant::now(),
                });
            // What waits because as much of its lane is open as may be, is no stall.
            let waits = lag > 0
                && tenure.span() == 0
                && !self.occupancy.is_full(self.lanes.of(&tenure.partition));
            if known.read != read || !waits {
                *known = Progress {
                    read,
                    since: Instant::now(),
                };
            } else if known.since.elapsed() >= self.stall_after {
                stalled = true;
            }
        }
        self.metrics.stalled(stalled);
        if stalled {
            if self.status.set(NotReady::Stalled) {
                tracing::error!(
                    "records wait at the broker and none is read: the consumer has stalled"
                );
            }
        } else {
            self.status.clear(NotReady::Stalled);
        }
    }

    /// Whether the wall clock has gone on since `last` about as far as the boot clock. After a leap forward nothing is
    /// forgotten this time: what was forgotten by mistake would be sent again.
    fn clock_is_steady(&self, last: &mut (Timestamp, BootMoment)) -> bool {
        let (wall, boot) = *last;
        let (now, ticked) = (self.clock.now(), boot.elapsed());
        *last = (now, BootMoment::now());
        let steady = now.since(wall) <= ticked + LEAP_MAX;
        if !steady {
            tracing::error!(
                "the wall clock has leapt forward: the ledger forgets nothing until it is steady"
            );
        }
        steady
    }
}

async fn let_forget(ledger: Arc<dyn Ledger>, depth: Arc<Depth>, now: Timestamp) {
    let forgotten = tokio::task::spawn_blocking(move || {
        let forgotten = ledger.expire(now)?;
        if forgotten > 0 {
            depth.count_again(&*ledger)?;
        }
        Ok::<u64, LedgerError>(forgotten)
    });
    match forgotten.await {
        Ok(Ok(0)) => {}
        Ok(Ok(entries)) => tracing::info!(
            entries,
            "the ledger has forgotten what is past its retention"
        ),
        Ok(Err(error)) => tracing::warn!(%error, "the ledger could not forget; tried again later"),
        Err(_) => tracing::error!("forgetting panicked; tried again later"),
    }
}

/// How far a partition had been read when that last changed.
struct Progress {
    read: Option<NextOffset>,
    since: Instant,
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
