//! Decides how keys and fingerprints are written, and where the ledger finds them.
//! How it is derived, and under which secret, is `key_ring`; where a provider wants it is in its profile.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The key that all attempts of one intent carry: a version 8 UUID of ours, or what upstream gave, as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IdempotencyKey(Arc<str>);

impl IdempotencyKey {
    /// A derived key, in its form of 36 characters.
    pub fn derived(uuid: Uuid) -> Self {
        Self(uuid.hyphenated().to_string().into())
    }

    /// Upstream's own key: 1 to 255 visible ASCII characters, else `None`.
    pub fn from_upstream(text: &str) -> Option<Self> {
        let fits = (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        fits.then(|| Self(text.into()))
    }

    /// The text that goes on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 16 bytes of a UUID's text in 22 characters (base64url, RFC 4648, section 5, without padding), for vendors
    /// whose field is shorter than 36. `None` for a key of another form, which is sent as it is or not at all.
    pub fn short_form(&self) -> Option<String> {
        let uuid: Uuid = self.0.parse().ok()?;
        let same = uuid.hyphenated().to_string() == *self.0;
        same.then(|| URL_SAFE_NO_PAD.encode(uuid.as_bytes()))
    }

    /// Where the ledger keeps this key's story.
    pub fn ledger_key(&self) -> LedgerKey {
        LedgerKey::of(b"key", self.0.as_bytes())
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A ledger's index: 16 bytes of SHA-256, the same length for every kind of subject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LedgerKey(pub [u8; 16]);

impl LedgerKey {
    /// The index of `subject` within its `kind`.
    pub fn of(kind: &[u8], subject: &[u8]) -> Self {
        let mut digest = Sha256::new();
        digest.update(kind);
        digest.update([0]);
        digest.update(subject);
        let digest: [u8; 32] = digest.finalize().into();
        let [first @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = digest;
        Self(first)
    }
}

impl fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Uuid::from_bytes(self.0).simple())
    }
}

/// SHA-256 over an intent's canonical content: tells a repeat of an id from its reuse for something else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IntentFingerprint(pub [u8; 32]);

/// SHA-256 over a request's method, URL and body bytes: guards every retry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestFingerprint(pub [u8; 32]);

/// SHA-256 over a profile's text: names the version that rendered a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProfileHash(pub [u8; 32]);

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

macro_rules! shown_as_hex {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                hex(&self.0, f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                hex(&self.0, f)
            }
        }
    )*};
}
shown_as_hex!(IntentFingerprint, RequestFingerprint, ProfileHash);
