//! What can happen next: every step that somebody may take now, and every fault that may strike.

use super::Protocol;
use super::leaving::Leave;
use super::plan::Plan;
use super::rules::{Provider, Trouble};
use super::state::{
    Decision, Doing, Entry, OPERATORS, Operator, Packet, Said, Stage, State, Tenure, Writer,
};
use super::view::Reader;
use super::words::{REQUEST_TICKS, VISIBILITY_TICKS};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A minute passes.
    Tick,
    /// The coordinator assigns the partition to an instance, which was started if it was dead. `needed`: nobody else has it.
    Assign { instance: u8, needed: bool },
    /// A tenure hears from the coordinator that the partition is no longer its own.
    HearRevoked { tenure: u8 },
    /// A tenure that let go because of a marker hears that it is a member all the same, and gets a new tenure.
    HearConfirmed { tenure: u8 },
    /// A tenure reads the ledger topic to its end.
    Read { tenure: u8 },
    /// The next entry of a producer is written and acknowledged.
    Land { via: Writer },
    /// The next entry of a producer is written, the acknowledgement is lost, and the producer will write it again.
    LandUnacknowledged { via: Writer },
    /// The next entry of a dead producer never arrives, nor does what stands behind it.
    Drop { via: Writer },
    /// An instance dies. `disk`: its disk comes back, with what it had flushed. `letters`: dead letters on their way arrive.
    Crash {
        instance: u8,
        disk: bool,
        letters: bool,
    },
    /// A tenure carries out what comes next for a key.
    Begin { tenure: u8, key: u8, plan: Plan },
    /// A tenure asks the provider. `None`: for good, nothing was proved.
    LookUp {
        tenure: u8,
        key: u8,
        present: Option<bool>,
    },
    /// A request leaves.
    Send { tenure: u8, key: u8 },
    /// A request does not leave, although its start is in the log.
    Withhold { tenure: u8, key: u8 },
    /// The provider takes the request, and its good answer is heard if anybody listens.
    Take { packet: u8 },
    /// A request that nobody listens for any more never arrives. Where time counts, its time runs out instead.
    Vanish { packet: u8 },
    /// Something else comes of a request.
    GoWrong { packet: u8, trouble: Trouble },
    /// The dead-letter topic acknowledges.
    AcknowledgeLetter { tenure: u8, key: u8 },
    /// The parking topic acknowledges.
    AcknowledgeParking { tenure: u8, key: u8 },
    /// A tenure commits what it may.
    Commit { tenure: u8, position: u8 },
    /// An operator reads the log.
    Look { operator: u8 },
    /// An operator decides by what he read, about the only key.
    Decide { operator: u8, decision: Decision },
}

impl Action {
    /// Whether it is a fault or somebody's choice, without which things come to their end as well.
    pub fn is_optional(self) -> bool {
        match self {
            Self::Assign { needed, .. } => !needed,
            Self::LandUnacknowledged { .. }
            | Self::Crash { .. }
            | Self::GoWrong { .. }
            | Self::Look { .. }
            | Self::Decide { .. } => true,
            Self::LookUp { present, .. } => present.is_none(),
            Self::Tick
            | Self::HearRevoked { .. }
            | Self::HearConfirmed { .. }
            | Self::Read { .. }
            | Self::Land { .. }
            | Self::Drop { .. }
            | Self::Begin { .. }
            | Self::Send { .. }
            | Self::Withhold { .. }
            | Self::Take { .. }
            | Self::Vanish { .. }
            | Self::AcknowledgeLetter { .. }
            | Self::AcknowledgeParking { .. }
            | Self::Commit { .. } => false,
        }
    }
}

