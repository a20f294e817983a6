//! `demo` and `bench` as someone types them, in small. What they start are processes like any others.

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::{Map, Value};

use crate::product::sendonce;

#[test]
fn the_demo_delivers_each_intent_once_though_an_instance_is_killed() {
    let arguments = [
        "demo",
        "--intents",
        "800",
        "--rate",
        "400",
        "--seed",
        "7",
        "--json",
    ];
    let figures = figures(sendonce().args(arguments).output().unwrap());
    let names = [
        "accepted",
        "attempts",
        "dead_lettered",
        "deliveries",
        "duplicate_deliveries",
        "intents",
        "kills",
        "lost",
        "provider_replays",
        "seconds",
        "sends_per_second",
        "suppressed",
    ];
    assert_eq!(names_of(&figures), BTreeSet::from(names));
    let count = |name: &str| figures[name].as_u64().unwrap();
    assert_eq!((count("lost"), count("duplicate_deliveries")), (0, 0));
    assert_eq!((count("intents"), count("kills")), (800, 1));
    assert_eq!(count("accepted") + count("dead_lettered"), 800);
    assert!(
        count("attempts") > 1_000,
        "the provider was no harsh one: {figures:?}"
    );
}

#[test]
fn the_bench_measures_a_bare_client_and_the_pipeline() {
    let arguments = [
        "bench",
        "--intents",
        "1000",
        "--concurrency",
        "32",
        "--json",
    ];
    let figures = figures(sendonce().args(arguments).output().unwrap());
    let names = [
        "bare_per_second",
        "cpu_seconds_per_1000",
        "fsyncs",
        "p50_ms",
        "p99_ms",
        "pipeline_per_second",
        "ratio",
        "rss_mib_peak",
    ];
    assert_eq!(names_of(&figures), BTreeSet::from(names));
    for (name, value) in &figures {
        assert!(value.as_f64().unwrap() > 0.0, "{name} is {value}");
    }
}

/// The one object that was printed, by a process that succeeded.
fn figures(output: Output) -> Map<String, Value> {
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {talk}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names_of(figures: &Map<String, Value>) -> BTreeSet<&str> {
    figures.keys().map(String::as_str).collect()
}
