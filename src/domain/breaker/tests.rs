use proptest::prelude::*;

use super::*;
use crate::domain::attempt::{Classified, Flags, Verdict};
use crate::domain::classify::{Answer, LostCause, NotSentCause, Response};

/// Rules by which little is enough.
pub(in crate::domain) const RULES: BreakerRules = BreakerRules {
    answers: 20,
    window: Duration::from_secs(60),
    share_percent: 50,
    in_row: 5,
    first_probe: Duration::from_secs(1),
    probe_interval: Duration::from_secs(60),
};
const NONE: Option<Wait> = None;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A request that is asked for and answered in the same moment.
fn one(breaker: &mut Breaker, now: Timestamp, signal: Signal) -> Noted {
    let ticket = breaker.ask(now).unwrap();
    breaker.answered(ticket, signal, NONE, now, UnitFraction::ZERO)
}

fn failing(breaker: &mut Breaker, now: Timestamp) -> Noted {
    one(breaker, now, Signal::Down(Cause::ServerError))
}

fn opened() -> Breaker {
    let mut breaker = Breaker::new(RULES);
    for _ in 0..5 {
        failing(&mut breaker, at(0));
    }
    breaker
}

#[test]
fn it_opens_at_the_fifth_failure_in_a_row_and_that_one_is_spared() {
    let mut breaker = Breaker::new(RULES);
    for n in 0..4 {
        // A minute and more apart: how old they are does not matter.
        let noted = failing(&mut breaker, at(n * 100_000));
        assert_eq!((noted.spares, noted.change), (false, None));
    }
    let noted = failing(&mut breaker, at(400_000));
    assert!(noted.spares);
    assert_eq!(noted.change, Some(Change::Opened(Cause::ServerError)));
    assert_eq!(breaker.state(), BreakerState::Open);
    assert_eq!(breaker.ask(at(400_999)), Err(Refusal::Until(at(401_000))));
}

#[test]
fn it_opens_at_the_tenth_failure_among_the_last_twenty_answers_of_a_minute() {
    let alternate = |apart: i64| {
        let mut breaker = Breaker::new(RULES);
        (0..40).find(|n| {
            let signal = if n % 2 == 0 {
                Signal::Alive
            } else {
                Signal::Down(Cause::Timeout)
            };
            one(&mut breaker, at(n * apart), signal).change.is_some()
        })
    };
    assert_eq!(alternate(10), Some(19), "ten failures among twenty");
    assert_eq!(alternate(4_000), None, "no ten within a minute");
}

#[test]
fn a_provider_of_which_one_answer_in_three_is_a_failure_is_not_down() {
    let mut breaker = Breaker::new(RULES);
    for n in 0..1_000 {
        let signal = match n % 3 {
            0 => Signal::Down(Cause::Broken),
            _ => Signal::Alive,
        };
        let noted = one(&mut breaker, at(n), signal);
        assert_eq!((noted.spares, noted.change), (false, None));
    }
}

#[test]
fn what_was_in_flight_when_it_opened_is_spared_and_proves_nothing() {
    let mut breaker = Breaker::new(RULES);
    let mut early: Vec<Ticket> = (0..10).map(|_| breaker.ask(at(0)).unwrap()).collect();
    for _ in 0..5 {
        failing(&mut breaker, at(10));
    }
    let down = Signal::Down(Cause::Timeout);
    let mut answer = |signal| {
        let ticket = early.pop().unwrap();
        breaker.answered(ticket, signal, NONE, at(500), UnitFraction::ZERO)
    };
    let spared = Noted {
        spares: true,
        change: None,
    };
    assert_eq!(answer(down), spared);
    let noted = answer(Signal::Alive);
    assert_eq!((noted.spares, noted.change), (false, None));
    assert_eq!(breaker.ask(at(500)), Err(Refusal::Until(at(1_010))));
}

