//! Decides what comes next in the life of one intent, from nothing but its durable story.
//!
//! There is no other state: after a crash the same story gives the same next step, so recovery is not a special case.
//! The driver (`pipeline::worker`) carries a step out, persists what it came to, and asks again. Called only while no
//! attempt of ours is running for the key, so that an attempt without an answer is one whose maker died.

mod endings;
mod looking_up;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Classified, Flags, Verdict, Withheld};
use super::dead_letter::Reason;
use super::ledger_entry::{Answered, AttemptId, DeadCause, Standing, Started, Story, Writer};
use super::retry::Pace;
use super::time::{CLOCK_SKEW, Timestamp, UnitFraction};
use endings::Ending;
use looking_up::Asking;

pub use looking_up::{LOOKED_UP_ABSENT, LookupTerms, reconciled};

/// What persisting an attempt's start may take, beside the request's own span, before the request is withheld: a slow
/// flush must not eat the request's time. The recorded deadline lies that much later than the request's usual end.
const FLUSH_ALLOWANCE: Duration = Duration::from_secs(5);

/// What the provider's profile and the configuration say about sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the provider's memory of keys is worth; `None` if it recognises none.
    pub key: Option<KeyTerms>,
    /// How the provider can be asked whether it took a message; `None` if it cannot.
    pub lookup: Option<LookupTerms>,
    /// The longest that one request may take: connect timeout + request timeout.
    pub request_span: Duration,
    /// How long after its deadline the kernel may still deliver what was handed to it.
    pub transport_bound: Duration,
    /// Attempts of one round that may end not sent, throttled or unknown, those of a provider that was down apart.
    pub budget: u32,
    /// Polls of one round that may end in progress.
    pub in_progress_max: u32,
    /// Waits between attempts.
    pub pace: Pace,
}

/// A provider's memory of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTerms {
    /// How long it remembers a key, from the first attempt.
    pub window: Duration,
    /// How long before the window's end the last attempt may start: at least request span + 10 s + clock skew.
    pub margin: Duration,
}

/// What the intent itself says about sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// It must not be sent after this.
    pub expires_at: Option<Timestamp>,
    /// When its record was written.
    pub recorded_at: Timestamp,
    /// An older record without a story is not sent.
    pub max_age: Duration,
    /// Who works on it, where others may have done so before.
    pub owner: Option<Owner>,
}

/// The tenure that owns an intent's partition in the ledger topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub writer: Writer,
    /// When its marker had been acknowledged and read back, by our clock. What others had begun before ends a request's span and the
    /// transport's bound after this at the latest, whatever their clocks say.
    pub since: Timestamp,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its end is durable: settle the offset.
    Settle,
    /// Persist the start of this attempt, then make its request.
    Start {
        /// Which round.
        round: u32,
        /// Its number in the round, from 1.
        attempt: u32,
        /// Its request must have ended by then.
        deadline: Timestamp,
    },
    /// Nothing before then.
    Wait {
        /// The moment to ask again.
        until: Timestamp,
    },
    /// Ask the provider whether it took the message, and persist what that proves.
    LookUp {
        /// Of which round.
        round: u32,
        /// The detail of the dead letter, if asking proves nothing.
        detail: Arc<str>,
    },
    /// An earlier attempt was never answered: persist that its outcome is unknown.
    Conclude {
        /// Which one.
        id: AttemptId,
        /// What to record of it.
        answer: Answered,
    },
    /// Persist that a dead letter is to be produced.
    SetAside {
        /// Of which round.
        round: u32,
        /// Why.
        reason: Reason,
        /// The finer cause, one short label.
        detail: Arc<str>,
    },
    /// Produce the dead letter, and persist where the broker put it.
    ProduceDeadLetter {
        /// Of which round.
        round: u32,
        /// Why, as it was persisted.
        cause: DeadCause,
    },
}

