//! Decides how `request.auth` is read. Each kind says all of its faults at once.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use url::Url;

use super::super::request::is_ours;
use super::super::section::{Section, join};
use super::signed::{AwsAuth, HmacAuth, MacHash, MacPart, MacText, SecretForm, Written};
use super::token::{
    ClientAssertion, ClientCredentials, ClientSecretIn, JwtAuth, JwtBearer, JwtKey, Reuse,
    ServiceAccount, TokenUrl,
};
use super::{Auth, PublicText, SecretRef};
use crate::domain::signing::jwt::JwtAlgorithm;

/// An assertion is exchanged at once: it need not live longer.
const ASSERTION_LIFETIME: Duration = Duration::from_secs(300);

/// A token that is signed anew sooner than this because it was refused would be the same token.
const REUSE_AT_LEAST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
enum Kind {
    None,
    Bearer,
    Basic,
    Header,
    Query,
    Hmac,
    AwsSigV4,
    Jwt,
    ClientCredentials,
    ClientAssertion,
    JwtBearer,
}

const KINDS: [(&str, Kind); 11] = [
    ("none", Kind::None),
    ("bearer", Kind::Bearer),
    ("basic", Kind::Basic),
    ("header", Kind::Header),
    ("query", Kind::Query),
    ("hmac", Kind::Hmac),
    ("aws_sigv4", Kind::AwsSigV4),
    ("jwt", Kind::Jwt),
    ("client_credentials", Kind::ClientCredentials),
    ("client_assertion", Kind::ClientAssertion),
    ("jwt_bearer", Kind::JwtBearer),
];

/// What is needed to read the fields of one kind.
struct Reader<'p, 's> {
    section: Section<'p>,
    settings: &'s BTreeMap<String, String>,
}

/// Reads `request.auth`.
pub(in super::super) fn read_auth(
    section: Section<'_>,
    settings: &BTreeMap<String, String>,
) -> Option<Auth> {
    if !section.has("kind") {
        section.missing("kind");
    }
    let kind = section.word("kind", &KINDS)?;
    let reader = Reader { section, settings };
    let auth = match kind {
        Kind::None => Some(Auth::None),
        Kind::Bearer => reader
            .secret("secret")
            .map(|secret| Auth::Bearer { secret }),
        Kind::Basic => reader
            .secret("username")
            .zip(reader.secret("password"))
            .map(|(username, password)| Auth::Basic { username, password }),
        Kind::Header => reader.header(),
        Kind::Query => reader.query(),
        Kind::Hmac => reader.hmac().map(|mac| Auth::Hmac(Box::new(mac))),
        Kind::AwsSigV4 => reader.aws().map(|aws| Auth::AwsSigV4(Box::new(aws))),
        Kind::Jwt => reader.jwt().map(|jwt| Auth::Jwt(Box::new(jwt))),
        Kind::ClientCredentials => reader
            .client_credentials()
            .map(|client| Auth::ClientCredentials(Box::new(client))),
        Kind::ClientAssertion => reader
            .client_assertion()
            .map(|client| Auth::ClientAssertion(Box::new(client))),
        Kind::JwtBearer => reader
            .jwt_bearer()
            .map(|account| Auth::JwtBearer(Box::new(account))),
    };
    reader.section.close();
    auth
}

impl Reader<'_, '_> {
    fn header(&self) -> Option<Auth> {
        let name = self.required("name").map(str::parse::<HeaderName>);
        let name = match name {
            Some(Ok(name)) if !is_ours(&name) => Some(name),
            Some(_) => {
                self.section
                    .fault("name", "names no header that can be set");
                None
            }
            None => None,
        };
        let prefix = self.prefix("");
        name.zip(self.secret("secret"))
            .map(|(name, secret)| Auth::Header {
                name,
                prefix,
                secret,
            })
    }

