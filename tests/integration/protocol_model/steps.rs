//! What each step makes of the moment: the coordinator, the clock, the ledger topic, the provider, the operators. What a
//! tenure itself does is in `tenure_steps`.

use super::Protocol;
use super::actions::{Action, producer};
use super::rules::{Provider, Trouble};
use super::state::{
    Doing, Entry, Letter, Logged, Operator, Packet, Said, Stage, State, Tenure, Tick, Writer,
};

/// How long the wait is that a throttling provider asks for, in ticks.
const THROTTLE_TICKS: Tick = 3;

impl Protocol {
    /// The moment after `action`.
    pub fn after(&self, before: &State, action: Action) -> State {
        let mut state = before.clone();
        match action {
            Action::Tick => tick(&mut state),
            Action::Assign { instance, needed } => {
                state.left.moves -= u8::from(!needed);
                self.assign(&mut state, instance);
            }
            Action::HearRevoked { tenure } => self.let_go(&mut state, tenure, false),
            Action::HearConfirmed { tenure } => {
                let instance = state.tenure(tenure).instance;
                let is_owner = state.owner == tenure;
                state.tenure_mut(tenure).stage = Stage::Over { fenced: false };
                let owner = state.owner;
                self.assign(&mut state, instance);
                if !is_owner {
                    let new = std::mem::replace(&mut state.owner, owner);
                    state.tenure_mut(new).is_confirmed = false;
                }
            }
            Action::Read { tenure } => self.read(&mut state, tenure),
            Action::Land { via } => self.land(&mut state, via, true),
            Action::LandUnacknowledged { via } => self.land(&mut state, via, false),
            Action::Drop { via } => state.flights.retain(|flight| flight.via != via),
            Action::Crash {
                instance,
                disk,
                letters,
            } => self.crash(&mut state, instance, disk, letters),
            Action::Begin { tenure, key, plan } => self.begin(&mut state, tenure, key, plan),
            Action::LookUp {
                tenure,
                key,
                present,
            } => self.look_up(&mut state, tenure, key, present),
            Action::Send { tenure, key } => self.send(&mut state, tenure, key),
            Action::Withhold { tenure, key } => self.withhold(&mut state, tenure, key),
            Action::Take { packet } => self.take(&mut state, packet),
            Action::Vanish { packet } => {
                state.wire.remove(packet.into());
            }
            Action::GoWrong { packet, trouble } => self.go_wrong(&mut state, packet, trouble),
            Action::AcknowledgeLetter { tenure, key } => {
                self.acknowledge_letter(&mut state, tenure, key)
            }
            Action::AcknowledgeParking { tenure, key } => {
                state.parking[usize::from(key)] = true;
                let is_over = state.tenure(tenure).stage.is_over();
                if is_over || !self.rules.park_awaits_bytes {
                    state.set_doing(tenure, key, Doing::Rest);
                } else {
                    self.write(&mut state, tenure, key, Entry::Parked { key });
                }
            }
            Action::Commit {
                tenure: _,
                position,
            } => {
                state.broken.i8_position_went_back |= position < state.committed;
                state.committed = position;
            }
            Action::Look { operator } => {
                let saw = state.log.len() as u8;
                state.operators[usize::from(operator)] = Operator::Looked { saw };
            }
            Action::Decide { operator, decision } => {
                let Operator::Looked { saw } = state.operators[usize::from(operator)] else {
                    return state;
                };
                state.operators[usize::from(operator)] = Operator::Decided;
                let by = producer(operator);
                state.append(
                    by,
                    by,
                    Entry::Decided {
                        key: 0,
                        decision,
                        saw,
                    },
                );
            }
        }
        forget_what_no_longer_matters(&mut state, !self.rules.marks_again_when_confirmed_only);
        state
    }

    /// A new tenure: rule 1.
    fn assign(&self, state: &mut State, instance: u8) {
        let tenure = state.tenures.len() as u8;
        state.owner = tenure;
        let claimed_at = if self.rules.foreign_end == super::rules::ForeignEnd::MarkerSent {
            state.now
        } else {
            0
        };
        state.tenures.push(Tenure {
            instance,
            stage: Stage::Claiming,
            is_confirmed: true,
            from: state.committed,
            claimed_at,
            marked_at: 0,
            seen: 0,
            doing: vec![Doing::Rest; self.configuration.keys.into()],
        });
        let unacknowledged = std::mem::take(&mut state.disks[usize::from(instance)]);
        if self.rules.publishes_what_was_never_acknowledged {
            for flight in unacknowledged {
                state.append(tenure, flight.by, flight.entry);
            }
        } else {
            state.disks[usize::from(instance)] = unacknowledged;
        }
        state.append(tenure, tenure, Entry::Marker);
    }

    fn crash(&self, state: &mut State, instance: u8, disk: bool, letters: bool) {
        state.left.crashes -= 1;
        let place = usize::from(instance);
        if !disk {
            state.disks[place].clear();
        }
        for tenure in 0..state.tenures.len() as u8 {
            let held = state.tenure(tenure).clone();
            if held.instance != instance || !held.stage.lives() {
                continue;
            }
            if disk {
                let of_tenure = state
                    .flights
                    .iter()
                    .filter(|flight| flight.via == tenure && flight.entry != Entry::Marker);
                let flushed: Vec<_> = of_tenure.copied().collect();
                state.disks[place].extend(flushed);
            }
            for (key, doing) in (0..).zip(held.doing) {
                if let (Doing::Lettering { round, why }, true) = (doing, letters) {
                    put_letter(state, Letter { key, round, why });
                }
            }
            state.tenure_mut(tenure).stage = Stage::Dead;
        }
    }