#[test]
fn one_probe_at_a_time_and_twice_as_long_between_them_up_to_a_minute() {
    let mut breaker = opened();
    let mut now = 0;
    let mut waits = Vec::new();
    for _ in 0..9 {
        let Err(Refusal::Until(then)) = breaker.ask(at(now)) else {
            panic!("open");
        };
        waits.push((then.as_millis() - now) / 1_000);
        now = then.as_millis();
        let probe = breaker.ask(at(now)).unwrap();
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.ask(at(now)), Err(Refusal::UntilAnswered));
        let noted = breaker.answered(
            probe,
            Signal::Down(Cause::ServerError),
            NONE,
            at(now),
            UnitFraction::ZERO,
        );
        let quiet = Noted {
            spares: true,
            change: None,
        };
        assert_eq!(noted, quiet, "a probe that fails is no news");
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn room_grows_by_one_with_each_good_answer_and_goes_on_growing_once_it_is_closed() {
    let mut breaker = opened();
    let alive = |breaker: &mut Breaker, ticket| {
        breaker
            .answered(ticket, Signal::Alive, NONE, at(1_000), UnitFraction::ZERO)
            .change
    };
    let mut out = vec![breaker.ask(at(1_000)).unwrap()];
    let mut changes = Vec::new();
    let mut most = 0;
    for _ in 0..40 {
        let ticket = out.pop().unwrap();
        changes.extend(alive(&mut breaker, ticket));
        while let Ok(ticket) = breaker.ask(at(1_000)) {
            out.push(ticket);
        }
        assert!(out.len() <= most + 2);
        most = out.len();
    }
    assert_eq!(changes, [Change::Recovering, Change::Closed]);
    assert_eq!(out.len(), 41, "one more for each answer");
}

#[test]
fn a_failure_halves_the_room_and_none_is_left_means_down_again() {
    let mut breaker = opened();
    for _ in 0..3 {
        let _ = one(&mut breaker, at(1_000), Signal::Alive);
    }
    let fail = |breaker: &mut Breaker| failing(breaker, at(1_000));
    let spared = Noted {
        spares: true,
        change: None,
    };
    for _ in 0..2 {
        assert_eq!(fail(&mut breaker), spared, "a failure or two prove nothing");
    }
    assert_eq!(fail(&mut breaker), spared, "half of six: room for two");
    assert_eq!(fail(&mut breaker), spared, "room for one");
    let noted = fail(&mut breaker);
    assert_eq!(noted.change, Some(Change::FellBack(Cause::ServerError)));
    assert_eq!(
        breaker.ask(at(1_000)),
        Err(Refusal::Until(at(2_000))),
        "it has answered since, so the next probe comes soon"
    );
}

#[test]
fn a_provider_that_fails_half_of_the_time_is_let_alone_again_soon() {
    let mut breaker = Breaker::new(BreakerRules {
        share_percent: 65,
        ..RULES
    });
    for _ in 0..5 {
        failing(&mut breaker, at(0));
    }
    let mut answers = 0;
    while breaker.state() != BreakerState::Closed {
        answers += 1;
        assert!(answers < 40, "it stays half-open");
        let signal = match answers % 2 {
            0 => Signal::Down(Cause::Timeout),
            _ => Signal::Alive,
        };
        let _ = one(&mut breaker, at(1_000), signal);
    }
}

#[test]
fn five_failures_in_a_row_within_a_crowd_are_an_accident_unless_they_last() {
    let crowded = || {
        let mut breaker = Breaker::new(RULES);
        for _ in 0..RULES.answers {
            let _ = one(&mut breaker, at(0), Signal::Alive);
        }
        breaker
    };
    let mut breaker = crowded();
    for n in 0..6 {
        assert_eq!(failing(&mut breaker, at(n)).change, None, "{n}");
    }
    let mut breaker = crowded();
    for n in 0..4 {
        assert_eq!(failing(&mut breaker, at(300 * n)).change, None, "{n}");
    }
    let noted = failing(&mut breaker, at(1_200));
    assert_eq!(noted.change, Some(Change::Opened(Cause::ServerError)));
}

#[test]
fn an_account_that_refuses_us_gets_one_probe_a_minute_from_the_first_refusal_on() {
    let mut breaker = Breaker::new(RULES);
    let noted = one(&mut breaker, at(0), Signal::Down(Cause::Misconfigured));
    assert_eq!(noted.change, Some(Change::Opened(Cause::Misconfigured)));
    assert_eq!(breaker.ask(at(59_999)), Err(Refusal::Until(at(60_000))));
    let probe = breaker.ask(at(60_000)).unwrap();
    let jitter = UnitFraction::new(0.5).unwrap();
    let asked = Some(Wait {
        at_least: Duration::from_secs(600),
        scope: WaitScope::Intent,
        unit_doubt: false,
    });
    let hold = Signal::Down(Cause::AccountHold);
    breaker.answered(probe, hold, asked, at(60_000), jitter);
    assert_eq!(
        breaker.ask(at(60_000)),
        Err(Refusal::Until(at(60_000 + 630_000))),
        "a wait that was asked for is only ever lengthened"
    );
}

#[test]
fn a_probe_that_is_never_sent_makes_room_for_another() {
    let mut breaker = opened();
    let probe = breaker.ask(at(1_000)).unwrap();
    assert_eq!(breaker.ask(at(1_000)), Err(Refusal::UntilAnswered));
    breaker.unused(probe);
    assert!(breaker.ask(at(1_000)).is_ok());
}

#[test]
fn p21_p22_what_is_the_provider_s_fault_and_what_is_the_message_s() {
    use std::fmt::Write as _;

    let classified = |verdict, status, replay| Classified {
        verdict,
        flags: Flags {
            replay,
            ..Flags::default()
        },
        wait: None,
        message_id: None,
        status,
        provider_code: None,
        detail: "test",
    };
    let mut table = String::new();
    for cause in NotSentCause::ALL {
        let signal = Signal::of(
            &Answer::NotSent(cause),
            &classified(Verdict::NotSent, None, false),
        );
        writeln!(table, "not sent, {:15} {signal:?}", cause.label()).unwrap();
    }
    for cause in LostCause::ALL {
        let signal = Signal::of(
            &Answer::Lost(cause),
            &classified(Verdict::Unknown, None, false),
        );
        writeln!(table, "lost, {:19} {signal:?}", cause.label()).unwrap();
    }
    let answers = Verdict::ALL
        .into_iter()
        .flat_map(|verdict| [200, 408, 429, 503].map(|status| (verdict, status, false)));
    for (verdict, status, replay) in answers.chain([(Verdict::Unknown, 500, true)]) {
        let answer = Answer::Response(Response {
            status,
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::new(),
            body_complete: true,
        });
        let signal = Signal::of(&answer, &classified(verdict, Some(status), replay));
        let mark = if replay { "again" } else { "" };
        writeln!(table, "{status} {:14} {mark:6} {signal:?}", verdict.name()).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_look_up_speaks_for_the_account_only_if_it_cannot_be_reached() {
    let lookup = |answer| Signal::of_lookup(&answer);
    let speaks = |cause: NotSentCause| {
        let signal = lookup(Answer::NotSent(cause));
        (signal != Signal::Silent).then_some(cause)
    };
    let speaking: Vec<_> = NotSentCause::ALL.into_iter().filter_map(speaks).collect();
    let unreachable = [
        NotSentCause::Dns,
        NotSentCause::ConnectRefused,
        NotSentCause::ConnectTimeout,
        NotSentCause::ConnectFailed,
        NotSentCause::Tls,
        NotSentCause::TokenRefused,
        NotSentCause::TokenUnavailable,
    ];
    assert_eq!(speaking, unreachable);
    for cause in LostCause::ALL {
        assert_eq!(lookup(Answer::Lost(cause)), Signal::Silent);
    }
    for status in [200, 401, 404, 408, 429, 500, 503] {
        let answer = Answer::Response(Response {
            status,
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::new(),
            body_complete: true,
        });
        assert_eq!(lookup(answer), Signal::Silent, "{status}");
    }
}

#[derive(Clone, Debug)]
enum Act {
    Ask,
    Answer(usize, Signal),
    GiveBack(usize),
    Pass(i64),
}

fn acts() -> impl Strategy<Value = Act> {
    let signals = prop_oneof![
        3 => Just(Signal::Down(Cause::Timeout)),
        2 => Just(Signal::Alive),
        1 => Just(Signal::Silent),
        1 => Just(Signal::Down(Cause::AccountHold)),
    ];
    prop_oneof![
        4 => Just(Act::Ask),
        4 => (any::<usize>(), signals).prop_map(|(which, signal)| Act::Answer(which, signal)),
        1 => any::<usize>().prop_map(Act::GiveBack),
        2 => (0_i64..90_000).prop_map(Act::Pass),
    ]
}

proptest! {
    #[test]
    fn there_is_never_more_than_one_probe_and_it_closes_once_the_provider_has_recovered(
        acts in prop::collection::vec(acts(), 0..300)
    ) {
        let mut breaker = Breaker::new(RULES);
        let mut now = 0;
        // Tickets on the wire, and the opening that each was given after.
        let mut out: Vec<(Ticket, u64)> = Vec::new();
        let mut openings = 0_u64;
        let mut proven = true;
        for act in acts {
            let before = breaker.state();
            match act {
                Act::Ask => if let Ok(ticket) = breaker.ask(at(now)) {
                    out.push((ticket, openings));
                },
                Act::GiveBack(which) if !out.is_empty() => {
                    let (ticket, _) = out.swap_remove(which % out.len());
                    breaker.unused(ticket);
                }
                Act::Answer(which, signal) if !out.is_empty() => {
                    let (ticket, asked_at) = out.swap_remove(which % out.len());
                    let is_current = asked_at == openings;
                    let noted = breaker.answered(ticket, signal, NONE, at(now), UnitFraction::ZERO);
                    let failed = matches!(signal, Signal::Down(_));
                    let closed = breaker.state() == BreakerState::Closed;
                    prop_assert_eq!(noted.spares, failed && !(is_current && closed));
                    if is_current && signal == Signal::Alive {
                        proven = true;
                    }
                    if breaker.state() == BreakerState::Open && (is_current && failed) && before != BreakerState::Open {
                        openings += 1;
                        proven = false;
                    }
                }
                Act::Answer(..) | Act::GiveBack(_) => {}
                Act::Pass(span) => now += span,
            }
            if !proven {
                let probes = out.iter().filter(|(_, asked_at)| *asked_at == openings).count();
                prop_assert!(probes <= 1, "{} probes", probes);
            }
        }
        for (ticket, _) in out {
            breaker.unused(ticket);
        }
        let mut good = 0;
        while breaker.state() != BreakerState::Closed {
            match breaker.ask(at(now)) {
                Ok(ticket) => {
                    breaker.answered(ticket, Signal::Alive, NONE, at(now), UnitFraction::ZERO);
                    good += 1;
                }
                Err(Refusal::Until(then)) => {
                    prop_assert!(then > at(now) && then <= at(now + 66_000));
                    now = then.as_millis();
                }
                Err(Refusal::UntilAnswered) => prop_assert!(false, "nobody is asked"),
            }
            prop_assert!(good < 10);
        }
    }
}
