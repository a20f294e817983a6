//! An hour without the provider, in virtual time: what it costs, and how it ends.

use std::num::NonZeroU32;

use super::simulation::{HOUR, Mood, Outcome, Play, SECOND, play};
use super::*;
use crate::domain::dead_letter::Reason;

const ONSET: u64 = 60 * SECOND;
/// Failures at which a closed circuit opens, at most: 65 % of 50 answers.
const THRESHOLD: usize = 33;
/// Half of what an intent may spend.
const HALF_A_BUDGET: usize = 4;

/// The rules that ship.
fn rules() -> BreakerRules {
    let defaults: toml::Table = include_str!("../../../config/default.toml")
        .parse()
        .unwrap();
    let number = |section: &str, name: &str| {
        let number = defaults[section][name].as_integer().unwrap();
        u32::try_from(number).unwrap()
    };
    let span = |section: &str, name: &str| {
        let span = defaults[section][name].as_str().unwrap();
        let span: jiff::SignedDuration = span.parse().unwrap();
        span.unsigned_abs()
    };
    BreakerRules {
        answers: number("breaker", "answers"),
        window: span("breaker", "window"),
        share_percent: number("breaker", "share_percent"),
        in_row: number("breaker", "in_row"),
        first_probe: span("breaker", "first_probe"),
        probe_interval: span("retry", "probe_interval"),
    }
}

#[test]
fn what_is_held_against_the_outages_follows_from_the_rules_that_ship() {
    let defaults: toml::Table = include_str!("../../../config/default.toml")
        .parse()
        .unwrap();
    let budget = defaults["retry"]["budget"].as_integer().unwrap();
    assert_eq!(2 * HALF_A_BUDGET, usize::try_from(budget).unwrap());
    let failures = (rules().answers * rules().share_percent).div_ceil(100);
    assert_eq!(THRESHOLD, usize::try_from(failures).unwrap());
}

/// Ten intents a second for two minutes, in the middle of which the outage begins, and then one every ten seconds until
/// it is over.
fn arrivals() -> Vec<u64> {
    let busy = (0..1_200).map(|n| n * 100);
    let quiet = (0..354).map(|n| 120 * SECOND + n * 10 * SECOND);
    busy.chain(quiet).collect()
}

fn hour(keyed: bool, mood: Mood, seed: u64) -> Play {
    Play {
        seed,
        keyed,
        gate: || AccountGate::new(rules(), None),
        arrivals: arrivals(),
        moods: vec![(0, Mood::Well), (ONSET, mood), (ONSET + HOUR, Mood::Well)],
        crashes: Vec::new(),
    }
}

fn all_are_accepted(outcome: &Outcome, of: usize) {
    assert_eq!(outcome.accepted, of, "{outcome:?}");
    assert_eq!(outcome.dead_in_all(), 0, "{outcome:?}");
    assert_eq!(outcome.duplicates, 0, "{outcome:?}");
}

#[test]
fn after_an_hour_s_outage_of_a_keyed_provider_every_intent_is_accepted_and_budgets_are_intact() {
    for mood in [
        Mood::Failing(1.0),
        Mood::Failing(0.9),
        Mood::Silent,
        Mood::TakesAndHangs,
        Mood::Unreachable,
    ] {
        for seed in 0..3 {
            let outcome = play(hour(true, mood, seed));
            all_are_accepted(&outcome, arrivals().len());
            let bound = THRESHOLD * outcome.openings;
            assert!(outcome.budget_in_all < bound, "{mood:?}: {outcome:?}");
            assert!(outcome.budget_max <= HALF_A_BUDGET, "{mood:?}: {outcome:?}");
            let soon = ONSET + HOUR + 120 * SECOND;
            assert!(outcome.ended_at < soon, "{mood:?}: {outcome:?}");
        }
    }
}

#[test]
fn an_intent_that_is_alone_with_a_provider_that_is_down_outlives_the_hour() {
    for mood in [Mood::Failing(1.0), Mood::Silent, Mood::Unreachable] {
        for healthy_before in [0, 5, 100] {
            let before = (0..healthy_before).map(|n| n * 400);
            let mut alone = hour(true, mood, 1);
            alone.arrivals = before.chain([ONSET + SECOND]).collect();
            let count = alone.arrivals.len();
            let outcome = play(alone);
            all_are_accepted(&outcome, count);
            assert!(outcome.budget_max < 8, "{mood:?}: {outcome:?}");
        }
    }
}

