//! Decides how each answer is written. It does not know when which answer is given.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use jiff::Timestamp;
use serde::Serialize;

/// An answer as it goes to the wire.
pub type Answered = Response<AnswerBody>;

/// The mark of a stored answer. No standard names it; it is Stripe's (<https://docs.stripe.com/api/idempotent_requests>).
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// The acceptance of a message.
pub fn accepted(id_field: &str, message_id: &str) -> Answered {
    let body = serde_json::Map::from_iter([
        (id_field.to_owned(), message_id.into()),
        ("status".to_owned(), "accepted".into()),
    ]);
    answer(
        StatusCode::CREATED,
        JSON,
        serde_json::Value::Object(body).to_string(),
    )
}

/// An answer that marks itself as the stored one of its key.
pub fn replayed(mut answer: Answered) -> Answered {
    answer
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    answer
}

/// A refusal or error in the form of RFC 9457.
pub fn problem(status: StatusCode, title: &str) -> Answered {
    #[derive(Serialize)]
    struct Problem<'a> {
        title: &'a str,
        status: u16,
    }
    json(
        status,
        PROBLEM,
        &Problem {
            title,
            status: status.as_u16(),
        },
    )
}

/// 429 with the wait in seconds.
pub fn throttled_seconds(wait: Duration) -> Answered {
    throttled(HeaderValue::from(wait.as_secs()))
}

/// 429 with the wait as the date at which it is over, rounded up to a whole second.
pub fn throttled_date(wait: Duration, now: Timestamp) -> Answered {
    let over = now.as_duration()
        + jiff::SignedDuration::try_from(wait).unwrap_or(jiff::SignedDuration::MAX);
    let seconds = over.as_secs() + i64::from(over.subsec_nanos() > 0);
    let date = std::time::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
    // A date is visible ASCII.
    throttled(
        HeaderValue::try_from(httpdate::fmt_http_date(date))
            .unwrap_or(HeaderValue::from_static("1")),
    )
}

/// What a gateway says when it has lost the answer of the server behind it.
pub fn html_gateway_error() -> Answered {
    answer(StatusCode::BAD_GATEWAY, HTML, "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n".to_owned())
}

/// The same answer, which announces its whole length and ends in the middle.
pub fn truncated(answer: Answered) -> Answered {
    let (mut head, body) = answer.into_parts();
    let whole = body.chunk.unwrap_or_default();
    head.headers
        .insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
    Response::from_parts(
        head,
        AnswerBody {
            chunk: Some(whole.slice(..whole.len() / 2)),
            ends: Ends::Flushing,
        },
    )
}

/// 200 with a value as JSON.
pub fn ok(value: &impl Serialize) -> Answered {
    json(StatusCode::OK, JSON, value)
}

/// 204.
pub fn no_content() -> Answered {
    let mut answer = answer(StatusCode::NO_CONTENT, JSON, String::new());
    answer.headers_mut().clear();
    answer
}

fn throttled(wait: HeaderValue) -> Answered {
    let mut answer = problem(StatusCode::TOO_MANY_REQUESTS, "Too many requests");
    answer.headers_mut().insert(RETRY_AFTER, wait);
    answer
}

fn json(status: StatusCode, content_type: HeaderValue, value: &impl Serialize) -> Answered {
    match serde_json::to_vec(value) {
        Ok(text) => answer(status, content_type, text),
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, JSON, "{}".to_owned()),
    }
}

fn answer(status: StatusCode, content_type: HeaderValue, text: impl Into<Bytes>) -> Answered {
    let mut answer = Response::new(AnswerBody {
        chunk: Some(text.into()),
        ends: Ends::Whole,
    });
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

/// The body of an answer, which may end before its announced length.
#[derive(Debug)]
pub struct AnswerBody {
    chunk: Option<Bytes>,
    ends: Ends,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// As announced.
    Whole,
    /// Too early, once the connection has had a turn to send what there is.
    Flushing,
    /// Too early, now.
    Short,
}

/// The body has ended before its announced length.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer is cut off")]
pub struct CutOff;

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        if let Some(chunk) = self.chunk.take() {
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match self.ends {
            Ends::Whole => Poll::Ready(None),
            Ends::Flushing => {
                self.ends = Ends::Short;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Ends::Short => Poll::Ready(Some(Err(CutOff))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ends == Ends::Whole && self.chunk.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self.ends {
            Ends::Whole => SizeHint::with_exact(self.chunk.as_ref().map_or(0, Bytes::len) as u64),
            Ends::Flushing | Ends::Short => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_after_date_is_never_sooner_than_the_wait() {
        let now: Timestamp = "2026-11-30T12:00:00.25Z".parse().unwrap();
        let answer = throttled_date(Duration::from_secs(2), now);
        assert_eq!(
            answer.headers().get(RETRY_AFTER).unwrap(),
            "Mon, 30 Nov 2026 12:00:03 GMT"
        );
    }

    #[test]
    fn a_problem_tells_its_status_and_title() {
        let answer = problem(StatusCode::CONFLICT, "Busy");
        assert_eq!(
            answer.headers().get(CONTENT_TYPE).unwrap(),
            "application/problem+json"
        );
        assert_eq!(
            answer.body().chunk.as_deref(),
            Some(br#"{"title":"Busy","status":409}"#.as_slice())
        );
    }
}
