//! Decides whether a series ends without acceptance, and under which reason.
//!
//! One rule stands above the others: while an attempt may have been taken, whatever ended the series, the dead letter
//! says `outcome_unknown`.

use std::sync::Arc;

use crate::domain::attempt::Verdict;
use crate::domain::dead_letter::Reason;
use crate::domain::ledger_entry::{Answered, AttemptId, Started};
use crate::domain::time::Timestamp;

use super::{LOOKED_UP_ABSENT, Limits, Owner, Series, Terms, surely_ended};

/// The most attempts of one round, whatever they came to: a story must stay small enough to be written.
const ATTEMPTS_MAX: u32 = 120;

/// Why a series ends.
pub(super) struct Ending {
    pub(super) reason: Reason,
    pub(super) detail: Arc<str>,
}

impl Ending {
    fn new(reason: Reason, detail: &str) -> Self {
        Self {
            reason,
            detail: detail.into(),
        }
    }
}

/// The end of the series whose last answer is `last`, or `None` if there is to be another attempt.
pub(super) fn of(
    series: &Series<'_>,
    last: &Answered,
    terms: &Terms,
    limits: &Limits,
    now: Timestamp,
) -> Option<Ending> {
    let open_question = series.story.may_have_been_taken();
    let ending = |reason, detail| {
        let reason = if open_question {
            Reason::OutcomeUnknown
        } else {
            reason
        };
        Some(Ending::new(reason, detail))
    };

    match last.verdict {
        Verdict::Accepted => return None,
        Verdict::Rejected if rejects_all(series, terms, limits.owner) => {
            return Some(Ending::new(Reason::Rejected, &last.detail));
        }
        Verdict::Rejected => return ending(Reason::Rejected, "rejected_after_unknown"),
        Verdict::Conflict => return ending(Reason::PayloadConflict, &last.detail),
        Verdict::NotSent
        | Verdict::Throttled
        | Verdict::Unknown
        | Verdict::InProgress
        | Verdict::Misconfigured
        | Verdict::AccountHold => {}
    }
    if last.flags.burned {
        return ending(Reason::RetriesExhausted, "key_burned");
    }
    if last.flags.last_word && &*last.detail == LOOKED_UP_ABSENT {
        return ending(Reason::RetriesExhausted, "stored_error");
    }
    if last.flags.last_word && last.verdict == Verdict::Unknown {
        return Some(Ending::new(Reason::OutcomeUnknown, &last.detail));
    }
    if open_question && terms.key.is_none() {
        return Some(Ending::new(Reason::OutcomeUnknown, "no_key"));
    }
    // Once surely absent, one more series is due.
    let series_max = if series.was_absent() { 2 } else { 1 };
    if series.spent() >= terms.budget.saturating_mul(series_max) {
        return ending(Reason::RetriesExhausted, "budget");
    }
    if series.count(|answer| answer.verdict == Verdict::InProgress) > terms.in_progress_max {
        return Some(Ending::new(Reason::OutcomeUnknown, "in_progress"));
    }
    if series.last_number() >= ATTEMPTS_MAX {
        return ending(Reason::RetriesExhausted, "attempts");
    }
    let next_start = last.due.map_or(now, |due| due.max(now));
    if limits.expires_at.is_some_and(|end| end <= next_start) {
        return ending(Reason::Expired, "expires_at");
    }
    let closed = |at| series.window_closed(terms, at);
    if open_question && (closed(now) || closed(next_start)) {
        return Some(Ending::new(Reason::OutcomeUnknown, "window_closed"));
    }
    None
}

/// Whether a rejection speaks for every attempt of the key.
///
/// It does when nothing was open; or, at a provider that recognises the key, inside its window, when each attempt
/// that may have been taken had been answered or was surely gone before the rejected one started: had one been
/// accepted, the provider would have replayed that. Only the rejected one's own maker made its attempts one after
/// another: another tenure's may have been taken and answered after the rejection.
fn rejects_all(series: &Series<'_>, terms: &Terms, owner: Option<Owner>) -> bool {
    if !series.story.may_have_been_taken() {
        return true;
    }
    let Some((rejected, started)) = last_started(series) else {
        return false;
    };
    let in_window = terms.key.is_some() && !series.window_closed(terms, started.at);
    in_window
        && series.story.attempts.iter().all(|(id, facts)| {
            let (Some(answer), Some(known)) = (&facts.answered, facts.started) else {
                return false;
            };
            match answer.verdict {
                Verdict::Unknown | Verdict::InProgress => {
                    let before = id.writer == rejected.writer && id < rejected;
                    let gone = surely_ended((id, known), terms, owner) <= started.at;
                    (answer.heard && before) || gone
                }
                Verdict::Accepted
                | Verdict::Rejected
                | Verdict::NotSent
                | Verdict::Throttled
                | Verdict::Conflict
                | Verdict::Misconfigured
                | Verdict::AccountHold => true,
            }
        })
}

/// The attempt that started last.
fn last_started<'a>(series: &Series<'a>) -> Option<(&'a AttemptId, Started)> {
    let attempts = series.story.attempts.iter();
    let started = attempts.filter_map(|(id, facts)| Some((id, facts.started?)));
    started.max_by_key(|(_, started)| started.at)
}