    fn query(&self) -> Option<Auth> {
        if !self.section.has("parameters") {
            self.section.missing("parameters");
        }
        let table = self.section.section("parameters")?;
        let mut parameters = Vec::new();
        for (name, value) in table.every() {
            let is_name = !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b));
            if !is_name {
                table.fault(name, "expected a name of letters, digits, -, _, . and ~");
            }
            match value.as_str() {
                Some(text) => {
                    let secret = reference(&table, name, text);
                    parameters.extend(secret.map(|secret| (name.into(), secret)));
                }
                None => table.fault(name, "expected env:NAME or file:PATH"),
            }
        }
        if table.every().next().is_none() {
            self.section
                .fault("parameters", "names no parameter of the query");
        }
        table.close();
        Some(Auth::Query { parameters })
    }

    fn hmac(&self) -> Option<HmacAuth> {
        let section = &self.section;
        let secret = self.secret("secret");
        let secret_form = section
            .word(
                "secret_form",
                &[
                    ("text", SecretForm::Text),
                    ("base64", SecretForm::Base64),
                    ("hex", SecretForm::Hex),
                ],
            )
            .unwrap_or(SecretForm::Text);
        let hash = section
            .word(
                "hash",
                &[("sha256", MacHash::Sha256), ("sha512", MacHash::Sha512)],
            )
            .unwrap_or(MacHash::Sha256);
        let written = section
            .word(
                "written",
                &[("hex", Written::Hex), ("base64", Written::Base64)],
            )
            .unwrap_or(Written::Hex);
        let signs = self
            .required("signs")
            .map(|source| MacText::read(section, "signs", source));
        if signs.as_ref().is_some_and(MacText::has_signature) {
            section.fault("signs", "a signature does not sign itself");
        }
        if !section.has("headers") {
            section.missing("headers");
        }
        let headers = section.section("headers").map(|table| {
            let headers = read_mac_headers(&table);
            table.close();
            headers
        });
        if headers
            .as_ref()
            .is_some_and(|headers| !headers.iter().any(|(_, text)| text.has_signature()))
        {
            section.fault("headers", "none of them has the {{ signature }}");
        }
        Some(HmacAuth {
            secret: secret?,
            secret_form,
            hash,
            signs: signs?,
            written,
            headers: headers?,
        })
    }

    fn aws(&self) -> Option<AwsAuth> {
        let access_key_id = self.secret("access_key_id");
        let secret_access_key = self.secret("secret_access_key");
        let session_token = self.optional_secret("session_token");
        let region = self.public("region");
        let service = self.required("service");
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if service.is_some_and(|name| !is_name(name)) {
            self.section
                .fault("service", "expected a signing name, such as ses");
        }
        Some(AwsAuth {
            access_key_id: access_key_id?,
            secret_access_key: secret_access_key?,
            session_token,
            region: region?,
            service: service?.into(),
        })
    }

    fn jwt(&self) -> Option<JwtAuth> {
        let section = &self.section;
        let key = self.key(&JwtAlgorithm::ALL, None);
        let issuer = self.public("issuer");
        let lifetime = section.span("lifetime");
        let at_most = section.span("reuse");
        let at_least = section.span("reuse_min");
        match (at_most, at_least) {
            (None, Some(_)) => section.fault("reuse_min", "means nothing without reuse"),
            (Some(at_most), at_least) if at_least.unwrap_or(REUSE_AT_LEAST) > at_most => {
                section.fault("reuse", "must be no shorter than reuse_min, by default 1m");
            }
            (Some(_) | None, _) => {}
        }
        if let (Some(at_most), Some(lifetime)) = (at_most, lifetime)
            && at_most >= lifetime
        {
            section.fault("reuse", "must be shorter than lifetime");
        }
        let (subject, audience) = (
            self.optional_public("subject"),
            self.optional_public("audience"),
        );
        let prefix = self.prefix("Bearer ");
        Some(JwtAuth {
            key: key?,
            issuer: issuer?,
            subject,
            audience,
            lifetime,
            prefix,
            reuse: at_most.map(|at_most| Reuse {
                at_most,
                at_least: at_least.unwrap_or(REUSE_AT_LEAST),
            }),
        })
    }

    fn client_credentials(&self) -> Option<ClientCredentials> {
        let token_url = self.token_url();
        let client_id = self.secret("client_id");
        let client_secret = self.secret("client_secret");
        let secret_in = self
            .section
            .word(
                "secret_in",
                &[
                    ("basic", ClientSecretIn::Basic),
                    ("body", ClientSecretIn::Body),
                ],
            )
            .unwrap_or(ClientSecretIn::Basic);
        let scope = self.optional_public("scope");
        Some(ClientCredentials {
            token_url: token_url?,
            client_id: client_id?,
            client_secret: client_secret?,
            secret_in,
            scope,
        })
    }

    fn client_assertion(&self) -> Option<ClientAssertion> {
        let token_url = self.token_url();
        let client_id = self.public("client_id");
        let key = self.key(&ASYMMETRIC, None);
        let lifetime = self.section.span("lifetime");
        let (audience, scope) = (
            self.optional_public("audience"),
            self.optional_public("scope"),
        );
        Some(ClientAssertion {
            token_url: token_url?,
            client_id: client_id?,
            key: key?,
            audience,
            lifetime: lifetime.unwrap_or(ASSERTION_LIFETIME),
            scope,
        })
    }

    fn jwt_bearer(&self) -> Option<JwtBearer> {
        let token_url = self.token_url();
        let account = match self.section.has("service_account") {
            true => {
                for key in ["issuer", "algorithm", "secret", "key_id"] {
                    if self.section.has(key) {
                        self.section.fault(key, "is what service_account says");
                    }
                }
                self.secret("service_account").map(ServiceAccount::Json)
            }
            false => self
                .public("issuer")
                .zip(self.key(&ASYMMETRIC, Some(JwtAlgorithm::Rs256)))
                .map(|(issuer, key)| ServiceAccount::Own { issuer, key }),
        };
        let lifetime = self.section.span("lifetime");
        let (audience, scope) = (
            self.optional_public("audience"),
            self.optional_public("scope"),
        );
        Some(JwtBearer {
            token_url: token_url?,
            account: account?,
            audience,
            lifetime: lifetime.unwrap_or(ASSERTION_LIFETIME),
            scope,
        })
    }

    fn key(&self, among: &[JwtAlgorithm], default: Option<JwtAlgorithm>) -> Option<JwtKey> {
        let names: Vec<_> = among
            .iter()
            .map(|algorithm| (algorithm.name(), *algorithm))
            .collect();
        if default.is_none() && !self.section.has("algorithm") {
            self.section.missing("algorithm");
        }
        let given = self.section.has("algorithm");
        let algorithm = self.section.word("algorithm", &names);
        let secret = self.secret("secret");
        let key_id = self.optional_public("key_id");
        Some(JwtKey {
            algorithm: algorithm.or(default.filter(|_| !given))?,
            secret: secret?,
            key_id,
        })
    }

    /// An address, or a path at the request's own origin.
    fn token_url(&self) -> Option<TokenUrl> {
        let text = self.required("token_url")?;
        let (whole, is_path) = match text.starts_with('/') {
            true => (format!("https://origin.example{text}"), true),
            false => (text.to_owned(), false),
        };
        let plain = |url: &Url| {
            matches!(url.scheme(), "http" | "https")
                && url.as_str() == whole
                && url.username().is_empty()
                && url.password().is_none()
                && url.fragment().is_none()
                && !text.starts_with("//")
        };
        let url = Url::parse(&whole).ok().filter(plain);
        if url.is_none() {
            self.section.fault(
                "token_url",
                "expected https:// or http:// with host and path, or a path at the host of request.url, in normal form",
            );
        }
        match is_path {
            true => url.map(|_| TokenUrl::AtOrigin(text.into())),
            false => url.map(TokenUrl::Is),
        }
    }

    fn prefix(&self, default: &str) -> String {
        let prefix = self.section.text("prefix").unwrap_or(default).to_owned();
        if HeaderValue::from_str(&prefix).is_err() {
            self.section.fault("prefix", "cannot stand in a header");
        }
        prefix
    }

    fn required(&self, key: &str) -> Option<&str> {
        if !self.section.has(key) {
            self.section.missing(key);
        }
        self.section.text(key)
    }

    fn secret(&self, key: &str) -> Option<SecretRef> {
        reference(&self.section, key, self.required(key)?)
    }

    fn optional_secret(&self, key: &str) -> Option<SecretRef> {
        reference(&self.section, key, self.section.text(key)?)
    }

    fn public(&self, key: &str) -> Option<PublicText> {
        self.read_public(key, self.required(key)?)
    }

    fn optional_public(&self, key: &str) -> Option<PublicText> {
        self.read_public(key, self.section.text(key)?)
    }

    fn read_public(&self, key: &str, text: &str) -> Option<PublicText> {
        let setting = text
            .strip_prefix("{{")
            .and_then(|rest| rest.strip_suffix("}}"))
            .and_then(|inside| inside.trim().strip_prefix("settings."));
        if let Some(name) = setting {
            if !self.settings.contains_key(name) {
                let problem = format!("there is no {}", join("settings", name));
                self.section.fault(key, problem);
            }
            return Some(PublicText::Setting(name.into()));
        }
        if text.is_empty() || text.contains("{{") {
            self.section.fault(
                key,
                "expected text, env:NAME, file:PATH, or one {{ settings.NAME }} alone",
            );
            return None;
        }
        Some(match SecretRef::parse(text) {
            Some(reference) => PublicText::At(reference),
            None => PublicText::Is(text.into()),
        })
    }
}

