//! The rules of the protocol as switches, so that each can be broken alone, and the bounds of one configuration.

use super::Protocol;
use super::state::{Asks, Decision, Left, State, Tick};

/// When a request may leave after its start was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadBack {
    Never,
    /// At once for keys that are remembered for long; else only after the start has been read back.
    WhereKeysAreShort,
    Always,
}

/// From when another tenure's attempt, whose start stands before our marker, is surely gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForeignEnd {
    /// Its own span after our marker was acknowledged, by our clock.
    MarkerAcknowledged,
    /// Its own span after we sent our marker off, by our clock.
    MarkerSent,
    /// When its maker's clock said.
    MakersClock,
    /// Now: it is not waited for.
    AtOnce,
}

/// What the protocol demands. `TRUE` is the protocol; every field set otherwise is a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Rule 1: what the disk has and the topic never acknowledged is published at the next assignment.
    pub publishes_what_was_never_acknowledged: bool,
    /// Rule 1: whoever reads a later marker lets go.
    pub lets_go_when_fenced: bool,
    /// Rule 1: only the coordinator's word leads to another marker.
    pub marks_again_when_confirmed_only: bool,
    /// Rule 2: a start is acknowledged in the topic before its request leaves.
    pub start_awaits_topic: bool,
    /// Rule 2: whose start is read back.
    pub read_back: ReadBack,
    /// Rule 2: the fold is looked at again before the request leaves.
    pub looks_again: bool,
    /// Positional starts: one behind a later marker gives no leave to send.
    pub late_start_gives_no_leave: bool,
    /// The request's deadline is asked before it leaves.
    pub keeps_deadline: bool,
    /// Rule 3: a look-up waits for the deadlines of all unresolved attempts.
    pub look_up_awaits_deadlines: bool,
    /// Rule 3: and for what the kernel may still deliver.
    pub look_up_awaits_transport: bool,
    /// Rule 3: and for the provider's consistency delay.
    pub look_up_awaits_visibility: bool,
    /// Rule 3: the end of attempts of others.
    pub foreign_end: ForeignEnd,
    /// Rule 3: the window is asked before each attempt.
    pub asks_window: bool,
    /// Rule 3: a minute of clock skew is in the window's margin.
    pub margin_has_skew: bool,
    /// Rule 4: what settles an offset is acknowledged in the topic before the commit.
    pub commit_awaits_topic: bool,
    /// Rule 4, as it must be: what settles by its place only (a parking) is read back before the commit.
    pub park_is_read_back: bool,
    /// A record is in the parking topic before its entry says so.
    pub park_awaits_bytes: bool,
    /// Whoever lost the partition commits nothing.
    pub over_commits_nothing: bool,
    /// Rule 5: the dead-lettering entry is read back before the letter is produced.
    pub lettering_is_read_back: bool,
    /// Rule 5: the offset is settled by the letter's acknowledgement, not by the intention.
    pub letter_is_acknowledged: bool,
    /// The log is kept whole: no later entry of a key removes an earlier one.
    pub log_is_kept_whole: bool,
    /// Results only raise what is known.
    pub results_only_raise: bool,
    /// The first attempt's rendering is that of all.
    pub rendering_is_pinned: bool,
    /// The provider's wait is kept, also by another clock.
    pub waits_are_kept_by_any_clock: bool,
    /// Followers of a Kafka key wait.
    pub followers_wait: bool,
    /// A decision counts only against the state that it saw.
    pub decisions_are_versioned: bool,
    /// A redrive asks for the named risk where something may have been taken.
    pub redrive_asks_for_risk: bool,
    /// Cancelling ends only what was never attempted.
    pub cancel_spares_what_was_tried: bool,
}

impl Rules {
    pub const TRUE: Self = Self {
        publishes_what_was_never_acknowledged: true,
        lets_go_when_fenced: true,
        marks_again_when_confirmed_only: true,
        start_awaits_topic: true,
        read_back: ReadBack::Always,
        looks_again: true,
        late_start_gives_no_leave: true,
        keeps_deadline: true,
        look_up_awaits_deadlines: true,
        look_up_awaits_transport: true,
        look_up_awaits_visibility: true,
        foreign_end: ForeignEnd::MarkerAcknowledged,
        asks_window: true,
        margin_has_skew: true,
        commit_awaits_topic: true,
        park_is_read_back: true,
        park_awaits_bytes: true,
        over_commits_nothing: true,
        lettering_is_read_back: true,
        letter_is_acknowledged: true,
        log_is_kept_whole: true,
        results_only_raise: true,
        rendering_is_pinned: true,
        waits_are_kept_by_any_clock: true,
        followers_wait: true,
        decisions_are_versioned: true,
        redrive_asks_for_risk: true,
        cancel_spares_what_was_tried: true,
    };
}

/// What the provider can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// It recognises keys: for so many ticks, or for longer than anyone is unaware of anything.
    Keyed { window: Option<Tick>, look_up: bool },
    /// It recognises none and can be asked.
    LookUp,
    /// It recognises none and cannot be asked.
    Keyless,
}

/// What may come of a request beside a good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// Taken, and answered with 5xx.
    TakenAndFailed,
    /// Not taken, and answered with 5xx.
    Failed,
    /// The connection breaks; the request may still be taken until deadline + bound.
    Severed,
    /// The connection is refused.
    Refused,
    /// Refused for good.
    Rejected,
    /// 429 with a wait.
    Throttled,
}

/// A situation that must be reachable, so that what holds does not hold of nothing.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub is_here: fn(&Protocol, &State) -> bool,
}

/// One configuration: small enough to be explored whole.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    pub name: &'static str,
    pub keys: u8,
    /// One: the coordinator gives the partition to the same instance again. Two: to the other one.
    pub instances: u8,
    pub provider: Provider,
    pub troubles: &'static [Trouble],
    pub left: Left,
    /// Instances may render differently: a deploy is half done.
    pub deploying: bool,
    /// Long waits are parked.
    pub parks: bool,
    /// All records have the same Kafka key, and their order is kept.
    pub is_ordered: bool,
    /// What each operator may decide.
    pub operators: &'static [&'static [Decision]],
    /// By how much the instances' clocks are ahead.
    pub skews: &'static [[i8; 2]],
    /// Attempts of a round that may fail.
    pub budget: u8,
    /// What stands at the beginning.
    pub begins: fn(&Configuration) -> Vec<State>,
    /// What must be reachable in it.
    pub scenarios: &'static [Scenario],
}

impl Configuration {
    /// Whether anything depends on time. Where nothing does, it stands still, and all else happens in any order.
    pub fn is_timed(&self) -> bool {
        let by_provider = match self.provider {
            Provider::Keyed {
                window: None,
                look_up: false,
            }
            | Provider::Keyless => false,
            Provider::Keyed { .. } | Provider::LookUp => true,
        };
        by_provider || self.troubles.contains(&Trouble::Throttled)
    }

    /// Which moments of the past anybody asks for.
    pub fn asks(&self) -> Asks {
        match self.provider {
            Provider::Keyed { window, look_up } => Asks {
                window: window.is_some(),
                look_up,
            },
            Provider::LookUp => Asks {
                window: false,
                look_up: true,
            },
            Provider::Keyless => Asks {
                window: false,
                look_up: false,
            },
        }
    }
}
