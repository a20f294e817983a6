//! What the admin paths and the truth log tell, and how the provider ends.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::super::{Fault, FaultMix, Options, serve};
use super::{BODY, Stub, always, read_answer, read_to_end};

#[tokio::test]
async fn a_reset_forgets_keys_and_counts_but_numbers_on() {
    let stub = Stub::start(Options::default()).await;
    stub.send("k", BODY).await;
    assert_eq!(stub.admin("POST", "reset", "").await.status, 204);
    assert_eq!(
        (stub.deliveries().await, stub.stats().await["keys"].clone()),
        (json!([]), json!(0))
    );
    assert_eq!(
        stub.send("k", BODY).await.body,
        r#"{"id":"msg-00000002","status":"accepted"}"#
    );
}

#[tokio::test]
async fn the_fault_mix_is_changed_while_it_runs() {
    let stub = Stub::start(Options::default()).await;
    assert_eq!(
        stub.admin("POST", "faults", r#"{"rates":{"html_gateway_error":1}}"#)
            .await
            .status,
        204
    );
    assert_eq!(stub.send("k", BODY).await.status, 502);
    let mix: Value = serde_json::from_str(&stub.admin("GET", "faults", "").await.body).unwrap();
    assert_eq!(mix["rates"], json!({"html_gateway_error": 1.0}));
    let refused = stub
        .admin("POST", "faults", r#"{"rates":{"slow":2}}"#)
        .await;
    assert_eq!(
        (
            refused.status,
            refused.body.contains("the rate of slow is 2")
        ),
        (400, true)
    );
    assert_eq!(stub.admin("POST", "faults", "{}").await.status, 204);
    assert_eq!(stub.send("k", BODY).await.status, 201);
}

#[tokio::test]
async fn what_is_not_offered_is_refused() {
    let stub = Stub::start(Options::default()).await;
    assert_eq!(stub.admin("GET", "nosuch", "").await.status, 404);
    let mut connection = stub.connect().await;
    connection
        .write_all(b"GET /v1/messages HTTP/1.1\r\nhost: stub\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read_answer(&mut connection).await.status, 405);
    connection
        .write_all(b"POST /v2/messages HTTP/1.1\r\nhost: stub\r\ncontent-length: 0\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read_answer(&mut connection).await.status, 404);
}

#[tokio::test]
async fn the_truth_log_and_the_deliveries_tell_the_same_story() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth.ndjson");
    let faults = FaultMix::harsh().hanging_ms(0).slow_by_ms(0);
    let stub = Stub::start(Options {
        faults,
        seed: 11,
        truth_log: Some(path.clone()),
        ..Options::default()
    })
    .await;
    for number in 0..60 {
        for _ in 0..4 {
            let _ = read_to_end(&mut stub.begin_closing(&format!("k-{number}")).await).await;
        }
    }
    let mut logged: BTreeMap<String, u64> = BTreeMap::new();
    let mut events: BTreeMap<String, u64> = BTreeMap::new();
    for line in std::fs::read_to_string(&path).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        *events
            .entry(line["event"].as_str().unwrap().to_owned())
            .or_default() += 1;
        let deliveries = logged
            .entry(line["key"].as_str().unwrap().to_owned())
            .or_default();
        *deliveries += u64::from(line["event"] == "delivery");
    }
    let told: BTreeMap<String, u64> = stub
        .deliveries()
        .await
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            (
                item["key"].as_str().unwrap().to_owned(),
                item["deliveries"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(logged, told);
    assert_eq!(json!(events), stub.stats().await["events"]);
    assert!(told.values().all(|deliveries| *deliveries == 1), "{told:?}");
    assert!(events.len() > 8, "{events:?}");
}

#[tokio::test]
async fn a_truth_log_that_cannot_be_written_ends_the_provider() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stub = Stub {
        address: listener.local_addr().unwrap(),
    };
    // Every write to this device fails for want of space.
    let options = Options {
        truth_log: Some("/dev/full".into()),
        ..Options::default()
    };
    let serving = tokio::spawn(serve(options, listener, std::future::pending()));
    assert_eq!(
        read_to_end(&mut stub.begin("k", BODY).await).await,
        Err(ErrorKind::ConnectionReset)
    );
    assert_eq!(
        serving.await.unwrap().unwrap_err().to_string(),
        "the truth log cannot be written"
    );
}

#[tokio::test]
async fn shutdown_cuts_what_is_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stub = Stub {
        address: listener.local_addr().unwrap(),
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let options = Options {
        faults: always(Fault::AcceptThenHang),
        ..Options::default()
    };
    let serving = tokio::spawn(serve(
        options,
        listener,
        async move { stopped.await.unwrap() },
    ));
    let mut hanging = stub.begin("k", BODY).await;
    stub.requests_reach(1).await;
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert_eq!(read_to_end(&mut hanging).await.unwrap(), "");
}
