//! Commits positions, and nobody else does. A position only moves forward, and only for a tenure that is still ours.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::adapters::kafka::consumer::{GroupConsumer, is_stale};
use crate::domain::position::{AssignmentEpoch, NextOffset, TopicPartition};
use crate::telemetry::metrics::{CommitResult, Metrics};

use super::tenure::Tenure;
use super::tenures::Tenures;

/// The committer's thread.
pub struct Committer {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

/// What the committer is told beside the passing of time.
enum Order {
    /// Commit what these tenures have settled, then tell.
    Now(Vec<Arc<Tenure>>, Sender<CommitResult>),
    /// Commit this position, though it may be committed already, then tell.
    Confirm(Arc<Tenure>, NextOffset, Sender<CommitResult>),
}

impl Committer {
    /// Starts committing every `interval` what the tenures have settled.
    pub fn start(
        consumer: Arc<GroupConsumer>,
        tenures: Arc<Tenures>,
        metrics: Arc<Metrics>,
        interval: Duration,
    ) -> std::io::Result<Self> {
        let (orders, told) = channel();
        let mut work = Work {
            consumer,
            tenures,
            metrics,
            committed: HashMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || work.run(&told, interval))?;
        Ok(Self { orders, thread })
    }

    /// Commits what these tenures have settled. `None` if the coordinator did not answer within `timeout`.
    pub fn commit_now(&self, tenures: Vec<Arc<Tenure>>, timeout: Duration) -> Option<CommitResult> {
        let (done, told) = channel();
        self.orders.send(Order::Now(tenures, done)).ok()?;
        told.recv_timeout(timeout).ok()
    }

    /// Asks the coordinator whether a partition is ours, by committing the position that it has or that is settled. Does
    /// not wait: the answer comes through what is returned.
    pub fn confirm(&self, tenure: Arc<Tenure>, position: NextOffset) -> Receiver<CommitResult> {
        let (done, told) = channel();
        // Without a committer the answer is that there is none.
        let _ = self.orders.send(Order::Confirm(tenure, position, done));
        told
    }

    /// Ends the thread, and waits until its current commit has been answered.
    pub fn stop(self) {
        let Self { orders, thread } = self;
        drop(orders);
        if thread.join().is_err() {
            tracing::error!("the committer panicked");
        }
    }
}

struct Work {
    consumer: Arc<GroupConsumer>,
    tenures: Arc<Tenures>,
    metrics: Arc<Metrics>,
    committed: HashMap<TopicPartition, (AssignmentEpoch, NextOffset)>,
}

impl Work {
    fn run(&mut self, orders: &Receiver<Order>, interval: Duration) {
        loop {
            match orders.recv_timeout(interval) {
                Ok(Order::Now(tenures, done)) => {
                    let result = self.commit(&tenures);
                    // The one who asked may have stopped waiting.
                    let _ = done.send(result);
                }
                Ok(Order::Confirm(tenure, position, done)) => {
                    // It may have been let go since: then the position is another one's.
                    let result = if self.is_running(&tenure) {
                        self.send(&[(tenure.partition.clone(), position)])
                    } else {
                        CommitResult::Stale
                    };
                    let _ = done.send(result);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let tenures = self.tenures.all();
                    self.forget_all_but(&tenures);
                    self.commit(&tenures);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn commit(&mut self, tenures: &[Arc<Tenure>]) -> CommitResult {
        let ahead: Vec<(AssignmentEpoch, TopicPartition, NextOffset)> = tenures
            .iter()
            .filter_map(|tenure| {
                let next = tenure.committable()?;
                let known = self.committed.get(&tenure.partition);
                let moved = known.is_none_or(|(epoch, at)| *epoch != tenure.epoch || *at < next);
                moved.then(|| (tenure.epoch, tenure.partition.clone(), next))
            })
            .collect();
        if ahead.is_empty() {
            return CommitResult::Ok;
        }
        let positions: Vec<_> = ahead
            .iter()
            .map(|(_, partition, next)| (partition.clone(), *next))
            .collect();
        let result = self.send(&positions);
        if result == CommitResult::Ok {
            for (epoch, partition, next) in ahead {
                self.committed.insert(partition, (epoch, next));
            }
        }
        result
    }

    fn send(&self, positions: &[(TopicPartition, NextOffset)]) -> CommitResult {
        let result = match self.consumer.commit(positions) {
            Ok(()) => CommitResult::Ok,
            Err(error) if is_stale(&error) => {
                tracing::warn!(%error, "a commit came too late: the group has moved on");
                CommitResult::Stale
            }
            Err(error) => {
                tracing::warn!(%error, "a commit failed and is tried again");
                CommitResult::Failed
            }
        };
        self.metrics.commit(result);
        result
    }

    fn is_running(&self, tenure: &Arc<Tenure>) -> bool {
        let running = self.tenures.of(&tenure.partition);
        running.is_some_and(|running| Arc::ptr_eq(&running, tenure))
    }

    fn forget_all_but(&mut self, tenures: &[Arc<Tenure>]) {
        self.committed
            .retain(|partition, _| tenures.iter().any(|tenure| tenure.partition == *partition));
    }
}
