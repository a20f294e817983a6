//! What stands at the beginning of a configuration.

use super::rules::Configuration;
use super::state::{
    Account, Broken, Doing, Entry, Id, Letter, Log, Logged, Operator, Said, Stage, State, Tenure,
    Why,
};

/// One record a key, all to be read; the first instance has the partition.
pub fn assigned(configuration: &Configuration) -> Vec<State> {
    let at_skew = |skew: &[i8; 2]| {
        let keys = usize::from(configuration.keys);
        State {
            // Time for clocks that are behind.
            now: 1,
            skew: *skew,
            log: Log::from_iter([Logged {
                by: 0,
                at: 1,
                entry: Entry::Marker,
            }]),
            flights: Vec::new(),
            tenures: vec![Tenure {
                instance: 0,
                stage: Stage::Holding,
                is_confirmed: true,
                from: 0,
                claimed_at: 0,
                marked_at: 1,
                seen: 1,
                doing: vec![Doing::Rest; keys],
            }],
            owner: 0,
            disks: [Vec::new(), Vec::new()],
            wire: Vec::new(),
            accounts: vec![Account::default(); keys],
            letters: Vec::new(),
            parking: vec![false; keys],
            committed: 0,
            operators: vec![Operator::Idle; configuration.operators.len()],
            left: configuration.left,
            asks: configuration.asks(),
            broken: Broken::default(),
        }
    };
    configuration.skews.iter().map(at_skew).collect()
}

/// The first attempt has been answered with a wait. The partition went to the other instance, which died, and came back.
pub fn throttled_before_a_late_marker(configuration: &Configuration) -> Vec<State> {
    let id = Id {
        round: 0,
        number: 1,
        tenure: 0,
    };
    let said = Said::Throttled { until: 4 };
    let of = |mut state: State| {
        let entries = [
            Entry::Started {
                key: 0,
                id,
                at: 1,
                version: 1,
            },
            Entry::Answered { key: 0, id, said },
        ];
        tell(&mut state, entries);
        let first = state.tenures[0].clone();
        state.tenures.push(Tenure {
            instance: 1,
            stage: Stage::Dead,
            marked_at: 0,
            seen: 0,
            ..first.clone()
        });
        state.append(1, 1, Entry::Marker);
        state.log.push(Logged {
            by: 2,
            at: 1,
            entry: Entry::Marker,
        });
        let seen = state.log.len() as u8;
        state.tenures.push(Tenure {
            seen,
            ..first.clone()
        });
        state.tenures[0] = Tenure {
            stage: Stage::Over { fenced: false },
            marked_at: 0,
            seen: 0,
            ..first
        };
        state.owner = 2;
        state
    };
    assigned(configuration).into_iter().map(of).collect()
}

/// The only attempt was refused at the door, and its dead letter is written and committed.
pub fn dead_as_not_sent(configuration: &Configuration) -> Vec<State> {
    let of = |state: State| dead(state, Said::NotSent, Why::RetriesExhausted);
    assigned(configuration).into_iter().map(of).collect()
}

/// Nobody heard of the only attempt again: it was taken, or it was not.
pub fn dead_as_unknown(configuration: &Configuration) -> Vec<State> {
    let of = |state: State| {
        let not_taken = dead(state, Said::Lost, Why::OutcomeUnknown);
        let mut taken = not_taken.clone();
        taken.accounts[0] = Account {
            deliveries: 1,
            taken_at: 1,
            version: 1,
        };
        [not_taken, taken]
    };
    assigned(configuration).into_iter().flat_map(of).collect()
}

fn dead(mut state: State, said: Said, why: Why) -> State {
    let id = Id {
        round: 0,
        number: 1,
        tenure: 0,
    };
    let entries = [
        Entry::Started {
            key: 0,
            id,
            at: 1,
            version: 1,
        },
        Entry::Answered { key: 0, id, said },
        Entry::Lettering {
            key: 0,
            round: 0,
            why,
        },
        Entry::Lettered { key: 0, round: 0 },
    ];
    tell(&mut state, entries);
    state.letters.push(Letter {
        key: 0,
        round: 0,
        why,
    });
    state.committed = 1;
    state
}

/// The first tenure has written this, and read it.
fn tell<const N: usize>(state: &mut State, entries: [Entry; N]) {
    for entry in entries {
        state.log.push(Logged {
            by: 0,
            at: 1,
            entry,
        });
    }
    state.tenures[0].seen = state.log.len() as u8;
}
