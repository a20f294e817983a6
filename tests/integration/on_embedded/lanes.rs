//! Several topics of intents: none waits behind the backlog of another, and each has its own dead letters.

use std::time::Duration;

use crate::dead_letters::{dead_letters_in, reasons};
use crate::product::{Embedded, Home, SOON, STUB_PROFILE, Sent, Setup, patient, publish, sms, via};
use crate::scripted::{Gate, Scripted, accepting, accepting_after, refusing};
use crate::standing::Standing;
use crate::two_lanes::{TwoLanes, start};

const MARKETING: &str = "marketing";

/// The usual topics and those of a second lane, of one partition each.
fn with_two_lanes() -> Embedded {
    let kafka = Embedded::with_partitions(1);
    for topic in [MARKETING, "marketing.dlq"] {
        kafka.cluster().create_topic(topic, 1, 1).expect("a topic");
    }
    kafka
}

async fn until_committed(kafka: &Embedded) {
    for topic in ["send-intents", MARKETING] {
        kafka
            .until_committed_to_the_end("sendonce", topic, SOON)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_codes_go_out_within_few_other_sends_although_thousands_of_letters_came_before() {
    let kafka = with_two_lanes();
    let lanes = TwoLanes::new(&kafka, "send-intents", MARKETING).await;
    let setup = lanes.lanes(Setup::new(&kafka, &lanes.provider.url()));
    let (home, worker) = start(&setup);
    lanes.publish_to(&worker).await;
    lanes.until_sent("sendonce").await;
    lanes.assert_few_letters_went_before_the_codes();
    Standing::of(&kafka, &home)
        .scripted(&lanes.provider)
        .holds(worker)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_whose_provider_answers_nobody_takes_no_room_from_the_other() {
    let kafka = with_two_lanes();
    let gate = Gate::closed();
    let stuck = Scripted::playing([accepting_after(&gate)]).await;
    let works = Scripted::playing([accepting()]).await;
    let setup = Setup::new(&kafka, &works.url())
        .with_profile(&patient(STUB_PROFILE))
        .provider("stuck", &patient(STUB_PROFILE), &stuck.url())
        .set("LANE__MARKETING__TOPIC", MARKETING)
        .set("INTENTS__OPEN_MAX", "20");
    let home = Home::new(&setup);
    let letter = |n: usize| via("stuck", sms(&format!("letter-{n}"), "hello"));
    let letters: Vec<Sent> = (0..300).map(|n| Sent::json(&letter(n))).collect();
    publish(&kafka, MARKETING, &letters).await;
    let worker = home.start(&setup);
    let of_marketing = [("topic", MARKETING)];
    worker
        .until_count("sendonce_open_intents", &of_marketing, 15)
        .await;

    // Many more than there is room for at once.
    let code = |n: usize| Sent::json(&sms(&format!("code-{n}"), "hello"));
    let codes: Vec<Sent> = (0..200).map(code).collect();
    kafka.publish(&codes).await;
    kafka.until_committed().await;
    assert_eq!(works.seen().len(), 200);
    assert_eq!(stuck.seen().len(), 15, "half of a share is never lent");

    gate.open();
    until_committed(&kafka).await;
    Standing::of(&kafka, &home)
        .scripted(&stuck)
        .scripted(&works)
        .holds(worker)
        .await;
    assert_eq!(stuck.seen().len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_not_read_because_as_much_is_open_as_may_be_has_not_stalled() {
    let kafka = Embedded::with_partitions(2);
    let gate = Gate::closed();
    let provider = Scripted::playing([accepting_after(&gate)]).await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&patient(STUB_PROFILE).replace("\"30s\"", "\"300s\""))
        .set("INTENTS__OPEN_MAX", "5")
        .set("KAFKA__STALL_AFTER", "5s")
        .set("SHUTDOWN__DRAIN", "10m");
    let home = Home::new(&setup);
    let some = |partition: i32, from: usize, to: usize| -> Vec<Sent> {
        let one = |n: usize| {
            let id = format!("{partition}-{n}");
            Sent::json(&sms(&id, "hello")).at(partition)
        };
        (from..to).map(one).collect()
    };
    kafka.publish(&some(0, 0, 10)).await;
    let worker = home.start(&setup);
    worker.until_count("sendonce_open_intents", &[], 5).await;
    // Each time the brokers are looked at again, and that is further apart than a stall takes.
    for seen in 1..=3 {
        kafka.publish(&some(1, seen - 1, seen)).await;
        let unread = [("partition", "1")];
        worker
            .until_count("sendonce_consumer_lag", &unread, seen as u64)
            .await;
        assert_eq!(worker.count("sendonce_consumer_stalled", &[]).await, 0);
    }
    worker.until_ready().await;
    gate.open();
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.holds(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_shared_out_by_the_partitions_of_all_lanes_together() {
    let kafka = with_two_lanes();
    let provider = Scripted::playing([accepting()]).await;
    let setup = Setup::new(&kafka, &provider.url())
        .set("LANE__MARKETING__TOPIC", MARKETING)
        .set("PROVIDER__STUB__RATE_PER_SECOND", "20")
        .set("PROVIDER__STUB__BURST", "1");
    let homes = [Home::new(&setup), Home::new(&setup)];
    let mut workers = Vec::new();
    for home in &homes {
        let worker = home.start(&setup);
        worker.until_ready().await;
        workers.push(worker);
    }
    let many = |what: &str| -> Vec<Sent> {
        let one = |n: usize| Sent::json(&sms(&format!("{what}-{n}"), what));
        (0..30).map(one).collect()
    };
    publish(&kafka, MARKETING, &many("letter")).await;
    kafka.publish(&many("code")).await;
    until_committed(&kafka).await;
    for (worker, records) in workers.iter().zip([30, 30]) {
        assert_eq!(worker.count("sendonce_records_total", &[]).await, records);
    }
    // One of two partitions is half of the rate: 29 times a tenth of a second. The whole would be half of that.
    for what in ["letter", "code"] {
        let seen = provider.seen_with(what);
        let took = seen[29].at - seen[0].at;
        assert!(took > Duration::from_millis(2_300), "{what}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lane_has_its_own_dead_letters_and_one_event_in_two_lanes_is_one_intent() {
    let kafka = with_two_lanes();
    let provider = Scripted::by(|request, _| {
        if request.body.contains("refuse me") {
            refusing("400 Bad Request")
        } else {
            accepting()
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url()).set("LANE__MARKETING__TOPIC", MARKETING);
    let home = Home::new(&setup);
    let first = [
        Sent::json(&sms("e-1", "refuse me")),
        Sent::json(&sms("both", "hello")),
    ];
    kafka.publish(&first).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let second = [
        Sent::json(&sms("both", "hello")),
        Sent::json(&sms("both", "something else")),
        Sent::bytes("no intent"),
    ];
    publish(&kafka, MARKETING, &second).await;
    until_committed(&kafka).await;
    assert_eq!(worker.count("sendonce_suppressed_total", &[]).await, 1);
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.holds(worker).await;

    assert_eq!(provider.seen().len(), 2, "one refused, one accepted");
    let letters = dead_letters_in(&kafka, "send-intents.dlq");
    assert_eq!(reasons(&letters), [("rejected", "refused")]);
    let letters = dead_letters_in(&kafka, "marketing.dlq");
    let told = [
        ("payload_conflict", "id_reused"),
        ("malformed", "invalid_json"),
    ];
    assert_eq!(reasons(&letters), told);
    for letter in &letters {
        let topic = letter.headers.get("__dlq.errors.topic");
        assert_eq!(topic.map(String::as_str), Some(MARKETING));
    }
}
