//! Decides in which order a provider is asked, and hands what it answers to the checks. The first message is the measure of
//! the later ones: what does not take it can show nothing else.

use std::time::Duration;

use futures_util::future::join_all;
use uuid::Uuid;

use crate::adapters::clock::{BootMoment, Clock};
use crate::domain::idempotency_key::IdempotencyKey;
use crate::domain::profile::{IdSource, KeyRule, Lookup};
use crate::domain::reconcile::Finding;
use crate::domain::render::RenderedRequest;
use crate::domain::time::Timestamp;

use super::asking::Asker;
use super::key_limits::Limit;
use super::latency::Latency;
use super::look_up::Looked;
use super::proposals::{Learnt, proposals};
use super::report::{Check, Report};
use super::seen::{Same, Seen, same_message};
use super::subject::{Subject, unfit};
use super::{
    at_once, cut, first_send, forgetting, key_limits, latency, look_up, missing_key, other_body,
    replay, stores,
};

/// How patient a verification is.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// When the first message's request comes again.
    pub forget_after: Duration,
    /// How long a message is looked for.
    pub look_up: Duration,
    /// Sends that only measure.
    pub samples: u32,
}

/// One verification, on its way.
struct Course<'a> {
    subject: &'a Subject,
    asker: &'a Asker<'a>,
    patience: Patience,
    checks: Vec<Check>,
    learnt: Learnt,
}

/// The first message: what the later answers are held against.
struct First {
    key: IdempotencyKey,
    request: RenderedRequest,
    seen: Seen,
    started_at: Timestamp,
    answered: BootMoment,
}

/// Asks the provider everything, in order.
///
/// # Errors
///
/// Requests that cannot be rendered, although the intent could be.
pub async fn run(
    subject: &Subject,
    asker: &Asker<'_>,
    patience: Patience,
) -> anyhow::Result<Report> {
    let mut course = Course {
        subject,
        asker,
        patience,
        checks: Vec::new(),
        learnt: Learnt::default(),
    };
    let first = course.send_first().await?;
    if let Some(first) = &first {
        match &subject.account.profile.key {
            Some(rule) => course.with_key(rule, first).await?,
            None => course.without_key(first).await?,
        }
    }
    course.conclude();
    let profile = &subject.account.profile;
    let today = Clock::wall();
    Ok(Report {
        profile: format!("{} {}", profile.vendor, profile.operation),
        proposals: proposals(profile, &course.checks, &course.learnt, today),
        checks: course.checks,
        requests: asker.requests(),
        begun: first.is_some(),
    })
}

