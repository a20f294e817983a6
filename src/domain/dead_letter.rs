//! Decides why an intent is set aside, and what its dead letter says. It does not produce it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an intent was set aside. The set is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The record is no intent.
    Malformed,
    /// The provider refused it for good.
    Rejected,
    /// The budget is used up; surely not sent.
    RetriesExhausted,
    /// Sent or not: nobody can say.
    OutcomeUnknown,
    /// The id came again with other content, or the provider says so of the key.
    PayloadConflict,
    /// Too late to be sent.
    Expired,
    /// Over the input limits.
    TooLarge,
    /// No provider is configured for it.
    NoRoute,
    /// An operator stopped it.
    Cancelled,
}

impl Reason {
    /// Every reason, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::Rejected,
        Self::RetriesExhausted,
        Self::OutcomeUnknown,
        Self::PayloadConflict,
        Self::Expired,
        Self::TooLarge,
        Self::NoRoute,
        Self::Cancelled,
    ];

    /// The name in headers, metrics and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Rejected => "rejected",
            Self::RetriesExhausted => "retries_exhausted",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::PayloadConflict => "payload_conflict",
            Self::Expired => "expired",
            Self::TooLarge => "too_large",
            Self::NoRoute => "no_route",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
