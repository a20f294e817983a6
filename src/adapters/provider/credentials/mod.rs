//! Decides what a request carries that says who sends it: reads the secrets that a profile names, once, and puts what is made of
//! them into a request that is complete without it. None of it is part of what a retry must not change.

mod keys;
mod source;

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::Deserialize;

use self::keys::SigningKey;
use self::source::{Grant, Maker, OwnedClaims, Token, TokenSource};
use super::{ClientFault, Connecting, plain_client_with};
use crate::config::secret::{References, Secret};
use crate::domain::classify::NotSentCause;
use crate::domain::profile::{
    Auth, AwsAuth, ClientAssertion, ClientCredentials, HmacAuth, JwtAuth, JwtBearer, JwtKey,
    Profile, PublicText, SecretRef, ServiceAccount,
};
use crate::domain::signing::aws::{self, AwsKeys, AwsScope};
use crate::domain::signing::jwt::JwtAlgorithm;
use crate::domain::signing::{Outgoing, mac};
use crate::domain::time::Timestamp;

pub use self::source::Unready;

#[cfg(test)]
pub(super) use self::keys::tests;

/// What says who sends, ready to be put into requests.
pub(super) enum Credentials {
    /// Nothing.
    None,
    /// The same header always, marked so that nothing prints it.
    Header(HeaderName, HeaderValue),
    /// The same parameters of the query always.
    Query(Vec<(Box<str>, Secret)>),
    /// A MAC, with a secret that is written as its form says.
    Mac(Box<HmacAuth>, Secret),
    /// A signature of AWS.
    Aws(Box<AwsSigner>),
    /// A bearer token.
    Token(Box<TokenSource>),
}

/// Who signs for AWS, and for what.
pub(super) struct AwsSigner {
    access_key_id: Secret,
    secret_access_key: Secret,
    session_token: Option<Secret>,
    region: String,
    service: Box<str>,
}

impl Credentials {
    /// Reads the secrets of `profile`.
    pub(super) fn open(
        profile: &Profile,
        references: &References,
        connecting: &Connecting,
    ) -> Result<Self, ClientFault> {
        let opening = Opening {
            profile,
            references,
            connecting,
        };
        match &profile.request.auth {
            Auth::None => Ok(Self::None),
            Auth::Bearer { secret } => {
                let secret = opening.secret("secret", secret)?;
                let text = format!("Bearer {}", secret.expose());
                header(AUTHORIZATION, "secret", text)
            }
            Auth::Basic { username, password } => opening.basic(username, password),
            Auth::Header {
                name,
                prefix,
                secret,
            } => {
                let secret = opening.secret("secret", secret)?;
                header(
                    name.clone(),
                    "secret",
                    format!("{prefix}{}", secret.expose()),
                )
            }
            Auth::Query { parameters } => {
                let read = |(name, secret): &(Box<str>, SecretRef)| {
                    let place = format!("parameters.{name}");
                    Ok((name.clone(), opening.secret(&place, secret)?))
                };
                parameters
                    .iter()
                    .map(read)
                    .collect::<Result<_, _>>()
                    .map(Self::Query)
            }
            Auth::Hmac(mac) => opening.mac(mac),
            Auth::AwsSigV4(aws) => opening.aws(aws),
            Auth::Jwt(jwt) => opening.jwt(jwt),
            Auth::ClientCredentials(client) => opening.client_credentials(client),
            Auth::ClientAssertion(client) => opening.client_assertion(client),
            Auth::JwtBearer(account) => opening.jwt_bearer(account),
        }
    }

    /// Sees to it that a token is there, if one is needed.
    pub(super) async fn make_ready(&self, now: Timestamp) -> Result<(), Unready> {
        match self {
            Self::None | Self::Header(..) | Self::Query(_) | Self::Mac(..) | Self::Aws(_) => Ok(()),
            Self::Token(source) => source.make_ready(now).await,
        }
    }

    /// Puts them into a request that is complete but for its body. Returns the token that it carries, if it does.
    pub(super) async fn put_into(
        &self,
        outgoing: &mut reqwest::Request,
        body: &Bytes,
        now: Timestamp,
    ) -> Result<Option<Arc<Token>>, NotSentCause> {
        match self {
            Self::None => {}
            Self::Header(name, value) => {
                outgoing.headers_mut().insert(name.clone(), value.clone());
            }
            Self::Query(parameters) => {
                let mut query = outgoing.url_mut().query_pairs_mut();
                for (name, secret) in parameters {
                    query.append_pair(name, secret.expose());
                }
            }
            Self::Mac(auth, secret) => {
                let secret = mac::secret_bytes(auth.secret_form, secret.expose());
                let secret = secret.ok_or(NotSentCause::Unsendable)?;
                let signed = mac::signed(auth, &secret, &as_sent(outgoing, body), now);
                for (name, value) in signed.ok_or(NotSentCause::Unsendable)? {
                    put(outgoing, name, value);
                }
            }
            Self::Aws(signer) => {
                let signed = signer.sign(&as_sent(outgoing, body), now);
                for (name, value) in signed.ok_or(NotSentCause::Unsendable)? {
                    let value = HeaderValue::try_from(value);
                    put(outgoing, name, value.map_err(|_| NotSentCause::Unsendable)?);
                }
            }
            Self::Token(source) => {
                let token = source.token(now).await.map_err(|unready| unready.why)?;
                put(outgoing, AUTHORIZATION, token.value.clone());
                return Ok(Some(token));
            }
        }
        Ok(None)
    }

