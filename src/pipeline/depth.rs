//! How many dead letters nobody has dealt with, by reason. The ledger says so, not the topic.
//!
//! Where the ledger follows its partitions, every instance knows of all dead letters, and each shows those of the partitions that
//! it owns: so the sum over all instances counts each once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{RwLock, RwLockReadGuard};

use crate::adapters::ledger::{Ledger, LedgerError};
use crate::domain::dead_letter::Reason;
use crate::domain::ledger_entry::{Standing, Story};
use crate::domain::position::TopicPartition;
use crate::telemetry::metrics::Metrics;

/// Whose dead letters are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// All that the ledger holds.
    All,
    /// Those of the partitions that are owned.
    Owned,
}

/// The count, kept while the process runs.
pub struct Depth {
    counts: Mutex<Counts>,
    /// Shared while a dead letter becomes durable and is counted, exclusive while all are counted again: each counts once.
    counting: RwLock<()>,
    metrics: Arc<Metrics>,
}

struct Counts {
    /// By the partition of the record.
    by: HashMap<TopicPartition, BTreeMap<Reason, u64>>,
    /// Only these are shown; all without it.
    owned: Option<HashSet<TopicPartition>>,
}

impl Depth {
    /// Counts what the ledger holds.
    pub fn of(
        ledger: &dyn Ledger,
        metrics: Arc<Metrics>,
        shown: Shown,
    ) -> Result<Self, LedgerError> {
        let owned = match shown {
            Shown::All => None,
            Shown::Owned => Some(HashSet::new()),
        };
        let by = HashMap::new();
        let depth = Self {
            counts: Mutex::new(Counts { by, owned }),
            counting: RwLock::const_new(()),
            metrics,
        };
        depth.count_again(ledger)?;
        Ok(depth)
    }

    /// Counts again, after the ledger has forgotten. Blocks; not to be called from an async task.
    pub fn count_again(&self, ledger: &dyn Ledger) -> Result<(), LedgerError> {
        let _all = self.counting.blocking_write();
        let mut by: HashMap<TopicPartition, BTreeMap<Reason, u64>> = HashMap::new();
        ledger.each_story(&mut |story| {
            if let Some(reason) = dead(story) {
                let of = by.entry(story.subject.origin.partition.clone());
                *of.or_default().entry(reason).or_insert(0) += 1;
            }
            true
        })?;
        self.counts().by = by;
        self.show();
        Ok(())
    }

    /// To be held while a story becomes durable and `changed` is called.
    pub async fn counting(&self) -> RwLockReadGuard<'_, ()> {
        self.counting.read().await
    }

    /// A story that was `before` is now `after`, durably.
    pub fn changed(&self, before: Option<&Story>, after: &Story) {
        let (before, reason) = (before.and_then(dead), dead(after));
        if before == reason {
            return;
        }
        {
            let mut counts = self.counts();
            let of = counts.by.entry(after.subject.origin.partition.clone());
            let of = of.or_default();
            if let Some(count) = before.and_then(|before| of.get_mut(&before)) {
                *count = count.saturating_sub(1);
            }
            if let Some(reason) = reason {
                *of.entry(reason).or_insert(0) += 1;
            }
        }
        self.show();
    }

    /// This partition is owned from now on.
    pub fn own(&self, partition: TopicPartition) {
        if let Some(owned) = &mut self.counts().owned {
            owned.insert(partition);
        }
        self.show();
    }

    /// These are not owned any more.
    pub fn let_go(&self, partitions: &[TopicPartition]) {
        if let Some(owned) = &mut self.counts().owned {
            owned.retain(|of| !partitions.contains(of));
        }
        self.show();
    }

    fn show(&self) {
        let counts = self.counts();
        let of = |reason: Reason| -> u64 {
            let is_shown =
                |of: &TopicPartition| counts.owned.as_ref().is_none_or(|owned| owned.contains(of));
            let shown = counts.by.iter().filter(|(of, _)| is_shown(of));
            shown.filter_map(|(_, by)| by.get(&reason)).sum()
        };
        self.metrics.dead_letter_depth(of);
        self.metrics.unknown_open(of(Reason::OutcomeUnknown));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a story lies in the dead letters, if it does.
fn dead(story: &Story) -> Option<Reason> {
    match story.standing() {
        Standing::DeadLettered(cause) => Some(cause.reason),
        Standing::Open | Standing::Accepted(_) | Standing::DeadLettering(_) => None,
    }
}
