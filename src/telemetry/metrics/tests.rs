#![expect(clippy::float_cmp, reason = "every value is exact in binary")]

use std::collections::BTreeSet;

use super::*;

fn partition(number: i32) -> TopicPartition {
    TopicPartition {
        topic: "send-intents".into(),
        partition: number,
    }
}

fn metrics() -> Metrics {
    Metrics::new(["captifi", "twilio"], ["send-intents", "marketing"]).unwrap()
}

fn series(metrics: &Metrics) -> BTreeSet<String> {
    let text = metrics.render().unwrap();
    let series = text.lines().filter(|line| !line.starts_with('#'));
    series
        .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
        .collect()
}

fn value(metrics: &Metrics, series: &str) -> f64 {
    let text = metrics.render().unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series))
        .expect(series);
    line.trim().parse().unwrap()
}

#[test]
fn every_declared_metric_is_rendered_with_its_help_and_no_other() {
    let metrics = metrics();
    metrics.uncommitted_span(&partition(0), 1);
    metrics.consumer_lag(&partition(0), 1);
    let text = metrics.render().unwrap();
    let rendered: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
        .map(|line| line.split_once(' ').unwrap().0)
        .collect();
    let declared: BTreeSet<&str> = declared::ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(rendered, declared);
}

#[test]
fn what_is_known_beforehand_is_there_from_the_start_at_zero() {
    let metrics = metrics();
    for series in [
        "sendonce_records_total",
        "sendonce_outcomes_total{outcome=\"accepted\",provider=\"captifi\"}",
        "sendonce_attempts_total{provider=\"twilio\",verdict=\"account_hold\"}",
        "sendonce_suppressed_total{reason=\"in_flight\"}",
        "sendonce_duplicate_rate{kind=\"suspected\"}",
        "sendonce_dead_letters_total{reason=\"outcome_unknown\"}",
        "sendonce_commits_total{result=\"stale\"}",
        "sendonce_rebalances_total{kind=\"lost\"}",
        "sendonce_ignored_total{reason=\"tombstone\"}",
        "sendonce_consumer_stalled",
    ] {
        assert_eq!(value(&metrics, series), 0.0, "{series}");
    }
}

#[test]
fn what_happens_is_counted_where_it_belongs() {
    let metrics = metrics();
    metrics.record();
    metrics.suppressed(Suppressed::Ledger);
    metrics.dead_letter(Reason::Expired);
    metrics.commit(CommitResult::Failed);
    metrics.ledger_size(7, 4096);
    metrics.ledger_disk_free(1 << 40);
    metrics.dead_letter_depth(|reason| u64::from(reason == Reason::Rejected) * 3);
    metrics.open_intents(|topic| match topic {
        "marketing" => (5, Duration::from_millis(1500)),
        _ => (0, Duration::ZERO),
    });
    let captifi = metrics.provider("captifi");
    captifi.attempt(Verdict::Unknown, Duration::from_millis(20));
    captifi.outcome(Outcome::Accepted);
    captifi.send_latency(Lane(1), Duration::from_secs(2));
    metrics.provider("gone").outcome(Outcome::DeadLettered);
    for (series, want) in [
        ("sendonce_records_total", 1.0),
        ("sendonce_suppressed_total{reason=\"ledger\"}", 1.0),
        ("sendonce_dead_letters_total{reason=\"expired\"}", 1.0),
        ("sendonce_commits_total{result=\"failed\"}", 1.0),
        ("sendonce_ledger_bytes", 4096.0),
        ("sendonce_ledger_disk_free_bytes", 1_099_511_627_776.0),
        ("sendonce_dead_letter_depth{reason=\"rejected\"}", 3.0),
        ("sendonce_open_intents{topic=\"send-intents\"}", 0.0),
        ("sendonce_oldest_open_seconds{topic=\"marketing\"}", 1.5),
        (
            "sendonce_send_latency_seconds_bucket{provider=\"captifi\",topic=\"marketing\",le=\"2.5\"}",
            1.0,
        ),
        (
            "sendonce_attempts_total{provider=\"captifi\",verdict=\"unknown\"}",
            1.0,
        ),
        (
            "sendonce_attempt_duration_seconds_bucket{provider=\"captifi\",le=\"0.025\"}",
            1.0,
        ),
        (
            "sendonce_outcomes_total{outcome=\"accepted\",provider=\"captifi\"}",
            1.0,
        ),
        (
            "sendonce_outcomes_total{outcome=\"dead_lettered\",provider=\"other\"}",
            1.0,
        ),
    ] {
        assert_eq!(value(&metrics, series), want, "{series}");
    }
}

#[test]
fn shares_of_duplicates_follow_the_clock() {
    let metrics = metrics();
    metrics.tick(Timestamp::EPOCH);
    metrics.suppressed(Suppressed::Ledger);
    metrics.provider("captifi").outcome(Outcome::Accepted);
    metrics.provider("captifi").replay();
    metrics.tick(Timestamp::from_millis(10_000));
    assert_eq!(
        value(&metrics, "sendonce_duplicate_rate{kind=\"suppressed\"}"),
        0.5
    );
    assert_eq!(
        value(&metrics, "sendonce_duplicate_rate{kind=\"replayed\"}"),
        0.5
    );
    metrics.tick(Timestamp::from_millis(400_000));
    metrics.tick(Timestamp::from_millis(710_000));
    assert_eq!(
        value(&metrics, "sendonce_duplicate_rate{kind=\"suppressed\"}"),
        0.0
    );
}

#[test]
fn a_partition_that_left_is_shown_no_more() {
    let metrics = metrics();
    metrics.uncommitted_span(&partition(3), 9);
    metrics.consumer_lag(&partition(3), 9);
    assert!(metrics.render().unwrap().contains("partition=\"3\""));
    metrics.partition_left(&partition(3));
    metrics.partition_left(&partition(4));
    assert!(!metrics.render().unwrap().contains("partition=\"3\""));
}

#[test]
fn p52_the_number_of_series_does_not_depend_on_what_is_sent() {
    let metrics = metrics();
    let before = series(&metrics);
    for number in 0..50_000 {
        let provider = metrics.provider(&format!("https://host-{number}.example/hook"));
        provider.attempt(
            Verdict::ALL[number % 9],
            Duration::from_millis(number as u64),
        );
        provider.outcome(Outcome::DeadLettered);
        metrics.dead_letter(Reason::ALL[number % 9]);
        metrics.record();
    }
    assert_eq!(series(&metrics), before);
    // Each provider has a fixed number of series, and so has everything else.
    let with = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("p{number}")).collect();
        series(&Metrics::new(names.iter().map(String::as_str), ["a", "b"]).unwrap()).len()
    };
    let (none, one, ten) = (with(0), with(1), with(10));
    assert_eq!(ten - none, 10 * (one - none));
}
