//! Carries out the steps of an intent's life, one after the other, until its end is durable.

use std::sync::Arc;

use crate::adapters::clock::BootMoment;
use crate::domain::attempt::{Classified, Flags, Verdict, Wait, WaitScope, Withheld};
use crate::domain::classify::{Answer, Circumstances, classify, is_alarm};
use crate::domain::dead_letter::Reason;
use crate::domain::dispatch::{self, Limits, Step, Terms};
use crate::domain::intent::Intent;
use crate::domain::ledger_entry::{Fact, Rendering, Standing, Story, Subject};
use crate::domain::offset_tracker::{Persisted, Settlement};
use crate::domain::profile::Profile;
use crate::domain::render::{RenderProblem, RenderedRequest, render};
use crate::domain::time::Timestamp;
use crate::telemetry::metrics::Outcome;

use super::super::accounts::{Account, Pass};
use super::setting_aside::About;
use super::{Crew, Job, Stopped};

/// What a series of attempts is about.
pub(super) struct Case {
    /// Where its requests go.
    pub(super) account: Arc<Account>,
    /// The version of the profile that renders and judges: pinned by the first attempt.
    pub(super) profile: Arc<Profile>,
    /// That version's terms.
    pub(super) terms: Terms,
    /// What the intent itself says about sending.
    pub(super) limits: Limits,
    /// What the ledger remembers about.
    pub(super) subject: Subject,
}

/// The attempt that is to be made.
struct Next {
    round: u32,
    attempt: u32,
    deadline: Timestamp,
}

impl Crew {
    /// Goes on with the intent from its story until its end is durable.
    pub(super) async fn carry_out(
        &self,
        job: &Job,
        intent: &Intent,
        case: &Case,
        mut story: Option<Arc<Story>>,
    ) -> Result<Settlement, Stopped> {
        let mut request: Option<RenderedRequest> = None;
        let mut pass: Option<Pass> = None;
        let mut proof: Option<Persisted> = None;
        loop {
            let (now, jitter) = (self.parts.clock.now(), self.parts.clock.jitter());
            let terms = &case.terms;
            let step = dispatch::next(story.as_deref(), terms, &case.limits, now, jitter);
            match step {
                Step::Settle => {
                    let proof = match proof {
                        Some(proof) => proof,
                        None => self.proof_of(job, &case.subject).await?,
                    };
                    if let Some(story) = &story {
                        self.count_end(job, case, story);
                    }
                    return Ok(Settlement::Persisted(proof));
                }
                Step::Wait { until } => {
                    pass = None;
                    self.pause_until(&job.tenure, until).await?;
                }
                Step::Conclude { id, answer } => {
                    let fact = Fact::Answered {
                        attempt: id.attempt,
                        answer,
                    };
                    let by = (id.round, id.writer);
                    let (known, durable) =
                        self.persist_by(job, &case.subject, story, by, fact).await?;
                    (story, proof) = (Some(known), Some(durable));
                }
                Step::LookUp { round, detail } => {
                    pass = None;
                    let Some(asked) = &story else {
                        return Err(Stopped::StoryMoved);
                    };
                    let (known, durable) =
                        match Box::pin(self.look_up(job, intent, case, asked)).await? {
                            Some(proved) => proved,
                            None => {
                                let reason = Reason::OutcomeUnknown;
                                let fact = Fact::DeadLettering { reason, detail };
                                self.persist(job, &case.subject, story, round, fact).await?
                            }
                        };
                    (story, proof) = (Some(known), Some(durable));
                }
                Step::SetAside {
                    round,
                    reason,
                    detail,
                } => {
                    let fact = Fact::DeadLettering { reason, detail };
                    let (known, durable) =
                        self.persist(job, &case.subject, story, round, fact).await?;
                    (story, proof) = (Some(known), Some(durable));
                }
                Step::ProduceDeadLetter { round, cause } => {
                    let letter = self.letter(&case.subject, story.as_deref(), &cause);
                    let at = Box::pin(self.produce(job, &letter)).await?;
                    let what = (round, cause.reason);
                    let buried = self.bury(job, &case.subject, story, what, at);
                    let (known, durable) = Box::pin(buried).await?;
                    (story, proof) = (Some(known), Some(durable));
                }
                Step::Start {
                    round,
                    attempt,
                    deadline,
                } => {
                    if job.tenure.is_over() {
                        return Err(Stopped::TenureOver);
                    }
                    let Some(ready) = pass.take() else {
                        pass = self.pass(job, intent, case, story.as_deref()).await?;
                        continue;
                    };
                    let request = match &request {
                        // An earlier start of another tenure has come, and says how it is rendered: begun anew.
                        Some(request) if !is_pinned(story.as_deref(), request) => {
                            return Err(Stopped::StoryMoved);
                        }
                        Some(request) => request,
                        None => match self.render(case, intent, story.as_deref()) {
                            Ok(rendered) => request.insert(rendered),
                            Err((reason, detail)) => {
                                // Nothing is asked of the account: its dead letter may wait for long.
                                match story {
                                    None => ready.not_rendered(&self.parts.clock),
                                    Some(_) => drop(ready),
                                }
                                let why = (reason, detail.as_str());
                                let aside = self.cannot_render(job, intent, case, story, why);
                                return Box::pin(aside).await;
                            }
                        },
                    };
                    let next = Next {
                        round,
                        attempt,
                        deadline,
                    };
                    let made = self.attempt(job, (intent, case), story, request, &next, ready);
                    let (known, durable) = Box::pin(made).await?;
                    (story, proof) = (Some(known), Some(durable));
                }
            }
        }
    }

