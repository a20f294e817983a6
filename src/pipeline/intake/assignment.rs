//! Answers the group's rebalances: how a partition comes to us, when work on it may begin, and how it is let go.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::KafkaError;
use tokio::time::Instant;

use crate::adapters::kafka::consumer::Beginning;
use crate::domain::position::TopicPartition;
use crate::telemetry::metrics::{CommitResult, Rebalance};
use crate::telemetry::status::NotReady;

use super::{Intake, LOOK, Leaving};
use crate::pipeline::owning::OwningNews;
use crate::pipeline::tenure::Tenure;

/// How long the coordinator may take to say whether a partition is ours.
const ASK: Duration = Duration::from_secs(10);

impl Intake {
    pub(super) fn take_up(&mut self, partitions: Vec<TopicPartition>) -> Result<(), KafkaError> {
        self.metrics.rebalance(Rebalance::Assigned);
        let beginnings = self.beginnings(&partitions)?;
        let (mut chosen, mut begun) = (Vec::new(), Vec::new());
        for (partition, beginning) in &beginnings {
            let writer = self.crew.writer_name();
            let tenure = self.tenures.begin(partition.clone(), writer, *beginning);
            begun.push(Arc::clone(&tenure));
            let epoch = tenure.epoch.0;
            match beginning {
                Beginning::Committed(next) => {
                    tracing::info!(%partition, epoch, from = next.0, "assigned: goes on where the group committed");
                }
                Beginning::Earliest => {
                    tracing::info!(%partition, epoch, "assigned: the group has no committed position here, so it begins at the oldest record");
                }
                Beginning::Chosen(next) => {
                    tracing::info!(%partition, epoch, from = next.0, "assigned: the group has no committed position here, so it begins where it was told to");
                    chosen.push(tenure);
                }
            }
        }
        if !chosen.is_empty()
            && self.committer.commit_now(chosen, Duration::from_secs(10)) != Some(CommitResult::Ok)
        {
            tracing::warn!(
                "where reading begins was not committed in time; tried again while it goes on"
            );
        }
        self.consumer.take_up(&beginnings)?;
        // A pause of an earlier tenure outlives it inside the client.
        self.consumer.resume(&partitions)?;
        let still_paused: Vec<_> = partitions
            .into_iter()
            .filter(|partition| self.lobby.has_paused(self.lanes.of(partition)))
            .collect();
        if !still_paused.is_empty() {
            self.pause(&still_paused);
        }
        for tenure in &begun {
            self.own(tenure);
        }
        self.share_rates();
        self.status.clear(NotReady::NotAssigned);
        Ok(())
    }

    /// Makes the tenure own its partition; nothing more is read for it before it does.
    pub(super) fn own(&mut self, tenure: &Arc<Tenure>) {
        if !self.owning.begin(tenure) {
            self.pause(std::slice::from_ref(&tenure.partition));
        }
    }

    pub(super) fn look_at_owners(&mut self) {
        let OwningNews { owned, disputed } = self.owning.news();
        let is_open = |partition: &TopicPartition| {
            let is_paused = self.lobby.has_paused(self.lanes.of(partition));
            !is_paused && !self.spans_full.contains(partition)
        };
        let open: Vec<_> = owned.into_iter().filter(is_open).collect();
        if !open.is_empty()
            && let Err(error) = self.consumer.resume(&open)
        {
            tracing::warn!(%error, "reading could not be resumed");
        }
        for partition in disputed {
            self.confirm(&partition);
        }
    }

