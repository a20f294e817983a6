//! Records what happens: on the disk, and in the ledger topic where there is one. Nothing that follows from an entry is done
//! before it is durable wherever it has to be.
//!
//! - A start: on the disk and in the topic. Its request leaves only after it has been read back from there as the owner's.
//! - What has happened (an answer, a dead letter in its topic): on the disk, then in the topic, whoever has the partition now.
//!   The disk keeps it if the brokers are away.
//! - A decision to set aside: in the topic, and on the disk once it has been read back as the owner's.

use std::sync::Arc;
use std::time::Duration;

use crate::adapters::ledger::LedgerError;
use crate::domain::attempt::Withheld;
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::ledger_entry::{Entry, Fact, Story, Subject, Writer};
use crate::domain::ledger_log::{Appended, Claim, Logged};
use crate::domain::offset_tracker::Persisted;
use crate::telemetry::status::NotReady;

use super::{Crew, Job, Stopped};
use crate::pipeline::ledger_log::LedgerLog;

/// Where a start is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the disk, and there is no ledger topic.
    OnDisk,
    /// On the disk and in the ledger topic.
    InLog(Appended),
    /// On the disk, and perhaps in the ledger topic: its tenure ended before that was known.
    Nowhere,
}

/// A story that is durable, with the proof.
pub(super) type Durable = (Arc<Story>, Persisted);

impl Crew {
    /// Folds `fact` into the story, durably. Waits as long as the ledger cannot be written.
    pub(super) async fn persist(
        &self,
        job: &Job,
        subject: &Subject,
        story: Option<Arc<Story>>,
        round: u32,
        fact: Fact,
    ) -> Result<Durable, Stopped> {
        self.persist_by(job, subject, story, (round, job.tenure.writer), fact)
            .await
    }

    /// The same, in another writer's name: for what is concluded of an attempt whose maker died.
    pub(super) async fn persist_by(
        &self,
        job: &Job,
        subject: &Subject,
        story: Option<Arc<Story>>,
        (round, writer): (u32, Writer),
        fact: Fact,
    ) -> Result<Durable, Stopped> {
        let entry = self.entry(subject, (round, writer), fact);
        match (&entry.fact, &self.parts.log) {
            (_, None) => self.persist_on_disk(job, story, &entry).await,
            (Fact::Started { .. }, Some(_)) => self
                .persist_start(job, story, entry)
                .await
                .map(|(durable, _)| durable),
            (Fact::Answered { .. } | Fact::DeadLettered { .. }, Some(log)) => {
                let _owed = log.owed(entry.at);
                let durable = self.persist_on_disk(job, story, &entry).await?;
                log.append(&subject.origin.partition, &logged(entry)).await;
                Ok(durable)
            }
            (Fact::DeadLettering { .. }, Some(log)) => self.decide(job, log, entry).await,
        }
    }

    /// What happens now, as an entry.
    pub(super) fn entry(
        &self,
        subject: &Subject,
        (round, writer): (u32, Writer),
        fact: Fact,
    ) -> Entry {
        Entry {
            subject: subject.clone(),
            at: self.parts.clock.now(),
            round,
            writer,
            fact,
        }
    }

    /// Folds a start into the story, on the disk and in the topic.
    pub(super) async fn persist_start(
        &self,
        job: &Job,
        story: Option<Arc<Story>>,
        entry: Entry,
    ) -> Result<(Durable, Place), Stopped> {
        let durable = self.persist_on_disk(job, story, &entry).await?;
        let Some(log) = &self.parts.log else {
            return Ok((durable, Place::OnDisk));
        };
        let logged = logged(entry);
        let place = tokio::select! {
            offset = log.append(&job.tenure.partition, &logged) => Place::InLog(offset),
            () = job.tenure.over() => Place::Nowhere,
        };
        Ok((durable, place))
    }

    /// Writes the decision into the topic, and takes it from there.
    async fn decide(&self, job: &Job, log: &LedgerLog, entry: Entry) -> Result<Durable, Stopped> {
        let key = entry.subject.ledger_key();
        let logged = logged(entry);
        let offset = tokio::select! {
            offset = log.append(&job.tenure.partition, &logged) => offset,
            () = job.tenure.over() => return Err(Stopped::TenureOver),
        };
        match log.claim(&job.tenure, offset).await {
            Claim::Good => {}
            Claim::NotYet | Claim::Fenced => return Err(Stopped::TenureOver),
        }
        let decided = self.recall(job, key).await?;
        decided.ok_or(Stopped::StoryMoved)
    }

