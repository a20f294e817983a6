//! House rules that the compiler does not know: who imports whom, names, lengths, and that what stands in two places
//! agrees. It reads the tree as text and knows nothing of behaviour.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::fs;

use queries::{Query, of_alert_tests, of_alerts, of_dashboard};
use sendonce::telemetry::declared::{self, Declared, Kind};
use tree::{Mention, mentions, read, rooted, rust_files, tokens, tracked_files, words};

#[path = "tidy/queries.rs"]
mod queries;
#[path = "tidy/tree.rs"]
mod tree;

/// The folders of `src`, each of which imports only itself and those before it.
const LINE: [&str; 6] = [
    "domain",
    "config",
    "telemetry",
    "adapters",
    "pipeline",
    "cli",
];

/// What would let the domain act, look at the clock, throw dice or speak.
const NOT_IN_DOMAIN: [&str; 16] = [
    "rdkafka",
    "sled",
    "reqwest",
    "prometheus",
    "tokio",
    "tracing",
    "hyper",
    "rand",
    "rustix",
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
];

/// Words that say nothing about what a thing decides.
const EMPTY_WORDS: [&str; 11] = [
    "manager", "managers", "handler", "handlers", "helper", "helpers", "util", "utils", "common",
    "misc", "info",
];

/// Source lines a file may have without saying why it has more.
const LINES_MAX: usize = 500;

#[test]
fn each_folder_imports_only_itself_and_those_to_its_left() {
    let breaches = mentions().filter(|mention| {
        let (from, to) = (place(&mention.module), place(&mention.path));
        match (from, to) {
            (Some(from), Some(to)) => to > from,
            _ => false,
        }
    });
    assert_none(
        "imports from its right",
        breaches.map(|mention| mention.to_string()),
    );
}

#[test]
fn the_stub_provider_and_the_service_do_not_know_each_other() {
    let breaches = mentions().filter(|mention| {
        let stub = |path: &[String]| path.first().is_some_and(|first| first == "stub_provider");
        let in_command_line = mention
            .module
            .first()
            .is_none_or(|first| first == "cli" || first == "main");
        match (stub(&mention.module), stub(&mention.path)) {
            (true, false) => mention.ours,
            (false, true) => mention.ours && !in_command_line,
            (true, true) | (false, false) => false,
        }
    });
    assert_none(
        "crosses to or from the stub",
        breaches.map(|mention| mention.to_string()),
    );
}

#[test]
fn adapters_do_not_import_one_another_but_may_all_look_at_the_clock() {
    let adapter = |path: &[String]| match path {
        [first, second, ..] if first == "adapters" => Some(second.clone()),
        _ => None,
    };
    let breaches =
        mentions().filter(
            |mention| match (adapter(&mention.module), adapter(&mention.path)) {
                (Some(from), Some(to)) => from != to && to != "clock",
                _ => false,
            },
        );
    assert_none(
        "imports a sibling",
        breaches.map(|mention| mention.to_string()),
    );
}

#[test]
fn the_domain_neither_acts_nor_looks_at_the_clock() {
    let banned = |mention: &&Mention| {
        let path = mention.path.join("::");
        let outside = NOT_IN_DOMAIN.iter().any(|banned| {
            path.strip_prefix(banned)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        });
        (!mention.ours && outside)
            || ["async", "await"].contains(&path.as_str())
            || path.ends_with("SystemTime::now")
    };
    let in_domain = mentions().filter(|mention| {
        mention
            .module
            .first()
            .is_some_and(|first| first == "domain")
    });
    assert_none(
        "does not belong in domain",
        in_domain.filter(banned).map(|mention| mention.to_string()),
    );
}

#[test]
fn only_ledgers_attest_that_something_is_durable() {
    let breaches = mentions().filter(|mention| {
        let attests = mention
            .path
            .ends_with(&["Persisted".to_owned(), "attest".to_owned()]);
        let ledger = mention.file.starts_with("src/adapters/ledger/");
        attests && !ledger && !mention.in_tests
    });
    assert_none(
        "is no ledger and attests",
        breaches.map(|mention| mention.to_string()),
    );
}

