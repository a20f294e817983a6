//! What is typed, as the real binary answers it: exit codes, what goes to stdout, and what no output may tell.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use rdkafka::mocking::MockCluster;

mod check;
mod deployed;
mod publish;
mod verify_provider;

/// An embedded cluster with the intents topic (8 partitions) and the dead-letter topic.
fn cluster() -> MockCluster<'static, rdkafka::producer::DefaultProducerContext> {
    let cluster = MockCluster::new(3).expect("a mock cluster");
    for topic in ["send-intents", "send-intents.dlq"] {
        cluster.create_topic(topic, 8, 3).expect("a topic");
    }
    cluster
}

/// Runs the binary to its end.
fn sendonce(typed: &[&str], environment: &[(&str, &str)], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sendonce"))
        .args(typed)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary");
    // A command that reads nothing may be gone already.
    let _ = child
        .stdin
        .take()
        .expect("stdin")
        .write_all(stdin.as_bytes());
    child.wait_with_output().expect("an end")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn what_is_typed_wrongly_exits_64_and_help_is_no_error() {
    for wrong in [&["chekc"][..], &[], &["check", "--conect"]] {
        let output = sendonce(wrong, &[], "");
        assert_eq!(output.status.code(), Some(64), "{wrong:?}");
        assert_eq!(text(&output.stdout), "", "{wrong:?}");
    }
    for asked in ["--help", "--version"] {
        let output = sendonce(&[asked], &[], "");
        assert_eq!(output.status.code(), Some(0), "{asked}");
        assert!(text(&output.stdout).contains("sendonce"), "{asked}");
    }
}

#[test]
fn a_configuration_that_cannot_be_meant_exits_78_with_every_fault() {
    let environment = [
        ("SENDONCE__KAFKA__SPAN_MAX", "0"),
        ("SENDONCE__RETRY__BUDGET", "none"),
    ];
    let output = sendonce(&["publish", "-"], &environment, "");
    assert_eq!(output.status.code(), Some(78));
    let told = text(&output.stderr);
    assert!(
        told.contains("kafka.span_max (environment variable SENDONCE__KAFKA__SPAN_MAX)"),
        "{told}"
    );
    assert!(
        told.contains("retry.budget (environment variable SENDONCE__RETRY__BUDGET)"),
        "{told}"
    );
}
