//! Decides where a provider takes the key, in which form, for how long it remembers it, and how a replay shows.
//! It does not know whether a replay has been seen: that is `classify`.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderName;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::pointer::Pointer;
use super::rule::{StatusSet, Test, canonical, read_pointer};
use super::section::Section;
use crate::domain::idempotency_key::IdempotencyKey;

/// How an operation recognises a repeat.
#[derive(Debug)]
pub struct KeyRule {
    /// Where the key goes; never empty.
    pub places: Vec<Place>,
    /// Headers that say since when it is used; as a rule none.
    pub companions: Vec<Companion>,
    /// How it is written.
    pub form: KeyForm,
    /// The most characters that the provider takes, quotes not counted.
    pub max_len: usize,
    /// The characters it takes besides ASCII letters and digits; absent if it takes any visible ASCII.
    pub punctuation: Option<Box<str>>,
    /// The version that the provider wants of a UUID; absent if it takes any. A derived key has version 8.
    pub uuid_version: Option<u32>,
    /// Whether the header carries it in double quotes, as a Structured-Field string.
    pub quoted: bool,
    /// For how long it is remembered.
    pub window: Window,
    /// How an answer from memory shows. Any one is enough; empty if it does not show.
    pub replay: Vec<ReplayMark>,
    /// Which changes forget every key.
    pub scope: Vec<Scope>,
    /// Which answers are remembered; absent if nobody knows.
    pub stores: Option<Stores>,
    /// Whether another body under the same key is noticed; absent if nobody knows.
    pub compares_body: Option<bool>,
    /// After this long a repeat of a request whose server died may run again; absent if nobody knows.
    pub lock_lapses: Option<Duration>,
}

/// A place in the request that takes the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A header of its own.
    Header(HeaderName),
    /// A field of the body.
    Body(Pointer),
    /// A parameter of the URL's query.
    Query(Box<str>),
}

/// A header that goes with the key on every attempt and says when the first one started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    /// Its name.
    pub header: HeaderName,
    /// How it is written.
    pub form: FirstAttemptForm,
}

/// How a companion writes the start of the first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstAttemptForm {
    /// As HTTP does: `Wed, 21 Oct 2026 07:28:00 GMT`.
    HttpDate,
    /// RFC 3339, in UTC.
    Rfc3339,
    /// Seconds since 1970.
    EpochSeconds,
}

/// How a key is written. A key that does not fit is hashed, never cut: a cut merges two intents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// As it is: a derived key in 36 characters, upstream's own as it came. One that does not fit becomes a UUID.
    AsIs,
    /// Always a UUID: upstream's own key, unless it is one, becomes one of version 8.
    Uuid,
    /// Always 22 characters of base64url.
    Short,
    /// Always 32 to 64 lower-case hexadecimal digits, as many as fit.
    Hash,
}

/// For how long a key is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The whole of it.
    pub length: Duration,
    /// No attempt starts in this last part of it: connect and request timeout, 10 s, and a minute of clock skew at least.
    pub margin: Duration,
    /// When it starts.
    pub starts: WindowStart,
    /// Whether the provider says so, or we assume it.
    pub documented: bool,
}

/// When a window starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowStart {
    /// With the first request.
    FirstAttempt,
    /// When the first request has been answered.
    Completion,
    /// At the time for which the message is scheduled.
    Scheduled,
}

/// What a key is bound to beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The account or organisation.
    Account,
    /// The very credential: a rotated token forgets every key.
    Credential,
    /// Test or live.
    Environment,
    /// The region or host.
    Region,
    /// Method and path.
    Endpoint,
}

/// Which answers are remembered under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Every answer, errors too: a retry after a stored 500 is pointless.
    All,
    /// Only successes: a retry after an error runs again.
    Success,
    /// Successes and 4xx; a 5xx runs again.
    SuccessAndClientErrors,
    /// A failure burns the key.
    Burns,
}

/// How an answer from memory shows.
#[derive(Debug)]
pub enum ReplayMark {
    /// A header that is present, or says this.
    Header(HeaderName, Test),
    /// A field of the body.
    Body(Pointer, Test),
    /// A status that a fresh answer does not have.
    Status(StatusSet),
}

