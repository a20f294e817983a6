//! Dead letters: P42. The embedded broker takes whatever it is sent, so only the product's own limits are shown here.

use std::time::Duration;

use rdkafka::producer::{FutureProducer, FutureRecord};
use sha2::{Digest as _, Sha256};

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{Embedded, Home, SOON, Setup, sms};
use crate::scripted::{Scripted, refusing};
use crate::standing::Standing;

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
    kafka
        .until_committed_to_the_end("sendonce", "send-intents", SOON)
        .await;
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
            ("rejected", "provider"),
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
