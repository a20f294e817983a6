//! Decides where an answer names a wait, the message's id and an error code, and how much a provider takes at a time.
//! It reads no answer.

use std::time::Duration;

use http::HeaderName;
use regex::bytes::Regex;

use super::pointer::Pointer;
use super::rule::{StatusSet, read_pointer, read_regex, read_scope};
use super::section::Section;
use super::template::{Compiler, Text};
use crate::domain::attempt::WaitScope;
use crate::domain::retry_after::Form;

/// What an acceptance looks like, where no rule says otherwise.
#[derive(Debug)]
pub struct Accepted {
    /// The statuses of it.
    pub status: StatusSet,
    /// Where the message's id is.
    pub id: IdSource,
    /// What it means if there is none.
    pub without_id: WithoutId,
}

/// Where the message's id is.
#[derive(Debug)]
pub enum IdSource {
    /// The provider gives none.
    None,
    /// In the body.
    Body(Pointer),
    /// In a header.
    Header(HeaderName),
}

/// What an acceptance without an id means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutId {
    /// Accepted all the same, and flagged.
    Accepted,
    /// Nobody knows.
    Unknown,
    /// The provider says by this that it sent nothing.
    Rejected,
}

/// Where the provider's own error code is; the first that is found counts.
#[derive(Debug, Default)]
pub struct ErrorCode {
    /// A header.
    pub header: Option<HeaderName>,
    /// Places in a JSON body.
    pub body: Vec<Pointer>,
    /// The first group of a match in a body that is no JSON.
    pub text: Option<Regex>,
}

/// A place that may name a wait.
#[derive(Debug)]
pub struct WaitSource {
    /// The statuses it is looked for at; absent means any.
    pub on: Option<StatusSet>,
    /// The place.
    pub place: WaitPlace,
    /// Whom it holds up, unless a rule says so.
    pub scope: Option<WaitScope>,
}

/// Where a wait is named.
#[derive(Debug)]
pub enum WaitPlace {
    /// In a header, in this form.
    Header(HeaderName, Form),
    /// In a JSON body, in this form.
    Body(Pointer, Form),
    /// In the one group of the first match in a body, in this form.
    Text(Regex, Form),
    /// Nowhere: this long.
    Fixed(Duration),
}

/// How much a provider takes at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests on the wire at once.
    pub concurrency: Option<u32>,
    /// Requests a second.
    pub rate_per_second: Option<u32>,
    /// Requests at once after a pause.
    pub burst: Option<u32>,
}

/// Reads `[accepted]`.
pub(super) fn read_accepted(top: &Section<'_>) -> Option<Accepted> {
    if !top.has("accepted") {
        top.missing("accepted");
    }
    let section = top.section("accepted")?;
    if !section.has("status") {
        section.missing("status");
    }
    let status = section
        .value("status")
        .and_then(|value| StatusSet::read(&section, "status", value));
    let id = match section.text("id") {
        None => Some(IdSource::None),
        Some(text) => match text.strip_prefix("header ") {
            Some(name) => match name.parse() {
                Ok(name) => Some(IdSource::Header(name)),
                Err(_) => {
                    section.fault("id", "names no valid header");
                    None
                }
            },
            None => read_pointer(&section, "id", text).map(IdSource::Body),
        },
    };
    let without_id = section
        .word(
            "without_id",
            &[
                ("accepted", WithoutId::Accepted),
                ("unknown", WithoutId::Unknown),
                ("rejected", WithoutId::Rejected),
            ],
        )
        .unwrap_or(WithoutId::Accepted);
    if without_id != WithoutId::Accepted && matches!(id, Some(IdSource::None)) {
        section.fault("without_id", "means nothing where no id is looked for");
    }
    section.close();
    Some(Accepted {
        status: status?,
        id: id?,
        without_id,
    })
}

