//! What comes next for a key in a tenure: what the product's `dispatch::next` says of the story, and what the product does
//! not have yet: parking, followers, redrives and cancels.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use sendonce::domain::attempt::Verdict;
use sendonce::domain::dispatch::{self, KeyTerms, Limits, LookupTerms, Step, Terms};
use sendonce::domain::ledger_entry::{Answered, Standing, Story};
use sendonce::domain::reconcile::Finding;
use sendonce::domain::retry::{Backoff, Pace};
use sendonce::domain::time::UnitFraction;

use super::rules::{Provider, Rules};
use super::state::{Decision, Id, Said, State, Tick, Why};
use super::view::{Reader, View};
use super::words::{
    REQUEST_SPAN, REQUEST_TICKS, TICK, TRANSPORT_TICKS, VISIBILITY_TICKS, attempt_id, id_of,
    moment, ticks, why,
};

/// How long a wait may be without being parked, in ticks.
const HOLD_TICKS: i64 = 1;
/// Requests end two ticks after their start, and a minute is for the clocks.
const MARGIN_TICKS: u32 = 3;

/// What comes next for one key in one tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// Nothing: it is not this tenure's, or something else comes first.
    Nothing,
    /// Nothing: its end is durable.
    Settled,
    Start {
        round: u8,
        number: u8,
        version: u8,
    },
    /// Until the reader's clock shows this many ticks.
    Wait {
        until: i64,
    },
    LookUp {
        round: u8,
    },
    Conclude {
        id: Id,
    },
    SetAside {
        round: u8,
        why: Why,
    },
    ProduceLetter {
        round: u8,
        why: Why,
    },
    Park,
}

/// What a tenure makes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub plan: Plan,
    /// Its offset may be committed.
    pub settles: bool,
    pub is_parked: bool,
}

