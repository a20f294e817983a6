//! What records say, by encoding; here what all of them share.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;
use crate::domain::dead_letter::Reason;
use crate::domain::intent::Template;
use crate::domain::intent::recipient::Region;
use crate::domain::time::Timestamp;

mod cloudevents;
mod outbox;
mod plain;
mod schema;

type OwnedHeader = (String, Option<Bytes>);

fn headers(headers: &[(&str, &str)]) -> Vec<OwnedHeader> {
    headers
        .iter()
        .map(|(name, value)| {
            (
                (*name).to_owned(),
                Some(Bytes::copy_from_slice(value.as_bytes())),
            )
        })
        .collect()
}

fn decoded(value: &str, with: &[(&str, &str)]) -> Decoded {
    let record = RecordView {
        value: Some(value.as_bytes()),
        headers: &headers(with),
        headers_unreadable: 0,
    };
    decode(&record, &IntakeRules::default())
}

fn intent(value: &str, with: &[(&str, &str)]) -> Intent {
    match decoded(value, with) {
        Decoded::Intent(intent) => *intent,
        other @ (Decoded::Ignored(_) | Decoded::Refused(_)) => {
            panic!("{value} {with:?}: {other:?}")
        }
    }
}

fn refused(value: &str, with: &[(&str, &str)]) -> Refusal {
    match decoded(value, with) {
        Decoded::Refused(refusal) => refusal,
        other @ (Decoded::Ignored(_) | Decoded::Intent(_)) => panic!("{value} {with:?}: {other:?}"),
    }
}

/// One line that says what came of a record, for tables; the recipient is shown because all of them are made up.
fn summary(decoded: &Decoded) -> String {
    match decoded {
        Decoded::Intent(intent) => {
            let mut line = format!("{:?} to {}", intent.event_id.0, intent.recipient.expose());
            if let Some(source) = &intent.source {
                write!(line, " from {source:?}").unwrap();
            }
            line
        }
        Decoded::Ignored(reason) => format!("ignored: {}", reason.name()),
        Decoded::Refused(refusal) => {
            let Fault { detail, place } = &refusal.fault;
            let id = refusal.event_id.as_ref().map_or("-", |id| &id.0);
            format!("{}/{detail} at {place} [{id}]", refusal.reason())
        }
    }
}