#[test]
fn processes_that_die_during_the_outage_do_not_use_budgets_up() {
    let mut crashing = hour(true, Mood::Failing(1.0), 1);
    crashing.crashes = (1..=10).map(|n| ONSET + n * 300 * SECOND).collect();
    let outcome = play(crashing);
    all_are_accepted(&outcome, arrivals().len());
    assert!(outcome.budget_max < 8, "{outcome:?}");
}

#[test]
fn without_keys_an_outage_costs_what_was_in_flight_the_threshold_and_the_probes_that_failed() {
    for mood in [
        Mood::Failing(1.0),
        Mood::Failing(0.9),
        Mood::Silent,
        Mood::TakesAndHangs,
    ] {
        for seed in 0..3 {
            let outcome = play(hour(false, mood, seed));
            assert_eq!(outcome.duplicates, 0, "{outcome:?}");
            let unknown = (Reason::OutcomeUnknown, "no_key".to_owned());
            let lost = outcome.dead.get(&unknown).copied().unwrap_or(0);
            assert_eq!(outcome.dead_in_all(), lost, "{mood:?}: {outcome:?}");
            let bound = outcome.in_flight_at_onset + THRESHOLD + outcome.failed_probes;
            assert!(lost <= bound, "{mood:?}: {lost} > {bound}: {outcome:?}");
            assert!(lost >= 5, "{mood:?}: {outcome:?}");
        }
    }
}

#[test]
fn p21_what_never_reached_a_provider_without_keys_is_sent_when_it_is_back() {
    let outcome = play(hour(false, Mood::Unreachable, 1));
    all_are_accepted(&outcome, arrivals().len());
}

impl Outcome {
    /// Requests in the busiest second after the first one.
    fn busiest_second(&self) -> usize {
        self.by_second
            .range(1..)
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(0)
    }
}

fn twenty_a_second() -> AccountGate {
    let limit = RateLimit {
        per_second: NonZeroU32::new(20).unwrap(),
        burst: None,
    };
    AccountGate::new(rules(), Some(limit))
}

fn ten_a_second() -> AccountGate {
    let limit = RateLimit {
        per_second: NonZeroU32::new(10).unwrap(),
        burst: None,
    };
    AccountGate::new(rules(), Some(limit))
}

#[test]
fn nobody_comes_back_from_an_outage_in_lockstep() {
    for mood in [
        Mood::Failing(1.0),
        Mood::Failing(0.9),
        Mood::Silent,
        Mood::Unreachable,
    ] {
        let mut limited = hour(true, mood, 1);
        limited.gate = twenty_a_second;
        let outcome = play(limited);
        all_are_accepted(&outcome, arrivals().len());
        assert!(outcome.busiest_second() <= 30, "{mood:?}: {outcome:?}");
    }
}

/// 200 intents at once, all throttled for 30 s; then ten a second are taken.
fn storm(gate: fn() -> AccountGate) -> Play {
    let wait = Duration::from_secs(30);
    let nobody = Mood::Allowing {
        per_second: 0,
        wait,
    };
    let some = Mood::Allowing {
        per_second: 10,
        wait,
    };
    Play {
        seed: 1,
        keyed: true,
        gate,
        arrivals: vec![0; 200],
        moods: vec![(0, nobody), (SECOND, some)],
        crashes: Vec::new(),
    }
}

#[test]
fn p26_a_storm_of_429_costs_less_than_twice_what_was_in_flight_and_is_not_come_back_from_in_lockstep()
 {
    for gate in [
        || AccountGate::new(rules(), None),
        ten_a_second as fn() -> AccountGate,
    ] {
        let outcome = play(storm(gate));
        all_are_accepted(&outcome, 200);
        let in_flight = outcome.by_second[&0];
        assert!(
            outcome.throttled < 2 * in_flight,
            "{in_flight}: {outcome:?}"
        );
        assert!(outcome.budget_max < 8, "{outcome:?}");
        let during = (1..30).filter_map(|second| outcome.by_second.get(&second));
        assert_eq!(during.sum::<usize>(), 0, "nothing while it is paused");
    }
    let limited = play(storm(ten_a_second));
    assert!(limited.busiest_second() <= 15, "{limited:?}");
}
