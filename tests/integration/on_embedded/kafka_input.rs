//! Kafka's side: P27, P28, P35, P37, P40.

use std::time::Duration;

use rustix::process::Signal;
use sendonce::stub_provider::{Fault, Options};

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{
    Embedded, Home, KEYLESS_PROFILE, SOON, STUB_PROFILE, Sent, Setup, code, patient, sms, via,
};
use crate::scripted::{Act, Gate, Scripted, accepting, accepting_after};
use crate::standing::{Ledger, Standing, attempts};
use crate::stub::{Stub, mix};
use crate::waiting::until;

#[tokio::test(flavor = "multi_thread")]
async fn p27_nothing_is_committed_beyond_a_send_that_hangs_and_what_is_read_again_is_suppressed() {
    let kafka = Embedded::with_partitions(2);
    let hangs_at_first = || {
        Scripted::by(|request, before| {
            let again = before.iter().any(|one| one.body == request.body);
            if request.body.contains("number 12") && !again {
                Act::Hang.taking()
            } else {
                accepting()
            }
        })
    };
    let (keyed, plain) = (hangs_at_first().await, hangs_at_first().await);
    let setup = Setup::new(&kafka, &keyed.url())
        .with_profile(&patient(STUB_PROFILE))
        .provider("plain", &patient(KEYLESS_PROFILE), &plain.url())
        .set("DISPATCH__CONCURRENCY", "8")
        .set("RETRY__BASE", "20ms");
    let home = Home::new(&setup);
    let event = |provider: &str, n: usize| {
        let event = sms(&format!("{provider}-{n}"), &format!("number {n}"));
        Sent::json(&via(provider, event))
    };
    let records: Vec<Sent> = (0..18)
        .flat_map(|n| [event("stub", n).at(0), event("plain", n).at(1)])
        .collect();
    kafka.publish(&records).await;

    let mut worker = home.start(&setup);
    let accepted = [("outcome", "accepted")];
    worker
        .until_count("sendonce_outcomes_total", &accepted, 34)
        .await;
    let committed = async || kafka.committed("sendonce", "send-intents");
    let up_to_the_gap = |at: &Vec<Option<i64>>| *at == [Some(12), Some(12)];
    until("12 to be committed", SOON, committed, up_to_the_gap).await;
    worker.kill();

    let worker = home.start(&setup);
    kafka.until_committed().await;
    let suppressed = worker
        .count("sendonce_suppressed_total", &[("reason", "ledger")])
        .await;
    assert_eq!(suppressed, 10, "13 to 17 of both partitions");
    assert_eq!(worker.count("sendonce_records_total", &[]).await, 12);
    Standing::of(&kafka, &home)
        .scripted(&keyed)
        .scripted(&plain)
        .holds(worker)
        .await;

    assert_eq!(keyed.seen().len(), 19, "12 again, under the same key");
    assert_eq!(keyed.seen_with("number 12").len(), 2);
    assert_eq!(plain.seen().len(), 18, "never again without a key");
    let letters = dead_letters(&kafka);
    assert_eq!(reasons(&letters), [("outcome_unknown", "no_key")]);
    assert_eq!(letters[0].origin, (1, 12));
}

/// Twenty records in three orders, of which a provider that answers when the gate opens gets the first three at once.
async fn twenty_of_which_three_at_once() -> (Embedded, Gate, Scripted, Setup, Home) {
    let kafka = Embedded::with_partitions(1);
    let gate = Gate::closed();
    let held = accepting_after(&gate);
    let provider = Scripted::playing([held]).await;
    let setup = Setup::new(&kafka, &provider.url()).with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    let event = |n: usize| sms(&format!("e-{n}"), &format!("number {n}."));
    let records: Vec<Sent> = (0..20)
        .map(|n| Sent::json(&event(n)).keyed(&(n % 3).to_string()))
        .collect();
    kafka.publish(&records).await;
    (kafka, gate, provider, setup, home)
}

