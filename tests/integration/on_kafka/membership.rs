//! Members of a group that are slow, come and go: who has which partition, and what that does to work in flight.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use super::place::Place;
use crate::kafka_cluster::shared;
use crate::ledger_view::stories;
use crate::product::{Home, SOON, STUB_PROFILE, Sent, code, patient, sms};
use crate::scripted::{Act, Gate, Scripted, accepting, answer};
use crate::standing::attempts;
use crate::worker::Worker;

fn accepted() -> Vec<u8> {
    answer("201 Created", "", r#"{"id":"m"}"#)
}

async fn rebalances(worker: &Worker, kind: &str) -> u64 {
    worker
        .count("sendonce_rebalances_total", &[("kind", kind)])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn p35_a_slow_provider_costs_no_membership_and_a_frozen_process_comes_back_by_itself() {
    let Some(kafka) = shared() else { return };
    let place = Place::new(kafka, "p35", 1).await;
    let gates: Vec<Gate> = (0..4).map(|_| Gate::closed()).collect();
    let turns = gates
        .iter()
        .map(|gate| Act::AnswerAfter(gate.clone(), accepted()).taking());
    let provider = Scripted::playing(turns).await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE))
        .set("KAFKA__PROPERTIES__SESSION_TIMEOUT_MS", "2000")
        .set("KAFKA__PROPERTIES__MAX_POLL_INTERVAL_MS", "2000")
        .set("DISPATCH__CONCURRENCY", "1")
        .set("INTENTS__OPEN_MAX", "1");
    let home = Home::new(&setup);
    let records = [1, 2, 3].map(|n| Sent::json(&sms(&format!("e-{n}"), "hello")));
    place.publish(&records).await;

    // Each answer takes two and a half times the poll interval: this time must pass.
    let worker = home.start(&setup);
    for (number, gate) in (1..).zip(&gates[..3]) {
        provider.until_seen(number).await;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        gate.open();
    }
    place.until_committed_to_the_end().await;
    assert_eq!(rebalances(&worker, "assigned").await, 1);
    let left = rebalances(&worker, "revoked").await + rebalances(&worker, "lost").await;
    assert_eq!(left, 0, "it never left");
    assert_eq!(provider.seen().len(), 3);

    // Frozen until the coordinator has forgotten it, with a request in flight that is answered meanwhile.
    place.publish(&[Sent::json(&sms("e-4", "hello"))]).await;
    provider.until_seen(4).await;
    worker.signal(Signal::STOP);
    gates[3].open();
    place.until_members(0).await;
    worker.signal(Signal::CONT);
    place.until_committed_to_the_end().await;
    assert_eq!(rebalances(&worker, "lost").await, 1);
    assert_eq!(rebalances(&worker, "assigned").await, 2);
    assert_eq!(
        provider.seen().len(),
        4,
        "its result was recorded late, and its re-read suppressed"
    );
    assert_eq!(worker.count("sendonce_suppressed_total", &[]).await, 1);
}

/// Looks at what is committed again and again until it is dropped, and fails if any of it goes back.
struct NeverBack {
    stop: Arc<AtomicBool>,
    looking: Option<std::thread::JoinHandle<usize>>,
}

impl NeverBack {
    fn watch(kafka: &'static crate::kafka_cluster::Cluster, name: &'static str) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let looking = std::thread::spawn(move || {
            let mut before: Vec<Option<i64>> = Vec::new();
            let mut looks = 0;
            while !stopped.load(Ordering::SeqCst) {
                let now = kafka.committed(name, name);
                let back = before.iter().zip(&now).any(|(before, now)| now < before);
                assert!(!back, "{now:?} after {before:?}");
                before = now;
                looks += 1;
            }
            looks
        });
        Self {
            stop,
            looking: Some(looking),
        }
    }

    fn held(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let looking = self.looking.take().expect("a thread");
        assert!(looking.join().expect("nothing went back") > 1);
    }
}

/// Partitions that a worker's log says it took up, in order.
fn taken_up(home: &Home) -> Vec<i32> {
    let log = home.log();
    let lines = log.lines().filter(|line| line.contains("assigned: "));
    let partition = |line: &str| {
        let (_, rest) = line.split_once("partition=")?;
        let (_, number) = rest.split_whitespace().next()?.rsplit_once('/')?;
        number.parse().ok()
    };
    lines.filter_map(partition).collect()
}

