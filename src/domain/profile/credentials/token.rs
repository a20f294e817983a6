//! Decides what a profile may say of bearer tokens that do not lie ready as a secret: those that we sign ourselves, and those
//! that are fetched from a token endpoint.

use std::time::Duration;

use url::Url;

use super::{PublicText, SecretRef};
use crate::domain::signing::jwt::JwtAlgorithm;

/// A key that signs tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtKey {
    /// How it signs.
    pub algorithm: JwtAlgorithm,
    /// For HS256 the secret's own bytes, else a private key in PEM.
    pub secret: SecretRef,
    /// `kid` in the token's header.
    pub key_id: Option<PublicText>,
}

/// A JSON Web Token that we sign, as a bearer token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtAuth {
    /// Who signs.
    pub key: JwtKey,
    /// `iss`.
    pub issuer: PublicText,
    /// `sub`.
    pub subject: Option<PublicText>,
    /// `aud`.
    pub audience: Option<PublicText>,
    /// From `iat` to `exp`; absent if it says none.
    pub lifetime: Option<Duration>,
    /// What stands before the token, a blank included: `Bearer `.
    pub prefix: String,
    /// How long one token serves; absent if each request has its own.
    pub reuse: Option<Reuse>,
}

/// How long a token that we sign serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// A new one is signed after so long.
    pub at_most: Duration,
    /// None is signed sooner than so long after the one before, even if that is refused.
    pub at_least: Duration,
}

/// The address of a token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenUrl {
    /// As it stands.
    Is(Url),
    /// This path at the scheme, host and port of the request's own URL, wherever a `base_url` puts that.
    AtOrigin(Box<str>),
}

/// A client's id and secret, exchanged for an access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredentials {
    /// Where.
    pub token_url: TokenUrl,
    /// The client's id.
    pub client_id: SecretRef,
    /// The client's secret.
    pub client_secret: SecretRef,
    /// Where they stand in the request for a token.
    pub secret_in: ClientSecretIn,
    /// What to ask for.
    pub scope: Option<PublicText>,
}

/// Where a client's id and secret stand in the request for a token (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientSecretIn {
    /// In a header of basic authentication.
    Basic,
    /// In the form.
    Body,
}

/// A client's signed assertion, exchanged for an access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAssertion {
    /// Where.
    pub token_url: TokenUrl,
    /// The client's id: `iss` and `sub`.
    pub client_id: PublicText,
    /// Who signs.
    pub key: JwtKey,
    /// `aud`; absent for the token endpoint's address.
    pub audience: Option<PublicText>,
    /// From `iat` to `exp`.
    pub lifetime: Duration,
    /// What to ask for.
    pub scope: Option<PublicText>,
}

/// A service account's signed assertion, exchanged for an access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtBearer {
    /// Where.
    pub token_url: TokenUrl,
    /// Who signs, and who that is.
    pub account: ServiceAccount,
    /// `aud`; absent for the token endpoint's address.
    pub audience: Option<PublicText>,
    /// From `iat` to `exp`.
    pub lifetime: Duration,
    /// `scope`, a claim of the assertion.
    pub scope: Option<PublicText>,
}

/// Who signs a service account's assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceAccount {
    /// As the JSON says that Google hands out for a key: `client_email`, `private_key` and `private_key_id`. It signs with RS256.
    Json(SecretRef),
    /// As the profile says.
    Own {
        /// `iss`.
        issuer: PublicText,
        /// Who signs.
        key: JwtKey,
    },
}
