//! Plain JSON, field by field.

use super::*;

/// An intent with `rest` beside what it must have.
fn with(rest: &str) -> String {
    format!(r#"{{"id":"e-1","channel":"sms","to":"+447700900123"{rest}}}"#)
}

/// What is refused of an intent with `rest`.
fn fault(rest: &str) -> String {
    summary(&decoded(&with(rest), &[]))
}

#[test]
fn every_field_arrives_as_it_was_meant() {
    let read = intent(
        r#"{"id":181,"source":"login","channel":"sms","provider":"captifi","to":" +44 7700 900123","from":"Example",
            "content":{"text":"Your code is 482901","n":1.10},"template":{"name":"code","version":3},
            "expires_at":"2026-10-21T09:27:00.0019+02:00","idempotency_key":"row-17","reference":"order 42",
            "metadata":{"trace":"abc"}}"#,
        &[],
    );
    assert_eq!(&*read.event_id.0, "181");
    assert_eq!(read.source.as_deref(), Some("login"));
    assert_eq!(read.channel.as_deref(), Some("sms"));
    assert_eq!(read.provider.as_deref(), Some("captifi"));
    assert_eq!(read.recipient.expose(), "+447700900123");
    assert_eq!(read.from.as_deref(), Some("Example"));
    assert_eq!(
        Value::Object(read.content).to_string(),
        r#"{"n":1.10,"text":"Your code is 482901"}"#
    );
    assert_eq!(
        read.template,
        Some(Template {
            name: "code".into(),
            version: Some("3".into())
        })
    );
    assert_eq!(
        read.expires_at,
        Some(Timestamp::from_millis(1_792_567_620_001))
    );
    assert_eq!(read.idempotency_key.unwrap().as_str(), "row-17");
    assert_eq!(read.reference.as_deref(), Some("order 42"));
    assert_eq!(read.metadata["trace"], "abc");
}