#[test]
fn p37_poison_is_told_apart_from_what_asks_for_nothing() {
    let read = |value: Option<&[u8]>| {
        summary(&decode(
            &RecordView {
                value,
                headers: &[],
                headers_unreadable: 0,
            },
            &IntakeRules::default(),
        ))
    };
    let good = br#"{"id":"e-1","channel":"sms","to":"+447700900123"}"#;
    let nameless = br#"{"channel":"sms","to":"+447700900123"}"#;
    // A channel that nobody serves is an intent all the same: `no_route` is decided where the routes are known.
    let fax = br#"{"id":"e-2","channel":"fax","to":"0123"}"#;
    let lines = [
        read(Some(good)),
        read(Some(b"\xFF\xFE")),
        read(None),
        read(Some(b"")),
        read(Some(nameless)),
        read(Some(fax)),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    "e-1" to +447700900123
    malformed/invalid_utf8 at the whole value, byte 0 [-]
    ignored: tombstone
    malformed/empty_value at the whole value [-]
    malformed/missing_event_id at /id [-]
    "e-2" to 0123
    "#);
}

#[test]
fn what_is_over_a_limit_is_refused_and_what_is_at_it_is_read() {
    let value = br#"{"id":"e-1","channel":"sms","to":"+447700900123","content":{"a":[1]}}"#;
    let headers = headers(&[("a", "1234"), ("b", "12")]);
    let rules = IntakeRules {
        size_max: value.len(),
        headers_max: 2,
        headers_size_max: 8,
        depth_max: 3,
        ..IntakeRules::default()
    };
    let record = RecordView {
        value: Some(value),
        headers: &headers,
        headers_unreadable: 0,
    };
    let read = |rules: &IntakeRules| summary(&decode(&record, rules));
    let lines = [
        read(&rules),
        read(&IntakeRules {
            size_max: value.len() - 1,
            ..rules.clone()
        }),
        read(&IntakeRules {
            headers_max: 1,
            ..rules.clone()
        }),
        read(&IntakeRules {
            headers_size_max: 7,
            ..rules.clone()
        }),
        read(&IntakeRules {
            depth_max: 2,
            ..rules.clone()
        }),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    "e-1" to +447700900123
    too_large/value_too_large at 69 bytes, 68 allowed [-]
    too_large/headers_too_large at 2 headers, 1 allowed [-]
    too_large/headers_too_large at 8 bytes of headers, 7 allowed [-]
    malformed/too_deep at /content/a, line 1, column 65 [-]
    "#);
}

#[test]
fn a_record_with_a_header_that_cannot_be_read_is_refused_whatever_else_it_says() {
    let rules = IntakeRules {
        size_max: 1,
        ..IntakeRules::default()
    };
    let record = RecordView {
        value: Some(br#"{"id": "e-1", "channel": "sms", "to": "+447700900123", "content": "hi"}"#),
        headers: &[],
        headers_unreadable: 2,
    };
    let told = summary(&decode(&record, &rules));
    insta::assert_snapshot!(told, @"malformed/unreadable_header at 2 of the headers, left out: a name must be UTF-8 [-]");
    let tombstone = RecordView {
        value: None,
        ..record
    };
    let ignored = Decoded::Ignored(IgnoredReason::Tombstone);
    assert_eq!(decode(&tombstone, &rules), ignored);
}

#[test]
fn each_detail_has_its_own_name_and_a_reason() {
    let lines = Detail::ALL.map(|detail| format!("{} {detail}", detail.reason()));
    let distinct: std::collections::BTreeSet<_> = lines.iter().collect();
    assert_eq!(distinct.len(), lines.len());
    assert!(
        Detail::ALL
            .iter()
            .zip(Detail::ALL.iter().skip(1))
            .all(|(one, next)| one < next)
    );
    let too_large = Detail::ALL
        .map(Detail::reason)
        .iter()
        .filter(|reason| **reason == Reason::TooLarge)
        .count();
    assert_eq!(too_large, 2);
}

/// The same intent in every encoding that there is.
fn encodings(id: &str, source: &str, fields: &str) -> Vec<(String, Vec<OwnedHeader>)> {
    let text = |text: &str| Value::from(text).to_string();
    let (id_json, source_json) = (text(id), text(source));
    let data = format!("{{{fields}}}");
    let with_source = format!("{{\"source\":{source_json},{fields}}}");
    let plain = format!("{{\"id\":{id_json},\"source\":{source_json},{fields}}}");
    let event =
        format!("\"specversion\":\"1.0\",\"type\":\"t\",\"id\":{id_json},\"source\":{source_json}");
    let structured = format!("{{{event},\"data\":{data}}}");
    let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &data);
    let ce = |content_type: &[(&str, &str)]| {
        let mut all = headers(&[
            ("ce_specversion", "1.0"),
            ("ce_type", "t"),
            ("ce_id", id),
            ("ce_source", source),
        ]);
        all.extend(headers(content_type));
        all
    };
    vec![
        (plain.clone(), vec![]),
        (
            plain.clone(),
            headers(&[("content-type", "application/json")]),
        ),
        (text(&plain), vec![]),
        (format!("{{\"schema\":null,\"payload\":{plain}}}"), vec![]),
        (with_source.clone(), headers(&[("id", id)])),
        (text(&with_source), headers(&[("id", id)])),
        (
            format!("{{\"payload\":{},\"eventType\":\"t\"}}", text(&with_source)),
            headers(&[("id", id)]),
        ),
        (
            format!("{{\"id\":{id_json},\"payload\":{with_source}}}"),
            vec![],
        ),
        (
            structured.clone(),
            headers(&[("content-type", "application/cloudevents+json")]),
        ),
        (structured, vec![]),
        (
            format!("{{{event},\"data\":{plain}}}"),
            headers(&[(
                "Content-Type",
                "Application/CloudEvents+JSON; charset=UTF-8",
            )]),
        ),
        (format!("{{{event},\"data_base64\":\"{base64}\"}}"), vec![]),
        (data.clone(), ce(&[])),
        (
            data.clone(),
            ce(&[("content-type", "application/json; charset=utf-8")]),
        ),
        (plain, ce(&[("ce_datacontenttype", "application/json")])),
    ]
}

proptest! {
    /// Whatever the encoding, one intent is one value, and so has one key.
    #[test]
    fn an_intent_is_the_same_in_every_encoding(
        // No header can tell a leading quote or brace from Connect's way of writing an id.
        id in "[^\"{].{0,40}",
        source in "[a-z/:.]{1,20}",
        number in "-?[1-9][0-9]{0,30}(\\.[0-9]{1,9})?",
        text in any::<String>(),
    ) {
        let text = Value::from(text);
        let fields = format!(
            "\"channel\":\"sms\",\"to\":\"+44 7700 900123\",\"content\":{{\"n\":{number},\"t\":{text}}},\
             \"template\":{{\"name\":\"code\",\"version\":3}},\"expires_at\":\"2026-11-30T12:00:00+01:00\""
        );
        let mut intents = encodings(&id, &source, &fields).into_iter().map(|(value, headers)| {
            let record = RecordView { value: Some(value.as_bytes()), headers: &headers, headers_unreadable: 0 };
            (decode(&record, &IntakeRules::default()), value)
        });
        let (first, value) = intents.next().unwrap();
        prop_assert!(matches!(first, Decoded::Intent(_)), "{value}: {first:?}");
        for (other, value) in intents {
            prop_assert_eq!(&other, &first, "{}", value);
        }
    }

    #[test]
    fn any_bytes_and_headers_are_read_ignored_or_refused(
        value in prop::option::of(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[\\[\\]{}\",:0-9a-z .+-]{0,80}".prop_map(String::into_bytes),
        ]),
        names in prop::collection::vec(
            prop_oneof![
                Just("id".to_owned()),
                Just("content-type".to_owned()),
                Just("ce_id".to_owned()),
                Just("CE_specversion".to_owned()),
                Just("ce_source".to_owned()),
                Just("ce_type".to_owned()),
                any::<String>(),
            ],
            0..6,
        ),
        bytes in prop::collection::vec(
            prop::option::of(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..20),
                Just(b"1.0".to_vec()),
                Just(b"application/cloudevents+json".to_vec()),
            ]),
            6,
        ),
    ) {
        let headers: Vec<OwnedHeader> = names.into_iter().zip(bytes.into_iter().map(|bytes| bytes.map(Bytes::from))).collect();
        let record = RecordView { value: value.as_deref(), headers: &headers, headers_unreadable: 0 };
        let decoded = decode(&record, &IntakeRules::default());
        prop_assert_eq!(matches!(decoded, Decoded::Ignored(IgnoredReason::Tombstone)), value.is_none());
    }

    /// Mutations of a good record: what random bytes seldom reach.
    #[test]
    fn a_refusal_never_tells_what_the_record_holds(
        cut in any::<prop::sample::Index>(),
        put in "[\\[\\]{}\",:0-9\\\\]{0,3}",
        which in 0usize..15,
    ) {
        const SECRETS: [&str; 3] = ["7700900123", "482901", "tok-SECRET"];
        let fields = "\"channel\":\"sms\",\"to\":\"+447700900123\",\
            \"content\":{\"text\":\"Your code is 482901\",\"447700900123\":\"tok-SECRET\"}";
        let (value, headers) = encodings("e-1", "login", fields).swap_remove(which);
        let mut at = cut.index(value.len());
        while !value.is_char_boundary(at) {
            at -= 1;
        }
        let value = format!("{}{put}{}", &value[..at], &value[(at + 1).min(value.len())..]);
        let record = RecordView { value: Some(value.as_bytes()), headers: &headers, headers_unreadable: 0 };
        if let Decoded::Refused(refusal) = decode(&record, &IntakeRules::default()) {
            for secret in SECRETS {
                prop_assert!(!refusal.fault.place.contains(secret), "{}", refusal.fault.place);
            }
        }
    }
}
