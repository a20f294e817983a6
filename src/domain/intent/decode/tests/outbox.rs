//! The shapes that Debezium's outbox router and Kafka Connect's converters give one payload.

use super::*;

const PAYLOAD: &str = r#"{"channel":"sms","to":"+447700900123","content":{"text":"hello"}}"#;

fn escaped(text: &str) -> String {
    Value::from(text).to_string()
}

#[test]
fn p55_the_routers_shapes_are_read_alike() {
    let expected = |id: &str| {
        let value = PAYLOAD.replacen('{', &format!(r#"{{"id":"{id}","#), 1);
        intent(&value, &[])
    };
    let string = escaped(PAYLOAD);
    let schema = r#"{"type":"struct","optional":false,"fields":[]}"#;
    for (id, value) in [
        ("1", PAYLOAD.to_owned()),
        ("2", string.clone()),
        ("3", format!(r#"{{"schema":{schema},"payload":{PAYLOAD}}}"#)),
        (
            "4",
            format!(r#"{{"schema":{{"type":"string"}},"payload":{string}}}"#),
        ),
        (
            "5",
            format!(r#"{{"payload":{PAYLOAD},"eventType":"code","aggregateid":42}}"#),
        ),
        ("6", format!(r#"{{"payload":{string},"eventType":"code"}}"#)),
        (
            "7",
            format!(r#"{{"schema":{schema},"payload":{{"payload":{string},"eventType":"code"}}}}"#),
        ),
        (
            "8",
            format!(
                r#"{{"id":"8","aggregatetype":"code","payload":{string},"__deleted":"false"}}"#
            ),
        ),
        ("9", format!(" {PAYLOAD}\n")),
    ] {
        assert_eq!(intent(&value, &[("id", id)]), expected(id), "{value}");
    }
}

#[test]
fn p55_the_id_in_the_header_is_the_same_by_every_converter() {
    for (header, id) in [
        (
            "5f0c6705-e7cf-8323-9822-32aa3e736883",
            "5f0c6705-e7cf-8323-9822-32aa3e736883",
        ),
        ("\"5f0c6705\"", "5f0c6705"),
        (
            r#"{"schema":{"type":"string","optional":false},"payload":"5f0c6705"}"#,
            "5f0c6705",
        ),
        (r#"{"schema":{"type":"int64"},"payload":7}"#, "7"),
        ("7", "7"),
        ("007", "007"),
        ("1.0", "1.0"),
        ("\"", "\""),
        ("{curly}", "{curly}"),
        (r#"{"payload":7}"#, r#"{"payload":7}"#),
    ] {
        assert_eq!(
            &*intent(PAYLOAD, &[("id", header)]).event_id.0,
            id,
            "{header}"
        );
        assert_eq!(
            &*intent(PAYLOAD, &[("ID", header)]).event_id.0,
            id,
            "{header}"
        );
    }
}

#[test]
fn p55_what_asks_for_nothing_is_ignored() {
    let change = |op: &str, after: &str| {
        format!(
            r#"{{"before":{{"id":"e-1"}},"after":{after},"source":{{"name":"db"}},"op":"{op}","ts_ms":1}}"#
        )
    };
    let deletion = change("d", "null");
    let lines = [
        deletion.clone(),
        format!(r#"{{"schema":{{"type":"struct"}},"payload":{deletion}}}"#),
        change("t", "null"),
        r#"{"id":"e-1","payload":"{}","__deleted":"true"}"#.to_owned(),
        r#"{"id":"e-1","channel":"sms","to":"+447700900123","__deleted":true}"#.to_owned(),
        r#"{"ts_ms":1792567620000}"#.to_owned(),
        r#"{"ts_ms":1792567620000,"ts_us":1792567620000000,"ts_ns":1792567620000000000}"#.to_owned(),
        r#"{"schema":{"name":"io.debezium.connector.common.Heartbeat"},"payload":{"ts_ms":1792567620000}}"#.to_owned(),
        r#"{"schema":null,"payload":null}"#.to_owned(),
    ]
    .map(|value| summary(&decoded(&value, &[])));
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ignored: deletion
    ignored: deletion
    ignored: deletion
    ignored: deletion
    ignored: deletion
    ignored: heartbeat
    ignored: heartbeat
    ignored: heartbeat
    ignored: tombstone
    "#);
}

#[test]
fn p55_what_might_be_an_intent_is_never_ignored() {
    let lines = [
        (PAYLOAD, None),
        (PAYLOAD, Some("")),
        (r#"{"id":"e-2","channel":"sms","to":"+447700900123"}"#, Some("e-1")),
        (r#"{"id":"e-2","payload":{"channel":"sms","to":"+447700900123"}}"#, Some("e-1")),
        (r#"{"payload":{"id":"e-2","channel":"sms","to":"+447700900123"}}"#, Some("e-1")),
        (r#"{"before":null,"after":{"id":"e-2","payload":"{}"},"op":"c"}"#, Some("e-1")),
        (r#"{"before":null,"after":{"id":"e-2","payload":"{}"},"op":"r"}"#, None),
        (r#"{"payload":null,"eventType":"code"}"#, Some("e-1")),
        (r#"{"payload":7}"#, Some("e-1")),
        (r#"{"payload":"","eventType":"code"}"#, Some("e-1")),
        (r#"{"payload":"{\"to\":","eventType":"code"}"#, Some("e-1")),
        (r#"{"payload":{"channel":"sms","to":"+447700900123"},"expires_at":"2026-11-30T00:00:00Z"}"#, Some("e-1")),
        (r#"{"payload":{"channel":"sms","to":"+447700900123","expire_at":"x"}}"#, Some("e-1")),
        (r#"{"payload":{"payload":{"payload":{"payload":{"payload":{}}}}}}"#, Some("e-1")),
        (r#"{"ts_ms":"soon"}"#, Some("e-1")),
        (r#"{"ts_ms":1,"channel":"sms"}"#, Some("e-1")),
        (r#"{"id":"e-1","op":"d","channel":"sms","to":"+447700900123"}"#, None),
        ("{", Some("e-1")),
    ]
    .map(|(value, id)| {
        let header: Vec<_> = id.map(|id| ("id", id)).into_iter().collect();
        summary(&decoded(value, &header))
    });
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/missing_event_id at /id [-]
    malformed/bad_event_id at header id: empty [-]
    malformed/ambiguous_id at /id: another id than the one outside [-]
    malformed/ambiguous_id at /id: another id than the one outside [-]
    malformed/ambiguous_id at /payload/id: another id than the one outside [-]
    malformed/unsupported_format at /op: a row's change, which no outbox router has read [e-1]
    malformed/unsupported_format at /op: a row's change, which no outbox router has read [-]
    malformed/not_an_object at /payload [e-1]
    malformed/not_an_object at /payload [e-1]
    malformed/empty_value at /payload [e-1]
    malformed/invalid_json at /payload/to, line 1, column 6 [e-1]
    malformed/misplaced_field at /expires_at: outside the payload [e-1]
    malformed/unknown_field at /payload/expire_at [e-1]
    malformed/too_deep at /payload/payload/payload/payload/payload: too many wrappings [e-1]
    malformed/unknown_field at /ts_ms [e-1]
    malformed/unknown_field at /ts_ms [e-1]
    malformed/unknown_field at /op [e-1]
    malformed/invalid_json at the whole value, line 1, column 1 [e-1]
    "#);
}

#[test]
fn p55_two_headers_that_name_two_ids_are_refused() {
    let twice = |second: &'static str| summary(&decoded(PAYLOAD, &[("id", "e-1"), ("id", second)]));
    assert_eq!(twice("e-1"), r#""e-1" to +447700900123"#);
    assert_eq!(
        twice("e-2"),
        "malformed/ambiguous_id at header id: it comes twice and differs [-]"
    );
}
