//! Decides which encoding a record has, by marks that exclude one another (CloudEvents Kafka protocol binding 1.0.2,
//! section 3): a CloudEvents media type means structured mode, headers that begin with `ce_` mean binary mode, and
//! neither means plain JSON. The headers of both modes at once are structured mode, and what they repeat must agree.
//!
//! Header names are compared without regard to case. A header that comes twice must say the same twice.

use bytes::Bytes;

use crate::domain::intent::refusal::{Detail, Fault};

/// How an intent is written in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Structured,
    Binary,
}

/// The prefix of CloudEvents attributes in Kafka headers (binding, section 3.2.3.1).
pub(super) const ATTRIBUTE_PREFIX: &str = "ce_";

/// Attributes under the prefix of the HTTP binding, which some publishers use in Kafka by mistake. Read as plain JSON
/// such an event would have another identity than once the mistake is mended, and be sent again.
const FOREIGN_ATTRIBUTES: [&str; 4] = ["ce-specversion", "ce-id", "ce-source", "ce-type"];

impl Encoding {
    pub(super) fn of(headers: &Headers<'_>) -> Result<Self, Fault> {
        match headers.media_type("content-type")?.as_deref() {
            Some("application/cloudevents+json") => return Ok(Self::Structured),
            Some(other) if other.starts_with("application/cloudevents") => {
                return Err(unsupported(
                    "header content-type: of CloudEvents' formats only application/cloudevents+json is read",
                ));
            }
            Some(other) if !is_json(other) => {
                return Err(unsupported("header content-type: not JSON"));
            }
            Some(_) | None => {}
        }
        if headers.names().any(is_attribute) {
            return Ok(Self::Binary);
        }
        let foreign = |name: &str| {
            FOREIGN_ATTRIBUTES
                .iter()
                .any(|foreign| name.eq_ignore_ascii_case(foreign))
        };
        if headers.names().any(foreign) {
            return Err(unsupported(
                "headers ce-…: CloudEvents attributes begin with ce_ in Kafka",
            ));
        }
        Ok(Self::Plain)
    }
}

fn unsupported(place: &str) -> Fault {
    Fault::new(Detail::UnsupportedFormat, place)
}

/// Whether a header's name is that of an attribute.
pub(super) fn is_attribute(name: &str) -> bool {
    name.get(..ATTRIBUTE_PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(ATTRIBUTE_PREFIX))
}

/// Whether a media type may hold JSON. What says nothing (plain text, mere bytes) is left to the JSON reader.
pub(super) fn is_json(media_type: &str) -> bool {
    matches!(
        media_type,
        "" | "application/json" | "text/json" | "text/plain" | "application/octet-stream"
    ) || media_type.ends_with("+json")
}

/// The media type of a content type: without parameters, in lower case. Some publishers write it as a JSON string.
pub(super) fn media_type(content_type: &str) -> String {
    let content_type = content_type.trim().trim_matches('"');
    let media_type = content_type.split(';').next().unwrap_or_default();
    media_type.trim().to_ascii_lowercase()
}

/// A record's headers, by name.
pub(super) struct Headers<'a>(&'a [(String, Option<Bytes>)]);

impl<'a> Headers<'a> {
    pub(super) fn new(headers: &'a [(String, Option<Bytes>)]) -> Self {
        Self(headers)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The text of `name`; a null is the same as absent. `clash` is what it is called if the header comes twice and
    /// differs, or is no UTF-8.
    pub(super) fn text(&self, name: &str, clash: Detail) -> Result<Option<&'a str>, Fault> {
        let mut values = self
            .0
            .iter()
            .filter(|(own, _)| own.eq_ignore_ascii_case(name))
            .filter_map(|(_, value)| value.as_deref());
        let Some(first) = values.next() else {
            return Ok(None);
        };
        if values.any(|other| other != first) {
            let place = format!("header {name}: it comes twice and differs");
            return Err(Fault::new(clash, place));
        }
        match std::str::from_utf8(first) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Fault::new(clash, format!("header {name}: no UTF-8"))),
        }
    }

    pub(super) fn media_type(&self, name: &str) -> Result<Option<String>, Fault> {
        let text = self.text(name, Detail::UnsupportedFormat)?;
        Ok(text.map(media_type))
    }
}
