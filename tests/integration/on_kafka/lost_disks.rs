//! Two workers of one group, each with a ledger on a disk of its own. One after the other is killed for good: its disk never
//! comes back, and a new instance with an empty one takes its place. What was sent is known all the same.
//!
//! `SENDONCE_TEST_INTENTS` and `SENDONCE_TEST_KILLS` set the size of a run.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rustix::process::Signal;
use sendonce::domain::ledger_entry::Story;
use sendonce::stub_provider::{Fault, FaultMix, Options};
use tokio::time::Instant;

use super::place::Place;
use crate::dead_letters::DeadLetter;
use crate::kafka_cluster::{Size, private, shared};
use crate::ledger_view::stories;
use crate::product::{Home, KEYLESS_PROFILE, STUB_PROFILE, Sent, code};
use crate::stub::{Stub, mix};
use crate::waiting::until;
use crate::worker::Worker;

const PARTITIONS: usize = 4;
const INTENTS: usize = 2_000;
const KILLS: usize = 4;
const AT_MOST: Duration = Duration::from_secs(300);

const BY_REFERENCE: &str = r#"
unacknowledged = "500ms"

[lookup]
proof  = "reference"
url    = "http://127.0.0.1:8090/v1/messages?reference={{ reference }}"
delay  = "500ms"
keeps  = "1h"
items  = "/messages"
page   = 50
id     = "/id"
ours   = { "/reference" = "{{ reference }}" }
"#;

/// What a run came to.
struct Run {
    /// Dead letters by reason.
    letters: BTreeMap<String, usize>,
    deliveries: u64,
}

/// Kills one of two workers again and again, each time at another place of the course, and holds the end to what must hold
/// whatever the provider is.
async fn killed_for_good(name: &str, profile: &str, options: Options) -> Option<Run> {
    let kafka = shared()?;
    let intents = from_environment("SENDONCE_TEST_INTENTS").unwrap_or(INTENTS);
    let kills = from_environment("SENDONCE_TEST_KILLS").unwrap_or(KILLS);
    let place = Place::new(kafka, name, PARTITIONS).await;
    kafka
        .create_topics(&[(&place.ledger_topic(), PARTITIONS)])
        .await;
    let stub = Stub::start(options).await;
    let setup = place
        .setup(&stub.url())
        .with_profile(profile)
        .set("LEDGER__REPLICATION", "topic")
        .set("KAFKA__PROPERTIES__SESSION_TIMEOUT_MS", "3000")
        .set("RETRY__CAP", "1s")
        // Slow enough that each kill finds something to interrupt.
        .set("DISPATCH__CONCURRENCY", "16")
        .set("LOG__LEVEL", "warn");
    let records: Vec<Sent> = (0..intents).map(record).collect();
    place.publish(&records).await;

    let begun = Instant::now();
    let mut homes = vec![Home::new(&setup), Home::new(&setup)];
    let mut workers: Vec<Worker> = homes.iter().map(|home| home.start(&setup)).collect();
    for kill in 1..=kills {
        let moment = (intents * kill / (kills + 1)) as u64;
        let ended = async || committed_and_delivered(&place, &stub).await;
        until("intents to end", AT_MOST, ended, |(_, seen)| {
            *seen >= moment
        })
        .await;
        workers.remove(0).kill();
        let home = Home::new(&setup);
        workers.push(home.start(&setup));
        homes.push(home);
    }
    let all = i64::try_from(intents).unwrap();
    let ended = async || committed_and_delivered(&place, &stub).await;
    until("the end", AT_MOST, ended, |(committed, _)| {
        *committed == all
    })
    .await;
    let took = begun.elapsed();
    let set_aside = by_identity(place.letters()).len() as u64;
    let shown = async || {
        let mut sum = 0;
        for worker in &workers {
            sum += worker.count("sendonce_dead_letter_depth", &[]).await;
        }
        sum
    };
    until("the depth", AT_MOST, shown, |sum| *sum == set_aside).await;
    for mut worker in workers {
        worker.term();
        assert_eq!(code(worker.ended(AT_MOST).await), 0);
    }

    let mut delivered: BTreeMap<String, u64> = BTreeMap::new();
    let (mut requests, mut deliveries) = (0, 0);
    for item in stub.deliveries().await {
        requests += item.requests;
        deliveries += item.deliveries;
        *delivered
            .entry(item.recipient.unwrap_or_default())
            .or_default() += item.deliveries;
    }
    let twice: Vec<_> = delivered.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{name}: delivered twice: {twice:?}");
    let letters = by_identity(place.letters());

    // Every instance follows all partitions: the last one knows how each intent ended, whoever brought it to its end.
    let last = homes.last().expect("a home");
    let known = stories(&last.path(""));
    assert_eq!(known.len(), intents, "{name}: the stories of all");
    let open: Vec<_> = known.iter().filter(|story| !story.is_settled()).collect();
    assert!(open.is_empty(), "{name}: {open:?}");
    let attempts: u64 = known.iter().map(|story| story.attempts.len() as u64).sum();
    assert!(
        attempts >= requests,
        "{name}: {requests} requests, {attempts} attempts"
    );
    let accepted: Vec<_> = known
        .iter()
        .filter(|story| story.accepted().is_some())
        .collect();
    assert_eq!(
        accepted.len() + letters.len(),
        intents,
        "{name}: nothing is lost"
    );
    for story in accepted {
        let to = recipient(story);
        assert_eq!(delivered.get(&to), Some(&1), "{name}: {story:?}");
    }
    for home in &homes {
        assert!(!home.log().contains("panicked"), "{name}: {}", home.log());
    }

    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for letter in letters.into_values() {
        *reasons.entry(letter.reason).or_default() += 1;
    }
    let _ = writeln!(
        std::io::stderr(),
        "lost disks, {name}: {intents} intents, {kills} kills for good, {took:.1?}: {attempts} attempts, {requests} requests, \
         {deliveries} deliveries, 0 duplicates, 0 lost, dead letters {reasons:?}"
    );
    Some(Run {
        letters: reasons,
        deliveries,
    })
}