impl KeyRule {
    /// The key as this operation takes it, without quotes.
    pub fn wire<'k>(&self, key: &'k IdempotencyKey) -> Cow<'k, str> {
        let text = key.as_str();
        match self.form {
            KeyForm::AsIs if self.takes(text) => Cow::Borrowed(text),
            KeyForm::Uuid if is_uuid(text) => Cow::Borrowed(text),
            KeyForm::AsIs | KeyForm::Uuid => {
                Cow::Owned(Uuid::new_v8(digest_16(text)).hyphenated().to_string())
            }
            KeyForm::Short => Cow::Owned(short(key)),
            KeyForm::Hash => {
                let digits = digest(text).iter().fold(String::new(), |mut digits, byte| {
                    digits.push_str(&format!("{byte:02x}"));
                    digits
                });
                let fits = digits.get(..self.max_len.min(64)).unwrap_or(&digits);
                Cow::Owned(fits.to_owned())
            }
        }
    }

    fn takes(&self, text: &str) -> bool {
        text.len() <= self.max_len
            && text.bytes().all(|b| {
                b.is_ascii_alphanumeric()
                    || self
                        .punctuation
                        .as_deref()
                        .is_none_or(|marks| marks.as_bytes().contains(&b))
            })
    }
}

/// A key in 22 characters of base64url: the 16 bytes of a UUID, or of a hash of upstream's own.
pub(super) fn short(key: &IdempotencyKey) -> String {
    key.short_form()
        .unwrap_or_else(|| URL_SAFE_NO_PAD.encode(digest_16(key.as_str())))
}

/// Whether `text` is a UUID in its one canonical form: lower case, hyphens, no braces.
fn is_uuid(text: &str) -> bool {
    Uuid::try_parse(text).is_ok_and(|uuid| {
        let mut buffer = Uuid::encode_buffer();
        uuid.hyphenated().encode_lower(&mut buffer) == text
    })
}

fn digest(text: &str) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(b"sendonce key form 1\0");
    digest.update(text);
    digest.finalize().into()
}

fn digest_16(text: &str) -> [u8; 16] {
    let [first @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = digest(text);
    first
}

/// The shortest margin: no attempt may still be on its way when its key is forgotten, by a clock that is a minute off.
fn margin_min(connect: Duration, request: Duration) -> Duration {
    connect + request + Duration::from_secs(10) + Duration::from_secs(60)
}

/// Reads `[key]`.
pub(super) fn read(section: Section<'_>, connect: Duration, request: Duration) -> Option<KeyRule> {
    let mut places = Vec::new();
    for text in section.texts("place") {
        match text.split_once(' ') {
            Some(("header", name)) => match name.parse() {
                Ok(name) => places.push(Place::Header(name)),
                Err(_) => section.fault("place", "names no valid header"),
            },
            Some(("body", pointer)) => match Pointer::parse(pointer) {
                Ok(pointer) => places.push(Place::Body(pointer)),
                Err(problem) => section.fault("place", problem),
            },
            Some(("query", name)) if is_query_name(name) => places.push(Place::Query(name.into())),
            Some(_) | None => section.fault(
                "place",
                "expected \"header NAME\", \"body /POINTER\" or \"query NAME\"",
            ),
        }
    }
    if !section.has("place") {
        section.missing("place");
    }
    if places.is_empty() {
        section
            .every()
            .filter(|(name, _)| *name != "place" && section.texts("place").is_empty())
            .for_each(|(name, _)| section.fault(name, "means nothing without a place for the key"));
        section.close();
        return None;
    }
    let form = section
        .word(
            "form",
            &[
                ("as_is", KeyForm::AsIs),
                ("uuid", KeyForm::Uuid),
                ("short", KeyForm::Short),
                ("hash", KeyForm::Hash),
            ],
        )
        .unwrap_or(KeyForm::AsIs);
    let max_len = section.number("max_len", 1..=65_535);
    if !section.has("max_len") {
        section.missing("max_len");
    }
    let max_len = max_len.map_or(usize::MAX, |len| len as usize);
    let least = match form {
        KeyForm::AsIs | KeyForm::Uuid => 36,
        KeyForm::Short => 22,
        KeyForm::Hash => 32,
    };
    if max_len < least {
        section.fault(
            "max_len",
            format!("a key of this form has {least} characters; choose a shorter form"),
        );
    }
    let punctuation: Option<Box<str>> = section.text("punctuation").map(Box::from);
    let marks = match form {
        KeyForm::AsIs | KeyForm::Uuid => "-",
        KeyForm::Short => "-_",
        KeyForm::Hash => "",
    };
    if let Some(allowed) = punctuation.as_deref()
        && marks.chars().any(|mark| !allowed.contains(mark))
    {
        section.fault(
            "punctuation",
            format!("a key of this form needs {marks}; choose another form"),
        );
    }
    let uuid_version = section.number("uuid_version", 1..=8);
    if uuid_version.is_some() && matches!(form, KeyForm::Short | KeyForm::Hash) {
        section.fault("uuid_version", "means nothing where the key is no UUID");
    }
    let quoted = section.flag("quoted").unwrap_or(false);
    let window = read_window(&section, margin_min(connect, request));
    let replay = section
        .sections("replay")
        .into_iter()
        .filter_map(read_replay)
        .collect();
    let scope = section
        .texts("scope")
        .into_iter()
        .filter_map(|text| {
            let known = match text {
                "account" => Scope::Account,
                "credential" => Scope::Credential,
                "environment" => Scope::Environment,
                "region" => Scope::Region,
                "endpoint" => Scope::Endpoint,
                _ => {
                    section.fault(
                        "scope",
                        "expected account, credential, environment, region or endpoint",
                    );
                    return None;
                }
            };
            Some(known)
        })
        .collect();
    let stores = section.word(
        "stores",
        &[
            ("all", Stores::All),
            ("success", Stores::Success),
            ("success_and_4xx", Stores::SuccessAndClientErrors),
            ("burns", Stores::Burns),
        ],
    );
    let companions = section
        .sections("companion")
        .into_iter()
        .filter_map(read_companion)
        .collect();
    let compares_body = section.flag("compares_body");
    let lock_lapses = section.span("lock_lapses");
    section.close();
    Some(KeyRule {
        places,
        companions,
        form,
        max_len,
        punctuation,
        uuid_version,
        quoted,
        window,
        replay,
        scope,
        stores,
        compares_body,
        lock_lapses,
    })
}

/// What needs no encoding as the name of a parameter.
fn is_query_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    !name.is_empty() && name.bytes().all(plain)
}

