//! From a record to its story: decode, route, key, recall. What cannot be read or routed is set aside as a record.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::dead_letter::Reason;
use crate::domain::dispatch::{Limits, Owner};
use crate::domain::idempotency_key::{IdempotencyKey, IntentFingerprint, LedgerKey};
use crate::domain::intent::Intent;
use crate::domain::intent::decode::{Decoded, IntakeRules, RecordView, decode};
use crate::domain::key_ring::KeyRing;
use crate::domain::ledger_entry::{Story, Subject};
use crate::domain::offset_tracker::{Persisted, Settlement};
use crate::domain::record::Record;
use crate::domain::time::Timestamp;
use crate::telemetry::metrics::Suppressed;
use crate::telemetry::status::NotReady;

use super::super::accounts::VersionFault;
use super::super::order::Turn;
use super::super::tenure::Tenure;
use super::attempting::Case;
use super::setting_aside::About;
use super::{Crew, Job, Stopped};

/// How records are read and keyed.
pub struct Reading {
    /// What a record must be like.
    pub rules: IntakeRules,
    /// The secrets behind the keys.
    pub keys: KeyRing,
    /// How far back the ledger remembers.
    pub retention: Duration,
    /// An older record without a story is not sent.
    pub max_age: Duration,
}

impl Crew {
    /// Reads the record, and sees to it that it ends.
    pub(super) async fn read(&self, job: &Job) -> Result<Settlement, Stopped> {
        let reading = &self.parts.reading;
        match decode(&view(&job.record), &reading.rules) {
            Decoded::Ignored(reason) => {
                self.parts.metrics.ignored(reason);
                Ok(Settlement::Ignored)
            }
            Decoded::Refused(refusal) => {
                let about = About {
                    event_id: refusal.event_id.as_ref().map(|id| Arc::clone(&id.0)),
                    ..About::default()
                };
                let place = &refusal.fault.place;
                let detail = match place.as_str() {
                    "" => refusal.fault.detail.name().to_owned(),
                    place => format!("{} at {place}", refusal.fault.detail.name()),
                };
                Box::pin(self.set_record_aside(job, &about, refusal.reason(), &detail)).await
            }
            Decoded::Intent(intent) => self.read_intent(job, &intent).await,
        }
    }

    async fn read_intent(&self, job: &Job, intent: &Intent) -> Result<Settlement, Stopped> {
        let reading = &self.parts.reading;
        let candidates = reading.keys.candidates(
            intent,
            job.record.timestamp,
            self.parts.clock.now(),
            reading.retention,
        );
        let Found {
            key,
            known,
            behind,
            _flights,
        } = self.find(job, candidates).await?;
        let fingerprint = intent.fingerprint();
        *job.about() = About {
            event_id: Some(Arc::clone(&intent.event_id.0)),
            key: Some(key.clone()),
            fingerprint: Some(fingerprint),
            known: None,
        };
        if let Some((story, _)) = &known
            && story.subject.fingerprint != fingerprint
        {
            let about = About {
                known: Some(story.subject.fingerprint),
                ..About::intent(intent, &key)
            };
            let reason = Reason::PayloadConflict;
            let aside = self.set_record_aside(job, &about, reason, "id_reused");
            return Box::pin(aside).await;
        }
        let story = match known {
            Some((story, persisted)) if story.is_settled() => {
                let reason = if behind {
                    Suppressed::InFlight
                } else {
                    Suppressed::Ledger
                };
                self.parts.metrics.suppressed(reason);
                return Ok(Settlement::Persisted(persisted));
            }
            Some((story, _)) => Some(story),
            None => None,
        };
        match self.case(job, intent, (key.clone(), fingerprint), story.as_deref()) {
            Ok(case) => self.carry_out(job, intent, &case, story).await,
            Err(hindered) => Box::pin(self.hinder(job, intent, &key, story, hindered)).await,
        }
    }

    /// What the series of this intent is about: the account and the version of its profile that began it, if it has begun.
    fn case(
        &self,
        job: &Job,
        intent: &Intent,
        (key, fingerprint): (IdempotencyKey, IntentFingerprint),
        story: Option<&Story>,
    ) -> Result<Case, Hindered> {
        let pinned = story.and_then(|story| story.rendering.as_ref());
        let account = match pinned {
            Some(rendering) => self.parts.accounts.of(&rendering.provider),
            None => self.parts.accounts.route(intent),
        };
        let account = account.ok_or(Hindered::NoRoute)?;
        let profile = match pinned {
            Some(rendering) => account.version(rendering.profile, &*self.parts.ledger)?,
            None => Arc::clone(&account.profile),
        };
        Ok(Case {
            terms: account.terms_of(&profile),
            profile,
            account,
            limits: Limits {
                expires_at: intent.expires_at,
                recorded_at: job.record.timestamp,
                max_age: self.parts.reading.max_age,
                owner: self.owner(&job.tenure),
            },
            subject: Subject {
                event_id: Some(Arc::clone(&intent.event_id.0)),
                key: Some(key),
                fingerprint,
                origin: job.record.position.clone(),
                recorded_at: job.record.timestamp,
            },
        })
    }

