//! Decides what a rule of a profile says: its conditions, and what an answer that meets them all means.
//! It does not know whether an answer meets them: that is `classify`.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderName;
use regex::bytes::Regex;
use toml::Value;

use super::pointer::Pointer;
use super::section::{Section, list_of};
use crate::domain::attempt::{Verdict, WaitScope};
use crate::domain::time::Timestamp;

/// What an answer means that meets every condition.
#[derive(Debug)]
pub struct Rule {
    /// The conditions; all must hold.
    pub when: When,
    /// What the answer means.
    pub verdict: Verdict,
    /// A retry would only replay it.
    pub last_word: bool,
    /// The key can never be used again.
    pub burned: bool,
    /// Whether an accepted answer of this kind carries the message's id.
    pub id: IdAt,
    /// Wait at least this long.
    pub wait: Option<Duration>,
    /// Wait until then at least.
    pub wait_until: Option<WaitUntil>,
    /// Whom the wait holds up; absent leaves it to the source of the wait.
    pub wait_scope: Option<WaitScope>,
    /// The cause in one word of [`REASONS`].
    pub reason: Option<&'static str>,
}

/// Conditions on an answer. What is not named is not asked.
#[derive(Debug, Default)]
pub struct When {
    /// The statuses; absent means any.
    pub status: Option<StatusSet>,
    /// Headers, by name without case.
    pub headers: Vec<(HeaderName, Test)>,
    /// Values of a JSON body.
    pub body: Vec<(Pointer, Test)>,
    /// An expression over the body's bytes, for bodies that are no JSON.
    pub text: Option<Regex>,
    /// Whether the provider answered from its memory of the key.
    pub replay: Option<bool>,
    /// Whether this is the first attempt ever under the key.
    pub first_attempt: Option<bool>,
}

/// What a value must be. `Absent`, `Present` and `Empty` speak of a JSON document, or of the list of headers: a body that
/// is no JSON meets none of them.
#[derive(Debug)]
pub enum Test {
    /// Its canonical text is this; headers compare without case.
    Equals(Box<str>),
    /// Its canonical text is one of these.
    OneOf(Box<[Box<str>]>),
    /// It is there and not null.
    Present,
    /// It is not there, or null.
    Absent,
    /// It is there, and is an empty text, list or object.
    Empty,
    /// Its canonical text matches.
    Matches(Regex),
    /// It is there, and every value at this place is one of these: for an answer that speaks of several parts.
    Every(Box<[Box<str>]>),
}

/// A moment at which a provider's quota begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    /// The next full hour.
    NextHour,
    /// The next midnight in UTC.
    MidnightUtc,
}

impl WaitUntil {
    /// How long that is from `now` on: above zero, at most an hour or a day.
    pub fn after(self, now: Timestamp) -> Duration {
        let period: i64 = match self {
            Self::NextHour => 3_600_000,
            Self::MidnightUtc => 86_400_000,
        };
        let left = period - now.as_millis().rem_euclid(period);
        Duration::from_millis(left.unsigned_abs())
    }
}

/// Where the id of an accepted message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdAt {
    /// In this answer, where `[accepted]` says.
    Here,
    /// Nowhere.
    Absent,
    /// In the answer to a later request.
    Later,
}

impl When {
    /// Whether every answer that meets `other` surely meets this: each of these conditions is one of the other's too, or
    /// asks for less. False where that would take more than a look.
    pub(super) fn includes(&self, other: &Self) -> bool {
        let status = match (&self.status, &other.status) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(all), Some(some)) => {
                (100..=999).all(|status| all.contains(status) || !some.contains(status))
            }
        };
        let asked = |own: Option<bool>, theirs: Option<bool>| own.is_none() || own == theirs;
        let text = match (&self.text, &other.text) {
            (None, _) => true,
            (Some(own), Some(theirs)) => own.as_str() == theirs.as_str(),
            (Some(_), None) => false,
        };
        let headers = self.headers.iter().all(|(name, test)| {
            let mut theirs = other.headers.iter();
            theirs.any(|(other, narrower)| other == name && test.includes(narrower))
        });
        let body = self.body.iter().all(|(pointer, test)| {
            let mut theirs = other.body.iter();
            theirs.any(|(other, narrower)| other == pointer && test.includes(narrower))
        });
        status
            && text
            && headers
            && body
            && asked(self.replay, other.replay)
            && asked(self.first_attempt, other.first_attempt)
    }
}