#[test]
fn a_long_file_says_why_it_is_long() {
    let breaches = rust_files().into_iter().filter_map(|file| {
        let text = read(&file);
        let lines = text.lines().count();
        let module_comment = text.lines().take_while(|line| line.starts_with("//!"));
        let says_why = module_comment
            .filter_map(|line| line.split_once("Longer than 500 lines:"))
            .any(|(_, why)| !why.trim().is_empty());
        (lines > LINES_MAX && !says_why).then(|| format!("{file}: {lines} lines"))
    });
    assert_none(
        "is too long, or says no `Longer than 500 lines: why`",
        breaches,
    );
}

#[test]
fn every_module_says_what_it_decides() {
    // Unit tests in a file of their own are still part of their module.
    let breaches = rust_files()
        .into_iter()
        .filter(|file| !file.ends_with("/tests.rs") && !read(file).starts_with("//! "));
    assert_none("opens without a module comment", breaches);
}

#[test]
fn names_say_what_a_thing_decides() {
    let mut breaches = Vec::new();
    for file in rust_files() {
        let from_path = file.trim_end_matches(".rs").split('/').flat_map(words);
        let empty = from_path.filter(|word| EMPTY_WORDS.contains(&word.as_str()) || word == "data");
        breaches.extend(empty.map(|word| format!("{file}: {word}")));

        let tokens = tokens(&read(&file));
        for pair in tokens.windows(2) {
            let [keyword, name] = pair else { continue };
            let named =
                ["fn", "mod", "struct", "enum", "trait", "type"].contains(&keyword.text.as_str());
            let words: Vec<String> = words(&name.text).collect();
            // `build_info` is the name that Prometheus gives that metric.
            let empty = words
                .iter()
                .any(|word| EMPTY_WORDS.contains(&word.as_str()))
                && name.text != "build_info";
            let vague = name.text.starts_with("process_");
            if named && (empty || vague) {
                breaches.push(format!("{file}:{}: {}", name.line, name.text));
            }
        }
    }
    assert_none("has a name that says nothing", breaches);
}

#[test]
fn no_tracked_file_names_a_place_on_somebodys_machine() {
    // Put together here, so that this file does not name them itself.
    let homes = ["root", "home", "Users", "work", "farm"].map(|home| format!("/{home}/"));
    let breaches = tracked_files().into_iter().filter_map(|file| {
        let text = fs::read(rooted(&file))
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())?;
        let at = text.lines().position(|line| {
            let begins_a_path = |home: &String| {
                line.match_indices(home.as_str()).any(|(at, _)| {
                    !line[..at].ends_with(|before: char| {
                        before.is_alphanumeric() || "._-/}$".contains(before)
                    })
                })
            };
            homes.iter().any(begins_a_path)
        })?;
        Some(format!("{file}:{}", at + 1))
    });
    assert_none("names a folder of one machine", breaches);
}

#[test]
fn dashboards_and_alerts_name_metrics_and_labels_that_exist() {
    let queries = of_dashboard(OVERVIEW)
        .into_iter()
        .chain(of_alerts("dashboards/alerts.yml"))
        .chain(of_alert_tests("dashboards/alerts_test.yml"));
    assert_none(
        "is not declared in src/telemetry/declared.rs",
        queries.flat_map(|query| undeclared(&query)),
    );
}

/// What a query names that no metric has.
fn undeclared(query: &Query) -> Vec<String> {
    let mut faults = Vec::new();
    let mut known: Vec<&str> = FROM_PROMETHEUS.to_vec();
    for selector in query.selectors() {
        let Some(metric) = metric(&selector.name) else {
            faults.push(format!("{}: {}", query.place, selector.name));
            continue;
        };
        known.extend(metric.labels.iter().map(|label| label.name));
        for (name, value) in &selector.matchers {
            let of_metric = metric.labels.iter().find(|label| label.name == name);
            let exists = of_metric.is_some() || FROM_PROMETHEUS.contains(&name.as_str());
            // Where the values are written out as a list, one that is asked for must be in it.
            let list = of_metric
                .map(|label| label.values.split(", "))
                .filter(|list| {
                    list.clone()
                        .all(|value| value.chars().all(|c| c.is_alphanumeric() || c == '_'))
                });
            let possible = match (list, value) {
                (Some(mut list), Some(value)) => list.any(|listed| listed == value),
                _ => true,
            };
            if !exists || !possible {
                faults.push(format!(
                    "{}: {}{{{name}={value:?}}}",
                    query.place, selector.name
                ));
            }
        }
    }
    let labels = query
        .labels()
        .into_iter()
        .filter(|label| !known.contains(&label.as_str()));
    faults.extend(labels.map(|label| format!("{}: label {label}", query.place)));
    faults
}

