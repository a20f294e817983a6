//! Decides what an answer means: the profile's rules in their order, then its statuses of acceptance, then the defaults by
//! status; what none of them catches is unknown, and counted. It does not know what follows: that is `dispatch`.

mod answer;
mod by_status;
mod reading;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::by_status::default_for;
use super::attempt::{Classified, Flags, Verdict, Wait, WaitScope};
use super::profile::{IdAt, IdSource, Profile, Rule, WaitPlace, WithoutId};
use super::retry_after::{self, AskedWait};
use super::time::Timestamp;

pub use self::answer::{Answer, LostCause, NotSentCause, Response};

pub(in crate::domain) use self::reading::{Holds, Reading};

/// What an answer cannot tell by itself.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Whether the ledger knows of no earlier attempt under this key.
    pub first_attempt: bool,
    /// When the answer came, by the wall clock.
    pub now: Timestamp,
    /// The longest wait that is believed.
    pub wait_max: Duration,
}

/// The longest message id that is kept.
const MESSAGE_ID_MAX: usize = 255;
/// The longest error code that is kept.
const PROVIDER_CODE_MAX: usize = 64;

/// Reads one attempt's answer by the rules of `profile`.
pub fn classify(profile: &Profile, answer: &Answer, circumstances: &Circumstances) -> Classified {
    match answer {
        Answer::Response(response) => judge(profile, response, circumstances),
        Answer::NotSent(cause) => unanswered(unsent(*cause), cause.label()),
        Answer::Lost(cause) => unanswered(Verdict::Unknown, cause.label()),
    }
}

/// Whether an answer should be impossible: the provider knows the key although nobody has used it before. Either the
/// ledger has lost an attempt, or somebody else uses our keys.
pub fn is_alarm(classified: &Classified, first_attempt: bool) -> bool {
    first_attempt && (classified.flags.replay || classified.verdict == Verdict::Conflict)
}

/// What it means that nothing was sent: who is refused a token is as misconfigured as who is refused by the provider itself.
fn unsent(cause: NotSentCause) -> Verdict {
    match cause {
        NotSentCause::TokenRefused => Verdict::Misconfigured,
        NotSentCause::Dns
        | NotSentCause::ConnectRefused
        | NotSentCause::ConnectTimeout
        | NotSentCause::ConnectFailed
        | NotSentCause::Tls
        | NotSentCause::Withheld
        | NotSentCause::CutShort
        | NotSentCause::RefusedStream
        | NotSentCause::GoAway
        | NotSentCause::Unsendable
        | NotSentCause::TokenUnavailable => Verdict::NotSent,
    }
}

fn unanswered(verdict: Verdict, detail: &'static str) -> Classified {
    Classified {
        verdict,
        flags: Flags::default(),
        wait: None,
        message_id: None,
        status: None,
        provider_code: None,
        detail,
    }
}

/// What the profile says of a response, before its details are read.
struct Judgement<'p> {
    verdict: Verdict,
    last_word: bool,
    unmatched: bool,
    detail: &'static str,
    rule: Option<&'p Rule>,
}

fn judge(profile: &Profile, response: &Response, circumstances: &Circumstances) -> Classified {
    let marks = profile.key.as_ref().map_or(&[][..], |key| &key.replay);
    let reading = Reading::new(response, marks, circumstances.first_attempt);
    let judgement = weigh(profile, response.status, &reading);
    let rule = judgement.rule;
    let mut verdict = judgement.verdict;
    let mut detail = judgement.detail;
    let mut flags = Flags {
        replay: reading.replay() == Holds::Yes,
        last_word: judgement.last_word,
        burned: rule.is_some_and(|rule| rule.burned),
        unmatched: judgement.unmatched,
        ..Flags::default()
    };
    let mut message_id = None;
    if verdict == Verdict::Accepted {
        let looked_for = rule.is_none_or(|rule| rule.id == IdAt::Here);
        message_id = looked_for
            .then(|| find_message_id(profile, &reading))
            .flatten();
        flags.id_absent = message_id.is_none();
        if looked_for && message_id.is_none() {
            verdict = without_id(profile.accepted.without_id, reading.is_readable());
            if verdict != Verdict::Accepted {
                flags.id_absent = false;
                detail = "no_message_id";
            }
        }
    }
    // A stored error that only comes again ends the series, whatever the profile's rules make of its status.
    if flags.replay
        && matches!(
            verdict,
            Verdict::Unknown | Verdict::NotSent | Verdict::Throttled
        )
    {
        flags.last_word = true;
        detail = "stored_error";
    }
    Classified {
        verdict,
        flags,
        wait: find_wait(
            profile,
            verdict,
            rule,
            response.status,
            &reading,
            circumstances,
        ),
        message_id,
        status: Some(response.status),
        provider_code: find_provider_code(profile, verdict, &reading),
        detail,
    }
}

/// The first rule that surely holds, or what follows without one; but if a rule before it might hold and says something
/// else, nobody knows.
fn weigh<'p>(profile: &'p Profile, status: u16, reading: &Reading<'_>) -> Judgement<'p> {
    let mut possible = Vec::new();
    let mut certain = None;
    for rule in &profile.rules {
        match reading.meets(&rule.when) {
            Holds::No => {}
            Holds::CannotTell => possible.push(rule),
            Holds::Yes => {
                certain = Some(by_rule(rule));
                break;
            }
        }
    }
    let judgement = certain.unwrap_or_else(|| without_rule(profile, status));
    if possible
        .iter()
        .all(|rule| rule.verdict == judgement.verdict)
    {
        return judgement;
    }
    Judgement {
        verdict: Verdict::Unknown,
        last_word: false,
        unmatched: false,
        detail: "body_unreadable",
        rule: None,
    }
}

