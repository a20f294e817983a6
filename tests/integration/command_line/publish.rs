//! `publish`: what reaches the topic, and that nothing does if a line is no intent.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Output;

use rdkafka::Message;
use tempfile::NamedTempFile;

use super::{cluster, sendonce, text};
use crate::kafka_view::Kafka;

const INTENTS: &str = r#"{"id":"21","channel":"sms","to":"+44 7700 900123","content":{"text":"code 123456"}}

{"id":"foobar","channel":"email","to":"person@example.com","content":{}}
{"id":7,"channel":"push","to":"token","content":{}}
"#;

fn publish(brokers: &str, typed: &[&str], stdin: &str) -> Output {
    let environment = [("SENDONCE__KAFKA__BROKERS", brokers)];
    let typed = [&["publish", "--json"], typed].concat();
    sendonce(&typed, &environment, stdin)
}

/// Partition and value by key.
fn held(kafka: &Kafka) -> BTreeMap<String, (i32, String)> {
    held_in(kafka, "send-intents")
}

fn held_in(kafka: &Kafka, topic: &str) -> BTreeMap<String, (i32, String)> {
    let records = kafka.records(topic);
    let part = |part: Option<&[u8]>| String::from_utf8(part.unwrap().to_vec()).unwrap();
    records
        .iter()
        .map(|record| {
            let value = part(record.payload());
            (part(record.key()), (record.partition(), value))
        })
        .collect()
}

#[test]
fn every_line_is_written_as_it_is_where_a_java_client_would_put_it() {
    let cluster = cluster();
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(INTENTS.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let output = publish(&cluster.bootstrap_servers(), &[path], "");
    assert_eq!(
        text(&output.stdout),
        "{\"read\":3,\"refused\":0,\"published\":3}\n"
    );
    assert_eq!(output.status.code(), Some(0));
    let held = held(&Kafka::at(cluster.bootstrap_servers()));
    // murmur2 of "21" is -973932308 and of "foobar" -790332482: org.apache.kafka.common.utils.UtilsTest.
    let partition = |hash: i32| (hash & 0x7fff_ffff) % 8;
    assert_eq!(held["21"].0, partition(-973_932_308));
    assert_eq!(held["foobar"].0, partition(-790_332_482));
    assert_eq!(held["7"].1, INTENTS.lines().last().unwrap());
}

#[test]
fn nothing_is_written_unless_every_line_is_an_intent() {
    let cluster = cluster();
    let lines =
        format!("{INTENTS}{{\"id\":\"x\",\"channel\":\"sms\",\"to\":\"07700900123\"}}\nnot json\n");
    let output = publish(&cluster.bootstrap_servers(), &["-"], &lines);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stdout),
        "{\"read\":5,\"refused\":2,\"published\":0}\n"
    );
    let told = text(&output.stderr);
    assert!(
        told.contains("line 5: bad_recipient") && told.contains("line 6: invalid_json"),
        "{told}"
    );
    assert!(!told.contains("07700900123"), "{told}");
    assert!(held(&Kafka::at(cluster.bootstrap_servers())).is_empty());
}

#[test]
fn lines_that_are_none_can_be_passed_over() {
    let cluster = cluster();
    let lines = format!("not json\n{INTENTS}");
    let output = publish(
        &cluster.bootstrap_servers(),
        &["-", "--skip-invalid"],
        &lines,
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stdout),
        "{\"read\":4,\"refused\":1,\"published\":3}\n"
    );
    assert_eq!(held(&Kafka::at(cluster.bootstrap_servers())).len(), 3);
}

#[test]
fn the_recipient_can_be_the_key_in_its_canonical_form() {
    let cluster = cluster();
    let output = publish(
        &cluster.bootstrap_servers(),
        &["-", "--key-by", "recipient"],
        INTENTS,
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let held = held(&Kafka::at(cluster.bootstrap_servers()));
    assert!(held.contains_key("+447700900123"), "{:?}", held.keys());
}

#[test]
fn a_lane_is_written_to_by_its_name_and_one_that_is_not_there_exits_64() {
    let cluster = cluster();
    cluster.create_topic("bulk", 1, 1).unwrap();
    let environment = [
        ("SENDONCE__KAFKA__BROKERS", &*cluster.bootstrap_servers()),
        ("SENDONCE__LANE__MARKETING__TOPIC", "bulk"),
    ];
    let publish = |lane: &str| sendonce(&["publish", "--lane", lane, "-"], &environment, INTENTS);
    assert_eq!(publish("marketing").status.code(), Some(0));
    let kafka = Kafka::at(cluster.bootstrap_servers());
    assert_eq!(held_in(&kafka, "bulk").len(), 3);
    let output = publish("letters");
    assert_eq!(output.status.code(), Some(64));
    let told = text(&output.stderr);
    assert!(told.contains("there is no [lane.letters]"), "{told}");
    assert!(held(&kafka).is_empty());
}

#[test]
fn a_dry_run_needs_no_broker() {
    let output = publish("127.0.0.1:1", &["-", "--dry-run"], INTENTS);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout),
        "{\"read\":3,\"refused\":0,\"published\":0}\n"
    );
}

#[test]
fn a_file_that_is_not_there_exits_64() {
    let output = publish("127.0.0.1:1", &["no-such-file"], "");
    assert_eq!(output.status.code(), Some(64));
}
