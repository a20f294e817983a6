//! Holds the published contract, `config/intent.schema.json`, and the decoder against each other: whatever the one
//! takes the other takes, but for the differences that the schema's description names.

use jsonschema::Validator;

use super::*;
use crate::domain::intent::recipient::OPAQUE_CHARS_MAX;

const SCHEMA: &str = include_str!("../../../../../config/intent.schema.json");

fn schema() -> Validator {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap()
}

/// Whether the schema and the decoder take `text`.
fn verdicts(schema: &Validator, text: &str) -> (bool, bool) {
    let value: Value = serde_json::from_str(text).unwrap();
    (
        schema.is_valid(&value),
        matches!(decoded(text, &[]), Decoded::Intent(_)),
    )
}

const MOMENTS: [&str; 12] = [
    "2026-11-30T12:00:00Z",
    "2026-11-30T12:00:00.123456789+14:00",
    "2026-11-30T12:00:00",
    "2026-02-29T12:00:00Z",
    "2024-02-29T23:59:59-23:59",
    "2016-12-31T23:59:60Z",
    "9999-12-31T23:59:59Z",
    "0000-01-01T00:00:00Z",
    "2026-11-30T24:00:00Z",
    "2026-11-30t12:00:00z",
    "2026-11-30 12:00:00Z",
    "2026-11-30T12:00:00+24:00",
];

/// What may stand in a field: each candidate is right for some field and wrong for others.
fn candidate() -> impl Strategy<Value = String> {
    let texts = prop::sample::select(MOMENTS.to_vec());
    let texts = prop_oneof![
        texts,
        prop::sample::select(vec![
            "e-1",
            "7",
            "",
            " ",
            "sms",
            "push",
            "fax-2.b",
            "_x",
            "two words",
            "é",
            "a\nb",
            "\u{85}",
            "\u{7f}",
            "\u{a0}",
        ])
    ];
    let lengths = prop::sample::select(vec![
        63usize, 64, 65, 254, 255, 256, 639, 640, 641, 1_023, 1_024, 1_025,
    ]);
    prop_oneof![
        3 => texts.prop_map(|text| Value::from(text).to_string()),
        1 => lengths.prop_map(|length| Value::from("x".repeat(length)).to_string()),
        1 => prop::sample::select(vec![
            "null", "true", "7", "-7", "0", "0.5", "123456789012345678901234567890", "[]", "[\"e-1\"]", "{}",
            r#"{"name":"code"}"#, r#"{"name":"code","version":3}"#, r#"{"name":"code","version":null}"#,
            r#"{"name":null}"#, r#"{"name":"code","version":""}"#, r#"{"name":"code","version":"a\tb"}"#,
            r#"{"name":"code","locale":"en"}"#, r#"{"version":"3"}"#, r#"{"text":"hello"}"#,
        ])
        .prop_map(str::to_owned),
        1 => any::<String>().prop_map(|text| Value::from(text).to_string()),
    ]
}

/// A sound intent in which some fields are exchanged, left out or added.
fn document() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "id",
        "source",
        "channel",
        "provider",
        "to",
        "from",
        "content",
        "template",
        "expires_at",
        "idempotency_key",
        "reference",
        "metadata",
        "expire_at",
        "type",
    ]);
    let changes = prop::collection::vec((names, prop::option::weighted(0.9, candidate())), 0..4);
    changes.prop_map(|changes| {
        let sound = [
            ("id", "\"e-1\""),
            ("channel", "\"push\""),
            ("to", "\"t0k\""),
        ];
        let mut members: BTreeMap<&str, String> =
            sound.map(|(name, value)| (name, value.to_owned())).into();
        for (name, value) in changes {
            match value {
                Some(value) => members.insert(name, value),
                None => members.remove(name),
            };
        }
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        format!("{{{}}}", members.join(","))
    })
}

/// A recipient is judged by its channel's kind, which no schema knows: compare only where the two ask the same.
fn has_plain_recipient(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap();
    let opaque = |name: &str| !matches!(value[name].as_str(), Some("sms" | "email" | "webhook"));
    let visible = |to: &str| RecipientKind::Opaque.canonical(to).is_ok() || to.is_empty();
    opaque("channel") && opaque("provider") && value["to"].as_str().is_none_or(visible)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_schema_and_the_decoder_take_the_same(text in document()) {
        prop_assume!(has_plain_recipient(&text));
        thread_local! {
            static CONTRACT: Validator = schema();
        }
        let (by_schema, by_decoder) = CONTRACT.with(|schema| verdicts(schema, &text));
        prop_assert_eq!(by_schema, by_decoder, "{}: {}", text, summary(&decoded(&text, &[])));
    }
}

