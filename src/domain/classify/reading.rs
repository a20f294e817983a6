//! Decides what can be read off a response, and whether a condition of a profile holds for it: yes, no, or that nobody can
//! tell because the body is cut, packed, or too long. It does not know what follows from a condition.

use std::borrow::Cow;
use std::cell::OnceCell;

use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderName};
use regex::bytes::Regex;
use serde_json::Value;

use super::answer::Response;
use crate::domain::profile::{Pointer, ReplayMark, Test, When, text_of};

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::domain) enum Holds {
    No,
    /// The body would tell, and cannot be read.
    CannotTell,
    Yes,
}

impl Holds {
    fn known(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    /// All of several conditions: one that surely fails settles it.
    fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::No => Self::No,
            Self::Yes => other(),
            Self::CannotTell => match other() {
                Self::No => Self::No,
                Self::CannotTell | Self::Yes => Self::CannotTell,
            },
        }
    }

    /// Any of several conditions: one that surely holds settles it.
    fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Yes => Self::Yes,
            Self::No => other(),
            Self::CannotTell => match other() {
                Self::Yes => Self::Yes,
                Self::CannotTell | Self::No => Self::CannotTell,
            },
        }
    }
}

/// A response whose body is parsed when the first condition asks for it.
pub(in crate::domain) struct Reading<'a> {
    response: &'a Response,
    first_attempt: bool,
    document: OnceCell<Document>,
    replay: OnceCell<Holds>,
    marks: &'a [ReplayMark],
}

enum Document {
    Json(Value),
    /// Complete, and no JSON; an empty body too.
    NotJson,
    /// Cut, packed or too long: what it would say is not known.
    Unreadable,
}

impl<'a> Reading<'a> {
    pub(in crate::domain) fn new(
        response: &'a Response,
        marks: &'a [ReplayMark],
        first_attempt: bool,
    ) -> Self {
        Self {
            response,
            first_attempt,
            document: OnceCell::new(),
            replay: OnceCell::new(),
            marks,
        }
    }

    pub(in crate::domain) fn meets(&self, when: &When) -> Holds {
        let status = when
            .status
            .as_ref()
            .is_none_or(|set| set.contains(self.response.status));
        let first_attempt = when
            .first_attempt
            .is_none_or(|first| first == self.first_attempt);
        let headers = || {
            when.headers
                .iter()
                .all(|(name, test)| header_meets(&self.response.headers, name, test))
        };
        Holds::known(status && first_attempt && headers())
            .and(|| match when.replay {
                None => Holds::Yes,
                Some(wanted) => match (self.replay(), wanted) {
                    (Holds::CannotTell, _) => Holds::CannotTell,
                    (Holds::Yes, wanted) => Holds::known(wanted),
                    (Holds::No, wanted) => Holds::known(!wanted),
                },
            })
            .and(|| {
                when.body.iter().fold(Holds::Yes, |holds, (pointer, test)| {
                    holds.and(|| self.body_meets(pointer, test))
                })
            })
            .and(|| {
                when.text
                    .as_ref()
                    .map_or(Holds::Yes, |regex| self.text_matches(regex))
            })
    }

    /// Whether the provider answered from its memory of the key.
    pub(super) fn replay(&self) -> Holds {
        *self.replay.get_or_init(|| {
            self.marks.iter().fold(Holds::No, |holds, mark| {
                holds.or(|| match mark {
                    ReplayMark::Header(name, test) => {
                        Holds::known(header_meets(&self.response.headers, name, test))
                    }
                    ReplayMark::Body(pointer, test) => self.body_meets(pointer, test),
                    ReplayMark::Status(set) => Holds::known(set.contains(self.response.status)),
                })
            })
        })
    }

    pub(super) fn headers(&self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let values = self.response.headers.get_all(name);
        values.into_iter().map(http::HeaderValue::as_bytes)
    }

    /// The body, if it is complete and JSON.
    pub(in crate::domain) fn json(&self) -> Option<&Value> {
        match self.document() {
            Document::Json(document) => Some(document),
            Document::NotJson | Document::Unreadable => None,
        }
    }

