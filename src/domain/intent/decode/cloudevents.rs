//! Decides what a CloudEvent says (CloudEvents 1.0.2, JSON event format 1.0.2, Kafka protocol binding 1.0.2): its
//! attributes `id` and `source` are the intent's, everything else is in its data, and all other attributes are passed
//! over. A name that no attribute can have, such as `expires_at`, is a slip and is refused.
//!
//! A JSON object with a `specversion` and without a CloudEvents content type is read in structured mode too: the header
//! may be left out (binding, section 3.3.1), and no plain intent has such a field, so there is nothing to mix up.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::Body;
use super::encoding::{ATTRIBUTE_PREFIX, Headers, is_attribute, is_json, media_type};
use super::fields;
use crate::domain::intent::refusal::{Detail, Fault, Refusal};
use crate::domain::intent::{EventId, json, pointer};

/// The one version that is read. All of 1.0.x call themselves so (CloudEvents, section `specversion`).
const VERSION: &str = "1.0";

/// Whether a document that no header calls a CloudEvent is one.
pub(super) fn is_structured(document: &Value) -> bool {
    document
        .as_object()
        .is_some_and(|event| event.contains_key("specversion"))
}

/// Structured mode: the whole event is the value. Attributes that headers repeat must agree.
pub(super) fn structured(
    event: Value,
    headers: &Headers<'_>,
    depth_max: usize,
) -> Result<Body, Refusal> {
    let Value::Object(event) = event else {
        return Err(Fault::new(Detail::NotAnObject, pointer::named("")).into());
    };
    version(attribute(&event, "specversion")?, "/specversion")?;
    let event_id = match event.get("id") {
        None | Some(Value::Null) => return Err(Fault::new(Detail::MissingEventId, "/id").into()),
        Some(id) => fields::event_id(id, "/id")?,
    };
    structured_rest(event, &event_id, headers, depth_max).map_err(|fault| fault.of(Some(event_id)))
}

fn structured_rest(
    mut event: Map<String, Value>,
    event_id: &EventId,
    headers: &Headers<'_>,
    depth_max: usize,
) -> Result<Body, Fault> {
    let source = fields::source(attribute(&event, "source")?, "/source")?;
    present(attribute(&event, "type")?, "/type")?;
    agrees(headers, event_id, &source)?;
    if let Some(wrong) = event
        .keys()
        .find(|name| !is_attribute_name(name) && *name != "data_base64")
    {
        return Err(no_attribute(wrong, pointer::member("", wrong)));
    }
    let content_type = attribute(&event, "datacontenttype")?;
    if content_type.is_some_and(|content_type| !is_json(&media_type(content_type))) {
        return Err(not_json("/datacontenttype"));
    }
    let base64 = event.remove("data_base64").filter(|data| !data.is_null());
    let (data, place) = match (event.remove("data"), base64) {
        (Some(_), Some(_)) => {
            return Err(Fault::new(Detail::BadField, "/data_base64: beside data"));
        }
        (Some(data), None) => (data, "/data"),
        (None, Some(base64)) => {
            let place = "/data_base64";
            let bytes = base64.as_str().and_then(|text| STANDARD.decode(text).ok());
            let bytes =
                bytes.ok_or_else(|| Fault::new(Detail::BadField, format!("{place}: no base64")))?;
            (json::read(&bytes, depth_max, place)?, place)
        }
        (None, None) => return Err(Fault::new(Detail::MissingField, "/data")),
    };
    body(data, place, event_id, source)
}

/// Binary mode: attributes are headers, the value is the data.
pub(super) fn binary(
    value: &[u8],
    headers: &Headers<'_>,
    depth_max: usize,
) -> Result<Body, Refusal> {
    let (name, place) = header("specversion");
    version(headers.text(&name, Detail::UnsupportedFormat)?, &place)?;
    let (name, place) = header("id");
    let event_id = match headers.text(&name, Detail::AmbiguousId)? {
        None => return Err(Fault::new(Detail::MissingEventId, place).into()),
        Some(id) => fields::event_id_text(id, &place)?,
    };
    binary_rest(value, &event_id, headers, depth_max).map_err(|fault| fault.of(Some(event_id)))
}

