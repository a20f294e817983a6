//! Decides what a profile may say of signing requests: which parts of a request a MAC covers, how it is written, and which
//! AWS service a signature is for.

use http::HeaderName;

use super::super::section::Section;
use super::{PublicText, SecretRef};

/// A MAC over what is sent, written into headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacAuth {
    /// The secret that both sides have.
    pub secret: SecretRef,
    /// How its bytes are written.
    pub secret_form: SecretForm,
    /// The hash under the MAC.
    pub hash: MacHash,
    /// What is signed.
    pub signs: MacText,
    /// How the signature is written.
    pub written: Written,
    /// The headers that carry it and what it covers. Those without the signature come first, so that it may cover them.
    pub headers: Vec<(HeaderName, MacText)>,
}

/// How a secret's bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretForm {
    /// The text's own bytes.
    Text,
    /// In base64 (RFC 4648, section 4).
    Base64,
    /// In hexadecimal.
    Hex,
}

/// The hash under a MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacHash {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// In lower hexadecimal.
    Hex,
    /// In base64 with padding (RFC 4648, section 4).
    Base64,
}

/// A text with parts of the request in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacText(pub Vec<MacPart>);

/// A part of such a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MacPart {
    /// As it stands.
    Literal(Box<str>),
    /// `{{ method }}`.
    Method,
    /// `{{ host }}`, with the port unless it is the scheme's own.
    Host,
    /// `{{ path }}`, as it is sent.
    Path,
    /// `{{ target }}`: the path, and the query behind its question mark if there is one.
    Target,
    /// `{{ body }}`.
    Body,
    /// `{{ body_sha256_hex }}` and `{{ body_sha256_base64 }}`.
    BodySha256(Written),
    /// `{{ timestamp }}`: seconds since 1970.
    Timestamp,
    /// `{{ timestamp_ms }}`: milliseconds since 1970.
    TimestampMs,
    /// `{{ date }}`: as RFC 9110, section 5.6.7, writes it.
    Date,
    /// `{{ header NAME }}`: that header of the request; nothing, if it is left out there.
    Header(HeaderName),
    /// `{{ signature }}`, in headers only.
    Signature,
}

/// AWS Signature Version 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsAuth {
    /// The access key's id.
    pub access_key_id: SecretRef,
    /// The access key itself.
    pub secret_access_key: SecretRef,
    /// What goes with temporary keys.
    pub session_token: Option<SecretRef>,
    /// The region.
    pub region: PublicText,
    /// The service's signing name.
    pub service: Box<str>,
}

impl MacText {
    /// Whether the signature is in it.
    pub fn has_signature(&self) -> bool {
        self.0.contains(&MacPart::Signature)
    }

    /// The headers of the request that it asks for.
    pub(in super::super) fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.0.iter().filter_map(|part| match part {
            MacPart::Header(name) => Some(name),
            MacPart::Literal(_)
            | MacPart::Method
            | MacPart::Host
            | MacPart::Path
            | MacPart::Target
            | MacPart::Body
            | MacPart::BodySha256(_)
            | MacPart::Timestamp
            | MacPart::TimestampMs
            | MacPart::Date
            | MacPart::Signature => None,
        })
    }

    /// Reads a text; what is wrong with it is noted at `key`.
    pub(super) fn read(section: &Section<'_>, key: &str, source: &str) -> Self {
        let mut parts = Vec::new();
        let literal = |text: &str, parts: &mut Vec<MacPart>| {
            if !text.is_empty() {
                parts.push(MacPart::Literal(text.into()));
            }
        };
        let mut rest = source;
        while let Some((before, after)) = rest.split_once("{{") {
            literal(before, &mut parts);
            let Some((inside, after)) = after.split_once("}}") else {
                section.fault(key, "a {{ lacks its }}");
                rest = "";
                break;
            };
            match part(inside.trim()) {
                Some(part) => parts.push(part),
                None => section.fault(
                    key,
                    format!("{{{{ {} }}}} is no part of a request", inside.trim()),
                ),
            }
            rest = after;
        }
        literal(rest, &mut parts);
        Self(parts)
    }
}

fn part(name: &str) -> Option<MacPart> {
    if let Some(header) = name.strip_prefix("header ") {
        return header.trim().parse().ok().map(MacPart::Header);
    }
    let part = match name {
        "method" => MacPart::Method,
        "host" => MacPart::Host,
        "path" => MacPart::Path,
        "target" => MacPart::Target,
        "body" => MacPart::Body,
        "body_sha256_hex" => MacPart::BodySha256(Written::Hex),
        "body_sha256_base64" => MacPart::BodySha256(Written::Base64),
        "timestamp" => MacPart::Timestamp,
        "timestamp_ms" => MacPart::TimestampMs,
        "date" => MacPart::Date,
        "signature" => MacPart::Signature,
        _ => return None,
    };
    Some(part)
}
