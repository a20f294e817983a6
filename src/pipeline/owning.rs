//! Sees to it that a tenure owns its partition in the ledger topic before anything is worked on for it, and learns of it when
//! another one has come after it. Without a ledger topic every tenure owns its partition from its beginning.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::adapters::clock::Clock;
use crate::adapters::ledger::Ledger;
use crate::domain::ledger_log::Claim;
use crate::domain::position::{AssignmentEpoch, TopicPartition};

use super::depth::Depth;
use super::ledger_log::LedgerLog;
use super::tenure::Tenure;

/// Who is on the way to own a partition, and who does not own one any more.
pub struct Owning {
    by: By,
    taking: HashSet<(TopicPartition, AssignmentEpoch)>,
}

/// By what a tenure owns its partition.
enum By {
    /// By having it assigned.
    Assignment(Clock),
    /// By the ledger topic.
    Log(ByLog),
}

struct ByLog {
    log: Arc<LedgerLog>,
    ledger: Arc<dyn Ledger>,
    depth: Arc<Depth>,
    runtime: Handle,
    taken: UnboundedReceiver<Taken>,
    tell: UnboundedSender<Taken>,
    fenced: UnboundedReceiver<TopicPartition>,
}

type Taken = (TopicPartition, AssignmentEpoch, Claim);

/// What has come of it since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OwningNews {
    /// Work on these may begin.
    pub owned: Vec<TopicPartition>,
    /// Another instance says that these are its own.
    pub disputed: Vec<TopicPartition>,
}

impl Owning {
    /// Without a ledger topic.
    pub fn without_log(clock: Clock) -> Self {
        Self {
            by: By::Assignment(clock),
            taking: HashSet::new(),
        }
    }

    /// By the ledger topic, whose follower tells of each partition that another instance has taken.
    pub fn by_log(
        log: Arc<LedgerLog>,
        (ledger, depth): (Arc<dyn Ledger>, Arc<Depth>),
        runtime: Handle,
        fenced: UnboundedReceiver<TopicPartition>,
    ) -> Self {
        let (tell, taken) = unbounded_channel();
        Self {
            by: By::Log(ByLog {
                log,
                ledger,
                depth,
                runtime,
                taken,
                tell,
                fenced,
            }),
            taking: HashSet::new(),
        }
    }

    /// Makes this tenure the owner. Returns whether it is at once; if not, nothing is to be read for it until `news` says so.
    pub fn begin(&mut self, tenure: &Arc<Tenure>) -> bool {
        let by = match &self.by {
            By::Assignment(clock) => {
                tenure.own(clock.now());
                return true;
            }
            By::Log(by) => by,
        };
        let (partition, epoch) = (tenure.partition.clone(), tenure.epoch);
        self.taking.insert((partition.clone(), epoch));
        let (tell, of) = (by.tell.clone(), Arc::clone(tenure));
        let (log, ledger) = (Arc::clone(&by.log), Arc::clone(&by.ledger));
        by.runtime.spawn(async move {
            let claim = log.take_over(&ledger, &of).await;
            // Nobody listens any more at the end of the process.
            let _ = tell.send((partition, epoch, claim));
        });
        false
    }

    /// Whether a tenure of this partition is on its way to own it.
    pub fn is_taking(&self, partition: &TopicPartition) -> bool {
        self.taking.iter().any(|(of, _)| of == partition)
    }

    /// Whether this very tenure is on its way to own its partition.
    pub fn is_taking_for(&self, tenure: &Tenure) -> bool {
        let of = (tenure.partition.clone(), tenure.epoch);
        self.taking.contains(&of)
    }

    /// What has come of it since the last look.
    pub fn news(&mut self) -> OwningNews {
        let mut news = OwningNews::default();
        let By::Log(by) = &mut self.by else {
            return news;
        };
        while let Ok((partition, epoch, claim)) = by.taken.try_recv() {
            let is_new = self.taking.remove(&(partition.clone(), epoch));
            match claim {
                Claim::Good if is_new => {
                    by.depth.own(partition.clone());
                    news.owned.push(partition);
                }
                Claim::Fenced | Claim::NotYet if is_new => news.disputed.push(partition),
                Claim::Good | Claim::Fenced | Claim::NotYet => {}
            }
        }
        while let Ok(partition) = by.fenced.try_recv() {
            news.disputed.push(partition);
        }
        news
    }

    /// These partitions are not ours any more.
    pub fn forget(&mut self, partitions: &[TopicPartition]) {
        self.taking.retain(|(of, _)| !partitions.contains(of));
        if let By::Log(by) = &self.by {
            by.depth.let_go(partitions);
        }
    }
}