    /// Another instance has said in the ledger topic that it owns the partition. If the coordinator says that it is ours, that
    /// was an earlier owner's late word: a new tenure begins, and says so after it.
    fn confirm(&mut self, partition: &TopicPartition) {
        let Some(tenure) = self.tenures.of(partition) else {
            return;
        };
        let from = tenure.committable().or(tenure.begun_at());
        let confirmed = from.and_then(|from| {
            let answer = self.committer.confirm(partition, from, ASK)?;
            (answer == CommitResult::Ok).then_some(from)
        });
        tenure.end();
        let Some(from) = confirmed else {
            tracing::warn!(%partition, "not confirmed to be ours: it waits for the group's next word");
            return;
        };
        self.lobby.forget(std::slice::from_ref(partition));
        let writer = self.crew.writer_name();
        let tenure = self
            .tenures
            .begin(partition.clone(), writer, Beginning::Committed(from));
        tracing::info!(%partition, epoch = tenure.epoch.0, from = from.0, "confirmed to be ours: a new tenure begins");
        self.own(&tenure);
        if let Err(error) = self.consumer.read_from(partition, from) {
            tracing::error!(%error, %partition, "reading could not go back");
        }
    }

    /// Of each account's rate we use the part that our partitions are of all.
    fn share_rates(&self) {
        let tenures = self.tenures.all();
        let ours = tenures.iter().filter(|tenure| !tenure.is_over()).count();
        self.crew.share_rates(ours, self.partitions);
    }

    fn beginnings(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<(TopicPartition, Beginning)>, KafkaError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let mut tries = 3;
        loop {
            tries -= 1;
            match self
                .consumer
                .beginnings(partitions, Duration::from_secs(10))
            {
                Err(error) if tries > 0 => {
                    tracing::warn!(%error, "the committed positions could not be read; asked again");
                }
                answer => return answer,
            }
        }
    }

    pub(super) fn revoked(&mut self, partitions: Vec<TopicPartition>) {
        self.metrics.rebalance(Rebalance::Revoked);
        let tenures: Vec<_> = partitions
            .iter()
            .filter_map(|partition| self.tenures.of(partition))
            .collect();
        for tenure in &tenures {
            tenure.end();
        }
        self.share_rates();
        self.lobby.forget(&partitions);
        let until = Instant::now() + self.limits.drain;
        self.leaving.push_back(Leaving {
            partitions,
            tenures,
            until,
        });
        self.see_off();
    }

    pub(super) fn lost(&mut self, partitions: Vec<TopicPartition>) {
        self.metrics.rebalance(Rebalance::Lost);
        tracing::warn!(
            partitions = partitions.len(),
            "partitions were lost: their late results are recorded, not committed"
        );
        self.lobby.forget(&partitions);
        self.leave(&partitions);
    }

    /// Lets go of revoked partitions whose work has ended, or whose time is up.
    pub(super) fn see_off(&mut self) {
        while let Some(leaving) = self.leaving.front() {
            let idle = leaving.tenures.iter().all(|tenure| tenure.is_idle());
            if !idle && Instant::now() < leaving.until {
                return;
            }
            let Some(leaving) = self.leaving.pop_front() else {
                return;
            };
            if !idle {
                tracing::warn!(
                    "a revoked partition is let go with work in flight: what it comes to is recorded late"
                );
            }
            if !self.commit_last(&leaving.tenures, Duration::from_secs(10)) {
                tracing::warn!("the last commit of a revoked partition was not answered in time");
            }
            self.leave(&leaving.partitions);
        }
    }

    /// The last commit of these tenures, tried again as long as there is time and it is not too late.
    pub(super) fn commit_last(&self, tenures: &[Arc<Tenure>], patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.committer.commit_now(tenures.to_vec(), left) {
                Some(CommitResult::Ok) => return true,
                Some(CommitResult::Stale) | None => return false,
                Some(CommitResult::Failed) if Instant::now() + LOOK >= until => return false,
                // A coordinator that refuses at once is not asked without end.
                Some(CommitResult::Failed) => self
                    .runtime
                    .block_on(async { tokio::time::sleep(LOOK).await }),
            }
        }
    }

    fn leave(&mut self, partitions: &[TopicPartition]) {
        self.tenures.let_go(partitions);
        self.owning.forget(partitions);
        self.share_rates();
        for partition in partitions {
            self.spans_full.remove(partition);
        }
        if let Err(error) = self.consumer.let_go(partitions) {
            tracing::warn!(%error, "partitions could not be let go");
        }
        if self.tenures.all().is_empty() {
            self.status.set(NotReady::NotAssigned);
        }
    }
}