    fn land(&self, state: &mut State, via: Writer, acknowledged: bool) {
        let Some(place) = state.flights.iter().position(|flight| flight.via == via) else {
            return;
        };
        let flight = state.flights[place];
        let (by, entry) = (flight.by, flight.entry);
        let index = state.log.len() as u8;
        state.log.push(Logged {
            by,
            at: state.now,
            entry,
        });
        if !acknowledged {
            state.left.lost_acks -= 1;
            return;
        }
        state.flights.remove(place);
        if by != via || usize::from(by) >= state.tenures.len() {
            return;
        }
        let end = index + 1;
        let now = state.now;
        let held = state.tenure_mut(by);
        if entry == Entry::Marker {
            if held.stage == Stage::Claiming {
                held.stage = Stage::Holding;
                held.marked_at = now;
                held.seen = end;
            }
            return;
        }
        // Nothing of others lies between: reading on tells nothing new.
        if held.stage.holds() && held.seen == index {
            held.seen = end;
        }
        self.acknowledged(state, by, entry);
    }

    fn take(&self, state: &mut State, packet: u8) {
        let taken = state.wire.remove(packet.into());
        let heard = state.is_heard(&taken);
        self.arrives(state, &taken);
        if heard {
            self.answer(state, &taken, Said::Accepted);
        }
    }

    /// The provider takes a request.
    fn arrives(&self, state: &mut State, packet: &Packet) {
        let now = state.now;
        let account = *state.account(packet.key);
        let first = account.deliveries == 0;
        let forgotten = match self.configuration.provider {
            Provider::Keyed {
                window: Some(window),
                ..
            } => !first && now >= account.taken_at + window,
            Provider::Keyed { window: None, .. } => false,
            Provider::LookUp | Provider::Keyless => true,
        };
        let is_keyed = matches!(self.configuration.provider, Provider::Keyed { .. });
        state.broken.i7_forgotten_key |= is_keyed && forgotten;
        state.broken.i1_other_bytes |= account.version != 0 && account.version != packet.version;
        if packet.key > 0 && self.configuration.is_ordered {
            let ends = state.account(packet.key - 1).deliveries > 0
                || state
                    .letters
                    .iter()
                    .any(|letter| letter.key == packet.key - 1);
            state.broken.order_broken |= !ends;
        }
        let account = state.account_mut(packet.key);
        account.version = packet.version;
        if first || forgotten {
            account.deliveries += 1;
            account.taken_at = now;
        }
    }

    fn go_wrong(&self, state: &mut State, packet: u8, trouble: Trouble) {
        state.left.troubles -= 1;
        let sent = state.wire[usize::from(packet)];
        if trouble != Trouble::Severed {
            state.wire.remove(packet.into());
        }
        let knows_key = matches!(self.configuration.provider, Provider::Keyed { .. })
            && state.account(sent.key).deliveries > 0;
        let said = match trouble {
            Trouble::TakenAndFailed => {
                self.arrives(state, &sent);
                Said::Failed
            }
            Trouble::Failed => Said::Failed,
            Trouble::Severed => Said::Lost,
            Trouble::Refused => Said::NotSent,
            // What was taken under this key is answered again.
            Trouble::Rejected | Trouble::Throttled if knows_key => {
                self.arrives(state, &sent);
                Said::Accepted
            }
            Trouble::Rejected => Said::Rejected,
            Trouble::Throttled => {
                let until = state.now + THROTTLE_TICKS;
                Said::Throttled { until }
            }
        };
        self.answer(state, &sent, said);
    }
}

/// The dead-letter topic takes a letter. A copy of what is there already adds nothing.
pub fn put_letter(state: &mut State, letter: Letter) {
    let Letter { key, round, why } = letter;
    let entry = Entry::Lettering { key, round, why };
    let is_decided =
        (0..state.log.len()).any(|index| state.log[index].entry == entry && state.counts(index));
    state.broken.letter_without_entry |= !is_decided;
    if !state.letters.contains(&letter) {
        state.letters.push(letter);
    }
}

fn tick(state: &mut State) {
    let stalled = |held: &Tenure| {
        held.stage.holds()
            && held.doing.iter().any(|doing| match doing {
                Doing::Cleared { at, .. } | Doing::Writing(Entry::Started { at, .. }) => {
                    *at == state.now
                }
                Doing::Rest
                | Doing::Writing(_)
                | Doing::Asking { .. }
                | Doing::Lettering { .. }
                | Doing::Handing => false,
            })
    };
    if state.tenures.iter().any(stalled) {
        state.left.stalls -= 1;
    }
    state.now += 1;
    let now = state.now;
    state.wire.retain(|packet| packet.gone_at >= now);
}

/// Makes one of moments that differ in nothing that can ever be told.
fn forget_what_no_longer_matters(state: &mut State, keeps_fences: bool) {
    let owner = usize::from(state.owner);
    for (tenure, held) in state.tenures.iter_mut().enumerate() {
        if held.stage.is_over() && tenure != owner && !keeps_fences {
            held.stage = Stage::Over { fenced: false };
        }
        let at_rest = held.doing.iter().all(|doing| *doing == Doing::Rest);
        let is_gone = !held.stage.lives();
        if is_gone {
            held.doing.fill(Doing::Rest);
        }
        if is_gone || (held.stage.is_over() && at_rest) {
            held.seen = 0;
            held.claimed_at = 0;
            held.marked_at = 0;
        }
    }
    state.flights.sort_by_key(|flight| flight.via);
    state.wire.sort_by_key(|packet| (packet.key, packet.id));
    state
        .letters
        .sort_by_key(|letter| (letter.key, letter.round));
}
