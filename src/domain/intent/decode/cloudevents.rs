//! Decides what a CloudEvent says (CloudEvents 1.0.2, JSON event format 1.0.2, Kafka protocol binding 1.0.2): its
//! attributes `id` and `source` are the intent's, everything else is in its data, and all other attributes are passed
//! over. A name that no attribute can have, such as `expires_at`, is a slip and is refused.
//!
//! A JSON object with a `specversion` and without a CloudEvents content type is read in structured mode too: many
//! publishers leave the header out, and no plain intent has such a field, so there is nothing to mix it up with.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::Body;
use super::encoding::{ATTRIBUTE_PREFIX, Headers, is_attribute, is_json, media_type};
use super::fields;
use crate::domain::intent::refusal::{Detail, Fault};
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
    document: Value,
    headers: &Headers<'_>,
    depth_max: usize,
) -> Result<Body, Fault> {
    let Value::Object(mut event) = document else {
        return Err(Fault::new(Detail::NotAnObject, pointer::named("")));
    };
    let named = |name: &str| format!("/{name}");
    version(attribute(&event, "specversion")?, &named("specversion"))?;
    let event_id = match event.get("id") {
        None | Some(Value::Null) => return Err(Fault::new(Detail::MissingEventId, named("id"))),
        Some(id) => fields::event_id(id, &named("id"))?,
    };
    let source = fields::source(attribute(&event, "source")?, &named("source"))?;
    present(attribute(&event, "type")?, &named("type"))?;
    agrees(headers, &event_id, &source)?;
    if let Some(wrong) = event
        .keys()
        .find(|name| !is_attribute_name(name) && *name != "data_base64")
    {
        let place = pointer::member("", wrong);
        return Err(Fault::new(Detail::MisplacedField, place));
    }
    let json_data = match attribute(&event, "datacontenttype")? {
        None => true,
        Some(content_type) => is_json(&media_type(content_type)),
    };
    if !json_data {
        return Err(not_json("/datacontenttype"));
    }
    let (data, place) = match (event.remove("data"), event.remove("data_base64")) {
        (Some(_), Some(Value::String(_))) => {
            return Err(Fault::new(Detail::BadField, "/data_base64: beside data"));
        }
        (Some(data), _) => (data, "/data"),
        (None, Some(Value::String(text))) => {
            let place = "/data_base64";
            let bytes = STANDARD
                .decode(text)
                .map_err(|_| Fault::new(Detail::BadField, format!("{place}: no base64")))?;
            (json::read(&bytes, depth_max, place)?, place)
        }
        (None, Some(_) | None) => return Err(Fault::new(Detail::MissingField, "/data")),
    };
    body(data, place, event_id, source)
}

/// Binary mode: attributes are headers, the value is the data.
pub(super) fn binary(value: &[u8], headers: &Headers<'_>, depth_max: usize) -> Result<Body, Fault> {
    let header = |name: &str, clash| headers.text(&header_name(name), clash);
    let named = |name: &str| format!("header {}", header_name(name));
    version(
        header("specversion", Detail::UnsupportedFormat)?,
        &named("specversion"),
    )?;
    let event_id = match header("id", Detail::AmbiguousId)? {
        None => return Err(Fault::new(Detail::MissingEventId, named("id"))),
        Some(id) => fields::event_id_text(id, &named("id"))?,
    };
    let source = header("source", Detail::AmbiguousSource)?;
    let source = fields::source(source, &named("source"))?;
    present(header("type", Detail::MissingAttribute)?, &named("type"))?;
    if let Some(wrong) = headers
        .names()
        .filter(|name| is_attribute(name))
        .find(|name| {
            let attribute = name.get(ATTRIBUTE_PREFIX.len()..).unwrap_or_default();
            !is_attribute_name(&attribute.to_ascii_lowercase())
        })
    {
        let place = format!("header{}", pointer::member("", wrong).replace('/', " "));
        return Err(Fault::new(Detail::MisplacedField, place));
    }
    // The binding has the data's type in content-type, which has been looked at; some publishers name it here.
    let content_type = headers.media_type(&header_name("datacontenttype"))?;
    if content_type.is_some_and(|content_type| !is_json(&content_type)) {
        return Err(not_json(&named("datacontenttype")));
    }
    let data = json::read(value, depth_max, "")?;
    body(data, "", event_id, source)
}

fn body(data: Value, place: &str, event_id: EventId, source: Arc<str>) -> Result<Body, Fault> {
    match data {
        Value::Object(fields) => Ok(Body {
            fields,
            place: place.to_owned(),
            event_id: Some(event_id),
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

/// The binding lets structured mode repeat its attributes as headers (section 3.2.3); a router may have changed one.
fn agrees(headers: &Headers<'_>, event_id: &EventId, source: &str) -> Result<(), Fault> {
    for (name, own, clash) in [
        ("id", &*event_id.0, Detail::AmbiguousId),
        ("source", source, Detail::AmbiguousSource),
    ] {
        let name = header_name(name);
        if headers.text(&name, clash)?.is_some_and(|text| text != own) {
            let place = format!("header {name}: the event names another");
            return Err(Fault::new(clash, place));
        }
    }
    Ok(())
}

fn header_name(attribute: &str) -> String {
    format!("{ATTRIBUTE_PREFIX}{attribute}")
}

/// CloudEvents, section "Naming conventions".
fn is_attribute_name(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn not_json(place: &str) -> Fault {
    Fault::new(Detail::UnsupportedFormat, format!("{place}: not JSON"))
}