impl Protocol {
    /// Every action that is possible now.
    pub fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        if self.is_over(state) && self.nobody_is_unaware(state) {
            return;
        }
        let reader = self.reader(state);
        if self.may_tick(&reader) {
            actions.push(Action::Tick);
        }
        self.of_coordinator(state, actions);
        self.of_ledger_topic(state, actions);
        for tenure in (0..).take(state.tenures.len()) {
            self.of_tenure(&reader, tenure, actions);
        }
        self.of_provider(state, actions);
        self.of_operators(&reader, actions);
    }

    /// Time passes while somebody or something depends on it, and no request outlives its deadline.
    fn may_tick(&self, reader: &Reader<'_>) -> bool {
        let state = reader.state;
        if !self.configuration.is_timed() {
            return false;
        }
        let mut matters = !state.wire.is_empty();
        for (tenure, held) in (0..).zip(&state.tenures) {
            if !held.stage.lives() {
                continue;
            }
            for (key, doing) in (0..).zip(&held.doing) {
                match *doing {
                    Doing::Asking { at, .. } if state.now + 1 > at + REQUEST_TICKS => return false,
                    Doing::Cleared { at, .. } | Doing::Writing(Entry::Started { at, .. })
                        if state.now == at && held.stage.holds() =>
                    {
                        if state.left.stalls == 0 {
                            return false;
                        }
                        matters = true;
                    }
                    Doing::Rest if held.stage.holds() => {
                        matters |= matches!(reader.plan(tenure, key), Plan::Wait { .. });
                    }
                    Doing::Rest
                    | Doing::Writing(_)
                    | Doing::Cleared { .. }
                    | Doing::Asking { .. }
                    | Doing::Lettering { .. }
                    | Doing::Handing => {}
                }
            }
        }
        matters || self.a_window_is_open(state)
    }

    /// Whether the provider still knows a key whose end is open.
    fn a_window_is_open(&self, state: &State) -> bool {
        let Provider::Keyed {
            window: Some(window),
            ..
        } = self.configuration.provider
        else {
            return false;
        };
        let first = state
            .log
            .iter()
            .find(|logged| matches!(logged.entry, Entry::Started { .. }));
        let is_accepted = state.log.iter().any(|logged| {
            matches!(
                logged.entry,
                Entry::Answered {
                    said: Said::Accepted,
                    ..
                } | Entry::Lettered { .. }
            )
        });
        first.is_some_and(|first| state.now <= first.at + window) && !is_accepted
    }

    fn of_coordinator(&self, state: &State, actions: &mut Vec<Action>) {
        let owner = state.tenure(state.owner);
        match owner.stage {
            Stage::Dead => {
                let all = 0..self.configuration.instances;
                actions.extend(all.map(|instance| Action::Assign {
                    instance,
                    needed: true,
                }));
            }
            Stage::Over { .. } => actions.push(Action::HearConfirmed {
                tenure: state.owner,
            }),
            Stage::Claiming | Stage::Holding if state.left.moves > 0 && !self.is_over(state) => {
                let instance = (owner.instance + 1) % self.configuration.instances;
                actions.push(Action::Assign {
                    instance,
                    needed: false,
                });
            }
            Stage::Claiming | Stage::Holding => {}
        }
        for (tenure, held) in (0..).zip(&state.tenures) {
            let is_told = held.stage.is_over() || !held.stage.lives();
            if tenure != state.owner && !is_told && held.may_begin() {
                actions.push(Action::HearRevoked { tenure });
            }
            let by_itself = !self.rules.marks_again_when_confirmed_only
                && held.stage == (Stage::Over { fenced: true });
            if by_itself && tenure != state.owner && state.tenures.len() < 4 {
                actions.push(Action::HearConfirmed { tenure });
            }
        }
        for instance in [0, 1] {
            if state.left.crashes > 0 && !self.is_over(state) && self.matters(state, instance) {
                self.of_crash(state, instance, actions);
            }
        }
    }

    /// Whether nothing can be lost or doubled any more by a fault: all is committed, and nobody may want another round.
    fn is_over(&self, state: &State) -> bool {
        state.committed == self.configuration.keys
            && state.operators.is_empty()
            && !self.configuration.parks
    }

    /// Whether no request is on its way and none will be: nobody who might begin one is unaware that it is another's turn.
    fn nobody_is_unaware(&self, state: &State) -> bool {
        let may_send = |(tenure, held): (u8, &Tenure)| {
            let is_busy = held.doing.iter().any(|doing| *doing != Doing::Rest);
            held.stage == Stage::Holding && (is_busy || tenure != state.owner)
        };
        state.wire.is_empty() && !(0..).zip(&state.tenures).any(may_send)
    }

    /// Whether the death of an instance changes anything.
    fn matters(&self, state: &State, instance: u8) -> bool {
        let busy = |held: &&Tenure| {
            !held.stage.is_over() || held.doing.iter().any(|doing| *doing != Doing::Rest)
        };
        let its_own = state
            .tenures
            .iter()
            .filter(|held| held.instance == instance && held.stage.lives());
        its_own.clone().any(|held| busy(&held))
    }

    fn of_crash(&self, state: &State, instance: u8, actions: &mut Vec<Action>) {
        let its_own = |via: Writer| {
            state
                .tenures
                .get(usize::from(via))
                .is_some_and(|held| held.instance == instance)
        };
        let has_unacknowledged = !state.disks[usize::from(instance)].is_empty()
            || state
                .flights
                .iter()
                .any(|flight| its_own(flight.via) && flight.entry != Entry::Marker);
        let lettering = state
            .tenures
            .iter()
            .filter(|held| held.instance == instance && held.stage.lives())
            .flat_map(|held| &held.doing)
            .any(|doing| matches!(doing, Doing::Lettering { .. }));
        for disk in [false, true] {
            for letters in [false, true] {
                if (has_unacknowledged || !disk) && (lettering || !letters) {
                    actions.push(Action::Crash {
                        instance,
                        disk,
                        letters,
                    });
                }
            }
        }
    }

    fn of_ledger_topic(&self, state: &State, actions: &mut Vec<Action>) {
        let mut seen: Vec<Writer> = Vec::new();
        for flight in &state.flights {
            if seen.contains(&flight.via) {
                continue;
            }
            seen.push(flight.via);
            let via = flight.via;
            actions.push(Action::Land { via });
            if state
                .tenures
                .get(usize::from(via))
                .is_some_and(|held| held.stage == Stage::Dead)
            {
                actions.push(Action::Drop { via });
            } else if state.left.lost_acks > 0 {
                actions.push(Action::LandUnacknowledged { via });
            }
        }
    }

    fn of_tenure(&self, reader: &Reader<'_>, tenure: u8, actions: &mut Vec<Action>) {
        let state = reader.state;
        let held = state.tenure(tenure);
        if !held.stage.lives() {
            return;
        }
        if held.stage.holds() && held.may_begin() && usize::from(held.seen) < state.log.len() {
            actions.push(Action::Read { tenure });
        }
        for (key, doing) in (0..).zip(&held.doing) {
            match *doing {
                Doing::Rest if held.stage.holds() => self.of_plan(reader, tenure, key, actions),
                Doing::Cleared { .. } => match self.may_leave(reader, tenure, key) {
                    Leave::Now => actions.push(Action::Send { tenure, key }),
                    Leave::Never => actions.push(Action::Withhold { tenure, key }),
                    Leave::NotYet => {}
                },
                Doing::Lettering { .. } => actions.push(Action::AcknowledgeLetter { tenure, key }),
                Doing::Handing => actions.push(Action::AcknowledgeParking { tenure, key }),
                Doing::Rest | Doing::Writing(_) | Doing::Asking { .. } => {}
            }
        }
        let may_commit = if self.rules.over_commits_nothing {
            tenure == state.owner && held.stage.holds()
        } else {
            // The coordinator knows members, not tenures.
            held.instance == state.tenure(state.owner).instance
                && (held.stage.holds() || held.stage.is_over())
        };
        if may_commit {
            let begin = if held.stage.is_over() {
                held.from
            } else {
                state.committed
            };
            let end = (begin..self.configuration.keys)
                .take_while(|key| reader.settles(tenure, *key))
                .count();
            let position = begin + end as u8;
            if end > 0 && position != state.committed {
                actions.push(Action::Commit { tenure, position });
            }
        }
    }

    fn of_plan(&self, reader: &Reader<'_>, tenure: u8, key: u8, actions: &mut Vec<Action>) {
        match reader.plan(tenure, key) {
            Plan::Nothing | Plan::Settled | Plan::Wait { .. } => {}
            plan @ (Plan::Start { .. }
            | Plan::Conclude { .. }
            | Plan::SetAside { .. }
            | Plan::ProduceLetter { .. }
            | Plan::Park) => {
                actions.push(Action::Begin { tenure, key, plan });
            }
            Plan::LookUp { .. } => {
                let account = reader.state.account(key);
                let visible = account.deliveries > 0
                    && account.taken_at + VISIBILITY_TICKS <= reader.state.now;
                actions.push(Action::LookUp {
                    tenure,
                    key,
                    present: Some(visible),
                });
                if reader.state.left.mute_lookups > 0 {
                    actions.push(Action::LookUp {
                        tenure,
                        key,
                        present: None,
                    });
                }
            }
        }
    }

    fn of_provider(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, packet) in (0..).zip(&state.wire) {
            actions.push(Action::Take { packet: number });
            let is_heard = state.is_heard(packet);
            if !is_heard && !self.configuration.is_timed() {
                actions.push(Action::Vanish { packet: number });
            }
            if state.left.troubles == 0 || !is_heard {
                continue;
            }
            for trouble in self.configuration.troubles {
                actions.push(Action::GoWrong {
                    packet: number,
                    trouble: *trouble,
                });
            }
        }
    }

    fn of_operators(&self, reader: &Reader<'_>, actions: &mut Vec<Action>) {
        for (number, operator) in (0..).zip(&reader.state.operators) {
            match operator {
                Operator::Idle => actions.push(Action::Look { operator: number }),
                Operator::Looked { saw } => {
                    let wishes = self.configuration.operators[usize::from(number)];
                    let allowed = wishes.iter().filter(|wish| reader.may_decide(*saw, **wish));
                    actions.extend(allowed.map(|decision| Action::Decide {
                        operator: number,
                        decision: *decision,
                    }));
                }
                Operator::Decided => {}
            }
        }
    }
}

impl State {
    /// Whether somebody still waits for the answer to a request.
    pub fn is_heard(&self, packet: &Packet) -> bool {
        let held = self.tenure(packet.id.tenure);
        held.stage.lives()
            && matches!(held.doing[usize::from(packet.key)], Doing::Asking { id, .. } if id == packet.id)
    }
}

/// The number of an operator's producer.
pub fn producer(operator: u8) -> Writer {
    OPERATORS + operator
}
