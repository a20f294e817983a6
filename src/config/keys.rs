//! Decides what keys are made from. It does not know how: that is `domain::key_ring`.

use crate::domain::key_ring::{DatedSecret, KeyRing, KeySecret, Namespace, SECRET_LEN_MIN};
use crate::domain::time::Timestamp;

use super::section::Section;

/// `[keys]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysConfig {
    /// The namespace and the secrets by date. Absent while no secret is given: `Config::missing_to_run` tells.
    pub ring: Option<KeyRing>,
}

impl KeysConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let namespace = section.text_that(
            "namespace",
            "1 to 64 characters of A-Z a-z 0-9 . _ -",
            |text| (1..=64).contains(&text.len()) && text.bytes().all(is_name_byte),
        );
        let secrets = section.each_of("secrets", read_secret)?;
        let rising = secrets
            .iter()
            .zip(secrets.iter().skip(1))
            .all(|(earlier, later)| earlier.from < later.from);
        if !rising {
            return section.refuse("secrets", "the dates must rise from one to the next");
        }
        let namespace = Namespace::new(&namespace?)?;
        Some(Self {
            ring: KeyRing::new(namespace, secrets).ok(),
        })
    }
}

fn read_secret(section: &mut Section<'_>) -> Option<DatedSecret> {
    let from = read_date(section);
    let secret = match section.secret("secret")? {
        None => section.refuse("secret", "must not be empty"),
        Some(secret) => match KeySecret::new(secret.expose().as_bytes()) {
            Some(secret) => Some(secret),
            None => section.refuse(
                "secret",
                &format!("what it refers to must have at least {SECRET_LEN_MIN} bytes"),
            ),
        },
    };
    Some(DatedSecret {
        from: from?,
        secret: secret?,
    })
}

fn read_date(section: &mut Section<'_>) -> Option<Timestamp> {
    let (value, _) = section.any("from")?;
    let text = match &value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Datetime(date) => date.to_string(),
        toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Array(_)
        | toml::Value::Table(_) => String::new(),
    };
    match Timestamp::parse_rfc3339(&text) {
        Some(from) => Some(from),
        None => section.refuse(
            "from",
            "must be a date and time of RFC 3339 with its offset, like 2026-01-01T00:00:00Z",
        ),
    }
}

/// Whether `byte` may stand in the name of a topic, a provider or a namespace.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}