/// Reads `[error_code]`.
pub(super) fn read_error_code(section: Section<'_>) -> ErrorCode {
    let body = section
        .texts("body")
        .into_iter()
        .filter_map(|text| read_pointer(&section, "body", text))
        .collect();
    let text = read_one_group(&section, "text", "the code");
    let header = section.text("header").and_then(|name| {
        let header = name.parse().ok();
        if header.is_none() {
            section.fault("header", "names no valid header");
        }
        header
    });
    section.close();
    ErrorCode { header, body, text }
}

/// An expression over a body whose one group is `what`.
fn read_one_group(section: &Section<'_>, key: &str, what: &str) -> Option<Regex> {
    let regex = section
        .text(key)
        .and_then(|source| read_regex(section, key, source))?;
    if regex.captures_len() != 2 {
        section.fault(key, format!("needs exactly one group: {what}"));
        return None;
    }
    Some(regex)
}

/// Reads every `[[wait]]`; without one, `Retry-After` is read.
pub(super) fn read_waits(top: &Section<'_>) -> Vec<WaitSource> {
    if !top.has("wait") {
        return vec![WaitSource {
            on: None,
            place: WaitPlace::Header(http::header::RETRY_AFTER, Form::RetryAfter),
            scope: None,
        }];
    }
    top.sections("wait")
        .into_iter()
        .filter_map(read_wait)
        .collect()
}

fn read_wait(section: Section<'_>) -> Option<WaitSource> {
    let on = section
        .value("on")
        .and_then(|value| StatusSet::read(&section, "on", value));
    let forms = Form::ALL.map(|form| (form.name(), form));
    let form = section.word("as", &forms).unwrap_or(Form::RetryAfter);
    let scope = read_scope(&section, "scope");
    let places = ["header", "body", "text", "fixed"];
    if places.iter().filter(|key| section.has(key)).count() != 1 {
        section.faults().add(
            section.path(),
            "expected exactly one of header, body, text and fixed",
        );
    }
    if section.has("fixed") && section.has("as") {
        section.fault("as", "means nothing beside a fixed wait");
    }
    let place = if let Some(name) = section.text("header") {
        match name.parse() {
            Ok(name) => Some(WaitPlace::Header(name, form)),
            Err(_) => {
                section.fault("header", "names no valid header");
                None
            }
        }
    } else if let Some(pointer) = section.text("body") {
        read_pointer(&section, "body", pointer).map(|pointer| WaitPlace::Body(pointer, form))
    } else if section.has("text") {
        read_one_group(&section, "text", "the wait").map(|regex| WaitPlace::Text(regex, form))
    } else {
        section.span("fixed").map(WaitPlace::Fixed)
    };
    section.close();
    Some(WaitSource {
        on,
        place: place?,
        scope,
    })
}

/// How many SMS an intent may take.
#[derive(Debug)]
pub struct SegmentsLimit {
    /// The most that are sent.
    pub max: u32,
    /// The text that is cut into them.
    pub(in crate::domain) text: Text,
}

/// Reads `[limits.segments]`.
pub(super) fn read_segments(
    section: &Section<'_>,
    compiler: &Compiler<'_>,
) -> Option<SegmentsLimit> {
    let section = section.section("segments")?;
    for key in ["max", "text"] {
        if !section.has(key) {
            section.missing(key);
        }
    }
    let max = section.number("max", 1..=255);
    let text = section.text("text").map(|source| {
        let text = compiler.text(&section.path_of("text"), source);
        if text.literal().is_some() {
            section.fault("text", "has no hole: every intent would count the same");
        }
        text
    });
    section.close();
    Some(SegmentsLimit {
        max: max?,
        text: text?,
    })
}

/// Reads `[limits]`; the caller has read `segments` and closes the section.
pub(super) fn read_limits(section: &Section<'_>) -> Limits {
    let limits = Limits {
        concurrency: section.number("concurrency", 1..=100_000),
        rate_per_second: section.number("rate_per_second", 1..=1_000_000),
        burst: section.number("burst", 1..=1_000_000),
    };
    if limits.burst.is_some() && limits.rate_per_second.is_none() {
        section.fault("burst", "means nothing without rate_per_second");
    }
    limits
}
