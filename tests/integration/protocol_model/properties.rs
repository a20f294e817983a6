//! What must hold in every moment, named by the invariants of the design, and what must be reachable, so that the model is
//! not empty.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use sendonce::domain::ledger_entry::Standing;
use stateright::Property;

use super::Protocol;
use super::state::{Decision, Entry, Said, State, Why};

pub const ONE_REQUEST: &str = "I1 all requests of a key have the same bytes";
pub const STARTED_FIRST: &str = "I2 no request without a durable start";
pub const RECORDED_FIRST: &str = "I3 nothing is committed that has no durable end";
pub const DELIVERED_ONCE: &str = "I4 delivered at most once";
pub const NO_SECOND: &str = "I4 no second request after an unknown one without keys";
pub const NOTHING_LOST: &str = "I5 when all has come to rest, every record has its end";
pub const DISK_IS_TOLD: &str = "I5 what a disk knows reaches the topic";
pub const DEPTH: &str = "I5 the depth is that of the open dead letters";
pub const LETTER_DECIDED: &str = "I5 no dead letter without its entry before it";
pub const LETTER_TRUE: &str = "I5 what is dead-lettered as not taken was not taken";
pub const LETTER_ONCE: &str = "I5 a dead letter has one reason";
pub const WINDOW: &str = "I7 no request under a forgotten key";
pub const OWNER_SENDS: &str = "I8 only the owner sends";
pub const POSITION: &str = "I8 the position never goes back";
pub const RESULTS_RAISE: &str = "I8 an acceptance stays";
pub const WAIT_KEPT: &str = "the provider's wait is kept";
pub const ORDER: &str = "the order of a Kafka key is kept";

/// Everything that must hold, whatever the configuration.
pub fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(ONE_REQUEST, |_, state: &State| !state.broken.i1_other_bytes),
        Property::always(STARTED_FIRST, |_, state: &State| {
            !state.broken.i2_sent_without_start
        }),
        Property::always(RECORDED_FIRST, recorded_first),
        Property::always(DELIVERED_ONCE, delivered_once),
        Property::always(NO_SECOND, |_, state: &State| {
            !state.broken.i4_second_after_unknown
        }),
        Property::always(NOTHING_LOST, nothing_lost),
        Property::always(DISK_IS_TOLD, disk_is_told),
        Property::always(DEPTH, depth),
        Property::always(LETTER_DECIDED, |_, state: &State| {
            !state.broken.letter_without_entry
        }),
        Property::always(LETTER_TRUE, letter_true),
        Property::always(LETTER_ONCE, letter_once),
        Property::always(WINDOW, |_, state: &State| !state.broken.i7_forgotten_key),
        Property::always(OWNER_SENDS, |_, state: &State| {
            !state.broken.i8_sent_when_over
        }),
        Property::always(POSITION, |_, state: &State| {
            !state.broken.i8_position_went_back
        }),
        Property::always(RESULTS_RAISE, results_raise),
        Property::always(WAIT_KEPT, |_, state: &State| !state.broken.wait_undercut),
        Property::always(ORDER, |_, state: &State| !state.broken.order_broken),
    ]
}

/// Whether an operator took the risk of a second delivery upon himself, or gave his word that there was no first.
fn risk_was_taken(state: &State) -> bool {
    state.log.iter().any(|logged| {
        matches!(
            logged.entry,
            Entry::Decided {
                decision: Decision::Redrive { risk: true } | Decision::ResolveNotSent,
                ..
            }
        )
    })
}

/// What the whole log says of a key, remembered.
#[derive(Clone, Copy)]
struct Told {
    /// `None`: nothing yet.
    standing: Option<Ending>,
    round: u8,
    is_parked: bool,
    redrive: Option<u8>,
    was_accepted: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Open,
    Accepted,
    Lettering,
    Lettered,
}

fn told(protocol: &Protocol, state: &State, key: u8) -> Told {
    thread_local! {
        static KNOWN: RefCell<HashMap<u64, Told>> = RefCell::default();
    }
    let mut hasher = DefaultHasher::new();
    (protocol.identity, &state.log, key).hash(&mut hasher);
    let fingerprint = hasher.finish();
    if let Some(told) = KNOWN.with_borrow(|known| known.get(&fingerprint).copied()) {
        return told;
    }
    let view = protocol.reader(state).view(None, key);
    let story = view.story.as_ref();
    let told = Told {
        standing: story.map(|story| match story.standing() {
            Standing::Open => Ending::Open,
            Standing::Accepted(_) => Ending::Accepted,
            Standing::DeadLettering(_) => Ending::Lettering,
            Standing::DeadLettered(_) => Ending::Lettered,
        }),
        round: story.map_or(0, |story| story.round() as u8),
        is_parked: view.is_parked,
        redrive: view.redrive.map(|round| round as u8),
        was_accepted: state.log.iter().any(|logged| {
            matches!(logged.entry, Entry::Answered { key: of, said: Said::Accepted, .. } if of == key)
        }),
    };
    KNOWN.with_borrow_mut(|known| known.insert(fingerprint, told));
    told
}

