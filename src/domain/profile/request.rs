//! Decides what a request of this operation looks like: method, URL, body, headers, credentials, patience.
//! It does not fill anything in, and it knows secrets by their place only, never their value.

use std::collections::BTreeMap;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use toml::{Table, Value};
use url::{Host, Url};

use super::credentials::{Auth, MacText, TokenUrl, read_auth};
use super::key::{Companion, KeyRule, Place};
use super::section::{Section, join};
use super::template::{Compiler, FormField, FormValue, Node, Part, Text};

/// The request of one operation.
#[derive(Debug)]
pub struct RequestShape {
    /// POST as a rule.
    pub method: Method,
    /// Where it goes.
    pub(in crate::domain) url: UrlShape,
    /// What it carries.
    pub(in crate::domain) body: BodyShape,
    /// Headers that are the same for every request, content type included, credentials excluded.
    pub(in crate::domain) fixed_headers: HeaderMap,
    /// Headers with holes.
    pub(in crate::domain) filled_headers: Vec<(HeaderName, Text)>,
    /// How the request says who sends it.
    pub auth: Auth,
    /// The HTTP version to speak.
    pub version: HttpVersion,
}

/// A URL whose holes lie in its path and query; each is percent-encoded by itself.
#[derive(Debug)]
pub(in crate::domain) struct UrlShape {
    /// `https://host:port`, without a trailing slash.
    pub(in crate::domain) origin: Box<str>,
    /// From the first slash of the path on.
    pub(in crate::domain) rest: Text,
    /// The parameters of the query that take the key, behind `rest`.
    pub(in crate::domain) keys: Vec<Box<str>>,
    /// The whole of it, if it has no holes and takes no key.
    pub(in crate::domain) whole: Option<Url>,
}

/// What a request carries.
#[derive(Debug)]
pub(in crate::domain) enum BodyShape {
    Json(Node),
    Form(Vec<FormField>),
    None,
}

/// Which HTTP to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    One,
    /// HTTP/2, without an upgrade from 1.1.
    Two,
}

/// How long to be patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Duration,
    /// From the start of the attempt, connecting included, to the end of the answer.
    pub request: Duration,
    /// An idle connection is used again only this long. Below the limit of common servers, which may close an idle
    /// connection just as we write: the shortest known is that of Node.js, 5 s (`server.keepAliveTimeout`, its default
    /// in the documentation, read 2026-11-30).
    pub pool_idle: Duration,
    /// No connection is used longer than this, so that a changed address is found without a restart.
    pub pool_age: Duration,
    /// The kernel gives up on bytes that nobody has acknowledged for this long (TCP_USER_TIMEOUT): what it may still
    /// deliver after a request's deadline, it delivers within this span or not at all.
    pub unacknowledged: Duration,
    /// How long the provider's slowest answers take, if anybody knows.
    pub p99: Option<SlowAnswers>,
}

/// How long 99 of 100 answers take at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowAnswers {
    /// The span; shorter than the request's time-out.
    pub within: Duration,
    /// Whether it was measured, or the provider says so.
    pub measured: bool,
}

/// The defaults of [`Timeouts`].
pub const TIMEOUTS_DEFAULT: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    request: Duration::from_secs(30),
    pool_idle: Duration::from_secs(4),
    pool_age: Duration::from_secs(300),
    unacknowledged: Duration::from_secs(10),
    p99: None,
};

impl RequestShape {
    /// Whether requests go over TLS.
    pub fn is_encrypted(&self) -> bool {
        self.url.origin.starts_with("https://")
    }

    /// Whether what says who sends leaves this machine in the clear, with the request or for a token.
    pub fn shows_credentials(&self) -> bool {
        let clear = |url: &Url| {
            let here = match url.host() {
                Some(Host::Domain(name)) => name == "localhost",
                Some(Host::Ipv4(address)) => address.is_loopback(),
                Some(Host::Ipv6(address)) => address.is_loopback(),
                None => false,
            };
            url.scheme() == "http" && !here
        };
        let request = Url::parse(&self.url.origin).ok();
        self.auth != Auth::None && request.iter().chain(&self.token_url()).any(clear)
    }