/// Two members share two partitions with five sends in flight on each, until the second one leaves again. `in_time`: the
/// sends end within the drain of the revoked partition; otherwise they end long after it was let go.
async fn a_partition_moves_and_comes_back(name: &'static str, drain: &str, in_time: bool) {
    let Some(kafka) = shared() else { return };
    let place = Place::new(kafka, name, 2).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let provider = Scripted::by(move |request, before| {
        if before.iter().any(|earlier| earlier.key() == request.key()) {
            let mark = "Idempotent-Replayed: true\r\n";
            Act::Answer(answer("201 Created", mark, r#"{"id":"m"}"#)).not_taking()
        } else if request.body.contains("held") {
            Act::AnswerAfter(held.clone(), accepted()).taking()
        } else {
            accepting()
        }
    })
    .await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE))
        .set("SHUTDOWN__DRAIN", drain);
    let (home, other_home) = (Home::new(&setup), Home::new(&setup));
    let five = |partition: i32| {
        (0..5).map(move |n| Sent::json(&sms(&format!("e-{partition}-{n}"), "held")).at(partition))
    };
    let records: Vec<Sent> = five(0).chain(five(1)).collect();
    place.publish(&records).await;
    let commits = NeverBack::watch(kafka, name);

    let worker = home.start(&setup);
    provider.until_seen(10).await;
    let mut other = other_home.start(&setup);
    let revoked = [("kind", "revoked")];
    worker
        .until_count("sendonce_rebalances_total", &revoked, 1)
        .await;
    if in_time {
        gate.open();
    } else {
        // The other one has the partition from its beginning, and makes the same five requests.
        provider.until_seen(15).await;
        gate.open();
    }
    other
        .until_count("sendonce_rebalances_total", &[("kind", "assigned")], 1)
        .await;
    place.until_committed_to_the_end().await;
    place.until_members(2).await;
    let moved = taken_up(&other_home);
    assert_eq!(moved.len(), 1, "one partition moves, the other stays");

    other.term();
    assert_eq!(code(other.ended(SOON).await), 0, "{}", other_home.log());
    place.until_members(1).await;
    let after: Vec<Sent> = (0..2)
        .map(|partition| Sent::json(&sms(&format!("after-{partition}"), "hello")).at(partition))
        .collect();
    place.publish(&after).await;
    place.until_committed_to_the_end().await;
    commits.held();
    assert_eq!(taken_up(&home)[2..], moved, "it came back");
    let mut worker = worker;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0, "{}", home.log());

    let requests = if in_time { 12 } else { 17 };
    assert_eq!(provider.seen().len(), requests);
    let mut in_ledgers: BTreeMap<String, u64> = BTreeMap::new();
    for story in [&home, &other_home]
        .into_iter()
        .flat_map(|home| stories(&home.path("")))
    {
        assert!(story.accepted().is_some(), "{story:?}");
        let key = story.subject.key.as_ref().expect("a key").to_string();
        *in_ledgers.entry(key).or_default() += attempts(&story);
    }
    for (key, (made, delivered)) in provider.by_key() {
        assert_eq!(delivered, 1, "{key}");
        assert!(made <= in_ledgers[&key], "{key}");
    }
    assert_eq!(in_ledgers.len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn p29_work_of_a_revoked_partition_is_recorded_and_committed_before_it_moves() {
    a_partition_moves_and_comes_back("p29-drained", "30s", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p29_work_that_outlives_its_partition_is_recorded_late_and_repeated_under_the_same_key() {
    a_partition_moves_and_comes_back("p29-undrained", "200ms", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_that_starts_again_moves_no_partition() {
    let Some(kafka) = shared() else { return };
    let place = Place::new(kafka, "static-members", 4).await;
    let provider = Scripted::playing([accepting()]).await;
    let setup = |name: &str| {
        place
            .setup(&provider.url())
            .set("KAFKA__GROUP_INSTANCE_ID", name)
            .set("KAFKA__PROPERTIES__SESSION_TIMEOUT_MS", "60000")
    };
    let (first, second) = (setup("first"), setup("second"));
    let (home, other_home) = (Home::new(&first), Home::new(&second));
    let mut worker = home.start(&first);
    worker.until_ready().await;
    let other = other_home.start(&second);
    other
        .until_count("sendonce_rebalances_total", &[("kind", "assigned")], 1)
        .await;
    other.until_ready().await;
    place.until_members(2).await;
    let everywhere = |round: &str| -> Vec<Sent> {
        (0..4)
            .map(|partition| {
                Sent::json(&sms(&format!("{round}-{partition}"), "hello")).at(partition)
            })
            .collect()
    };
    place.publish(&everywhere("before")).await;
    place.until_committed_to_the_end().await;
    let before = {
        let kinds = ["assigned", "revoked", "lost"];
        let mut counts = Vec::new();
        for kind in kinds {
            counts.push(rebalances(&other, kind).await);
        }
        counts
    };
    let others = taken_up(&other_home);

    for (round, ends) in [("asked", Signal::TERM), ("killed", Signal::KILL)] {
        worker.signal(ends);
        let ended = worker.ended(SOON).await;
        assert_eq!(ended.success(), ends == Signal::TERM, "{}", home.log());
        place.publish(&everywhere(round)).await;
        let taken = taken_up(&home).len();
        worker = home.start(&first);
        place.until_committed_to_the_end().await;
        let mut again = taken_up(&home).split_off(taken);
        again.extend(&others);
        again.sort_unstable();
        assert_eq!(again, [0, 1, 2, 3], "each has what it had");
    }
    let mut after = Vec::new();
    for kind in ["assigned", "revoked", "lost"] {
        after.push(rebalances(&other, kind).await);
    }
    assert_eq!(after, before, "the other one noticed nothing");
    assert_eq!(provider.seen().len(), 12);
}
