//! Situations that every honest model of this protocol contains. Each is looked for in the configurations that name it.

use super::Protocol;
use super::rules::Scenario;
use super::state::{Decision, Doing, Entry, Id, Logged, Said, Stage, State};

pub const WOKEN_OWNER: Scenario = Scenario {
    name: "a paused owner wakes and starts after another has looked up and sent",
    is_here: woken_owner,
};
pub const LATE_MARKER: Scenario = Scenario {
    name: "a marker lands behind that of a later tenure",
    is_here: |_, state| {
        let markers = || {
            state
                .log
                .iter()
                .filter(|logged| logged.entry == Entry::Marker)
        };
        markers()
            .zip(markers().skip(1))
            .any(|(first, second)| second.by < first.by)
    },
};
pub const TWO_TENURES: Scenario = Scenario {
    name: "two tenures of one instance: one waits for an answer, the other has begun",
    is_here: |_, state| {
        let asks = |doing: &Doing| matches!(doing, Doing::Asking { .. });
        state.tenures.iter().any(|old| {
            let newer = |held: &&super::state::Tenure| {
                held.instance == old.instance && held.stage == Stage::Holding && *held != old
            };
            old.stage.lives()
                && old.doing.iter().any(asks)
                && state
                    .tenures
                    .iter()
                    .filter(newer)
                    .any(|held| held.doing.iter().any(|doing| *doing != Doing::Rest))
        })
    },
};
pub const LATE_RESULT: Scenario = Scenario {
    name: "a late result is written after the new owner's of the same attempt",
    is_here: |_, state| {
        results(state).any(|(place, by, of)| {
            by == of.tenure
                && results(state)
                    .any(|(earlier, other, same)| same == of && other != by && earlier < place)
        })
    },
};
pub const LETTER_WITHOUT_END: Scenario = Scenario {
    name: "a crash between the dead letter's acknowledgement and its entry",
    is_here: |_, state| {
        let says_so = |entry: &Entry| matches!(entry, Entry::Lettered { .. });
        let is_told = state.log.iter().any(|logged| says_so(&logged.entry))
            || state.flights.iter().any(|flight| says_so(&flight.entry));
        !state.letters.is_empty()
            && !is_told
            && state.tenures.iter().any(|held| held.stage == Stage::Dead)
    },
};
pub const REDELIVERED_IN_FLIGHT: Scenario = Scenario {
    name: "a record comes again while its first request is in flight",
    is_here: |_, state| {
        state.wire.iter().any(|packet| {
            let owner = state.tenure(state.owner);
            packet.id.tenure != state.owner
                && owner.stage == Stage::Holding
                && owner.from <= packet.key
        })
    },
};
pub const CLOCKS_DIFFER: Scenario = Scenario {
    name: "clocks differ by a minute where another's attempt is looked up",
    is_here: |_, state| {
        let looked_up = |logged: &Logged| {
            logged.entry.answer().is_some_and(|(_, id, said)| {
                let by_operator = usize::from(logged.by) >= state.tenures.len();
                let instance = |tenure: u8| state.tenure(tenure).instance;
                said == Said::Absent && !by_operator && instance(logged.by) != instance(id.tenure)
            })
        };
        state.skew[0] != state.skew[1] && state.log.iter().any(looked_up)
    },
};
pub const LETTER_PROVED_WRONG: Scenario = Scenario {
    name: "the stated limit: what is dead-lettered as unknown proves to be accepted",
    is_here: |_, state| {
        let accepted = |logged: &Logged| {
            matches!(
                logged.entry,
                Entry::Answered {
                    said: Said::Accepted,
                    ..
                }
            )
        };
        !state.letters.is_empty() && state.log.iter().any(accepted)
    },
};
pub const TAKEN_UP_BY_ANOTHER: Scenario = Scenario {
    name: "what one instance parked and committed is sent by another",
    is_here: |_, state| {
        parked(state).any(|(key, by)| {
            key < state.committed
                && state.account(key).deliveries > 0
                && starts(state).any(|(of, id)| {
                    of == key
                        && id.tenure > by
                        && state.tenure(id.tenure).instance != state.tenure(by).instance
                })
        })
    },
};
pub const FOLLOWER_PARKED: Scenario = Scenario {
    name: "a follower is parked behind, and delivered after",
    is_here: |_, state| parked(state).any(|(key, _)| key == 1) && state.account(1).deliveries > 0,
};
pub const TWO_DECISIONS: Scenario = Scenario {
    name: "two operators redrive at once, and one round is run",
    is_here: |_, state| {
        let redrives = state.log.iter().filter(|logged| {
            matches!(
                logged.entry,
                Entry::Decided {
                    decision: Decision::Redrive { .. },
                    ..
                }
            )
        });
        redrives.count() == 2 && starts(state).any(|(_, id)| id.round == 1)
    },
};
pub const REDRIVEN_BY_SUCCESSOR: Scenario = Scenario {
    name: "a redrive decided under one owner is run by the next",
    is_here: |_, state| {
        let decided = state
            .log
            .iter()
            .position(|logged| matches!(logged.entry, Entry::Decided { .. }));
        let marker = state
            .log
            .iter()
            .rposition(|logged| logged.entry == Entry::Marker);
        decided < marker
            && decided.is_some()
            && starts(state).any(|(_, id)| id.round == 1)
            && state.account(0).deliveries > 0
    },
};
pub const CANCELLED: Scenario = Scenario {
    name: "a cancelled intent ends in a dead letter without an attempt",
    is_here: |_, state| !state.letters.is_empty() && starts(state).next().is_none(),
};
pub const CANCELLED_TOO_LATE: Scenario = Scenario {
    name: "a cancel comes too late, and changes nothing",
    is_here: |_, state| {
        let decided = state.log.iter().any(|logged| {
            matches!(
                logged.entry,
                Entry::Decided {
                    decision: Decision::Cancel,
                    ..
                }
            )
        });
        decided
            && state.account(0).deliveries == 1
            && state.committed == 1
            && state.letters.is_empty()
    },
};