/// A letter that a crash let be written twice counts once: it is named by its record's place. No intent here has a second round.
fn by_identity(letters: Vec<DeadLetter>) -> BTreeMap<(i32, i64), DeadLetter> {
    letters
        .into_iter()
        .map(|letter| (letter.origin, letter))
        .collect()
}

/// Positions that are committed in all partitions, and messages that were delivered.
async fn committed_and_delivered(place: &Place<'_>, stub: &Stub) -> (i64, u64) {
    let committed = place.committed().into_iter().flatten().sum();
    (committed, stub.stats().await.deliveries)
}

/// Intent `number`, for a device that no other intent is for.
fn record(number: usize) -> Sent {
    Sent::json(&serde_json::json!({
        "id": format!("event-{number}"), "channel": "push", "to": format!("device-{number}"),
        "content": {"text": format!("Your code is {number}")},
    }))
    .keyed(&number.to_string())
}

fn recipient(story: &Story) -> String {
    let event = story.subject.event_id.as_deref().expect("an event");
    event.replace("event-", "device-")
}

fn from_environment(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn with_keys_nothing_is_doubled_or_lost_although_disks_never_come_back() {
    let options = Options {
        faults: FaultMix::harsh(),
        seed: 1,
        ..Options::default()
    };
    let Some(run) = killed_for_good("lost-disks-keyed", STUB_PROFILE, options).await else {
        return;
    };
    assert_eq!(run.letters.get("outcome_unknown"), None);
    assert!(run.deliveries > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_look_ups_nothing_is_doubled_or_lost_although_disks_never_come_back() {
    let profile = format!("{KEYLESS_PROFILE}{BY_REFERENCE}");
    let options = Options {
        keys: false,
        lookups: Some(Duration::from_millis(200)),
        faults: lossy(),
        seed: 2,
        ..Options::default()
    };
    let Some(run) = killed_for_good("lost-disks-asked", &profile, options).await else {
        return;
    };
    assert_eq!(run.letters.get("outcome_unknown"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_nothing_is_doubled_although_disks_never_come_back_and_the_unknown_is_set_aside()
 {
    let options = Options {
        keys: false,
        faults: lossy(),
        seed: 3,
        ..Options::default()
    };
    let Some(run) = killed_for_good("lost-disks-keyless", KEYLESS_PROFILE, options).await else {
        return;
    };
    let reasons: Vec<_> = run.letters.keys().collect();
    assert_eq!(reasons, ["outcome_unknown"]);
}

/// The rules of the log and those of the group both keep a process that was frozen from sending what another one has sent.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_wakes_after_another_has_gone_on_sends_nothing_again() {
    let Some(kafka) = shared() else { return };
    let place = Place::new(kafka, "woken-owner", 1).await;
    kafka.create_topics(&[(&place.ledger_topic(), 1)]).await;
    let stub = Stub::start(Options {
        keys: false,
        ..Options::default()
    })
    .await;
    let setup = place
        .setup(&stub.url())
        .with_profile(KEYLESS_PROFILE)
        .set("LEDGER__REPLICATION", "topic")
        .set("KAFKA__PROPERTIES__SESSION_TIMEOUT_MS", "3000")
        .set("DISPATCH__CONCURRENCY", "4");
    let records: Vec<Sent> = (0..1_000).map(record).collect();
    place.publish(&records[..900]).await;
    let (first, second) = (Home::new(&setup), Home::new(&setup));
    let sleeper = first.start(&setup);
    let delivered = async || stub.stats().await.deliveries;
    until("some to be delivered", AT_MOST, delivered, |seen| {
        *seen >= 100
    })
    .await;
    sleeper.signal(Signal::STOP);
    let before = stub.stats().await.deliveries;
    assert!(before < 900, "it was interrupted: {before}");
    let other = second.start(&setup);
    place.until_committed_to_the_end().await;
    sleeper.signal(Signal::CONT);
    place.publish(&records[900..]).await;
    place.until_members(2).await;
    place.until_committed_to_the_end().await;

    for mut worker in [sleeper, other] {
        worker.term();
        assert_eq!(code(worker.ended(AT_MOST).await), 0);
    }
    let mut delivered: BTreeMap<String, u64> = BTreeMap::new();
    for item in stub.deliveries().await {
        *delivered
            .entry(item.recipient.unwrap_or_default())
            .or_default() += item.deliveries;
    }
    let twice: Vec<_> = delivered.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "delivered twice: {twice:?}");
    // What the sleeper had begun when it was stopped nobody can know of.
    let letters = place.letters();
    assert!(letters.len() <= 4, "{letters:?}");
    assert!(
        letters
            .iter()
            .all(|letter| letter.reason == "outcome_unknown")
    );
    assert!(delivered.len() + letters.len() >= 1_000);
}

/// Somebody has deleted the topic under a running worker and made it anew: the worker says again that it is the owner, and
/// goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_topic_that_is_made_anew_under_its_owner_is_owned_again() {
    let Some(kafka) = private(Size::One, &[]) else {
        return;
    };
    let place = Place::new(&kafka, "made-anew", 1).await;
    let ledger = place.ledger_topic();
    kafka.create_topics(&[(&ledger, 1)]).await;
    let stub = Stub::start(Options {
        keys: false,
        ..Options::default()
    })
    .await;
    let setup = place
        .setup(&stub.url())
        .with_profile(KEYLESS_PROFILE)
        .set("LEDGER__REPLICATION", "topic")
        .set("RETRY__BASE", "20ms");
    let home = Home::new(&setup);
    let records: Vec<Sent> = (0..20).map(record).collect();
    place.publish(&records[..4]).await;
    let _worker = home.start(&setup);
    place.until_committed_to_the_end().await;
    let admin: AdminClient<DefaultClientContext> = kafka.client().create().expect("a client");
    let deleted = admin.delete_topics(&[&ledger], &AdminOptions::new()).await;
    assert!(deleted.expect("an answer")[0].is_ok());
    kafka.until_led(&ledger, 0).await;
    kafka.create_topics(&[(&ledger, 1)]).await;
    place.publish(&records[4..]).await;
    place.until_committed_to_the_end().await;
    assert_eq!(stub.stats().await.deliveries, 20);
    assert!(place.letters().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_topic_that_is_unfit_is_refused_at_start() {
    let Some(kafka) = shared() else { return };
    let forgetful = [("retention.ms", "86400000")];
    for (name, partitions, settings, problem) in [
        (
            "unfit-log-forgetful",
            2,
            &forgetful[..],
            "keeps entries for 1d",
        ),
        ("unfit-log-few", 1, &[][..], "has 1 partitions"),
        (
            "unfit-log-compacted",
            2,
            &[("cleanup.policy", "compact")],
            "is compacted",
        ),
    ] {
        let place = Place::new(kafka, name, 2).await;
        let ledger = place.ledger_topic();
        kafka.create_topic(&ledger, partitions, settings).await;
        let setup = place
            .setup("http://127.0.0.1:1")
            .set("LEDGER__REPLICATION", "topic");
        let home = Home::new(&setup);
        let mut worker = home.start(&setup);
        assert_eq!(code(worker.ended(AT_MOST).await), 78);
        let told = format!("topic {ledger} {problem}");
        assert!(home.log().contains(&told), "{}", home.log());
    }
}

/// A provider that loses one answer in twenty, having taken the message or not.
fn lossy() -> FaultMix {
    mix(&[
        (Fault::AcceptThenReset, 0.03),
        (Fault::ErrorBeforeAccepting, 0.02),
    ])
}
