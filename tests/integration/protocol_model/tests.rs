use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::Protocol;
use super::configurations;
use super::rules::{Configuration, Rules};
use super::variants::{self, Variant};

/// For those who run it with `--nocapture`.
#[allow(
    clippy::print_stdout,
    reason = "how much was explored, and by which histories variants fall"
)]
fn tell(line: impl std::fmt::Display) {
    println!("{line}");
}

/// Explores a configuration whole: nothing that must hold falls, and what must be reachable is reached.
fn explore(rules: Rules, configuration: Configuration) {
    let protocol = Protocol::new(rules, configuration);
    let properties = protocol.properties();
    let checker = protocol.checker().spawn_bfs().join();
    tell(format_args!(
        "{}: {} states, {} steps between them, the longest history has {}",
        configuration.name,
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
    ));
    for property in properties {
        match (property.expectation, checker.discovery(property.name)) {
            (Expectation::Always | Expectation::Eventually, None)
            | (Expectation::Sometimes, Some(_)) => {}
            (Expectation::Always | Expectation::Eventually, Some(history)) => {
                let end = history.last_state().clone();
                panic!(
                    "{}: {} falls:\n{history}\n{end:#?}",
                    configuration.name, property.name
                );
            }
            (Expectation::Sometimes, None) => {
                panic!("{}: never: {}", configuration.name, property.name)
            }
        }
    }
}

macro_rules! configurations {
    ($($test:ident: $configuration:ident,)*) => {
        $(
            #[test]
            fn $test() {
                explore(Rules::TRUE, configurations::$configuration);
            }
        )*

        #[test]
        fn every_configuration_is_explored() {
            let explored = [$(configurations::$configuration.name),*];
            let all = configurations::ALL.iter().map(|configuration| configuration.name);
            assert_eq!(all.collect::<Vec<_>>(), explored);
        }
    };
}

configurations! {
    a_keyed_provider_in_the_middle_of_a_deploy: KEYED,
    a_keyed_provider_and_a_crash: KEYED_CRASH,
    a_keyed_provider_that_forgets_soon: SHORT_WINDOW,
    a_keyed_provider_that_forgets_soon_and_trouble: SHORT_WINDOW_TROUBLED,
    a_keyed_provider_that_forgets_soon_and_can_be_asked: SHORT_WINDOW_LOOK_UP,
    a_keyed_provider_that_rejects: REJECTING,
    a_provider_that_can_be_asked: LOOK_UP,
    a_provider_that_can_be_asked_and_a_crash: LOOK_UP_CRASH,
    a_provider_that_can_be_asked_and_is_slow: LOOK_UP_SLOW,
    a_provider_without_keys: KEYLESS,
    a_provider_without_keys_and_a_crash: KEYLESS_CRASH,
    two_tenures_of_one_instance: ONE_INSTANCE,
    three_tenures: THREE_TENURES,
    lost_acknowledgements: LOST_ACKNOWLEDGEMENTS,
    two_keys_in_one_partition: TWO_KEYS,
    parking: PARKING,
    parking_and_a_crash: PARKING_CRASH,
    parking_and_three_tenures: PARKING_THREE,
    parking_in_order: PARKING_IN_ORDER,
    two_operators_redrive: REDRIVES,
    two_operators_redrive_and_a_crash: REDRIVES_CRASH,
    decisions_on_an_unknown_outcome: UNKNOWN_REDRIVEN,
    cancelling: CANCELLING,
}

/// Each variant breaks the promise that it is said to break, and the history is printed by its length.
fn are_caught(variants: &[Variant]) {
    let mut missed = Vec::new();
    for variant in variants {
        // What must be reachable is looked for in the protocol itself.
        let configuration = Configuration {
            scenarios: &[],
            ..variant.configuration
        };
        let protocol = Protocol::new(variant.rules, configuration);
        let broken = HasDiscoveries::AnyOf([variant.breaks].into());
        let checker = protocol
            .checker()
            .finish_when(broken)
            .target_state_count(500_000)
            .spawn_bfs()
            .join();
        match checker.discovery(variant.breaks) {
            Some(history) => {
                let actions = history.into_actions();
                tell(format_args!(
                    "{}: `{}` falls after {} steps",
                    variant.name,
                    variant.breaks,
                    actions.len()
                ));
                if std::env::var_os(HISTORIES).is_some() {
                    actions
                        .iter()
                        .for_each(|action| tell(format_args!("    {action:?}")));
                }
            }
            None => missed.push((variant.name, variant.breaks)),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

/// Prints the histories of the broken variants too.
const HISTORIES: &str = "SENDONCE_TEST_HISTORIES";

#[test]
fn broken_markers_and_starts_are_caught() {
    are_caught(variants::MARKERS_AND_STARTS);
}

#[test]
fn broken_waits_are_caught() {
    are_caught(variants::WAITS);
}

#[test]
fn broken_settlements_are_caught() {
    are_caught(variants::SETTLEMENTS);
}

#[test]
fn broken_folds_and_decisions_are_caught() {
    are_caught(variants::FOLDS_AND_DECISIONS);
}

/// Where every start is read back, its maker has read all that came before it. The design asks for it all the same: it costs
/// nothing, and an acceptance that is read in time saves a request.
#[test]
fn a_second_look_at_the_fold_is_never_what_keeps_a_promise() {
    let rules = Rules {
        looks_again: false,
        ..Rules::TRUE
    };
    for configuration in [
        configurations::KEYED,
        configurations::KEYLESS_CRASH,
        configurations::ONE_INSTANCE,
        configurations::LOOK_UP,
        configurations::REDRIVES,
    ] {
        explore(rules, configuration);
    }
}
