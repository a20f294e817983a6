use clap::Parser;

use super::*;
use crate::domain::key_ring::{DatedSecret, KeySecret, Namespace};

/// The arguments as clap reads them, without the program around them.
#[derive(Debug, Parser)]
struct Typed {
    #[command(flatten)]
    arguments: Arguments,
}

fn typed(words: &[&str]) -> Result<Arguments, clap::Error> {
    let words = std::iter::once("key").chain(words.iter().copied());
    Typed::try_parse_from(words).map(|typed| typed.arguments)
}

fn ring() -> KeyRing {
    let secret = |from: &str, secret: &str| DatedSecret {
        from: Timestamp::parse_rfc3339(from).unwrap(),
        secret: KeySecret::new(secret.as_bytes()).unwrap(),
    };
    let secrets = [
        secret("2026-01-01T00:00:00Z", "correct horse battery staple"),
        secret("2026-06-01T00:00:00Z", "another sixteen bytes or more"),
    ];
    KeyRing::new(Namespace::new("production").unwrap(), secrets).unwrap()
}

fn derivation(ring: &KeyRing) -> Derivation<'_> {
    Derivation {
        rules: IntakeRules::default(),
        ring,
        at: Timestamp::parse_rfc3339("2026-02-01T00:00:00Z").unwrap(),
    }
}

#[test]
fn an_event_told_field_by_field_has_the_key_of_its_intent() {
    let ring = ring();
    let derivation = derivation(&ring);
    let words = [
        "--event-id",
        "181",
        "--to",
        "+44 7700 900123",
        "--channel",
        "sms",
        "--source",
        "login",
        "--template",
        "code",
        "--template-version",
        "3",
    ];
    let event = typed(&words).unwrap().event;
    let intent = br#"{"id":181,"source":"login","channel":"sms","to":"+447700900123","content":{"text":"hello"},
        "template":{"name":"code","version":3}}"#;
    let (told, read) = (
        derivation.key(event.as_intent().as_bytes()),
        derivation.key(intent),
    );
    assert_eq!(told.unwrap().key, read.unwrap().key);
}

#[test]
fn an_event_needs_its_id_and_recipient_and_no_file() {
    assert!(typed(&["--event-id", "1", "--to", "a", "--provider", "captifi"]).is_ok());
    assert!(typed(&["--file", "-", "--at", "2026-01-01T00:00:00Z", "--json"]).is_ok());
    for words in [
        &[][..],
        &["--event-id", "1"],
        &["--to", "a"],
        &["--file", "-", "--event-id", "1", "--to", "a"],
        &["--file", "-", "--channel", "sms"],
        &["--event-id", "1", "--to", "a", "--template-version", "3"],
        &["--file", "-", "--at", "yesterday"],
    ] {
        assert!(typed(words).is_err(), "{words:?}");
    }
}

#[test]
fn a_files_keys_are_printed_and_what_is_no_intent_is_named_by_its_line() {
    let ring = ring();
    let lines = concat!(
        r#"{"id":"1","channel":"sms","to":"+447700900123"}"#,
        "\n",
        "\n",
        r#"{"id":"2","channel":"sms","to":"07700900123"}"#,
        "\r\n",
        r#"{"id":"a\r\nb","channel":"sms","to":"+447700900123","idempotency_key":"row-17"}"#,
        "\n",
        r#"{"ts_ms":1}"#,
        "\n",
        "{",
    );
    let (keys, refused) = keys_of(lines.as_bytes(), &derivation(&ring)).unwrap();
    let mut table = Vec::new();
    print(&mut table, &keys, false).unwrap();
    insta::assert_snapshot!(String::from_utf8(table).unwrap(), @r#"
    event id  key                                   short form              intent fingerprint
    1         5f0c6705-e7cf-8323-9822-32aa3e736883  XwxnBefPgyOYIjKqPnNogw  244c0d3aa1bcd283d4dd4d4fa7e4567b924b9a6ae33112820870bfdc3e1ba0ad
    a\r\nb    row-17                                -                       244c0d3aa1bcd283d4dd4d4fa7e4567b924b9a6ae33112820870bfdc3e1ba0ad
    "#);
    let mut json = Vec::new();
    print(&mut json, &keys, true).unwrap();
    insta::assert_snapshot!(String::from_utf8(json).unwrap(), @r#"
    {"line":1,"event_id":"1","key":"5f0c6705-e7cf-8323-9822-32aa3e736883","short":"XwxnBefPgyOYIjKqPnNogw","fingerprint":"244c0d3aa1bcd283d4dd4d4fa7e4567b924b9a6ae33112820870bfdc3e1ba0ad"}
    {"line":4,"event_id":"a\r\nb","key":"row-17","short":null,"fingerprint":"244c0d3aa1bcd283d4dd4d4fa7e4567b924b9a6ae33112820870bfdc3e1ba0ad"}
    "#);
    let refused: Vec<String> = refused
        .iter()
        .map(|Refused { line, why }| format!("{line}: {why}"))
        .collect();
    insta::assert_snapshot!(refused.join("\n"), @r#"
    3: bad_recipient at /to: a local number, and no region is set
    5: heartbeat: it asks for nothing
    6: invalid_json at the whole value, line 1, column 1
    "#);
}

#[test]
fn the_moment_chooses_the_secret() {
    let ring = ring();
    let intent = br#"{"id":"1","channel":"sms","to":"+447700900123"}"#;
    let key = |at: &str| {
        let at = Timestamp::parse_rfc3339(at).unwrap();
        Derivation {
            at,
            ..derivation(&ring)
        }
        .key(intent)
        .unwrap()
        .key
    };
    // The first of the golden vectors.
    assert_eq!(
        key("2026-05-31T23:59:59Z"),
        "5f0c6705-e7cf-8323-9822-32aa3e736883"
    );
    assert_ne!(
        key("2026-06-01T00:00:00Z"),
        "5f0c6705-e7cf-8323-9822-32aa3e736883"
    );
}
