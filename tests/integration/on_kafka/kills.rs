//! The worker is killed at ten random moments, against a provider that fails every second request, and in the end every
//! intent has been delivered once.
//!
//! `SENDONCE_TEST_INTENTS` sets how many intents there are, `SENDONCE_TEST_SEED` repeats a run's moments and faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use sendonce::adapters::clock::Clock;
use sendonce::domain::ledger_entry::{Standing, Story};
use sendonce::stub_provider::{FaultMix, Options};
use tokio::time::Instant;

use crate::kafka_cluster::{Cluster, shared};
use crate::ledger_view::stories;
use crate::product::{Home, Sent, Setup, code, headers, publish};
use crate::stub::{Item, Stub};
use crate::waiting::until;

const TOPIC: &str = "kills";
const LETTERS: &str = "kills.dlq";
const GROUP: &str = "kills";
const PARTITIONS: usize = 8;
const KILLS: usize = 10;
/// What a run of continuous integration has time for on two cores beside its other suites.
const INTENTS: usize = 10_000;
/// Nothing may stand still for so long.
const AT_MOST: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_ten_random_moments_every_intent_is_delivered_once() {
    let Some(kafka) = shared() else { return };
    let intents: usize = from_environment("SENDONCE_TEST_INTENTS").unwrap_or(INTENTS);
    let seed: u64 = from_environment("SENDONCE_TEST_SEED").unwrap_or_else(any_seed);
    say(&format!("{intents} intents, SENDONCE_TEST_SEED={seed}"));
    let begun = Instant::now();

    kafka
        .create_topics(&[(TOPIC, PARTITIONS), (LETTERS, PARTITIONS)])
        .await;
    let stub = Stub::start(Options {
        faults: FaultMix::harsh(),
        seed,
        ..Options::default()
    })
    .await;
    let setup = Setup::new(kafka, &stub.url())
        .set("KAFKA__TOPIC", TOPIC)
        .set("KAFKA__GROUP", GROUP)
        // A member that was killed is missed after three seconds, and a wait between attempts is at most two.
        .set("KAFKA__PROPERTIES__SESSION_TIMEOUT_MS", "3000")
        .set("RETRY__CAP", "2s")
        .set("LOG__LEVEL", "warn");
    let home = Home::new(&setup);
    let records: Vec<Sent> = (0..intents).map(record).collect();
    publish(kafka, TOPIC, &records).await;
    say(&format!("published after {:.1?}", begun.elapsed()));

    let mut committed = vec![0; PARTITIONS];
    let mut worker = home.start(&setup);
    for moment in moments(seed, intents) {
        let deliveries = async || stub.stats().await.deliveries;
        let seen = until("deliveries", AT_MOST, deliveries, |seen| *seen >= moment).await;
        worker.kill();
        let ledger = stories(&home.path(""));
        committed = check_commits(kafka, &committed, &ledger);
        say(&format!(
            "killed after {seen} deliveries, {:.1?}; {} open, {} committed",
            begun.elapsed(),
            ledger.iter().filter(|story| !story.is_settled()).count(),
            committed.iter().sum::<i64>(),
        ));
        worker = home.start(&setup);
    }
    kafka
        .until_committed_to_the_end(GROUP, TOPIC, AT_MOST)
        .await;
    let took = begun.elapsed();
    worker.term();
    assert_eq!(code(worker.ended(AT_MOST).await), 0, "{}", home.log());

    let stats = stub.stats().await;
    assert_eq!(stats.duplicate_deliveries, 0, "{stats:?}");
    assert_eq!(stats.keys_with_differing_requests, 0, "{stats:?}");
    let ledger = stories(&home.path(""));
    check_commits(kafka, &committed, &ledger);
    let wire = stub.deliveries().await;
    let letters = dead_letters(kafka);
    check_ends(&ledger, &wire, &letters, intents);
    assert!(!home.log().contains("panicked"), "{}", home.log());

    let attempts: usize = ledger.iter().map(|story| story.attempts.len()).sum();
    let requests: u64 = wire.iter().map(|item| item.requests).sum();
    say(&format!(
        "{intents} intents, {KILLS} kills, {took:.1?}: {attempts} attempts, {requests} requests, {} deliveries, 0 duplicates, \
         0 lost, {} dead letters",
        stats.deliveries,
        letters.len(),
    ));
}

