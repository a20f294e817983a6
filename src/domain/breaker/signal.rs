//! Decides what an answer says of the provider as a whole, whatever it means for its intent.

use crate::domain::attempt::{Classified, Verdict};
use crate::domain::classify::{Answer, LostCause, NotSentCause};

/// What an answer says of the provider as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It answers as it should, be it by a refusal.
    Alive,
    /// It does not.
    Down(Cause),
    /// Nothing.
    Silent,
}

/// What is wrong with a provider as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its name has no address.
    Dns,
    /// No connection.
    Connect,
    /// The handshake broke, or its certificate is refused.
    Tls,
    /// No answer in time.
    Timeout,
    /// Connections break before they have brought an answer.
    Broken,
    /// 5xx.
    ServerError,
    /// It refuses our credentials or its endpoint.
    Misconfigured,
    /// The account cannot send for now: no credit, daily quota, suspended.
    AccountHold,
    /// Its token endpoint gives no token.
    Token,
}

impl Cause {
    /// Every cause, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::Timeout,
        Self::Broken,
        Self::ServerError,
        Self::Misconfigured,
        Self::AccountHold,
        Self::Token,
    ];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
            Self::ServerError => "server_error",
            Self::Misconfigured => "misconfigured",
            Self::AccountHold => "account_hold",
            Self::Token => "token",
        }
    }

    /// Whether the account as such is refused: one answer tells that for all, and short waits do not cure it.
    pub(super) const fn is_refusal(self) -> bool {
        match self {
            Self::Misconfigured | Self::AccountHold => true,
            Self::Dns
            | Self::Connect
            | Self::Tls
            | Self::Timeout
            | Self::Broken
            | Self::ServerError
            | Self::Token => false,
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Signal {
    /// What `answer` says of the provider, read by the profile's rules as `classified`.
    pub fn of(answer: &Answer, classified: &Classified) -> Self {
        match answer {
            Answer::NotSent(cause) => of_unsent(*cause),
            Answer::Lost(cause) => of_lost(*cause),
            Answer::Response(response) => of_response(response.status, classified),
        }
    }

    /// What a look-up's answer says of the provider. Whatever has been reached is another of its parts than the one that
    /// takes messages: it speaks neither for that one nor against it. What cannot be reached speaks for both, and so does a token
    /// that cannot be had.
    pub fn of_lookup(answer: &Answer) -> Self {
        match answer {
            Answer::NotSent(cause) => match cause {
                NotSentCause::Dns
                | NotSentCause::ConnectRefused
                | NotSentCause::ConnectTimeout
                | NotSentCause::ConnectFailed
                | NotSentCause::Tls
                | NotSentCause::TokenRefused
                | NotSentCause::TokenUnavailable => of_unsent(*cause),
                NotSentCause::Withheld
                | NotSentCause::CutShort
                | NotSentCause::RefusedStream
                | NotSentCause::GoAway
                | NotSentCause::Unsendable => Self::Silent,
            },
            Answer::Lost(_) | Answer::Response(_) => Self::Silent,
        }
    }
}

fn of_unsent(cause: NotSentCause) -> Signal {
    match cause {
        NotSentCause::Dns => Signal::Down(Cause::Dns),
        NotSentCause::ConnectRefused
        | NotSentCause::ConnectTimeout
        | NotSentCause::ConnectFailed => Signal::Down(Cause::Connect),
        NotSentCause::Tls => Signal::Down(Cause::Tls),
        NotSentCause::Withheld => Signal::Down(Cause::Timeout),
        NotSentCause::CutShort => Signal::Down(Cause::Broken),
        NotSentCause::TokenRefused => Signal::Down(Cause::Misconfigured),
        NotSentCause::TokenUnavailable => Signal::Down(Cause::Token),
        // A server that says goodbye is in order: it asks for another connection.
        NotSentCause::RefusedStream | NotSentCause::GoAway | NotSentCause::Unsendable => {
            Signal::Silent
        }
    }
}

fn of_lost(cause: LostCause) -> Signal {
    match cause {
        LostCause::ReadTimeout => Signal::Down(Cause::Timeout),
        LostCause::Reset | LostCause::Closed | LostCause::Protocol => Signal::Down(Cause::Broken),
        LostCause::Abandoned => Signal::Silent,
    }
}

fn of_response(status: u16, classified: &Classified) -> Signal {
    match classified.verdict {
        Verdict::Accepted
        | Verdict::Rejected
        | Verdict::Conflict
        | Verdict::InProgress
        | Verdict::Throttled => Signal::Alive,
        Verdict::Misconfigured => Signal::Down(Cause::Misconfigured),
        Verdict::AccountHold => Signal::Down(Cause::AccountHold),
        // A stored error speaks of its key alone, and so does what is unknown for another reason than a 5xx.
        Verdict::Unknown | Verdict::NotSent if classified.flags.replay => Signal::Silent,
        Verdict::Unknown | Verdict::NotSent => match status {
            408 => Signal::Down(Cause::Timeout),
            500..=599 => Signal::Down(Cause::ServerError),
            0..=407 | 409..=499 | 600..=u16::MAX => Signal::Silent,
        },
    }
}