impl Test {
    /// Whether what passes `narrower` surely passes this.
    fn includes(&self, narrower: &Self) -> bool {
        let texts = |test: &Self| -> Option<Vec<Box<str>>> {
            match test {
                Self::Equals(text) => Some(vec![text.clone()]),
                Self::OneOf(texts) => Some(texts.to_vec()),
                Self::Present | Self::Absent | Self::Empty | Self::Matches(_) | Self::Every(_) => {
                    None
                }
            }
        };
        match (self, narrower) {
            (Self::Present, Self::Present | Self::Equals(_) | Self::OneOf(_))
            | (Self::Absent, Self::Absent)
            | (Self::Empty, Self::Empty) => true,
            (Self::Matches(all), Self::Matches(some)) => all.as_str() == some.as_str(),
            (Self::Every(all), Self::Every(some)) => some.iter().all(|text| all.contains(text)),
            (all, some) => match (texts(all), texts(some)) {
                (Some(all), Some(some)) => some.iter().all(|text| all.contains(text)),
                (_, _) => false,
            },
        }
    }
}

/// The words a profile may give as the cause. Closed, so that metrics and dead letters stay bounded and free of content.
pub const REASONS: [&str; 21] = [
    "already_accepted",
    "content_refused",
    "credentials_refused",
    "endpoint_missing",
    "key_burned",
    "key_conflict",
    "no_credit",
    "not_enabled",
    "not_permitted",
    "opted_out",
    "partial",
    "quota_used_up",
    "rate_limited",
    "recipient_gone",
    "recipient_invalid",
    "sender_refused",
    "still_working",
    "stored_error",
    "suspended",
    "temporary_failure",
    "window_over",
];

/// A set of HTTP statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSet(Box<[RangeInclusive<u16>]>);

impl StatusSet {
    /// Whether `status` is in it.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }

    /// Reads `409`, `[200, 201]`, `"5xx"`, `"500-504"`.
    pub(super) fn read(section: &Section<'_>, key: &str, value: &Value) -> Option<Self> {
        let ranges: Option<Box<[_]>> = list_of(value).iter().map(status_range).collect();
        if ranges.is_none() {
            section.fault(
                key,
                "expected statuses: 409, \"5xx\", \"500-504\", or a list of these",
            );
        }
        ranges.map(Self)
    }
}

fn status_range(value: &Value) -> Option<RangeInclusive<u16>> {
    let single = |number: i64| {
        u16::try_from(number)
            .ok()
            .filter(|status| (100..=999).contains(status))
    };
    match value {
        Value::Integer(number) => single(*number).map(|status| status..=status),
        Value::String(text) => match (text.strip_suffix("xx"), text.split_once('-')) {
            (Some(class), _) => {
                let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
                Some(class * 100..=class * 100 + 99)
            }
            (None, Some((from, to))) => {
                let from = single(from.parse().ok()?)?;
                let to = single(to.parse().ok()?)?;
                (from <= to).then_some(from..=to)
            }
            (None, None) => None,
        },
        Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Array(_)
        | Value::Table(_) => None,
    }
}

/// Reads one `[[rule]]`.
pub(super) fn read(section: Section<'_>, has_replay_mark: bool) -> Option<Rule> {
    let when = match section.section("when") {
        Some(when) => read_when(when, has_replay_mark),
        None => {
            if !section.has("when") {
                section.missing("when");
            }
            When::default()
        }
    };
    let classes = Verdict::ALL.map(|verdict| (verdict.name(), verdict));
    let verdict = section.word("class", &classes);
    if !section.has("class") {
        section.missing("class");
    }
    let last_word = section.flag("final").unwrap_or(false);
    let burned = section.flag("burned").unwrap_or(false);
    let id = section.word(
        "id",
        &[
            ("here", IdAt::Here),
            ("absent", IdAt::Absent),
            ("later", IdAt::Later),
        ],
    );
    if id.is_some() && verdict.is_some_and(|verdict| verdict != Verdict::Accepted) {
        section.fault("id", "means nothing unless the class is accepted");
    }
    let wait = section.span("wait");
    let wait_until = section.word(
        "wait_until",
        &[
            ("next_hour", WaitUntil::NextHour),
            ("midnight_utc", WaitUntil::MidnightUtc),
        ],
    );
    let wait_scope = read_scope(&section, "wait_scope");
    if matches!(
        verdict,
        Some(Verdict::Accepted | Verdict::Rejected | Verdict::Conflict)
    ) {
        for key in ["final", "wait", "wait_until", "wait_scope"] {
            if section.has(key) {
                section.fault(key, "means nothing for this class: nothing follows it");
            }
        }
    }
    let reasons = REASONS.map(|reason| (reason, reason));
    let reason = section.word("reason", &reasons);
    section.close();
    Some(Rule {
        when,
        verdict: verdict?,
        last_word,
        burned,
        id: id.unwrap_or(IdAt::Here),
        wait,
        wait_until,
        wait_scope,
        reason,
    })
}

