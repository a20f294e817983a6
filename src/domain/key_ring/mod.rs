//! Decides which key an intent has: a MAC over what makes the event one event, under the secret that its record's
//! timestamp chooses. It does not know what the ledger remembers, only under which keys that may be.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Builder;

use super::idempotency_key::IdempotencyKey;
use super::intent::Intent;
use super::length_prefixed;
use super::time::Timestamp;

/// The first field under the MAC. Another derivation gets another version, and so never the same key by chance.
const VERSION: &[u8] = b"sendonce-key-1";

/// The fewest bytes of a secret: no shorter than the key that it makes.
pub const SECRET_LEN_MIN: usize = 16;

/// The most characters of a namespace.
pub const NAMESPACE_LEN_MAX: usize = 255;

/// A secret that keys are derived under. Neither `Debug` nor anything else shows it.
#[derive(Clone)]
pub struct KeySecret {
    bytes: Arc<[u8]>,
    mac: Hmac<Sha256>,
}

impl KeySecret {
    /// The secret, or `None` if it has fewer than 16 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mac = Hmac::new_from_slice(bytes).ok()?;
        (bytes.len() >= SECRET_LEN_MIN).then(|| Self {
            bytes: bytes.into(),
            mac,
        })
    }
}

impl PartialEq for KeySecret {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for KeySecret {}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(…)")
    }
}

/// Whose keys they are: one for all instances that share intents, another wherever the same event is another send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// The namespace, or `None` unless it has 1 to 255 visible ASCII characters.
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=NAMESPACE_LEN_MAX).contains(&text.len());
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The key that `secret` gives `intent`, whatever key upstream may have given it.
///
/// HMAC-SHA-256 over, in this order and each length-prefixed: version, namespace, source, event id, channel,
/// recipient, template's name, template's version. The first 16 bytes are written as a UUID of version 8 (RFC 9562,
/// section 5.8), whose version and variant take six of the bits.
pub fn derive(secret: &KeySecret, namespace: &Namespace, intent: &Intent) -> IdempotencyKey {
    let template = intent.template.as_ref();
    let template_version = template.and_then(|template| template.version.as_deref());
    let fields: [Option<&[u8]>; 8] = [
        Some(VERSION),
        Some(namespace.0.as_bytes()),
        intent.source.as_deref().map(str::as_bytes),
        Some(intent.event_id.0.as_bytes()),
        intent.channel.as_deref().map(str::as_bytes),
        Some(intent.recipient.expose().as_bytes()),
        template.map(|template| template.name.as_bytes()),
        template_version.map(str::as_bytes),
    ];
    let mut mac = secret.mac.clone();
    length_prefixed::feed(fields, |run| mac.update(run));
    let tag: [u8; 32] = mac.finalize().into_bytes().into();
    let [first @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = tag;
    IdempotencyKey::derived(Builder::from_custom_bytes(first).into_uuid())
}

/// A secret and since when it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatedSecret {
    /// Records stamped at this moment or later are keyed under it, until the next one's. The first secret is in force
    /// for all earlier records too.
    pub from: Timestamp,
    /// The secret.
    pub secret: KeySecret,
}

/// All secrets that keys may have been derived under, by date.
///
/// To rotate, give every instance the new secret with a date that lies ahead of the deploy, so that all of them
/// change at the same record; and keep the old one for `ledger.retention` after that date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRing {
    namespace: Namespace,
    oldest: DatedSecret,
    /// In rising order of their dates.
    newer: Vec<DatedSecret>,
}

/// Why secrets make no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingFault {
    /// There must be at least one.
    #[error("at least one secret is needed")]
    Empty,
    /// Which one is in force must be certain.
    #[error("two secrets are in force from the same moment, {0}")]
    SameDate(Timestamp),
}

impl KeyRing {
    /// A ring of `secrets`, in any order.
    pub fn new(
        namespace: Namespace,
        secrets: impl IntoIterator<Item = DatedSecret>,
    ) -> Result<Self, KeyRingFault> {
        let mut secrets: Vec<DatedSecret> = secrets.into_iter().collect();
        secrets.sort_by_key(|dated| dated.from);
        for (one, next) in secrets.iter().zip(secrets.iter().skip(1)) {
            if one.from == next.from {
                return Err(KeyRingFault::SameDate(one.from));
            }
        }
        let mut secrets = secrets.into_iter();
        let oldest = secrets.next().ok_or(KeyRingFault::Empty)?;
        Ok(Self {
            namespace,
            oldest,
            newer: secrets.collect(),
        })
    }

    /// The key under which `intent` is sent if no ledger knows it: upstream's own, or the one derived under the
    /// secret in force at `recorded_at`, its record's timestamp.
    pub fn key(&self, intent: &Intent, recorded_at: Timestamp) -> IdempotencyKey {
        match &intent.idempotency_key {
            Some(own) => own.clone(),
            None => derive(self.in_force(recorded_at), &self.namespace, intent),
        }
    }

    /// Every key under which a ledger that remembers for `retention` may know `intent` at `now`, the one of
    /// [`Self::key`] first, each once. Whichever exists wins, so that a change of secrets sends nothing twice.
    ///
    /// An event's other record may bear an earlier or a later timestamp than this one: a republished one is stamped
    /// anew, a partition that lags or a clock that is wrong brings old stamps late. So all secrets are asked but those
    /// whose time ended before the ledger's memory begins.
    pub fn candidates(
        &self,
        intent: &Intent,
        recorded_at: Timestamp,
        now: Timestamp,
        retention: Duration,
    ) -> Vec<IdempotencyKey> {
        let mut keys = vec![self.key(intent, recorded_at)];
        if intent.idempotency_key.is_some() {
            return keys;
        }
        let in_force = self.in_force(recorded_at);
        let memory_begins = now.min(recorded_at).minus(retention);
        let ends = self.newer.iter().map(|next| Some(next.from)).chain([None]);
        let remembered = self
            .dated()
            .zip(ends)
            .filter(|(dated, _)| dated.secret != *in_force)
            .filter(|(_, end)| end.is_none_or(|end| end > memory_begins))
            .map(|(dated, _)| derive(&dated.secret, &self.namespace, intent));
        for key in remembered {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// The secret that keys the records stamped `at`.
    pub fn in_force(&self, at: Timestamp) -> &KeySecret {
        let latest = self.newer.iter().rev().find(|dated| dated.from <= at);
        &latest.unwrap_or(&self.oldest).secret
    }

    fn dated(&self) -> impl Iterator<Item = &DatedSecret> {
        std::iter::once(&self.oldest).chain(&self.newer)
    }
}

#[cfg(test)]
mod tests;