    /// The first value at `pointer` that has a text.
    pub(super) fn body_text(&self, pointer: &Pointer) -> Option<&str> {
        let Document::Json(document) = self.document() else {
            return None;
        };
        let mut text = None;
        pointer.any(document, |value| {
            text = text_of(value);
            text.is_some()
        });
        text
    }

    /// The one group of the first match in a body that is complete.
    pub(super) fn captured(&self, regex: &Regex) -> Option<Cow<'_, str>> {
        if !self.is_readable() {
            return None;
        }
        let captures = regex.captures(&self.response.body)?;
        Some(String::from_utf8_lossy(captures.get(1)?.as_bytes()))
    }

    /// Whether what the body says is known.
    pub(super) fn is_readable(&self) -> bool {
        let packed = self
            .headers(&CONTENT_ENCODING)
            .any(|encoding| !encoding.trim_ascii().eq_ignore_ascii_case(b"identity"));
        self.response.body_complete && !packed
    }

    fn body_meets(&self, pointer: &Pointer, test: &Test) -> Holds {
        let document = match self.document() {
            Document::Json(document) => document,
            Document::NotJson => return Holds::No,
            Document::Unreadable => return Holds::CannotTell,
        };
        let any = |test: &dyn Fn(&str) -> bool| {
            pointer.any(document, |value| text_of(value).is_some_and(test))
        };
        Holds::known(match test {
            Test::Equals(wanted) => any(&|text| text == &**wanted),
            Test::OneOf(wanted) => any(&|text| wanted.iter().any(|wanted| text == &**wanted)),
            Test::Matches(regex) => any(&|text| regex.is_match(text.as_bytes())),
            Test::Every(wanted) => {
                let meets =
                    |value| text_of(value).is_some_and(|text| wanted.iter().any(|w| text == &**w));
                pointer.any(document, meets) && !pointer.any(document, |value| !meets(value))
            }
            Test::Present => pointer.any(document, |value| !value.is_null()),
            Test::Absent => !pointer.any(document, |value| !value.is_null()),
            Test::Empty => {
                pointer.any(document, is_empty)
                    && !pointer.any(document, |value| !value.is_null() && !is_empty(value))
            }
        })
    }

    fn text_matches(&self, regex: &Regex) -> Holds {
        match self.is_readable() {
            true => Holds::known(regex.is_match(&self.response.body)),
            false => Holds::CannotTell,
        }
    }

    fn document(&self) -> &Document {
        self.document.get_or_init(|| {
            if !self.is_readable() {
                return Document::Unreadable;
            }
            let body: &[u8] = &self.response.body;
            let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
            match serde_json::from_slice(body) {
                Ok(document) => Document::Json(document),
                Err(_) => Document::NotJson,
            }
        })
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn header_meets(headers: &HeaderMap, name: &HeaderName, test: &Test) -> bool {
    let mut values = headers
        .get_all(name)
        .into_iter()
        .map(|value| value.as_bytes().trim_ascii());
    match test {
        Test::Equals(wanted) => values.any(|value| value.eq_ignore_ascii_case(wanted.as_bytes())),
        Test::OneOf(wanted) => values.any(|value| {
            wanted
                .iter()
                .any(|wanted| value.eq_ignore_ascii_case(wanted.as_bytes()))
        }),
        Test::Matches(regex) => values.any(|value| regex.is_match(value)),
        Test::Every(wanted) => {
            let mut values = values.peekable();
            values.peek().is_some()
                && values.all(|value| {
                    let meets = |wanted: &str| value.eq_ignore_ascii_case(wanted.as_bytes());
                    wanted.iter().any(|wanted| meets(wanted))
                })
        }
        Test::Present => values.next().is_some(),
        Test::Absent => values.next().is_none(),
        Test::Empty => values.next().is_some_and(<[u8]>::is_empty) && values.all(<[u8]>::is_empty),
    }
}
