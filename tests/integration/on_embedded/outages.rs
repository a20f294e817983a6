//! Providers that are down as a whole, and one that has had enough: P21, P22, P26. What an hour of it comes to is played in virtual time beside the gate
//! (`domain::account_gate`); here the real process goes through some seconds of it, with waits as much shorter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sendonce::domain::attempt::Verdict;
use sendonce::domain::ledger_entry::{Answered, Story};
use sendonce::stub_provider::{Fault, Options};
use tokio::net::TcpSocket;
use tokio::time::Instant;

use crate::dead_letters::dead_letters;
use crate::product::{
    Embedded, Home, KEYLESS_PROFILE, STUB_PROFILE, Sent, Setup, patient, sms, via,
};
use crate::scripted::{Act, Gate, Scripted, accepting, answer, refusing};
use crate::standing::Standing;
use crate::stub::Stub;

/// A whole budget is used up within a second, were it not for the circuit.
fn hurried(setup: Setup) -> Setup {
    setup
        .set("RETRY__BASE", "20ms")
        .set("RETRY__CAP", "100ms")
        .set("RETRY__PROBE_INTERVAL", "500ms")
        .set("BREAKER__FIRST_PROBE", "100ms")
        // Room for a few, so that what is in flight when it opens is a few.
        .set("DISPATCH__CONCURRENCY", "4")
}

/// So many SMS, half of them under Kafka keys.
fn intents(count: usize, provider: &str) -> Vec<Sent> {
    let one = |n: usize| {
        let name = format!("{provider}-{n}");
        let sent = Sent::json(&via(provider, sms(&name, &name)));
        if n.is_multiple_of(2) {
            sent
        } else {
            sent.keyed(&name)
        }
    };
    (0..count).map(one).collect()
}

/// What the attempts of these stories came to that used budget, and that used none.
fn paid_and_spared(stories: &[Story]) -> (Vec<&Answered>, Vec<&Answered>) {
    stories
        .iter()
        .flat_map(|story| story.attempts.values())
        .filter_map(|facts| facts.answered.as_ref())
        .filter(|answer| matches!(answer.verdict, Verdict::NotSent | Verdict::Unknown))
        .partition(|answer| !answer.flags.outage)
}

