//! How many dead letters nobody has dealt with, by reason. The ledger says so, not the topic.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{RwLock, RwLockReadGuard};

use crate::adapters::ledger::{Ledger, LedgerError};
use crate::domain::dead_letter::Reason;
use crate::domain::ledger_entry::Standing;
use crate::telemetry::metrics::Metrics;

/// The count, kept while the process runs.
pub struct Depth {
    counts: Mutex<BTreeMap<Reason, u64>>,
    /// Shared while a dead letter becomes durable and is counted, exclusive while all are counted again: each counts once.
    counting: RwLock<()>,
    metrics: Arc<Metrics>,
}

impl Depth {
    /// Counts what the ledger holds.
    pub fn of(ledger: &dyn Ledger, metrics: Arc<Metrics>) -> Result<Self, LedgerError> {
        let depth = Self {
            counts: Mutex::default(),
            counting: RwLock::const_new(()),
            metrics,
        };
        depth.count_again(ledger)?;
        Ok(depth)
    }

    /// Counts again, after the ledger has forgotten. Blocks; not to be called from an async task.
    pub fn count_again(&self, ledger: &dyn Ledger) -> Result<(), LedgerError> {
        let _all = self.counting.blocking_write();
        let mut counts = BTreeMap::new();
        ledger.each_story(&mut |story| {
            if let Standing::DeadLettered(cause) = story.standing() {
                *counts.entry(cause.reason).or_insert(0) += 1;
            }
            true
        })?;
        *self.counts() = counts;
        self.show();
        Ok(())
    }

    /// To be held while a dead letter becomes durable and `one_more` is called.
    pub async fn counting(&self) -> RwLockReadGuard<'_, ()> {
        self.counting.read().await
    }

    /// One more dead letter is durable.
    pub fn one_more(&self, reason: Reason) {
        *self.counts().entry(reason).or_insert(0) += 1;
        self.show();
    }

    fn show(&self) {
        let counts = self.counts();
        self.metrics
            .dead_letter_depth(|reason| counts.get(&reason).copied().unwrap_or(0));
        let unknown = counts.get(&Reason::OutcomeUnknown).copied().unwrap_or(0);
        self.metrics.unknown_open(unknown);
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Reason, u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
