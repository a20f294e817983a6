//! Decides what a provider profile may say: one operation of one vendor as data, from TOML text to checked values, with
//! every fault and its place. `config/provider-example.toml` has every field. It does not render, send or judge: `render`
//! and `classify` read it.

mod answer_places;
mod credentials;
#[cfg(test)]
mod example_tests;
mod expression;
#[cfg(test)]
mod impossible_tests;
mod key;
mod lookup;
#[cfg(test)]
mod mutation_tests;
mod pointer;
mod request;
mod rule;
mod section;
mod template;
#[cfg(test)]
pub(in crate::domain) mod tests;

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest, Sha256};
use toml::Table;
use url::Url;

pub use self::answer_places::{
    Accepted, ErrorCode, IdSource, Limits, SegmentsLimit, WaitPlace, WaitSource, WithoutId,
};
pub use self::credentials::{
    Auth, AwsAuth, ClientAssertion, ClientCredentials, ClientSecretIn, HmacAuth, JwtAuth,
    JwtBearer, JwtKey, MacHash, MacPart, MacText, PublicText, Reuse, SecretForm, SecretRef,
    ServiceAccount, TokenUrl, Written,
};
pub use self::key::{
    Companion, FirstAttemptForm, KeyForm, KeyRule, Place, ReplayMark, Scope, Stores, Window,
    WindowStart,
};
pub use self::lookup::{Items, Lookup, LookupProof, LookupRule, MomentForm, Told};
pub use self::pointer::{Pointer, text_of};
pub use self::request::{HttpVersion, RequestShape, SlowAnswers, TIMEOUTS_DEFAULT, Timeouts};
pub use self::rule::{IdAt, REASONS, Rule, StatusSet, Test, WaitUntil, When};
pub use self::section::Fault;

pub(in crate::domain) use self::expression::{Found, Hole, Names, NoValue};
pub(in crate::domain) use self::request::{BodyShape, UrlShape};
pub(in crate::domain) use self::template::{FormField, FormValue, Node, Part, Text};

use self::section::{Faults, Section, join};
use self::template::Compiler;
use super::idempotency_key::ProfileHash;

/// One operation of one vendor.
pub struct Profile {
    /// The vendor's name.
    pub vendor: Box<str>,
    /// The operation's name: a vendor's operations differ in keys and meanings.
    pub operation: Box<str>,
    /// Where its facts come from.
    pub verified: Verified,
    /// What a request looks like.
    pub request: RequestShape,
    /// How long to be patient.
    pub timeouts: Timeouts,
    /// How a repeat is recognised; absent for a provider without keys.
    pub key: Option<KeyRule>,
    /// What an acceptance looks like.
    pub accepted: Accepted,
    /// The rules in their order; the first that an answer meets counts.
    pub rules: Vec<Rule>,
    /// Where the provider's own error code is.
    pub error_code: ErrorCode,
    /// Where a wait is named, in the order of preference.
    pub waits: Vec<WaitSource>,
    /// How much at a time.
    pub limits: Limits,
    /// How many SMS an intent may take.
    pub segments: Option<SegmentsLimit>,
    /// How to ask whether a message was taken; absent where the provider cannot be asked.
    pub lookup: Option<Lookup>,
    /// Values that belong to this installation and are no secrets: an account's id, a region.
    pub(in crate::domain) settings: BTreeMap<String, String>,
    binding: Option<Binding>,
    canonical: Box<str>,
    hash: ProfileHash,
}

/// Where a profile's facts come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// True if `verify-provider` has seen them, false if they are read in documents only.
    pub observed: bool,
    /// The day, `YYYY-MM-DD`.
    pub on: Box<str>,
}

/// What an installation adds to a profile.
#[derive(Clone, Debug, Default)]
pub struct Binding {
    /// The values of `[settings]`, by name.
    pub settings: BTreeMap<String, String>,
    /// Another scheme, host and port, for a region or a test. It is part of the request's fingerprint.
    pub base_url: Option<Url>,
}

