//! Decides what a status means by itself, where neither a rule nor `[accepted]` of the profile says anything.

use crate::domain::attempt::Verdict;

/// What a status means by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Default {
    pub(super) verdict: Verdict,
    /// A retry would only lead to the same.
    pub(super) last_word: bool,
    /// No default speaks of it: counted.
    pub(super) unmatched: bool,
    pub(super) detail: &'static str,
}

/// 425 not sent; 429 throttled; 408, 409, 412, 5xx and 3xx unknown, 3xx finally; 401 misconfigured; 402 account hold;
/// every other 4xx rejected; anything else is unknown and counted, an unlisted 2xx too.
pub(super) fn default_for(status: u16) -> Default {
    let (verdict, detail) = match status {
        300..=399 => (Verdict::Unknown, "unexpected_redirect"),
        401 => (Verdict::Misconfigured, "credentials_refused"),
        402 => (Verdict::AccountHold, "payment_required"),
        408 => (Verdict::Unknown, "request_timeout"),
        409 => (Verdict::Unknown, "status_conflict"),
        412 => (Verdict::Unknown, "precondition_failed"),
        425 => (Verdict::NotSent, "too_early"),
        429 => (Verdict::Throttled, "rate_limited"),
        400..=499 => (Verdict::Rejected, "refused"),
        500..=599 => (Verdict::Unknown, "server_error"),
        0..=299 | 600..=u16::MAX => (Verdict::Unknown, "unmatched"),
    };
    Default {
        verdict,
        last_word: matches!(status, 300..=399),
        unmatched: matches!(status, 0..=299 | 600..=u16::MAX),
        detail,
    }
}
