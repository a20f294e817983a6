//! Asks a provider whether it took a message, and records what that proves. An answer that proves nothing is asked for
//! again, as often as the budget of attempts allows; then the outcome stays unknown. What fails while the provider as a
//! whole is down does not count, within bounds: it is asked seldom then.

use std::sync::Arc;
use std::time::Duration;

use crate::adapters::clock::BootMoment;
use crate::domain::classify::NotSentCause;
use crate::domain::dispatch;
use crate::domain::intent::Intent;
use crate::domain::ledger_entry::{Fact, Story};
use crate::domain::offset_tracker::Persisted;
use crate::domain::profile::{Lookup, LookupProof};
use crate::domain::reconcile::{Finding, Question, judge};
use crate::domain::render::render_lookup;

use super::super::explained::OnItsWay;
use super::super::places::Precedence;
use super::attempting::Case;
use super::{Crew, Job, Stopped};

/// The most look-ups of one outcome that are not counted: two hours, by the time between probes that is the default.
const SPARED_MAX: u32 = 120;

impl Crew {
    /// Asks until the provider's answer proves something, and makes that durable. `None` if it never did.
    pub(super) async fn look_up(
        &self,
        job: &Job,
        intent: &Intent,
        case: &Case,
        story: &Arc<Story>,
    ) -> Result<Option<(Arc<Story>, Persisted)>, Stopped> {
        let Some(lookup) = &case.profile.lookup else {
            return Ok(None);
        };
        let (mut asked, mut spared) = (0, 0);
        while asked < case.terms.budget && spared < SPARED_MAX {
            let (finding, is_spared) = self.ask_once(job, intent, case, story, lookup).await?;
            case.account.metrics.looked_up(&finding);
            let event_id = case.subject.event_id.as_deref();
            tracing::info!(event_id, position = %job.record.position, provider = %case.account.name, finding = finding.name(),
                detail = finding.detail(), "an unknown outcome was looked up");
            let (now, jitter) = (self.parts.clock.now(), self.parts.clock.jitter());
            let told = dispatch::reconciled(story, &finding, &case.terms, now, jitter);
            let mut known = None;
            for (id, answer) in told {
                let fact = Fact::Answered {
                    attempt: id.attempt,
                    answer,
                };
                let story = known.as_ref().map_or(story, |(story, _)| story);
                let by = (id.round, id.writer);
                let story = Some(Arc::clone(story));
                known = Some(self.persist_by(job, &case.subject, story, by, fact).await?);
            }
            if known.is_some() {
                return Ok(known);
            }
            let backoff = case.terms.pace.backoff.wait(asked, jitter);
            asked += u32::from(!is_spared);
            spared += u32::from(is_spared);
            let pause = match finding {
                Finding::NotYet => lookup.delay.max(backoff),
                Finding::Nothing(_) if is_spared => case.terms.pace.probe_interval,
                Finding::Nothing(_) | Finding::Present(_) | Finding::Absent => backoff,
            };
            self.pause(&job.tenure, pause).await?;
        }
        Ok(None)
    }

    /// What one look-up found, and whether it is not to be held against the intent because the provider is down.
    async fn ask_once(
        &self,
        job: &Job,
        intent: &Intent,
        case: &Case,
        story: &Story,
        lookup: &Lookup,
    ) -> Result<(Finding, bool), Stopped> {
        let nothing = |why| Ok((Finding::Nothing(why), false));
        let Some(key) = &case.subject.key else {
            return nothing("no_key");
        };
        let rendered = match render_lookup(&case.profile, intent, key) {
            Ok(rendered) => rendered,
            Err(fault) => {
                tracing::error!(provider = %case.account.name, %fault, "a look-up cannot be rendered");
                return nothing("cannot_render");
            }
        };
        let ambiguous = lookup.is_ambiguous(intent.reference.is_some());
        if ambiguous && !self.read_explained(case, lookup.keeps).await {
            return nothing("ledger_unreadable");
        }
        // An account that is closed to sends is not asked either; nothing is lost by waiting, unless it is for too long.
        let precedence = Precedence::LookUp {
            outages: story.outages(),
        };
        let pass = self.admitted(job, case, precedence).await?;
        if let Err(unready) = case.account.client.make_ready().await {
            self.not_ready(case, pass, &unready);
            let cause = NotSentCause::from(unready.why);
            return Ok((Finding::Nothing(cause.label()), true));
        }
        let begun = story
            .first_start()
            .map_or(story.updated_at, |start| start.at);
        if self.parts.clock.now() >= begun.plus(lookup.keeps) {
            return nothing("too_late");
        }
        let deadline = BootMoment::after(case.terms.request_span);
        let answer = case.account.client.send(&rendered.request, deadline).await;
        let spared = pass.looked_up(&answer, &self.parts.clock);
        let explained = |id: &str| case.account.explained.explains(id);
        let question = Question {
            ours: &rendered.ours,
            first_start: begun,
            now: self.parts.clock.now(),
            explained: ambiguous.then_some(&explained),
        };
        let finding = judge(lookup, &answer, &question);
        if ambiguous && case.account.explained.is_on_its_way(&rendered.ours) {
            return nothing("equal_on_its_way");
        }
        if ambiguous
            && let Finding::Present(Some(id)) = &finding
            && let Err(why) = case.account.explained.claim(id, question.now, lookup.keeps)
        {
            return nothing(why);
        }
        Ok((finding, spared))
    }

    /// Counts the attempt as on its way, where a look-up for another intent could take it for that one's.
    pub(super) fn departs<'c>(&self, case: &'c Case, intent: &Intent) -> Option<OnItsWay<'c>> {
        let lookup = case.profile.lookup.as_ref()?;
        let key = case.subject.key.as_ref()?;
        if lookup.proof == LookupProof::Key {
            return None;
        }
        let rendered = render_lookup(&case.profile, intent, key).ok()?;
        Some(case.account.explained.departs(&rendered.ours))
    }

    /// Sees to it that the account's message ids are known. False if the ledger cannot be read.
    async fn read_explained(&self, case: &Case, keeps: Duration) -> bool {
        let (account, ledger) = (Arc::clone(&case.account), Arc::clone(&self.parts.ledger));
        let now = self.parts.clock.now();
        let read = move || {
            let explained = &account.explained;
            explained.read(&account.name, &*ledger, now, keeps).is_ok()
        };
        tokio::task::spawn_blocking(read).await.unwrap_or(false)
    }
}
