//! Where a tenure begins and ends: what is committed there, and what a pause of an earlier one leaves behind.

use std::time::Duration;

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rustix::process::Signal;

use crate::product::{Embedded, Home, SOON, STUB_PROFILE, Sent, Setup, code, patient, sms};
use crate::scripted::{Gate, Scripted, accepting, accepting_after};
use crate::standing::Standing;
use crate::stub::Stub;
use crate::waiting::until;

/// What a coordinator answers to a commit that it will not take: nothing that a client tries again by itself.
const REFUSED: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_COMMIT_OFFSET_SIZE;

fn events(count: usize) -> Vec<Sent> {
    let event = |n| Sent::json(&sms(&format!("e-{n}"), &format!("number {n}.")));
    (0..count).map(event).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_was_paused_at_its_limits_is_read_again_by_the_next_tenure() {
    let kafka = Embedded::with_partitions(1);
    let gate = Gate::closed();
    let held = accepting_after(&gate);
    let provider = Scripted::playing([held]).await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&patient(STUB_PROFILE))
        // The embedded broker lets a member wait 3 s for its first assignment, and would forget a shorter session.
        .set("KAFKA__PROPERTIES__SESSION_TIMEOUT_MS", "4000")
        .set("KAFKA__PROPERTIES__MAX_POLL_INTERVAL_MS", "4000")
        .set("KAFKA__SPAN_MAX", "2");
    let home = Home::new(&setup);
    kafka.publish(&events(5)).await;
    let worker = home.start(&setup);
    provider.until_seen(2).await;
    let paused = |log: &String| log.contains("too much is uncommitted: the partition is paused");
    until("a pause", SOON, async || home.log(), paused).await;

    worker.signal(Signal::STOP);
    // Longer than its session and its poll interval: what is tested is that this time passes.
    tokio::time::sleep(Duration::from_secs(6)).await;
    worker.signal(Signal::CONT);
    let kind = |kind| [("kind", kind)];
    worker
        .until_count("sendonce_rebalances_total", &kind("lost"), 1)
        .await;
    worker
        .until_count("sendonce_rebalances_total", &kind("assigned"), 2)
        .await;
    gate.open();
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.holds(worker).await;
    assert_eq!(provider.seen().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_commit_is_tried_again_when_it_is_refused() {
    let kafka = Embedded::with_partitions(1);
    let stub = Stub::with(&[]).await;
    // All that is settled is left to the last commit.
    let setup = Setup::new(&kafka, &stub.url()).set("KAFKA__COMMIT_INTERVAL", "60s");
    let home = Home::new(&setup);
    kafka.publish(&events(20)).await;
    let mut worker = home.start(&setup);
    worker
        .until_count("sendonce_outcomes_total", &[("outcome", "accepted")], 20)
        .await;
    let commits = RDKafkaApiKey::OffsetCommit;
    kafka.cluster().request_errors(commits, &[REFUSED; 3]);
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);
    assert_eq!(kafka.committed("sendonce", "send-intents"), [Some(20)]);
    let refusals = home
        .log()
        .matches("a commit failed and is tried again")
        .count();
    assert_eq!(refusals, 3, "{}", home.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_beginning_that_was_chosen_is_committed_before_anything_is_read_and_outlives_a_kill() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([accepting()]).await;
    let setup = Setup::new(&kafka, &provider.url());
    let home = Home::new(&setup);
    kafka.publish(&events(3)).await;
    // The first commit of it is refused, so that it is left to those that follow.
    let commits = RDKafkaApiKey::OffsetCommit;
    kafka.cluster().request_errors(commits, &[REFUSED]);
    let latest = ["--start-at", "latest"];
    let mut worker = home.start_with(&setup, &latest);
    let committed = async || kafka.committed("sendonce", "send-intents");
    until("a commit", SOON, committed, |at| *at == [Some(3)]).await;
    worker.kill();
    assert!(home.log().contains("was not committed in time"));

    kafka
        .publish(&[Sent::json(&sms("meanwhile", "hello"))])
        .await;
    let worker = home.start_with(&setup, &latest);
    kafka.until_committed().await;
    assert_eq!(worker.count("sendonce_records_total", &[]).await, 1);
    assert_eq!(provider.seen().len(), 1, "what came while nobody ran");
    assert!(provider.seen()[0].body.contains("hello"));
}