/// The algorithms whose key the provider does not have.
const ASYMMETRIC: [JwtAlgorithm; 3] = [
    JwtAlgorithm::Es256,
    JwtAlgorithm::Rs256,
    JwtAlgorithm::Rs512,
];

fn read_mac_headers(table: &Section<'_>) -> Vec<(HeaderName, MacText)> {
    let mut headers = Vec::new();
    for (name, value) in table.every() {
        let (Ok(header), Some(source)) = (name.parse::<HeaderName>(), value.as_str()) else {
            table.fault(name, "expected the name of a header and its text");
            continue;
        };
        if is_ours(&header) {
            table.fault(name, "is set by the connection");
            continue;
        }
        let text = MacText::read(table, name, source);
        let literal = |part: &MacPart| match part {
            MacPart::Literal(text) => HeaderValue::from_str(text).is_ok(),
            MacPart::Body => false,
            MacPart::Method
            | MacPart::Host
            | MacPart::Path
            | MacPart::Target
            | MacPart::BodySha256(_)
            | MacPart::Timestamp
            | MacPart::TimestampMs
            | MacPart::Date
            | MacPart::Header(_)
            | MacPart::Signature => true,
        };
        if !text.0.iter().all(literal) {
            table.fault(name, "cannot stand in a header");
        }
        headers.push((header, text));
    }
    // What a signature may cover must be there before it.
    headers.sort_by_key(|(_, text)| text.has_signature());
    headers
}

fn reference(section: &Section<'_>, key: &str, text: &str) -> Option<SecretRef> {
    let reference = SecretRef::parse(text);
    if reference.is_none() {
        section.fault(
            key,
            "a profile never holds a secret: write env:NAME or file:PATH",
        );
    }
    reference
}