    /// Makes one attempt: its start durable, its request, its answer durable.
    async fn attempt(
        &self,
        job: &Job,
        (intent, case): (&Intent, &Case),
        story: Option<Arc<Story>>,
        request: &RenderedRequest,
        next: &Next,
        mut pass: Pass,
    ) -> Result<(Arc<Story>, Persisted), Stopped> {
        let account = &case.account;
        let first = story.as_ref().is_none_or(|story| story.attempts.is_empty());
        let latest = BootMoment::after(next.deadline.since(self.parts.clock.now()));
        let rendering = match story.as_ref().and_then(|story| story.rendering.clone()) {
            Some(rendering) => rendering,
            None => Rendering {
                provider: Arc::clone(&account.name),
                profile: case.profile.hash(),
                request: request.fingerprint,
            },
        };
        let attempt = next.attempt;
        let fact = Fact::Started {
            attempt,
            deadline: next.deadline,
            rendering,
        };
        let entry = self.entry(&case.subject, (next.round, job.tenure.writer), fact);
        let ((story, _), place) = self.persist_start(job, story, entry).await?;
        let (may_leave, story) = self.log_allows(job, (story, place)).await?;

        let _on_its_way = self.departs(case, intent);
        let started = self.parts.clock.now();
        let terms = &case.terms;
        let may_send = dispatch::may_send(&story, terms, &case.limits, next.deadline, started);
        let leave = may_leave.and(may_send);
        let (mut classified, answer) = match leave {
            Err(reason) => (withheld(reason), None),
            Ok(()) if job.tenure.is_over() => (withheld(Withheld::TenureOver), None),
            Ok(()) => {
                // Its time begins now, after the flush, and never ends after what was recorded.
                let end = BootMoment::after(terms.request_span).min(latest);
                let first_start = story.first_start().map_or(started, |start| start.at);
                let dated = request.dated(first_start);
                let answer = account.client.send(&dated, end).await;
                let circumstances = Circumstances {
                    first_attempt: first,
                    now: self.parts.clock.now(),
                    wait_max: self.parts.wait_max,
                };
                let classified = classify(&case.profile, &answer, &circumstances);
                (classified, Some(answer))
            }
        };
        // Before the place goes to the next one, who may be for the same recipient.
        if let Some(Wait {
            at_least,
            scope: WaitScope::Recipient,
            ..
        }) = classified.wait
        {
            let jitter = self.parts.clock.jitter();
            account
                .recipients
                .asked(&intent.recipient, at_least, jitter);
        }
        pass.leave_place(classified.verdict, &self.parts.clock);

        let now = self.parts.clock.now();
        let heard = answer.as_ref().is_none_or(Answer::is_heard);
        if let Some(answer) = &answer {
            classified.flags.outage = pass.answered(answer, &classified, &self.parts.clock);
        }
        self.count_attempt(job, case, &classified, first, now.since(started));
        let jitter = self.parts.clock.jitter();
        let answer = dispatch::answered(&classified, heard, &story, terms, now, jitter);
        let message_id = answer.message_id.clone();
        let was_accepted = answer.verdict == Verdict::Accepted;
        let fact = Fact::Answered { attempt, answer };
        let persisted = self
            .persist(job, &case.subject, Some(story), next.round, fact)
            .await;
        if was_accepted && let Some(lookup) = &case.profile.lookup {
            let explained = &account.explained;
            explained.accepted(message_id.as_deref(), now, lookup.keeps);
        }
        persisted
    }

