//! Plays hours of many intents at one provider in virtual time: the decisions are the product's own (`dispatch`, the gate, the
//! stories), the provider and the clock are played. What is said of an outage is held against it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use uuid::Uuid;

use super::*;
use crate::domain::attempt::{Classified, Flags, Verdict};
use crate::domain::classify::{Answer, LostCause, NotSentCause, Response};
use crate::domain::dead_letter::Reason;
use crate::domain::dispatch::{self, KeyTerms, Limits, Step, Terms};
use crate::domain::idempotency_key::{
    IdempotencyKey, IntentFingerprint, ProfileHash, RequestFingerprint,
};
use crate::domain::ledger_entry::{Entry, Fact, Rendering, Standing, Story, Subject, Writer};
use crate::domain::position::{Offset, Position, TopicPartition};
use crate::domain::retry::{Backoff, Pace};

pub(super) const SECOND: u64 = 1_000;
pub(super) const HOUR: u64 = 3_600 * SECOND;
/// Requests in flight at once.
const PLACES: usize = 64;

/// What the provider does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mood {
    /// Takes it, after a twentieth of a second.
    Well,
    /// 503 for this share of requests, and does not take them.
    Failing(f64),
    /// Takes nothing and never answers.
    Silent,
    /// Takes all and never answers.
    TakesAndHangs,
    /// Refuses connections.
    Unreachable,
    /// 429 for the whole account, with this wait, to what is above so many requests a second.
    Allowing { per_second: usize, wait: Duration },
}

/// What is played.
pub(super) struct Play {
    pub(super) seed: u64,
    pub(super) keyed: bool,
    pub(super) gate: fn() -> AccountGate,
    /// When each intent comes, in milliseconds from the start.
    pub(super) arrivals: Vec<u64>,
    /// From when on the provider is in which mood.
    pub(super) moods: Vec<(u64, Mood)>,
    /// When the process dies and another one goes on from the stories.
    pub(super) crashes: Vec<u64>,
}

/// How it came out.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) accepted: usize,
    pub(super) dead: BTreeMap<(Reason, String), usize>,
    pub(super) duplicates: usize,
    pub(super) budget_max: usize,
    pub(super) budget_in_all: usize,
    pub(super) throttled: usize,
    /// Requests on the wire when the provider's first bad mood began, or when it was found out if these were more.
    pub(super) in_flight_at_onset: usize,
    pub(super) failed_probes: usize,
    pub(super) openings: usize,
    /// Requests by the second in which they left.
    pub(super) by_second: BTreeMap<u64, usize>,
    pub(super) ended_at: u64,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcome")
            .field("accepted", &self.accepted)
            .field("dead", &self.dead)
            .field("duplicates", &self.duplicates)
            .field("budget_max", &self.budget_max)
            .field("budget_in_all", &self.budget_in_all)
            .field("throttled", &self.throttled)
            .field("in_flight_at_onset", &self.in_flight_at_onset)
            .field("failed_probes", &self.failed_probes)
            .field("openings", &self.openings)
            .field("ended_at", &self.ended_at)
            .finish_non_exhaustive()
    }
}

impl Outcome {
    pub(super) fn dead_in_all(&self) -> usize {
        self.dead.values().sum()
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    Look,
    Answer(u64),
    Crash,
    Onset,
}

struct Flight {
    intent: usize,
    attempt: u32,
    ticket: Ticket,
    probe: bool,
    answer: Answer,
    classified: Classified,
}

struct World {
    play: Play,
    gate: AccountGate,
    terms: Terms,
    dice: Dice,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    stories: Vec<Option<Story>>,
    queue: BTreeSet<(u32, usize)>,
    flights: BTreeMap<u64, Flight>,
    taken: Vec<usize>,
    writer: u128,
    out: Outcome,
}

/// Numbers that follow from the seed alone (splitmix64).
struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bits = u32::try_from((z ^ (z >> 31)) >> 32).unwrap();
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    fn jitter(&mut self) -> UnitFraction {
        UnitFraction::new(self.throw()).unwrap()
    }
}

