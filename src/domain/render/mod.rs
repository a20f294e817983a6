//! Decides the bytes of a request: a pure function of intent, profile and key, so that every attempt of an intent sends
//! the same. It knows no secret, no clock and no dice, and cannot be made to break JSON, add a header or leave its path.

use std::borrow::Cow;
mod looking_up;

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use thiserror::Error;
use url::{Url, form_urlencoded};

use super::idempotency_key::{IdempotencyKey, RequestFingerprint};
use super::intent::Intent;
use super::length_prefixed;
use super::profile::{
    BodyShape, Companion, FirstAttemptForm, FormField, FormValue, Found, Hole, Names, NoValue,
    Node, Part, Place, Profile, Text, UrlShape, text_of,
};
use super::segments::segments;
use super::time::Timestamp;

pub use self::looking_up::{RenderedLookup, render_lookup};

/// A request, complete but for its credentials.
#[derive(Clone)]
pub struct RenderedRequest {
    /// The method.
    pub method: Method,
    /// Where it goes. May hold the recipient: never log it.
    pub url: Url,
    /// Every header but the credentials and those that the connection sets.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// SHA-256 over method, URL and body, each behind its length.
    pub fingerprint: RequestFingerprint,
    /// Headers that say when the first attempt started: not there yet, and in no fingerprint.
    pub companions: Vec<Companion>,
}

impl RenderedRequest {
    /// This request with what tells since when its key is used; the same for every attempt.
    pub fn dated(&self, first_attempt: Timestamp) -> Cow<'_, Self> {
        if self.companions.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut dated = self.clone();
        for Companion { header, form } in &self.companions {
            // Digits, letters, blanks and colons: no such text is refused.
            if let Ok(value) = HeaderValue::try_from(written(first_attempt, *form)) {
                dated.headers.insert(header.clone(), value);
            }
        }
        Cow::Owned(dated)
    }
}

fn written(moment: Timestamp, form: FirstAttemptForm) -> String {
    let seconds = moment.as_millis().div_euclid(1_000);
    match form {
        FirstAttemptForm::HttpDate => {
            // The years that its form can write.
            let seconds = seconds.clamp(0, 253_402_300_799);
            let since = Duration::from_secs(seconds.unsigned_abs());
            httpdate::fmt_http_date(UNIX_EPOCH + since)
        }
        FirstAttemptForm::Rfc3339 => {
            Timestamp::from_millis(seconds.saturating_mul(1_000)).to_string()
        }
        FirstAttemptForm::EpochSeconds => seconds.to_string(),
    }
}

impl fmt::Debug for RenderedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenderedRequest")
            .field("method", &self.method)
            .field("body_bytes", &self.body.len())
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// Why an intent cannot be rendered. Names the place in the profile, never content.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct RenderFault {
    /// The key path of the leaf in the profile.
    pub path: String,
    /// What is wrong with its value.
    pub problem: RenderProblem,
}

/// What is wrong with a leaf's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RenderProblem {
    /// The leaf names something that the intent lacks.
    #[error("the intent lacks what this names")]
    Undefined,
    /// The value is none, where text has to be.
    #[error("the value is none, and this place cannot be left out")]
    Absent,
    /// The expression cannot be computed from these values.
    #[error("cannot be computed from the intent's values")]
    Failed,
    /// A list or an object where one text has to be.
    #[error("the value is a list or an object where text has to be")]
    NotText,
    /// The expression came to something that JSON cannot write.
    #[error("the value cannot be written as JSON")]
    NotJson,
    /// The text has characters that no header can carry.
    #[error("the value cannot stand in a header")]
    NotInHeader,
    /// The value is empty, or `.` or `..`, in the path of a URL, and would lead elsewhere.
    #[error("the value cannot stand in a URL's path")]
    NotInPath,
    /// The text takes more SMS than the profile allows.
    #[error("too_long")]
    TooLong,
    /// The profile has settings that have not been bound to values.
    #[error("the profile's settings have no values")]
    Unbound,
}