fn by_rule(rule: &Rule) -> Judgement<'_> {
    Judgement {
        verdict: rule.verdict,
        last_word: rule.last_word,
        unmatched: false,
        detail: rule.reason.unwrap_or(rule.verdict.name()),
        rule: Some(rule),
    }
}

fn without_rule(profile: &Profile, status: u16) -> Judgement<'_> {
    if profile.accepted.status.contains(status) {
        return Judgement {
            verdict: Verdict::Accepted,
            last_word: false,
            unmatched: false,
            detail: "accepted",
            rule: None,
        };
    }
    let default = default_for(status);
    Judgement {
        verdict: default.verdict,
        last_word: default.last_word,
        unmatched: default.unmatched,
        detail: default.detail,
        rule: None,
    }
}

/// A body that cannot be read may have held the id: then its absence proves nothing.
fn without_id(without_id: WithoutId, readable: bool) -> Verdict {
    match without_id {
        WithoutId::Accepted => Verdict::Accepted,
        WithoutId::Unknown => Verdict::Unknown,
        WithoutId::Rejected if readable => Verdict::Rejected,
        WithoutId::Rejected => Verdict::Unknown,
    }
}

fn find_message_id(profile: &Profile, reading: &Reading<'_>) -> Option<String> {
    let text = match &profile.accepted.id {
        IdSource::None => None,
        IdSource::Body(pointer) => reading.body_text(pointer),
        IdSource::Header(name) => reading
            .headers(name)
            .next()
            .and_then(|value| std::str::from_utf8(value).ok()),
    };
    let text = text?.trim();
    let fits = !text.is_empty()
        && text.chars().count() <= MESSAGE_ID_MAX
        && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
}

fn find_provider_code(
    profile: &Profile,
    verdict: Verdict,
    reading: &Reading<'_>,
) -> Option<String> {
    if verdict == Verdict::Accepted {
        return None;
    }
    let places = &profile.error_code;
    let in_header = places.header.as_ref().and_then(|name| {
        let value = reading.headers(name).next()?;
        std::str::from_utf8(value.trim_ascii()).ok()
    });
    let in_body = || {
        let mut places = places.body.iter();
        places.find_map(|pointer| reading.body_text(pointer))
    };
    let in_text = || {
        let regex = places.text.as_ref()?;
        reading.captured(regex)
    };
    let text = match in_header.or_else(in_body) {
        Some(text) => text.into(),
        None => in_text()?,
    };
    let fits = (1..=PROVIDER_CODE_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    fits.then(|| text.into_owned())
}

fn find_wait(
    profile: &Profile,
    verdict: Verdict,
    rule: Option<&Rule>,
    status: u16,
    reading: &Reading<'_>,
    circumstances: &Circumstances,
) -> Option<Wait> {
    match verdict {
        Verdict::Accepted | Verdict::Rejected | Verdict::Conflict => return None,
        Verdict::NotSent
        | Verdict::Throttled
        | Verdict::Unknown
        | Verdict::InProgress
        | Verdict::Misconfigured
        | Verdict::AccountHold => {}
    }
    let read = |form, texts: &mut dyn Iterator<Item = &[u8]>| {
        retry_after::read(form, texts, circumstances.now, circumstances.wait_max).ok()
    };
    let sources = profile
        .waits
        .iter()
        .filter(|source| source.on.as_ref().is_none_or(|on| on.contains(status)));
    let named = sources
        .filter_map(|source| {
            let wait = match &source.place {
                WaitPlace::Header(name, form) => read(*form, &mut reading.headers(name)),
                WaitPlace::Body(pointer, form) => reading
                    .body_text(pointer)
                    .and_then(|text| read(*form, &mut std::iter::once(text.as_bytes()))),
                WaitPlace::Text(regex, form) => reading
                    .captured(regex)
                    .and_then(|text| read(*form, &mut std::iter::once(text.as_bytes()))),
                WaitPlace::Fixed(at_least) => Some(AskedWait {
                    at_least: *at_least,
                    unit_doubt: false,
                }),
            };
            wait.map(|wait| (wait, source.scope))
        })
        .next();
    let by_rule = rule.and_then(|rule| {
        let until = rule.wait_until.map(|until| until.after(circumstances.now));
        rule.wait.max(until)
    });
    let (asked, scope) = match (named, by_rule) {
        (None, None) => return None,
        (Some((wait, scope)), None) => (wait, scope),
        (None, Some(at_least)) => (
            AskedWait {
                at_least,
                unit_doubt: false,
            },
            None,
        ),
        (Some((wait, scope)), Some(least)) => (
            AskedWait {
                at_least: wait.at_least.max(least),
                ..wait
            },
            scope,
        ),
    };
    let scope = rule.and_then(|rule| rule.wait_scope).or(scope);
    Some(Wait {
        at_least: asked.at_least,
        scope: scope.unwrap_or(WaitScope::Intent),
        unit_doubt: asked.unit_doubt,
    })
}
