//! What waits, what overtakes, what comes too late: due times that outlast a process, dates, order by Kafka key, polls,
//! and an account that refuses us.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{Embedded, Home, SOON, STUB_PROFILE, Sent, Setup, code, patient, sms};
use crate::scripted::{Act, Gate, Scripted, Seen, accepting, answer, refusing};
use crate::standing::Standing;
use crate::waiting::until;

/// Throttled for so many seconds.
fn throttled(seconds: u64) -> crate::scripted::Turn {
    let wait = format!("retry-after: {seconds}\r\n");
    Act::Answer(answer("429 Too Many Requests", &wait, "{}")).not_taking()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_does_not_wait_for_a_wait_and_the_next_process_keeps_it() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([throttled(10), accepting()]).await;
    let setup = Setup::new(&kafka, &provider.url());
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "hello"))]).await;
    let mut worker = home.start(&setup);
    worker
        .until_count("sendonce_attempts_total", &[("verdict", "throttled")], 1)
        .await;
    worker.term();
    assert_eq!(
        code(worker.ended(Duration::from_secs(5)).await),
        0,
        "at once"
    );
    assert_eq!(kafka.committed("sendonce", "send-intents"), [None]);

    let setup = setup.in_another_group();
    let worker = home.start(&setup);
    worker.until_count("sendonce_records_total", &[], 1).await;
    assert_eq!(provider.seen().len(), 1, "read again before it is due");
    kafka.until_committed_in_another_group().await;
    let standing = Standing::of(&kafka, &home)
        .scripted(&provider)
        .in_another_group();
    standing.holds(worker).await;
    let seen = provider.seen();
    assert_eq!(seen.len(), 2);
    let waited = seen[1].at - seen[0].at + Duration::from_millis(1);
    assert!(waited >= Duration::from_secs(10), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_late_is_not_sent_and_what_would_be_too_late_is_not_waited_for() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([throttled(60)]).await;
    let setup = Setup::new(&kafka, &provider.url()).set("INTENTS__MAX_AGE", "1h");
    let home = Home::new(&setup);
    let ending = |id: &str, seconds: i64| {
        let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        let mut intent = sms(id, id);
        intent["expires_at"] = end.to_string().into();
        Sent::json(&intent)
    };
    let two_hours_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(2);
    let old = Sent {
        timestamp_ms: Some(two_hours_ago.as_millisecond()),
        ..Sent::json(&sms("old", "old"))
    };
    let records = [ending("over", -1), ending("ends during the wait", 40), old];
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .holds(worker)
        .await;

    let letters = dead_letters(&kafka);
    let expired = |detail| ("expired", detail);
    let told = [
        expired("expires_at"),
        expired("expires_at"),
        expired("too_old"),
    ];
    assert_eq!(reasons(&letters), told);
    let attempts = letters
        .iter()
        .map(|letter| letter.header("attempts").unwrap());
    assert_eq!(attempts.collect::<Vec<_>>(), ["0", "1", "0"]);
    assert_eq!(provider.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn intents_of_one_kafka_key_go_one_after_the_other_and_all_else_overtakes() {
    let kafka = Embedded::with_partitions(1);
    let other_is_through = Arc::new(AtomicBool::new(false));
    let through = Arc::clone(&other_is_through);
    let provider = Scripted::by(move |request, _| {
        // The first one of its key fails until another key's has gone past it, and once after that.
        if request.body.contains("first") {
            match through.load(Ordering::SeqCst) {
                true => accepting(),
                false => refusing("503 Service Unavailable"),
            }
        } else {
            through.fetch_or(request.body.contains("other"), Ordering::SeqCst);
            accepting()
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        .set("RETRY__BASE", "50ms")
        .set("RETRY__CAP", "50ms")
        .set("RETRY__BUDGET", "100");
    let home = Home::new(&setup);
    let keyed = |text: &str, key: &str| Sent::json(&sms(text, text)).keyed(key);
    let records = [keyed("first", "a"), keyed("second", "a")];
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    provider.until_seen(2).await;
    kafka.publish(&[keyed("other", "b")]).await;
    kafka.until_committed().await;
    assert!(other_is_through.load(Ordering::SeqCst));
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .holds(worker)
        .await;

    let seen = provider.seen();
    let taken: Vec<_> = seen.iter().filter(|request| request.taken).collect();
    for (request, text) in taken.iter().zip(["other", "first", "second"]) {
        assert!(request.body.contains(text), "{taken:#?}");
    }
    assert_eq!(provider.seen_with("second").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_of_a_key_that_the_provider_is_working_on_use_no_budget() {
    let kafka = Embedded::with_partitions(1);
    let working = refusing("409 Conflict");
    let turns = [
        working.clone(),
        working.clone(),
        working.clone(),
        working,
        accepting(),
    ];
    let provider = Scripted::playing(turns).await;
    let setup = Setup::new(&kafka, &provider.url())
        .set("RETRY__BUDGET", "1")
        .set("RETRY__IN_PROGRESS_WAIT", "50ms");
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "hello"))]).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let polls = [("verdict", "in_progress")];
    assert_eq!(worker.count("sendonce_attempts_total", &polls).await, 4);
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;
    assert!(ledger.story("e-1").accepted().is_some());
    assert_eq!(provider.seen().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_refuses_us_is_probed_and_no_intent_pays_for_it() {
    let kafka = Embedded::with_partitions(1);
    let interval = Duration::from_secs(2);
    let provider = Scripted::by(|_, before| match before.len() {
        0..2 => refusing("401 Unauthorized"),
        _ => accepting(),
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        // One at a time, so that all others ask after the first answer.
        .set("DISPATCH__CONCURRENCY", "1")
        .set("RETRY__BUDGET", "1")
        .set("RETRY__PROBE_INTERVAL", "2s");
    let home = Home::new(&setup);
    let records: Vec<Sent> = (0..5)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), "hello")))
        .collect();
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let refused = [("verdict", "misconfigured")];
    assert_eq!(worker.count("sendonce_attempts_total", &refused).await, 2);
    assert_eq!(worker.count("sendonce_dead_letters_total", &[]).await, 0);
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .holds(worker)
        .await;

    let seen = provider.seen();
    assert_eq!(seen.len(), 7);
    for pair in seen[..3].windows(2) {
        let waited = pair[1].at - pair[0].at + Duration::from_millis(1);
        assert!(waited >= interval, "{waited:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_goes_before_all_that_was_read_after_it() {
    let kafka = Embedded::with_partitions(1);
    let gate = Gate::closed();
    let held = Act::AnswerAfter(gate.clone(), answer("503 Service Unavailable", "", "{}"));
    let is_first = |request: &Seen| request.body.contains("number 0.");
    let provider = Scripted::by(move |request, before| {
        if is_first(request) && !before.iter().any(is_first) {
            held.clone().not_taking()
        } else {
            accepting()
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&patient(STUB_PROFILE))
        .set("DISPATCH__CONCURRENCY", "1")
        .set("RETRY__BASE", "1ms")
        .set("RETRY__CAP", "1ms");
    let home = Home::new(&setup);
    let records: Vec<Sent> = (0..40)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), &format!("number {n}."))))
        .collect();
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    // All others have been read and wait for the one place.
    worker.until_count("sendonce_records_total", &[], 40).await;
    gate.open();
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.holds(worker).await;
    let seen = provider.seen();
    assert_eq!(seen.len(), 41);
    let mut of_the_first = (0..seen.len()).filter(|at| is_first(&seen[*at]));
    let (refused, again) = (of_the_first.next().unwrap(), of_the_first.next().unwrap());
    let overtaken_by = again - refused - 1;
    assert!(overtaken_by < 20, "{overtaken_by} of 39 went before it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_one_recipient_holds_up_what_goes_there_and_nothing_else() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, before| {
        let to_it = |one: &Seen| one.body.contains("+447700900111");
        if to_it(request) && !before.iter().any(to_it) {
            refusing("429 Too Many Requests")
        } else {
            accepting()
        }
    })
    .await;
    let alone = "[[rule]]\nwhen = { status = 429 }\nclass = \"throttled\"\nwait = \"3s\"\nwait_scope = \"recipient\"";
    let profile = format!("{}\n{alone}\n", patient(STUB_PROFILE));
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&profile)
        // One at a time, so that all others are asked about after the first answer.
        .set("DISPATCH__CONCURRENCY", "1");
    let home = Home::new(&setup);
    let to = |number: &str, n: usize| {
        let mut intent = sms(&format!("{number}-{n}"), "hello");
        intent["to"] = number.into();
        Sent::json(&intent)
    };
    let mut records: Vec<Sent> = (0..20).map(|n| to("+447700900111", n)).collect();
    records.extend((0..20).map(|n| to("+447700900122", n)));
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .holds(worker)
        .await;

    let seen = provider.seen();
    assert_eq!(seen.len(), 41, "nobody else was told to wait");
    let others = |request: &Seen| request.body.contains("+447700900122");
    assert!(seen[1..21].iter().all(others), "{seen:#?}");
    let waited = seen[21].at - seen[0].at + Duration::from_millis(1);
    assert!(waited >= Duration::from_secs(3), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_looks_like_milliseconds_is_kept_to_and_the_log_says_so() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([throttled(60_000)]).await;
    let setup = Setup::new(&kafka, &provider.url());
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "hello"))]).await;
    let worker = home.start(&setup);
    let told = |log: &String| {
        let mut lines = log.lines();
        lines.any(|line| line.contains("looks like milliseconds") && line.contains("provider=stub"))
    };
    until("a warning", SOON, async || home.log(), told).await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.open(&[(0, 0)]).holds(worker).await;
    assert_eq!(provider.seen().len(), 1);
}