pub(super) fn play(play: Play) -> Outcome {
    let count = play.arrivals.len();
    let mut world = World {
        gate: (play.gate)(),
        terms: terms(play.keyed),
        dice: Dice(play.seed),
        now: 0,
        events: BinaryHeap::new(),
        sequence: 0,
        stories: vec![None; count],
        queue: BTreeSet::new(),
        flights: BTreeMap::new(),
        taken: vec![0; count],
        writer: 0,
        out: Outcome::default(),
        play,
    };
    for intent in 0..count {
        world.at(world.play.arrivals[intent], Event::Wake(intent));
    }
    for crash in world.play.crashes.clone() {
        world.at(crash, Event::Crash);
    }
    if let Some((onset, _)) = world.play.moods.get(1) {
        world.at(*onset, Event::Onset);
    }
    world.run()
}

fn terms(keyed: bool) -> Terms {
    Terms {
        key: keyed.then_some(KeyTerms {
            window: Duration::from_millis(24 * HOUR),
            margin: Duration::from_secs(105),
        }),
        request_span: Duration::from_secs(35),
        transport_bound: Duration::from_secs(10),
        budget: 8,
        in_progress_max: 60,
        lookup: None,
        pace: Pace {
            backoff: Backoff {
                base: Duration::from_millis(500),
                cap: Duration::from_secs(60),
            },
            in_progress_wait: Duration::from_secs(1),
            probe_interval: Duration::from_secs(60),
        },
    }
}