impl Profile {
    /// Reads and checks a profile.
    ///
    /// # Errors
    ///
    /// Every fault that was found, each with its place.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            vec![Fault {
                path: position(text, error.span()),
                problem: format!("is no TOML: {}", error.message()),
            }]
        })?;
        let faults = Faults::default();
        let profile = read(&faults, &table);
        let faults = faults.into_list();
        match profile {
            Some(profile) if faults.is_empty() => Ok(profile),
            Some(_) | None => Err(faults),
        }
    }

    /// The profile's content in one form, whatever its author's order, blanks and comments. It can be parsed again.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// SHA-256 of the canonical text.
    pub fn hash(&self) -> ProfileHash {
        self.hash
    }

    /// The settings as the profile gives them: a text of their own, `env:NAME` or `file:PATH`.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// This profile with what the installation adds.
    ///
    /// # Errors
    ///
    /// Settings that are not the profile's or have no value, and a base URL that is more than scheme, host, port and path.
    pub fn bind(mut self, binding: Binding) -> Result<Self, Vec<Fault>> {
        let faults = Faults::default();
        for (name, value) in &binding.settings {
            match self.settings.get_mut(name) {
                Some(own) => own.clone_from(value),
                None => faults.add(join("settings", name), "is no setting of this profile"),
            }
        }
        for (name, value) in &self.settings {
            let problem = match value.as_str() {
                "" => "is empty",
                text if SecretRef::parse(text).is_some() => "has not been read",
                _ => continue,
            };
            faults.add(join("settings", name), problem);
        }
        if let Some(base) = &binding.base_url {
            let plain = matches!(base.scheme(), "http" | "https")
                && base.query().is_none()
                && base.fragment().is_none()
                && base.username().is_empty()
                && base.password().is_none();
            match plain {
                true => {
                    self.request.url.at_origin(base);
                    if let Some(lookup) = &mut self.lookup {
                        lookup.url.at_origin(base);
                    }
                }
                false => faults.add(
                    "base_url",
                    "is scheme, host, port and path, and nothing else",
                ),
            }
        }
        let faults = faults.into_list();
        self.binding = Some(binding);
        if faults.is_empty() {
            Ok(self)
        } else {
            Err(faults)
        }
    }

    /// An earlier version of this profile, from its canonical text, in the same installation.
    ///
    /// # Errors
    ///
    /// As [`Profile::parse`] and [`Profile::bind`]: a setting of the earlier version may have no value today.
    pub fn earlier(&self, canonical: &str) -> Result<Self, Vec<Fault>> {
        self.earlier_with(canonical, |_| None)
    }

    /// The same, where `resolve` tells the value of a setting that the earlier version gives as a reference. Only what it
    /// does not tell has the value of today's setting of that name.
    ///
    /// # Errors
    ///
    /// As [`Profile::earlier`].
    pub fn earlier_with(
        &self,
        canonical: &str,
        resolve: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<Fault>> {
        let earlier = Self::parse(canonical)?;
        let mut binding = self.binding.clone().unwrap_or_default();
        binding
            .settings
            .retain(|name, _| earlier.settings.contains_key(name));
        for (name, text) in &earlier.settings {
            if let Some(value) = resolve(text) {
                binding.settings.insert(name.clone(), value);
            }
        }
        earlier.bind(binding)
    }

    /// Whether every setting has its value: always, for a profile without settings.
    pub fn is_bound(&self) -> bool {
        self.binding.is_some() || self.settings.is_empty()
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile")
            .field("vendor", &self.vendor)
            .field("operation", &self.operation)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

fn read(faults: &Faults, table: &Table) -> Option<Profile> {
    let top = Section::new(faults, "", table);
    let name = |key: &str| {
        if !top.has(key) {
            top.missing(key);
        }
        let name = top.text(key)?;
        let is_name = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b));
        if !is_name {
            top.fault(key, "expected 1 to 64 characters of a-z, 0-9, -, _ and .");
        }
        Some(Box::<str>::from(name))
    };
    let vendor = name("vendor");
    let operation = name("operation");
    if top.has("schema") {
        top.number("schema", 1..=1);
    }
    let verified = read_verified(&top);
    let settings = top
        .section("settings")
        .map(read_settings)
        .unwrap_or_default();
    let timeouts = request::read_timeouts(top.section("timeouts"));
    let key = top
        .section("key")
        .and_then(|section| key::read(section, timeouts.connect, timeouts.request));
    let request = match top.section("request") {
        Some(section) => request::read(section, &settings, key.as_ref()),
        None => {
            if !top.has("request") {
                top.missing("request");
            }
            None
        }
    };
    let has_replay_mark = key.as_ref().is_some_and(|key| !key.replay.is_empty());
    let rules: Vec<_> = top
        .sections("rule")
        .into_iter()
        .filter_map(|section| rule::read(section, has_replay_mark))
        .collect();
    let numbered = table.get("rule").is_some_and(toml::Value::is_array);
    if numbered && faults.is_empty() {
        refuse_unreachable(faults, &rules);
    }
    let accepted = answer_places::read_accepted(&top);
    let error_code = top
        .section("error_code")
        .map(answer_places::read_error_code)
        .unwrap_or_default();
    let waits = answer_places::read_waits(&top);
    let compiler = Compiler {
        faults,
        settings: &settings,
    };
    let (mut limits, mut segments) = (Limits::default(), None);
    if let Some(section) = top.section("limits") {
        limits = answer_places::read_limits(&section);
        segments = answer_places::read_segments(&section, &compiler);
        section.close();
    }
    let lookup = top
        .section("lookup")
        .and_then(|section| lookup::read(section, &settings));
    if let (Some(request), Some(lookup)) = (&request, &lookup)
        && request.url.origin != lookup.url.origin
    {
        top.faults().add(
            "lookup.url",
            "must have the scheme, host and port of request.url: credentials go nowhere else",
        );
    }
    if let (Some(request), Some(lookup)) = (&request, &lookup) {
        for name in request.auth.parameters() {
            if lookup.url.has_parameter(name) {
                let problem = format!("has the parameter {name} already, which is request.auth's");
                top.faults().add("lookup.url", problem);
            }
        }
    }
    top.close();
    let canonical = toml::to_string(table).unwrap_or_default();
    let hash = ProfileHash(Sha256::digest(&canonical).into());
    Some(Profile {
        vendor: vendor?,
        operation: operation?,
        verified: verified?,
        request: request?,
        timeouts,
        key,
        accepted: accepted?,
        rules,
        error_code,
        waits,
        limits,
        segments,
        lookup,
        settings,
        binding: None,
        canonical: canonical.into(),
        hash,
    })
}