#[test]
fn null_is_the_same_as_absent() {
    let nulls = r#","source":null,"provider":null,"from":null,"content":null,"template":null,"expires_at":null,
        "idempotency_key":null,"reference":null,"metadata":null"#;
    assert_eq!(intent(&with(nulls), &[]), intent(&with(""), &[]));
    assert_eq!(
        intent(&with(r#","template":{"name":"code","version":null}"#), &[]),
        intent(&with(r#","template":{"name":"code"}"#), &[])
    );
    let lines = ["id", "channel", "to"].map(|field| {
        let value = with("").replace(
            &format!("\"{field}\":"),
            &format!("\"{field}\":null,\"metadata\":{{}},\"x\":"),
        );
        let value = value
            .replace(",\"x\":\"e-1\"", "")
            .replace(",\"x\":\"sms\"", "")
            .replace(",\"x\":\"+447700900123\"", "");
        summary(&decoded(&value, &[]))
    });
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/missing_event_id at /id [-]
    malformed/missing_field at /channel: neither it nor a provider [e-1]
    malformed/missing_field at /to [e-1]
    "#);
}

#[test]
fn p09_an_id_is_any_text_or_integer_in_one_form() {
    let id = |id: &str| {
        let value = format!(r#"{{"id":{id},"channel":"sms","to":"+447700900123"}}"#);
        match decoded(&value, &[]) {
            Decoded::Intent(intent) => Ok(intent.event_id.0.to_string()),
            Decoded::Refused(refusal) => Err(refusal.fault.detail),
            Decoded::Ignored(_) => panic!("{value}"),
        }
    };
    let quoted = |text: &str| Value::from(text).to_string();
    for text in [
        "7",
        "1",
        " 7",
        "заказ-42/é",
        "a\r\nX-Evil: 1",
        "\0",
        "\u{7f}",
        "e\u{301}",
        "\u{e9}",
    ] {
        assert_eq!(id(&quoted(text)), Ok(text.to_owned()));
    }
    for (integer, text) in [
        ("7", "7"),
        ("0", "0"),
        ("-7", "-7"),
        ("18446744073709551616", "18446744073709551616"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("9007199254740993", "9007199254740993"),
    ] {
        assert_eq!(id(integer), Ok(text.to_owned()));
    }
    for length in [1, 255, 600, 1_024] {
        assert_eq!(
            id(&quoted(&"a".repeat(length))).map(|id| id.len()),
            Ok(length)
        );
    }
    for bad in [
        "\"\"",
        "1.0",
        "1e3",
        "1E3",
        "-0",
        "0.5",
        "true",
        "[]",
        "{}",
        "[7]",
        "{\"id\":7}",
    ] {
        assert_eq!(id(bad), Err(Detail::BadEventId), "{bad}");
    }
    assert_eq!(id(&quoted(&"a".repeat(1_025))), Err(Detail::BadEventId));
    assert_eq!(id(&quoted(&"é".repeat(513))), Err(Detail::BadEventId));
    assert_eq!(id(&"1".repeat(1_025)), Err(Detail::BadEventId));
    assert_eq!(id(r#""\ud800""#), Err(Detail::InvalidJson));
}

#[test]
fn a_field_that_is_not_known_is_refused() {
    let lines = [
        r#","expire_at":"2026-11-30T00:00:00Z""#,
        r#","Expires_At":"2026-11-30T00:00:00Z""#,
        r#","expires_at ":"2026-11-30T00:00:00Z""#,
        r#","recipient":"+447700900123""#,
        r#","":0"#,
        r#","+447700900123":0"#,
        r#","template":{"name":"code","locale":"en"}"#,
    ]
    .map(fault);
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/unknown_field at /expire_at [e-1]
    malformed/unknown_field at /Expires_At [e-1]
    malformed/unknown_field at /* [e-1]
    malformed/unknown_field at /recipient [e-1]
    malformed/unknown_field at /* [e-1]
    malformed/unknown_field at /* [e-1]
    malformed/unknown_field at /template/locale [e-1]
    "#);
}

#[test]
fn a_field_outside_its_limits_is_refused() {
    let long = |len: usize| "x".repeat(len);
    let lines = [
        r#","source":"""#.to_owned(),
        r#","source":"a\u0000b""#.to_owned(),
        r#","source":7"#.to_owned(),
        format!(r#","source":"{}""#, long(1_025)),
        r#","provider":"two words""#.to_owned(),
        r#","provider":"-captifi""#.to_owned(),
        r#","provider":"""#.to_owned(),
        format!(r#","provider":"{}""#, long(65)),
        r#","from":"""#.to_owned(),
        r#","from":"a\r\nBcc: b""#.to_owned(),
        format!(r#","from":"{}""#, long(641)),
        r#","content":"text""#.to_owned(),
        r#","content":[]"#.to_owned(),
        r#","template":"code""#.to_owned(),
        r#","template":{}"#.to_owned(),
        r#","template":{"version":3}"#.to_owned(),
        r#","template":{"name":""}"#.to_owned(),
        r#","template":{"name":"code","version":""}"#.to_owned(),
        r#","template":{"name":"code","version":1.0}"#.to_owned(),
        r#","template":{"name":"code","version":true}"#.to_owned(),
        r#","idempotency_key":"""#.to_owned(),
        r#","idempotency_key":"two words""#.to_owned(),
        r#","idempotency_key":"ключ""#.to_owned(),
        format!(r#","idempotency_key":"{}""#, long(256)),
        r#","idempotency_key":7"#.to_owned(),
        r#","reference":"a\nb""#.to_owned(),
        r#","reference":"é""#.to_owned(),
        format!(r#","reference":"{}""#, long(256)),
        r#","metadata":"text""#.to_owned(),
    ]
    .map(|rest| fault(&rest));
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/bad_field at /source: not 1 to 1,024 bytes without control characters [e-1]
    malformed/bad_field at /source: not 1 to 1,024 bytes without control characters [e-1]
    malformed/bad_field at /source: no string [e-1]
    malformed/bad_field at /source: not 1 to 1,024 bytes without control characters [e-1]
    malformed/bad_field at /provider: not 1 to 64 letters, digits, '_', '.' or '-' [e-1]
    malformed/bad_field at /provider: not 1 to 64 letters, digits, '_', '.' or '-' [e-1]
    malformed/bad_field at /provider: not 1 to 64 letters, digits, '_', '.' or '-' [e-1]
    malformed/bad_field at /provider: not 1 to 64 letters, digits, '_', '.' or '-' [e-1]
    malformed/bad_field at /from: empty, too long, or with control characters [e-1]
    malformed/bad_field at /from: empty, too long, or with control characters [e-1]
    malformed/bad_field at /from: empty, too long, or with control characters [e-1]
    malformed/bad_field at /content: no object [e-1]
    malformed/bad_field at /content: no object [e-1]
    malformed/bad_field at /template: no object [e-1]
    malformed/missing_field at /template/name [e-1]
    malformed/missing_field at /template/name [e-1]
    malformed/bad_field at /template/name: empty, too long, or with control characters [e-1]
    malformed/bad_field at /template/version: empty, too long, or with control characters [e-1]
    malformed/bad_field at /template/version: a number, but no integer [e-1]
    malformed/bad_field at /template/version: no string [e-1]
    malformed/bad_field at /idempotency_key: not 1 to 255 visible ASCII characters [e-1]
    malformed/bad_field at /idempotency_key: not 1 to 255 visible ASCII characters [e-1]
    malformed/bad_field at /idempotency_key: not 1 to 255 visible ASCII characters [e-1]
    malformed/bad_field at /idempotency_key: not 1 to 255 visible ASCII characters [e-1]
    malformed/bad_field at /idempotency_key: no string [e-1]
    malformed/bad_field at /reference: not 1 to 255 printable ASCII characters [e-1]
    malformed/bad_field at /reference: not 1 to 255 printable ASCII characters [e-1]
    malformed/bad_field at /reference: not 1 to 255 printable ASCII characters [e-1]
    malformed/bad_field at /metadata: no object [e-1]
    "#);
}

#[test]
fn the_longest_fields_are_read() {
    let rest = format!(
        r#","source":"{0}","provider":"{1}","from":"{2}","template":{{"name":"{3}","version":"{3}"}},
            "idempotency_key":"{3}","reference":"{3}""#,
        "s".repeat(1_024),
        "p".repeat(64),
        "é".repeat(640),
        "x".repeat(255),
    );
    assert_eq!(intent(&with(&rest), &[]).from.unwrap().chars().count(), 640);
}

#[test]
fn an_expiry_is_a_date_and_time_with_an_offset() {
    let lines = [
        r#","expires_at":"2026-11-30T12:00:00""#,
        r#","expires_at":"2026-02-30T12:00:00Z""#,
        r#","expires_at":"""#,
        r#","expires_at":1792567620"#,
    ]
    .map(fault);
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/bad_field at /expires_at: no date and time with an offset (RFC 3339) [e-1]
    malformed/bad_field at /expires_at: no date and time with an offset (RFC 3339) [e-1]
    malformed/bad_field at /expires_at: no date and time with an offset (RFC 3339) [e-1]
    malformed/bad_field at /expires_at: no string [e-1]
    "#);
    let never = intent(&with(r#","expires_at":"9999-12-31T23:59:59Z""#), &[]);
    assert_eq!(
        never.expires_at,
        Some(Timestamp::from_millis(253_402_300_799_000))
    );
}

#[test]
fn p58_a_recipient_is_canonical_or_refused_and_never_shown() {
    let line = |channel: &str, to: &str| {
        let value = format!(r#"{{"id":"e-1","channel":"{channel}","to":"{to}"}}"#);
        summary(&decoded(&value, &[]))
    };
    let lines = [
        line("sms", "+44 7700 900123"),
        line("sms", "sms: +1 (202) 555-0143"),
        line("sms", "07700900123"),
        line("sms", "++12025550143"),
        line("sms", "00447700900123"),
        line("sms", "+44(0)7700900123"),
        line("sms", "+1234567890123456"),
        line("sms", "72345"),
        line("email", " Person@EXAMPLE.com"),
        line("email", "person"),
        line("webhook", "HTTPS://Example.com/Hook"),
        line("webhook", "https://user:secret@example.com/"),
        line("push", "a1:B2-c3_D4"),
        line("push", "a b"),
        line("pager", "anything/visible"),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    "e-1" to +447700900123
    "e-1" to +12025550143
    malformed/bad_recipient at /to: a local number, and no region is set [e-1]
    malformed/bad_recipient at /to: more than one plus, or one that is not at the start [e-1]
    malformed/bad_recipient at /to: a local number, and no region is set [e-1]
    "e-1" to +447700900123
    malformed/bad_recipient at /to: no number of its country is formed like this [e-1]
    malformed/bad_recipient at /to: a local number, and no region is set [e-1]
    "e-1" to Person@example.com
    malformed/bad_recipient at /to: it is not formed as it should be [e-1]
    "e-1" to https://example.com/Hook
    malformed/bad_recipient at /to: it carries credentials [e-1]
    "e-1" to a1:B2-c3_D4
    malformed/bad_recipient at /to: it holds a character that is not allowed [e-1]
    "e-1" to anything/visible
    "#);
    for no_text in ["447700900123", "[\"+447700900123\"]", "{}", "true"] {
        let value = format!(r#"{{"id":"e-1","channel":"sms","to":{no_text}}}"#);
        assert_eq!(
            refused(&value, &[]).fault,
            Fault::new(Detail::BadField, "/to: no string")
        );
    }
}

#[test]
fn p58_a_region_and_short_codes_are_read_where_the_rules_say_so() {
    let mut rules = IntakeRules::default();
    let british = RecipientKind::Phone {
        default_region: Region::new("GB"),
        short_codes: true,
    };
    rules.recipients.insert("sms".into(), british.clone());
    rules.recipients.insert("captifi".into(), british);
    let read = |route: &str, to: &str| {
        let value = format!(r#"{{"id":"e-1",{route},"to":"{to}"}}"#);
        let record = RecordView {
            value: Some(value.as_bytes()),
            headers: &[],
            headers_unreadable: 0,
        };
        summary(&decode(&record, &rules))
    };
    for route in [
        r#""channel":"sms""#,
        r#""provider":"captifi""#,
        // A channel without rules of its own leaves it to the provider's.
        r#""channel":"voice","provider":"captifi""#,
    ] {
        assert_eq!(read(route, "07700900123"), r#""e-1" to +447700900123"#);
        assert_eq!(read(route, "72345"), r#""e-1" to 72345"#);
    }
    assert_eq!(
        read(r#""channel":"push","provider":"captifi""#, "07700900123"),
        r#""e-1" to 07700900123"#
    );
}

#[test]
fn what_is_no_object_is_refused() {
    let lines = ["null", "7", "[]", "[{}]", "true", "\"\"", "\"text\"", "{}"]
        .map(|value| summary(&decoded(value, &[])));
    insta::assert_snapshot!(lines.join("\n"), @r#"
    malformed/not_an_object at the whole value [-]
    malformed/not_an_object at the whole value [-]
    malformed/not_an_object at the whole value [-]
    malformed/not_an_object at the whole value [-]
    malformed/not_an_object at the whole value [-]
    malformed/empty_value at the whole value [-]
    malformed/invalid_json at the whole value, line 1, column 2 [-]
    malformed/missing_event_id at /id [-]
    "#);
}