/// Labels that Prometheus itself adds.
const FROM_PROMETHEUS: [&str; 3] = ["instance", "job", "le"];

/// The metric under a name in a query. A histogram is asked for by its parts.
fn metric(name: &str) -> Option<&'static Declared> {
    declared::ALL.iter().find(|metric| match metric.kind {
        Kind::Counter | Kind::Gauge => metric.name == name,
        Kind::Histogram { .. } => name
            .strip_prefix(metric.name)
            .is_some_and(|part| ["_bucket", "_sum", "_count"].contains(&part)),
    })
}

const OVERVIEW: &str = "dashboards/overview.json";

#[test]
fn the_overview_shows_every_metric() {
    let shown: Vec<&str> = of_dashboard(OVERVIEW)
        .iter()
        .flat_map(Query::selectors)
        .filter_map(|selector| metric(&selector.name))
        .map(|metric| metric.name)
        .collect();
    let missing = declared::ALL
        .iter()
        .filter(|metric| !shown.contains(&metric.name));
    assert_none(
        "is on no panel of the overview",
        missing.map(|metric| metric.name.to_owned()),
    );
}

#[test]
fn every_alert_is_tested_both_ways() {
    let tests = read("dashboards/alerts_test.yml");
    let breaches = of_alerts("dashboards/alerts.yml")
        .into_iter()
        .filter_map(|rule| {
            let name = rule.place.rsplit(' ').next().expect("a name").to_owned();
            let silent = tests.contains(&format!("alertname: {name} }}"));
            let speaks = tests.contains(&format!("alertname: {name}\n        exp_alerts:"));
            (!silent || !speaks).then_some(name)
        });
    assert_none("is not shown to be silent and to speak", breaches);
}

#[test]
fn the_readme_names_the_two_commands_and_what_they_need() {
    let readme = read("README.md");
    for needed in ["cargo run --release -- demo", "cargo test", BUILD_PACKAGES] {
        assert!(readme.contains(needed), "README.md does not say: {needed}");
    }
}

/// What a bare Debian needs to build us, as one types it.
const BUILD_PACKAGES: &str = "gcc g++ make perl";

#[test]
fn the_image_and_the_checks_build_with_what_the_readme_names() {
    for file in ["Dockerfile", ".ci/run"] {
        assert!(
            read(file).contains(BUILD_PACKAGES),
            "{file} does not install {BUILD_PACKAGES}"
        );
    }
}

#[test]
fn one_version_of_rust_is_named_everywhere() {
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain
        .lines()
        .find_map(|line| line.strip_prefix("channel = \""))
        .and_then(|rest| rest.strip_suffix("\""))
        .expect("a channel");
    let minor = channel.rsplit_once('.').expect("three numbers").0;

    assert!(read("Cargo.toml").contains(&format!("rust-version = \"{minor}\"")));
    assert!(read("Dockerfile").contains(&format!("FROM rust:{channel}-")));
}

/// Where a module stands in the line. None for what is outside: the crate's root, the stub, other crates.
fn place(path: &[String]) -> Option<usize> {
    LINE.iter()
        .position(|folder| path.first().is_some_and(|first| first == folder))
}

fn assert_none(fault: &str, breaches: impl IntoIterator<Item = String>) {
    let breaches: Vec<String> = breaches.into_iter().collect();
    assert!(breaches.is_empty(), "{fault}:\n  {}", breaches.join("\n  "));
}
