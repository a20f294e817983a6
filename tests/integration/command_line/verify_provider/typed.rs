//! What is typed: rehearsals, providers of the configuration, and what cannot be verified.

use serde_json::Value;

use super::{CONTENT, EXECUTE, PROFILE, RECIPIENT, StubProcess, checks, folder, verify};
use crate::command_line::{sendonce, text};

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
fn a_provider_of_the_configuration_is_verified_as_it_is_set_up_there() {
    let stub = StubProcess::start(&["--lookups-after-ms", "0"]);
    let folder = folder(PROFILE);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let config = format!(
        r#"
[providers]
directory = "{}"
[routes]
sms = "texts"
[provider.texts]
profile = "stub"
base_url = "{}"
"#,
        folder.path().display(),
        stub.url
    );
    std::fs::write(path("sendonce.toml"), config).unwrap();
    let intent = r#"{"id":"a","channel":"sms","to":"+12025550199","content":{"text":"hello"}}"#;
    std::fs::write(path("intent.json"), intent).unwrap();
    let (config, intent) = (path("sendonce.toml"), path("intent.json"));
    let typed = [
        "--config",
        &config,
        "verify-provider",
        "texts",
        "--to",
        RECIPIENT,
    ];
    let more = ["--intent", &intent, "--samples", "0"];
    let output = sendonce(&[&typed[..], &more, &EXECUTE].concat(), &[], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(checks(&output)["replay"].0, "holds");
    // Whoever stands in the file gets nothing.
    let told = sendonce(&[&typed[..], &more, &["--reveal"]].concat(), &[], "");
    let revealed = text(&told.stderr);
    assert!(revealed.contains(RECIPIENT), "{revealed}");
    assert!(!revealed.contains("+12025550199"), "{revealed}");
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
    let (code, told) = typed(&[&["generic", "--content", "[\"hunter2\"]"], &to[..]].concat());
    assert_eq!(code, Some(64));
    assert!(told.contains("--content: expected a JSON object"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}