    /// The address of the token endpoint that `auth` names, where the request goes now.
    pub fn token_url(&self) -> Option<Url> {
        let token_url = match &self.auth {
            Auth::ClientCredentials(client) => &client.token_url,
            Auth::ClientAssertion(client) => &client.token_url,
            Auth::JwtBearer(account) => &account.token_url,
            Auth::None
            | Auth::Bearer { .. }
            | Auth::Basic { .. }
            | Auth::Header { .. }
            | Auth::Query { .. }
            | Auth::Hmac(_)
            | Auth::AwsSigV4(_)
            | Auth::Jwt(_) => return None,
        };
        match token_url {
            TokenUrl::Is(url) => Some(url.clone()),
            TokenUrl::AtOrigin(path) => Url::parse(&format!("{}{path}", self.url.origin)).ok(),
        }
    }
}

impl UrlShape {
    /// Puts the key into the query; the error says why it cannot stand there.
    fn place_key(&mut self, name: &str) -> Result<(), &'static str> {
        if self.has_parameter(name) {
            return Err("the URL already has this parameter");
        }
        self.keys.push(name.into());
        self.whole = None;
        Ok(())
    }

    /// Whether its query has a parameter of this name.
    pub(super) fn has_parameter(&self, name: &str) -> bool {
        let written = self.rest.parts.iter().any(|part| match part {
            Part::Literal(text) => ["?", "&"]
                .iter()
                .any(|mark| text.contains(&format!("{mark}{name}="))),
            Part::Hole(_) => false,
        });
        written || self.keys.iter().any(|own| **own == *name)
    }

    /// The same URL at another origin.
    pub(super) fn at_origin(&mut self, origin: &Url) {
        let origin = origin.as_str();
        self.origin = origin.strip_suffix('/').unwrap_or(origin).into();
        self.whole = self
            .rest
            .literal()
            .filter(|_| self.keys.is_empty())
            .and_then(|rest| Url::parse(&format!("{}{rest}", self.origin)).ok());
    }
}

/// Reads `[timeouts]`.
pub(super) fn read_timeouts(section: Option<Section<'_>>) -> Timeouts {
    let default = TIMEOUTS_DEFAULT;
    let Some(section) = section else {
        return default;
    };
    let timeouts = Timeouts {
        connect: section.span("connect").unwrap_or(default.connect),
        request: section.span("request").unwrap_or(default.request),
        pool_idle: section.span("pool_idle").unwrap_or(default.pool_idle),
        pool_age: section.span("pool_age").unwrap_or(default.pool_age),
        unacknowledged: section
            .span("unacknowledged")
            .unwrap_or(default.unacknowledged),
        p99: read_p99(&section),
    };
    if timeouts
        .p99
        .is_some_and(|slow| slow.within >= timeouts.request)
    {
        section.fault(
            "request",
            "must be longer than p99: what is about to be answered would be given up",
        );
    }
    if timeouts.connect >= timeouts.request {
        section.fault("connect", "must be shorter than request, which includes it");
    }
    section.close();
    timeouts
}

fn read_p99(section: &Section<'_>) -> Option<SlowAnswers> {
    let within = section.span("p99");
    let measured = section.word("p99_source", &[("documented", false), ("measured", true)]);
    for (key, other) in [("p99", "p99_source"), ("p99_source", "p99")] {
        if section.has(key) && !section.has(other) {
            section.missing(other);
        }
    }
    Some(SlowAnswers {
        within: within?,
        measured: measured?,
    })
}

