//! What a tenure does: begins what comes next, sends, hears answers, reads the log, lets go.

use super::Protocol;
use super::plan::Plan;
use super::rules::Provider;
use super::state::{Doing, Entry, Id, Letter, Logged, Packet, Said, Stage, State, Why};
use super::steps::put_letter;
use super::words::{REQUEST_TICKS, TRANSPORT_TICKS, is_open};

impl Protocol {
    /// Writes an entry, and waits until it is acknowledged.
    pub fn write(&self, state: &mut State, tenure: u8, key: u8, entry: Entry) {
        state.set_doing(tenure, key, Doing::Writing(entry));
        state.append(tenure, tenure, entry);
    }

    /// Carries out what comes next.
    pub fn begin(&self, state: &mut State, tenure: u8, key: u8, plan: Plan) {
        match plan {
            Plan::Start {
                round,
                number,
                version,
            } => {
                let id = Id {
                    round,
                    number,
                    tenure,
                };
                let at = state.now;
                state.broken.wait_undercut |= knows_of_a_wait(state, tenure, key);
                let entry = Entry::Started {
                    key,
                    id,
                    at,
                    version,
                };
                if self.rules.start_awaits_topic {
                    self.write(state, tenure, key, entry);
                } else {
                    state.append(tenure, tenure, entry);
                    state.set_doing(tenure, key, Doing::Cleared { id, at, version });
                }
            }
            Plan::Conclude { id } => self.write(
                state,
                tenure,
                key,
                Entry::Answered {
                    key,
                    id,
                    said: Said::Lost,
                },
            ),
            Plan::SetAside { round, why } => {
                self.write(state, tenure, key, Entry::Lettering { key, round, why })
            }
            Plan::ProduceLetter { round, why } if self.rules.letter_is_acknowledged => {
                state.set_doing(tenure, key, Doing::Lettering { round, why });
            }
            Plan::ProduceLetter { round, .. } => {
                self.write(state, tenure, key, Entry::Lettered { key, round })
            }
            Plan::Park if self.rules.park_awaits_bytes => {
                state.set_doing(tenure, key, Doing::Handing)
            }
            Plan::Park => self.write(state, tenure, key, Entry::Parked { key }),
            Plan::Nothing | Plan::Settled | Plan::Wait { .. } | Plan::LookUp { .. } => {}
        }
    }

    /// One of its entries is acknowledged.
    pub fn acknowledged(&self, state: &mut State, tenure: u8, entry: Entry) {
        let Some(key) = entry.key() else { return };
        if state.doing(tenure, key) != Doing::Writing(entry) || !state.tenure(tenure).stage.lives()
        {
            return;
        }
        let next = match entry {
            Entry::Started {
                id, at, version, ..
            } => Doing::Cleared { id, at, version },
            // The variant that says so before the bytes are there.
            Entry::Parked { .. } if !self.rules.park_awaits_bytes => Doing::Handing,
            Entry::Marker
            | Entry::Answered { .. }
            | Entry::Lettering { .. }
            | Entry::Lettered { .. }
            | Entry::Parked { .. }
            | Entry::Decided { .. } => Doing::Rest,
        };
        state.set_doing(tenure, key, next);
    }

    /// Reads to the end of the log, and lets go if another's marker stands behind its own.
    pub fn read(&self, state: &mut State, tenure: u8) {
        let begin = usize::from(state.tenure(tenure).seen);
        let is_anothers = |logged: &Logged| logged.entry == Entry::Marker && logged.by != tenure;
        let fenced = state.log.iter().skip(begin).any(is_anothers);
        state.tenure_mut(tenure).seen = state.log.len() as u8;
        if fenced && self.rules.lets_go_when_fenced {
            self.let_go(state, tenure, true);
        }
    }

    /// Begins nothing more. What is on its way goes on, so that its result is recorded.
    pub fn let_go(&self, state: &mut State, tenure: u8, fenced: bool) {
        state.tenure_mut(tenure).stage = Stage::Over { fenced };
    }

