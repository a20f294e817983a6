//! That no byte of a request leaves before the entry of its attempt is on the disk: shown by the system calls themselves.

use std::collections::BTreeMap;

use sendonce::stub_provider::{Fault, Options};

use super::strace::{Call, Strace, calls, ended_well};
use crate::product::{Embedded, Home, SOON, Sent, Setup, code, publish};
use crate::stub::{Stub, mix};
use crate::waiting::until;

/// All that could write a ledger, sync it, or put a byte of a request on the wire.
const FOLLOWED: &str = "pwrite64,write,writev,pwritev,pwritev2,sendto,sendmsg,sendmmsg,sendfile,splice,\
    fdatasync,fsync,sync_file_range,connect,close,io_uring_enter";

/// What a run of so many intents at this concurrency did, in system calls, and how many requests the provider saw of each.
async fn traced_run(
    intents: usize,
    concurrency: usize,
    faults: &[(Fault, f64)],
) -> Option<(Vec<Call>, u16, BTreeMap<String, u64>)> {
    let folder = tempfile::TempDir::new().expect("a folder");
    let strace = Strace::to(&folder.path().join("trace"))?;
    let kafka = Embedded::with_partitions(2);
    let stub = Stub::start(Options {
        faults: mix(faults).at_most_per_key(Some(3)),
        ..Options::default()
    })
    .await;
    // What its faults would do to the circuit is no matter here.
    let setup = Setup::new(&kafka, &stub.url())
        .set("DISPATCH__CONCURRENCY", &concurrency.to_string())
        .set("BREAKER__ANSWERS", "1000")
        .set("BREAKER__IN_ROW", "1000");
    let home = Home::new(&setup);
    let records: Vec<Sent> = (0..intents)
        .map(|number| {
            Sent::json(&serde_json::json!({
                "id": format!("event-{number}"),
                "idempotency_key": key(number),
                "channel": "push",
                "to": "device",
                "content": {"text": "Your code is 482901"},
            }))
        })
        .collect();
    publish(&kafka, "send-intents", &records).await;

    let mut worker = home.start_under(&setup, |command| strace.over(command, FOLLOWED));
    kafka
        .until_committed_to_the_end("sendonce", "send-intents", SOON)
        .await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0, "{}", home.log());
    let pid = worker.pid();
    let trace = until(
        "the end of the trace",
        SOON,
        async || strace.text(),
        |trace| ended_well(trace, pid),
    )
    .await;
    let requests = stub.deliveries().await.into_iter();
    let requests = requests.filter_map(|item| Some((item.key?, item.requests)));
    Some((calls(&trace), stub.address().port(), requests.collect()))
}

/// Upstream's own key of an intent: it stands as it is in the ledger and in the head of each request.
fn key(number: usize) -> String {
    format!("key-of-intent-{number:04}")
}

/// A request's first bytes, as they were handed to the kernel.
struct Request<'a> {
    key: String,
    call: &'a Call,
}

/// The requests in a trace. Every one of them went to the provider's port, and nothing else did.
fn requests(calls: &[Call], port: u16) -> Vec<Request<'_>> {
    let mut connected: BTreeMap<&str, bool> = BTreeMap::new();
    let mut requests = Vec::new();
    for call in calls {
        match call.name.as_str() {
            "connect" => {
                let to_provider = call.arguments.contains(&format!("sin_port=htons({port})"));
                connected.insert(call.descriptor(), to_provider);
            }
            "close" => {
                connected.remove(call.descriptor());
            }
            "write" | "writev" | "pwritev" | "pwritev2" | "sendto" | "sendmsg" | "sendmmsg" => {
                let to_provider = connected.get(call.descriptor()) == Some(&true);
                let is_request = call.arguments.contains("\"POST /v1/messages ");
                assert_eq!(to_provider, is_request, "{call:?}");
                if is_request {
                    let (_, rest) = call.arguments.split_once("key-of-intent-").expect("a key");
                    let key = format!("key-of-intent-{}", &rest[..4]);
                    requests.push(Request { key, call });
                }
            }
            // Anything that could send unseen by the rules above.
            "sendfile" | "splice" | "io_uring_enter" => panic!("unexpected: {call:?}"),
            _ => {}
        }
    }
    requests
}

/// Checks that before each request at least one more entry of its key is durable than before: one for a first attempt,
/// two for each further one, the answer before and the start itself. Returns how many requests there were by key.
///
/// Durable means: a write of it into a file of the ledger had ended, then an fdatasync of the same file began, and had
/// ended when the request's first byte was handed to the kernel.
fn check_order(calls: &[Call], port: u16) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut earlier: BTreeMap<String, usize> = BTreeMap::new();
    for request in requests(calls, port) {
        let at = request.call.begun;
        let mut from = earlier.insert(request.key.clone(), at).unwrap_or(0);
        let count = counts.entry(request.key.clone()).or_default();
        *count += 1;
        let entries = if *count == 1 { 1 } else { 2 };
        for entry in 1..=entries {
            let durable = durable_after(calls, &request.key, from, at);
            let what = format!("request {count} of {}, entry {entry}", request.key);
            from = durable.unwrap_or_else(|| panic!("not durable before line {at}: {what}"));
        }
    }
    counts
}

/// Where the first entry of `key` that was written after `from` became durable, if that was before `until`.
fn durable_after(calls: &[Call], key: &str, from: usize, until: usize) -> Option<usize> {
    let of_ledger = |call: &&Call| call.target().contains("/ledger/");
    let written = calls.iter().filter(of_ledger).find(|call| {
        call.name == "pwrite64" && call.begun > from && call.arguments.contains(key)
    })?;
    let (file, end) = (written.target(), written.ended?);
    let synced = calls.iter().find(|call| {
        call.name == "fdatasync"
            && call.target() == file
            && call.begun > end
            && call.ended.is_some()
    })?;
    synced.ended.filter(|ended| *ended < until)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_on_disk_before_the_first_byte_of_its_request_one_at_a_time() {
    let Some((calls, port, seen)) = traced_run(20, 1, &[]).await else {
        return;
    };
    let requests = check_order(&calls, port);
    assert_eq!(requests.len(), 20);
    assert_eq!(requests, seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_on_disk_before_the_first_byte_of_its_request_though_flushes_are_grouped() {
    let faults = [
        (Fault::AcceptThenReset, 0.3),
        (Fault::ErrorBeforeAccepting, 0.3),
    ];
    let Some((calls, port, seen)) = traced_run(40, 8, &faults).await else {
        return;
    };
    let requests = check_order(&calls, port);
    assert_eq!(requests.len(), 40);
    assert_eq!(requests, seen);
    let attempts: u64 = requests.values().sum();
    assert!(attempts > 40, "some were made again: {attempts}");
    let flushes = calls.iter().filter(|call| call.name == "fdatasync").count() as u64;
    let entries = 2 * attempts;
    assert!(flushes < entries, "{flushes} flushes of {entries} entries");
}