pub(super) fn read_scope(section: &Section<'_>, key: &str) -> Option<WaitScope> {
    section.word(
        key,
        &[
            ("intent", WaitScope::Intent),
            ("account", WaitScope::Account),
            ("recipient", WaitScope::Recipient),
        ],
    )
}

pub(super) fn read_when(section: Section<'_>, has_replay_mark: bool) -> When {
    let mut when = When {
        status: section
            .value("status")
            .and_then(|value| StatusSet::read(&section, "status", value)),
        replay: section.flag("replay"),
        first_attempt: section.flag("first_attempt"),
        ..When::default()
    };
    if when.replay.is_some() && !has_replay_mark {
        section.fault("replay", "needs a key.replay mark");
    }
    if let Some(headers) = section.section("header") {
        for (name, value) in headers.every() {
            match (name.parse(), read_test(&headers, name, value)) {
                (Ok(name), Some(test)) => when.headers.push((name, test)),
                (Ok(_), None) => {}
                (Err(_), _) => headers.fault(name, "is no valid name of a header"),
            }
        }
    }
    if let Some(body) = section.section("body") {
        for (pointer, value) in body.every() {
            let test = read_test(&body, pointer, value);
            let pointer = read_pointer(&body, pointer, pointer);
            when.body.extend(pointer.zip(test));
        }
    }
    if let Some(source) = section.text("text") {
        when.text = read_regex(&section, "text", source);
    }
    if ![
        "status",
        "header",
        "body",
        "text",
        "replay",
        "first_attempt",
    ]
    .iter()
    .any(|key| section.has(key))
    {
        section.faults().add(
            section.path(),
            "needs a condition: without one the rule would catch every answer",
        );
    }
    section.close();
    when
}

fn read_test(section: &Section<'_>, key: &str, value: &Value) -> Option<Test> {
    let wrong = "expected a value, a list of values, or one of { present = true }, { absent = true }, { empty = true }, { regex = \"…\" }, { every = … }";
    let test = match value {
        Value::Array(_) => texts_of(value).map(Test::OneOf),
        Value::Table(table) => {
            let mut entries = table.iter();
            match (entries.next(), entries.next()) {
                (Some((name, value)), None) => match (name.as_str(), value) {
                    ("present", Value::Boolean(true)) => Some(Test::Present),
                    ("absent", Value::Boolean(true)) => Some(Test::Absent),
                    ("empty", Value::Boolean(true)) => Some(Test::Empty),
                    ("regex", Value::String(source)) => {
                        return read_regex(section, key, source).map(Test::Matches);
                    }
                    ("every", value) => texts_of(value).map(Test::Every),
                    _ => None,
                },
                (_, _) => None,
            }
        }
        Value::String(_)
        | Value::Integer(_)
        | Value::Boolean(_)
        | Value::Float(_)
        | Value::Datetime(_) => canonical(value).map(Test::Equals),
    };
    if test.is_none() {
        section.fault(key, wrong);
    }
    test
}

/// The texts of a list, or of a single value; none if one of them has no text, or there is none.
fn texts_of(value: &Value) -> Option<Box<[Box<str>]>> {
    let texts: Option<Box<[_]>> = list_of(value).iter().map(canonical).collect();
    texts.filter(|texts| !texts.is_empty())
}

/// The text under which a value of a profile is compared.
pub(super) fn canonical(value: &Value) -> Option<Box<str>> {
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Integer(number) => Some(number.to_string().into()),
        Value::Boolean(flag) => Some(flag.to_string().into()),
        Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

pub(super) fn read_pointer(section: &Section<'_>, key: &str, text: &str) -> Option<Pointer> {
    Pointer::parse(text)
        .inspect_err(|problem| section.fault(key, *problem))
        .ok()
}

pub(super) fn read_regex(section: &Section<'_>, key: &str, source: &str) -> Option<Regex> {
    Regex::new(source)
        .inspect_err(|_| section.fault(key, "is no regular expression"))
        .ok()
}
