//! Sets intents and records aside: the decision durable, the dead letter acknowledged, its place durable.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::domain::dead_letter::{Letter, Reason};
use crate::domain::idempotency_key::{IdempotencyKey, IntentFingerprint};
use crate::domain::intent::Intent;
use crate::domain::ledger_entry::{DeadCause, Fact, Standing, Story, Subject};
use crate::domain::offset_tracker::{Persisted, Settlement};
use crate::domain::position::Position;
use crate::domain::record::Record;
use crate::telemetry::metrics::Suppressed;
use crate::telemetry::status::NotReady;

use super::{Crew, Job, Stopped};

/// What is known of a record that is set aside as a record.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// The event's id, if it could be read.
    pub(super) event_id: Option<Arc<str>>,
    /// The key that it would have been sent under.
    pub(super) key: Option<IdempotencyKey>,
    /// The fingerprint of its intent.
    pub(super) fingerprint: Option<IntentFingerprint>,
    /// At a conflict, the fingerprint of what the ledger knows under its key.
    pub(super) known: Option<IntentFingerprint>,
}

impl About {
    /// An intent that gets no story under its key.
    pub(super) fn intent(intent: &Intent, key: &IdempotencyKey) -> Self {
        Self {
            event_id: Some(Arc::clone(&intent.event_id.0)),
            key: Some(key.clone()),
            fingerprint: Some(intent.fingerprint()),
            known: None,
        }
    }

    /// What the ledger remembers it under: its place and its bytes.
    fn subject(&self, record: &Record) -> Subject {
        let hash: [u8; 32] = Sha256::digest(record.value.as_deref().unwrap_or_default()).into();
        Subject {
            event_id: self.event_id.clone(),
            key: None,
            fingerprint: IntentFingerprint(hash),
            origin: record.position.clone(),
            recorded_at: record.timestamp,
        }
    }
}

impl Crew {
    /// Sets a record aside that has no story of its own: unreadable, without a route, or in conflict with a story.
    pub(super) async fn set_record_aside(
        &self,
        job: &Job,
        about: &About,
        reason: Reason,
        detail: &str,
    ) -> Result<Settlement, Stopped> {
        let subject = about.subject(&job.record);
        let key = subject.ledger_key();
        let (_flight, _) = self.take_flight(job, key).await?;
        let story = match self.recall(job, key).await? {
            Some((story, persisted)) if story.is_settled() => {
                self.parts.metrics.suppressed(Suppressed::Ledger);
                return Ok(Settlement::Persisted(persisted));
            }
            Some((story, _)) => story,
            None => {
                let detail = detail.into();
                let fact = Fact::DeadLettering { reason, detail };
                self.persist(job, &subject, None, 0, fact).await?.0
            }
        };
        let position = &job.record.position;
        tracing::warn!(%position, event_id = subject.event_id.as_deref(), %reason, detail, "record set aside");
        let letter = |cause: &DeadCause| Letter {
            key: about.key.clone(),
            intent_fingerprint: about.fingerprint,
            known_fingerprint: about.known,
            ..self.letter(&subject, Some(&story), cause)
        };
        self.finish_aside(job, &subject, Arc::clone(&story), letter)
            .await
    }

    /// Sets a record aside on which work panics each time it is begun. If its story may have been taken, the reason says so.
    ///
    /// Where not even the key was found before the panic, nothing is known of a story.
    pub(super) async fn set_panicked_aside(&self, job: &Job) -> Result<Settlement, Stopped> {
        let (reason, detail) = (Reason::Malformed, "panicked");
        let mut about = job.about().clone();
        let Some(key) = about.key.as_ref().map(IdempotencyKey::ledger_key) else {
            return self.set_record_aside(job, &about, reason, detail).await;
        };
        let (_flight, _) = self.take_flight(job, key).await?;
        let Some((story, persisted)) = self.recall(job, key).await? else {
            return self.set_record_aside(job, &about, reason, detail).await;
        };
        if about.fingerprint != Some(story.subject.fingerprint) {
            about.known = Some(story.subject.fingerprint);
            return self.set_record_aside(job, &about, reason, detail).await;
        }
        if story.is_settled() {
            self.parts.metrics.suppressed(Suppressed::Ledger);
            return Ok(Settlement::Persisted(persisted));
        }
        self.give_up(job, story, reason, detail).await
    }