#[tokio::test(flavor = "multi_thread")]
async fn p28a_what_is_in_flight_at_a_shutdown_is_recorded_and_nothing_new_is_started() {
    let (kafka, gate, provider, setup, home) = twenty_of_which_three_at_once().await;
    let mut worker = home.start(&setup);
    provider.until_seen(3).await;
    worker.term();
    worker.until_not_ready("draining").await;
    gate.open();
    assert_eq!(code(worker.ended(SOON).await), 0);
    assert_eq!(provider.seen().len(), 3, "nothing new was started");
    let accepted = |ledger: &Ledger| {
        let stories = ledger.stories().iter();
        stories.filter(|story| story.accepted().is_some()).count()
    };
    assert_eq!(accepted(&Ledger::of(&home)), 3, "the three are recorded");
    assert_eq!(kafka.committed("sendonce", "send-intents"), [Some(3)]);

    let worker = home.start(&setup.in_another_group());
    kafka.until_committed_in_another_group().await;
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .in_another_group()
        .holds(worker)
        .await;
    assert_eq!(provider.seen().len(), 20, "the three were not sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn p28b_a_shutdown_that_is_not_waited_out_leaves_the_attempts_in_the_ledger_and_says_so() {
    let (kafka, _gate, provider, setup, home) = twenty_of_which_three_at_once().await;
    let setup = setup.set("SHUTDOWN__DRAIN", "1s");
    let mut worker = home.start(&setup);
    provider.until_seen(3).await;
    worker.term();
    assert_eq!(code(worker.ended(Duration::from_secs(6)).await), 75);
    assert_eq!(provider.seen().len(), 3);
    assert_eq!(kafka.committed("sendonce", "send-intents"), [None]);
    let open: Vec<(i32, i64)> = (0..20).map(|offset| (0, offset)).collect();
    let standing = Standing::of(&kafka, &home).scripted(&provider).open(&open);
    let ledger = standing.holds_after_the_end().await;
    let attempting: Vec<_> = ledger.stories().iter().map(attempts).collect();
    assert_eq!(attempting, [1, 1, 1]);
    assert!(ledger.stories().iter().all(|story| !story.is_settled()));
}

#[tokio::test(flavor = "multi_thread")]
async fn p28c_a_shutdown_ends_in_time_although_the_brokers_are_gone() {
    let (kafka, gate, provider, setup, home) = twenty_of_which_three_at_once().await;
    // All that is settled is left to the last commit.
    let setup = setup
        .set("SHUTDOWN__DRAIN", "2s")
        .set("KAFKA__COMMIT_INTERVAL", "60s");
    let mut worker = home.start(&setup);
    provider.until_seen(3).await;
    gate.open();
    let accepted = [("outcome", "accepted")];
    worker
        .until_count("sendonce_outcomes_total", &accepted, 20)
        .await;
    kafka.cluster().broker_down(1).expect("it goes down");
    worker.term();
    assert_eq!(code(worker.ended(Duration::from_secs(8)).await), 0);
    kafka.cluster().broker_up(1).expect("it comes back");

    let setup = setup.set("KAFKA__COMMIT_INTERVAL", "100ms");
    let worker = home.start(&setup.in_another_group());
    kafka.until_committed_in_another_group().await;
    assert_eq!(worker.count("sendonce_suppressed_total", &[]).await, 20);
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .in_another_group()
        .holds(worker)
        .await;
    assert_eq!(provider.seen().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn p28d_automatic_commits_are_refused_with_the_reason() {
    let kafka = Embedded::with_partitions(1);
    let setup = Setup::new(&kafka, "http://127.0.0.1:9")
        .set("KAFKA__PROPERTIES__ENABLE_AUTO_COMMIT", "true");
    let home = Home::new(&setup);
    assert_eq!(code(home.start(&setup).ended(SOON).await), 78);
    assert!(home.log().contains("enable.auto.commit"), "{}", home.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn p35_a_slow_provider_costs_no_membership_and_a_frozen_process_comes_back_by_itself() {
    let kafka = Embedded::with_partitions(1);
    let gate = Gate::closed();
    let held = accepting_after(&gate);
    let frozen = Scripted::playing([held]).await;
    let slow = Stub::start(Options {
        faults: mix(&[(Fault::Slow, 1.0)]).slow_by_ms(5_000),
        ..Options::default()
    })
    .await;
    let setup = Setup::new(&kafka, &slow.url())
        .with_profile(&patient(STUB_PROFILE))
        .provider("frozen", &patient(STUB_PROFILE), &frozen.url())
        // The embedded broker lets a member wait 3 s for its first assignment, and would forget a shorter session.
        .set("KAFKA__PROPERTIES__SESSION_TIMEOUT_MS", "4000")
        .set("KAFKA__PROPERTIES__MAX_POLL_INTERVAL_MS", "4000")
        .set("DISPATCH__CONCURRENCY", "1")
        .set("INTENTS__OPEN_MAX", "1");
    let home = Home::new(&setup);
    let records = [1, 2].map(|n| Sent::json(&sms(&format!("e-{n}"), "hello")));
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let rebalances = async |kind| {
        worker
            .count("sendonce_rebalances_total", &[("kind", kind)])
            .await
    };
    let left = rebalances("lost").await + rebalances("revoked").await;
    assert_eq!((rebalances("assigned").await, left), (1, 0));
    assert_eq!(slow.requests().await, 2);

    kafka
        .publish(&[Sent::json(&via("frozen", sms("e-3", "hello")))])
        .await;
    frozen.until_seen(1).await;
    worker.signal(Signal::STOP);
    gate.open();
    // Longer than its session and its poll interval: what is tested is that this time passes.
    tokio::time::sleep(Duration::from_secs(6)).await;
    worker.signal(Signal::CONT);
    worker
        .until_count("sendonce_rebalances_total", &[("kind", "assigned")], 2)
        .await;
    kafka.until_committed().await;
    assert_eq!(rebalances("lost").await, 1);
    Standing::of(&kafka, &home)
        .stub(&slow)
        .scripted(&frozen)
        .holds(worker)
        .await;
    assert_eq!(
        frozen.seen().len(),
        1,
        "its result was recorded late, and its re-read suppressed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p37_poison_and_tombstones_stop_nothing_and_keep_their_bytes() {
    let kafka = Embedded::with_partitions(1);
    let stub = Stub::with(&[]).await;
    let setup = Setup::new(&kafka, &stub.url());
    let home = Home::new(&setup);
    let mut no_id = sms("", "no id");
    no_id.as_object_mut().unwrap().remove("id");
    let mut fax = sms("e-fax", "by fax");
    fax["channel"] = "fax".into();
    let records = [
        Sent::json(&sms("e-0", "good")),
        Sent::bytes([0xFF, 0xFE]),
        Sent::default(),
        Sent::bytes([]),
        Sent::json(&no_id),
        Sent::json(&fax),
        Sent::json(&sms("e-6", "good")),
    ];
    kafka.publish(&records).await;
    let mut worker = home.start(&setup);
    kafka.until_committed().await;
    assert_eq!(
        worker
            .count("sendonce_ignored_total", &[("reason", "tombstone")])
            .await,
        1
    );
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);
    let letters = dead_letters(&kafka);
    assert_eq!(
        reasons(&letters),
        [
            ("malformed", "invalid_utf8"),
            ("malformed", "empty_value"),
            ("malformed", "missing_event_id"),
            ("no_route", "no_route"),
        ]
    );
    for letter in &letters {
        let origin = usize::try_from(letter.origin.1).unwrap();
        assert_eq!(letter.value, records[origin].value);
    }

    kafka.publish(&[Sent::json(&sms("e-7", "good"))]).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    assert_eq!(
        worker.count("sendonce_records_total", &[]).await,
        1,
        "none is read twice"
    );
    Standing::of(&kafka, &home).stub(&stub).holds(worker).await;
    let stats = stub.stats().await;
    assert_eq!((stub.requests().await, stats.deliveries), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn p40_a_whole_topic_that_is_read_again_sends_nothing() {
    let kafka = Embedded::with_partitions(4);
    let stub = Stub::with(&[]).await;
    let setup = Setup::new(&kafka, &stub.url()).with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    let records: Vec<Sent> = (0..10_000)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), "hello")).at(n % 4))
        .collect();
    kafka.publish(&records).await;
    let mut worker = home.start(&setup);
    kafka
        .until_committed_to_the_end("sendonce", "send-intents", 3 * SOON)
        .await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);
    assert_eq!(stub.requests().await, 10_000);

    // To a group of another name no offset is known: the same as one whose offsets have expired.
    let setup = setup.in_another_group();
    let worker = home.start(&setup);
    kafka.until_committed_in_another_group().await;
    let suppressed = worker
        .count("sendonce_suppressed_total", &[("reason", "ledger")])
        .await;
    assert_eq!(suppressed, 10_000);
    let standing = Standing::of(&kafka, &home).stub(&stub).in_another_group();
    standing.holds(worker).await;
    assert_eq!(stub.requests().await, 10_000);
    for partition in 0..4 {
        let place = format!("partition=send-intents/{partition}");
        let log = home.log();
        let told = log.lines().filter(|line| {
            line.contains("the group has no committed position here") && line.contains(&place)
        });
        assert_eq!(told.count(), 2, "once in each group: {place}");
    }
}
