//! Decides what a record says: an intent, nothing to be sent, or nothing that can be read, and then where the fault is.
//!
//! Three encodings are told apart, each by a mark that the others cannot bear ([`encoding`]): plain JSON, CloudEvents
//! 1.0 in structured mode, and in binary mode. Plain JSON may come in the wrappings of Debezium's outbox router
//! ([`outbox`]). Whatever the encoding, one intent is one value, and so has one key.
//!
//! Not decided here: whether there is a provider for it, whether it is too late, and whether it has been seen before.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::recipient::RecipientKind;
use super::refusal::{Detail, Fault, Refusal};
use super::{EventId, Intent, json};

mod cloudevents;
mod encoding;
mod fields;
mod outbox;

use encoding::{Encoding, Headers};

/// What there is of a record for this purpose.
#[derive(Clone, Copy)]
pub struct RecordView<'a> {
    /// Its value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Its headers, in order; names may repeat.
    pub headers: &'a [(String, Option<Bytes>)],
    /// How many more there are, whose names cannot be read. What they say is unknown, so the record is not read either.
    pub headers_unreadable: usize,
}

/// The limits of what is read, and how recipients are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntakeRules {
    /// The most bytes of a value.
    pub size_max: usize,
    /// The most headers.
    pub headers_max: usize,
    /// The most bytes of all headers' names and values together.
    pub headers_size_max: usize,
    /// The most levels of arrays and objects; the intent's own object is the first. Above 127 it has no effect.
    pub depth_max: usize,
    /// What a channel's recipients are, or a provider's, by name. The channel's entry is asked first; a name without
    /// one has opaque recipients.
    pub recipients: BTreeMap<Arc<str>, RecipientKind>,
}

impl Default for IntakeRules {
    fn default() -> Self {
        let phone = RecipientKind::Phone {
            default_region: None,
            short_codes: false,
        };
        Self {
            size_max: 1_048_576,
            headers_max: 100,
            headers_size_max: 65_536,
            depth_max: 32,
            recipients: BTreeMap::from([
                ("sms".into(), phone),
                ("email".into(), RecipientKind::Email),
                ("push".into(), RecipientKind::Opaque),
                ("webhook".into(), RecipientKind::Url),
            ]),
        }
    }
}

/// What a record says.
#[derive(Debug, PartialEq)]
pub enum Decoded {
    /// One send is asked for.
    Intent(Box<Intent>),
    /// Nothing is asked for; to be counted and passed over.
    Ignored(IgnoredReason),
    /// It cannot be read: a dead letter.
    Refused(Refusal),
}

/// Why a record asks for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IgnoredReason {
    /// A null value.
    Tombstone,
    /// A row has left the outbox table.
    Deletion,
    /// The connector is alive.
    Heartbeat,
}

impl IgnoredReason {
    /// Every reason, in the order of the enum.
    pub const ALL: [Self; 3] = [Self::Tombstone, Self::Deletion, Self::Heartbeat];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tombstone => "tombstone",
            Self::Deletion => "deletion",
            Self::Heartbeat => "heartbeat",
        }
    }
}

/// Reads a record. Never fails otherwise than by saying so, whatever the bytes.
pub fn decode(record: &RecordView<'_>, rules: &IntakeRules) -> Decoded {
    let Some(value) = record.value else {
        return Decoded::Ignored(IgnoredReason::Tombstone);
    };
    let found = all_readable(record.headers_unreadable)
        .and_then(|()| within_limits(value, record.headers, rules))
        .map_err(Refusal::from)
        .and_then(|()| contents(value, &Headers::new(record.headers), rules.depth_max))
        .and_then(|contents| match contents {
            Contents::Body(body) => {
                let intent = fields::intent(body, rules)?;
                Ok(Decoded::Intent(Box::new(intent)))
            }
            Contents::Nothing(reason) => Ok(Decoded::Ignored(reason)),
        });
    found.unwrap_or_else(Decoded::Refused)
}

/// What is in a record once its encoding is off.
enum Contents {
    Body(Body),
    Nothing(IgnoredReason),
}

/// The object that holds the intent, and what its wrapping says of it.
struct Body {
    fields: Map<String, Value>,
    /// The JSON pointer to it.
    place: String,
    /// The id that the wrapping names; the object's own must agree.
    event_id: Option<EventId>,
    /// The source that the wrapping names; the object's own must agree.
    source: Option<Arc<str>>,
}

fn contents(value: &[u8], headers: &Headers<'_>, depth_max: usize) -> Result<Contents, Refusal> {
    match Encoding::of(headers)? {
        Encoding::Structured => {
            let event = json::read(value, depth_max, "")?;
            cloudevents::structured(event, headers, depth_max).map(Contents::Body)
        }
        Encoding::Binary => cloudevents::binary(value, headers, depth_max).map(Contents::Body),
        Encoding::Plain => {
            let document = json::read(value, depth_max, "")
                .map_err(|fault| fault.of(outbox::header_id(headers).ok().flatten()))?;
            if cloudevents::is_structured(&document) {
                cloudevents::structured(document, headers, depth_max).map(Contents::Body)
            } else {
                outbox::unwrap(document, headers, depth_max)
            }
        }
    }
}

/// Asked first, so that the dead letter always tells that it lacks something.
fn all_readable(headers_unreadable: usize) -> Result<(), Fault> {
    if headers_unreadable == 0 {
        return Ok(());
    }
    let place = format!("{headers_unreadable} of the headers, left out: a name must be UTF-8");
    Err(Fault::new(Detail::UnreadableHeader, place))
}

fn within_limits(
    value: &[u8],
    headers: &[(String, Option<Bytes>)],
    rules: &IntakeRules,
) -> Result<(), Fault> {
    if value.len() > rules.size_max {
        let place = format!("{} bytes, {} allowed", value.len(), rules.size_max);
        return Err(Fault::new(Detail::ValueTooLarge, place));
    }
    if headers.len() > rules.headers_max {
        let place = format!("{} headers, {} allowed", headers.len(), rules.headers_max);
        return Err(Fault::new(Detail::HeadersTooLarge, place));
    }
    let size = headers.iter().fold(0usize, |sum, (name, value)| {
        let value = value.as_ref().map_or(0, Bytes::len);
        sum.saturating_add(name.len()).saturating_add(value)
    });
    if size > rules.headers_size_max {
        let place = format!(
            "{size} bytes of headers, {} allowed",
            rules.headers_size_max
        );
        return Err(Fault::new(Detail::HeadersTooLarge, place));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