#[tokio::test(flavor = "multi_thread")]
async fn p21_p22_a_provider_that_cannot_be_reached_costs_no_budget_even_if_the_process_dies_meanwhile()
 {
    // One, so that the second process reads first what the first one read first: its stories say that the provider is down.
    let kafka = Embedded::with_partitions(1);
    // A place where nobody listens yet, and that nobody else can take.
    let place = TcpSocket::new_v4().unwrap();
    place.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", place.local_addr().unwrap());
    let setup = hurried(Setup::new(&kafka, &url));
    let home = Home::new(&setup);
    kafka.publish(&intents(200, "stub")).await;
    let not_sent = [("verdict", "not_sent")];

    let mut worker = home.start(&setup);
    worker
        .until_count(
            "sendonce_provider_circuit_opened_total",
            &[("reason", "connect")],
            1,
        )
        .await;
    worker
        .until_count("sendonce_attempts_total", &not_sent, 12)
        .await;
    worker.kill();
    let setup = setup.in_another_group();
    let worker = home.start(&setup);
    worker.until_count("sendonce_records_total", &[], 200).await;
    worker
        .until_count("sendonce_attempts_total", &not_sent, 6)
        .await;
    let metrics = worker.metrics().await;
    assert_eq!(metrics.count("sendonce_dead_letters_total", &[]), 0);
    let closed = [("provider", "stub"), ("state", "closed")];
    assert_eq!(metrics.count("sendonce_provider_circuit", &closed), 0);
    let unknown = [("verdict", "unknown")];
    assert_eq!(metrics.count("sendonce_attempts_total", &unknown), 0);

    let provider = Stub::at(place.listen(1024).unwrap(), Options::default());
    kafka.until_committed_in_another_group().await;
    assert_eq!(
        worker.count("sendonce_provider_circuit", &closed).await,
        1,
        "it is back"
    );
    let standing = Standing::of(&kafka, &home)
        .stub(&provider)
        .in_another_group();
    let ledger = standing.holds(worker).await;

    assert!(dead_letters(&kafka).is_empty());
    let stats = provider.stats().await;
    assert_eq!((stats.keys, stats.deliveries), (200, 200));
    let (paid, spared) = paid_and_spared(ledger.stories());
    assert!(paid.len() <= 5, "until it was found out: {}", paid.len());
    assert!(spared.len() >= 12, "{}", spared.len());
    let told = home.log().matches("counts as down").count();
    assert_eq!(
        told, 1,
        "the second process knows from the first one's stories"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_nine_times_in_ten_is_down_and_its_neighbour_is_not() {
    let kafka = Embedded::with_partitions(2);
    let sick = Stub::with(&[(Fault::ErrorBeforeAccepting, 0.9)]).await;
    let well = Stub::with(&[]).await;
    let setup =
        hurried(Setup::new(&kafka, &sick.url())).provider("well", STUB_PROFILE, &well.url());
    let home = Home::new(&setup);
    let both = [intents(100, "stub"), intents(100, "well")].concat();
    kafka.publish(&both).await;
    let worker = home.start(&setup);
    let accepted = |provider| [("provider", provider), ("outcome", "accepted")];
    worker
        .until_count("sendonce_outcomes_total", &accepted("well"), 100)
        .await;
    let failed = [("provider", "stub"), ("verdict", "unknown")];
    worker
        .until_count("sendonce_attempts_total", &failed, 20)
        .await;
    let metrics = worker.metrics().await;
    let sent = metrics.count("sendonce_outcomes_total", &accepted("stub"));
    assert!(sent < 100, "it is down: {sent}");
    assert_eq!(metrics.count("sendonce_dead_letters_total", &[]), 0);
    let opened = |provider| {
        let labels = [("provider", provider)];
        metrics.count("sendonce_provider_circuit_opened_total", &labels)
    };
    assert!(opened("stub") >= 1);
    assert_eq!(opened("well"), 0);

    sick.change_faults(&[(Fault::ErrorBeforeAccepting, 0.0)])
        .await;
    kafka.until_committed().await;
    let ledger = Standing::of(&kafka, &home)
        .stub(&sick)
        .stub(&well)
        .holds(worker)
        .await;
    assert!(dead_letters(&kafka).is_empty());
    let (paid, spared) = paid_and_spared(ledger.stories());
    // 65 % of 50 answers open it, however few others there were.
    assert!(paid.len() < 33, "below the threshold: {}", paid.len());
    assert!(spared.len() >= 10, "{}", spared.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_an_outage_costs_what_was_in_flight_the_threshold_and_its_probes() {
    let kafka = Embedded::with_partitions(2);
    let provider = Stub::start(Options {
        keys: false,
        ..Options::default()
    })
    .await;
    provider
        .change_faults(&[(Fault::ErrorBeforeAccepting, 1.0)])
        .await;
    let setup = hurried(Setup::new(&kafka, &provider.url())).with_profile(KEYLESS_PROFILE);
    let home = Home::new(&setup);
    kafka.publish(&intents(100, "stub")).await;
    let worker = home.start(&setup);
    let failed = [("verdict", "unknown")];
    worker
        .until_count("sendonce_attempts_total", &failed, 12)
        .await;
    provider
        .change_faults(&[(Fault::ErrorBeforeAccepting, 0.0)])
        .await;
    kafka.until_committed().await;
    let ledger = Standing::of(&kafka, &home)
        .stub(&provider)
        .holds(worker)
        .await;

    let letters = dead_letters(&kafka);
    assert!(letters.iter().all(|one| one.reason == "outcome_unknown"));
    let (paid, spared) = paid_and_spared(ledger.stories());
    assert_eq!(letters.len(), paid.len() + spared.len(), "one request each");
    assert_eq!(paid.len(), 4, "the fifth in a row opens it");
    assert!((12..40).contains(&letters.len()), "{}", letters.len());
    let stats = provider.stats().await;
    assert_eq!(stats.deliveries, 100 - letters.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn p26_an_account_wide_429_is_waited_out_by_all_and_not_come_back_from_in_lockstep() {
    const COUNT: usize = 40;
    let kafka = Embedded::with_partitions(2);
    let gate = Gate::closed();
    let wait = answer("429 Too Many Requests", "retry-after: 2\r\n", "{}");
    let throttled = Act::AnswerAfter(gate.clone(), wait);
    let provider = Scripted::by(move |_, before| match before.len() {
        0..COUNT => throttled.clone().not_taking(),
        _ => accepting(),
    })
    .await;
    let other = Stub::with(&[]).await;
    let account_wide = "[[wait]]\non = 429\nheader = \"Retry-After\"\nscope = \"account\"\n";
    let profile = format!("{}\n{account_wide}", patient(STUB_PROFILE));
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&profile)
        .provider("other", STUB_PROFILE, &other.url())
        .set("PROVIDER__STUB__RATE_PER_SECOND", "20")
        .set("PROVIDER__STUB__BURST", "40")
        .set("RETRY__BASE", "20ms");
    let home = Home::new(&setup);
    kafka.publish(&intents(COUNT, "stub")).await;
    let worker = home.start(&setup);
    provider.until_seen(COUNT).await;
    let opened = Instant::now();
    gate.open();
    let verdict = [("verdict", "throttled")];
    let count = COUNT as u64;
    worker
        .until_count("sendonce_attempts_total", &verdict, count)
        .await;
    let during = [intents(20, "other"), intents(COUNT + 5, "stub")].concat();
    kafka.publish(&during).await;
    let accepted = [("provider", "other"), ("outcome", "accepted")];
    worker
        .until_count("sendonce_outcomes_total", &accepted, 20)
        .await;
    kafka.until_committed().await;
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .stub(&other)
        .holds(worker)
        .await;

    assert!(dead_letters(&kafka).is_empty());
    let seen = provider.seen();
    let later = &seen[COUNT..];
    assert_eq!(later.len(), COUNT + 5, "one retry each, and what came new");
    for request in later {
        // Moments are kept in whole milliseconds.
        let waited = request.at - opened + Duration::from_millis(1);
        assert!(waited >= Duration::from_secs(2), "{waited:?}");
        let second = request.at..request.at + Duration::from_secs(1);
        let within = later.iter().filter(|other| second.contains(&other.at));
        let within = within.count();
        assert!(within <= 30, "{within} within a second, of 20 allowed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_outage_hit_does_not_wait_behind_everything_that_came_since() {
    let kafka = Embedded::with_partitions(1);
    let is_back = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_back);
    let provider = Scripted::by(move |_, _| match told.load(Ordering::SeqCst) {
        true => accepting(),
        false => refusing("503 Service Unavailable"),
    })
    .await;
    let setup = hurried(Setup::new(&kafka, &provider.url())).set("DISPATCH__CONCURRENCY", "1");
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("old", "old"))]).await;
    let worker = home.start(&setup);
    let opened = "sendonce_provider_circuit_opened_total";
    worker.until_count(opened, &[], 1).await;
    let since: Vec<_> = (0..300)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), "since")))
        .collect();
    kafka.publish(&since).await;
    let read = "sendonce_records_total";
    worker.until_count(read, &[], 301).await;
    let attempts = worker.count("sendonce_attempts_total", &[]).await;
    let probed = attempts + 3;
    worker
        .until_count("sendonce_attempts_total", &[], probed)
        .await;
    is_back.store(true, Ordering::SeqCst);
    kafka.until_committed().await;
    drop(worker);

    let mut taken = provider.seen();
    taken.retain(|one| one.taken);
    assert_eq!(taken.len(), 301);
    let before = taken.iter().take_while(|one| !one.body.contains("old"));
    let before = before.count();
    assert!(before < 20, "{before} went before the first that was read");
}
