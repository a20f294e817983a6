//! Decides what is read from a message: what binds it to its key, and whom it is for. It does not judge either.

use std::borrow::Cow;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::memory::RequestHash;

/// The hash of all that a retry must not change.
pub fn request_hash(method: &Method, url: &str, body: &Bytes) -> RequestHash {
    let mut hash = Sha256::new();
    hash.update(method.as_str());
    hash.update(b"\n");
    hash.update(url);
    hash.update(b"\n");
    hash.update(body);
    hash.finalize().into()
}

/// Whom a body is for: `to` of a JSON object, `to` or `To` of a form.
pub fn recipient<'a>(content_type: Option<&[u8]>, body: &'a Bytes) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Addressed<'a> {
        #[serde(borrow, alias = "To")]
        to: Cow<'a, str>,
    }
    if content_type.is_some_and(|kind| kind.starts_with(b"application/x-www-form-urlencoded")) {
        url::form_urlencoded::parse(body)
            .find(|(name, _)| name.eq_ignore_ascii_case("to"))
            .map(|(_, to)| to)
    } else {
        serde_json::from_slice::<Addressed<'a>>(body)
            .ok()
            .map(|addressed| addressed.to)
    }
}

/// What a search may find a message by, beside its recipient: its reference, and its text.
pub fn searchable(content_type: Option<&[u8]>, body: &Bytes) -> (Option<String>, Option<String>) {
    if content_type.is_some_and(|kind| kind.starts_with(b"application/x-www-form-urlencoded")) {
        let field = |wanted: &str| {
            url::form_urlencoded::parse(body)
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.into_owned())
        };
        return (field("reference"), field("body"));
    }
    let Ok(document) = serde_json::from_slice::<serde_json::Value>(body) else {
        return (None, None);
    };
    let text = |pointer: &str| {
        let found = document.pointer(pointer)?.as_str()?;
        Some(found.to_owned())
    };
    (
        text("/reference"),
        text("/content/text").or_else(|| text("/text")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &'static str, body: &'static str) -> Option<String> {
        recipient(
            Some(content_type.as_bytes()),
            &Bytes::from_static(body.as_bytes()),
        )
        .map(Cow::into_owned)
    }

    #[test]
    fn the_recipient_is_read_from_json_and_forms() {
        assert_eq!(
            read(
                "application/json",
                r#"{"text":"a","to":"+12025550143","n":1.5}"#
            )
            .as_deref(),
            Some("+12025550143")
        );
        assert_eq!(
            read("application/json", r#"{"to":"a\u0040example.com"}"#).as_deref(),
            Some("a@example.com")
        );
        assert_eq!(
            read(
                "application/x-www-form-urlencoded",
                "Body=a&To=%2B12025550143"
            )
            .as_deref(),
            Some("+12025550143")
        );
        assert_eq!(
            read("application/x-www-form-urlencoded; charset=utf-8", "to=x").as_deref(),
            Some("x")
        );
        assert_eq!(read("application/json", r#"{"text":"a"}"#), None);
        assert_eq!(read("application/json", "to=x"), None);
        assert_eq!(read("application/x-www-form-urlencoded", "text=x"), None);
    }

    #[test]
    fn the_hash_covers_method_url_and_body() {
        let hash = |method: &Method, url: &str, body: &'static str| {
            request_hash(method, url, &Bytes::from_static(body.as_bytes()))
        };
        let one = hash(&Method::POST, "/v1/messages", "a");
        assert_eq!(one, hash(&Method::POST, "/v1/messages", "a"));
        assert_ne!(one, hash(&Method::PUT, "/v1/messages", "a"));
        assert_ne!(one, hash(&Method::POST, "/v1/messages?x", "a"));
        assert_ne!(one, hash(&Method::POST, "/v1/messages", "b"));
    }
}