    /// Ends a series that cannot go on. If an attempt may have been taken, the reason is `outcome_unknown`.
    pub(super) async fn give_up(
        &self,
        job: &Job,
        story: Arc<Story>,
        reason: Reason,
        detail: &'static str,
    ) -> Result<Settlement, Stopped> {
        let subject = story.subject.clone();
        let story = match story.standing() {
            Standing::DeadLettering(_) => story,
            Standing::Open | Standing::Accepted(_) | Standing::DeadLettered(_) => {
                let reason = if story.may_have_been_taken() {
                    Reason::OutcomeUnknown
                } else {
                    reason
                };
                let round = story.round();
                let fact = Fact::DeadLettering {
                    reason,
                    detail: detail.into(),
                };
                self.persist(job, &subject, Some(story), round, fact)
                    .await?
                    .0
            }
        };
        let letter = |cause: &DeadCause| self.letter(&subject, Some(&story), cause);
        self.finish_aside(job, &subject, Arc::clone(&story), letter)
            .await
    }

    async fn finish_aside(
        &self,
        job: &Job,
        subject: &Subject,
        story: Arc<Story>,
        letter: impl FnOnce(&DeadCause) -> Letter,
    ) -> Result<Settlement, Stopped> {
        let Standing::DeadLettering(cause) = story.standing() else {
            return Err(Stopped::StoryMoved);
        };
        let (round, reason) = (story.round(), cause.reason);
        let letter = letter(cause);
        let at = self.produce(job, &letter).await?;
        let (_, proof) = self
            .bury(job, subject, Some(story), (round, reason), at)
            .await?;
        Ok(Settlement::Persisted(proof))
    }

    /// Persists where the broker put the dead letter, and counts it.
    pub(super) async fn bury(
        &self,
        job: &Job,
        subject: &Subject,
        story: Option<Arc<Story>>,
        (round, reason): (u32, Reason),
        at: Position,
    ) -> Result<(Arc<Story>, Persisted), Stopped> {
        let _counting = self.parts.depth.counting().await;
        let fact = Fact::DeadLettered { at };
        let before = story.clone();
        let durable = self.persist(job, subject, story, round, fact).await?;
        self.parts.metrics.dead_letter(reason);
        self.parts.depth.changed(before.as_deref(), &durable.0);
        Ok(durable)
    }

    /// What the dead letter of this story tells.
    pub(super) fn letter(
        &self,
        subject: &Subject,
        story: Option<&Story>,
        cause: &DeadCause,
    ) -> Letter {
        let last = story.and_then(|story| {
            story
                .attempts
                .values()
                .filter_map(|facts| facts.answered.as_ref())
                .next_back()
        });
        let rendering = story.and_then(|story| story.rendering.as_ref());
        let attempts = story.map_or(0, |story| story.attempts.len());
        Letter {
            origin: subject.origin.clone(),
            group: Arc::clone(&self.parts.group),
            reason: cause.reason,
            detail: cause.detail.to_string(),
            event_id: subject.event_id.clone(),
            key: subject.key.clone(),
            provider: rendering.map(|rendering| Arc::clone(&rendering.provider)),
            status: last.and_then(|answer| answer.status),
            provider_code: last.and_then(|answer| answer.provider_code.clone()),
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            first_attempt_at: story.and_then(Story::first_start).map(|start| start.at),
            last_attempt_at: story.and_then(Story::last_start).map(|start| start.at),
            round: story.map_or(0, Story::round),
            intent_fingerprint: subject.key.is_some().then_some(subject.fingerprint),
            request_fingerprint: rendering.map(|rendering| rendering.request),
            known_fingerprint: None,
        }
    }

    /// Produces the dead letter, and goes on trying until the broker has acknowledged it.
    pub(super) async fn produce(&self, job: &Job, letter: &Letter) -> Result<Position, Stopped> {
        let mut pause = Duration::from_millis(500);
        loop {
            match self.parts.dead_letters.produce(&job.record, letter).await {
                Ok(at) => {
                    self.parts.status.clear(NotReady::DeadLettersUnavailable);
                    return Ok(at);
                }
                Err(error) => {
                    if self.parts.status.set(NotReady::DeadLettersUnavailable) {
                        tracing::error!(%error, "a dead letter was not acknowledged; tried again until it is");
                    }
                }
            }
            self.pause(&job.tenure, pause).await?;
            pause = (pause * 2).min(Duration::from_secs(30));
        }
    }

    /// The proof that the story under this subject is durable, from the ledger itself.
    pub(super) async fn proof_of(
        &self,
        job: &Job,
        subject: &Subject,
    ) -> Result<Persisted, Stopped> {
        match self.recall(job, subject.ledger_key()).await? {
            Some((_, persisted)) => Ok(persisted),
            None => Err(Stopped::StoryMoved),
        }
    }
}