fn delivered_once(_: &Protocol, state: &State) -> bool {
    risk_was_taken(state) || state.accounts.iter().all(|account| account.deliveries <= 1)
}

/// Each key below the committed position is accepted, dead-lettered with its letter, or parked with its bytes, in the topic.
fn recorded_first(protocol: &Protocol, state: &State) -> bool {
    (0..state.committed).all(|key| {
        let told = told(protocol, state, key);
        let is_parked = told.is_parked && state.parking[usize::from(key)];
        is_parked
            || match told.standing {
                Some(Ending::Accepted) => true,
                Some(Ending::Lettered) => has_letter(state, key, told.round),
                // A redrive may have begun since.
                Some(Ending::Open | Ending::Lettering) => told.round > 0,
                None => false,
            }
    })
}

fn has_letter(state: &State, key: u8, round: u8) -> bool {
    state
        .letters
        .iter()
        .any(|letter| letter.key == key && letter.round == round)
}

/// Nobody has anything left to do, unless a fault strikes.
fn is_at_rest(protocol: &Protocol, state: &State) -> bool {
    if !state.flights.is_empty() || !state.wire.is_empty() {
        return false;
    }
    let mut actions = Vec::new();
    protocol.possible(state, &mut actions);
    actions.iter().all(|action| action.is_optional())
}

fn nothing_lost(protocol: &Protocol, state: &State) -> bool {
    let all_ended = || {
        state.committed == protocol.configuration.keys
            && (0..state.committed).all(|key| {
                let told = told(protocol, state, key);
                let is_settled = matches!(told.standing, Some(Ending::Accepted | Ending::Lettered));
                let is_redriven = told.redrive.is_none_or(|round| {
                    told.round >= round || told.standing == Some(Ending::Accepted)
                });
                is_settled && is_redriven
            })
    };
    !state.flights.is_empty()
        || !state.wire.is_empty()
        || all_ended()
        || !is_at_rest(protocol, state)
}

/// An acceptance that a running instance has on its disk is in the topic once all has come to rest.
fn disk_is_told(protocol: &Protocol, state: &State) -> bool {
    let accepted = |entry: &Entry| {
        matches!(
            entry,
            Entry::Answered {
                said: Said::Accepted,
                ..
            }
        )
    };
    let untold = state.disks.iter().flatten().any(|flight| {
        accepted(&flight.entry) && !state.log.iter().any(|logged| logged.entry == flight.entry)
    });
    let owner = state.tenure(state.owner);
    let runs = !state.disks[usize::from(owner.instance)].is_empty();
    !untold || !runs || !is_at_rest(protocol, state)
}

/// The ledger calls a round dead exactly where its letter is in the topic, once all has come to rest.
fn depth(protocol: &Protocol, state: &State) -> bool {
    let agrees = || {
        (0..protocol.configuration.keys).all(|key| {
            let told = told(protocol, state, key);
            match told.standing {
                Some(Ending::Lettered) => has_letter(state, key, told.round),
                Some(Ending::Open | Ending::Lettering) => !has_letter(state, key, told.round),
                Some(Ending::Accepted) | None => true,
            }
        })
    };
    !state.flights.is_empty() || !state.wire.is_empty() || agrees() || !is_at_rest(protocol, state)
}

fn letter_true(_: &Protocol, state: &State) -> bool {
    state.letters.iter().all(|letter| match letter.why {
        Why::OutcomeUnknown => true,
        Why::Rejected | Why::RetriesExhausted | Why::Cancelled => {
            // A later round may deliver.
            let again = state.log.iter().any(|logged| matches!(logged.entry, Entry::Started { key, id, .. } if key == letter.key && id.round > letter.round));
            again || risk_was_taken(state) || state.account(letter.key).deliveries == 0
        }
    })
}

fn letter_once(_: &Protocol, state: &State) -> bool {
    state.letters.iter().enumerate().all(|(place, letter)| {
        !state
            .letters
            .iter()
            .skip(place + 1)
            .any(|other| (other.key, other.round) == (letter.key, letter.round))
    })
}

/// Once an acceptance is in the topic, whoever reads all of it finds the key accepted.
fn results_raise(protocol: &Protocol, state: &State) -> bool {
    (0..protocol.configuration.keys).all(|key| {
        let told = told(protocol, state, key);
        !told.was_accepted || told.standing == Some(Ending::Accepted)
    })
}