/// Intent `number`, for a device that no other intent is for.
fn record(number: usize) -> Sent {
    let intent = serde_json::json!({
        "id": event_id(number), "channel": "push", "to": format!("device-{number}"),
        "content": {"text": format!("Your code is {number}")},
    });
    // Of every twenty intents two share a Kafka key, so that there is an order to keep as well.
    let key = number - number % 20 / 19;
    Sent::json(&intent).keyed(&key.to_string())
}

fn event_id(number: usize) -> String {
    format!("event-{number}")
}

/// After how many deliveries the worker is killed, each time.
fn moments(seed: u64, intents: usize) -> Vec<u64> {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut moments: Vec<u64> = (0..KILLS)
        .map(|_| dice.random_range(1..intents as u64))
        .collect();
    moments.sort_unstable();
    moments
}

/// What is committed now: nowhere less than `before`, and nothing of it without a durable end in the ledger.
fn check_commits(kafka: &Cluster, before: &[i64], ledger: &[Story]) -> Vec<i64> {
    let committed: Vec<i64> = kafka
        .committed(GROUP, TOPIC)
        .into_iter()
        .map(|offset| offset.unwrap_or(0))
        .collect();
    let settled: BTreeSet<(i32, i64)> = ledger
        .iter()
        .filter(|story| story.is_settled())
        .map(|story| &story.subject.origin)
        .map(|origin| (origin.partition.partition, origin.offset.0))
        .collect();
    for (partition, (now, before)) in (0..).zip(committed.iter().zip(before)) {
        assert!(now >= before, "partition {partition}: {now} < {before}");
        let open = (0..*now).find(|offset| !settled.contains(&(partition, *offset)));
        assert_eq!(open, None, "committed over it in partition {partition}");
    }
    committed
}

/// The reason of each dead letter, by event.
fn dead_letters(kafka: &Cluster) -> BTreeMap<String, String> {
    let letters = kafka.records(LETTERS);
    let named = letters.iter().map(headers).map(|mut headers| {
        let mut header = |name: &str| headers.remove(name).unwrap_or_default();
        (header("sendonce-event-id"), header("sendonce-reason"))
    });
    named.collect()
}

/// Every intent was delivered once or lies in the dead letters, as the ledger says; no request was made without an attempt
/// in the ledger, and every acceptance is known there by the provider's own message id.
fn check_ends(ledger: &[Story], wire: &[Item], letters: &BTreeMap<String, String>, intents: usize) {
    let by_key: BTreeMap<&str, &Item> = wire
        .iter()
        .filter_map(|item| Some((item.key.as_deref()?, item)))
        .collect();
    let mut ended = BTreeSet::new();
    for story in ledger {
        let event = story.subject.event_id.as_deref().expect("an event");
        let key = story.subject.key.as_ref().expect("a key").as_str();
        let item = by_key.get(key);
        let requests = item.map_or(0, |item| item.requests);
        assert!(
            story.attempts.len() as u64 >= requests,
            "{item:?} {story:?}"
        );
        match story.standing() {
            Standing::Accepted(answer) => {
                let item = item.expect("a request");
                assert_eq!(item.deliveries, 1, "{item:?}");
                // The id is in the body, which may have been cut.
                let id = answer.message_id.as_deref();
                assert!(answer.flags.id_absent || id == item.message_id.as_deref());
            }
            Standing::DeadLettered(cause) => {
                assert_eq!(letters.get(event), Some(&cause.reason.to_string()));
            }
            Standing::Open | Standing::DeadLettering(_) => panic!("without an end: {story:?}"),
        }
        ended.insert(event.to_owned());
    }
    let all: BTreeSet<String> = (0..intents).map(event_id).collect();
    assert_eq!(ended, all);
    assert_eq!(ledger.len(), intents);
    assert_eq!(wire.len(), by_key.len(), "a request without a key");
}

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn any_seed() -> u64 {
    Clock::default().random_uuid().as_u64_pair().1
}

/// Says it on the terminal though the test passes: the seed and the figures are what one reads such a run for.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "kills: {text}");
}
