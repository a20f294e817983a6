//! Decides how a request says who sends it, and where the secrets for that are. No secret is ever in a profile, and what is
//! made of one is in no fingerprint: it is added to a request that is complete without it.

mod read;
mod signed;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;
use std::path::PathBuf;

use http::HeaderName;
use http::header::AUTHORIZATION;

pub use self::signed::{AwsAuth, HmacAuth, MacHash, MacPart, MacText, SecretForm, Written};
pub use self::token::{
    ClientAssertion, ClientCredentials, ClientSecretIn, JwtAuth, JwtBearer, JwtKey, Reuse,
    ServiceAccount, TokenUrl,
};

pub(super) use self::read::read_auth;

use crate::domain::signing::aws::{X_AMZ_DATE, X_AMZ_SECURITY_TOKEN};

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
    /// Parameters of the URL's query, behind its own and the key's.
    Query {
        /// Their names, each with its secret, in the order of the names.
        parameters: Vec<(Box<str>, SecretRef)>,
    },
    /// A MAC over what is sent.
    Hmac(Box<HmacAuth>),
    /// AWS Signature Version 4.
    AwsSigV4(Box<AwsAuth>),
    /// A JSON Web Token that we sign, as a bearer token.
    Jwt(Box<JwtAuth>),
    /// An access token that a client's id and secret are exchanged for (RFC 6749, section 4.4).
    ClientCredentials(Box<ClientCredentials>),
    /// The same, where the client signs an assertion instead of showing a secret (RFC 7523, section 2.2).
    ClientAssertion(Box<ClientAssertion>),
    /// An access token that a signed assertion is exchanged for (RFC 7523, section 2.1): a service account's.
    JwtBearer(Box<JwtBearer>),
}

/// Where a secret is. A profile never holds one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretRef {
    /// In this variable of the environment.
    Env(String),
    /// In this file, without the line break at its end.
    File(PathBuf),
}

/// Text of an installation or a vendor that is no secret: an issuer's name, a region, a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicText {
    /// The text itself.
    Is(Box<str>),
    /// Where it is.
    At(SecretRef),
    /// What this setting of the profile says.
    Setting(Box<str>),
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

impl fmt::Display for PublicText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(text) => f.write_str(text),
            Self::At(reference) => reference.fmt(f),
            Self::Setting(name) => write!(f, "settings.{name}"),
        }
    }
}

impl Auth {
    /// The headers that it sets.
    pub(super) fn headers(&self) -> Vec<HeaderName> {
        match self {
            Self::None | Self::Query { .. } => Vec::new(),
            Self::Bearer { .. }
            | Self::Basic { .. }
            | Self::Jwt(_)
            | Self::ClientCredentials(_)
            | Self::ClientAssertion(_)
            | Self::JwtBearer(_) => vec![AUTHORIZATION],
            Self::Header { name, .. } => vec![name.clone()],
            Self::Hmac(mac) => mac.headers.iter().map(|(name, _)| name.clone()).collect(),
            Self::AwsSigV4(aws) => {
                let mut names = vec![AUTHORIZATION, X_AMZ_DATE];
                names.extend(aws.session_token.iter().map(|_| X_AMZ_SECURITY_TOKEN));
                names
            }
        }
    }

    /// The parameters of the query that it sets.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &str> {
        let parameters = match self {
            Self::Query { parameters } => parameters.as_slice(),
            Self::None
            | Self::Bearer { .. }
            | Self::Basic { .. }
            | Self::Header { .. }
            | Self::Hmac(_)
            | Self::AwsSigV4(_)
            | Self::Jwt(_)
            | Self::ClientCredentials(_)
            | Self::ClientAssertion(_)
            | Self::JwtBearer(_) => &[],
        };
        parameters.iter().map(|(name, _)| &**name)
    }
}
