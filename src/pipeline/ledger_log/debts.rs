//! What an earlier process on this machine has recorded on the disk and may not have appended to the log any more. It is appended
//! before any tenure of this process owns its partition, so that nothing is suppressed or committed for what only one disk
//! knows.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};

use crate::adapters::ledger::{Ledger, LedgerError};
use crate::domain::ledger_entry::{Entry, Story, Writer};
use crate::domain::ledger_log::{Checkpoint, Logged, Owing, owed};
use crate::domain::position::TopicPartition;
use crate::domain::time::Timestamp;

use super::LedgerLog;
use crate::pipeline::tenure::Tenure;
use crate::telemetry::status::NotReady;

/// Between two tries to read a ledger that cannot be read.
const READ_AGAIN: Duration = Duration::from_secs(10);
/// Stories that are read from the disk ahead of being appended, at most.
const AHEAD: usize = 256;

/// What is owed.
pub(super) struct Debts {
    /// Results since then are owed, in any partition; none any more once they are appended.
    results: watch::Sender<Option<Timestamp>>,
    /// Partitions of which everything is owed.
    unpublished: Mutex<BTreeSet<TopicPartition>>,
}

impl Debts {
    pub(super) fn of(checkpoint: &Checkpoint) -> Self {
        Self {
            results: watch::Sender::new(Some(checkpoint.appended_to)),
            unpublished: Mutex::new(checkpoint.unpublished.clone()),
        }
    }

    /// Since when results are owed.
    pub(super) fn since(&self) -> Option<Timestamp> {
        *self.results.borrow()
    }

    pub(super) fn unpublished(&self) -> BTreeSet<TopicPartition> {
        self.locked().clone()
    }

    /// Resolves once no results are owed any more.
    async fn results_paid(&self) {
        let mut results = self.results.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = results.wait_for(Option::is_none).await;
    }

    fn locked(&self) -> MutexGuard<'_, BTreeSet<TopicPartition>> {
        self.unpublished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerLog {
    /// Appends the results that are owed, whoever owns their partitions now.
    pub(super) async fn pay_results(self: Arc<Self>, ledger: Arc<dyn Ledger>) {
        let Some(since) = self.debts.since() else {
            return;
        };
        // Those of partitions that were never published are told by their owner, with all the rest. What belongs to a topic or
        // a partition that is gone has no log any more.
        let mut published: HashSet<_> = self.logs.partitions().into_iter().collect();
        for partition in self.debts.unpublished() {
            published.remove(&partition);
        }
        let published = Arc::new(published);
        let nobody = Writer(uuid::Uuid::nil());
        loop {
            let of = Arc::clone(&published);
            let is_owed = move |story: &Story| {
                story.updated_at >= since && of.contains(&story.subject.origin.partition)
            };
            let told = self.tell(Arc::clone(&ledger), is_owed, (Owing::Results, nobody));
            if told.await.is_ok() {
                self.debts.results.send_replace(None);
                return;
            }
            tokio::time::sleep(READ_AGAIN).await;
        }
    }

    /// Appends whatever is owed of this tenure's partition. Resolves once nothing is.
    pub(super) async fn pay(self: &Arc<Self>, ledger: &Arc<dyn Ledger>, tenure: &Tenure) {
        if self.debts.unpublished().contains(&tenure.partition) {
            let of = tenure.partition.clone();
            let is_owed = move |story: &Story| story.subject.origin.partition == of;
            let everything = (Owing::Everything, tenure.writer);
            // Without it nothing may begin.
            while self
                .tell(Arc::clone(ledger), is_owed.clone(), everything)
                .await
                .is_err()
            {
                tokio::time::sleep(READ_AGAIN).await;
            }
            self.debts.locked().remove(&tenure.partition);
        }
        self.debts.results_paid().await;
    }

    async fn append_entry(&self, entry: Entry) {
        let partition = entry.subject.origin.partition.clone();
        let logged = Logged::Entry(Box::new(entry));
        self.append(&partition, &logged).await;
    }

    async fn tell(
        self: &Arc<Self>,
        ledger: Arc<dyn Ledger>,
        is_owed: impl Fn(&Story) -> bool + Send + 'static,
        (owing, writer): (Owing, Writer),
    ) -> Result<(), LedgerError> {
        let (found, mut debts) = mpsc::channel::<Vec<Entry>>(AHEAD);
        let looking = tokio::task::spawn_blocking(move || {
            ledger.each_story(&mut |story| {
                !is_owed(story) || found.blocking_send(owed(story, owing, writer)).is_ok()
            })
        });
        let (mut count, mut batch) = (0, Vec::new());
        while debts.recv_many(&mut batch, AHEAD).await > 0 {
            let entries = batch.drain(..).flatten();
            let appended = join_all(entries.map(|entry| self.append_entry(entry))).await;
            count += appended.len();
        }
        let looked = looking.await.unwrap_or(Err(LedgerError::Closed));
        match &looked {
            Ok(()) if count > 0 => tracing::info!(
                count,
                "appended to the ledger topic what it may have lacked of this ledger"
            ),
            Ok(()) => {}
            Err(error) => {
                self.status.set(NotReady::LedgerNotWritable);
                tracing::error!(
                    %error,
                    "the ledger could not be read for what the ledger topic may lack: nothing is sent before that"
                );
            }
        }
        looked
    }
}
