//! Shows what follows what: stories in, steps out. Longer than 500 lines: one story a test, and the tests share its parts.

mod looking_up;
mod vendors;
mod windows;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;
use uuid::Uuid;

use super::super::attempt::{Wait, WaitScope};
use super::super::idempotency_key::{
    IdempotencyKey, IntentFingerprint, ProfileHash, RequestFingerprint,
};
use super::super::ledger_entry::{AttemptFacts, Entry, Fact, Rendering, Subject, Writer};
use super::super::position::{Offset, Position, TopicPartition};
use super::super::reconcile::Finding;
use super::super::retry::Backoff;
use super::*;

const START: Timestamp = Timestamp::from_millis(1_790_000_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

fn terms(key: Option<KeyTerms>) -> Terms {
    Terms {
        key,
        lookup: None,
        request_span: Duration::from_secs(35),
        transport_bound: Duration::from_secs(10),
        budget: 8,
        in_progress_max: 3,
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

fn keyed() -> Terms {
    terms(Some(KeyTerms {
        window: 24 * HOUR,
        margin: Duration::from_secs(105),
    }))
}

fn keyless() -> Terms {
    terms(None)
}

fn limits() -> Limits {
    Limits {
        expires_at: None,
        recorded_at: START,
        max_age: 24 * HOUR,
        owner: None,
    }
}

fn half() -> UnitFraction {
    UnitFraction::new(0.5).unwrap()
}

fn at(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

/// What one attempt came to in a test's story.
#[derive(Clone, Debug)]
enum Came {
    /// Answered with this verdict and these flags, heard in whole or not.
    To(Verdict, bool, Flags),
    /// Its maker died.
    ToNothing,
    /// We made no request.
    Withheld(Withheld),
}

fn heard(verdict: Verdict) -> Came {
    Came::To(verdict, true, Flags::default())
}

fn timed_out() -> Came {
    Came::To(Verdict::Unknown, false, Flags::default())
}

struct Told {
    story: Option<Story>,
    attempt: u32,
}

impl Told {
    fn nothing() -> Self {
        Self {
            story: None,
            attempt: 0,
        }
    }

    fn entry(at: Timestamp, fact: Fact) -> Entry {
        Entry {
            subject: Subject {
                event_id: Some("e-1".into()),
                key: Some(IdempotencyKey::derived(Uuid::nil())),
                fingerprint: IntentFingerprint([0; 32]),
                origin: Position {
                    partition: TopicPartition {
                        topic: "send-intents".into(),
                        partition: 0,
                    },
                    offset: Offset(0),
                },
                recorded_at: START,
            },
            at,
            round: 0,
            writer: Writer(Uuid::nil()),
            fact,
        }
    }

    fn add(&mut self, at: Timestamp, fact: Fact) {
        let entry = Self::entry(at, fact);
        match &mut self.story {
            Some(story) => story.fold(&entry),
            None => self.story = Some(Story::beginning(&entry)),
        }
    }

    /// An attempt that started at `start` and came to `came` two seconds later.
    fn attempt(mut self, terms: &Terms, start: Timestamp, came: &Came) -> Self {
        self.attempt += 1;
        let attempt = self.attempt;
        let rendering = Rendering {
            provider: "p".into(),
            profile: ProfileHash([0; 32]),
            request: RequestFingerprint([0; 32]),
        };
        let deadline = deadline(terms, start);
        self.add(
            start,
            Fact::Started {
                attempt,
                deadline,
                rendering,
            },
        );
        let answer = match came {
            Came::To(verdict, heard, flags) if flags.last_word => {
                Some((*verdict, *heard, *flags, "stored_error"))
            }
            Came::To(verdict, heard, flags) => Some((*verdict, *heard, *flags, "test")),
            Came::Withheld(reason) => {
                Some((Verdict::NotSent, true, Flags::default(), reason.name()))
            }
            Came::ToNothing => None,
        };
        if let Some((verdict, heard, flags, detail)) = answer {
            let classified = Classified {
                verdict,
                flags,
                wait: None,
                message_id: None,
                status: None,
                provider_code: None,
                detail,
            };
            let now = start.plus(Duration::from_secs(2));
            let story = self.story.as_ref().unwrap();
            let answer = answered(&classified, heard, story, terms, now, half());
            self.add(now, Fact::Answered { attempt, answer });
        }
        self
    }

    fn next(&self, terms: &Terms, limits: &Limits, now: Timestamp) -> Step {
        next(self.story.as_ref(), terms, limits, now, half())
    }
}

/// A step as one short line.
fn line(step: &Step) -> String {
    match step {
        Step::Settle => "settle".into(),
        Step::Start { attempt, .. } => format!("start {attempt}"),
        Step::Wait { until } => format!("wait until +{} ms", until.since(START).as_millis()),
        Step::LookUp { detail, .. } => format!("look up ({detail})"),
        Step::Conclude { id, answer } => format!("conclude {} {}", id.attempt, answer.verdict),
        Step::SetAside { reason, detail, .. } => format!("set aside {reason} ({detail})"),
        Step::ProduceDeadLetter { cause, .. } => format!("produce {}", cause.reason),
    }
}

/// After `came`, one attempt a quarter of an hour, asked long after the last one's due time.
fn after(terms: &Terms, came: &[Came]) -> String {
    let mut told = Told::nothing();
    for (n, came) in came.iter().enumerate() {
        told = told.attempt(terms, at(900 * n as u64), came);
    }
    line(&told.next(terms, &limits(), at(900 * came.len() as u64)))
}

#[test]
fn what_follows_one_answer_and_what_follows_two() {
    let mut kinds: Vec<(String, Came)> = Verdict::ALL
        .iter()
        .map(|verdict| (verdict.to_string(), heard(*verdict)))
        .collect();
    kinds.push(("timeout".into(), timed_out()));
    kinds.push(("died".into(), Came::ToNothing));
    let last_word = Flags {
        last_word: true,
        ..Flags::default()
    };
    kinds.push((
        "stored error".into(),
        Came::To(Verdict::Unknown, true, last_word),
    ));
    let burned = Flags {
        burned: true,
        ..Flags::default()
    };
    kinds.push(("burned".into(), Came::To(Verdict::Unknown, true, burned)));

    let mut table = String::new();
    for (name, came) in &kinds {
        let came = [came.clone()];
        let (key, no_key) = (after(&keyed(), &came), after(&keyless(), &came));
        writeln!(table, "{name:14} | {key:40} | {no_key}").unwrap();
    }
    for first in [
        "not_sent",
        "unknown",
        "timeout",
        "in_progress",
        "misconfigured",
    ] {
        let first_came = &kinds.iter().find(|(name, _)| name == first).unwrap().1;
        for (second, second_came) in &kinds {
            let came = [first_came.clone(), second_came.clone()];
            let (key, no_key) = (after(&keyed(), &came), after(&keyless(), &came));
            writeln!(
                table,
                "{:28} | {key:40} | {no_key}",
                format!("{first}, {second}")
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_first_attempt_starts_at_once_with_its_deadline() {
    let step = Told::nothing().next(&keyed(), &limits(), at(1));
    assert_eq!(
        step,
        Step::Start {
            round: 0,
            attempt: 1,
            deadline: at(41)
        }
    );
}

#[test]
fn an_intent_that_is_late_or_older_than_the_ledger_reaches_is_never_sent() {
    let late = Limits {
        expires_at: Some(at(10)),
        ..limits()
    };
    assert_eq!(
        line(&Told::nothing().next(&keyed(), &late, at(9))),
        "start 1"
    );
    assert_eq!(
        line(&Told::nothing().next(&keyed(), &late, at(10))),
        "set aside expired (expires_at)"
    );
    assert_eq!(
        line(&Told::nothing().next(&keyed(), &limits(), at(86_400))),
        "start 1"
    );
    assert_eq!(
        line(&Told::nothing().next(&keyed(), &limits(), at(86_401))),
        "set aside expired (too_old)"
    );
}

#[test]
fn the_age_of_the_record_does_not_end_a_series_that_has_begun() {
    let told = Told::nothing().attempt(&keyed(), at(86_000), &heard(Verdict::NotSent));
    assert_eq!(
        line(&told.next(&keyed(), &limits(), at(100_000))),
        "start 2"
    );
}

#[test]
fn the_next_attempt_waits_for_its_due_time_and_not_longer() {
    let told = Told::nothing().attempt(&keyed(), at(0), &heard(Verdict::NotSent));
    assert_eq!(
        line(&told.next(&keyed(), &limits(), at(2))),
        "wait until +2250 ms"
    );
    assert_eq!(line(&told.next(&keyed(), &limits(), at(3))), "start 2");
}

#[test]
fn the_budget_counts_what_was_not_sent_throttled_or_unknown_and_nothing_else() {
    for (verdict, end) in [
        (Verdict::NotSent, "set aside retries_exhausted (budget)"),
        (Verdict::Throttled, "set aside retries_exhausted (budget)"),
        (Verdict::Unknown, "set aside outcome_unknown (budget)"),
    ] {
        assert_eq!(after(&keyed(), &vec![heard(verdict); 7]), "start 8");
        assert_eq!(after(&keyed(), &vec![heard(verdict); 8]), end);
    }
    for verdict in [Verdict::Misconfigured, Verdict::AccountHold] {
        assert_eq!(after(&keyed(), &vec![heard(verdict); 60]), "start 61");
        assert_eq!(
            after(&keyed(), &vec![heard(verdict); 120]),
            "set aside retries_exhausted (attempts)",
            "a story stays small enough to be written"
        );
    }
}

#[test]
fn what_failed_while_the_provider_was_down_uses_no_budget_but_is_bounded() {
    let outage = Flags {
        outage: true,
        ..Flags::default()
    };
    for verdict in [Verdict::NotSent, Verdict::Unknown] {
        let spared = Came::To(verdict, true, outage);
        let mut came = vec![heard(verdict); 7];
        came.extend(vec![spared.clone(); 80]);
        assert_eq!(after(&keyed(), &came), "start 88");
        came.push(heard(verdict));
        let end = after(&keyed(), &came);
        assert!(end.ends_with("(budget)"), "{end}");
        let end = after(&keyed(), &vec![spared; 120]);
        assert!(
            end.ends_with("(attempts)") || end.ends_with("(window_closed)"),
            "{end}"
        );
    }
}

#[test]
fn a_probe_whose_maker_died_uses_no_budget_and_any_other_attempt_does() {
    let concluded = |outage| {
        let flags = Flags {
            outage,
            ..Flags::default()
        };
        let told = Told::nothing()
            .attempt(&keyed(), at(0), &Came::To(Verdict::Unknown, true, flags))
            .attempt(&keyed(), at(60), &Came::ToNothing);
        let Step::Conclude { answer, .. } = told.next(&keyed(), &limits(), at(120)) else {
            panic!("an attempt that nobody answered");
        };
        answer.flags.outage
    };
    assert!(concluded(true));
    assert!(!concluded(false));
}

#[test]
fn polls_of_a_key_in_progress_have_their_own_limit() {
    assert_eq!(
        after(&keyed(), &vec![heard(Verdict::InProgress); 3]),
        "start 4"
    );
    assert_eq!(
        after(&keyed(), &vec![heard(Verdict::InProgress); 4]),
        "set aside outcome_unknown (in_progress)"
    );
}

#[test]
fn p13_an_unknown_outcome_is_not_repeated_once_the_provider_may_have_forgotten_the_key() {
    let half_hour = terms(Some(KeyTerms {
        window: HOUR / 2,
        margin: Duration::from_secs(105),
    }));
    let mut told = Told::nothing().attempt(&half_hour, at(0), &timed_out());
    assert_eq!(
        line(&told.next(&half_hour, &limits(), at(1_694))),
        "start 2"
    );
    assert_eq!(
        line(&told.next(&half_hour, &limits(), at(1_695))),
        "set aside outcome_unknown (window_closed)"
    );
    told = told.attempt(&half_hour, at(60), &heard(Verdict::Throttled));
    let asked = Wait {
        at_least: Duration::from_secs(2_400),
        scope: WaitScope::Intent,
        unit_doubt: false,
    };
    let story = told.story.as_mut().unwrap();
    for facts in story.attempts.values_mut() {
        if let Some(answer) = facts
            .answered
            .as_mut()
            .filter(|a| a.verdict == Verdict::Throttled)
        {
            answer.due = half_hour.pace.due(
                Verdict::Throttled,
                Some(asked),
                1,
                at(62),
                UnitFraction::ZERO,
            );
        }
    }
    assert_eq!(
        line(&told.next(&half_hour, &limits(), at(63))),
        "set aside outcome_unknown (window_closed)",
        "a wait beyond the window ends the series at once"
    );
}

#[test]
fn a_clock_that_went_back_tells_nothing_about_the_window() {
    let told = Told::nothing().attempt(&keyed(), at(600), &timed_out());
    let back = |seconds| line(&told.next(&keyed(), &limits(), at(seconds)));
    assert_eq!(back(660), "start 2");
    assert_eq!(
        back(539),
        "set aside outcome_unknown (window_closed)",
        "a minute and more before the first attempt"
    );
}

#[test]
fn what_was_surely_not_sent_may_be_sent_after_any_time() {
    let told = Told::nothing().attempt(&keyed(), at(0), &heard(Verdict::NotSent));
    assert_eq!(
        line(&told.next(&keyed(), &limits(), at(30 * 86_400))),
        "start 2"
    );
}

#[test]
fn an_intent_that_expires_while_it_waits_is_set_aside_at_once() {
    let soon = Limits {
        expires_at: Some(at(60)),
        ..limits()
    };
    let told = Told::nothing().attempt(&keyed(), at(0), &heard(Verdict::Misconfigured));
    assert_eq!(
        line(&told.next(&keyed(), &soon, at(3))),
        "set aside expired (expires_at)"
    );
    let told = Told::nothing().attempt(&keyed(), at(58), &timed_out());
    assert_eq!(
        line(&told.next(&keyed(), &soon, at(61))),
        "set aside outcome_unknown (expires_at)"
    );
}

#[test]
fn a_rejection_speaks_for_earlier_attempts_only_if_they_were_answered_or_surely_gone() {
    let two = |first: Came, second_at: u64| {
        let told = Told::nothing().attempt(&keyed(), at(0), &first);
        let told = told.attempt(&keyed(), at(second_at), &heard(Verdict::Rejected));
        line(&told.next(&keyed(), &limits(), at(second_at + 5)))
    };
    assert_eq!(two(heard(Verdict::Unknown), 5), "set aside rejected (test)");
    assert_eq!(
        two(timed_out(), 49),
        "set aside outcome_unknown (rejected_after_unknown)"
    );
    assert_eq!(two(timed_out(), 50), "set aside rejected (test)");
    assert_eq!(
        two(timed_out(), 86_400),
        "set aside outcome_unknown (rejected_after_unknown)"
    );
}

fn owned((id, facts): (&AttemptId, &AttemptFacts)) -> (AttemptId, AttemptFacts) {
    (*id, facts.clone())
}

/// It may have been taken after the rejection, and answered then.
#[test]
fn a_rejection_does_not_speak_for_what_another_tenure_heard_unless_that_was_surely_gone() {
    let two = |second_at: u64| {
        let told = Told::nothing().attempt(&keyed(), at(0), &heard(Verdict::Unknown));
        let mut told = told.attempt(&keyed(), at(second_at), &heard(Verdict::Rejected));
        let story = told.story.as_mut().unwrap();
        let mut attempts: BTreeMap<_, _> = story.attempts.iter().map(owned).collect();
        let (first, facts) = attempts.pop_first().unwrap();
        let writer = Writer(Uuid::max());
        attempts.insert(AttemptId { writer, ..first }, facts);
        story.attempts = attempts.into();
        line(&told.next(&keyed(), &limits(), at(second_at + 5)))
    };
    assert_eq!(
        two(49),
        "set aside outcome_unknown (rejected_after_unknown)"
    );
    assert_eq!(two(50), "set aside rejected (test)");
}

/// The other's clock may be behind ours: what it had begun is over only by ours.
#[test]
fn a_rejection_speaks_for_another_tenure_s_attempt_only_once_that_is_over_by_our_own_clock() {
    let ended = |second_at: u64| {
        let told = Told::nothing().attempt(&keyed(), at(0), &timed_out());
        let mut told = told.attempt(&keyed(), at(second_at), &heard(Verdict::Rejected));
        let story = told.story.as_mut().unwrap();
        let mut attempts: BTreeMap<_, _> = story.attempts.iter().map(owned).collect();
        let (first, facts) = attempts.pop_first().unwrap();
        let writer = Writer(Uuid::max());
        attempts.insert(AttemptId { writer, ..first }, facts);
        story.attempts = attempts.into();
        let limits = Limits {
            owner: Some(Owner {
                writer: Writer(Uuid::nil()),
                since: at(30),
            }),
            ..limits()
        };
        line(&told.next(&keyed(), &limits, at(second_at + 5)))
    };
    // Taken over at 30; 40 s for what may have begun just before, 10 s of the transport's bound.
    assert_eq!(
        ended(79),
        "set aside outcome_unknown (rejected_after_unknown)"
    );
    assert_eq!(ended(80), "set aside rejected (test)");
}

#[test]
fn a_dead_letter_that_was_decided_is_produced_and_then_settles() {
    let mut told = Told::nothing().attempt(&keyed(), at(0), &heard(Verdict::Rejected));
    told.add(
        at(3),
        Fact::DeadLettering {
            reason: Reason::Rejected,
            detail: "test".into(),
        },
    );
    assert_eq!(
        line(&told.next(&keyed(), &limits(), at(4))),
        "produce rejected"
    );
    let partition = TopicPartition {
        topic: "send-intents.dlq".into(),
        partition: 0,
    };
    told.add(
        at(5),
        Fact::DeadLettered {
            at: Position {
                partition,
                offset: Offset(7),
            },
        },
    );
    assert_eq!(told.next(&keyed(), &limits(), at(6)), Step::Settle);
}

#[test]
fn an_acceptance_that_comes_late_stops_a_dead_letter_that_was_only_decided() {
    let mut told = Told::nothing().attempt(&keyless(), at(0), &timed_out());
    told.add(
        at(40),
        Fact::DeadLettering {
            reason: Reason::OutcomeUnknown,
            detail: "no_key".into(),
        },
    );
    let answer = Answered {
        verdict: Verdict::Accepted,
        ..interrupted(
            &Series {
                story: told.story.as_ref().unwrap(),
                round: 0,
            },
            &keyless(),
            at(41),
            half(),
        )
    };
    told.add(at(41), Fact::Answered { attempt: 1, answer });
    assert_eq!(told.next(&keyless(), &limits(), at(42)), Step::Settle);
}

#[test]
fn a_request_is_withheld_when_the_flush_took_too_long() {
    let told = Told::nothing().attempt(&keyed(), at(0), &timed_out());
    let told = told.attempt(&keyed(), at(10), &Came::ToNothing);
    let story = told.story.as_ref().unwrap();
    let ask = |limits: &Limits, now| may_send(story, &keyed(), limits, at(50), now);
    assert_eq!(ask(&limits(), at(15)), Ok(()), "it has its whole 35 s");
    let late = at(15).plus(Duration::from_millis(1));
    assert_eq!(ask(&limits(), late), Err(Withheld::DeadlinePassed));
    let soon = Limits {
        expires_at: Some(at(20)),
        ..limits()
    };
    let far = |limits: &Limits, now| may_send(story, &keyed(), limits, at(90_000), now);
    assert_eq!(far(&soon, at(20)), Err(Withheld::Expired));
    assert_eq!(far(&limits(), at(86_295)), Err(Withheld::WindowClosed));
}

#[test]
fn what_we_withheld_ourselves_uses_no_budget_and_is_bounded_by_the_number_of_attempts() {
    let withheld = |reason: Withheld| Came::Withheld(reason);
    for reason in Withheld::ALL {
        assert_eq!(after(&keyed(), &vec![withheld(reason); 60]), "start 61");
        assert_eq!(
            after(&keyed(), &vec![withheld(reason); 120]),
            "set aside retries_exhausted (attempts)"
        );
    }
    let mut came = vec![withheld(Withheld::DeadlinePassed); 20];
    came.extend(vec![heard(Verdict::NotSent); 7]);
    assert_eq!(after(&keyed(), &came), "start 28");
    came.push(heard(Verdict::NotSent));
    assert_eq!(
        after(&keyed(), &came),
        "set aside retries_exhausted (budget)"
    );
}

#[test]
fn the_longer_requests_are_withheld_the_longer_the_waits_between_them() {
    let mut told = Told::nothing();
    let mut waits = Vec::new();
    for n in 0..4 {
        let start = at(100 * n);
        told = told.attempt(&keyed(), start, &Came::Withheld(Withheld::DeadlinePassed));
        let Step::Wait { until } = told.next(&keyed(), &limits(), at(100 * n + 2)) else {
            panic!("it waits");
        };
        waits.push(until.since(at(100 * n + 2)).as_millis());
    }
    assert_eq!(waits, [250, 500, 1_000, 2_000]);
}

fn any_came() -> impl Strategy<Value = Came> {
    let verdicts = prop::sample::select(Verdict::ALL.to_vec());
    prop_oneof![
        9 => (verdicts, any::<bool>(), any::<[bool; 2]>()).prop_map(|(verdict, heard, flags)| {
            let [last_word, burned] = flags;
            Came::To(verdict, heard, Flags { last_word, burned, ..Flags::default() })
        }),
        1 => Just(Came::ToNothing),
    ]
}

proptest! {
    /// I4: without a key there is never another request once one may have been taken.
    #[test]
    fn a_keyless_unknown_is_never_repeated(came in prop::collection::vec(any_came(), 1..6)) {
        let mut told = Told::nothing();
        for (n, came) in came.iter().enumerate() {
            let now = at(900 * n as u64);
            let step = told.next(&keyless(), &limits(), now);
            let taken = told.story.as_ref().is_some_and(|story| {
                story.attempts.values().any(|facts| match &facts.answered {
                    Some(answer) => matches!(answer.verdict, Verdict::Unknown | Verdict::InProgress),
                    None => true,
                })
            });
            if taken {
                prop_assert!(!matches!(step, Step::Start { .. }), "{step:?}");
            }
            if !matches!(step, Step::Start { .. }) {
                break;
            }
            told = told.attempt(&keyless(), now, came);
        }
    }

    /// Whatever ends a series, a question that is open is named so, or was answered by a rejection under the key.
    #[test]
    fn an_open_question_is_never_called_by_another_reason(
        came in prop::collection::vec(any_came(), 1..12),
        expires in prop::option::of(0_u64..9_000),
    ) {
        let limits = Limits { expires_at: expires.map(at), ..limits() };
        let mut told = Told::nothing();
        for (n, came) in came.iter().enumerate() {
            told = told.attempt(&keyed(), at(900 * n as u64), came);
        }
        let now = at(900 * came.len() as u64);
        if let Step::SetAside { reason, .. } = told.next(&keyed(), &limits, now) {
            let open = came.iter().any(|came| {
                matches!(came, Came::To(Verdict::Unknown | Verdict::InProgress, _, _))
            });
            prop_assert!(!open || matches!(reason, Reason::OutcomeUnknown | Reason::Rejected));
        }
    }
}