/// A rule whose answers are all caught by one before it would say nothing. Tells only what is cheap to prove.
fn refuse_unreachable(faults: &Faults, rules: &[Rule]) {
    for (index, rule) in rules.iter().enumerate() {
        let catches_all = |earlier: &Rule| earlier.when.includes(&rule.when);
        if let Some(earlier) = rules.iter().take(index).position(catches_all) {
            faults.add(
                format!("rule[{index}]"),
                format!("is never reached: rule[{earlier}] catches all that it would"),
            );
        }
    }
}

fn read_verified(top: &Section<'_>) -> Option<Verified> {
    for key in ["verified", "verified_on"] {
        if !top.has(key) {
            top.missing(key);
        }
    }
    let observed = top.word("verified", &[("documented", false), ("observed", true)]);
    let on = top.text("verified_on");
    if let Some(on) = on
        && on.parse::<jiff::civil::Date>().is_err()
    {
        top.fault("verified_on", "expected a day, YYYY-MM-DD");
    }
    Some(Verified {
        observed: observed?,
        on: on?.into(),
    })
}

fn read_settings(section: Section<'_>) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for (name, value) in section.every() {
        let is_name = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && name.starts_with(|c: char| c.is_ascii_lowercase());
        match value.as_str() {
            Some(text) if is_name => drop(settings.insert(name.to_owned(), text.to_owned())),
            Some(_) => section.fault(name, "expected a name of a-z, 0-9 and _"),
            None => section.fault(name, "expected text, env:NAME or file:PATH"),
        }
    }
    section.close();
    settings
}

fn position(text: &str, span: Option<std::ops::Range<usize>>) -> String {
    let line = span
        .and_then(|span| text.get(..span.start))
        .map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}")
}