    /// Takes note of how the provider answered a request with this token.
    pub(super) fn answered(&self, token: &Arc<Token>, status: u16) {
        if let Self::Token(source) = self {
            source.answered(token, status);
        }
    }
}

fn as_sent<'a>(outgoing: &'a reqwest::Request, body: &'a Bytes) -> Outgoing<'a> {
    Outgoing {
        method: outgoing.method(),
        url: outgoing.url(),
        headers: outgoing.headers(),
        body,
    }
}

fn put(outgoing: &mut reqwest::Request, name: HeaderName, mut value: HeaderValue) {
    value.set_sensitive(true);
    outgoing.headers_mut().insert(name, value);
}

impl AwsSigner {
    fn sign(&self, request: &Outgoing<'_>, now: Timestamp) -> Option<Vec<(HeaderName, String)>> {
        let keys = AwsKeys {
            access_key_id: self.access_key_id.expose(),
            secret_access_key: self.secret_access_key.expose(),
            session_token: self.session_token.as_ref().map(Secret::expose),
        };
        let scope = AwsScope {
            region: &self.region,
            service: &self.service,
        };
        aws::signed(request, &keys, &scope, now)
    }
}

/// What is needed to read the secrets of a profile.
struct Opening<'a> {
    profile: &'a Profile,
    references: &'a References,
    connecting: &'a Connecting,
}

/// The file that Google hands out for a key of a service account; what else is in it is not needed.
#[derive(Deserialize)]
struct ServiceAccountFile {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
}

