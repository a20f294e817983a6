//! Decides when a provider may be asked whether it took a message, and what its answer makes of the attempts in question.
//! It does not read that answer: that is `reconcile`.
//!
//! Every end of a series under `outcome_unknown` goes through here first, where the provider can be asked. No answer is
//! believed before each unresolved attempt's request has surely ended and the provider has had its time to show it.

use std::time::Duration;

use crate::domain::attempt::{Flags, Verdict};
use crate::domain::ledger_entry::{Answered, AttemptFacts, AttemptId, Story};
use crate::domain::reconcile::Finding;
use crate::domain::time::{Timestamp, UnitFraction};

use super::{Owner, Series, Terms, surely_ended};

/// The detail of an attempt that a look-up has shown to be absent.
pub const LOOKED_UP_ABSENT: &str = "looked_up_absent";

/// What the profile says about asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupTerms {
    /// How long what was taken may stay invisible.
    pub delay: Duration,
    /// How long after a send it can still be found.
    pub keeps: Duration,
}

/// Whether the provider may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// Not before then.
    From(Timestamp),
    /// Now.
    Now,
    /// It may have forgotten: an absence would prove nothing.
    TooLate,
}

pub(super) fn asking(
    story: &Story,
    terms: &Terms,
    (lookup, owner): (LookupTerms, Option<Owner>),
    now: Timestamp,
) -> Asking {
    let starts = unresolved(story).filter_map(|(id, facts)| Some((id, facts.started?)));
    let (mut ended, mut earliest) = (story.updated_at, None);
    for (id, start) in starts {
        ended = ended.max(surely_ended((id, start), terms, owner));
        earliest = Some(earliest.map_or(start.at, |known: Timestamp| known.min(start.at)));
    }
    let visible = ended.plus(lookup.delay);
    match earliest {
        Some(earliest) if now >= earliest.plus(lookup.keeps) => Asking::TooLate,
        Some(_) | None if now < visible => Asking::From(visible),
        Some(_) | None => Asking::Now,
    }
}

/// What to record of which attempts, now that the provider has been asked. Nothing, if it proved nothing.
///
/// Present: the latest unresolved attempt was accepted. Absent: none of the unresolved ones was taken; what their answers
/// said of the key itself stays.
pub fn reconciled(
    story: &Story,
    finding: &Finding,
    terms: &Terms,
    now: Timestamp,
    jitter: UnitFraction,
) -> Vec<(AttemptId, Answered)> {
    let round = story.round();
    let spent = Series { story, round }.spent();
    match finding {
        Finding::Present(message_id) => unresolved(story)
            .last()
            .map(|(id, _)| {
                let flags = Flags {
                    id_absent: message_id.is_none(),
                    ..Flags::default()
                };
                let answer = found(Verdict::Accepted, flags, "reconciled");
                let message_id = message_id.as_deref().map(Into::into);
                (
                    *id,
                    Answered {
                        message_id,
                        ..answer
                    },
                )
            })
            .into_iter()
            .collect(),
        Finding::Absent => unresolved(story)
            .map(|(id, facts)| {
                let flags = facts.answered.as_ref().map(|known| known.flags);
                let answer = found(
                    Verdict::NotSent,
                    flags.unwrap_or_default(),
                    LOOKED_UP_ABSENT,
                );
                let due = terms.pace.due(Verdict::NotSent, None, spent, now, jitter);
                (*id, Answered { due, ..answer })
            })
            .collect(),
        Finding::NotYet | Finding::Nothing(_) => Vec::new(),
    }
}

fn found(verdict: Verdict, flags: Flags, detail: &str) -> Answered {
    Answered {
        verdict,
        flags,
        heard: false,
        status: None,
        provider_code: None,
        message_id: None,
        detail: detail.into(),
        due: None,
    }
}

/// Attempts of any round that may have been taken, in their order.
fn unresolved(story: &Story) -> impl Iterator<Item = (&AttemptId, &AttemptFacts)> {
    story
        .attempts
        .iter()
        .filter(|(_, facts)| match &facts.answered {
            None => true,
            Some(answer) => matches!(answer.verdict, Verdict::Unknown | Verdict::InProgress),
        })
}
