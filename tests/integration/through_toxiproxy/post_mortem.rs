//! The post-mortem itself: the provider has accepted, its answer is lost, and the message must not go out again.
//!
//! The real binary sends through a proxy that harms answers only, so that every request arrives whole.

use sendonce::stub_provider::Options;
use serde_json::Value;

use crate::product::{
    Embedded, Home, KEYLESS_PROFILE, SOON, Sent, Setup, code, headers, publish, sms,
};
use crate::stub::{Item, Stub};
use crate::toxiproxy::{Direction, Toxic, Toxiproxy};

/// Closes the connection behind `HTTP/1.1 `: the status has not come.
const CUT_IN_THE_HEAD: Toxic = Toxic::CloseAfter { bytes: 9 };

/// Every answer is lost to `toxic` until the first attempt has ended. Then one message has been delivered, under one key
/// and by the same bytes each time, and the intent is accepted.
async fn one_delivery_although_the_answer_is_lost_to(toxic: Toxic) {
    let Some(toxiproxy) = Toxiproxy::start().await else {
        return;
    };
    let stub = Stub::with(&[]).await;
    let proxy = toxiproxy.proxy("provider", stub.address()).await;
    let kafka = Embedded::with_partitions(1);
    let setup = Setup::new(&kafka, &format!("http://{}", proxy.address()));
    let home = Home::new(&setup);
    let intent = sms("order-181", "Your code is 482901");
    publish(&kafka, "send-intents", &[Sent::json(&intent)]).await;

    proxy.add(Direction::Downstream, toxic).await;
    let mut worker = home.start(&setup);
    worker
        .until_count("sendonce_attempts_total", &[("verdict", "unknown")], 1)
        .await;
    assert_eq!(stub.stats().await.deliveries, 1, "the provider took it");
    proxy.heal().await;
    kafka
        .until_committed_to_the_end("sendonce", "send-intents", SOON)
        .await;

    let accepted = [("outcome", "accepted")];
    let outcomes = worker.count("sendonce_outcomes_total", &accepted).await;
    let attempts = worker.count("sendonce_attempts_total", &[]).await;
    let replays = worker.count("sendonce_provider_replays_total", &[]).await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0, "{}", home.log());

    let stats = stub.stats().await;
    assert_eq!((stats.keys, stats.deliveries), (1, 1), "{stats:?}");
    assert_eq!(stats.keys_with_differing_requests, 0, "{stats:?}");
    let item: Item = stub.deliveries().await.remove(0);
    assert_eq!(item.key, Some(key_of(&home, &setup, "order-181")));
    assert!(item.requests > 1, "{item:?}");
    assert_eq!((outcomes, replays), (1, 1));
    assert_eq!(attempts, item.requests);
    assert!(kafka.records("send-intents.dlq").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_delivery_although_the_answer_hangs_for_ever() {
    one_delivery_although_the_answer_is_lost_to(Toxic::Hang).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_delivery_although_the_connection_is_reset_after_the_provider_accepted() {
    one_delivery_although_the_answer_is_lost_to(Toxic::Reset).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_delivery_although_the_connection_is_closed_in_the_middle_of_the_answers_head() {
    one_delivery_although_the_answer_is_lost_to(CUT_IN_THE_HEAD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_knows_no_keys_is_not_asked_again_after_a_lost_answer() {
    let Some(toxiproxy) = Toxiproxy::start().await else {
        return;
    };
    for toxic in [Toxic::Hang, Toxic::Reset, CUT_IN_THE_HEAD] {
        let stub = Stub::start(Options {
            keys: false,
            ..Options::default()
        })
        .await;
        let proxy = toxiproxy.proxy(&format!("{toxic:?}"), stub.address()).await;
        let kafka = Embedded::with_partitions(1);
        let setup = Setup::new(&kafka, &format!("http://{}", proxy.address()))
            .with_profile(KEYLESS_PROFILE);
        let home = Home::new(&setup);
        let intent = sms("order-181", "Your code is 482901");
        publish(&kafka, "send-intents", &[Sent::json(&intent)]).await;

        proxy.add(Direction::Downstream, toxic).await;
        let worker = home.start(&setup);
        kafka
            .until_committed_to_the_end("sendonce", "send-intents", SOON)
            .await;

        assert_eq!(worker.count("sendonce_unknown_open", &[]).await, 1);
        assert_eq!(stub.requests().await, 1, "{toxic:?}");
        assert_eq!(stub.stats().await.deliveries, 1, "{toxic:?}");
        let letters = kafka.records("send-intents.dlq");
        assert_eq!(letters.len(), 1, "{toxic:?}");
        assert_eq!(headers(&letters[0])["sendonce-reason"], "outcome_unknown");
    }
}

/// The key that `sendonce key` prints for an event, which has never seen the worker's ledger.
fn key_of(home: &Home, setup: &Setup, event_id: &str) -> String {
    let asked = ["key", "--json", "--channel", "sms", "--to", "+447700900123"];
    let output = home
        .command(setup)
        .args(asked)
        .args(["--event-id", event_id])
        .output()
        .expect("the binary runs");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    printed["key"].as_str().expect("a key").to_owned()
}
