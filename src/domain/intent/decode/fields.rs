//! Decides which fields an intent has, and what each may hold. `config/intent.schema.json` is the same contract for
//! publishers; a test holds the two against each other.
//!
//! A field that is not known is refused, not passed over: `expire_at` for `expires_at` would send a login code that is
//! too late. What upstream wants to carry along has its place in `metadata`. Null is the same as absent.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Body, IntakeRules};
use crate::domain::idempotency_key::IdempotencyKey;
use crate::domain::intent::recipient::RecipientKind;
use crate::domain::intent::refusal::{Detail, Fault, Refusal};
use crate::domain::intent::{EventId, Intent, Recipient, Template, json, pointer};
use crate::domain::time::Timestamp;

/// Every field of an intent.
const FIELDS: [&str; 12] = [
    "id",
    "source",
    "channel",
    "provider",
    "to",
    "from",
    "content",
    "template",
    "expires_at",
    "idempotency_key",
    "reference",
    "metadata",
];

/// In bytes of UTF-8.
const EVENT_ID_LEN_MAX: usize = 1_024;
/// In bytes of UTF-8.
const SOURCE_LEN_MAX: usize = 1_024;
/// Of a channel and a provider; such names become labels of metrics and keys of the configuration.
const NAME_LEN_MAX: usize = 64;
/// In characters: the longest mail address with a display name of the same length.
const FROM_CHARS_MAX: usize = 640;
/// In characters, of a template's name and of its version.
const TEMPLATE_CHARS_MAX: usize = 255;
/// In characters.
const REFERENCE_CHARS_MAX: usize = 255;

/// Whether an intent has a field of this name.
pub(super) fn is_known(name: &str) -> bool {
    FIELDS.contains(&name)
}

/// The intent in `body`.
pub(super) fn intent(body: Body, rules: &IntakeRules) -> Result<Intent, Refusal> {
    let mut fields = Fields {
        left: body.fields,
        place: body.place,
    };
    let event_id = fields.event_id(body.event_id)?;
    rest(fields, event_id.clone(), body.source, rules).map_err(|fault| fault.of(Some(event_id)))
}

fn rest(
    mut fields: Fields,
    event_id: EventId,
    source: Option<Arc<str>>,
    rules: &IntakeRules,
) -> Result<Intent, Fault> {
    fields.only_known()?;
    let source = fields.source(source)?;
    let channel = fields.name("channel")?;
    let provider = fields.name("provider")?;
    if channel.is_none() && provider.is_none() {
        return Err(Fault::new(
            Detail::MissingField,
            format!("{}: neither it nor a provider", fields.at("channel")),
        ));
    }
    let kind = recipient_kind(rules, channel.as_deref(), provider.as_deref());
    Ok(Intent {
        event_id,
        source,
        recipient: fields.recipient(kind)?,
        channel,
        provider,
        from: fields.text("from", FROM_CHARS_MAX)?,
        content: fields.object("content")?,
        template: fields.template()?,
        expires_at: fields.expires_at()?,
        idempotency_key: fields.idempotency_key()?,
        reference: fields.reference()?,
        metadata: fields.object("metadata")?,
    })
}

fn recipient_kind<'a>(
    rules: &'a IntakeRules,
    channel: Option<&str>,
    provider: Option<&str>,
) -> &'a RecipientKind {
    [channel, provider]
        .into_iter()
        .flatten()
        .find_map(|name| rules.recipients.get(name))
        .unwrap_or(&RecipientKind::Opaque)
}

/// An event id in JSON: a string as it is, or an integer by its digits, so that 7 is "7".
pub(super) fn event_id(value: &Value, place: &str) -> Result<EventId, Fault> {
    match value {
        Value::String(text) => event_id_text(text, place),
        Value::Number(number) => match json::integer(number) {
            Some(digits) => event_id_text(digits, place),
            None => Err(bad_id(place, "a number, but no integer")),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(bad_id(place, "no string or integer"))
        }
    }
}

/// An event id as text: 1 to 1,024 bytes, compared byte by byte. Nothing in it is forbidden, since no key or header of
/// a request ever holds it.
pub(super) fn event_id_text(text: &str, place: &str) -> Result<EventId, Fault> {
    match text.len() {
        0 => Err(bad_id(place, "empty")),
        1..=EVENT_ID_LEN_MAX => Ok(EventId(text.into())),
        _ => Err(bad_id(place, "longer than 1,024 bytes")),
    }
}

fn bad_id(place: &str, why: &str) -> Fault {
    Fault::new(Detail::BadEventId, format!("{place}: {why}"))
}

/// The id that both places name.
pub(super) fn agreed(known: Option<EventId>, own: EventId, place: &str) -> Result<EventId, Fault> {
    match known {
        Some(known) if known != own => Err(Fault::new(
            Detail::AmbiguousId,
            format!("{place}: another id than the one outside"),
        )),
        Some(_) | None => Ok(own),
    }
}

/// The source that a wrapping must name.
pub(super) fn source(text: Option<&str>, place: &str) -> Result<Arc<str>, Fault> {
    match text {
        None | Some("") => Err(Fault::new(Detail::MissingAttribute, place)),
        Some(text) if is_source(text) => Ok(text.into()),
        Some(_) => Err(bad(place, "too long, or with control characters")),
    }
}