fn binary_rest(
    value: &[u8],
    event_id: &EventId,
    headers: &Headers<'_>,
    depth_max: usize,
) -> Result<Body, Fault> {
    let (name, place) = header("source");
    let source = fields::source(headers.text(&name, Detail::AmbiguousSource)?, &place)?;
    let (name, place) = header("type");
    present(headers.text(&name, Detail::MissingAttribute)?, &place)?;
    for name in headers.names().filter(|name| is_attribute(name)) {
        let attribute = name.get(ATTRIBUTE_PREFIX.len()..).unwrap_or_default();
        let attribute = attribute.to_ascii_lowercase();
        if !is_attribute_name(&attribute) {
            let place = format!("header {}", pointer::shown(name));
            return Err(no_attribute(&attribute, place));
        }
    }
    // The binding has the data's type in content-type, which has been looked at; some publishers name it here.
    let (name, place) = header("datacontenttype");
    let content_type = headers.media_type(&name)?;
    if content_type.is_some_and(|content_type| !is_json(&content_type)) {
        return Err(not_json(&place));
    }
    let data = json::read(value, depth_max, "")?;
    body(data, "", event_id, source)
}

fn body(data: Value, place: &str, event_id: &EventId, source: Arc<str>) -> Result<Body, Fault> {
    match data {
        Value::Object(fields) => Ok(Body {
            fields,
            place: place.to_owned(),
            event_id: Some(event_id.clone()),
            source: Some(source),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Fault::new(Detail::NotAnObject, pointer::named(place)))
        }
    }
}

/// A text attribute; null is the same as absent (JSON event format, section 2.2).
fn attribute<'a>(event: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Fault> {
    match event.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(Fault::new(Detail::BadField, format!("/{name}: no string")))
        }
    }
}

fn version(version: Option<&str>, place: &str) -> Result<(), Fault> {
    match version {
        Some(VERSION) => Ok(()),
        Some(_) => Err(Fault::new(
            Detail::UnsupportedFormat,
            format!("{place}: only 1.0 is read"),
        )),
        None => Err(Fault::new(Detail::MissingAttribute, place)),
    }
}

fn present(attribute: Option<&str>, place: &str) -> Result<(), Fault> {
    match attribute {
        Some(text) if !text.is_empty() => Ok(()),
        Some(_) | None => Err(Fault::new(Detail::MissingAttribute, place)),
    }
}

/// The binding lets structured mode repeat its attributes as headers (section 3.3.3); a router may have changed one.
fn agrees(headers: &Headers<'_>, event_id: &EventId, source: &str) -> Result<(), Fault> {
    for (name, own, clash) in [
        ("id", &*event_id.0, Detail::AmbiguousId),
        ("source", source, Detail::AmbiguousSource),
    ] {
        let (name, place) = header(name);
        if headers.text(&name, clash)?.is_some_and(|text| text != own) {
            let place = format!("{place}: the event names another");
            return Err(Fault::new(clash, place));
        }
    }
    Ok(())
}

/// The header of an attribute, and what to call its place.
fn header(attribute: &str) -> (String, String) {
    let name = format!("{ATTRIBUTE_PREFIX}{attribute}");
    let place = format!("header {name}");
    (name, place)
}

/// A field of the intent that stands beside the data has no effect there; any other slip may hide one.
fn no_attribute(name: &str, place: String) -> Fault {
    if fields::is_known(name) {
        Fault::new(Detail::MisplacedField, place)
    } else {
        Fault::new(Detail::UnknownField, place)
    }
}

/// CloudEvents, section "Naming conventions".
fn is_attribute_name(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn not_json(place: &str) -> Fault {
    Fault::new(Detail::UnsupportedFormat, format!("{place}: not JSON"))
}
