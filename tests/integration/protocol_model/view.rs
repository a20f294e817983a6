//! What a reader of the log makes of one key: the product's own `Story`, folded by the product. Only what the product does
//! not have yet is decided here: whose entries count by their place, when attempts of others are over, parkings and operators'
//! decisions.

use std::collections::BTreeMap;

use sendonce::domain::dispatch;
use sendonce::domain::idempotency_key::{ProfileHash, RequestFingerprint};
use sendonce::domain::ledger_entry::{self, Answered, Fact, Rendering, Standing, Story};
use sendonce::domain::reconcile::Finding;
use sendonce::domain::time::{Timestamp, UnitFraction};

use super::rules::{Configuration, ForeignEnd, Provider, ReadBack, Rules};
use super::state::{Decision, Doing, Entry, Id, Said, State, Tenure, Tick};
use super::words::{REQUEST_TICKS, SUBJECT, answered, attempt_id, id_of, moment, position, reason};

/// What somebody knows of one key.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub story: Option<Story>,
    /// A parking that counts has been read.
    pub is_parked: bool,
    /// Its own parking is acknowledged, and not read back yet.
    pub is_being_parked: bool,
    /// The round that an operator asked for.
    pub redrive: Option<u32>,
    /// An operator does not want it sent.
    pub is_cancelled: bool,
    /// The latest round whose dead-lettering has been read, and counts.
    pub lettering_read: Option<u8>,
}

/// Who reads: everything that his view depends on beside the log.
pub struct Reader<'a> {
    pub state: &'a State,
    pub rules: &'a Rules,
    pub configuration: &'a Configuration,
    /// Of the rules and the configuration.
    pub identity: u64,
}

impl<'a> Reader<'a> {
    /// Whether a start is read back before its request leaves.
    pub fn reads_back(&self) -> bool {
        match (self.rules.read_back, self.configuration.provider) {
            (ReadBack::Never, _)
            | (ReadBack::WhereKeysAreShort, Provider::Keyed { window: None, .. }) => false,
            (ReadBack::Always, _)
            | (
                ReadBack::WhereKeysAreShort,
                Provider::Keyed {
                    window: Some(_), ..
                }
                | Provider::LookUp
                | Provider::Keyless,
            ) => true,
        }
    }

    /// What the clock of a tenure's instance shows at a true moment.
    pub fn clock(&self, tenure: u8, at: Tick) -> i64 {
        let instance = self.state.tenure(tenure).instance;
        i64::from(at) + i64::from(self.state.skew[usize::from(instance)])
    }

