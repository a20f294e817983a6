//! Answers the group's rebalances: how a partition comes to us, when work on it may begin, and how it is let go.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::KafkaError;
use tokio::time::Instant;

use crate::adapters::kafka::consumer::Beginning;
use crate::domain::position::{NextOffset, TopicPartition};
use crate::telemetry::metrics::{CommitResult, Rebalance};
use crate::telemetry::status::NotReady;

use super::disputes::Opened;
use super::{Intake, LOOK, Leaving};
use crate::pipeline::owning::OwningNews;
use crate::pipeline::tenure::Tenure;

/// How long a broker may take to say where a partition begins.
const ASK: Duration = Duration::from_secs(1);

impl Intake {
    pub(super) fn take_up(&mut self, partitions: Vec<TopicPartition>) -> Result<(), KafkaError> {
        self.metrics.rebalance(Rebalance::Assigned);
        self.disown(&partitions);
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
            self.dispute(partition);
        }
        for partition in self.disputes.due(Instant::now()) {
            self.ask_whose(&partition);
        }
        for (partition, from, answer) in self.disputes.answers() {
            match answer {
                Some(CommitResult::Ok) => self.confirmed(&partition, from),
                Some(CommitResult::Stale | CommitResult::Failed) | None => {
                    self.disputes.ask_later(&partition, Instant::now());
                }
            }
        }
    }

    /// Another instance has said in the ledger topic that it owns the partition, and so our tenure has ended. It waits, and the
    /// coordinator is asked whose it is.
    fn dispute(&mut self, partition: TopicPartition) {
        let is_leaving = |leaving: &Leaving| leaving.partitions.contains(&partition);
        let has_ended = self.tenures.of(&partition).is_some_and(|of| of.is_over());
        if !has_ended || self.leaving.iter().any(is_leaving) {
            return;
        }
        self.pause(std::slice::from_ref(&partition));
        self.status.set(NotReady::OwnerDisputed);
        let jitter = self.crew.jitter();
        let opened = self
            .disputes
            .open(partition.clone(), Instant::now(), jitter);
        if opened == Opened::Repeated {
            tracing::warn!(
                %partition,
                "another instance takes the partition in the ledger topic again and again: another group uses the same ledger topic, or an instance does not let go. It is taken back ever more seldom"
            );
        }
    }

    /// Asks the coordinator, without waiting for the answer.
    fn ask_whose(&mut self, partition: &TopicPartition) {
        let Some(tenure) = self.tenures.of(partition) else {
            self.disputes.forget(std::slice::from_ref(partition));
            return;
        };
        let known = tenure.committable().or(tenure.begun_at());
        // Nothing has been committed or read yet: it begins at the oldest record.
        let from = known.or_else(|| {
            let (low, _) = self.consumer.watermarks(partition, ASK).ok()?;
            Some(NextOffset(low.0))
        });
        match from {
            Some(from) => {
                let answer = self.committer.confirm(tenure, from);
                self.disputes.asked(partition, from, answer);
            }
            None => self.disputes.ask_later(partition, Instant::now()),
        }
    }

    /// The coordinator says that it is ours: what was said in the ledger topic was an earlier owner's late word, or another
    /// group's. A new tenure begins, and says so after it.
    fn confirmed(&mut self, partition: &TopicPartition, from: NextOffset) {
        if let Err(error) = self.consumer.read_from(partition, from) {
            tracing::warn!(%error, %partition, "reading could not go back; tried again");
            self.disputes.ask_later(partition, Instant::now());
            return;
        }
        self.disputes.close(partition, Instant::now());
        self.clear_disputed();
        self.lobby.forget(std::slice::from_ref(partition));
        let writer = self.crew.writer_name();
        let tenure = self
            .tenures
            .begin(partition.clone(), writer, Beginning::Committed(from));
        tracing::info!(%partition, epoch = tenure.epoch.0, from = from.0, "confirmed to be ours: a new tenure begins");
        self.own(&tenure);
    }

    /// No word of the ledger topic about these counts any more: they are not ours, or come to us anew.
    fn disown(&mut self, partitions: &[TopicPartition]) {
        self.owning.forget(partitions);
        self.disputes.forget(partitions);
        self.clear_disputed();
    }

    fn clear_disputed(&self) {
        if self.disputes.all_closed() {
            self.status.clear(NotReady::OwnerDisputed);
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
        self.disown(&partitions);
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
        self.disown(partitions);
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
