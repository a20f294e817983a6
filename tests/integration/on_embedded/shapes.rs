//! What goes in, seen at the provider: P55, P57, P58.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{Embedded, Home, Sent, Setup, sms};
use crate::standing::Standing;
use crate::stub::Stub;

/// An intent without an id.
fn payload(to: &str) -> Value {
    json!({"channel": "sms", "to": to, "content": {"text": "hello"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn p55_the_outbox_shapes_are_sent_alike_and_what_asks_for_nothing_is_ignored() {
    let kafka = Embedded::with_partitions(1);
    let stub = Stub::with(&[]).await;
    let setup = Setup::new(&kafka, &stub.url());
    let home = Home::new(&setup);
    let inner = payload("+447700900123");
    let text = Value::from(inner.to_string());
    let shape = |id: &str, value: &Value| Sent::json(value).headed("id", id);
    let schema = json!({"type": "struct", "optional": false, "fields": []});
    let deletion = json!({"before": {"id": "1"}, "after": null, "op": "d", "ts_ms": 1});
    let records = [
        shape("an object", &inner),
        shape("escaped", &text),
        shape("enveloped", &json!({"schema": schema, "payload": inner})),
        shape(
            "with extra fields",
            &json!({"payload": text, "eventType": "code", "aggregateid": 42}),
        ),
        shape("deleted", &deletion),
        Sent::json(&json!({"ts_ms": 1_792_567_620_000_u64})),
        Sent::default().headed("id", "a tombstone"),
        Sent::json(&inner),
    ];
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    for reason in ["deletion", "heartbeat", "tombstone"] {
        let ignored = worker
            .count("sendonce_ignored_total", &[("reason", reason)])
            .await;
        assert_eq!(ignored, 1, "{reason}");
    }
    let standing = Standing::of(&kafka, &home).stub(&stub);
    let ledger = standing.holds(worker).await;
    for id in ["an object", "escaped", "enveloped", "with extra fields"] {
        assert!(ledger.story(id).accepted().is_some(), "{id}");
    }
    assert_eq!(
        stub.by_recipient().await,
        BTreeMap::from([("+447700900123".to_owned(), (4, 4))])
    );
    assert_eq!(
        reasons(&dead_letters(&kafka)),
        [("malformed", "missing_event_id")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p57_cloudevents_are_read_in_either_mode_and_a_source_is_part_of_the_identity() {
    let kafka = Embedded::with_partitions(1);
    let stub = Stub::with(&[]).await;
    let setup = Setup::new(&kafka, &stub.url());
    let home = Home::new(&setup);
    let data = payload("+447700900123");
    let structured = |id: &str, source: &str, content_type: &str| {
        let event = json!({
            "specversion": "1.0", "type": "code", "id": id, "source": source, "data": data,
        });
        Sent::json(&event).headed("content-type", content_type)
    };
    let binary = |id: &str| {
        let attributes = [
            ("specversion", "1.0"),
            ("type", "code"),
            ("source", "/orders"),
            ("id", id),
        ];
        attributes
            .iter()
            .fold(Sent::json(&data), |sent, (name, value)| {
                sent.headed(&format!("ce_{name}"), value)
            })
    };
    let mime = "application/cloudevents+json; charset=UTF-8";
    let batch = json!([{"specversion": "1.0", "type": "code", "id": "batch", "source": "/orders", "data": data}]);
    let mut capitals = structured("capitals", "/orders", "");
    capitals.headers = vec![("Content-Type".to_owned(), mime.to_uppercase())];
    let records = [
        structured("structured", "/orders", mime),
        binary("binary").headed("content-type", "application/json"),
        binary("no content type"),
        binary("datacontenttype").headed("ce_datacontenttype", "application/json"),
        capitals,
        Sent::json(&batch).headed("content-type", "application/cloudevents-batch+json"),
        structured("two sources", "/orders", mime),
        structured("two sources", "/refunds", mime),
    ];
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).stub(&stub);
    let ledger = standing.holds(worker).await;
    for id in [
        "structured",
        "binary",
        "no content type",
        "datacontenttype",
        "capitals",
    ] {
        assert!(ledger.story(id).accepted().is_some(), "{id}");
    }
    let stats = stub.stats().await;
    assert_eq!(
        (stats.keys, stats.deliveries),
        (7, 7),
        "two keys for two sources"
    );
    let letters = dead_letters(&kafka);
    assert_eq!(reasons(&letters), [("malformed", "unsupported_format")]);
    assert_eq!(letters[0].value, records[5].value);
}

#[tokio::test(flavor = "multi_thread")]
async fn p58_clear_numbers_are_sent_once_in_one_spelling_and_none_is_guessed() {
    let kafka = Embedded::with_partitions(1);
    let stub = Stub::with(&[]).await;
    let setup = Setup::new(&kafka, &stub.url());
    let home = Home::new(&setup);
    let to = |id: &str, to: &str| {
        let mut intent = sms(id, "hello");
        intent["to"] = to.into();
        Sent::json(&intent)
    };
    let clear = [
        ("spaces", "+44 7700 900123", "+447700900123"),
        ("leading space", " +447700900124", "+447700900124"),
        ("scheme", "sms: +1 (202) 555-0143", "+12025550143"),
        ("trunk zero", "+44(0)7700900125", "+447700900125"),
        ("Arabic digits", "+٤٤٧٧٠٠٩٠٠١٢٦", "+447700900126"),
        ("twice", "+44 7700 900127", "+447700900127"),
        ("twice", "+44-7700-900127", "+447700900127"),
    ];
    let unclear = [
        ("local", "07700900123"),
        ("two plus signs", "++12025550143"),
        ("prefix without a region", "00447700900123"),
        ("16 digits", "+4477009001234567"),
        ("short code", "72345"),
    ];
    let records: Vec<Sent> = clear
        .iter()
        .map(|(id, typed, _)| to(id, typed))
        .chain(unclear.iter().map(|(id, typed)| to(id, typed)))
        .collect();
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    assert_eq!(
        worker.count("sendonce_suppressed_total", &[]).await,
        1,
        "two spellings, one send"
    );
    Standing::of(&kafka, &home).stub(&stub).holds(worker).await;

    let once = clear
        .iter()
        .map(|(_, _, written)| ((*written).to_owned(), (1, 1)));
    assert_eq!(stub.by_recipient().await, once.collect());
    let letters = dead_letters(&kafka);
    assert_eq!(reasons(&letters), [("malformed", "bad_recipient"); 5]);
}
