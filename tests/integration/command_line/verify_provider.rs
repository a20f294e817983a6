//! `verify-provider` against the stub provider, both as processes: an honest one passes, and each way of breaking the word
//! about keys is caught by the check that is about it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{sendonce, text};
use crate::http::get;

const RECIPIENT: &str = "+12025550143";
const FAILING: &str = "+12025550100";
const CONTENT: &str = r#"{"text":"a test of ours"}"#;

/// What the stub provider promises, keys included. It shows a message to look-ups after a while.
const PROFILE: &str = r#"
vendor = "stub"
operation = "message"
verified = "documented"
verified_on = "2026-11-30"

[request]
method = "POST"
url = "http://127.0.0.1:8090/v1/messages"
body = { kind = "json", template = { to = "{{ to }}", reference = "{{ reference }}", content = "{{ content }}" } }

[key]
place = "header Idempotency-Key"
max_len = 64
punctuation = "-_"
window = "24h"
window_source = "documented"
stores = "success"
compares_body = true
replay = { header = "Idempotent-Replayed", equals = "true" }

[accepted]
status = 201
id = "/id"

[[rule]]
when = { status = 409 }
class = "in_progress"

[[rule]]
when = { status = 422 }
class = "conflict"

[lookup]
proof = "reference"
url = "http://127.0.0.1:8090/v1/messages?reference={{ reference }}"
delay = "30s"
keeps = "1h"
items = "/messages"
page = 50
id = "/id"
ours = { "/reference" = "{{ reference }}" }
"#;

/// The same of a provider that recognises no keys and cannot be asked.
fn keyless() -> String {
    let (request, _) = PROFILE.split_once("[key]").unwrap();
    format!("{request}[accepted]\nstatus = 201\nid = \"/id\"\n")
}

/// A stub provider as a process of its own; killed when dropped.
struct StubProcess {
    child: Child,
    url: String,
}

impl StubProcess {
    fn start(typed: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sendonce"))
            .args(["stub-provider", "--listen", "127.0.0.1:0"])
            .args(typed)
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary");
        let talk = BufReader::new(child.stderr.take().expect("stderr"));
        let line = talk
            .lines()
            .map_while(Result::ok)
            .find(|line| line.contains("address="));
        let line = line.expect("the stub provider listens");
        let (_, address) = line.split_once("address=").unwrap();
        let address = address.split_whitespace().next().unwrap();
        Self {
            child,
            url: format!("http://{address}"),
        }
    }

    async fn stats(&self) -> Value {
        let answer = get(format!("{}/admin/stats", self.url)).await.unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }

    async fn events(&self, event: &str) -> u64 {
        self.stats().await["events"][event].as_u64().unwrap_or(0)
    }
}

impl Drop for StubProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with a profile in it.
fn folder(profile: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("stub.toml"), profile).unwrap();
    let failing = format!(r#"{{"channel":"sms","to":"{FAILING}","content":{CONTENT}}}"#);
    std::fs::write(folder.path().join("failing.json"), failing).unwrap();
    folder
}

/// Runs `verify-provider` with this profile against the stub.
fn verify(stub: &StubProcess, profile: &str, more: &[&str]) -> Output {
    let folder = folder(profile);
    let path = folder.path().join("stub.toml");
    let failing = folder.path().join("failing.json");
    let more: Vec<_> = more
        .iter()
        .map(|typed| match *typed {
            "FAILING" => failing.to_str().unwrap(),
            typed => typed,
        })
        .collect();
    let typed = [
        "verify-provider",
        path.to_str().unwrap(),
        "--base-url",
        &stub.url,
        "--channel",
        "sms",
        "--to",
        RECIPIENT,
        "--content",
        CONTENT,
        "--samples",
        "3",
    ];
    sendonce(&[&typed[..], &more].concat(), &[], "")
}

/// Verdict and observation by check.
fn checks(output: &Output) -> BTreeMap<String, (String, String)> {
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let checks = report["checks"].as_array().unwrap().iter();
    let part = |check: &Value, part: &str| check[part].as_str().unwrap().to_owned();
    checks
        .map(|check| {
            let told = (part(check, "verdict"), part(check, "observed"));
            (part(check, "check"), told)
        })
        .collect()
}

