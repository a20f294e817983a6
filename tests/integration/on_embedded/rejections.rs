//! The limit of rejections: a broken template is paused alone, what waits is unharmed, and the first acceptance frees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{Embedded, Home, SOON, STUB_PROFILE, Sent, Setup, patient, sms};
use crate::scripted::{Scripted, accepting, refusing};
use crate::standing::{Standing, attempts};
use crate::waiting::until;
use crate::worker::Worker;

/// Of ten rejections among twenty outcomes.
const PAUSES_AT: usize = 10;
const IN_FLIGHT: usize = 4;

fn limited(kafka: &Embedded, url: &str) -> Setup {
    Setup::new(kafka, url)
        .with_profile(&patient(STUB_PROFILE))
        .set("REJECTIONS__SHARE_PERCENT", "50")
        .set("REJECTIONS__OUTCOMES", "20")
        .set("RETRY__PROBE_INTERVAL", "1s")
        .set("DISPATCH__CONCURRENCY", &IN_FLIGHT.to_string())
}

/// An intent of this template.
fn made_of(template: &str, id: &str, text: &str) -> serde_json::Value {
    let mut intent = sms(id, text);
    intent["template"] = serde_json::json!({"name": template, "version": 3});
    intent
}

/// So many of them.
fn many(count: usize, template: &str, text: &str) -> Vec<Sent> {
    let one = |n: usize| Sent::json(&made_of(template, &format!("{text}-{n}"), text));
    (0..count).map(one).collect()
}

async fn until_accepted(worker: &Worker, count: u64) {
    let accepted = [("outcome", "accepted")];
    worker
        .until_count("sendonce_outcomes_total", &accepted, count)
        .await;
}

async fn until_paused(worker: &Worker) {
    let of_stub = [("provider", "stub")];
    worker
        .until_count("sendonce_templates_paused", &of_stub, 1)
        .await;
}

/// How often an intent was tried in the pause and rejected, by the log.
fn tried(home: &Home) -> usize {
    home.log().matches("was tried was rejected too").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_breaks_is_paused_alone_and_goes_out_once_it_is_mended() {
    let kafka = Embedded::with_partitions(1);
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let provider = Scripted::by(move |request, _| {
        if request.body.contains("broken") && !is_mended.load(Ordering::SeqCst) {
            refusing("400 Bad Request")
        } else {
            accepting()
        }
    })
    .await;
    let setup = limited(&kafka, &provider.url());
    let home = Home::new(&setup);
    kafka.publish(&many(60, "code", "sound")).await;
    let worker = home.start(&setup);
    until_accepted(&worker, 60).await;

    // There is room for 70 of the template now, of whom all but four wait for the provider.
    kafka.publish(&many(300, "code", "broken")).await;
    kafka.publish(&many(100, "news", "other")).await;
    until_paused(&worker).await;
    until_accepted(&worker, 160).await;
    let told = "too many intents of this template are rejected";
    let line = home.log();
    let line = line.lines().find(|line| line.contains(told));
    let line = line.expect("the log tells of it");
    assert!(
        line.contains("template=\"code\" version=\"3\"")
            || line.contains("template=code version=3"),
        "{line}"
    );
    let refused = provider.seen_with("broken").len();
    let most = PAUSES_AT + IN_FLIGHT - 1 + tried(&home) + 1;
    assert!(refused <= most, "{refused} refused, {most} are said");

    mended.store(true, Ordering::SeqCst);
    kafka.until_committed().await;
    let refused = worker
        .count("sendonce_dead_letters_total", &[("reason", "rejected")])
        .await;
    let most = PAUSES_AT + IN_FLIGHT - 1 + tried(&home);
    let refused = usize::try_from(refused).expect("few");
    assert!(refused <= most, "{refused} refused, {most} are said");
    assert_eq!(worker.count("sendonce_templates_paused", &[]).await, 0);
    assert_eq!(worker.count("sendonce_template_pauses_total", &[]).await, 1);
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;
    assert_eq!(dead_letters(&kafka).len(), refused);
    let attempts: Vec<u64> = ledger.stories().iter().map(attempts).collect();
    assert_eq!(attempts, vec![1; 460], "who waited used no attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_rendered_counts_and_what_waits_still_expires_by_its_own_date() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([accepting()]).await;
    let wants_text = STUB_PROFILE.replace("{{ content }}", "{{ content.text }}");
    let setup = limited(&kafka, &provider.url()).with_profile(&patient(&wants_text));
    let home = Home::new(&setup);
    let without_text = |id: &str| {
        let mut intent = made_of("code", id, "");
        intent["content"] = serde_json::json!({"body": "hello"});
        intent
    };
    let broken: Vec<Sent> = (0..100)
        .map(|n| Sent::json(&without_text(&format!("broken-{n}"))))
        .collect();
    kafka.publish(&broken).await;
    let worker = home.start(&setup);
    until_paused(&worker).await;

    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2);
    let mut late = without_text("late");
    late["expires_at"] = end.to_string().into();
    kafka.publish(&[Sent::json(&late)]).await;
    kafka.publish(&many(20, "news", "other")).await;
    until_accepted(&worker, 20).await;
    let expired = [("reason", "expired")];
    worker
        .until_count("sendonce_dead_letters_total", &expired, 1)
        .await;
    let letters = until(
        "the letter of what has expired",
        SOON,
        async || dead_letters(&kafka),
        |letters| letters.iter().any(|letter| letter.reason == "expired"),
    )
    .await;
    let malformed = letters.iter().filter(|letter| letter.reason == "malformed");
    let malformed = malformed.count();
    let most = PAUSES_AT + IN_FLIGHT - 1 + tried(&home) + 1;
    assert!(malformed <= most, "{malformed} set aside, {most} are said");
    let told = reasons(&letters);
    assert!(told.contains(&("expired", "expires_at")), "{told:?}");
    assert_eq!(provider.seen().len(), 20, "nothing else was sent");
}
