//! Decides what can come back from an attempt. It does not know what any of it means for the intent.

use bytes::Bytes;
use http::HeaderMap;

use crate::domain::token::NoToken;

/// What came back from one attempt.
#[derive(Clone)]
pub enum Answer {
    /// An HTTP response.
    Response(Response),
    /// No complete request can have reached the provider.
    NotSent(NotSentCause),
    /// The request, or what may have been all of it, was handed over, and no answer came.
    Lost(LostCause),
}

/// An HTTP response. Its body is the provider's text: it is read and never shown.
#[derive(Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, up to the cap.
    pub body: Bytes,
    /// False if the body was cut: by the cap, the deadline, or a connection that broke.
    pub body_complete: bool,
}

/// Why surely nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotSentCause {
    /// The host's name has no address, or nobody could tell it.
    Dns,
    /// The port is closed.
    ConnectRefused,
    /// No connection within the time for it.
    ConnectTimeout,
    /// No connection for another reason.
    ConnectFailed,
    /// The TLS handshake broke, or the certificate was refused.
    Tls,
    /// The deadline passed before the request's last byte left; it was withheld.
    Withheld,
    /// The connection broke before the request's last byte left.
    CutShort,
    /// The server refused the stream without touching it (HTTP/2).
    RefusedStream,
    /// The server said goodbye before it took this stream up (HTTP/2).
    GoAway,
    /// The request could not be written down: credentials that no header can carry.
    Unsendable,
    /// The token endpoint refuses us: there is no token to send with.
    TokenRefused,
    /// The token endpoint cannot be reached, or cannot answer now: there is no token to send with.
    TokenUnavailable,
}

/// Why no answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostCause {
    /// The deadline passed.
    ReadTimeout,
    /// The connection was reset.
    Reset,
    /// The connection was closed.
    Closed,
    /// What came was no HTTP, or too much of it.
    Protocol,
    /// Its maker died or gave it up.
    Abandoned,
}

impl Answer {
    /// Whether a whole answer came, so that the attempt is surely over at the provider: a response whose body was cut
    /// counts, what was lost does not.
    pub const fn is_heard(&self) -> bool {
        match self {
            Self::Response(_) | Self::NotSent(_) => true,
            Self::Lost(_) => false,
        }
    }
}

impl From<NoToken> for NotSentCause {
    fn from(no_token: NoToken) -> Self {
        match no_token {
            NoToken::Refused => Self::TokenRefused,
            NoToken::Unavailable => Self::TokenUnavailable,
        }
    }
}

impl NotSentCause {
    /// Every cause, in the order of the enum.
    pub const ALL: [Self; 12] = [
        Self::Dns,
        Self::ConnectRefused,
        Self::ConnectTimeout,
        Self::ConnectFailed,
        Self::Tls,
        Self::Withheld,
        Self::CutShort,
        Self::RefusedStream,
        Self::GoAway,
        Self::Unsendable,
        Self::TokenRefused,
        Self::TokenUnavailable,
    ];

    /// The name in the ledger, metrics and dead letters.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::ConnectRefused => "connect_refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::ConnectFailed => "connect_failed",
            Self::Tls => "tls",
            Self::Withheld => "withheld",
            Self::CutShort => "cut_short",
            Self::RefusedStream => "refused_stream",
            Self::GoAway => "go_away",
            Self::Unsendable => "unsendable",
            Self::TokenRefused => "token_refused",
            Self::TokenUnavailable => "token_unavailable",
        }
    }
}

impl LostCause {
    /// Every cause, in the order of the enum.
    pub const ALL: [Self; 5] = [
        Self::ReadTimeout,
        Self::Reset,
        Self::Closed,
        Self::Protocol,
        Self::Abandoned,
    ];

    /// The name in the ledger, metrics and dead letters.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ReadTimeout => "read_timeout",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
            Self::Abandoned => "abandoned",
        }
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Response(response) => response.fmt(f),
            Self::NotSent(cause) => f.debug_tuple("NotSent").field(cause).finish(),
            Self::Lost(cause) => f.debug_tuple("Lost").field(cause).finish(),
        }
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .field("body_complete", &self.body_complete)
            .finish_non_exhaustive()
    }
}
