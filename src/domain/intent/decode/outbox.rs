//! Decides what is inside the wrappings that Debezium's outbox event router and Kafka Connect's JSON converter put
//! around a payload, depending on their settings: a `payload` beside a `schema`, a `payload` beside further columns,
//! and the payload as a string of escaped JSON, in any combination up to four deep. The event's id is in the header
//! `id`, in a column `id`, or in the intent itself; all that are there must agree.
//!
//! Deleted rows, heartbeats and empty payloads ask for nothing. Other change events are refused: they show that the
//! router is missing, and a row is no intent.
//!
//! Sources: Debezium 3, "Outbox Event Router" (options `table.expand.json.payload`,
//! `table.fields.additional.placement`), "New Record State Extraction" (`__deleted`), "PostgreSQL connector" (change
//! events, heartbeats); Kafka Connect's `JsonConverter` (`schemas.enable`).

use serde_json::{Map, Value};

use super::encoding::Headers;
use super::{Body, Contents, IgnoredReason, fields};
use crate::domain::intent::refusal::{Detail, Fault, Refusal};
use crate::domain::intent::{EventId, json, pointer};

/// A schema, further columns, and a string within; one to spare.
const WRAPPINGS_MAX: usize = 4;

/// The header in which the router puts the event's id.
const ID_HEADER: &str = "id";

/// Takes the wrappings off `document`; without any it is the intent itself.
pub(super) fn unwrap(
    document: Value,
    headers: &Headers<'_>,
    depth_max: usize,
) -> Result<Contents, Refusal> {
    let mut inside = Inside {
        document,
        place: String::new(),
        event_id: header_id(headers)?,
    };
    for _ in 0..=WRAPPINGS_MAX {
        let known = inside.event_id.clone();
        match inside.unwrap_once(depth_max) {
            Ok(Layer::Wrapping(deeper)) => inside = deeper,
            Ok(Layer::Core(contents)) => return Ok(contents),
            Err(fault) => return Err(fault.of(known)),
        }
    }
    let place = format!("{}: too many wrappings", pointer::named(&inside.place));
    Err(Fault::new(Detail::TooDeep, place).of(inside.event_id))
}

/// What is left once some wrappings are off.
struct Inside {
    document: Value,
    place: String,
    event_id: Option<EventId>,
}

enum Layer {
    Wrapping(Inside),
    Core(Contents),
}

impl Inside {
    fn unwrap_once(self, depth_max: usize) -> Result<Layer, Fault> {
        let Self {
            document,
            place,
            event_id,
        } = self;
        let mut object = match document {
            Value::Object(object) => object,
            Value::String(text) => {
                return Ok(Layer::Wrapping(Self {
                    document: json::read(text.as_bytes(), depth_max, &place)?,
                    place,
                    event_id,
                }));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return Err(Fault::new(Detail::NotAnObject, pointer::named(&place)));
            }
        };
        if let Some(reason) = asks_nothing(&object) {
            return Ok(Layer::Core(Contents::Nothing(reason)));
        }
        if is_change(&object) {
            let place = format!("{place}/op: a row's change, which no outbox router has read");
            return Err(Fault::new(Detail::UnsupportedFormat, place));
        }
        let Some(payload) = object.remove("payload") else {
            return Ok(Layer::Core(Contents::Body(Body {
                fields: object,
                place,
                event_id,
                source: None,
            })));
        };
        let event_id = column_id(&object, &place, event_id)?;
        let misplaced = |name: &&String| *name != "id" && fields::is_known(name);
        if let Some(name) = object.keys().find(misplaced) {
            let place = format!("{}: outside the payload", pointer::member(&place, name));
            return Err(Fault::new(Detail::MisplacedField, place));
        }
        Ok(Layer::Wrapping(Self {
            document: payload,
            place: pointer::member(&place, "payload"),
            event_id,
        }))
    }
}

/// Whether `object` says that there is nothing to be sent.
fn asks_nothing(object: &Map<String, Value>) -> Option<IgnoredReason> {
    let heartbeat = object.contains_key("ts_ms")
        && object.iter().all(|(name, value)| {
            matches!(name.as_str(), "ts_ms" | "ts_us" | "ts_ns") && value.is_number()
        });
    let no_payload = object.get("payload").is_some_and(Value::is_null)
        && object
            .keys()
            .all(|name| matches!(name.as_str(), "schema" | "payload"))
        && object.contains_key("schema");
    let rewritten = match object.get("__deleted") {
        Some(Value::Bool(deleted)) => *deleted,
        Some(Value::String(deleted)) => deleted == "true",
        Some(Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_)) | None => false,
    };
    let removed =
        is_change(object) && matches!(object.get("op").and_then(Value::as_str), Some("d" | "t"));
    if heartbeat {
        Some(IgnoredReason::Heartbeat)
    } else if no_payload {
        Some(IgnoredReason::Tombstone)
    } else if rewritten || removed {
        Some(IgnoredReason::Deletion)
    } else {
        None
    }
}

/// A change event as the connector writes it, before any router.
fn is_change(object: &Map<String, Value>) -> bool {
    object.contains_key("op")
        && ["before", "after"]
            .iter()
            .any(|name| object.contains_key(*name))
}

/// The id in the header, which Connect's converters write as bare text, as a JSON string, or beside its schema.
pub(super) fn header_id(headers: &Headers<'_>) -> Result<Option<EventId>, Fault> {
    let place = format!("header {ID_HEADER}");
    let Some(text) = headers.text(ID_HEADER, Detail::AmbiguousId)? else {
        return Ok(None);
    };
    let converted = text
        .starts_with(['"', '{'])
        .then(|| json::read(text.as_bytes(), 8, &place).ok())
        .flatten();
    match converted {
        Some(Value::String(id)) => fields::event_id_text(&id, &place).map(Some),
        Some(Value::Object(mut beside)) if beside.contains_key("schema") => {
            match beside.remove("payload") {
                Some(id) => fields::event_id(&id, &place).map(Some),
                None => Err(Fault::new(Detail::BadEventId, place)),
            }
        }
        Some(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_),
        )
        | None => fields::event_id_text(text, &place).map(Some),
    }
}

fn column_id(
    object: &Map<String, Value>,
    place: &str,
    known: Option<EventId>,
) -> Result<Option<EventId>, Fault> {
    let place = format!("{place}/id");
    match object.get("id") {
        None | Some(Value::Null) => Ok(known),
        Some(id) => fields::agreed(known, fields::event_id(id, &place)?, &place).map(Some),
    }
}