fn read_companion(section: Section<'_>) -> Option<Companion> {
    for key in ["header", "first_attempt"] {
        if !section.has(key) {
            section.missing(key);
        }
    }
    let header = section.text("header").map(str::parse);
    if matches!(header, Some(Err(_))) {
        section.fault("header", "names no valid header");
    }
    let form = section.word(
        "first_attempt",
        &[
            ("http_date", FirstAttemptForm::HttpDate),
            ("rfc3339", FirstAttemptForm::Rfc3339),
            ("epoch_seconds", FirstAttemptForm::EpochSeconds),
        ],
    );
    section.close();
    Some(Companion {
        header: header?.ok()?,
        form: form?,
    })
}

fn read_window(section: &Section<'_>, margin_min: Duration) -> Window {
    let length = section.span("window");
    if !section.has("window") {
        section.missing("window");
    }
    let margin = section.span("window_margin");
    if margin.is_some_and(|margin| margin < margin_min) {
        section.fault(
            "window_margin",
            format!(
                "must be at least {} s: connect and request timeout, 10 s, and a minute of clock skew",
                margin_min.as_secs()
            ),
        );
    }
    let margin = margin.unwrap_or(margin_min);
    if length.is_some_and(|length| length <= margin) {
        section.fault(
            "window",
            format!(
                "is no longer than its margin of {} s: no attempt would ever start",
                margin.as_secs()
            ),
        );
    }
    let starts = section
        .word(
            "window_starts",
            &[
                ("first_attempt", WindowStart::FirstAttempt),
                ("completion", WindowStart::Completion),
                ("scheduled", WindowStart::Scheduled),
            ],
        )
        .unwrap_or(WindowStart::FirstAttempt);
    let documented = section.word("window_source", &[("documented", true), ("assumed", false)]);
    if !section.has("window_source") {
        section.missing("window_source");
    }
    Window {
        length: length.unwrap_or(Duration::MAX),
        margin,
        starts,
        documented: documented.unwrap_or(false),
    }
}

fn read_replay(section: Section<'_>) -> Option<ReplayMark> {
    let equals = section.value("equals").and_then(|value| {
        let text = canonical(value);
        if text.is_none() {
            section.fault("equals", "expected text, a number, true or false");
        }
        text
    });
    let test = equals.map_or(Test::Present, Test::Equals);
    let mark = if let Some(name) = section.text("header") {
        match name.parse() {
            Ok(name) => Some(ReplayMark::Header(name, test)),
            Err(_) => {
                section.fault("header", "names no valid header");
                None
            }
        }
    } else if let Some(pointer) = section.text("body") {
        read_pointer(&section, "body", pointer).map(|pointer| ReplayMark::Body(pointer, test))
    } else if let Some(status) = section.value("status") {
        if section.has("equals") {
            section.fault("equals", "means nothing beside a status");
        }
        StatusSet::read(&section, "status", status).map(ReplayMark::Status)
    } else {
        section
            .faults()
            .add(section.path(), "expected header, body or status");
        None
    };
    section.close();
    mark
}
