//! What each fault looks like from outside, and what was delivered under it.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::super::{Fault, Options};
use super::{BODY, Stub, always, once, parse, read_answer, read_to_end};

#[tokio::test(start_paused = true)]
async fn accept_then_hang_says_nothing_and_closes_when_the_hang_is_over() {
    let options = Options {
        faults: once(Fault::AcceptThenHang).hanging_ms(30_000),
        ..Options::default()
    };
    let stub = Stub::start(options).await;
    let before = Instant::now();
    let mut hanging = stub.begin("k", BODY).await;
    assert_eq!(read_to_end(&mut hanging).await.unwrap(), "");
    assert!(before.elapsed() >= Duration::from_secs(30));
    assert_eq!(
        stub.send("k", BODY).await.headers["idempotent-replayed"],
        "true"
    );
    assert_eq!(stub.stats().await["deliveries"], 1);
}

#[tokio::test]
async fn the_key_is_answered_for_others_while_its_first_request_hangs() {
    let stub = Stub::start(Options {
        faults: once(Fault::AcceptThenHang),
        ..Options::default()
    })
    .await;
    let hanging = stub.begin("k", BODY).await;
    stub.requests_reach(1).await;
    assert_eq!(
        stub.send("k", BODY).await.headers["idempotent-replayed"],
        "true"
    );
    drop(hanging);
}

#[tokio::test]
async fn accept_then_reset_delivers_and_resets() {
    let stub = Stub::failing(Fault::AcceptThenReset).await;
    assert_eq!(
        read_to_end(&mut stub.begin("k", BODY).await).await,
        Err(ErrorKind::ConnectionReset)
    );
    assert_eq!(stub.stats().await["deliveries"], 1);
}

#[tokio::test]
async fn reset_before_reading_resets_and_delivers_nothing() {
    let stub = Stub::failing(Fault::ResetBeforeReading).await;
    assert_eq!(
        read_to_end(&mut stub.begin("k", BODY).await).await,
        Err(ErrorKind::ConnectionReset)
    );
    let stats = stub.stats().await;
    assert_eq!(
        (&stats["deliveries"], &stats["events"]),
        (&json!(0), &json!({"reset_before_reading": 1}))
    );
    assert_eq!(stub.deliveries().await[0]["requests"], 1);
}

#[tokio::test]
async fn an_error_before_accepting_leaves_the_key_unused() {
    let stub = Stub::start(Options {
        faults: once(Fault::ErrorBeforeAccepting),
        ..Options::default()
    })
    .await;
    assert_eq!(stub.send("k", BODY).await.status, 500);
    assert_eq!(stub.stats().await["deliveries"], 0);
    let second = stub.send("k", BODY).await;
    assert_eq!(
        (second.status, second.headers.get("idempotent-replayed")),
        (201, None)
    );
}

#[tokio::test]
async fn an_error_after_accepting_hides_an_acceptance() {
    let stub = Stub::start(Options {
        faults: once(Fault::ErrorAfterAccepting),
        ..Options::default()
    })
    .await;
    assert_eq!(stub.send("k", BODY).await.status, 500);
    let second = stub.send("k", BODY).await;
    assert_eq!(
        (
            second.status,
            second.headers["idempotent-replayed"].as_str()
        ),
        (201, "true")
    );
    assert_eq!(stub.stats().await["deliveries"], 1);
}

#[tokio::test]
async fn a_stored_error_is_replayed_for_ever() {
    let stub = Stub::start(Options {
        faults: once(Fault::StoredError),
        ..Options::default()
    })
    .await;
    assert_eq!(
        stub.send("k", BODY)
            .await
            .headers
            .get("idempotent-replayed"),
        None
    );
    for _ in 0..3 {
        let repeat = stub.send("k", BODY).await;
        assert_eq!(
            (
                repeat.status,
                repeat.headers["idempotent-replayed"].as_str()
            ),
            (500, "true")
        );
    }
    assert_eq!(stub.stats().await["deliveries"], 1);
}

#[tokio::test]
async fn throttling_names_its_wait_in_seconds_or_as_a_date_and_accepts_nothing() {
    let stub = Stub::start(Options {
        faults: always(Fault::ThrottledSeconds).retry_after_seconds(7),
        ..Options::default()
    })
    .await;
    let answer = stub.send("k", BODY).await;
    assert_eq!(
        (answer.status, answer.headers["retry-after"].as_str()),
        (429, "7")
    );
    let dated = Stub::failing(Fault::ThrottledDate).await;
    let answer = dated.send("k", BODY).await;
    let (wait_over, sent) = (&answer.headers["retry-after"], &answer.headers["date"]);
    let between = httpdate::parse_http_date(wait_over)
        .unwrap()
        .duration_since(httpdate::parse_http_date(sent).unwrap());
    assert!(
        (1..=3).contains(&between.unwrap().as_secs()),
        "{wait_over} for {sent}"
    );
    assert_eq!(
        (stub.count("delivery").await, dated.count("delivery").await),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_holds_its_key_in_progress_and_is_answered_late() {
    let stub = Stub::start(Options {
        faults: once(Fault::Slow).slow_by_ms(1_500),
        ..Options::default()
    })
    .await;
    let before = Instant::now();
    let mut slow = stub.begin("k", BODY).await;
    stub.requests_reach(1).await;
    let meanwhile = stub.send("k", BODY).await;
    assert_eq!(
        (meanwhile.status, meanwhile.headers["content-type"].as_str()),
        (409, "application/problem+json")
    );
    assert_eq!(read_answer(&mut slow).await.status, 201);
    assert!(before.elapsed() >= Duration::from_millis(1_500));
    assert_eq!(
        stub.send("k", BODY).await.headers["idempotent-replayed"],
        "true"
    );
    assert_eq!(stub.stats().await["deliveries"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_is_delivered_though_its_client_has_gone() {
    let stub = Stub::start(Options {
        faults: once(Fault::Slow).slow_by_ms(1_500),
        ..Options::default()
    })
    .await;
    let slow = stub.begin("k", BODY).await;
    stub.requests_reach(1).await;
    drop(slow);
    assert_eq!(stub.send("k", BODY).await.status, 409);
    tokio::time::advance(Duration::from_millis(1_500)).await;
    assert_eq!(
        stub.send("k", BODY).await.headers["idempotent-replayed"],
        "true"
    );
    assert_eq!(stub.stats().await["deliveries"], 1);
}

#[tokio::test]
async fn a_truncated_answer_announces_more_than_it_sends() {
    let stub = Stub::failing(Fault::TruncatedBody).await;
    let text = read_to_end(&mut stub.begin("k", BODY).await).await.unwrap();
    let (answer, announced) = parse(text.as_bytes()).unwrap();
    assert_eq!(
        (answer.status, announced, answer.body.as_str()),
        (201, 41, r#"{"id":"msg-00000001""#)
    );
    assert_eq!(stub.stats().await["deliveries"], 1);
}

#[tokio::test]
async fn a_gateway_error_is_a_page_of_html_after_an_acceptance() {
    let stub = Stub::failing(Fault::HtmlGatewayError).await;
    let answer = stub.send("k", BODY).await;
    assert_eq!(
        (answer.status, answer.headers["content-type"].as_str()),
        (502, "text/html; charset=utf-8")
    );
    assert!(answer.body.starts_with("<html>"));
    assert_eq!(stub.stats().await["deliveries"], 1);
}
