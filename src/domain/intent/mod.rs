//! Decides what an intent is once it has been read: one logical send that upstream asks for.
//! How it is read from a record is `decode`; how a recipient is written is `recipient`.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::idempotency_key::IdempotencyKey;
use super::time::Timestamp;

pub mod decode;
mod fingerprint;
mod json;
mod pointer;
pub mod recipient;
pub mod refusal;

/// One logical send, decoded and canonical.
#[derive(Clone, PartialEq)]
pub struct Intent {
    /// The event's id in its one canonical form.
    pub event_id: EventId,
    /// Who published it: keeps equal ids of two publishers apart.
    pub source: Option<Arc<str>>,
    /// `sms`, `email`, `push`, `webhook`, or any routed name. Absent when only a provider was named.
    pub channel: Option<Arc<str>>,
    /// The provider that the intent itself names.
    pub provider: Option<Arc<str>>,
    /// Who is to get it, in canonical form.
    pub recipient: Recipient,
    /// The sender to show.
    pub from: Option<String>,
    /// What the provider's request template reads.
    pub content: Map<String, Value>,
    /// The template that made the content.
    pub template: Option<Template>,
    /// After this moment it must not be sent.
    pub expires_at: Option<Timestamp>,
    /// Upstream's own key.
    pub idempotency_key: Option<IdempotencyKey>,
    /// What the vendor shall take as the client's reference; default is the key.
    pub reference: Option<String>,
    /// Free form, never sent, never logged.
    pub metadata: Map<String, Value>,
}

/// An event id: 1 to 1,024 bytes of UTF-8; the integer 7 and the string "7" are the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventId(pub Arc<str>);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A recipient in canonical form. Neither `Debug` nor `Display` tells it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Recipient(Arc<str>);

impl Recipient {
    /// Takes `text`, which must be canonical already.
    pub fn canonical(text: &str) -> Self {
        Self(text.into())
    }

    /// The recipient itself, for the key and the request only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recipient(…)")
    }
}

/// The template that made an intent's content, part of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// Its name.
    pub name: Arc<str>,
    /// Its version, as text; the integer 3 equals "3".
    pub version: Option<Arc<str>>,
}

impl fmt::Debug for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intent")
            .field("event_id", &self.event_id)
            .field("source", &self.source)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}