/// The next step for an intent with this story.
pub fn next(
    story: Option<&Story>,
    terms: &Terms,
    limits: &Limits,
    now: Timestamp,
    jitter: UnitFraction,
) -> Step {
    let Some(story) = story else {
        return first(terms, limits, now);
    };
    let round = story.round();
    match story.standing() {
        Standing::Accepted(_) | Standing::DeadLettered(_) => return Step::Settle,
        Standing::DeadLettering(cause) => {
            return Step::ProduceDeadLetter {
                round,
                cause: cause.clone(),
            };
        }
        Standing::Open => {}
    }
    let series = Series { story, round };
    if let Some(id) = series.unanswered() {
        let answer = interrupted(&series, terms, now, jitter);
        return Step::Conclude { id, answer };
    }
    let Some(last) = series.last_answer() else {
        return first(terms, limits, now);
    };
    if let Some(Ending { reason, detail }) = endings::of(&series, last, terms, limits, now) {
        let may_ask = reason == Reason::OutcomeUnknown;
        match terms
            .lookup
            .filter(|_| may_ask)
            .map(|lookup| looking_up::asking(story, terms, (lookup, limits.owner), now))
        {
            Some(Asking::From(until)) => return Step::Wait { until },
            Some(Asking::Now) => return Step::LookUp { round, detail },
            Some(Asking::TooLate) | None => {}
        }
        return Step::SetAside {
            round,
            reason,
            detail,
        };
    }
    match series.due(limits.owner) {
        Some(due) if due > now => Step::Wait { until: due },
        Some(_) | None => Step::Start {
            round,
            attempt: series.last_number().saturating_add(1),
            deadline: deadline(terms, now),
        },
    }
}

/// Whether the request of an attempt that has just been persisted may still leave, else why not.
///
/// The flush took time: the window and the intent's own date are asked again, and whether the whole span of a request
/// still lies before the attempt's deadline.
pub fn may_send(
    story: &Story,
    terms: &Terms,
    limits: &Limits,
    deadline: Timestamp,
    now: Timestamp,
) -> Result<(), Withheld> {
    if now.plus(terms.request_span) > deadline {
        return Err(Withheld::DeadlinePassed);
    }
    if limits.expires_at.is_some_and(|end| end <= now) {
        return Err(Withheld::Expired);
    }
    let series = Series {
        story,
        round: story.round(),
    };
    if story.has_unknown_answer() && series.window_closed(terms, now) {
        return Err(Withheld::WindowClosed);
    }
    Ok(())
}

/// What to record of an attempt that was answered so.
pub fn answered(
    classified: &Classified,
    heard: bool,
    story: &Story,
    terms: &Terms,
    now: Timestamp,
    jitter: UnitFraction,
) -> Answered {
    let series = Series {
        story,
        round: story.round(),
    };
    let due = terms.pace.due(
        classified.verdict,
        classified.wait,
        series.failures(),
        now,
        jitter,
    );
    Answered {
        verdict: classified.verdict,
        flags: classified.flags,
        heard,
        status: classified.status,
        provider_code: classified.provider_code.as_deref().map(Arc::from),
        message_id: classified.message_id.as_deref().map(Arc::from),
        detail: classified.detail.into(),
        due,
    }
}

fn first(terms: &Terms, limits: &Limits, now: Timestamp) -> Step {
    let aside = |detail: &str| Step::SetAside {
        round: 0,
        reason: Reason::Expired,
        detail: detail.into(),
    };
    if limits.expires_at.is_some_and(|end| end <= now) {
        aside("expires_at")
    } else if now.since(limits.recorded_at) > limits.max_age {
        aside("too_old")
    } else {
        Step::Start {
            round: 0,
            attempt: 1,
            deadline: deadline(terms, now),
        }
    }
}

/// By when the request of an attempt that starts now has ended, whatever its flush takes.
fn deadline(terms: &Terms, now: Timestamp) -> Timestamp {
    now.plus(terms.request_span).plus(FLUSH_ALLOWANCE)
}

/// When nothing of an attempt's request can arrive any more: by its own deadline, and, where another tenure made it, not before
/// all has ended that was begun until ours took over, by our own clock.
fn surely_ended(
    (id, start): (&AttemptId, Started),
    terms: &Terms,
    owner: Option<Owner>,
) -> Timestamp {
    let by_others = owner.filter(|owner| owner.writer != id.writer);
    let by_others = by_others.map(|owner| deadline(terms, owner.since));
    let ended = by_others.map_or(start.deadline, |end| end.max(start.deadline));
    ended.plus(terms.transport_bound)
}