    /// The entries of a key that a tenure knows: what it has read, and its own that were acknowledged.
    fn known(&self, by: Option<u8>) -> impl Iterator<Item = usize> + use<'a> {
        let state = self.state;
        let seen = by.map(|tenure| usize::from(state.tenure(tenure).seen));
        (0..state.log.len()).filter(move |index| {
            seen.is_none_or(|seen| *index < seen) || by == Some(state.log[*index].by)
        })
    }

    /// What a tenure knows of a key; what the whole log says if no tenure is named.
    pub fn view(&self, by: Option<u8>, key: u8) -> View {
        let mut view = View::default();
        // How long the log was when something of this key came last.
        let mut changed = 0;
        let latest = self
            .known(by)
            .filter(|index| self.state.log[*index].entry.key() == Some(key));
        let indices: Vec<usize> = if self.rules.log_is_kept_whole {
            latest.collect()
        } else {
            latest.last().into_iter().collect()
        };
        for index in indices {
            self.add(&mut view, by, index, changed);
            changed = index + 1;
        }
        // What waits for its acknowledgement is taken for durable by a variant only.
        if let (Some(tenure), false) = (by, self.rules.commit_awaits_topic)
            && let Doing::Writing(entry) = self.state.doing(tenure, key)
        {
            self.add_entry(&mut view, by, entry, None, true, changed);
        }
        view
    }

    fn add(&self, view: &mut View, by: Option<u8>, index: usize, changed: usize) {
        let logged = self.state.log[index];
        let is_read = by.is_none_or(|tenure| index < usize::from(self.state.tenure(tenure).seen));
        // Beyond what it has read a tenure believes that its own marker is still the latest.
        let counts = self.state.counts(index) || !is_read;
        match logged.entry {
            Entry::Parked { .. } if !is_read && self.rules.park_is_read_back => {
                view.is_being_parked = true;
            }
            Entry::Lettering { round, .. } if counts && is_read => {
                self.add_entry(view, by, logged.entry, Some(index), counts, changed);
                view.lettering_read = view.lettering_read.max(Some(round));
            }
            Entry::Marker
            | Entry::Started { .. }
            | Entry::Answered { .. }
            | Entry::Lettering { .. }
            | Entry::Lettered { .. }
            | Entry::Parked { .. }
            | Entry::Decided { .. } => {
                self.add_entry(view, by, logged.entry, Some(index), counts, changed);
            }
        }
    }

    fn add_entry(
        &self,
        view: &mut View,
        by: Option<u8>,
        entry: Entry,
        index: Option<usize>,
        counts: bool,
        changed: usize,
    ) {
        let now = self.state.now;
        match entry {
            Entry::Marker => {}
            Entry::Started {
                id, at, version, ..
            } => {
                // Where every start is read back, a late one is never sent.
                let may_be_sent =
                    counts || !self.rules.late_start_gives_no_leave || !self.reads_back();
                if may_be_sent {
                    let appended = index.map_or(now, |index| self.state.log[index].at);
                    let fact = Fact::Started {
                        attempt: id.number.into(),
                        deadline: moment(self.end(by, id, at)),
                        rendering: Rendering {
                            provider: "modelled".into(),
                            profile: ProfileHash([version; 32]),
                            request: RequestFingerprint([version; 32]),
                        },
                    };
                    fold(view, id, moment(appended.into()), fact);
                }
            }
            Entry::Answered { id, said, .. } => {
                let due = match said {
                    Said::Throttled { until } => Some(moment(self.due(by, id, until))),
                    Said::Accepted
                    | Said::Rejected
                    | Said::NotSent
                    | Said::Lost
                    | Said::Failed
                    | Said::Absent
                    | Said::Withheld => None,
                };
                if !self.rules.results_only_raise
                    && let Some(story) = &mut view.story
                {
                    let of = attempt_id(id);
                    let known = story.attempts.iter();
                    let known = known.map(|(id, facts)| {
                        let mut facts = facts.clone();
                        facts.answered = facts.answered.filter(|_| *id != of);
                        (*id, facts)
                    });
                    story.attempts = known.collect::<BTreeMap<_, _>>().into();
                }
                let fact = Fact::Answered {
                    attempt: id.number.into(),
                    answer: answered(said, due),
                };
                fold(view, id, Timestamp::EPOCH, fact);
            }
            Entry::Lettering { round, why, .. } if counts => {
                let fact = Fact::DeadLettering {
                    reason: reason(why),
                    detail: "modelled".into(),
                };
                fold(
                    view,
                    Id {
                        round,
                        number: 0,
                        tenure: 0,
                    },
                    Timestamp::EPOCH,
                    fact,
                );
            }
            Entry::Lettered { round, .. } => {
                let fact = Fact::DeadLettered {
                    at: position(round.into()),
                };
                fold(
                    view,
                    Id {
                        round,
                        number: 0,
                        tenure: 0,
                    },
                    Timestamp::EPOCH,
                    fact,
                );
            }
            Entry::Parked { .. } if counts => view.is_parked = true,
            Entry::Lettering { .. } | Entry::Parked { .. } => {}
            Entry::Decided { decision, saw, .. } => {
                if changed <= usize::from(saw) || !self.rules.decisions_are_versioned {
                    self.decide(view, decision);
                }
            }
        }
    }

    /// The end of a request, by the reader's clock.
    fn end(&self, by: Option<u8>, id: Id, at: Tick) -> i64 {
        let span = i64::from(REQUEST_TICKS);
        let Some(reader) = by else {
            return i64::from(at) + span;
        };
        let tenure: &Tenure = self.state.tenure(reader);
        if !self.rules.look_up_awaits_deadlines {
            return -1_000;
        }
        if id.tenure == reader {
            return self.clock(reader, at) + span;
        }
        match self.rules.foreign_end {
            ForeignEnd::MarkerAcknowledged => self.clock(reader, tenure.marked_at) + span,
            ForeignEnd::MarkerSent => self.clock(reader, tenure.claimed_at) + span,
            ForeignEnd::MakersClock => self.clock(id.tenure, at) + span,
            ForeignEnd::AtOnce => -1_000,
        }
    }

    /// When a wait is over, by the reader's clock: its maker wrote it down by his own.
    fn due(&self, by: Option<u8>, id: Id, until: Tick) -> i64 {
        let foreign = by.is_some_and(|reader| {
            self.state.tenure(reader).instance != self.state.tenure(id.tenure).instance
        });
        let skew = i64::from(foreign && self.rules.waits_are_kept_by_any_clock);
        self.clock(id.tenure, until) + skew
    }

    /// What an operator's decision makes of what is known.
    fn decide(&self, view: &mut View, decision: Decision) {
        let Some(story) = &view.story else {
            view.is_cancelled |= decision == Decision::Cancel;
            return;
        };
        let finding = match decision {
            Decision::Redrive { .. } => {
                if matches!(story.standing(), Standing::DeadLettered(_)) {
                    view.redrive = Some(story.round() + 1);
                }
                return;
            }
            Decision::Cancel => {
                let untried = story.attempts.is_empty() || !self.rules.cancel_spares_what_was_tried;
                view.is_cancelled |= untried && !story.is_settled();
                return;
            }
            Decision::ResolveSent => Finding::Present(None),
            Decision::ResolveNotSent => Finding::Absent,
        };
        let found = dispatch::reconciled(
            story,
            &finding,
            &self.terms(),
            Timestamp::EPOCH,
            UnitFraction::ZERO,
        );
        for (id, answer) in found {
            let answer = Answered {
                due: None,
                ..answer
            };
            let fact = Fact::Answered {
                attempt: id.attempt,
                answer,
            };
            fold(view, id_of(id), Timestamp::EPOCH, fact);
        }
    }
}

/// Adds one fact to the story.
fn fold(view: &mut View, id: Id, at: Timestamp, fact: Fact) {
    let entry = ledger_entry::Entry {
        subject: SUBJECT.clone(),
        at,
        round: id.round.into(),
        writer: attempt_id(id).writer,
        fact,
    };
    match &mut view.story {
        Some(story) => story.fold(&entry),
        None => view.story = Some(Story::beginning(&entry)),
    }
}
