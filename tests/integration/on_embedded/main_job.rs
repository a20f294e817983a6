//! The main job: what is published is sent once, and its offset is committed.

use crate::product::{Embedded, Home, SOON, Sent, Setup, code, sms};
use crate::stub::Stub;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_is_sent_once_and_committed_and_a_second_run_sends_nothing() {
    let kafka = Embedded::with_partitions(3);
    let stub = Stub::with(&[]).await;
    let setup = Setup::new(&kafka, &stub.url());
    let home = Home::new(&setup);
    let records: Vec<Sent> = (0..50)
        .map(|n| Sent::json(&sms(&format!("e-{n}"), "Your code is 482901")).keyed(&n.to_string()))
        .collect();
    kafka.publish(&records).await;

    let mut worker = home.start(&setup);
    worker.until_ready().await;
    kafka.until_committed().await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0, "{}", home.log());

    kafka.publish(&records).await;
    let mut worker = home.start(&setup);
    kafka.until_committed().await;
    worker
        .until_count("sendonce_suppressed_total", &[("reason", "ledger")], 50)
        .await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0, "{}", home.log());

    let stats = stub.stats().await;
    assert_eq!(stub.requests().await, 50);
    assert_eq!((stats.deliveries, stats.duplicate_deliveries), (50, 0));
}