    /// Hands a request to the kernel.
    pub fn send(&self, state: &mut State, tenure: u8, key: u8) {
        let Doing::Cleared { id, at, version } = state.doing(tenure, key) else {
            return;
        };
        self.judge_sending(state, tenure, key, id);
        let gone_at = state.now.max(at) + REQUEST_TICKS + TRANSPORT_TICKS;
        state.wire.push(Packet {
            key,
            id,
            gone_at,
            version,
        });
        state.set_doing(tenure, key, Doing::Asking { id, at: state.now });
    }

    /// What sending now would break.
    fn judge_sending(&self, state: &mut State, tenure: u8, key: u8, id: Id) {
        let is_start = |entry: &Entry| matches!(entry, Entry::Started { key: of, id: started, .. } if *of == key && *started == id);
        let in_log = state.log.iter().any(|logged| is_start(&logged.entry));
        let stage = state.tenure(tenure).stage;
        let own = state
            .log
            .iter()
            .position(|logged| logged.entry == Entry::Marker && logged.by == tenure);
        let read_since = &state.log[own.unwrap_or(0)..usize::from(state.tenure(tenure).seen)];
        let is_fenced = read_since
            .iter()
            .any(|logged| logged.entry == Entry::Marker && logged.by != tenure);
        state.broken.i2_sent_without_start |= !in_log;
        state.broken.i8_sent_when_over |=
            stage.is_over() || is_fenced || !state.tenure(tenure).is_confirmed;
        if matches!(self.configuration.provider, Provider::Keyed { .. }) {
            return;
        }
        // Attempts of the round before this one that may have been taken, by all that is in the log.
        let open = |other: Id| {
            let answers = state.log.iter().filter_map(|logged| logged.entry.answer());
            let mut own = answers.filter(|(of, answered, _)| (*of, *answered) == (key, other));
            own.all(|(_, _, said)| is_open(said))
        };
        let counted = (0..state.log.len()).filter(|index| state.counts(*index));
        let started = counted.filter_map(|index| state.log[index].entry.start());
        let mut others =
            started.filter(|(of, other)| *of == key && *other != id && other.round == id.round);
        let second = others.any(|(_, other)| open(other));
        state.broken.i4_second_after_unknown |= second;
    }

    /// Records that a request did not leave.
    pub fn withhold(&self, state: &mut State, tenure: u8, key: u8) {
        let Doing::Cleared { id, .. } = state.doing(tenure, key) else {
            return;
        };
        self.write(
            state,
            tenure,
            key,
            Entry::Answered {
                key,
                id,
                said: Said::Withheld,
            },
        );
    }

    /// Records an answer.
    pub fn answer(&self, state: &mut State, packet: &Packet, said: Said) {
        let Packet { key, id, .. } = *packet;
        self.write(state, id.tenure, key, Entry::Answered { key, id, said });
    }

    /// Asks the provider, and records what that proves.
    pub fn look_up(&self, state: &mut State, tenure: u8, key: u8, present: Option<bool>) {
        let reader = self.reader(state);
        let Some(present) = present else {
            let Plan::LookUp { round } = reader.plan(tenure, key) else {
                return;
            };
            state.left.mute_lookups -= 1;
            let why = Why::OutcomeUnknown;
            self.write(state, tenure, key, Entry::Lettering { key, round, why });
            return;
        };
        let found = reader.found(tenure, key, present);
        if let Some((id, said)) = found {
            self.write(state, tenure, key, Entry::Answered { key, id, said });
        }
    }

    /// The dead-letter topic has it; the entry that says so follows.
    pub fn acknowledge_letter(&self, state: &mut State, tenure: u8, key: u8) {
        let Doing::Lettering { round, why } = state.doing(tenure, key) else {
            return;
        };
        put_letter(state, Letter { key, round, why });
        self.write(state, tenure, key, Entry::Lettered { key, round });
    }
}

/// Whether a tenure knows that the provider asked to wait for longer than now.
fn knows_of_a_wait(state: &State, tenure: u8, key: u8) -> bool {
    let seen = usize::from(state.tenure(tenure).seen);
    state.log.iter().enumerate().any(|(index, logged)| {
        let is_known = index < seen || logged.by == tenure;
        is_known
            && logged.entry.key() == Some(key)
            && matches!(logged.entry, Entry::Answered { said: Said::Throttled { until }, .. } if state.now < until)
    })
}
