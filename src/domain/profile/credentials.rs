//! Decides how a request says who sends it, and where the secrets for that are. No secret is ever in a profile.

use std::fmt;
use std::path::PathBuf;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};

use super::request::is_ours;
use super::section::Section;

/// How a request says who sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// It does not.
    None,
    /// `Authorization: Bearer …`
    Bearer {
        /// The token.
        secret: SecretRef,
    },
    /// `Authorization: Basic …`
    Basic {
        /// The name, which may be as secret as the password.
        username: SecretRef,
        /// The password.
        password: SecretRef,
    },
    /// A header of the provider's own.
    Header {
        /// Its name.
        name: HeaderName,
        /// What stands before the secret, a blank included if there is one: `App `, `Key `.
        prefix: String,
        /// The secret.
        secret: SecretRef,
    },
}

/// Where a secret is. A profile never holds one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretRef {
    /// In this variable of the environment.
    Env(String),
    /// In this file, without the line break at its end.
    File(PathBuf),
}

impl SecretRef {
    /// Reads `env:NAME` or `file:PATH`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("env", name) if !name.is_empty() => Some(Self::Env(name.to_owned())),
            ("file", path) if !path.is_empty() => Some(Self::File(path.into())),
            _ => None,
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl Auth {
    /// The header that it sets.
    pub(super) fn header(&self) -> Option<HeaderName> {
        match self {
            Self::None => None,
            Self::Bearer { .. } | Self::Basic { .. } => Some(AUTHORIZATION),
            Self::Header { name, .. } => Some(name.clone()),
        }
    }
}

/// Reads `request.auth`.
pub(super) fn read_auth(section: Section<'_>) -> Option<Auth> {
    #[derive(Clone, Copy)]
    enum Kind {
        None,
        Bearer,
        Basic,
        Header,
    }
    let kind = section.word(
        "kind",
        &[
            ("none", Kind::None),
            ("bearer", Kind::Bearer),
            ("basic", Kind::Basic),
            ("header", Kind::Header),
        ],
    );
    if !section.has("kind") {
        section.missing("kind");
    }
    let auth = match kind? {
        Kind::None => Some(Auth::None),
        Kind::Bearer => secret(&section, "secret").map(|secret| Auth::Bearer { secret }),
        Kind::Basic => secret(&section, "username")
            .zip(secret(&section, "password"))
            .map(|(username, password)| Auth::Basic { username, password }),
        Kind::Header => {
            let name = section.text("name").map(str::parse::<HeaderName>);
            let name = match name {
                Some(Ok(name)) if !is_ours(&name) => Some(name),
                Some(_) => {
                    section.fault("name", "names no header that can be set");
                    None
                }
                None => {
                    section.missing("name");
                    None
                }
            };
            let prefix = section.text("prefix").unwrap_or_default().to_owned();
            if HeaderValue::from_str(&prefix).is_err() {
                section.fault("prefix", "cannot stand in a header");
            }
            name.zip(secret(&section, "secret"))
                .map(|(name, secret)| Auth::Header {
                    name,
                    prefix,
                    secret,
                })
        }
    };
    section.close();
    auth
}

fn secret(section: &Section<'_>, key: &str) -> Option<SecretRef> {
    if !section.has(key) {
        section.missing(key);
    }
    let text = section.text(key)?;
    let reference = SecretRef::parse(text);
    if reference.is_none() {
        section.fault(
            key,
            "a profile never holds a secret: write env:NAME or file:PATH",
        );
    }
    reference
}
