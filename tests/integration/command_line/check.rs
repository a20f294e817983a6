//! `check`: what it finds, and what its exit code says.

use std::net::TcpListener;
use std::process::Output;

use rdkafka::mocking::MockCluster;
use serde_json::Value;

use super::{cluster, sendonce, text};

/// What the example configuration refers to, then a vendor in place of its stub, then what the vendor's profile refers to.
const WITH_A_SECRET: [(&str, &str); 3] = [
    ("SENDONCE_KEY_SECRET", "0123456789abcdef"),
    ("SENDONCE__ROUTES__SMS", "captifi"),
    ("CAPTIFI_API_KEY", "hunter2"),
];

/// What was found, as `weight about` for all that is not fine.
fn found(output: &Output) -> Vec<String> {
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let told = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    findings
        .iter()
        .filter(|finding| finding["weight"] != "fine")
        .map(|finding| format!("{} {}", told(finding, "weight"), told(finding, "about")))
        .collect()
}

#[test]
fn the_defaults_alone_cannot_run_and_check_says_what_is_missing() {
    let output = sendonce(&["check", "--json"], &[], "");
    assert_eq!(output.status.code(), Some(78));
    assert_eq!(found(&output), ["fault keys.secrets", "fault routes"]);
}

#[test]
fn the_example_configuration_can_run() {
    let typed = ["--config", "config/sendonce.example.toml", "check"];
    let output = sendonce(&typed, &WITH_A_SECRET[..1], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("every value is allowed"), "{told}");
    assert!(told.contains("provider generic"), "{told}");
    assert!(!told.contains(WITH_A_SECRET[0].1), "{told}");
}

#[test]
fn a_provider_without_its_credentials_is_a_fault() {
    let typed = [
        "--config",
        "config/sendonce.example.toml",
        "check",
        "--json",
    ];
    let output = sendonce(&typed, &WITH_A_SECRET[..2], "");
    assert_eq!(output.status.code(), Some(78));
    assert_eq!(found(&output), ["fault provider captifi"]);
}

