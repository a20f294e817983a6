//! Decides how a request is sent while a provider is verified: by the client and the rules that `run` has, again while the
//! provider is busy, and never again after an unknown outcome that no key protects.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::adapters::clock::{BootMoment, Clock};
use crate::domain::attempt::Verdict;
use crate::domain::classify::{Answer, Circumstances, classify};
use crate::domain::profile::Lookup;
use crate::domain::reconcile::{Finding, Question, judge};
use crate::domain::render::{RenderedLookup, RenderedRequest};
use crate::domain::time::Timestamp;
use crate::pipeline::accounts::Account;

use super::seen::Seen;
use super::subject::Subject;

/// The most often that one request is sent before its answer is believed.
pub const TRIES: u32 = 5;

/// The longest wait that is kept to; a provider that asks for a longer one is left alone.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The wait before a repeat where the provider asks for none.
const WAIT: Duration = Duration::from_millis(500);

/// Sends to one account, and remembers what came back.
pub struct Asker<'a> {
    account: &'a Account,
    spacing: Duration,
    wait_max: Duration,
    clock: Clock,
    bar: ProgressBar,
    requests: Cell<u32>,
    next: Cell<BootMoment>,
    series: RefCell<Vec<Vec<Seen>>>,
    ids: RefCell<BTreeSet<String>>,
}

impl<'a> Asker<'a> {
    /// One that has not sent anything. `wait_max` is the longest wait that an answer is believed to name.
    pub fn new(subject: &'a Subject, wait_max: Duration, bar: ProgressBar) -> Self {
        Self {
            account: &subject.account,
            spacing: spacing(subject.rate),
            wait_max,
            clock: Clock::default(),
            bar,
            requests: Cell::default(),
            next: Cell::new(BootMoment::now()),
            series: RefCell::default(),
            ids: RefCell::default(),
        }
    }

    /// Sends `request` once. `first` tells that its key is new.
    pub async fn once(&self, request: &RenderedRequest, first: bool) -> Seen {
        let started = BootMoment::now();
        let deadline = BootMoment::after(self.account.profile.timeouts.request);
        self.count();
        let answer = self.account.client.send(request, deadline).await;
        self.read(&answer, first, started.elapsed())
    }

    /// Sends `request` until its answer tells something, and returns all of its answers: at least one. Unknown outcomes are
    /// repeated under a key only.
    pub async fn until_told(&self, request: &RenderedRequest, first: bool) -> Vec<Seen> {
        let keyed = self.account.profile.key.is_some();
        let mut series: Vec<Seen> = Vec::new();
        for number in 1..=TRIES {
            self.keep_the_rate().await;
            let seen = self.once(request, first && series.is_empty()).await;
            let wait = seen.wait.unwrap_or(WAIT);
            let again = may_come_again(&seen, keyed) && number < TRIES && wait <= WAIT_MAX;
            series.push(seen);
            if !again {
                break;
            }
            tokio::time::sleep(wait).await;
        }
        self.series.borrow_mut().push(series.clone());
        series
    }

    /// Sends `request` and closes its connection so long after its last byte. Returns the answer if that came first.
    pub async fn hang_up(&self, request: &RenderedRequest, pause: Duration) -> Option<Seen> {
        let started = BootMoment::now();
        let deadline = BootMoment::after(self.account.profile.timeouts.request);
        self.count();
        let client = &self.account.client;
        let answer = client.send_and_hang_up(request, deadline, pause).await?;
        Some(self.read(&answer, true, started.elapsed()))
    }

    /// Asks once whether a message was taken that was first sent at `first_start`. Items whose ids were given to other
    /// messages are not it.
    pub async fn look_up(
        &self,
        lookup: &Lookup,
        rendered: &RenderedLookup<'_>,
        first_start: Timestamp,
        own_id: Option<&str>,
    ) -> Finding {
        let deadline = BootMoment::after(self.account.profile.timeouts.request);
        self.count();
        let answer = self.account.client.send(&rendered.request, deadline).await;
        let ids = self.ids.borrow();
        let explained = |id: &str| ids.contains(id) && own_id != Some(id);
        let question = Question {
            ours: &rendered.ours,
            first_start,
            now: self.now(),
            explained: lookup
                .is_ambiguous(false)
                .then_some(&explained as &dyn Fn(&str) -> bool),
        };
        judge(lookup, &answer, &question)
    }

    /// Every request's answers so far.
    pub fn series(&self) -> Vec<Vec<Seen>> {
        self.series.borrow().clone()
    }

    /// Keeps a series that was not made by `until_told`.
    pub fn keep(&self, series: Vec<Seen>) {
        self.series.borrow_mut().push(series);
    }

    /// Requests so far.
    pub fn requests(&self) -> u32 {
        self.requests.get()
    }

    /// Says what is looked at now.
    pub fn turn_to(&self, what: &'static str) {
        self.bar.set_message(what);
    }

    /// Now, by the wall clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits until the account's rate allows one request more: tests have small accounts. Requests at once do not wait.
    async fn keep_the_rate(&self) {
        tokio::time::sleep(self.next.get().remaining()).await;
        self.next.set(BootMoment::after(self.spacing));
    }

    fn count(&self) {
        self.requests.set(self.requests.get() + 1);
        self.bar.inc(1);
    }

    fn read(&self, answer: &Answer, first: bool, took: Duration) -> Seen {
        let circumstances = Circumstances {
            first_attempt: first,
            now: self.clock.now(),
            wait_max: self.wait_max,
        };
        let seen = Seen::of(
            answer,
            classify(&self.account.profile, answer, &circumstances),
            took,
        );
        if let Some(id) = &seen.message_id {
            self.ids.borrow_mut().insert(id.clone());
        }
        seen
    }
}

/// The span between two requests at this many a second.
fn spacing(rate: Option<NonZeroU32>) -> Duration {
    rate.and_then(|rate| Duration::from_secs(1).checked_div(rate.get()))
        .unwrap_or_default()
}

fn may_come_again(seen: &Seen, keyed: bool) -> bool {
    match seen.verdict {
        Verdict::NotSent | Verdict::Throttled => !seen.last_word,
        Verdict::Unknown | Verdict::InProgress => keyed && !seen.last_word,
        Verdict::Accepted
        | Verdict::Rejected
        | Verdict::Conflict
        | Verdict::Misconfigured
        | Verdict::AccountHold => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{accepted, answered};
    use super::*;

    #[test]
    fn requests_are_as_far_apart_as_the_rate_says() {
        assert_eq!(spacing(NonZeroU32::new(4)), Duration::from_millis(250));
        assert_eq!(spacing(NonZeroU32::new(1)), Duration::from_secs(1));
        assert_eq!(spacing(None), Duration::ZERO);
    }

    #[test]
    fn only_a_key_protects_the_repeat_of_an_unknown_outcome() {
        for (verdict, keyed, keyless) in [
            (Verdict::NotSent, true, true),
            (Verdict::Throttled, true, true),
            (Verdict::Unknown, true, false),
            (Verdict::InProgress, true, false),
            (Verdict::Rejected, false, false),
            (Verdict::Misconfigured, false, false),
        ] {
            let seen = answered(500, verdict);
            assert_eq!(may_come_again(&seen, true), keyed, "{verdict}");
            assert_eq!(may_come_again(&seen, false), keyless, "{verdict}");
        }
        assert!(!may_come_again(&accepted("a"), true));
        let mut stored = answered(500, Verdict::Unknown);
        stored.last_word = true;
        assert!(!may_come_again(&stored, true), "it would only come again");
    }
}