#[test]
fn the_schema_and_the_decoder_take_the_same_moments() {
    let schema = schema();
    let mut taken = 0;
    for moment in MOMENTS {
        let text = format!(r#"{{"id":"e-1","channel":"push","to":"a","expires_at":"{moment}"}}"#);
        let (by_schema, by_decoder) = verdicts(&schema, &text);
        assert_eq!(by_schema, by_decoder, "{moment}");
        taken += usize::from(by_decoder);
    }
    assert_eq!(taken, 7);
}

#[test]
fn what_only_the_decoder_refuses_is_what_the_schema_says_it_cannot_tell() {
    let schema = schema();
    let with = |rest: &str| format!(r#"{{"channel":"push",{rest}}}"#);
    for (text, detail) in [
        (
            with(r#""id":"e-1","to":"a","to":"b""#),
            Detail::DuplicateField,
        ),
        (with(r#""id":"e-1","to":"a b""#), Detail::BadRecipient),
        (
            with(&format!(
                r#""id":"e-1","to":"{}""#,
                "a".repeat(OPAQUE_CHARS_MAX + 1)
            )),
            Detail::BadRecipient,
        ),
        (
            with(&format!(r#""id":"{}","to":"a""#, "é".repeat(513))),
            Detail::BadEventId,
        ),
        (
            with(&format!(
                r#""id":"e-1","to":"a","source":"{}""#,
                "é".repeat(513)
            )),
            Detail::BadField,
        ),
        (
            with(&format!(r#""id":{},"to":"a""#, "1".repeat(1_025))),
            Detail::BadEventId,
        ),
        (with(r#""id":-0,"to":"a""#), Detail::BadEventId),
        (with(r#""id":1.0,"to":"a""#), Detail::BadEventId),
        (with(r#""id":1e3,"to":"a""#), Detail::BadEventId),
        (
            with(r#""id":"e-1","to":"a","template":{"name":"code","version":2.0}"#),
            Detail::BadField,
        ),
        (
            with(&format!(
                r#""id":"e-1","to":"a","content":{}{}"#,
                "{\"a\":".repeat(40),
                "}".repeat(40).replacen('}', "1}", 1)
            )),
            Detail::TooDeep,
        ),
        (
            with(&format!(
                r#""id":"e-1","to":"a","content":{{"text":"{}"}}"#,
                "a".repeat(1_048_576)
            )),
            Detail::ValueTooLarge,
        ),
    ] {
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(schema.is_valid(&value), "{text:.200}");
        assert_eq!(refused(&text, &[]).fault.detail, detail, "{text:.200}");
    }
}

#[test]
fn what_only_the_decoder_takes_is_wrapped() {
    let schema = schema();
    let plain = r#"{"id":"e-1","source":"login","channel":"push","to":"a"}"#;
    assert_eq!(verdicts(&schema, plain), (true, true));
    for (text, with) in encodings("e-1", "login", r#""channel":"push","to":"a""#) {
        let record = RecordView {
            value: Some(text.as_bytes()),
            headers: &with,
            headers_unreadable: 0,
        };
        assert!(matches!(
            decode(&record, &IntakeRules::default()),
            Decoded::Intent(_)
        ));
        let value: Value = serde_json::from_str(&text).unwrap();
        let whole = value.get("id").is_some() && value.get("to").is_some();
        assert_eq!(schema.is_valid(&value), whole, "{text}");
    }
}

#[test]
fn the_schema_describes_every_field_and_its_examples_hold() {
    let document: Value = serde_json::from_str(SCHEMA).unwrap();
    assert!(jsonschema::meta::is_valid(&document));
    let properties = document["properties"].as_object().unwrap();
    assert!(properties.keys().all(|name| fields::is_known(name)));
    assert_eq!(properties.len(), 12);
    assert!(
        properties
            .values()
            .all(|property| property["description"].is_string())
    );
}
