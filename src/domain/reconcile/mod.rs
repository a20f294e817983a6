//! Decides what a provider's answer to a look-up proves about one unknown outcome. It does not ask, and it does not know
//! when an answer may be believed, nor what follows: that is `dispatch`.
//!
//! An absence must be said: by a list that is complete and has nothing of ours, by a status or by a rule of the profile.
//! Refused credentials, a throttled or failed look-up and a body that cannot be read prove nothing.

use jiff::fmt::rfc2822;
use serde_json::Value;

use super::classify::{Answer, Holds, Reading, Response};
use super::profile::{Items, Lookup, LookupProof, MomentForm, Pointer, Told, text_of};
use super::time::{CLOCK_SKEW, Timestamp};

/// What a look-up proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The message was taken. Its id, if the answer names it.
    Present(Option<String>),
    /// The message was not taken.
    Absent,
    /// The provider cannot tell yet.
    NotYet,
    /// It proves nothing, for this cause.
    Nothing(&'static str),
}

impl Finding {
    /// Every name, in the order of the enum.
    pub const NAMES: [&'static str; 4] = ["present", "absent", "not_yet", "nothing"];

    /// The name in metrics and logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Present(_) => "present",
            Self::Absent => "absent",
            Self::NotYet => "not_yet",
            Self::Nothing(_) => "nothing",
        }
    }

    /// Why it proves nothing, where it does not.
    pub const fn detail(&self) -> Option<&'static str> {
        match self {
            Self::Nothing(cause) => Some(cause),
            Self::Present(_) | Self::Absent | Self::NotYet => None,
        }
    }
}

/// What is asked about.
pub struct Question<'a> {
    /// What an item of ours says, place by place.
    pub ours: &'a [(&'a Pointer, String)],
    /// When the first attempt started: what was made before is not ours.
    pub first_start: Timestamp,
    /// When the answer came, by our clock.
    pub now: Timestamp,
    /// Whether a message id is explained by another story of the ledger. Asked only where a find is ambiguous.
    pub explained: Option<&'a dyn Fn(&str) -> bool>,
}

/// The longest message id that is kept, in characters.
const MESSAGE_ID_MAX: usize = 255;

/// What `answer` proves.
pub fn judge(lookup: &Lookup, answer: &Answer, question: &Question<'_>) -> Finding {
    match answer {
        Answer::Response(response) => read(lookup, response, question),
        Answer::NotSent(cause) => Finding::Nothing(cause.label()),
        Answer::Lost(cause) => Finding::Nothing(cause.label()),
    }
}

fn read(lookup: &Lookup, response: &Response, question: &Question<'_>) -> Finding {
    let reading = Reading::new(response, &[], false);
    let items = &lookup.items;
    for rule in &lookup.rules {
        match (reading.meets(&rule.when), rule.means) {
            (Holds::No, _) => {}
            (Holds::CannotTell, _) => return Finding::Nothing("body_unreadable"),
            (Holds::Yes, Told::Absent) => return Finding::Absent,
            (Holds::Yes, Told::NotYet) => return Finding::NotYet,
            (Holds::Yes, Told::Nothing) => return Finding::Nothing("rule"),
            (Holds::Yes, Told::Present) => {
                let id = reading.json().and_then(|document| id_of(items, document));
                return Finding::Present(id);
            }
        }
    }
    if let Some(absent) = &lookup.absent
        && absent.contains(response.status)
    {
        return Finding::Absent;
    }
    if response.status != 200 {
        return Finding::Nothing("status");
    }
    let Some(document) = reading.json() else {
        return Finding::Nothing("body_unreadable");
    };
    let clocks = items
        .made_at
        .as_ref()
        .map(|_| clocks(response, question.now));
    if clocks == Some(Clocks::Differ) {
        return Finding::Nothing("clocks_differ");
    }
    let Some(list) = &items.list else {
        return match is_ours(items, document, question) {
            Some(true) => present(items, vec![document], question),
            Some(false) => Finding::Nothing("not_ours"),
            None => Finding::Nothing("moment_unreadable"),
        };
    };
    let Some(Value::Array(listed)) = list.first(document) else {
        return Finding::Nothing("no_list");
    };
    let mut found = Vec::new();
    let (mut another, mut older) = (false, false);
    for item in listed {
        match is_ours(items, item, question) {
            Some(true) => found.push(item),
            Some(false) if says_ours(item, question) => {
                // It looks older than ours. Unless the provider's clock is known to go right, it may be ours all the same.
                let unexplained = !is_explained(items, item, question);
                older |= unexplained && clocks != Some(Clocks::Agree);
            }
            Some(false) => another |= may_be_ours_changed(lookup, item, question),
            None => return Finding::Nothing("moment_unreadable"),
        }
    }
    let is_full = items
        .page
        .is_some_and(|page| listed.len() >= usize::try_from(page).unwrap_or(usize::MAX));
    match present(items, found, question) {
        Finding::Absent if is_full => Finding::Nothing("list_goes_on"),
        Finding::Absent if older => Finding::Nothing("older_match"),
        Finding::Absent if another => Finding::Nothing("another_unexplained"),
        finding @ (Finding::Present(_)
        | Finding::Absent
        | Finding::NotYet
        | Finding::Nothing(_)) => finding,
    }
}

