//! CloudEvents in both modes, and what is told apart from them.

use super::*;

const DATA: &str = r#"{"channel":"sms","to":"+447700900123","content":{"text":"hello"}}"#;

/// Binary mode's headers, and `rest`.
fn ce(rest: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![
        ("ce_specversion", "1.0"),
        ("ce_id", "e-77"),
        ("ce_source", "/login"),
        ("ce_type", "com.example.code"),
    ];
    all.extend(rest);
    all
}

/// A structured event with `rest` beside its attributes.
fn event(rest: &str) -> String {
    format!(
        r#"{{"specversion":"1.0","id":"e-77","source":"/login","type":"com.example.code"{rest}}}"#
    )
}

#[test]
fn p57_both_modes_are_read_alike_whatever_names_the_content_type() {
    let structured = event(&format!(r#","data":{DATA}"#));
    let plain = r#"{"id":"e-77","source":"/login","channel":"sms","to":"+447700900123","content":{"text":"hello"}}"#;
    let expected = intent(plain, &[]);
    for content_type in [
        "application/cloudevents+json",
        "application/cloudevents+json; charset=UTF-8",
        "application/cloudevents+json;charset=utf-8",
        "APPLICATION/CLOUDEVENTS+JSON ; Charset=UTF-8",
        "\"application/cloudevents+json\"",
    ] {
        for name in ["content-type", "Content-Type", "CONTENT-TYPE"] {
            assert_eq!(
                intent(&structured, &[(name, content_type)]),
                expected,
                "{name}: {content_type}"
            );
        }
    }
    for content_type in [
        ("content-type", "application/json"),
        ("Content-Type", "Application/JSON; charset=utf-8"),
        ("content-type", "application/vnd.example.code+json"),
        ("ce_datacontenttype", "application/json"),
        ("ce_time", "2026-11-30T00:00:00Z"),
    ] {
        assert_eq!(
            intent(DATA, &ce(&[content_type])),
            expected,
            "{content_type:?}"
        );
    }
    assert_eq!(intent(DATA, &ce(&[])), expected);
    let capitals = [
        ("CE_SpecVersion", "1.0"),
        ("CE_Id", "e-77"),
        ("Ce_source", "/login"),
        ("CE_TYPE", "t"),
    ];
    assert_eq!(intent(DATA, &capitals), expected);
    // A publisher that leaves the content type out, or calls it JSON, which it is.
    assert_eq!(intent(&structured, &[]), expected);
    assert_eq!(
        intent(&structured, &[("content-type", "application/json")]),
        expected
    );
    assert_eq!(
        intent(
            &structured,
            &ce(&[("content-type", "application/cloudevents+json")])
        ),
        expected
    );
}

#[test]
fn p57_one_id_from_two_sources_is_two_events() {
    let one = intent(DATA, &ce(&[]));
    let other = [
        ("ce_specversion", "1.0"),
        ("ce_id", "e-77"),
        ("ce_source", "/shop"),
        ("ce_type", "t"),
    ];
    let other = intent(DATA, &other);
    assert_eq!(one.event_id, other.event_id);
    assert_ne!(one.source, other.source);
}

#[test]
fn p57_what_is_no_single_json_event_is_refused() {
    let structured = event(&format!(r#","data":{DATA}"#));
    let batch = format!("[{structured}]");
    let with_type = |value: &str, content_type: &str| {
        summary(&decoded(value, &[("content-type", content_type)]))
    };
    let lines = [
        with_type(&batch, "application/cloudevents-batch+json"),
        with_type(&structured, "application/cloudevents-batch+json"),
        with_type(&batch, "application/cloudevents+json"),
        with_type(&structured, "application/cloudevents+avro"),
        with_type(&structured, "application/cloudevents+protobuf"),
        with_type(&structured, "application/cloudevents"),
        with_type(&structured, "application/xml"),
        with_type("Obj\u{1}", "avro/binary"),
        summary(&decoded(&batch, &[])),
        summary(&decoded(DATA, &ce(&[("content-type", "application/xml")]))),
        summary(&decoded(
            DATA,
            &ce(&[("ce_datacontenttype", "application/avro")]),
        )),
        summary(&decoded(
            DATA,
            &ce(&[
                ("content-type", "application/json"),
                ("Content-Type", "text/xml"),
            ]),
        )),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/unsupported_format at header content-type: of CloudEvents' formats only application/cloudevents+json is read [-]
    malformed/unsupported_format at header content-type: of CloudEvents' formats only application/cloudevents+json is read [-]
    malformed/not_an_object at the whole value [-]
    malformed/unsupported_format at header content-type: of CloudEvents' formats only application/cloudevents+json is read [-]
    malformed/unsupported_format at header content-type: of CloudEvents' formats only application/cloudevents+json is read [-]
    malformed/unsupported_format at header content-type: of CloudEvents' formats only application/cloudevents+json is read [-]
    malformed/unsupported_format at header content-type: not JSON [-]
    malformed/unsupported_format at header content-type: not JSON [-]
    malformed/not_an_object at the whole value [-]
    malformed/unsupported_format at header content-type: not JSON [-]
    malformed/unsupported_format at header ce_datacontenttype: not JSON [e-77]
    malformed/unsupported_format at header content-type: it comes twice and differs [-]
    "#);
}

#[test]
fn p57_a_mode_is_never_half_believed() {
    let with_id = r#"{"id":"e-1","channel":"sms","to":"+447700900123"}"#;
    let structured = event(&format!(r#","data":{DATA}"#));
    let lines = [
        // Attributes without the one that makes it an event.
        summary(&decoded(with_id, &[("ce_id", "e-77")])),
        summary(&decoded(
            with_id,
            &[("ce_datacontenttype", "application/json")],
        )),
        summary(&decoded(
            DATA,
            &[
                ("ce_specversion", "1.0"),
                ("ce_source", "/login"),
                ("ce_type", "t"),
            ],
        )),
        summary(&decoded(
            DATA,
            &[
                ("ce_specversion", "1.0"),
                ("ce_id", ""),
                ("ce_source", "/login"),
                ("ce_type", "t"),
            ],
        )),
        summary(&decoded(
            DATA,
            &[
                ("ce_specversion", "1.0"),
                ("ce_id", "e-77"),
                ("ce_type", "t"),
            ],
        )),
        summary(&decoded(
            DATA,
            &[
                ("ce_specversion", "1.0"),
                ("ce_id", "e-77"),
                ("ce_source", "/login"),
            ],
        )),
        summary(&decoded(
            DATA,
            &[
                ("ce_specversion", "0.3"),
                ("ce_id", "e-77"),
                ("ce_source", "/login"),
                ("ce_type", "t"),
            ],
        )),
        // The HTTP binding's prefix, by which the ids would not be found.
        summary(&decoded(
            with_id,
            &[
                ("ce-specversion", "1.0"),
                ("ce-id", "e-77"),
                ("ce-source", "/login"),
                ("ce-type", "t"),
            ],
        )),
        // Two ids.
        summary(&decoded(with_id, &ce(&[]))),
        summary(&decoded(DATA, &ce(&[("ce_id", "e-78")]))),
        summary(&decoded(
            &structured,
            &[
                ("content-type", "application/cloudevents+json"),
                ("ce_id", "e-78"),
            ],
        )),
        summary(&decoded(&event(&format!(r#","data":{with_id}"#)), &[])),
        // Two sources.
        summary(&decoded(
            r#"{"source":"/shop","channel":"sms","to":"+447700900123"}"#,
            &ce(&[]),
        )),
        summary(&decoded(
            &structured,
            &[
                ("content-type", "application/cloudevents+json"),
                ("ce_source", "/shop"),
            ],
        )),
        // A whole event as the data of another.
        summary(&decoded(&structured, &ce(&[]))),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/missing_attribute at header ce_specversion [-]
    malformed/missing_attribute at header ce_specversion [-]
    malformed/missing_event_id at header ce_id [-]
    malformed/bad_event_id at header ce_id: empty [-]
    malformed/missing_attribute at header ce_source [e-77]
    malformed/missing_attribute at header ce_type [e-77]
    malformed/unsupported_format at header ce_specversion: only 1.0 is read [-]
    malformed/unsupported_format at headers ce-…: CloudEvents attributes begin with ce_ in Kafka [-]
    malformed/ambiguous_id at /id: another id than the one outside [-]
    malformed/ambiguous_id at header ce_id: it comes twice and differs [-]
    malformed/ambiguous_id at header ce_id: the event names another [-]
    malformed/ambiguous_id at /data/id: another id than the one outside [-]
    malformed/ambiguous_source at /source: another source than the one outside [e-77]
    malformed/ambiguous_source at header ce_source: the event names another [e-77]
    malformed/unknown_field at /data [e-77]
    "#);
    let same = r#"{"id":"e-77","source":"/login","channel":"sms","to":"+447700900123","content":{"text":"hello"}}"#;
    assert_eq!(intent(same, &ce(&[])), intent(DATA, &ce(&[])));
}

#[test]
fn what_stands_outside_the_data_is_passed_over_or_cannot_stand_there() {
    let expected = intent(DATA, &ce(&[]));
    let extensions = r#","subject":"x","time":"2026-11-30T00:00:00Z","traceparent":"00-ab","channel":"fax","data":"#;
    assert_eq!(
        intent(&event(&format!("{extensions}{DATA}")), &[]),
        expected
    );
    assert_eq!(
        intent(
            DATA,
            &ce(&[
                ("ce_channel", "fax"),
                ("ce_traceparent", "00-ab"),
                ("id", "7"),
                ("x-id", "8")
            ])
        ),
        expected
    );
    let lines = [
        summary(&decoded(
            &event(&format!(
                r#","expires_at":"2026-11-30T00:00:00Z","data":{DATA}"#
            )),
            &[],
        )),
        summary(&decoded(
            &event(&format!(
                r#","dataContentType":"application/json","data":{DATA}"#
            )),
            &[],
        )),
        summary(&decoded(
            DATA,
            &ce(&[("ce_expires_at", "2026-11-30T00:00:00Z")]),
        )),
        summary(&decoded(DATA, &ce(&[("ce_data-schema", "x")]))),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/misplaced_field at /expires_at [e-77]
    malformed/unknown_field at /dataContentType [e-77]
    malformed/misplaced_field at header ce_expires_at [e-77]
    malformed/unknown_field at header ce_data-schema [e-77]
    "#);
}

#[test]
fn data_is_an_object_however_it_is_written() {
    let lines = [
        event(""),
        event(r#","data":null"#),
        event(r#","data":"text""#),
        event(r#","data":[]"#),
        event(r#","datacontenttype":"text/xml","data":"<a/>""#),
        event(r#","datacontenttype":7,"data":{}"#),
        event(&format!(r#","data":{DATA},"data_base64":"e30=""#)),
        event(r#","data_base64":"e30""#),
        event(r#","data_base64":"e30=""#),
        event(r#","data_base64":"AAAA""#),
        event(r#","data_base64":7"#),
        event(r#","data":{"channel":"sms"}"#),
        r#"{"specversion":"1.0","source":"/login","type":"t","data":{}}"#.to_owned(),
        r#"{"specversion":"1.0","id":"","source":"/login","type":"t","data":{}}"#.to_owned(),
        r#"{"specversion":"1.0","id":"e-77","type":"t","data":{}}"#.to_owned(),
        r#"{"specversion":"1.0","id":"e-77","source":"","type":"t","data":{}}"#.to_owned(),
        r#"{"specversion":"1.0","id":"e-77","source":"/login","data":{}}"#.to_owned(),
        r#"{"specversion":1.0,"id":"e-77","source":"/login","type":"t","data":{}}"#.to_owned(),
        r#"{"specversion":"0.3","id":"e-77","source":"/login","type":"t","data":{}}"#.to_owned(),
    ]
    .map(|value| summary(&decoded(&value, &[])));
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/missing_field at /data [e-77]
    malformed/not_an_object at /data [e-77]
    malformed/not_an_object at /data [e-77]
    malformed/not_an_object at /data [e-77]
    malformed/unsupported_format at /datacontenttype: not JSON [e-77]
    malformed/bad_field at /datacontenttype: no string [e-77]
    malformed/bad_field at /data_base64: beside data [e-77]
    malformed/bad_field at /data_base64: no base64 [e-77]
    malformed/missing_field at /data_base64/channel: neither it nor a provider [e-77]
    malformed/invalid_json at /data_base64, line 1, column 1 [e-77]
    malformed/bad_field at /data_base64: no base64 [e-77]
    malformed/missing_field at /data/to [e-77]
    malformed/missing_event_id at /id [-]
    malformed/bad_event_id at /id: empty [-]
    malformed/missing_attribute at /source [e-77]
    malformed/missing_attribute at /source [e-77]
    malformed/missing_attribute at /type [e-77]
    malformed/bad_field at /specversion: no string [-]
    malformed/unsupported_format at /specversion: only 1.0 is read [-]
    "#);
    assert_eq!(
        summary(&decoded("not JSON", &ce(&[]))),
        "malformed/invalid_json at the whole value, line 1, column 2 [e-77]"
    );
}