impl Course<'_> {
    async fn send_first(&mut self) -> anyhow::Result<Option<First>> {
        self.asker.turn_to(first_send::NAME);
        let key = new_key();
        let started_at = self.asker.now();
        let intent = &self.subject.intent;
        let request = self.subject.request(intent, &key, started_at);
        let request = request.map_err(unfit)?;
        let series = self.asker.until_told(&request, true).await;
        let answered = BootMoment::now();
        let id = &self.subject.account.profile.accepted.id;
        let id_promised = !matches!(id, IdSource::None);
        self.checks.push(first_send::judge(&series, id_promised));
        let accepted = series.into_iter().last().filter(Seen::is_accepted);
        Ok(accepted.map(|seen| First {
            key,
            request,
            seen,
            started_at,
            answered,
        }))
    }

    async fn with_key(&mut self, rule: &KeyRule, first: &First) -> anyhow::Result<()> {
        let marked = !rule.replay.is_empty();
        self.repeat(rule, first).await;
        self.send_other_body(rule, first).await?;
        self.look_up(first).await?;
        self.send_at_once(marked).await?;
        self.cut(marked).await?;
        self.lose_key().await?;
        for limit in Limit::ALL {
            self.probe(rule, limit).await?;
        }
        self.fail().await?;
        self.sample().await?;
        self.wait_and_repeat(rule, first).await;
        Ok(())
    }

    async fn without_key(&mut self, first: &First) -> anyhow::Result<()> {
        for name in KEY_CHECKS {
            let claim = "the provider recognises no repeat";
            let why = "the profile has no key";
            self.checks.push(Check::not_applicable(name, claim, why));
        }
        self.look_up(first).await?;
        self.sample().await
    }

    /// What all answers together show.
    fn conclude(&mut self) {
        let series = self.asker.series();
        let profile = &self.subject.account.profile;
        if let Some(rule) = &profile.key {
            self.learnt.repeated = stores::repeated(&series);
            let marked = !rule.replay.is_empty();
            let check = stores::judge(rule.stores, &self.learnt.repeated, marked);
            self.checks.push(check);
        }
        let all = || series.iter().flatten();
        let fresh = all().filter(|seen| seen.is_accepted() && !seen.replay);
        self.learnt.latency = Latency::of(fresh.map(|seen| seen.took).collect());
        let overdue = all().filter(|seen| seen.detail == "read_timeout").count();
        let measured = self.learnt.latency.as_ref();
        let check = latency::judge(measured, overdue, &profile.timeouts);
        self.checks.push(check);
    }

    async fn repeat(&mut self, rule: &KeyRule, first: &First) {
        self.asker.turn_to("replay");
        let series = self.asker.until_told(&first.request, false).await;
        let Some(again) = series.last() else { return };
        if same_message(&first.seen, again) == Same::Yes {
            self.learnt.marks = replay::marks_seen(&first.seen, again);
        }
        let checks = replay::judge(&first.seen, again, &rule.replay);
        self.checks.extend(checks);
    }

    async fn send_other_body(&mut self, rule: &KeyRule, first: &First) -> anyhow::Result<()> {
        self.asker.turn_to("other_body");
        let mut other = None;
        if let Some(intent) = &self.subject.other {
            let request = self.subject.request(intent, &first.key, first.started_at);
            let request = request.map_err(unfit)?;
            other = self.asker.until_told(&request, false).await.pop();
        }
        self.learnt.noticed = other.as_ref().map(other_body::noticed);
        let check = other_body::judge(rule.compares_body, &first.seen, other.as_ref());
        self.checks.push(check);
        Ok(())
    }

    async fn look_up(&mut self, first: &First) -> anyhow::Result<()> {
        let Some(lookup) = &self.subject.account.profile.lookup else {
            self.checks.extend(look_up::without());
            return Ok(());
        };
        self.asker.turn_to("look_up");
        let looked = self.look_until_found(lookup, first).await?;
        self.learnt.found_after = looked.found_after;
        self.checks.push(look_up::judge(lookup.delay, &looked));
        let key = new_key();
        let rendered = self.subject.look_up(&key).map_err(unfit)?;
        let now = self.asker.now();
        let finding = self.asker.look_up(lookup, &rendered, now, None).await;
        self.checks.push(look_up::judge_absence(&finding));
        Ok(())
    }

    async fn look_until_found(&self, lookup: &Lookup, first: &First) -> anyhow::Result<Looked> {
        let rendered = self.subject.look_up(&first.key).map_err(unfit)?;
        let own_id = first.seen.message_id.as_deref();
        let mut number = 0;
        loop {
            let last_after = first.answered.elapsed();
            let finding = self
                .asker
                .look_up(lookup, &rendered, first.started_at, own_id)
                .await;
            let found = match &finding {
                Finding::Present(id) => Some(id.as_deref()),
                Finding::Absent | Finding::NotYet | Finding::Nothing(_) => None,
            };
            let over = last_after > self.patience.look_up || last_after > lookup.delay;
            if found.is_some() || over {
                return Ok(Looked {
                    found_after: found.is_some().then_some(last_after),
                    last_after,
                    same_id: found.flatten().zip(own_id).map(|(one, other)| one == other),
                    last: finding,
                });
            }
            tokio::time::sleep(look_up::pause(number)).await;
            number += 1;
        }
    }

    async fn send_at_once(&mut self, marked: bool) -> anyhow::Result<()> {
        self.asker.turn_to("at_once");
        let request = self.request(&new_key())?;
        // Which of them is the first, nobody knows.
        let sends = (0..at_once::COUNT).map(|_| self.asker.once(&request, false));
        let seen = join_all(sends).await;
        let settled = self.asker.until_told(&request, false).await.pop();
        self.learnt.mistaken_conflict = at_once::mistaken_conflict(&seen);
        let check = at_once::judge(&seen, settled.as_ref(), marked);
        self.checks.push(check);
        Ok(())
    }

    async fn cut(&mut self, marked: bool) -> anyhow::Result<()> {
        self.asker.turn_to("cut_connection");
        let mut tries: Vec<cut::Try> = Vec::new();
        for pause in cut::PAUSES {
            let request = self.request(&new_key())?;
            if request.body.is_empty() {
                break;
            }
            let before = self.asker.hang_up(&request, pause).await;
            let after = self.asker.until_told(&request, false).await;
            let one = cut::Try { before, after };
            let is_telling = one.is_telling(marked);
            tries.push(one);
            if is_telling {
                break;
            }
        }
        self.checks.push(cut::judge(&tries, marked));
        Ok(())
    }

    async fn lose_key(&mut self) -> anyhow::Result<()> {
        self.asker.turn_to("missing_key");
        let check = match self.subject.without_key() {
            Some(variant) => {
                let request = self
                    .subject
                    .request_by(&variant, &new_key(), self.asker.now());
                // Nothing protects it from being taken twice: it is sent once, whatever comes of it.
                let seen = self.asker.once(&request.map_err(unfit)?, true).await;
                missing_key::judge(&seen)
            }
            None => missing_key::without_variant(),
        };
        self.checks.push(check);
        Ok(())
    }

    async fn probe(&mut self, rule: &KeyRule, limit: Limit) -> anyhow::Result<()> {
        self.asker.turn_to(limit.name());
        let nonce = Clock::default().random_uuid().simple().to_string();
        let probes: key_limits::Probes = limit.probes(rule, &nonce);
        let (keys, variant) = match (probes, self.subject.with_any_key()) {
            (Ok(keys), Some(variant)) => (keys, variant),
            (Err(why), _) => {
                let check = Check::not_applicable(limit.name(), &limit.claim(rule), why);
                self.checks.push(check);
                return Ok(());
            }
            (Ok(_), None) => {
                let why = "the profile cannot send other keys";
                let check = Check::not_applicable(limit.name(), &limit.claim(rule), why);
                self.checks.push(check);
                return Ok(());
            }
        };
        let mut seen = Vec::new();
        for key in &keys {
            let request = self
                .subject
                .request_by(&variant, key, self.asker.now())
                .map_err(unfit)?;
            seen.extend(self.asker.until_told(&request, true).await.pop());
        }
        self.checks.push(limit.judge(rule, &seen));
        Ok(())
    }

    /// Sends what its author says fails, twice.
    async fn fail(&mut self) -> anyhow::Result<()> {
        let Some(failing) = &self.subject.failing else {
            return Ok(());
        };
        self.asker.turn_to("stores");
        let key = new_key();
        let request = self
            .subject
            .request(failing, &key, self.asker.now())
            .map_err(unfit)?;
        let first = self.asker.once(&request, true).await;
        let again = self.asker.once(&request, false).await;
        self.asker.keep(vec![first, again]);
        Ok(())
    }

    async fn sample(&mut self) -> anyhow::Result<()> {
        self.asker.turn_to("latency");
        for _ in 0..self.patience.samples {
            let request = self.request(&new_key())?;
            self.asker.until_told(&request, true).await;
        }
        Ok(())
    }

    async fn wait_and_repeat(&mut self, rule: &KeyRule, first: &First) {
        self.asker.turn_to("forgetting");
        let left = self
            .patience
            .forget_after
            .saturating_sub(first.answered.elapsed());
        tokio::time::sleep(left).await;
        let after = first.answered.elapsed();
        let series = self.asker.until_told(&first.request, false).await;
        if let Some(again) = series.last() {
            let marked = !rule.replay.is_empty();
            let check = forgetting::judge(rule.window, &first.seen, again, after, marked);
            self.checks.push(check);
        }
    }

    fn request(&self, key: &IdempotencyKey) -> anyhow::Result<RenderedRequest> {
        let intent = &self.subject.intent;
        let request = self.subject.request(intent, key, self.asker.now());
        Ok(request.map_err(unfit)?)
    }
}

/// The checks that a provider without keys has nothing for.
const KEY_CHECKS: [&str; 12] = [
    "replay",
    "replay_mark",
    "other_body",
    "at_once",
    "cut_connection",
    "missing_key",
    "longest_key",
    "too_long_key",
    "key_alphabet",
    "outside_key_alphabet",
    "stores",
    "forgetting",
];

/// A key that nobody has used, of the form of those that `run` derives.
fn new_key() -> IdempotencyKey {
    let drawn = Clock::default().random_uuid();
    IdempotencyKey::derived(Uuid::new_v8(drawn.into_bytes()))
}