/// What it means that these are ours to look at: one is there, unless the ledger explains them all.
fn present(items: &Items, found: Vec<&Value>, question: &Question<'_>) -> Finding {
    let Some(explained) = question.explained else {
        return match found.first() {
            Some(item) => Finding::Present(id_of(items, item)),
            None => Finding::Absent,
        };
    };
    for item in found {
        match id_of(items, item) {
            Some(id) if explained(&id) => {}
            Some(id) => return Finding::Present(Some(id)),
            None => return Finding::Nothing("no_message_id"),
        }
    }
    Finding::Absent
}

fn id_of(items: &Items, item: &Value) -> Option<String> {
    let text = text_of(items.id.as_ref()?.first(item)?)?.trim();
    let fits = !text.is_empty()
        && text.chars().count() <= MESSAGE_ID_MAX
        && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
}

/// Whether an item says what ours would say, and is not too old; `None` if its moment cannot be read.
fn is_ours(items: &Items, item: &Value, question: &Question<'_>) -> Option<bool> {
    if says_ours(item, question) {
        is_new_enough(items, item, question)
    } else {
        Some(false)
    }
}

fn says_ours(item: &Value, question: &Question<'_>) -> bool {
    question
        .ours
        .iter()
        .all(|(pointer, wanted)| pointer.any(item, |value| text_of(value) == Some(wanted.as_str())))
}

fn is_explained(items: &Items, item: &Value, question: &Question<'_>) -> bool {
    question
        .explained
        .is_some_and(|explained| id_of(items, item).is_some_and(|id| explained(&id)))
}

/// How the provider's clock stands to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clocks {
    Agree,
    Differ,
    /// The answer tells no date.
    NotTold,
}

fn clocks(response: &Response, now: Timestamp) -> Clocks {
    let told = response.headers.get(http::header::DATE);
    let told = told
        .and_then(|date| date.to_str().ok())
        .and_then(|date| moment(MomentForm::Rfc2822, date));
    match told {
        None => Clocks::NotTold,
        Some(date) if date.since(now).max(now.since(date)) <= CLOCK_SKEW => Clocks::Agree,
        Some(_) => Clocks::Differ,
    }
}

fn is_new_enough(items: &Items, item: &Value, question: &Question<'_>) -> Option<bool> {
    let Some((pointer, form)) = &items.made_at else {
        return Some(true);
    };
    let made_at = moment(*form, text_of(pointer.first(item)?)?)?;
    Some(made_at.plus(CLOCK_SKEW) >= question.first_start)
}

/// Whether an item of a search by content, which does not say what ours would, may be ours all the same: some providers
/// shorten links or replace characters. It is not if it is older, or if the ledger explains it.
fn may_be_ours_changed(lookup: &Lookup, item: &Value, question: &Question<'_>) -> bool {
    let items = &lookup.items;
    match (lookup.proof, question.explained) {
        (LookupProof::Content, Some(_)) => {
            is_new_enough(items, item, question) != Some(false)
                && !is_explained(items, item, question)
        }
        (LookupProof::Key | LookupProof::Reference | LookupProof::Content, _) => false,
    }
}

fn moment(form: MomentForm, text: &str) -> Option<Timestamp> {
    match form {
        MomentForm::Rfc3339 => Timestamp::parse_rfc3339(text),
        MomentForm::Rfc2822 => {
            let zoned = rfc2822::DateTimeParser::new()
                .relaxed_weekday(true)
                .parse_timestamp(text)
                .ok()?;
            Some(Timestamp::from_millis(zoned.as_millisecond()))
        }
        MomentForm::EpochSeconds => {
            let seconds: i64 = text.split('.').next()?.parse().ok()?;
            Some(Timestamp::from_millis(seconds.checked_mul(1_000)?))
        }
        MomentForm::EpochMilliseconds => Some(Timestamp::from_millis(text.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests;