/// Reads `[request]`.
pub(super) fn read(
    section: Section<'_>,
    settings: &BTreeMap<String, String>,
    key: Option<&KeyRule>,
) -> Option<RequestShape> {
    let compiler = Compiler {
        faults: section.faults(),
        settings,
    };
    let method = section
        .word(
            "method",
            &[
                ("POST", &Method::POST),
                ("PUT", &Method::PUT),
                ("PATCH", &Method::PATCH),
                ("GET", &Method::GET),
            ],
        )
        .cloned();
    let mut url = section
        .text("url")
        .and_then(|url| read_url(&section, &compiler, url));
    for key in ["method", "url", "body"] {
        if !section.has(key) {
            section.missing(key);
        }
    }
    let version = section
        .word(
            "http",
            &[("1.1", HttpVersion::One), ("2", HttpVersion::Two)],
        )
        .unwrap_or(HttpVersion::One);
    let mut fixed_headers = HeaderMap::new();
    let mut body = section
        .section("body")
        .and_then(|body| read_body(body, &compiler, &mut fixed_headers));
    if method == Some(Method::GET) && !matches!(body, Some(BodyShape::None) | None) {
        section.fault("body", "a GET carries none: write { kind = \"none\" }");
    }
    let auth = section
        .section("auth")
        .map_or(Some(Auth::None), |auth| read_auth(auth, settings));
    let mut filled_headers = Vec::new();
    if let Some(headers) = section.section("headers") {
        read_headers(headers, &compiler, &mut fixed_headers, &mut filled_headers);
    }
    let auth_headers = auth.as_ref().map(Auth::headers).unwrap_or_default();
    let taken = |name: &HeaderName| {
        fixed_headers.contains_key(name) || filled_headers.iter().any(|(filled, _)| filled == name)
    };
    for name in auth_headers.iter().filter(|name| taken(name)) {
        section.fault("auth", format!("the header {name} is set twice"));
    }
    for place in key.iter().flat_map(|key| &key.places) {
        let problem = match (place, &mut body) {
            (Place::Header(name), _) if taken(name) || auth_headers.contains(name) => {
                Some("this header is already set by the request")
            }
            (Place::Header(name), _) if is_ours(name) => {
                Some("this header is set by the connection")
            }
            (Place::Header(_), _) | (Place::Body(_), None) => None,
            (Place::Query(name), _) => url.as_mut().and_then(|url| url.place_key(name).err()),
            (Place::Body(pointer), Some(body)) => body.place_key(pointer).err(),
        };
        if let Some(problem) = problem {
            section.faults().add("key.place", problem);
        }
    }
    for Companion { header, .. } in key.iter().flat_map(|key| &key.companions) {
        let keyed = |place: &Place| matches!(place, Place::Header(name) if name == header);
        let set = taken(header)
            || is_ours(header)
            || auth_headers.contains(header)
            || key.iter().any(|key| key.places.iter().any(keyed));
        if set {
            let problem = format!("the header {header} is set twice");
            section.faults().add("key.companion", problem);
        }
    }
    let of_key = |name: &HeaderName| {
        let placed = |place: &Place| matches!(place, Place::Header(own) if own == name);
        key.is_some_and(|key| {
            key.places.iter().any(placed) || key.companions.iter().any(|own| own.header == *name)
        })
    };
    if let Some(Auth::Hmac(mac)) = &auth {
        let texts = mac.headers.iter().map(|(_, text)| text);
        for name in texts.chain([&mac.signs]).flat_map(MacText::headers) {
            if !taken(name) && !of_key(name) && !auth_headers.contains(name) {
                section.fault("auth", format!("the request has no header {name} to sign"));
            }
        }
    }
    for name in auth.iter().flat_map(Auth::parameters) {
        if url.as_ref().is_some_and(|url| url.has_parameter(name)) {
            section.fault(
                "auth",
                format!("the parameter {name} is in the URL already"),
            );
        }
    }
    section.close();
    Some(RequestShape {
        method: method?,
        url: url?,
        body: body?,
        fixed_headers,
        filled_headers,
        auth: auth?,
        version,
    })
}

