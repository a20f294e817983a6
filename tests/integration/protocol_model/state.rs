//! What one moment of the whole system is: the group's coordinator, tenures, disks, the ledger topic, the provider, the other
//! topics and the true time. It holds no rule.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;

/// A span or a moment of true time: one tick is a minute. A request takes up to one, the kernel delivers for one more, clocks
/// differ by one.
pub type Tick = u8;

/// Who writes: the number of a tenure, or `OPERATORS` and the number of an operator.
pub type Writer = u8;

/// The first number that is an operator's.
pub const OPERATORS: Writer = 100;

/// One moment. Which moments count as the same is in `sameness`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub now: Tick,
    /// By how many ticks each instance's wall clock is ahead of the broker's.
    pub skew: [i8; 2],
    /// The ledger topic's partition.
    pub log: Log,
    /// What is on its way to the ledger topic; in order for each producer.
    pub flights: Vec<Flight>,
    pub tenures: Vec<Tenure>,
    /// The tenure that the coordinator confirmed last.
    pub owner: u8,
    /// What each instance's disk has and the ledger topic never acknowledged to it.
    pub disks: [Vec<Flight>; 2],
    /// Requests that may still reach the provider.
    pub wire: Vec<Packet>,
    /// What the provider did, key by key.
    pub accounts: Vec<Account>,
    /// The dead-letter topic. Copies of one identity are one.
    pub letters: Vec<Letter>,
    /// Which keys' records are in the parking topic.
    pub parking: Vec<bool>,
    /// The group's position: the first record that is not committed.
    pub committed: u8,
    pub operators: Vec<Operator>,
    pub left: Left,
    pub asks: Asks,
    /// What has been broken that later states do not show.
    pub broken: Broken,
}

/// Which attempt of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub round: u8,
    pub number: u8,
    pub tenure: u8,
}

/// One entry of the ledger topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    Marker,
    /// `at`: when it was made, in true time; its maker's clock shows that and its skew.
    Started {
        key: u8,
        id: Id,
        at: Tick,
        version: u8,
    },
    Answered {
        key: u8,
        id: Id,
        said: Said,
    },
    Lettering {
        key: u8,
        round: u8,
        why: Why,
    },
    Lettered {
        key: u8,
        round: u8,
    },
    /// Its record is in the parking topic, to be taken up again when the wait in its story is over.
    Parked {
        key: u8,
    },
    /// `saw`: how long the log was when the operator looked.
    Decided {
        key: u8,
        decision: Decision,
        saw: u8,
    },
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    Accepted,
    Rejected,
    /// Surely not taken: a refused connection.
    NotSent,
    /// Surely not taken; `until`: when it may be tried again, in true time, which its maker wrote down by his clock.
    Throttled {
        until: Tick,
    },
    /// No answer: a reset, a timeout, or a maker who died.
    Lost,
    /// A whole answer that does not tell, such as 503.
    Failed,
    /// A look-up has shown that it was not taken.
    Absent,
    /// We did not send it ourselves.
    Withheld,
}

/// Why a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    OutcomeUnknown,
    Rejected,
    RetriesExhausted,
    Cancelled,
}

/// What an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Another round. `risk`: although it may have been taken.
    Redrive { risk: bool },
    /// He knows that it was taken.
    ResolveSent,
    /// He knows that it was not taken.
    ResolveNotSent,
    /// It is not to be sent, unless that was tried already.
    Cancel,
}

/// The ledger topic's partition, with a fingerprint of all that is in it: it is asked far more often than it grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    entries: Vec<Logged>,
    fingerprint: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Logged {
    pub by: Writer,
    /// LogAppendTime: the broker's clock, which is the true time here.
    pub at: Tick,
    pub entry: Entry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    /// Whose producer carries it.
    pub via: Writer,
    /// Who wrote it.
    pub by: Writer,
    pub entry: Entry,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tenure {
    pub instance: u8,
    pub stage: Stage,
    /// The coordinator gave it the partition.
    pub is_confirmed: bool,
    /// The group's position when it was assigned: it reads the records from here on.
    pub from: u8,
    /// When it appended its marker; kept only where a broken variant asks.
    pub claimed_at: Tick,
    /// When its marker was acknowledged.
    pub marked_at: Tick,
    /// How much of the log it has read.
    pub seen: u8,
    /// What it is at, key by key.
    pub doing: Vec<Doing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Assigned; its marker is on its way.
    Claiming,
    /// Its marker is acknowledged and the log read up to it. It believes that the partition is its own.
    Holding,
    /// It knows that the partition is another's, by the coordinator (`fenced: false`) or by the log.
    Over { fenced: bool },
    /// Its process is gone.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    Rest,
    /// It waits until this is acknowledged.
    Writing(Entry),
    /// A start is acknowledged; its request has not left.
    Cleared {
        id: Id,
        at: Tick,
        version: u8,
    },
    /// The request is made; it waits for the answer.
    Asking {
        id: Id,
        at: Tick,
    },
    /// A dead letter is on its way to the dead-letter topic.
    Lettering {
        round: u8,
        why: Why,
    },
    /// The record is on its way to the parking topic.
    Handing,
}

/// A request that is handed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    pub key: u8,
    pub id: Id,
    /// Until then, that moment included, the kernel may deliver it.
    pub gone_at: Tick,
    pub version: u8,
}

