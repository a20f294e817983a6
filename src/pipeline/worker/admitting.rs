//! Waits for leave to start an attempt: the recipient's, the template's, the account's, and a token to send with. Whoever waits
//! for one holds none of those that come later, so that nobody is kept from what he could have.

use std::time::Duration;

use crate::adapters::provider::Unready;
use crate::domain::classify::{Answer, Circumstances, NotSentCause, classify};
use crate::domain::intent::Intent;
use crate::domain::ledger_entry::Story;

use super::super::accounts::Pass;
use super::super::places::Precedence;
use super::super::rejections::Leave;
use super::attempting::Case;
use super::{Crew, Job, Stopped};

impl Crew {
    /// Leave to start an attempt that has all it needs; `None` if what comes next must be looked at again: the intent's own time
    /// is over, or there was no token to send with.
    pub(super) async fn pass(
        &self,
        job: &Job,
        intent: &Intent,
        case: &Case,
        story: Option<&Story>,
    ) -> Result<Option<Pass>, Stopped> {
        let expiry = async {
            match case.limits.expires_at {
                Some(end) => self.pause_until(&job.tenure, end).await,
                None => std::future::pending().await,
            }
        };
        let precedence = Precedence::Send {
            outages: story.map_or(0, Story::outages),
        };
        let ready = async {
            let recipients = &case.account.recipients;
            loop {
                let turn = tokio::select! {
                    turn = recipients.admit(&intent.recipient) => turn,
                    () = job.tenure.over() => return Err(Stopped::TenureOver),
                };
                let leave = self.leave(job, intent, case, story).await?;
                let pass = self.admitted(job, case, precedence).await?;
                if let Err(unready) = self.made_ready(job, case).await? {
                    self.not_ready(case, pass, &unready);
                    drop((leave, turn));
                    // In slices: the timer stands still while the machine sleeps.
                    let wait = unready.wait.min(Duration::from_secs(30));
                    self.pause(&job.tenure, wait).await?;
                    return Ok(None);
                }
                // It may have waited for the account when its template was paused, or its recipient was to be left alone.
                let may_go = recipients.until(&intent.recipient).is_none();
                if may_go && leave.as_ref().is_none_or(Leave::holds) {
                    return Ok(Some(pass.with(leave, turn)));
                }
            }
        };
        tokio::select! {
            pass = ready => pass,
            expired = expiry => expired.map(|()| None),
        }
    }

    /// Leave to send an intent of this template, where templates are held back. What may have been taken is asked about all
    /// the same: its key's window does not wait.
    async fn leave(
        &self,
        job: &Job,
        intent: &Intent,
        case: &Case,
        story: Option<&Story>,
    ) -> Result<Option<Leave>, Stopped> {
        match &case.account.rejections {
            Some(rejections) if !story.is_some_and(Story::may_have_been_taken) => tokio::select! {
                leave = Box::pin(rejections.admit(intent, job.order)) => Ok(leave),
                () = job.tenure.over() => Err(Stopped::TenureOver),
            },
            Some(_) | None => Ok(None),
        }
    }

    /// Has ready what says who sends, before anything is recorded or sent: a token that cannot be had is no attempt of the
    /// intent's.
    async fn made_ready(&self, job: &Job, case: &Case) -> Result<Result<(), Unready>, Stopped> {
        tokio::select! {
            ready = case.account.client.make_ready() => Ok(ready),
            () = job.tenure.over() => Err(Stopped::TenureOver),
        }
    }

    /// Takes note that there is no token for the account.
    pub(super) fn not_ready(&self, case: &Case, pass: Pass, unready: &Unready) {
        let cause = NotSentCause::from(unready.why);
        if !unready.found_out {
            return;
        }
        let unsent = Answer::NotSent(cause);
        let circumstances = Circumstances {
            first_attempt: false,
            now: self.parts.clock.now(),
            wait_max: self.parts.wait_max,
        };
        let classified = classify(&case.profile, &unsent, &circumstances);
        pass.answered(&unsent, &classified, &self.parts.clock);
        let (verdict, now) = (classified.verdict, self.parts.clock.now());
        if let Some(trouble) = case.account.trouble(verdict, classified.detail, now) {
            tracing::warn!(
                provider = %case.account.name, %trouble,
                "there is no token to send with, and nothing is sent; told at most once a minute"
            );
        }
    }

    /// Leave to ask the account for something, as soon as it may be asked.
    pub(super) async fn admitted(
        &self,
        job: &Job,
        case: &Case,
        precedence: Precedence,
    ) -> Result<Pass, Stopped> {
        tokio::select! {
            pass = case.account.admit(job.order, precedence) => Ok(pass),
            () = job.tenure.over() => Err(Stopped::TenureOver),
        }
    }
}
