//! The end of a worker whose brokers are gone.

use std::time::Duration;

use super::place::Place;
use crate::kafka_cluster::{Size, private};
use crate::product::{Home, SOON, STUB_PROFILE, Sent, code, patient, sms};
use crate::scripted::{Act, Gate, Scripted, answer};
use crate::waiting::until;

const DRAIN: Duration = Duration::from_secs(4);
/// What may pass beyond the drain: leaving, and closing the ledger.
const BEYOND: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn p28c_a_shutdown_ends_in_time_although_the_brokers_are_gone() {
    let Some(kafka) = private(Size::One, &[]) else {
        return;
    };
    let place = Place::new(&kafka, "p28c", 1).await;
    let gate = Gate::closed();
    let accepted = answer("201 Created", "", r#"{"id":"m"}"#);
    let held = Act::AnswerAfter(gate.clone(), accepted).taking();
    let provider = Scripted::playing([held]).await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE))
        .set("DISPATCH__CONCURRENCY", "3")
        .set("SHUTDOWN__DRAIN", &format!("{}s", DRAIN.as_secs()));
    let home = Home::new(&setup);
    let records: Vec<Sent> = (0..20)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), &format!("number {n}."))))
        .collect();
    place.publish(&records).await;

    // With answers within the drain: they are recorded, and the commit that cannot be made costs nothing.
    let mut worker = home.start(&setup);
    provider.until_seen(3).await;
    kafka.kill(1);
    worker.term();
    worker.until_not_ready("draining").await;
    gate.open();
    assert_eq!(code(worker.ended(DRAIN + BEYOND).await), 0);
    kafka.restart(1);
    let told = async || kafka.try_committed("p28c", "p28c").ok();
    let committed = until("the coordinator's word", SOON, told, Option::is_some).await;
    assert_eq!(committed, Some(vec![None]));

    // The next one sends what is left, and nothing again.
    let mut worker = home.start(&setup);
    place.until_committed_to_the_end().await;
    assert_eq!(worker.count("sendonce_suppressed_total", &[]).await, 3);
    assert_eq!(provider.seen().len(), 20);
    worker.term();
    assert_eq!(code(worker.ended(DRAIN + BEYOND).await), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn p28c_a_shutdown_ends_in_time_although_neither_brokers_nor_provider_answer() {
    let Some(kafka) = private(Size::One, &[]) else {
        return;
    };
    let place = Place::new(&kafka, "p28c-hung", 1).await;
    let provider = Scripted::playing([Act::Hang.taking()]).await;
    let setup = place
        .setup(&provider.url())
        .with_profile(&patient(STUB_PROFILE))
        .set("SHUTDOWN__DRAIN", "2s");
    let home = Home::new(&setup);
    let records = [1, 2, 3].map(|n| Sent::json(&sms(&format!("e-{n}"), "hello")));
    place.publish(&records).await;

    let mut worker = home.start(&setup);
    provider.until_seen(3).await;
    kafka.freeze(1);
    worker.term();
    let ended = worker.ended(Duration::from_secs(2) + BEYOND).await;
    assert_eq!(code(ended), 75, "work is left open");
    kafka.thaw(1);
    assert_eq!(place.committed(), [None]);
}
