//! `verify-provider` against the stub provider, both as processes. Here they are started and read; the rooms hold the tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{sendonce, text};
use crate::http::get;

mod credentials;
mod dishonest;
mod honest;
mod typed;

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

/// How to ask a provider without keys, with this delay: by what the message says.
fn asked_by_content(delay: &str) -> String {
    let lookup = format!(
        r#"
[lookup]
proof = "content"
url = "http://127.0.0.1:8090/v1/messages?to={{{{ to }}}}"
delay = "{delay}"
keeps = "1h"
items = "/messages"
page = 50
id = "/id"
ours = {{ "/to" = "{{{{ to }}}}", "/text" = "{{{{ content.text }}}}" }}
made_at = {{ at = "/made_at", as = "rfc3339" }}
"#
    );
    keyless() + &lookup
}
