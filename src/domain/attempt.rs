//! Decides what one attempt is and what its answer can mean. It does not know how an answer is read: that is `classify`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What an answer means. The set is closed; every place that decides by it names each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// The provider took it.
    Accepted,
    /// The provider surely did not and will not take it.
    Rejected,
    /// Surely not taken: no complete request can have reached the provider. A retry is free of risk.
    NotSent,
    /// Surely not taken, because of a rate or quota; with its wait.
    Throttled,
    /// Taken or not: nobody knows yet.
    Unknown,
    /// The provider is still working on this key.
    InProgress,
    /// The provider has this key with another request.
    Conflict,
    /// Credentials or endpoint refused: the account's fault, not this intent's.
    Misconfigured,
    /// The account cannot send for now: no credit, daily quota, suspended.
    AccountHold,
}

impl Verdict {
    /// Every verdict, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::Accepted,
        Self::Rejected,
        Self::NotSent,
        Self::Throttled,
        Self::Unknown,
        Self::InProgress,
        Self::Conflict,
        Self::Misconfigured,
        Self::AccountHold,
    ];

    /// The name in metrics, logs and profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::NotSent => "not_sent",
            Self::Throttled => "throttled",
            Self::Unknown => "unknown",
            Self::InProgress => "in_progress",
            Self::Conflict => "conflict",
            Self::Misconfigured => "misconfigured",
            Self::AccountHold => "account_hold",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an answer says beside its verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "WrittenFlags", try_from = "WrittenFlags")]
pub struct Flags {
    /// The provider answered from its memory of this key.
    pub replay: bool,
    /// Accepted, but no message id was found.
    pub id_absent: bool,
    /// A retry would only replay this answer: the series ends here.
    pub last_word: bool,
    /// The key can never be used again.
    pub burned: bool,
    /// No rule and no status default caught it: counted, and the verdict is unknown.
    pub unmatched: bool,
    /// The provider as a whole was failing (`breaker`): the attempt used no budget.
    pub outage: bool,
}

/// The flags as the ledger has them: five bytes. What was added since the first version lies in the upper bits of the
/// first byte, which were zero then, so that what was written then reads as it did.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct WrittenFlags {
    first: u8,
    id_absent: bool,
    last_word: bool,
    burned: bool,
    unmatched: bool,
}

const REPLAY_BIT: u8 = 1;
const OUTAGE_BIT: u8 = 1 << 1;

impl From<Flags> for WrittenFlags {
    fn from(flags: Flags) -> Self {
        let bit = |flag: bool, bit: u8| if flag { bit } else { 0 };
        Self {
            first: bit(flags.replay, REPLAY_BIT) | bit(flags.outage, OUTAGE_BIT),
            id_absent: flags.id_absent,
            last_word: flags.last_word,
            burned: flags.burned,
            unmatched: flags.unmatched,
        }
    }
}

impl TryFrom<WrittenFlags> for Flags {
    type Error = &'static str;

    fn try_from(written: WrittenFlags) -> Result<Self, Self::Error> {
        if written.first & !(REPLAY_BIT | OUTAGE_BIT) != 0 {
            return Err("a flag of a later version");
        }
        Ok(Self {
            replay: written.first & REPLAY_BIT != 0,
            id_absent: written.id_absent,
            last_word: written.last_word,
            burned: written.burned,
            unmatched: written.unmatched,
            outage: written.first & OUTAGE_BIT != 0,
        })
    }
}

/// Whom a wait holds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitScope {
    /// This intent only.
    Intent,
    /// Everything that goes to this account.
    Account,
    /// Everything that goes to this recipient by this account.
    Recipient,
}

/// A wait that the provider asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// At least this long, counted from the answer.
    pub at_least: Duration,
    /// Whom it holds up.
    pub scope: WaitScope,
    /// It is given in seconds and looks like milliseconds: worth a warning, and kept to all the same.
    pub unit_doubt: bool,
}

/// Why an attempt whose start is durable made no request: we withheld it ourselves. Such an attempt uses no budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// Persisting its start took so long that the request would no longer have had its time.
    DeadlinePassed,
    /// The intent's own date passed meanwhile.
    Expired,
    /// The provider may have forgotten the key meanwhile.
    WindowClosed,
    /// The partition is no longer ours.
    TenureOver,
    /// Another instance's news of the intent came meanwhile.
    NewsCame,
}

impl Withheld {
    /// Every reason, in the order of the enum.
    pub const ALL: [Self; 5] = [
        Self::DeadlinePassed,
        Self::Expired,
        Self::WindowClosed,
        Self::TenureOver,
        Self::NewsCame,
    ];

    /// The detail in the ledger, by which such an attempt is recognised ever after.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeadlinePassed => "deadline_passed",
            Self::Expired => "expired",
            Self::WindowClosed => "window_closed",
            Self::TenureOver => "tenure_over",
            Self::NewsCame => "news_came",
        }
    }
}

/// One attempt's answer, read by the profile's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    /// What it means.
    pub verdict: Verdict,
    /// What else it says.
    pub flags: Flags,
    /// The wait that the provider asked for, already checked to be usable.
    pub wait: Option<Wait>,
    /// The provider's id for the message, at most 255 characters.
    pub message_id: Option<String>,
    /// HTTP status, absent when no answer came.
    pub status: Option<u16>,
    /// The provider's own error code, at most 64 characters, visible ASCII.
    pub provider_code: Option<String>,
    /// Why, in one word of ours from a closed set of short labels (`read_timeout`, `dns`, `stored_error` …); never provider text.
    pub detail: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(flags: Flags) -> Vec<u8> {
        postcard::to_allocvec(&flags).unwrap()
    }

    #[test]
    fn flags_are_written_as_in_the_first_version_and_what_came_later_lies_in_bits_that_were_free() {
        let replay = Flags {
            replay: true,
            unmatched: true,
            ..Flags::default()
        };
        assert_eq!(written(replay), [1, 0, 0, 0, 1]);
        let outage = Flags {
            outage: true,
            ..replay
        };
        assert_eq!(written(outage), [3, 0, 0, 0, 1]);
        for flags in [Flags::default(), replay, outage] {
            assert_eq!(postcard::from_bytes(&written(flags)), Ok(flags));
        }
        assert!(postcard::from_bytes::<Flags>(&[4, 0, 0, 0, 0]).is_err());
    }
}
