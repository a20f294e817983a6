//! Decides what makes two intents the same message: everything that their requests could be rendered from. The event's
//! id and source are not in it, since the key already tells events apart; nor are the metadata and the expiry, which
//! nobody gets to see.

use std::fmt::Write;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Intent;
use crate::domain::idempotency_key::IntentFingerprint;
use crate::domain::length_prefixed;

/// The first field under the hash, so that another way of counting never gives the same fingerprint by chance.
const VERSION: &[u8] = b"sendonce-intent-1";

impl Intent {
    /// SHA-256 over, in this order and each length-prefixed: version, channel, provider, recipient, sender, template's
    /// name, template's version, reference, canonical content.
    ///
    /// Canonical content is JSON without blanks, members sorted by the bytes of their names, strings escaped only
    /// where they must be, and numbers as they were written: 1 and 1.0 differ, since a template prints them so.
    pub fn fingerprint(&self) -> IntentFingerprint {
        let mut content = String::with_capacity(CONTENT_TYPICAL);
        write_object(&self.content, &mut content);
        let template = self.template.as_ref();
        let fields: [Option<&[u8]>; 9] = [
            Some(VERSION),
            self.channel.as_deref().map(str::as_bytes),
            self.provider.as_deref().map(str::as_bytes),
            Some(self.recipient.expose().as_bytes()),
            self.from.as_deref().map(str::as_bytes),
            template.map(|template| template.name.as_bytes()),
            template
                .and_then(|template| template.version.as_deref())
                .map(str::as_bytes),
            self.reference.as_deref().map(str::as_bytes),
            Some(content.as_bytes()),
        ];
        let mut digest = Sha256::new();
        length_prefixed::feed(fields, |run| digest.update(run));
        IntentFingerprint(digest.finalize().into())
    }
}

/// What an intent's content takes, about, in bytes.
const CONTENT_TYPICAL: usize = 256;

/// Sorts by itself: whether the library's map is sorted depends on a feature that any other crate may switch on.
fn write_object(object: &Map<String, Value>, json: &mut String) {
    let mut members: Vec<(&String, &Value)> = object.iter().collect();
    members.sort_by_key(|(name, _)| name.as_bytes());
    json.push('{');
    for (place, (name, value)) in members.into_iter().enumerate() {
        if place > 0 {
            json.push(',');
        }
        write_string(name, json);
        json.push(':');
        write_value(value, json);
    }
    json.push('}');
}

fn write_value(value: &Value, json: &mut String) {
    match value {
        Value::Null => json.push_str("null"),
        Value::Bool(true) => json.push_str("true"),
        Value::Bool(false) => json.push_str("false"),
        Value::Number(number) => json.push_str(number.as_str()),
        Value::String(text) => write_string(text, json),
        Value::Array(items) => {
            json.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    json.push(',');
                }
                write_value(item, json);
            }
            json.push(']');
        }
        Value::Object(object) => write_object(object, json),
    }
}

/// As RFC 8785, section 3.2.2.2, has it: two-character escapes where there are such, `\u00xx` for the other control
/// characters, everything else as it is.
fn write_string(text: &str, json: &mut String) {
    json.push('"');
    let mut plain = 0;
    for (place, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            b'\t' => "\\t",
            b'\n' => "\\n",
            0x0C => "\\f",
            b'\r' => "\\r",
            control if control < b' ' => "",
            _ => continue,
        };
        // Every byte that is escaped is a character of its own, so both ends lie between characters.
        json.push_str(text.get(plain..place).unwrap_or_default());
        plain = place + 1;
        if short.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(json, "\\u{byte:04x}");
        } else {
            json.push_str(short);
        }
    }
    json.push_str(text.get(plain..).unwrap_or_default());
    json.push('"');
}