fn results(state: &State) -> impl Iterator<Item = (usize, u8, Id)> {
    let logged = state.log.iter().enumerate();
    logged.filter_map(|(place, logged)| Some((place, logged.by, logged.entry.answer()?.1)))
}

fn starts(state: &State) -> impl Iterator<Item = (u8, Id)> {
    state.log.iter().filter_map(|logged| logged.entry.start())
}

fn parked(state: &State) -> impl Iterator<Item = (u8, u8)> {
    state.log.iter().filter_map(|logged| {
        let key = logged.entry.key()?;
        (logged.entry == Entry::Parked { key }).then_some((key, logged.by))
    })
}

/// The first tenure, unaware that it is over, has an acknowledged start that it made after the second one's request had left,
/// which had followed a look-up.
fn woken_owner(_: &Protocol, state: &State) -> bool {
    let woken = (0..)
        .zip(&state.tenures)
        .find_map(|(tenure, held)| match held.doing.first() {
            Some(Doing::Cleared { at, .. }) if held.stage.holds() && tenure != state.owner => {
                Some((tenure, *at))
            }
            Some(_) | None => None,
        });
    let Some((woken, at)) = woken else {
        return false;
    };
    let looked_up = state.log.iter().position(|logged| {
        matches!(
            logged.entry,
            Entry::Answered {
                said: Said::Absent,
                ..
            }
        ) && logged.by > woken
    });
    let sent = state.log.iter().position(|logged| {
        let asks = |id: Id| matches!(state.doing(id.tenure, 0), Doing::Asking { id: asked, .. } if asked == id);
        let start = logged.entry.start();
        start.is_some_and(|(_, id)| id.tenure > woken && logged.at <= at && asks(id))
    });
    looked_up.is_some() && looked_up < sent
}