impl World {
    fn at(&mut self, moment: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((moment, self.sequence, event)));
    }

    fn clock(&self) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_millis(self.now))
    }

    fn run(mut self) -> Outcome {
        while let Some(Reverse((moment, _, event))) = self.events.pop() {
            self.now = moment;
            match event {
                Event::Wake(intent) => self.go_on(intent),
                Event::Look => {}
                Event::Answer(flight) => self.answered(flight),
                Event::Crash => self.crash(),
                Event::Onset => self.out.in_flight_at_onset = self.flights.len(),
            }
            self.let_in();
            assert!(self.now < 100 * HOUR, "it comes to no end");
        }
        for story in self.stories.iter().flatten() {
            let spent = |answer: &&crate::domain::ledger_entry::Answered| {
                let used = matches!(
                    answer.verdict,
                    Verdict::NotSent | Verdict::Throttled | Verdict::Unknown
                );
                used && !answer.flags.outage
            };
            let answers = story.attempts.values().filter_map(|a| a.answered.as_ref());
            let used = answers.filter(spent).count();
            self.out.budget_max = self.out.budget_max.max(used);
            self.out.budget_in_all += used;
        }
        self.out.duplicates = self.taken.iter().map(|taken| taken.saturating_sub(1)).sum();
        let left = self.stories.len() - self.out.accepted - self.out.dead_in_all();
        assert_eq!(left, 0, "nothing vanishes");
        self.out
    }

    fn step(&mut self, intent: usize) -> Step {
        let limits = Limits {
            expires_at: None,
            recorded_at: Timestamp::EPOCH.plus(Duration::from_millis(self.play.arrivals[intent])),
            max_age: Duration::from_millis(24 * HOUR),
            owner: None,
        };
        let story = self.stories[intent].as_ref();
        let (now, jitter) = (self.clock(), self.dice.jitter());
        dispatch::next(story, &self.terms, &limits, now, jitter)
    }

    fn go_on(&mut self, intent: usize) {
        match self.step(intent) {
            Step::Settle => {}
            Step::Start { .. } => {
                let story = self.stories[intent].as_ref();
                let outages = story.map_or(0, Story::outages);
                if outages > 0 {
                    self.gate.was_down();
                }
                self.queue.insert((outages, intent));
            }
            Step::Wait { until } => {
                let until = u64::try_from(until.as_millis()).unwrap();
                self.at(until, Event::Wake(intent));
            }
            Step::Conclude { id, answer } => {
                let fact = Fact::Answered {
                    attempt: id.attempt,
                    answer,
                };
                self.tell(intent, id.writer, fact);
                self.go_on(intent);
            }
            Step::SetAside { reason, detail, .. } => {
                let end = (reason, detail.to_string());
                *self.out.dead.entry(end).or_default() += 1;
                self.out.ended_at = self.now;
            }
            Step::LookUp { .. } => panic!("this provider cannot be asked"),
            Step::ProduceDeadLetter { .. } => panic!("nothing is set aside twice"),
        }
    }

    fn turn(&self) -> Option<(u32, usize)> {
        let is_shared_out = self.gate.state() != BreakerState::Closed;
        let turn = |one: &&(u32, usize)| (is_shared_out.then_some(one.0), one.1);
        self.queue.iter().min_by_key(turn).copied()
    }

    /// Lets as many of those who wait begin as may.
    fn let_in(&mut self) {
        while let Some((outages, intent)) = self.turn() {
            if self.flights.len() >= PLACES {
                return;
            }
            let now = self.clock();
            match self.gate.ask(now) {
                Ok(ticket) => {
                    self.queue.remove(&(outages, intent));
                    self.start(intent, ticket);
                }
                Err(Refusal::Until(moment)) => {
                    let moment = u64::try_from(moment.as_millis()).unwrap();
                    return self.at(moment.max(self.now + 1), Event::Look);
                }
                Err(Refusal::UntilAnswered) => return,
            }
        }
    }

    fn start(&mut self, intent: usize, ticket: Ticket) {
        let Step::Start {
            attempt, deadline, ..
        } = self.step(intent)
        else {
            self.gate.unused(ticket);
            return self.go_on(intent);
        };
        let rendering = Rendering {
            provider: "p".into(),
            profile: ProfileHash([0; 32]),
            request: RequestFingerprint([0; 32]),
        };
        let fact = Fact::Started {
            attempt,
            deadline,
            rendering,
        };
        let writer = Writer(Uuid::from_u128(self.writer));
        self.tell(intent, writer, fact);
        let probe = self.gate.state() == BreakerState::HalfOpen;
        *self.out.by_second.entry(self.now / SECOND).or_default() += 1;
        let (answer, classified, after) = self.provider(intent);
        let flight = Flight {
            intent,
            attempt,
            ticket,
            probe,
            answer,
            classified,
        };
        self.flights.insert(self.sequence, flight);
        self.at(self.now + after, Event::Answer(self.sequence));
    }

    /// What the provider does with a request that leaves now: its answer, what that means, and after how long it comes.
    fn provider(&mut self, intent: usize) -> (Answer, Classified, u64) {
        let moods = self.play.moods.iter().rev();
        let mood = moods.clone().find(|(from, _)| *from <= self.now).unwrap().1;
        let latency = 50;
        let accepted = |world: &mut Self| {
            let taken = &mut world.taken[intent];
            // A key that is known is not taken again.
            *taken = if world.play.keyed { 1 } else { *taken + 1 };
            (response(201), classified(Verdict::Accepted, None), latency)
        };
        match mood {
            Mood::Well => accepted(self),
            Mood::Failing(share) if self.dice.throw() >= share => accepted(self),
            Mood::Failing(_) => (response(503), classified(Verdict::Unknown, None), latency),
            Mood::Silent | Mood::TakesAndHangs => {
                if mood == Mood::TakesAndHangs {
                    accepted(self);
                }
                let answer = Answer::Lost(LostCause::ReadTimeout);
                (answer, classified(Verdict::Unknown, None), 30 * SECOND)
            }
            Mood::Unreachable => {
                let answer = Answer::NotSent(NotSentCause::ConnectRefused);
                (answer, classified(Verdict::NotSent, None), 1)
            }
            Mood::Allowing { per_second, wait } => {
                if self.out.by_second[&(self.now / SECOND)] <= per_second {
                    return accepted(self);
                }
                self.out.throttled += 1;
                let wait = Wait {
                    at_least: wait,
                    scope: WaitScope::Account,
                    unit_doubt: false,
                };
                let throttled = classified(Verdict::Throttled, Some(wait));
                (response(429), throttled, latency)
            }
        }
    }

    fn answered(&mut self, flight: u64) {
        // One whose maker has died is answered to nobody.
        let Some(flight) = self.flights.remove(&flight) else {
            return;
        };
        let Flight {
            intent,
            attempt,
            ticket,
            probe,
            answer,
            mut classified,
        } = flight;
        let told = AccountAnswer {
            signal: Signal::of(&answer, &classified),
            wait: classified.wait,
        };
        let (now, jitter) = (self.clock(), self.dice.jitter());
        let state = self.gate.state();
        let noted = self.gate.answered(ticket, told, now, jitter);
        let opened = state == BreakerState::Closed && self.gate.state() == BreakerState::Open;
        if opened && self.out.openings == 0 {
            let on_the_wire = self.flights.len() + 1;
            self.out.in_flight_at_onset = self.out.in_flight_at_onset.max(on_the_wire);
        }
        self.out.openings += usize::from(opened);
        self.out.failed_probes += usize::from(probe && noted.spares);
        classified.flags.outage = noted.spares;
        let story = self.stories[intent].as_ref().unwrap();
        let heard = answer.is_heard();
        let jitter = self.dice.jitter();
        let answer = dispatch::answered(&classified, heard, story, &self.terms, now, jitter);
        let writer = Writer(Uuid::from_u128(self.writer));
        self.tell(intent, writer, Fact::Answered { attempt, answer });
        let story = self.stories[intent].as_ref().unwrap();
        if matches!(story.standing(), Standing::Accepted(_)) {
            self.out.accepted += 1;
            self.out.ended_at = self.now;
        }
        self.go_on(intent);
    }

    /// Nothing is left but the stories.
    fn crash(&mut self) {
        self.gate = (self.play.gate)();
        self.queue.clear();
        self.flights.clear();
        self.writer += 1;
        self.events.retain(|Reverse((_, _, event))| match event {
            Event::Answer(_) | Event::Crash | Event::Onset => true,
            Event::Wake(_) | Event::Look => false,
        });
        for intent in 0..self.stories.len() {
            let dead = self.stories[intent].is_some() && {
                matches!(self.step(intent), Step::SetAside { .. })
            };
            if !dead {
                let when = self.play.arrivals[intent].max(self.now);
                self.at(when, Event::Wake(intent));
            }
        }
    }

    fn tell(&mut self, intent: usize, writer: Writer, fact: Fact) {
        let origin = Position {
            partition: TopicPartition {
                topic: "send-intents".into(),
                partition: 0,
            },
            offset: Offset(i64::try_from(intent).unwrap()),
        };
        let entry = Entry {
            subject: Subject {
                event_id: None,
                key: Some(IdempotencyKey::derived(Uuid::from_u128(intent as u128))),
                fingerprint: IntentFingerprint([0; 32]),
                origin,
                recorded_at: Timestamp::EPOCH,
            },
            at: self.clock(),
            round: 0,
            writer,
            fact,
        };
        let story = Story::continued(self.stories[intent].as_ref(), &entry);
        self.stories[intent] = Some(story);
    }
}

fn response(status: u16) -> Answer {
    Answer::Response(Response {
        status,
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::new(),
        body_complete: true,
    })
}

fn classified(verdict: Verdict, wait: Option<Wait>) -> Classified {
    Classified {
        verdict,
        flags: Flags::default(),
        wait,
        message_id: None,
        status: None,
        provider_code: None,
        detail: "test",
    }
}