#[test]
fn a_provider_without_keys_that_cannot_be_asked_is_a_warning_that_says_what_follows() {
    let mut environment = WITH_A_SECRET.to_vec();
    environment.push(("SENDONCE__PROVIDER__CAPTIFI__PROFILE", "sendgrid"));
    environment.push(("SENDGRID_API_KEY", "hunter2"));
    let typed = [
        "--config",
        "config/sendonce.example.toml",
        "check",
        "--json",
    ];
    let output = sendonce(&typed, &environment, "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_eq!(found(&output), ["warning provider captifi"]);
    assert!(!text(&output.stdout).contains("hunter2"));
}

#[test]
fn a_property_that_librdkafka_does_not_know_is_found_without_connecting() {
    let mut environment = WITH_A_SECRET.to_vec();
    environment.push(("SENDONCE__KAFKA__PROPERTIES__NO_SUCH_THING", "1"));
    let typed = [
        "--config",
        "config/sendonce.example.toml",
        "check",
        "--json",
    ];
    let output = sendonce(&typed, &environment, "");
    assert_eq!(output.status.code(), Some(78));
    assert_eq!(
        found(&output),
        ["fault kafka: consumer", "fault kafka: producer"]
    );
}

/// What `check --connect` finds at these brokers.
fn connected(brokers: &str) -> Output {
    connected_with(brokers, &[])
}

/// The same with more environment.
fn connected_with(brokers: &str, more: &[(&str, &str)]) -> Output {
    let mut environment = [&WITH_A_SECRET, more].concat();
    environment.push(("SENDONCE__KAFKA__BROKERS", brokers));
    environment.push(("SENDONCE__KAFKA__CREATE_TOPICS", "false"));
    environment.push(("SENDONCE__LOG__LEVEL", "off"));
    let typed = [
        "--config",
        "config/sendonce.example.toml",
        "check",
        "--connect",
        "--timeout",
        "3",
        "--json",
    ];
    sendonce(&typed, &environment, "")
}

#[test]
fn a_cluster_that_has_what_is_needed_is_fine() {
    let cluster = cluster();
    let output = connected(&cluster.bootstrap_servers());
    // The embedded cluster knows no question for settings, and that is told.
    assert_eq!(
        found(&output),
        ["warning send-intents", "warning send-intents.dlq"]
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn p34_a_topic_that_is_missing_is_found_by_name() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("send-intents", 8, 1).unwrap();
    let output = connected(&cluster.bootstrap_servers());
    assert_eq!(output.status.code(), Some(78));
    let found = found(&output);
    assert!(
        found.contains(&"fault send-intents.dlq".to_owned()),
        "{found:?}"
    );
}

#[test]
fn every_lane_s_topics_are_looked_at() {
    let cluster = cluster();
    cluster.create_topic("bulk", 8, 1).unwrap();
    let output = connected_with(
        &cluster.bootstrap_servers(),
        &[("SENDONCE__LANE__BULK__TOPIC", "bulk")],
    );
    assert_eq!(output.status.code(), Some(78));
    let found = found(&output);
    assert!(found.contains(&"fault bulk.dlq".to_owned()), "{found:?}");
}

#[test]
fn brokers_that_are_not_reached_exit_69() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let output = connected(&address);
    assert_eq!(found(&output), ["unreachable brokers"]);
    assert_eq!(output.status.code(), Some(69));
}

/// The reference behind each `env:` of a profile, in the order in which it stands there.
fn variables(profile: &str) -> impl Iterator<Item = &str> {
    profile
        .split("\"env:")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
}

/// What a file of secrets has to be, by the end of its name.
fn content_of(file: &str) -> String {
    let rsa = include_str!("../../keys/rfc7515_a2.pem");
    match file.rsplit_once('.') {
        Some((_, "p8")) => include_str!("../../keys/rfc7515_a3.pem").to_owned(),
        Some((_, "pem")) => rsa.to_owned(),
        Some((_, "json")) => {
            serde_json::json!({"client_email": "hunter2", "private_key": rsa}).to_string()
        }
        Some(_) | None => "hunter2".to_owned(),
    }
}

#[test]
fn a_configuration_that_names_every_shipped_profile_can_run() {
    let home = tempfile::TempDir::new().unwrap();
    let profiles = home.path().join("providers");
    std::fs::create_dir(&profiles).unwrap();
    let (mut sections, mut environment, mut keyless) = (String::new(), Vec::new(), Vec::new());
    let mut names = Vec::new();
    for entry in std::fs::read_dir("config/providers").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // A secret's file lies where the test can put one.
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace(
            "file:/run/secrets",
            &format!("file:{}", home.path().display()),
        );
        for rest in text.split("\"file:").skip(1) {
            let file = rest.split('"').next().unwrap();
            std::fs::write(file, content_of(file)).unwrap();
        }
        environment
            .extend(variables(&text).map(|variable| (variable.to_owned(), "hunter2".to_owned())));
        let can_be_asked = text.contains("\n[lookup]\n");
        if !text.contains("\n[key]\n") && !can_be_asked {
            keyless.push(format!("warning provider {name}"));
        }
        std::fs::write(profiles.join(format!("{name}.toml")), text).unwrap();
        sections.push_str(&format!("[provider.{name}]\n"));
        names.push(name);
    }
    let config = home.path().join("sendonce.toml");
    let written = format!(
        "[keys]\nnamespace = \"test\"\n[[keys.secrets]]\nfrom = 2026-01-01T00:00:00Z\nsecret = \"env:SENDONCE_KEY_SECRET\"\n\
         [providers]\ndirectory = \"{}\"\n{sections}",
        profiles.display()
    );
    std::fs::write(&config, written).unwrap();
    let mut environment: Vec<(&str, &str)> = environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    environment.push(WITH_A_SECRET[0]);
    let typed = ["--config", config.to_str().unwrap(), "check", "--json"];
    let output = sendonce(&typed, &environment, "");
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let mut found = found(&output);
    found.sort();
    // A window of minutes that eight attempts outlast, memories longer than the ledger's, a search by content, and UUIDs of
    // another version than ours.
    let doubted = [
        "adyen",
        "brevo",
        "discord-bot",
        "nhs-notify",
        "onesignal",
        "twilio",
    ];
    keyless.extend(doubted.map(|name| format!("warning provider {name}")));
    keyless.sort();
    assert_eq!(
        found, keyless,
        "only what has no keys or does not fit is warned of"
    );
    let told = text(&output.stdout);
    assert!(names.len() >= 30);
    for name in names {
        assert!(told.contains(&format!("provider {name}")), "{name}");
    }
}

fn text_of(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}