/// Renders `intent` for `profile` under `key`.
///
/// # Errors
///
/// The first leaf that cannot be filled, or a text that takes too many SMS. Such an intent is malformed for this provider: a retry would not help.
pub fn render(
    profile: &Profile,
    intent: &Intent,
    key: &IdempotencyKey,
) -> Result<RenderedRequest, RenderFault> {
    if !profile.is_bound() {
        return Err(fault("settings", RenderProblem::Unbound));
    }
    let wire_key = profile.key.as_ref().map(|rule| rule.wire(key));
    let renderer = Renderer {
        names: Names {
            intent,
            key: key.as_str(),
            own_key: key,
            settings: &profile.settings,
        },
        wire_key: wire_key.as_deref().unwrap_or_default(),
    };
    if let Some(limit) = &profile.segments
        && let Some(text) = renderer.leaf_text(&limit.text)?
        && segments(&text) > limit.max
    {
        return Err(fault("limits.segments", RenderProblem::TooLong));
    }
    let request = &profile.request;
    let url = renderer.url(&request.url)?;
    let body = match &request.body {
        BodyShape::Json(node) => renderer.json_body(node)?,
        BodyShape::Form(fields) => renderer.form_body(fields)?,
        BodyShape::None => Bytes::new(),
    };
    let mut headers = renderer.headers(&request.fixed_headers, &request.filled_headers)?;
    if let Some(rule) = &profile.key {
        for place in &rule.places {
            match place {
                Place::Header(name) => {
                    let value = header_key(renderer.wire_key, rule.quoted)
                        .ok_or_else(|| fault("key.place", RenderProblem::NotInHeader))?;
                    headers.insert(name.clone(), value);
                }
                Place::Body(_) | Place::Query(_) => {}
            }
        }
    }
    let fingerprint = fingerprint(&request.method, &url, &body);
    Ok(RenderedRequest {
        method: request.method.clone(),
        url,
        headers,
        body,
        fingerprint,
        companions: profile
            .key
            .as_ref()
            .map(|rule| rule.companions.clone())
            .unwrap_or_default(),
    })
}

/// SHA-256 over method, URL and body, each behind its length in four bytes, big-endian.
fn fingerprint(method: &Method, url: &Url, body: &[u8]) -> RequestFingerprint {
    let mut digest = Sha256::new();
    let parts = [method.as_str().as_bytes(), url.as_str().as_bytes(), body];
    length_prefixed::feed(parts.map(Some), |run| digest.update(run));
    RequestFingerprint(digest.finalize().into())
}

/// The key as a header carries it: as it is, or as a string of RFC 9651, section 3.3.3.
fn header_key(key: &str, quoted: bool) -> Option<HeaderValue> {
    if !quoted {
        return HeaderValue::from_str(key).ok();
    }
    let mut text = String::with_capacity(key.len() + 2);
    text.push('"');
    for c in key.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    HeaderValue::try_from(text).ok()
}

/// RFC 3986's unreserved characters stay; all others are encoded, `+` and `/` too.
const IN_URL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

struct Renderer<'a> {
    names: Names<'a>,
    wire_key: &'a str,
}