/// The names of the checks that found a broken promise.
fn broken(output: &Output) -> Vec<String> {
    checks(output)
        .into_iter()
        .filter(|(_, (verdict, _))| verdict == "broken")
        .map(|(name, _)| name)
        .collect()
}

const EXECUTE: [&str; 4] = ["--execute", "--json", "--forget-after", "1"];

#[test]
fn an_honest_provider_keeps_its_word_and_the_profile_may_say_that_it_was_seen() {
    let stub = StubProcess::start(&["--lookups-after-ms", "400", "--fails-for", FAILING]);
    let output = verify(
        &stub,
        PROFILE,
        &[&EXECUTE[..], &["--failing", "FAILING"]].concat(),
    );
    let checks = checks(&output);
    let verdicts: BTreeMap<_, _> = checks
        .iter()
        .map(|(name, (verdict, _))| (name.as_str(), verdict.as_str()))
        .collect();
    // The stub takes keys of any length and character, and no profile says what a lost key gets.
    let unknown = ["missing_key", "outside_key_alphabet", "too_long_key"];
    for (name, verdict) in &verdicts {
        let expected = if unknown.contains(name) {
            "unknown"
        } else {
            "holds"
        };
        assert_eq!(*verdict, expected, "{name}: {}", checks[*name].1);
    }
    assert_eq!(verdicts.len(), 16, "{verdicts:?}");
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let proposal = report["proposals"][0].as_str().unwrap();
    assert!(
        proposal.starts_with("verified = \"observed\""),
        "{proposal}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_tells_what_it_would_take_and_sends_nothing() {
    let stub = StubProcess::start(&[]);
    let output = verify(&stub, PROFILE, &["--price", "0.0079"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("nothing was sent"), "{told}");
    assert!(told.contains("They may cost"), "{told}");
    assert!(
        !told.contains(RECIPIENT) && !told.contains("a test of ours"),
        "{told}"
    );
    assert_eq!(stub.stats().await["keys"], 0);
    assert_eq!(stub.events("request").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_foretells_the_most_that_is_sent() {
    let stub = StubProcess::start(&["--lookups-after-ms", "0"]);
    let rehearsal = verify(&stub, PROFILE, &["--json"]);
    let plan: Value = serde_json::from_slice(&rehearsal.stdout).unwrap();
    let output = verify(&stub, PROFILE, &EXECUTE);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let stats = stub.stats().await;
    let sent = stub.events("request").await + stub.events("key_missing").await;
    assert!(sent <= plan["sends"].as_u64().unwrap(), "{stats} of {plan}");
    let delivered = stats["deliveries"].as_u64().unwrap();
    assert!(
        delivered <= plan["messages"].as_u64().unwrap(),
        "{stats} of {plan}"
    );
    assert_eq!(stats["duplicate_deliveries"], 0);
}

#[test]
fn neither_a_report_nor_a_rehearsal_tells_the_recipient_or_the_content_unless_asked() {
    let stub = StubProcess::start(&["--lookups-after-ms", "0"]);
    for more in [&EXECUTE[..], &["--json"], &[]] {
        let output = verify(&stub, PROFILE, more);
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(
            !told.contains(RECIPIENT) && !told.contains("test of ours"),
            "{told}"
        );
    }
    let revealed = text(&verify(&stub, PROFILE, &["--reveal"]).stderr);
    assert!(
        revealed.contains(RECIPIENT) && revealed.contains("test of ours"),
        "{revealed}"
    );
}

#[test]
fn a_provider_that_forgets_keys_after_two_seconds_is_caught_by_their_being_forgotten() {
    let stub = StubProcess::start(&["--window", "2", "--lookups-after-ms", "0"]);
    let output = verify(
        &stub,
        PROFILE,
        &["--execute", "--json", "--forget-after", "3"],
    );
    assert_eq!(broken(&output), ["forgetting"], "{}", text(&output.stdout));
    assert_eq!(
        checks(&output)["forgetting"].1,
        "forgotten after 3s: another message, two under one key"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_provider_that_ignores_the_body_is_caught_by_its_silence() {
    let stub = StubProcess::start(&["--ignore-body", "--lookups-after-ms", "0"]);
    let output = verify(&stub, PROFILE, &EXECUTE);
    assert_eq!(broken(&output), ["other_body"], "{}", text(&output.stdout));
    assert_eq!(
        checks(&output)["other_body"].1,
        "silently answered with the first message (201, accepted, a replay)"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_provider_that_stores_errors_is_caught_by_the_error_that_comes_again() {
    let stub = StubProcess::start(&[
        "--fails-for",
        FAILING,
        "--store-errors",
        "--lookups-after-ms",
        "0",
    ]);
    let output = verify(
        &stub,
        PROFILE,
        &[&EXECUTE[..], &["--failing", "FAILING"]].concat(),
    );
    assert_eq!(broken(&output), ["stores"], "{}", text(&output.stdout));
    assert_eq!(
        checks(&output)["stores"].1,
        "a 500 was stored: a retry replays it"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_error_that_no_one_asked_for_shows_that_errors_are_stored_too() {
    let stub = StubProcess::start(&["--fault", "stored_error=1", "--first-only"]);
    let output = verify(&stub, PROFILE, &EXECUTE);
    assert_eq!(broken(&output), ["stores"], "{}", text(&output.stdout));
    assert_eq!(
        checks(&output)["first_send"].1,
        "not accepted: 500, unknown (stored_error), a replay, at attempt 2"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_provider_that_lets_requests_at_once_through_is_caught_by_its_two_messages() {
    let stub = StubProcess::start(&[
        "--no-lock",
        "--fault",
        "slow=1",
        "--slow-ms",
        "300",
        "--lookups-after-ms",
        "0",
    ]);
    let output = verify(&stub, PROFILE, &EXECUTE);
    let broken = broken(&output);
    assert!(
        broken.contains(&"at_once".to_owned()),
        "{}",
        text(&output.stdout)
    );
    let (_, observed) = &checks(&output)["at_once"];
    assert!(observed.contains(" messages for one key: "), "{observed}");
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_provider_without_keys_only_what_can_be_seen_is_said() {
    let stub = StubProcess::start(&["--no-keys"]);
    let output = verify(&stub, &keyless(), &EXECUTE);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let checks = checks(&output);
    let holds = ["first_send", "latency"];
    for (name, (verdict, observed)) in &checks {
        let expected = match holds.contains(&name.as_str()) {
            true => "holds",
            false => "not_applicable",
        };
        assert_eq!(verdict, expected, "{name}: {observed}");
    }
    assert_eq!(stub.stats().await["deliveries"], 4);
}

#[test]
fn a_provider_that_is_not_there_could_not_be_verified() {
    let stub = StubProcess::start(&[]);
    let url = stub.url.clone();
    drop(stub);
    let folder = folder(PROFILE);
    let path = folder.path().join("stub.toml");
    let typed = [
        "verify-provider",
        path.to_str().unwrap(),
        "--base-url",
        &url,
        "--to",
        RECIPIENT,
        "--content",
        CONTENT,
        "--execute",
    ];
    let output = sendonce(&typed, &[], "");
    assert_eq!(output.status.code(), Some(69), "{}", text(&output.stdout));
    let told = text(&output.stdout);
    assert!(
        told.contains("no answer, not_sent (connect_refused)"),
        "{told}"
    );
}

#[test]
fn what_is_typed_wrongly_is_told_before_anything_is_sent() {
    let typed = |more: &[&str]| {
        let output = sendonce(&[&["verify-provider"], more].concat(), &[], "");
        (output.status.code(), text(&output.stderr))
    };
    let to = ["--to", RECIPIENT];
    let (code, told) = typed(&["generic", "--content", "{}"]);
    assert_eq!(code, Some(64), "a recipient is required");
    assert!(told.contains("--to"), "{told}");
    let (code, told) = typed(&[&["nobody", "--content", "{}"], &to[..]].concat());
    assert_eq!(code, Some(64));
    assert!(told.contains("there is no provider nobody"), "{told}");
    let (code, _) = typed(&[&["generic", "--content", "[]"], &to[..]].concat());
    assert_eq!(code, Some(64));
}
