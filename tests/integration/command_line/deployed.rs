//! What `compose.yaml` and the image set is what the configuration takes, and the example does what it says.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{cluster, sendonce, text};
use crate::stub::Stub;
use crate::waiting::until;

/// The environment of the service `name` in `compose.yaml`, over the image's own. Both are read as the plain lines that they
/// are.
fn environment(name: &str) -> Vec<(String, String)> {
    let rooted =
        |file: &str| fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let image = rooted("Dockerfile");
    let image = image
        .lines()
        .map(|line| {
            line.trim_start_matches("ENV ")
                .trim()
                .trim_end_matches(" \\")
        })
        .filter(|line| line.starts_with("SENDONCE__"))
        .map(|line| line.split_once('=').unwrap());
    let compose = rooted("compose.yaml");
    let service = compose
        .split_once(&format!("\n  {name}:\n"))
        .unwrap()
        .1
        .lines()
        .take_while(|line| line.starts_with("    "));
    let set = service
        .skip_while(|line| !line.starts_with("    environment:"))
        .skip(1)
        .take_while(|line| line.starts_with("      "))
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(|line| line.trim().split_once(": ").unwrap());
    image
        .chain(set)
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

#[test]
fn what_compose_and_the_image_set_can_run() {
    let environment = environment("sendonce");
    assert!(environment.len() > 4, "{environment:?}");
    let borrowed: Vec<(&str, &str)> = environment
        .iter()
        .filter(|(name, _)| name != "SENDONCE__PROVIDERS__DIRECTORY")
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let typed = ["--config", "config/sendonce.example.toml", "check"];
    let output = sendonce(&typed, &borrowed, "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[tokio::test]
async fn the_example_configuration_sends_what_is_published() {
    let cluster = cluster();
    let stub = Stub::with(&[]).await;
    let ledger = tempfile::tempdir().unwrap();
    let (brokers, url) = (cluster.bootstrap_servers(), stub.url());
    let environment = [
        ("SENDONCE_KEY_SECRET", "0123456789abcdef"),
        ("SENDONCE__KAFKA__BROKERS", &brokers),
        ("SENDONCE__KAFKA__CREATE_TOPICS", "false"),
        ("SENDONCE__PROVIDER__GENERIC__BASE_URL", &url),
        (
            "SENDONCE__LEDGER__DIRECTORY",
            ledger.path().to_str().unwrap(),
        ),
        ("SENDONCE__ADMIN__LISTEN", ""),
    ];
    let typed = ["--config", "config/sendonce.example.toml"];
    let intents = concat!(
        r#"{"id":1,"channel":"sms","to":"+447700900001","content":{"text":"one"}}"#,
        "\n",
        r#"{"id":2,"channel":"sms","to":"+447700900002","content":{"text":"two"}}"#,
    );
    let published = sendonce(
        &[&typed[..], &["publish", "-"]].concat(),
        &environment,
        intents,
    );
    assert_eq!(
        published.status.code(),
        Some(0),
        "{}",
        text(&published.stderr)
    );

    let mut run = Command::new(env!("CARGO_BIN_EXE_sendonce"))
        .args(typed)
        .arg("run")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .envs(environment)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let within = Duration::from_secs(60);
    let deliveries = async || stub.stats().await.deliveries;
    until(
        "both messages to be delivered",
        within,
        deliveries,
        |count| *count == 2,
    )
    .await;
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    let ended = async || run.try_wait().unwrap();
    let ended = until("the service to end", within, ended, Option::is_some).await;
    assert_eq!(ended.unwrap().code(), Some(0));
}