fn interrupted(
    series: &Series<'_>,
    terms: &Terms,
    now: Timestamp,
    jitter: UnitFraction,
) -> Answered {
    // Whoever died while he probed a provider that was down has not used the intent's budget either.
    let outage = series
        .last_answer()
        .is_some_and(|before| before.flags.outage);
    Answered {
        verdict: Verdict::Unknown,
        flags: Flags {
            outage,
            ..Flags::default()
        },
        heard: false,
        status: None,
        provider_code: None,
        message_id: None,
        detail: "interrupted".into(),
        due: terms
            .pace
            .due(Verdict::Unknown, None, series.failures(), now, jitter),
    }
}

/// The attempts of the round that a story is in.
struct Series<'a> {
    story: &'a Story,
    round: u32,
}

impl<'a> Series<'a> {
    /// An attempt of any round whose answer nobody recorded.
    fn unanswered(&self) -> Option<AttemptId> {
        let open = |facts: &super::ledger_entry::AttemptFacts| facts.answered.is_none();
        self.story
            .attempts
            .iter()
            .find(|(_, facts)| open(facts))
            .map(|(id, _)| *id)
    }

    fn answers(&self) -> impl Iterator<Item = (&'a AttemptId, &'a Answered)> + use<'a> {
        let round = self.round;
        self.story
            .attempts
            .iter()
            .filter(move |(id, _)| id.round == round)
            .filter_map(|(id, facts)| Some((id, facts.answered.as_ref()?)))
    }

    /// The answer that decides: that of the highest attempt number, and of its writers the one with most to say.
    fn last_answer(&self) -> Option<&'a Answered> {
        self.last().map(|(_, answer)| answer)
    }

    fn last(&self) -> Option<(&'a AttemptId, &'a Answered)> {
        let key = |answer: &Answered| (answer.due, answer.heard);
        self.answers()
            .max_by_key(|(id, answer)| (id.attempt, key(answer)))
    }

    /// When the next attempt is due: by the clock of whoever heard the last answer. Where that was another one's, it may be
    /// behind ours, and what a provider asks for is not undercut.
    fn due(&self, owner: Option<Owner>) -> Option<Timestamp> {
        let (id, last) = self.last()?;
        let is_foreign = owner.is_some_and(|owner| owner.writer != id.writer);
        let due = last.due?;
        Some(if is_foreign && last.verdict == Verdict::Throttled {
            due.plus(CLOCK_SKEW)
        } else {
            due
        })
    }

    fn last_number(&self) -> u32 {
        let round = self.round;
        let numbers = self
            .story
            .attempts
            .keys()
            .filter(|id| id.round == round)
            .map(|id| id.attempt);
        numbers.max().unwrap_or(0)
    }

    fn count(&self, counted: impl Fn(&Answered) -> bool) -> u32 {
        let count = self.answers().filter(|(_, answer)| counted(answer)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The budget used so far. What we withheld ourselves uses none, nor what failed because the provider as a whole was
    /// down: the number of attempts alone bounds these.
    fn spent(&self) -> u32 {
        self.count(|answer| is_failure(answer) && !is_withheld(answer) && !answer.flags.outage)
    }

    /// The failures so far, those that used no budget among them: the longer a series fails, the longer its waits.
    fn failures(&self) -> u32 {
        self.count(is_failure)
    }

    /// Whether a look-up has shown an attempt of this round to be absent.
    fn was_absent(&self) -> bool {
        self.answers()
            .any(|(_, answer)| &*answer.detail == LOOKED_UP_ABSENT)
    }

    /// Whether the provider may have forgotten the key by `at`.
    fn window_closed(&self, terms: &Terms, at: Timestamp) -> bool {
        match (terms.key, self.story.first_start()) {
            (Some(key), Some(first)) => {
                // A clock that has gone back further tells nothing about the window.
                let stepped_back = at.plus(CLOCK_SKEW) < first.at;
                stepped_back || at >= first.at.plus(key.window.saturating_sub(key.margin))
            }
            (Some(_), None) | (None, _) => false,
        }
    }
}

fn is_failure(answer: &Answered) -> bool {
    matches!(
        answer.verdict,
        Verdict::NotSent | Verdict::Throttled | Verdict::Unknown
    )
}

/// Whether no request was made because we withheld it. An answer by a profile's rule, whatever its detail, has a status.
fn is_withheld(answer: &Answered) -> bool {
    answer.verdict == Verdict::NotSent
        && answer.status.is_none()
        && Withheld::ALL
            .iter()
            .any(|reason| reason.name() == &*answer.detail)
}