    /// Whether a start that stands there is a leave to send, as far as the ledger topic is concerned, and the story as it is now.
    /// It is one once it has been read back, with its tenure still the owner's and nothing new in the story.
    pub(super) async fn log_allows(
        &self,
        job: &Job,
        (story, place): (Arc<Story>, Place),
    ) -> Result<(Result<(), Withheld>, Arc<Story>), Stopped> {
        let offset = match place {
            Place::OnDisk => return Ok((Ok(()), story)),
            Place::Nowhere => return Ok((Err(Withheld::TenureOver), story)),
            Place::InLog(offset) => offset,
        };
        let claim = match &self.parts.log {
            Some(log) => log.claim(&job.tenure, offset).await,
            None => Claim::Fenced,
        };
        let known = self.recall(job, story.subject.ledger_key()).await?;
        let known = known.map_or_else(|| Arc::clone(&story), |(known, _)| known);
        let leave = match claim {
            Claim::NotYet | Claim::Fenced => Err(Withheld::TenureOver),
            Claim::Good if known != story => Err(Withheld::NewsCame),
            Claim::Good => Ok(()),
        };
        Ok((leave, known))
    }

    /// Waits as long as the ledger cannot be written.
    async fn persist_on_disk(
        &self,
        job: &Job,
        mut story: Option<Arc<Story>>,
        entry: &Entry,
    ) -> Result<Durable, Stopped> {
        let is_late_news = matches!(
            entry.fact,
            Fact::Answered { .. } | Fact::DeadLettered { .. }
        );
        loop {
            let persisting = self.parts.ledger.persist(story.clone(), entry.clone());
            match persisting.await {
                Ok(recorded) => {
                    self.parts.status.clear(NotReady::LedgerNotWritable);
                    return Ok((recorded.story, recorded.persisted));
                }
                // What has happened is added to whatever others have made of the story meanwhile.
                Err(LedgerError::Moved(key)) if is_late_news => {
                    story = self.recall(job, key).await?.map(|(story, _)| story);
                }
                Err(LedgerError::Moved(_)) => return Err(Stopped::StoryMoved),
                Err(LedgerError::Closed) => return Err(self.without_ledger(job).await),
                Err(error @ (LedgerError::Unwritable(_) | LedgerError::Damaged(_))) => {
                    if self.parts.status.set(NotReady::LedgerNotWritable) {
                        tracing::error!(%error, "nothing is sent until the ledger takes writes again");
                    }
                    if is_late_news {
                        // What has happened is recorded whoever has the partition now.
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    } else {
                        self.pause(&job.tenure, Duration::from_secs(1)).await?;
                    }
                }
            }
        }
    }

    /// The durable story under `key`. Waits as long as the ledger cannot be read.
    pub(super) async fn recall(
        &self,
        job: &Job,
        key: LedgerKey,
    ) -> Result<Option<Durable>, Stopped> {
        loop {
            match self.parts.ledger.recall(key) {
                Ok(found) => return Ok(found.map(|found| (found.story, found.persisted))),
                Err(LedgerError::Closed) => return Err(self.without_ledger(job).await),
                Err(LedgerError::Moved(_)) => return Err(Stopped::StoryMoved),
                Err(error @ (LedgerError::Unwritable(_) | LedgerError::Damaged(_))) => {
                    if self.parts.status.set(NotReady::LedgerNotWritable) {
                        tracing::error!(%error, "nothing is sent while the ledger cannot be read");
                    }
                    self.pause(&job.tenure, Duration::from_secs(1)).await?;
                }
            }
        }
    }

    /// What becomes of a record when the ledger has ended: it stays open and unsent until its tenure is over. Nothing but
    /// another process can go on with it, so the service is told.
    async fn without_ledger(&self, job: &Job) -> Stopped {
        // First of all, so that whoever is told of the end finds the reason.
        self.parts.status.set(NotReady::LedgerNotWritable);
        let is_news = !self.ledger_ended.send_replace(true);
        // At the end of the process it is closed under whoever was too late.
        if is_news && !job.tenure.is_over() {
            tracing::error!(
                "the ledger has ended by itself: nothing is sent any more, and the process ends"
            );
        }
        job.tenure.over().await;
        Stopped::TenureOver
    }
}

fn logged(entry: Entry) -> Logged {
    Logged::Entry(Box::new(entry))
}