    fn render(
        &self,
        case: &Case,
        intent: &Intent,
        story: Option<&Story>,
    ) -> Result<RenderedRequest, (Reason, String)> {
        let pinned = story.and_then(|story| story.rendering.as_ref());
        let malformed = |detail: String| (Reason::Malformed, detail);
        let key = case.subject.key.as_ref();
        let key = key.ok_or_else(|| malformed("no_key".to_owned()))?;
        let request = render(&case.profile, intent, key).map_err(|fault| match fault.problem {
            RenderProblem::TooLong => (Reason::TooLarge, fault.problem.to_string()),
            RenderProblem::Undefined
            | RenderProblem::Absent
            | RenderProblem::Failed
            | RenderProblem::NotText
            | RenderProblem::NotJson
            | RenderProblem::NotInHeader
            | RenderProblem::NotInPath
            | RenderProblem::Unbound => malformed(fault.to_string()),
        })?;
        match pinned {
            Some(rendering) if rendering.request != request.fingerprint => {
                Err(malformed("request_changed".to_owned()))
            }
            Some(_) | None => Ok(request),
        }
    }

    async fn cannot_render(
        &self,
        job: &Job,
        intent: &Intent,
        case: &Case,
        story: Option<Arc<Story>>,
        (reason, detail): (Reason, &str),
    ) -> Result<Settlement, Stopped> {
        tracing::error!(
            event_id = &*intent.event_id.0, provider = %case.account.name, detail,
            "the request cannot be rendered; nothing is sent"
        );
        match story {
            Some(story) => {
                self.give_up(job, story, Reason::PayloadConflict, "request_changed")
                    .await
            }
            None => {
                let about = match &case.subject.key {
                    Some(key) => About::intent(intent, key),
                    None => About::default(),
                };
                self.set_record_aside(job, &about, reason, detail).await
            }
        }
    }

    fn count_attempt(
        &self,
        job: &Job,
        case: &Case,
        classified: &Classified,
        first: bool,
        took: std::time::Duration,
    ) {
        let provider = &case.account.metrics;
        provider.attempt(classified.verdict, took);
        if classified.flags.unmatched {
            provider.unmatched();
        }
        if classified.flags.replay {
            provider.replay();
        }
        if is_alarm(classified, first) {
            provider.suspected_duplicate();
            tracing::error!(
                event_id = case.subject.event_id.as_deref(), key = %KeyOf(case), provider = %case.account.name,
                "the provider already knew the key of a first attempt: a lost ledger, or another user of the namespace"
            );
        }
        let Classified {
            verdict,
            status,
            detail,
            ..
        } = classified;
        let event_id = case.subject.event_id.as_deref();
        let (key, position) = (KeyOf(case), &job.record.position);
        tracing::debug!(event_id, %key, %position, %verdict, status, detail, "attempt answered");
        let now = self.parts.clock.now();
        let trouble = match classified.wait {
            Some(Wait {
                unit_doubt: true, ..
            }) => "asks for a wait in seconds that looks like milliseconds, and is kept to",
            Some(_) | None => detail,
        };
        if let Some(trouble) = case.account.trouble(*verdict, trouble, now) {
            tracing::warn!(
                provider = %case.account.name, %trouble,
                "attempts were not accepted; told at most once a minute"
            );
        }
    }

    fn count_end(&self, job: &Job, case: &Case, story: &Story) {
        let provider = &case.account.metrics;
        match story.standing() {
            Standing::Accepted(answer) => {
                provider.outcome(Outcome::Accepted);
                if answer.flags.id_absent {
                    provider.id_absent();
                }
                let latency = self.parts.clock.now().since(job.record.timestamp);
                provider.send_latency(job.order.lane, latency);
            }
            Standing::DeadLettered(_) | Standing::DeadLettering(_) => {
                provider.outcome(Outcome::DeadLettered);
            }
            Standing::Open => {}
        }
    }
}

/// Whether a story's requests are this one, as far as it says.
fn is_pinned(story: Option<&Story>, request: &RenderedRequest) -> bool {
    let rendering = story.and_then(|story| story.rendering.as_ref());
    rendering.is_none_or(|rendering| rendering.request == request.fingerprint)
}

struct KeyOf<'a>(&'a Case);

impl std::fmt::Display for KeyOf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.subject.key {
            Some(key) => key.fmt(f),
            None => f.write_str("none"),
        }
    }
}

fn withheld(reason: Withheld) -> Classified {
    Classified {
        verdict: Verdict::NotSent,
        flags: Flags::default(),
        wait: None,
        message_id: None,
        status: None,
        provider_code: None,
        detail: reason.name(),
    }
}