    /// The tenure as owner, where others may have worked on its intents before without this ledger's knowing.
    fn owner(&self, tenure: &Tenure) -> Option<Owner> {
        self.parts.log.as_ref()?;
        let since = tenure.owned_since()?;
        let writer = tenure.writer;
        Some(Owner { writer, since })
    }

    /// Ends what cannot be carried out, or waits.
    async fn hinder(
        &self,
        job: &Job,
        intent: &Intent,
        key: &IdempotencyKey,
        story: Option<Arc<Story>>,
        hindered: Hindered,
    ) -> Result<Settlement, Stopped> {
        let (reason, detail) = match (hindered, &story) {
            (Hindered::NoRoute, None) => (Reason::NoRoute, "no_route"),
            (Hindered::NoRoute, Some(_)) => (Reason::NoRoute, "provider_gone"),
            (Hindered::Version(VersionFault::Unreadable(error)), _) => {
                tracing::error!(%error, "the profile that began an intent cannot be read; tried again");
                self.pause(&job.tenure, Duration::from_secs(1)).await?;
                return Err(Stopped::StoryMoved);
            }
            (
                Hindered::Version(fault @ (VersionFault::Gone(_) | VersionFault::Unfit { .. })),
                _,
            ) => {
                // With another profile it would be another request: it waits for a process that has this one.
                let now = self.parts.clock.now();
                let end = self.waits_until(intent, story.as_deref());
                if now < end {
                    if self.parts.status.set(NotReady::ProfileMissing) {
                        tracing::error!(%fault, "the profile that began an intent cannot be had: the intent waits");
                    }
                    let wait = end.since(now).min(Duration::from_secs(30));
                    let waited = self.pause(&job.tenure, wait).await;
                    if waited.is_err() {
                        self.parts.status.clear(NotReady::ProfileMissing);
                    }
                    return Err(waited.err().unwrap_or(Stopped::StoryMoved));
                }
                self.parts.status.clear(NotReady::ProfileMissing);
                (Reason::Expired, "profile_missing")
            }
        };
        match story {
            Some(story) => self.give_up(job, story, reason, detail).await,
            None => {
                let about = About::intent(intent, key);
                self.set_record_aside(job, &about, reason, detail).await
            }
        }
    }

    /// How long an intent waits for the profile that began it: until it expires, and no longer than `intents.max_age` after
    /// the last that was recorded of it.
    fn waits_until(&self, intent: &Intent, story: Option<&Story>) -> Timestamp {
        let begun = story.map_or(Timestamp::EPOCH, |story| story.updated_at);
        let end = begun.plus(self.parts.reading.max_age);
        intent.expires_at.map_or(end, |expiry| expiry.min(end))
    }

    /// Waits until nobody else works under any key that this intent may have, then recalls its story.
    ///
    /// All candidates are taken, in one order that holds for everyone: two copies of an event whose timestamps lie on
    /// both sides of a rotation of secrets must not pass each other.
    async fn find(&self, job: &Job, candidates: Vec<IdempotencyKey>) -> Result<Found, Stopped> {
        let candidates: Vec<_> = candidates
            .into_iter()
            .map(|key| (key.ledger_key(), key))
            .collect();
        let mut keys: Vec<LedgerKey> = candidates.iter().map(|(at, _)| *at).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut flights = Vec::with_capacity(keys.len());
        let mut behind = false;
        for key in keys {
            let (flight, waited) = self.take_flight(job, key).await?;
            behind |= waited;
            flights.push(flight);
        }
        let mut in_force = None;
        for (at, key) in candidates {
            let known = self.recall(job, at).await?;
            if known.is_some() {
                return Ok(Found {
                    key,
                    known,
                    behind,
                    _flights: flights,
                });
            }
            in_force.get_or_insert(key);
        }
        match in_force {
            Some(key) => Ok(Found {
                key,
                known: None,
                behind,
                _flights: flights,
            }),
            None => Err(Stopped::StoryMoved),
        }
    }

    /// Waits until nobody else works under this key. Tells whether there was someone to wait for.
    pub(super) async fn take_flight(
        &self,
        job: &Job,
        key: LedgerKey,
    ) -> Result<(Turn<LedgerKey>, bool), Stopped> {
        let flight = self.in_flight.enter(key);
        let behind = flight.is_behind();
        if behind {
            tokio::select! {
                () = flight.reached() => {}
                () = job.tenure.over() => return Err(Stopped::TenureOver),
            }
        }
        Ok((flight, behind))
    }
}

/// Why an intent cannot be carried out.
enum Hindered {
    /// Its provider is not configured.
    NoRoute,
    /// The version of the profile that began it cannot be had.
    Version(VersionFault),
}

impl From<VersionFault> for Hindered {
    fn from(fault: VersionFault) -> Self {
        Self::Version(fault)
    }
}

/// An intent's key and story, and the right to work on it alone.
struct Found {
    key: IdempotencyKey,
    known: Option<(Arc<Story>, Persisted)>,
    behind: bool,
    _flights: Vec<Turn<LedgerKey>>,
}

fn view(record: &Record) -> RecordView<'_> {
    RecordView {
        value: record.value.as_deref(),
        headers: &record.headers,
        headers_unreadable: record.headers_unreadable,
    }
}
