//! What keys, forms and bad requests get.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::super::Options;
use super::{BODY, OTHER_BODY, Stub, message, read_answer, read_to_end};

#[tokio::test]
async fn a_fresh_message_is_created_and_its_repeat_gets_the_stored_answer() {
    let stub = Stub::start(Options::default()).await;
    let first = stub.send("k", BODY).await;
    assert_eq!(
        (first.status, first.body.as_str()),
        (201, r#"{"id":"msg-00000001","status":"accepted"}"#)
    );
    assert_eq!(first.headers.get("idempotent-replayed"), None);
    let repeat = stub.send("k", BODY).await;
    assert_eq!((repeat.status, repeat.body), (201, first.body));
    assert_eq!(repeat.headers["idempotent-replayed"], "true");
    assert_eq!(
        stub.deliveries().await,
        json!([{"key": "k", "message_id": "msg-00000001", "recipient": "+12025550143", "requests": 2, "deliveries": 1}])
    );
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let stub = Stub::start(Options::default()).await;
    let mut connection = stub.connect().await;
    for number in 0..50 {
        connection
            .write_all(message(&format!("k-{number}"), BODY).as_bytes())
            .await
            .unwrap();
        assert_eq!(read_answer(&mut connection).await.status, 201);
    }
    assert_eq!(stub.stats().await["deliveries"], 50);
}

#[tokio::test]
async fn another_body_under_a_used_key_is_a_conflict_and_no_delivery() {
    let stub = Stub::start(Options::default()).await;
    stub.send("k", BODY).await;
    let answer = stub.send("k", OTHER_BODY).await;
    assert_eq!(
        (answer.status, answer.headers["content-type"].as_str()),
        (422, "application/problem+json")
    );
    let stats = stub.stats().await;
    assert_eq!(
        (&stats["deliveries"], &stats["keys_with_differing_requests"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(stats["events"]["conflict"], 1);
}

#[tokio::test]
async fn a_send_without_a_key_or_a_recipient_is_turned_away() {
    let stub = Stub::start(Options::default()).await;
    let no_key = stub.send("", BODY).await;
    assert_eq!(
        (no_key.status, no_key.headers["content-type"].as_str()),
        (400, "application/problem+json")
    );
    assert_eq!(stub.send("k", r#"{"text":"a"}"#).await.status, 400);
    let stats = stub.stats().await;
    assert_eq!(stats["deliveries"], 0);
    assert_eq!(
        stats["events"],
        json!({"request": 1, "key_missing": 1, "invalid": 1})
    );
}

#[tokio::test]
async fn another_header_may_carry_the_key() {
    let stub = Stub::start(Options {
        key_header: "X-Request-Id".to_owned(),
        ..Options::default()
    })
    .await;
    let mut connection = stub.connect().await;
    for _ in 0..2 {
        connection
            .write_all(
                message("k", BODY)
                    .replace("idempotency-key", "x-request-id")
                    .as_bytes(),
            )
            .await
            .unwrap();
        assert_eq!(read_answer(&mut connection).await.status, 201);
    }
    assert_eq!(
        (
            stub.stats().await["deliveries"].clone(),
            stub.count("replay").await
        ),
        (json!(1), 1)
    );
}

#[tokio::test]
async fn a_form_is_read_as_a_message_too() {
    let stub = Stub::start(Options {
        path: "/Messages.json".to_owned(),
        id_field: "sid".to_owned(),
        ..Options::default()
    })
    .await;
    let mut connection = stub.connect().await;
    let form = "To=%2B12025550143&Body=hello";
    let head = "POST /Messages.json HTTP/1.1\r\nhost: stub\r\nidempotency-key: k\r\ncontent-type: application/x-www-form-urlencoded\r\n";
    connection
        .write_all(format!("{head}content-length: {}\r\n\r\n{form}", form.len()).as_bytes())
        .await
        .unwrap();
    let answer = read_answer(&mut connection).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (201, r#"{"sid":"msg-00000001","status":"accepted"}"#)
    );
    assert_eq!(stub.deliveries().await[0]["recipient"], "+12025550143");
}

#[tokio::test]
async fn without_keys_every_whole_request_is_a_delivery() {
    let stub = Stub::start(Options {
        keys: false,
        ..Options::default()
    })
    .await;
    assert_eq!(stub.send("k", BODY).await.status, 201);
    assert_eq!(stub.send("k", BODY).await.status, 201);
    assert_eq!(stub.send("", BODY).await.status, 201);
    let stats = stub.stats().await;
    assert_eq!(
        (&stats["deliveries"], &stats["duplicate_deliveries"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(stub.deliveries().await[1]["key"], Value::Null);
}

#[tokio::test]
async fn a_request_whose_body_stops_short_is_no_delivery() {
    let stub = Stub::start(Options::default()).await;
    let whole = message("k", BODY);
    let mut connection = stub.connect().await;
    connection
        .write_all(&whole.as_bytes()[..whole.len() - 1])
        .await
        .unwrap();
    connection.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut connection).await.unwrap(), "");
    assert_eq!(
        stub.deliveries().await,
        json!([{"key": "k", "message_id": null, "recipient": null, "requests": 1, "deliveries": 0}])
    );
    assert_eq!(stub.count("incomplete").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_window_is_over_is_delivered_again_and_the_truth_tells() {
    let stub = Stub::start(Options {
        window: Duration::from_secs(60),
        ..Options::default()
    })
    .await;
    assert_eq!(stub.send("k", BODY).await.status, 201);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(
        stub.send("k", BODY).await.headers["idempotent-replayed"],
        "true"
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        stub.send("k", BODY).await.body,
        r#"{"id":"msg-00000002","status":"accepted"}"#
    );
    let stats = stub.stats().await;
    assert_eq!(
        (&stats["deliveries"], &stats["duplicate_deliveries"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        stub.deliveries().await,
        json!([{"key": "k", "message_id": "msg-00000001", "recipient": "+12025550143", "requests": 3, "deliveries": 2}])
    );
}

#[tokio::test]
async fn a_recipient_that_always_fails_gets_nothing_and_its_error_is_no_replay() {
    let stub = Stub::start(Options {
        fails_for: Some("+12025550143".to_owned()),
        ..Options::default()
    })
    .await;
    for _ in 0..2 {
        let answer = stub.send("k", BODY).await;
        assert_eq!(answer.status, 500);
        assert_eq!(answer.headers.get("idempotent-replayed"), None);
    }
    assert_eq!(stub.stats().await["deliveries"], 0);
    assert_eq!(stub.count("failed").await, 2);
    let another = BODY.replace("143", "144");
    assert_eq!(stub.send("k", &another).await.status, 201);
}

#[tokio::test]
async fn a_provider_that_stores_errors_replays_them_and_delivers_nothing() {
    let stub = Stub::start(Options {
        fails_for: Some("+12025550143".to_owned()),
        stores_errors: true,
        ..Options::default()
    })
    .await;
    assert_eq!(stub.send("k", BODY).await.status, 500);
    let again = stub.send("k", BODY).await;
    assert_eq!(
        (again.status, again.headers["idempotent-replayed"].as_str()),
        (500, "true")
    );
    assert_eq!(stub.stats().await["deliveries"], 0);
}

#[tokio::test]
async fn a_provider_that_ignores_the_body_answers_another_one_with_the_first_message() {
    let stub = Stub::start(Options {
        ignores_body: true,
        ..Options::default()
    })
    .await;
    let first = stub.send("k", BODY).await;
    let other = stub.send("k", OTHER_BODY).await;
    assert_eq!((other.status, &other.body), (201, &first.body));
    assert_eq!(stub.stats().await["deliveries"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_a_lock_delivers_each_request_that_comes_while_it_works_on_the_first() {
    let stub = Stub::start(Options {
        lacks_lock: true,
        faults: super::always(super::Fault::Slow).slow_by_ms(500),
        ..Options::default()
    })
    .await;
    let (mut one, mut other) = (stub.begin("k", BODY).await, stub.begin("k", BODY).await);
    let one = read_answer(&mut one).await;
    let other = read_answer(&mut other).await;
    assert_eq!((one.status, other.status), (201, 201));
    assert_ne!(one.body, other.body);
    assert_eq!(stub.stats().await["duplicate_deliveries"], 1);
    let later = stub.send("k", BODY).await;
    assert_eq!(later.headers["idempotent-replayed"], "true");
}