fn is_source(text: &str) -> bool {
    (1..=SOURCE_LEN_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn bad(place: &str, why: &str) -> Fault {
    Fault::new(Detail::BadField, format!("{place}: {why}"))
}

/// The fields that have not been read yet.
struct Fields {
    left: Map<String, Value>,
    place: String,
}

impl Fields {
    fn at(&self, name: &str) -> String {
        pointer::member(&self.place, name)
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    /// A string that `fits`, by the words that say what fits.
    fn string(
        &mut self,
        name: &str,
        fits: impl Fn(&str) -> bool,
        else_say: &str,
    ) -> Result<Option<String>, Fault> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if fits(&text) => Ok(Some(text)),
            Some(Value::String(_)) => Err(bad(&self.at(name), else_say)),
            Some(
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_),
            ) => Err(bad(&self.at(name), "no string")),
        }
    }

    fn event_id(&mut self, outside: Option<EventId>) -> Result<EventId, Fault> {
        let place = self.at("id");
        match (self.take("id"), outside) {
            (Some(own), outside) => agreed(outside, event_id(&own, &place)?, &place),
            (None, Some(outside)) => Ok(outside),
            (None, None) => Err(Fault::new(Detail::MissingEventId, place)),
        }
    }

    fn only_known(&self) -> Result<(), Fault> {
        match self.left.keys().find(|name| !is_known(name)) {
            Some(name) => Err(Fault::new(Detail::UnknownField, self.at(name))),
            None => Ok(()),
        }
    }

    fn source(&mut self, outside: Option<Arc<str>>) -> Result<Option<Arc<str>>, Fault> {
        let own = self.string(
            "source",
            is_source,
            "not 1 to 1,024 bytes without control characters",
        )?;
        match (own, outside) {
            (Some(own), Some(outside)) if *own != *outside => Err(Fault::new(
                Detail::AmbiguousSource,
                format!("{}: another source than the one outside", self.at("source")),
            )),
            (_, Some(outside)) => Ok(Some(outside)),
            (own, None) => Ok(own.map(Into::into)),
        }
    }

    fn name(&mut self, name: &str) -> Result<Option<Arc<str>>, Fault> {
        let fits = |text: &str| {
            let inner =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
            (1..=NAME_LEN_MAX).contains(&text.len())
                && text.bytes().all(inner)
                && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        };
        let text = self.string(name, fits, "not 1 to 64 letters, digits, '_', '.' or '-'")?;
        Ok(text.map(Into::into))
    }

    fn recipient(&mut self, kind: &RecipientKind) -> Result<Recipient, Fault> {
        let text = self
            .string("to", |_| true, "")?
            .ok_or_else(|| Fault::new(Detail::MissingField, self.at("to")))?;
        kind.canonical(&text).map_err(|fault| {
            let place = self.at("to");
            Fault::new(Detail::BadRecipient, format!("{place}: {fault}"))
        })
    }

    fn text(&mut self, name: &str, chars_max: usize) -> Result<Option<String>, Fault> {
        let fits = |text: &str| is_text(text, chars_max);
        self.string(name, fits, "empty, too long, or with control characters")
    }

    fn object(&mut self, name: &str) -> Result<Map<String, Value>, Fault> {
        match self.take(name) {
            None => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object),
            Some(
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_),
            ) => Err(bad(&self.at(name), "no object")),
        }
    }

    fn template(&mut self) -> Result<Option<Template>, Fault> {
        let Some(value) = self.take("template") else {
            return Ok(None);
        };
        let place = self.at("template");
        let Value::Object(left) = value else {
            return Err(bad(&place, "no object"));
        };
        let mut fields = Self { left, place };
        let name = fields
            .text("name", TEMPLATE_CHARS_MAX)?
            .ok_or_else(|| Fault::new(Detail::MissingField, fields.at("name")))?;
        let version = fields.template_version()?;
        match fields.left.keys().next() {
            Some(unknown) => Err(Fault::new(Detail::UnknownField, fields.at(unknown))),
            None => Ok(Some(Template {
                name: name.into(),
                version,
            })),
        }
    }

    /// A string, or an integer by its digits, so that 3 is "3".
    fn template_version(&mut self) -> Result<Option<Arc<str>>, Fault> {
        let place = self.at("version");
        if let Some(Value::Number(number)) = self.left.get("version") {
            let text = json::integer(number).filter(|text| is_text(text, TEMPLATE_CHARS_MAX));
            let version = text
                .ok_or_else(|| bad(&place, "a number, but no integer"))?
                .into();
            self.left.remove("version");
            return Ok(Some(version));
        }
        let text = self.text("version", TEMPLATE_CHARS_MAX)?;
        Ok(text.map(Into::into))
    }

    fn expires_at(&mut self) -> Result<Option<Timestamp>, Fault> {
        let text = self.string("expires_at", |_| true, "")?;
        text.map(|text| {
            let why = "no date and time with an offset (RFC 3339)";
            Timestamp::parse_rfc3339(&text).ok_or_else(|| bad(&self.at("expires_at"), why))
        })
        .transpose()
    }

    fn idempotency_key(&mut self) -> Result<Option<IdempotencyKey>, Fault> {
        let text = self.string("idempotency_key", |_| true, "")?;
        text.map(|text| {
            let why = "not 1 to 255 visible ASCII characters";
            IdempotencyKey::from_upstream(&text)
                .ok_or_else(|| bad(&self.at("idempotency_key"), why))
        })
        .transpose()
    }

    /// ASCII alone, because vendors take references in headers and queries too.
    fn reference(&mut self) -> Result<Option<String>, Fault> {
        let fits = |text: &str| {
            (1..=REFERENCE_CHARS_MAX).contains(&text.len())
                && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        };
        self.string("reference", fits, "not 1 to 255 printable ASCII characters")
    }
}

fn is_text(text: &str, chars_max: usize) -> bool {
    !text.is_empty() && text.chars().count() <= chars_max && !text.chars().any(char::is_control)
}