pub(super) fn read_url(
    section: &Section<'_>,
    compiler: &Compiler<'_>,
    text: &str,
) -> Option<UrlShape> {
    let path = section.path_of("url");
    let after_scheme = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let Some(after_scheme) = after_scheme else {
        section.fault("url", "must begin with https:// or http://");
        return None;
    };
    let Some(slash) = after_scheme.find('/') else {
        section.fault("url", "must have a path, if only a slash");
        return None;
    };
    let (origin, rest) = text.split_at(text.len() - after_scheme.len() + slash);
    let rest = compiler.text(&path, rest);
    // With a harmless value in each hole the URL must be in normal form already: then what is sent is what is written.
    let sample: String = rest
        .parts
        .iter()
        .map(|part| match part {
            Part::Literal(text) => text,
            Part::Hole(_) => "x",
        })
        .collect();
    let sample = format!("{origin}{sample}");
    let Ok(url) = Url::parse(&sample) else {
        section.fault("url", "is no URL");
        return None;
    };
    if !url.username().is_empty() || url.password().is_some() {
        section.fault("url", "must not hold credentials; use auth");
    } else if url.as_str() != sample {
        section.fault("url", format!("is not in normal form; written like {url}"));
    }
    if url.fragment().is_some() {
        section.fault("url", "must not have a fragment");
    }
    let whole = rest.literal().is_some().then_some(url);
    Some(UrlShape {
        origin: origin.into(),
        rest,
        keys: Vec::new(),
        whole,
    })
}

fn read_body(
    section: Section<'_>,
    compiler: &Compiler<'_>,
    headers: &mut HeaderMap,
) -> Option<BodyShape> {
    #[derive(Clone, Copy)]
    enum Kind {
        Json,
        Form,
        None,
    }
    let kind = section.word(
        "kind",
        &[
            ("json", Kind::Json),
            ("form", Kind::Form),
            ("none", Kind::None),
        ],
    );
    if !section.has("kind") {
        section.missing("kind");
    }
    let template = section.value("template");
    let path = section.path_of("template");
    let empty = Value::Table(Table::new());
    let body = match (kind, template) {
        (None, _) => None,
        (Some(Kind::None), None) => Some(BodyShape::None),
        (Some(Kind::None), Some(_)) => {
            section.fault("template", "means nothing for a request without a body");
            None
        }
        (Some(Kind::Json), template) => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Some(BodyShape::Json(
                compiler.json(&path, template.unwrap_or(&empty)),
            ))
        }
        (Some(Kind::Form), template) => {
            headers.insert(
                CONTENT_TYPE,
                HeaderValue::from_static("application/x-www-form-urlencoded"),
            );
            let table = template.unwrap_or(&empty).as_table();
            if table.is_none() {
                section.fault("template", "the template of a form is a table");
            }
            table.map(|table| BodyShape::Form(compiler.form(&path, table)))
        }
    };
    section.close();
    body
}

impl BodyShape {
    fn place_key(&mut self, pointer: &super::pointer::Pointer) -> Result<(), &'static str> {
        match self {
            Self::Json(node) => node.place_key(pointer),
            Self::Form(fields) => match pointer.names().as_deref() {
                Some([name]) if fields.iter().any(|field| *field.name == **name) => {
                    Err("the body's template already has a value there")
                }
                Some([name]) => {
                    fields.push(FormField {
                        name: (*name).into(),
                        value: FormValue::WireKey,
                    });
                    Ok(())
                }
                Some(_) | None => Err("a form has fields of one name only"),
            },
            Self::None => Err("the request has no body"),
        }
    }
}

pub(super) fn read_headers(
    section: Section<'_>,
    compiler: &Compiler<'_>,
    fixed: &mut HeaderMap,
    filled: &mut Vec<(HeaderName, Text)>,
) {
    for (name, value) in section.every() {
        let (Ok(header), Some(source)) = (name.parse::<HeaderName>(), value.as_str()) else {
            section.fault(name, "expected the name of a header and its text");
            continue;
        };
        if is_ours(&header) {
            section.fault(name, "is set by the connection");
            continue;
        }
        let text = compiler.text(&join(section.path(), name), source);
        match text.literal() {
            None => filled.push((header, text)),
            Some(literal) => match HeaderValue::from_str(literal) {
                Ok(value) => drop(fixed.insert(header, value)),
                Err(_) => section.fault(name, "cannot stand in a header"),
            },
        }
    }
}

/// Headers that frame the request; `Expect` would make a server wait for a question that we never ask.
pub(super) fn is_ours(name: &HeaderName) -> bool {
    [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, EXPECT].contains(name)
}