impl Opening<'_> {
    fn secret(&self, place: &str, secret: &SecretRef) -> Result<Secret, ClientFault> {
        self.references
            .resolve(&secret.to_string())
            .map_err(|unresolved| ClientFault::Secret(place.to_owned(), unresolved))
    }

    fn public(&self, place: &str, text: &PublicText) -> Result<String, ClientFault> {
        match text {
            PublicText::Is(text) => Ok(text.to_string()),
            PublicText::At(reference) => self
                .secret(place, reference)
                .map(|text| text.expose().to_owned()),
            // A bound profile has a value for every setting that it names.
            PublicText::Setting(name) => Ok(self
                .profile
                .settings()
                .get(&**name)
                .cloned()
                .unwrap_or_default()),
        }
    }

    fn optional(
        &self,
        place: &str,
        text: Option<&PublicText>,
    ) -> Result<Option<String>, ClientFault> {
        text.map(|text| self.public(place, text)).transpose()
    }

    fn basic(
        &self,
        username: &SecretRef,
        password: &SecretRef,
    ) -> Result<Credentials, ClientFault> {
        let username = self.secret("username", username)?;
        let password = self.secret("password", password)?;
        // RFC 7617, section 2: a colon would move the border between the two.
        if username.expose().contains(':') {
            return Err(ClientFault::NotSuch("username", NOT_IN_HEADER));
        }
        let pair = format!("{}:{}", username.expose(), password.expose());
        header(
            AUTHORIZATION,
            "password",
            format!("Basic {}", STANDARD.encode(pair)),
        )
    }

    fn mac(&self, auth: &HmacAuth) -> Result<Credentials, ClientFault> {
        let secret = self.secret("secret", &auth.secret)?;
        let bytes = mac::secret_bytes(auth.secret_form, secret.expose());
        if bytes.is_none_or(|bytes| bytes.is_empty()) {
            let why = "is not written as secret_form says";
            return Err(ClientFault::NotSuch("secret", why));
        }
        Ok(Credentials::Mac(Box::new(auth.clone()), secret))
    }

    fn aws(&self, auth: &AwsAuth) -> Result<Credentials, ClientFault> {
        let session_token = auth.session_token.as_ref();
        Ok(Credentials::Aws(Box::new(AwsSigner {
            access_key_id: self.secret("access_key_id", &auth.access_key_id)?,
            secret_access_key: self.secret("secret_access_key", &auth.secret_access_key)?,
            session_token: session_token
                .map(|token| self.secret("session_token", token))
                .transpose()?,
            region: self.public("region", &auth.region)?,
            service: auth.service.clone(),
        })))
    }

    fn jwt(&self, auth: &JwtAuth) -> Result<Credentials, ClientFault> {
        let claims = OwnedClaims {
            issuer: self.public("issuer", &auth.issuer)?,
            subject: self.optional("subject", auth.subject.as_ref())?,
            audience: self.optional("audience", auth.audience.as_ref())?,
            scope: None,
            lifetime: auth.lifetime,
        };
        let maker = Maker::Signed {
            key: self.key(&auth.key)?,
            claims,
            reuse: auth.reuse.map(|reuse| (reuse.at_most, reuse.at_least)),
        };
        let source = TokenSource::new(maker, auth.prefix.clone());
        Ok(Credentials::Token(Box::new(source)))
    }

    fn client_credentials(&self, client: &ClientCredentials) -> Result<Credentials, ClientFault> {
        self.fetched(Grant::Credentials {
            client_id: self.secret("client_id", &client.client_id)?,
            client_secret: self.secret("client_secret", &client.client_secret)?,
            secret_in: client.secret_in,
            scope: self.optional("scope", client.scope.as_ref())?,
        })
    }

    fn client_assertion(&self, client: &ClientAssertion) -> Result<Credentials, ClientFault> {
        let client_id = self.public("client_id", &client.client_id)?;
        self.fetched(Grant::ClientAssertion {
            key: self.key(&client.key)?,
            claims: OwnedClaims {
                issuer: client_id.clone(),
                subject: Some(client_id),
                audience: self.audience(client.audience.as_ref())?,
                scope: None,
                lifetime: Some(client.lifetime),
            },
            scope: self.optional("scope", client.scope.as_ref())?,
        })
    }

    fn jwt_bearer(&self, auth: &JwtBearer) -> Result<Credentials, ClientFault> {
        let (issuer, key) = match &auth.account {
            ServiceAccount::Own { issuer, key } => (self.public("issuer", issuer)?, self.key(key)?),
            ServiceAccount::Json(file) => {
                let place = "service_account";
                let file = self.secret(place, file)?;
                let file: ServiceAccountFile = serde_json::from_str(file.expose())
                    .map_err(|_| ClientFault::NotSuch(place, "is no key of a service account"))?;
                let secret = Secret::new(&file.private_key);
                let key = SigningKey::new(JwtAlgorithm::Rs256, &secret, file.private_key_id);
                let fault = |_| ClientFault::NotSuch(place, "its private_key is no RSA key in PEM");
                (file.client_email, key.map_err(fault)?)
            }
        };
        self.fetched(Grant::JwtBearer {
            key,
            claims: OwnedClaims {
                issuer,
                subject: None,
                audience: self.audience(auth.audience.as_ref())?,
                scope: self.optional("scope", auth.scope.as_ref())?,
                lifetime: Some(auth.lifetime),
            },
        })
    }

    /// For whom an assertion is: the token endpoint, unless the profile names another.
    fn audience(&self, own: Option<&PublicText>) -> Result<Option<String>, ClientFault> {
        match own {
            Some(own) => self.public("audience", own).map(Some),
            None => Ok(self.profile.request.token_url().map(Into::into)),
        }
    }

    fn key(&self, key: &JwtKey) -> Result<SigningKey, ClientFault> {
        let secret = self.secret("secret", &key.secret)?;
        let key_id = self.optional("key_id", key.key_id.as_ref())?;
        SigningKey::new(key.algorithm, &secret, key_id).map_err(|_| {
            let expected = match key.algorithm {
                JwtAlgorithm::Hs256 => "is no secret",
                JwtAlgorithm::Es256 => "is no private key of P-256 in PEM (PKCS#8)",
                JwtAlgorithm::Rs256 | JwtAlgorithm::Rs512 => {
                    "is no private RSA key of 2,048 to 4,096 bits in PEM"
                }
            };
            ClientFault::NotSuch("secret", expected)
        })
    }

    fn fetched(&self, grant: Grant) -> Result<Credentials, ClientFault> {
        let no_url = ClientFault::NotSuch("token_url", "is no address");
        let url = self.profile.request.token_url().ok_or(no_url)?;
        let ca_file: Option<&Path> = self.connecting.ca_file.as_deref();
        let http = plain_client_with(
            url.scheme() == "https",
            ca_file,
            self.connecting.proxy.as_ref(),
        )?;
        let maker = Maker::Fetched { http, url, grant };
        let source = TokenSource::new(maker, "Bearer ".to_owned());
        Ok(Credentials::Token(Box::new(source)))
    }
}

const NOT_IN_HEADER: &str = "the secret cannot stand in a header";

fn header(name: HeaderName, place: &'static str, text: String) -> Result<Credentials, ClientFault> {
    let value = HeaderValue::try_from(text);
    let mut value = value.map_err(|_| ClientFault::NotSuch(place, NOT_IN_HEADER))?;
    value.set_sensitive(true);
    Ok(Credentials::Header(name, value))
}
