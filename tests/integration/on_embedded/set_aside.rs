//! Dead letters: P42. The embedded broker takes whatever it is sent, unless it is told to refuse it.

use std::time::Duration;

use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use sha2::{Digest as _, Sha256};

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{
    Embedded, Home, KEYLESS_PROFILE, SOON, STUB_PROFILE, Sent, Setup, patient, sms,
};
use crate::scripted::{Act, Gate, Scripted, accepting, accepting_after, answer, refusing};
use crate::standing::Standing;
use crate::waiting::until;

/// An intent of exactly this many bytes.
fn padded(id: &str, size: usize) -> Vec<u8> {
    let bare = sms(id, "").to_string().len();
    sms(id, &"x".repeat(size - bare)).to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn p42_a_large_intent_is_set_aside_whole_and_one_too_large_for_that_by_its_size_and_hash() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([refusing("400 Bad Request")]).await;
    let setup = Setup::new(&kafka, &provider.url());
    let home = Home::new(&setup);
    let producer: FutureProducer = kafka
        .client()
        .set("message.max.bytes", "2000000")
        .create()
        .expect("a producer");
    let large = padded("large", 999_900);
    // Within the limits of what is read; with its headers, over what is written.
    let with_headers = padded("with headers", 999_900);
    let over = padded("over the limit", 1_000_001);
    for (value, headers) in [(&large, 0), (&with_headers, 60_000), (&over, 0)] {
        let header = rdkafka::message::Header {
            key: "baggage",
            value: Some(&"x".repeat(headers)),
        };
        let headers = rdkafka::message::OwnedHeaders::new().insert(header);
        let record: FutureRecord<'_, str, [u8]> = FutureRecord::to("send-intents")
            .payload(&value[..])
            .headers(headers);
        let sent = producer.send(record, Duration::from_secs(30)).await;
        sent.expect("an acknowledgement");
    }
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let rejected = [("reason", "rejected")];
    assert_eq!(
        worker.count("sendonce_dead_letters_total", &rejected).await,
        2
    );
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .holds(worker)
        .await;

    assert_eq!(
        provider.seen().len(),
        2,
        "one request each, and none for what is over the limit"
    );
    let letters = dead_letters(&kafka);
    assert_eq!(
        reasons(&letters),
        [
            ("rejected", "refused"),
            ("rejected", "value_omitted"),
            ("too_large", "value_too_large")
        ]
    );
    assert_eq!(letters[0].value.as_ref(), Some(&large));
    assert_eq!(letters[2].value.as_ref(), Some(&over));
    let omitted = &letters[1];
    assert_eq!(omitted.value, None);
    assert_eq!(omitted.header("value-size"), Some("999900"));
    let hash: String = Sha256::digest(&with_headers)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(omitted.header("value-sha256"), Some(hash.as_str()));
    assert_eq!(omitted.header("event-id"), Some("with headers"));
    assert!(omitted.header("key").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_refuses_for_good_is_set_aside_with_no_less_of_its_record_than_it_must() {
    const SIZE: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    const DATE: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP;
    let kafka = Embedded::with_partitions(1);
    let cases = [
        ("too large", vec![SIZE]),
        ("too large even so", vec![SIZE, SIZE]),
        ("too old", vec![DATE]),
    ];
    let gates = cases.each_ref().map(|(text, _)| (*text, Gate::closed()));
    let held = gates.clone();
    let provider = Scripted::by(move |request, _| {
        let ends = |text: &str| request.body.contains(&format!("\"{text}\""));
        let (_, gate) = held.iter().find(|(text, _)| ends(text)).expect("a case");
        Act::AnswerAfter(gate.clone(), answer("400 Bad Request", "", "{}")).not_taking()
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url()).with_profile(&patient(STUB_PROFILE));
    let home = Home::new(&setup);
    let moment = jiff::Timestamp::now().as_millisecond() - 3_600_000;
    let record = |text: &str| Sent {
        timestamp_ms: Some(moment),
        ..Sent::json(&sms(text, text))
            .keyed(text)
            .headed("traceparent", "00-ab")
    };
    let records = cases.each_ref().map(|(text, _)| record(text));
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    provider.until_seen(3).await;
    for (done, ((_, refusals), (_, gate))) in (1..).zip(cases.iter().zip(&gates)) {
        let writes = RDKafkaApiKey::Produce;
        kafka.cluster().request_errors(writes, refusals);
        gate.open();
        worker
            .until_count("sendonce_dead_letters_total", &[], done)
            .await;
    }
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.holds(worker).await;

    let letters = dead_letters(&kafka);
    let (omitted, whole) = (("rejected", "value_omitted"), ("rejected", "refused"));
    assert_eq!(reasons(&letters), [omitted, omitted, whole]);
    let repeated = letters.iter().map(|letter| {
        let traced = letter.headers.contains_key("traceparent");
        (letter.value.is_some(), traced, letter.key.is_some())
    });
    let expected = [
        (false, false, true),
        (false, false, false),
        (true, true, true),
    ];
    assert_eq!(repeated.collect::<Vec<_>>(), expected);
    for (letter, record) in letters.iter().zip(&records) {
        assert_eq!(letter.header("event-id"), record.key.as_deref());
        assert_eq!(letter.header("status"), Some("400"));
    }
    assert_eq!(letters[2].value, records[2].value);
    assert_eq!(letters[2].header("timestamp"), Some(&*moment.to_string()));
    let size = records[0]
        .value
        .as_ref()
        .map(|value| value.len().to_string());
    assert_eq!(letters[0].header("value-size"), size.as_deref());
}

/// Two places: one is taken by a slow request, and what waits for the dead-letter topic takes none.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_rendered_holds_no_place_while_its_dead_letter_waits() {
    let kafka = Embedded::with_partitions(1);
    let gate = Gate::closed();
    let held = gate.clone();
    let provider = Scripted::by(move |request, _| match request.body.contains("slow") {
        true => accepting_after(&held),
        false => accepting(),
    })
    .await;
    let profile = KEYLESS_PROFILE.replace("\"{{ content }}\"", "\"{{ content.text }}\"");
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&patient(&profile))
        .set("DISPATCH__CONCURRENCY", "2");
    let home = Home::new(&setup);
    let bad = |id: &str| {
        let mut bad = sms(id, "");
        bad["content"] = serde_json::json!({"other": "x"});
        Sent::json(&bad)
    };
    let records = [
        Sent::json(&sms("e-0", "slow")).keyed("k"),
        bad("b-1"),
        bad("b-2"),
        Sent::json(&sms("e-1", "hello")).keyed("k"),
    ];
    kafka.publish(&records).await;
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
    let cluster = kafka.cluster();
    cluster.request_errors(RDKafkaApiKey::Produce, &[refusal; 2_000]);
    let worker = home.start(&setup);
    provider.until_seen(1).await;
    let told = async || home.log().matches("cannot be rendered").count();
    until("both to be told of", SOON, told, |count| *count == 2).await;
    gate.open();
    provider.until_seen(2).await;
    assert_eq!(worker.count("sendonce_dead_letters_total", &[]).await, 0);
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    kafka.until_committed().await;
    drop(worker);
    let letters = dead_letters(&kafka);
    let malformed = reasons(&letters);
    assert!(malformed.iter().all(|(reason, _)| *reason == "malformed"));
    assert_eq!(malformed.len(), 2);
}