/// What the provider knows of one key, and what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Account {
    /// How many messages reached the recipient.
    pub deliveries: u8,
    /// When it took the latest one.
    pub taken_at: Tick,
    /// The version of the first request that it saw, counted from 1.
    pub version: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Letter {
    pub key: u8,
    pub round: u8,
    pub why: Why,
}

/// An operator at a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Idle,
    /// He has read the log up to here.
    Looked {
        saw: u8,
    },
    /// His decision is on its way, or made.
    Decided,
}

/// Faults that may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left {
    pub crashes: u8,
    /// Rebalances that no crash made necessary.
    pub moves: u8,
    /// Requests that do not get a good answer.
    pub troubles: u8,
    /// Starts that take so long that their request is withheld.
    pub stalls: u8,
    /// Appends that are written although no acknowledgement comes.
    pub lost_acks: u8,
    /// Look-ups that prove nothing for good.
    pub mute_lookups: u8,
}

/// Which moments of the past anybody asks for; the same in all of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asks {
    /// When a start was appended, for the key's window.
    pub window: bool,
    /// When an attempt was started, for look-ups.
    pub look_up: bool,
}

/// Broken promises that leave no trace in what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken {
    pub i1_other_bytes: bool,
    pub i2_sent_without_start: bool,
    pub i4_second_after_unknown: bool,
    pub i7_forgotten_key: bool,
    pub i8_sent_when_over: bool,
    pub i8_position_went_back: bool,
    pub wait_undercut: bool,
    pub order_broken: bool,
    pub letter_without_entry: bool,
}

impl Log {
    pub fn push(&mut self, logged: Logged) {
        let mut hasher = DefaultHasher::new();
        (self.fingerprint, logged).hash(&mut hasher);
        self.fingerprint = hasher.finish();
        self.entries.push(logged);
    }

    /// What was in it when it was so long.
    pub fn up_to(&self, length: u8) -> Self {
        self.entries.iter().take(length.into()).copied().collect()
    }
}

impl FromIterator<Logged> for Log {
    fn from_iter<T: IntoIterator<Item = Logged>>(entries: T) -> Self {
        let mut log = Self::default();
        entries.into_iter().for_each(|logged| log.push(logged));
        log
    }
}

impl Deref for Log {
    type Target = [Logged];

    fn deref(&self) -> &[Logged] {
        &self.entries
    }
}

impl Hash for Log {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.fingerprint);
    }
}

impl Entry {
    /// The key and the attempt that it starts.
    pub fn start(&self) -> Option<(u8, Id)> {
        if let Self::Started { key, id, .. } = *self {
            Some((key, id))
        } else {
            None
        }
    }

    /// The key, the attempt and what it came to.
    pub fn answer(&self) -> Option<(u8, Id, Said)> {
        if let Self::Answered { key, id, said } = *self {
            Some((key, id, said))
        } else {
            None
        }
    }

    /// Whose story it belongs to.
    pub fn key(&self) -> Option<u8> {
        match *self {
            Self::Marker => None,
            Self::Started { key, .. }
            | Self::Answered { key, .. }
            | Self::Lettering { key, .. }
            | Self::Lettered { key, .. }
            | Self::Parked { key }
            | Self::Decided { key, .. } => Some(key),
        }
    }
}

impl Tenure {
    /// Whether there is a key for which it may be about to do something. What it hears while it waits for others it might as
    /// well hear right after.
    pub fn may_begin(&self) -> bool {
        self.doing
            .iter()
            .any(|doing| matches!(doing, Doing::Rest | Doing::Cleared { .. }))
    }
}

impl Stage {
    /// Whether it may still begin something.
    pub fn holds(self) -> bool {
        self == Self::Holding
    }

    /// Whether its process runs.
    pub fn lives(self) -> bool {
        self != Self::Dead
    }

    pub fn is_over(self) -> bool {
        matches!(self, Self::Over { .. })
    }
}

impl State {
    /// Whether the writer of the entry at `index` had the latest marker before it, by what stands in the log.
    pub fn counts(&self, index: usize) -> bool {
        let before = self.log.iter().take(index).rev();
        let marker = before
            .filter(|logged| logged.entry == Entry::Marker)
            .map(|logged| logged.by)
            .next();
        self.log
            .get(index)
            .is_some_and(|logged| marker == Some(logged.by))
    }

    pub fn tenure(&self, tenure: u8) -> &Tenure {
        &self.tenures[usize::from(tenure)]
    }

    pub fn tenure_mut(&mut self, tenure: u8) -> &mut Tenure {
        &mut self.tenures[usize::from(tenure)]
    }

    pub fn account(&self, key: u8) -> &Account {
        &self.accounts[usize::from(key)]
    }

    pub fn account_mut(&mut self, key: u8) -> &mut Account {
        &mut self.accounts[usize::from(key)]
    }

    pub fn doing(&self, tenure: u8, key: u8) -> Doing {
        self.tenure(tenure).doing[usize::from(key)]
    }

    pub fn set_doing(&mut self, tenure: u8, key: u8, doing: Doing) {
        self.tenure_mut(tenure).doing[usize::from(key)] = doing;
    }

    /// Hands an entry to the producer of `via`.
    pub fn append(&mut self, via: Writer, by: Writer, entry: Entry) {
        self.flights.push(Flight { via, by, entry });
    }
}
