//! What the tests share: answers made by us, in the forms that providers give.

mod cases;
mod conditions;
mod recorded;
mod statuses;
mod vendors;

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;

/// Wednesday, 21 October 2026, 07:27:00 UTC.
const NOW: Timestamp = Timestamp::from_millis(1_792_567_620_000);

pub(super) fn circumstances(first_attempt: bool) -> Circumstances {
    Circumstances {
        first_attempt,
        now: NOW,
        wait_max: retry_after::WAIT_MAX_DEFAULT,
    }
}

pub(super) fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(
            name.parse::<HeaderName>().unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    Response {
        status,
        headers: map,
        body: Bytes::copy_from_slice(body.as_bytes()),
        body_complete: true,
    }
}

pub(super) fn cut(mut response: Response) -> Response {
    response.body_complete = false;
    response
}

pub(super) fn later(profile: &Profile, response: Response) -> Classified {
    classify(profile, &Answer::Response(response), &circumstances(false))
}

pub(super) fn first(profile: &Profile, response: Response) -> Classified {
    classify(profile, &Answer::Response(response), &circumstances(true))
}

/// Verdict, flags and detail in one line.
pub(super) fn line(classified: &Classified) -> String {
    let mut line = classified.verdict.to_string();
    let flags = classified.flags;
    for (set, name) in [
        (flags.replay, "replay"),
        (flags.id_absent, "id absent"),
        (flags.last_word, "final"),
        (flags.burned, "burned"),
        (flags.unmatched, "unmatched"),
    ] {
        if set {
            write!(line, " +{name}").unwrap();
        }
    }
    write!(line, " ({})", classified.detail).unwrap();
    line
}

pub(super) const HTML: &str =
    "<html><head><title>Error</title></head><body>code 21211</body></html>";