impl Reader<'_> {
    pub fn terms(&self) -> Terms {
        let Rules {
            look_up_awaits_transport,
            look_up_awaits_visibility,
            ..
        } = *self.rules;
        let (key, look_up) = match self.configuration.provider {
            Provider::Keyed { window, look_up } => (Some(window), look_up),
            Provider::LookUp => (None, true),
            Provider::Keyless => (None, false),
        };
        let margin = MARGIN_TICKS - u32::from(!self.rules.margin_has_skew);
        let long = TICK * 10_000;
        let ticks_if = |kept: bool, ticks: Tick| {
            if kept {
                TICK * u32::from(ticks)
            } else {
                Duration::ZERO
            }
        };
        Terms {
            key: key.map(|window| KeyTerms {
                window: match window {
                    Some(window) if self.rules.asks_window => TICK * u32::from(window),
                    Some(_) | None => long,
                },
                margin: TICK * margin,
            }),
            lookup: look_up.then(|| LookupTerms {
                delay: ticks_if(look_up_awaits_visibility, VISIBILITY_TICKS),
                keeps: long,
            }),
            request_span: REQUEST_SPAN,
            transport_bound: ticks_if(look_up_awaits_transport, TRANSPORT_TICKS),
            budget: self.configuration.budget.into(),
            in_progress_max: 1,
            pace: Pace {
                backoff: Backoff {
                    base: Duration::ZERO,
                    cap: Duration::ZERO,
                },
                in_progress_wait: TICK,
                probe_interval: TICK,
            },
        }
    }

    fn limits() -> Limits {
        Limits {
            expires_at: None,
            recorded_at: moment(0),
            max_age: TICK * 50_000,
            // Ends of others' attempts are told from our marker in `view`, where variants tell them otherwise.
            owner: None,
        }
    }

    /// What comes next.
    pub fn plan(&self, tenure: u8, key: u8) -> Plan {
        self.next(tenure, key).plan
    }

    /// Whether a key's offset may be committed.
    pub fn settles(&self, tenure: u8, key: u8) -> bool {
        self.next(tenure, key).settles
    }

    /// What a tenure makes of a key, remembered: few views are ever seen, and each is seen often.
    fn next(&self, tenure: u8, key: u8) -> Next {
        thread_local! {
            static KNOWN: RefCell<HashMap<u64, Next>> = RefCell::default();
        }
        let fingerprint = self.fingerprint(tenure, key);
        if let Some(next) = KNOWN.with_borrow(|known| known.get(&fingerprint).copied()) {
            return next;
        }
        let view = self.view(Some(tenure), key);
        let plan = self.plan_anew(tenure, key, &view);
        let is_parked = view.is_parked;
        let settles = plan == Plan::Settled || is_parked;
        let next = Next {
            plan,
            settles,
            is_parked,
        };
        KNOWN.with_borrow_mut(|known| known.insert(fingerprint, next));
        next
    }

    /// All that a tenure's view of a key depends on.
    pub fn fingerprint(&self, tenure: u8, key: u8) -> u64 {
        let mut hasher = DefaultHasher::new();
        let state = self.state;
        let held = state.tenure(tenure);
        (
            self.identity,
            tenure,
            key,
            state.now,
            state.skew,
            &state.log,
        )
            .hash(&mut hasher);
        (held.seen, held.from, held.claimed_at, held.marked_at).hash(&mut hasher);
        for tenure in &state.tenures {
            tenure.instance.hash(&mut hasher);
        }
        if !self.rules.commit_awaits_topic {
            held.doing.hash(&mut hasher);
        }
        hasher.finish()
    }

    fn plan_anew(&self, tenure: u8, key: u8, view: &View) -> Plan {
        let held = self.state.tenure(tenure);
        let story = view.story.as_ref();
        let settled = story.is_some_and(Story::is_settled);
        let redrive = view.redrive.filter(|round| {
            story.is_some_and(|story| *round > story.round() && story.accepted().is_none())
        });
        if redrive.is_none() && settled {
            return Plan::Settled;
        }
        let is_ours = key >= held.from || view.is_parked || view.redrive.is_some();
        if !is_ours {
            return Plan::Nothing;
        }
        if view.is_being_parked {
            return Plan::Nothing;
        }
        if let Some(parked) = self.behind(tenure, key, view) {
            return parked;
        }
        let rendering = story
            .and_then(|story| story.rendering.as_ref())
            .filter(|_| self.rules.rendering_is_pinned);
        let own = if self.configuration.deploying {
            1 + held.instance
        } else {
            1
        };
        let version = rendering.map_or(own, |rendering| rendering.request.0[0]);
        if let Some(round) = redrive {
            return Plan::Start {
                round: round as u8,
                number: 1,
                version,
            };
        }
        let untried = story.is_none_or(|story| story.attempts.is_empty())
            || !self.rules.cancel_spares_what_was_tried;
        let standing = story.map_or(Standing::Open, Story::standing);
        if view.is_cancelled && untried && standing == Standing::Open {
            return Plan::SetAside {
                round: 0,
                why: Why::Cancelled,
            };
        }
        let now = moment(self.clock(tenure, self.state.now));
        let step = dispatch::next(
            story,
            &self.terms(),
            &Self::limits(),
            now,
            UnitFraction::ZERO,
        );
        self.planned(tenure, view, step, version)
    }

    fn planned(&self, tenure: u8, view: &View, step: Step, version: u8) -> Plan {
        match step {
            Step::Settle => Plan::Settled,
            Step::Start { round, attempt, .. } => Plan::Start {
                round: round as u8,
                number: attempt as u8,
                version,
            },
            Step::Wait { until } => {
                let until = ticks(until);
                let is_long = until - self.clock(tenure, self.state.now) > HOLD_TICKS;
                if self.configuration.parks && is_long && !view.is_parked {
                    Plan::Park
                } else {
                    Plan::Wait { until }
                }
            }
            Step::LookUp { round, .. } => Plan::LookUp { round: round as u8 },
            Step::Conclude { id, .. } => Plan::Conclude { id: id_of(id) },
            Step::SetAside { round, reason, .. } => Plan::SetAside {
                round: round as u8,
                why: why(reason),
            },
            Step::ProduceDeadLetter { round, cause } => {
                if view.lettering_read == Some(round as u8) || !self.rules.lettering_is_read_back {
                    Plan::ProduceLetter {
                        round: round as u8,
                        why: why(cause.reason),
                    }
                } else {
                    Plan::Nothing
                }
            }
        }
    }

    /// What a follower of the same Kafka key does while an earlier record is open: all records of a partition have one key here.
    fn behind(&self, tenure: u8, key: u8, view: &View) -> Option<Plan> {
        if !self.rules.followers_wait || !self.configuration.is_ordered {
            return None;
        }
        let is_open = |earlier| self.plan(tenure, earlier) != Plan::Settled;
        let leader = (0..key).find(|earlier| is_open(*earlier))?;
        let may_park = self.next(tenure, leader).is_parked && !view.is_parked;
        Some(if may_park { Plan::Park } else { Plan::Nothing })
    }

    /// Whether another attempt than this one may have been taken, for all that the story says.
    pub fn others_open(&self, story: &Story, id: Id) -> bool {
        let own = attempt_id(id);
        let open =
            |answer: &Answered| matches!(answer.verdict, Verdict::Unknown | Verdict::InProgress);
        let mut others = story.attempts.iter().filter(|(other, _)| **other != own);
        others.any(|(_, facts)| facts.answered.as_ref().is_none_or(open))
    }

    /// Whether the product's last check lets the request of a start at this moment leave.
    pub fn may_send(&self, story: &Story, tenure: u8, at: Tick) -> bool {
        let now = moment(self.clock(tenure, self.state.now));
        let deadline = moment(self.clock(tenure, at) + i64::from(REQUEST_TICKS));
        let deadline = if self.rules.keeps_deadline {
            deadline
        } else {
            now.plus(TICK)
        };
        dispatch::may_send(story, &self.terms(), &Self::limits(), deadline, now).is_ok()
    }

    /// Whether an operator who has read so much of the log may decide so.
    pub fn may_decide(&self, saw: u8, decision: Decision) -> bool {
        let log = self.state.log.up_to(saw);
        let past = State {
            log,
            ..self.state.clone()
        };
        let reader = Reader {
            state: &past,
            ..*self
        };
        let view = reader.view(None, 0);
        let story = view.story.as_ref();
        let is_dead =
            story.is_some_and(|story| matches!(story.standing(), Standing::DeadLettered(_)));
        let may_have_been_taken = story.is_some_and(Story::may_have_been_taken);
        match decision {
            Decision::Redrive { risk } => {
                let asked = !may_have_been_taken || risk || !self.rules.redrive_asks_for_risk;
                is_dead && asked && view.redrive.is_none()
            }
            Decision::ResolveSent | Decision::ResolveNotSent => is_dead && may_have_been_taken,
            Decision::Cancel => story.is_none_or(|story| !story.is_settled()),
        }
    }

    /// What a look-up's finding adds: the first attempt of which it says something.
    pub fn found(&self, tenure: u8, key: u8, present: bool) -> Option<(Id, Said)> {
        let view = self.view(Some(tenure), key);
        let finding = if present {
            Finding::Present(None)
        } else {
            Finding::Absent
        };
        let now = moment(self.clock(tenure, self.state.now));
        let found = dispatch::reconciled(
            view.story.as_ref()?,
            &finding,
            &self.terms(),
            now,
            UnitFraction::ZERO,
        );
        let said = if present {
            Said::Accepted
        } else {
            Said::Absent
        };
        found.first().map(|(id, _)| (id_of(*id), said))
    }
}