impl<'a> Renderer<'a> {
    fn headers(
        &self,
        fixed: &HeaderMap,
        filled: &[(HeaderName, Text)],
    ) -> Result<HeaderMap, RenderFault> {
        // Room for the key and the credentials: growing costs more than the room, and so does more than that.
        let mut headers = HeaderMap::with_capacity(fixed.len() + filled.len() + 2);
        headers.extend(
            fixed
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        for (name, text) in filled {
            if let Some(value) = self.leaf_text(text)? {
                let value = HeaderValue::from_str(&value)
                    .map_err(|_| fault(&text.path, RenderProblem::NotInHeader))?;
                headers.insert(name.clone(), value);
            }
        }
        Ok(headers)
    }

    fn url(&self, shape: &UrlShape) -> Result<Url, RenderFault> {
        if let Some(whole) = &shape.whole {
            return Ok(whole.clone());
        }
        let (origin, rest) = (&*shape.origin, &shape.rest);
        let not_in_path = || fault(&rest.path, RenderProblem::NotInPath);
        let mut url = String::with_capacity(origin.len() + 96);
        url.push_str(origin);
        let mut in_path = true;
        for part in &rest.parts {
            match part {
                Part::Literal(literal) => {
                    url.push_str(literal);
                    in_path &= !literal.contains('?');
                }
                Part::Hole(hole) => {
                    let start = url.len();
                    let value = self.fill(hole, &rest.path)?;
                    url.extend(utf8_percent_encode(as_text(&value, &rest.path)?, IN_URL));
                    if in_path && url.len() == start {
                        return Err(not_in_path());
                    }
                }
            }
        }
        for name in &shape.keys {
            let mark = if url.contains('?') { '&' } else { '?' };
            url.extend([mark.to_string().as_str(), name, "="]);
            url.extend(utf8_percent_encode(self.wire_key, IN_URL));
        }
        // A URL in normal form stays as it is written: no dot segment has been folded away.
        match Url::parse(&url) {
            Ok(parsed) if parsed.as_str() == url => Ok(parsed),
            Ok(_) | Err(_) => Err(not_in_path()),
        }
    }

    fn json_body(&self, node: &Node) -> Result<Bytes, RenderFault> {
        let mut out = Vec::with_capacity(512);
        if !self.json(node, &mut out)? {
            return Err(fault("request.body.template", RenderProblem::Absent));
        }
        Ok(out.into())
    }

    /// Writes `node`; false if it is absent and nothing was written.
    fn json(&self, node: &Node, out: &mut Vec<u8>) -> Result<bool, RenderFault> {
        match node {
            Node::Fixed(json) => out.extend_from_slice(json),
            Node::WireKey => write_json(self.wire_key, "key.place", out)?,
            Node::Leaf(text) => match text.sole_hole() {
                Some(hole) => match self.fill(hole, &text.path)? {
                    Found::Absent => return Ok(false),
                    Found::Text(value) => write_json(&*value, &text.path, out)?,
                    Found::Json(value) => write_json(&*value, &text.path, out)?,
                    Found::Content(members) => write_json(members, &text.path, out)?,
                },
                None => write_json(&self.joined(text)?, &text.path, out)?,
            },
            Node::Object(fields) => {
                out.push(b'{');
                let mut before = out.len();
                let first = before;
                for field in fields {
                    if before > first {
                        out.push(b',');
                    }
                    out.extend_from_slice(&field.written);
                    match self.json(&field.node, out)? {
                        true => before = out.len(),
                        false => out.truncate(before),
                    }
                }
                out.push(b'}');
            }
            Node::Array(items) => {
                out.push(b'[');
                let mut before = out.len();
                let first = before;
                for item in items {
                    if before > first {
                        out.push(b',');
                    }
                    match self.json(item, out)? {
                        true => before = out.len(),
                        false => out.truncate(before),
                    }
                }
                out.push(b']');
            }
        }
        Ok(true)
    }

    fn form_body(&self, fields: &[FormField]) -> Result<Bytes, RenderFault> {
        let mut out = form_urlencoded::Serializer::new(String::with_capacity(512));
        for field in fields {
            let text = match &field.value {
                FormValue::WireKey => {
                    out.append_pair(&field.name, self.wire_key);
                    continue;
                }
                FormValue::Text(text) => text,
            };
            let Some(hole) = text.sole_hole() else {
                out.append_pair(&field.name, &self.joined(text)?);
                continue;
            };
            match self.fill(hole, &text.path)? {
                Found::Absent => {}
                Found::Json(value) if value.is_array() => {
                    for item in value.as_array().into_iter().flatten() {
                        let item = text_of(item)
                            .ok_or_else(|| fault(&text.path, RenderProblem::NotText))?;
                        out.append_pair(&field.name, item);
                    }
                }
                value @ (Found::Text(_) | Found::Json(_) | Found::Content(_)) => {
                    out.append_pair(&field.name, as_text(&value, &text.path)?);
                }
            }
        }
        Ok(out.finish().into())
    }

    /// The text of a leaf that is left out if its sole hole is absent.
    fn leaf_text(&self, text: &Text) -> Result<Option<String>, RenderFault> {
        match text.sole_hole() {
            None => self.joined(text).map(Some),
            Some(hole) => match self.fill(hole, &text.path)? {
                Found::Absent => Ok(None),
                value @ (Found::Text(_) | Found::Json(_) | Found::Content(_)) => {
                    as_text(&value, &text.path).map(|value| Some(value.to_owned()))
                }
            },
        }
    }

    /// A text with every hole filled; none of them may be absent.
    fn joined(&self, text: &Text) -> Result<String, RenderFault> {
        let mut joined = String::with_capacity(128);
        for part in &text.parts {
            match part {
                Part::Literal(literal) => joined.push_str(literal),
                Part::Hole(hole) => {
                    let value = self.fill(hole, &text.path)?;
                    joined.push_str(as_text(&value, &text.path)?);
                }
            }
        }
        Ok(joined)
    }

    fn fill(&self, hole: &Hole, path: &str) -> Result<Found<'a>, RenderFault> {
        hole.fill(&self.names).map_err(|problem| {
            let problem = match problem {
                NoValue::Undefined => RenderProblem::Undefined,
                NoValue::Failed => RenderProblem::Failed,
                NoValue::NotJson => RenderProblem::NotJson,
            };
            fault(path, problem)
        })
    }
}

fn as_text<'f>(found: &'f Found<'_>, path: &str) -> Result<&'f str, RenderFault> {
    match found {
        Found::Absent => Err(fault(path, RenderProblem::Absent)),
        Found::Text(text) => Ok(text),
        Found::Json(value) => text_of(value).ok_or_else(|| fault(path, RenderProblem::NotText)),
        Found::Content(_) => Err(fault(path, RenderProblem::NotText)),
    }
}

fn write_json<T: serde::Serialize + ?Sized>(
    value: &T,
    path: &str,
    out: &mut Vec<u8>,
) -> Result<(), RenderFault> {
    serde_json::to_writer(out, value).map_err(|_| fault(path, RenderProblem::NotJson))
}

fn fault(path: &str, problem: RenderProblem) -> RenderFault {
    RenderFault {
        path: path.to_owned(),
        problem,
    }
}

#[cfg(test)]
mod places_tests;
#[cfg(test)]
mod tests;
