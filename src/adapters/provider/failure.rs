//! Decides what a failed exchange proves: that nothing was sent, or nothing at all. Errors are told apart by type, never by
//! their text, and are never printed: they hold the URL, and so perhaps a recipient or a token.

use std::error::Error;
use std::io;

use super::body::{Delivery, Withheld};
use crate::domain::classify::{Answer, LostCause, NotSentCause};

/// What `error` proves about a request whose way out is `delivery`.
pub(super) fn answer_to(error: &reqwest::Error, delivery: &Delivery) -> Answer {
    if let Some(cause) = refused_by_http2(error) {
        return Answer::NotSent(cause);
    }
    if error.is_connect() {
        delivery.give_up();
        return Answer::NotSent(connect_cause(error));
    }
    match delivery.give_up() {
        true => Answer::NotSent(unfinished_cause(error)),
        false => Answer::Lost(lost_cause(error)),
    }
}

/// What the deadline's passing proves.
pub(super) fn answer_to_deadline(delivery: &Delivery) -> Answer {
    match delivery.give_up() {
        true => Answer::NotSent(NotSentCause::Withheld),
        false => Answer::Lost(LostCause::ReadTimeout),
    }
}

/// A server says in so many words that it has not looked at a stream: by refusing it (RFC 9113, section 8.7), or by a
/// goodbye whose last stream is an earlier one (section 6.8). h2 ends only streams above that one with the goodbye.
fn refused_by_http2(error: &reqwest::Error) -> Option<NotSentCause> {
    let error: &h2::Error = find(error)?;
    match (error.is_remote(), error.is_reset(), error.is_go_away()) {
        (true, true, _) if error.reason() == Some(h2::Reason::REFUSED_STREAM) => {
            Some(NotSentCause::RefusedStream)
        }
        (true, _, true) => Some(NotSentCause::GoAway),
        (true | false, _, _) => None,
    }
}

fn connect_cause(error: &reqwest::Error) -> NotSentCause {
    if error.is_dns() {
        NotSentCause::Dns
    } else if find::<rustls::Error>(error).is_some() {
        NotSentCause::Tls
    } else if error.is_timeout() {
        NotSentCause::ConnectTimeout
    } else if io_kind(error) == Some(io::ErrorKind::ConnectionRefused) {
        NotSentCause::ConnectRefused
    } else {
        NotSentCause::ConnectFailed
    }
}

fn unfinished_cause(error: &reqwest::Error) -> NotSentCause {
    if find::<Withheld>(error).is_some() {
        NotSentCause::Withheld
    } else if error.is_builder() {
        NotSentCause::Unsendable
    } else {
        NotSentCause::CutShort
    }
}

fn lost_cause(error: &reqwest::Error) -> LostCause {
    let hyper: Option<&hyper::Error> = find(error);
    if error.is_timeout() {
        return LostCause::ReadTimeout;
    }
    if hyper.is_some_and(|error| error.is_parse() || error.is_parse_too_large()) {
        return LostCause::Protocol;
    }
    let reset = [
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::BrokenPipe,
    ];
    if io_kind(error).is_some_and(|kind| reset.contains(&kind))
        || find::<h2::Error>(error).is_some_and(h2::Error::is_reset)
    {
        LostCause::Reset
    } else if hyper.is_some_and(|error| {
        error.is_incomplete_message() || error.is_closed() || error.is_canceled()
    }) || io_kind(error) == Some(io::ErrorKind::UnexpectedEof)
    {
        LostCause::Closed
    } else {
        LostCause::Protocol
    }
}

fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    find::<io::Error>(error).map(io::Error::kind)
}

/// The first error of this type among the causes of `error`.
fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // An I/O error hides what it wraps from `source`.
        next = match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}
