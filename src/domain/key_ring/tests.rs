use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::domain::intent::decode::{Decoded, IntakeRules, RecordView, decode};
use crate::domain::intent::{EventId, Recipient, Template};

const DAY: Duration = Duration::from_secs(86_400);

fn secret(text: &str) -> KeySecret {
    KeySecret::new(text.as_bytes()).unwrap()
}

fn namespace(text: &str) -> Namespace {
    Namespace::new(text).unwrap()
}

fn day(day: u32) -> Timestamp {
    Timestamp::EPOCH.plus(DAY * day)
}

fn read(value: &str, rules: &IntakeRules) -> Intent {
    let record = RecordView {
        value: Some(value.as_bytes()),
        headers: &[],
        headers_unreadable: 0,
    };
    match decode(&record, rules) {
        Decoded::Intent(intent) => *intent,
        other @ (Decoded::Ignored(_) | Decoded::Refused(_)) => panic!("{value}: {other:?}"),
    }
}

fn login_code() -> Intent {
    let value = r#"{"id":"e-1","source":"login","channel":"sms","to":"+447700900123",
        "template":{"name":"code","version":"3"}}"#;
    read(value, &IntakeRules::default())
}

#[derive(Deserialize)]
struct Golden {
    name: String,
    namespace: String,
    secret: String,
    intent: String,
    recipient: String,
    key: String,
    short: String,
    fingerprint: String,
}

/// Computed by `tests/golden/keys.py`, which shares nothing with this program. They never change: a key that comes
/// out otherwise sends again whatever is under way.
#[test]
fn keys_and_fingerprints_are_those_of_the_golden_vectors() {
    let vectors = include_str!("../../../tests/golden/keys.json");
    let vectors: Vec<Golden> = serde_json::from_str(vectors).unwrap();
    assert!(vectors.len() >= 15);
    let mut rules = IntakeRules::default();
    let phone = rules.recipients["sms"].clone();
    rules.recipients.insert("captifi".into(), phone);
    for golden in vectors {
        let intent = read(&golden.intent, &rules);
        assert_eq!(
            intent.recipient.expose(),
            golden.recipient,
            "{}",
            golden.name
        );
        let key = derive(
            &secret(&golden.secret),
            &namespace(&golden.namespace),
            &intent,
        );
        assert_eq!(key.as_str(), golden.key, "{}", golden.name);
        assert_eq!(key.short_form(), Some(golden.short), "{}", golden.name);
        assert_eq!(
            intent.fingerprint().to_string(),
            golden.fingerprint,
            "{}",
            golden.name
        );
    }
}

#[test]
fn a_secret_has_sixteen_bytes_and_is_not_shown() {
    assert!(KeySecret::new(&[7; 15]).is_none());
    let secret = secret("sixteen letters!");
    assert_eq!(format!("{secret:?}"), "KeySecret(…)");
    let ring = KeyRing::new(
        namespace("test"),
        [DatedSecret {
            from: day(0),
            secret,
        }],
    );
    assert!(!format!("{ring:?}").contains("sixteen"));
}

#[test]
fn a_namespace_is_visible_ascii() {
    assert!(Namespace::new("").is_none());
    assert!(Namespace::new("two words").is_none());
    assert!(Namespace::new("ümlaut").is_none());
    assert!(Namespace::new(&"n".repeat(256)).is_none());
    assert_eq!(namespace("production/eu").as_str(), "production/eu");
}

#[test]
fn a_ring_needs_one_secret_and_certain_dates() {
    let dated = |from, text: &str| DatedSecret {
        from,
        secret: secret(text),
    };
    assert_eq!(KeyRing::new(namespace("n"), []), Err(KeyRingFault::Empty));
    assert_eq!(
        KeyRing::new(
            namespace("n"),
            [
                dated(day(3), "one one one one one"),
                dated(day(3), "two two two two two")
            ]
        ),
        Err(KeyRingFault::SameDate(day(3)))
    );
}

/// Three secrets, in force from the beginning, from day 10, and from day 20.
struct Rotation {
    ring: KeyRing,
    keys: [IdempotencyKey; 3],
    intent: Intent,
}

fn rotation() -> Rotation {
    let names = ["the first secret", "the second secret", "the third secret"];
    let secrets = [(20, names[2]), (0, names[0]), (10, names[1])];
    let secrets = secrets.map(|(from, text)| DatedSecret {
        from: day(from),
        secret: secret(text),
    });
    let intent = login_code();
    Rotation {
        ring: KeyRing::new(namespace("n"), secrets).unwrap(),
        keys: names.map(|name| derive(&secret(name), &namespace("n"), &intent)),
        intent,
    }
}

#[test]
fn a_records_timestamp_chooses_the_secret() {
    let Rotation {
        ring,
        keys: [first, second, third],
        intent,
    } = rotation();
    let just_before = Timestamp::from_millis(day(10).as_millis() - 1);
    assert_eq!(ring.key(&intent, Timestamp::from_millis(-1)), first);
    assert_eq!(ring.key(&intent, just_before), first);
    assert_eq!(ring.key(&intent, day(10)), second);
    assert_eq!(ring.key(&intent, day(19)), second);
    assert_eq!(ring.key(&intent, day(20)), third);
    assert_eq!(ring.key(&intent, day(4_000)), third);
}

#[test]
fn a_rotation_sends_nothing_twice_in_either_direction() {
    let Rotation {
        ring,
        keys: [first, second, third],
        intent,
    } = rotation();
    let candidates = |stamped, now| ring.candidates(&intent, day(stamped), day(now), DAY * 7);

    // Stamped before the rotation of day 20 and read after it: keyed as before, and asked for under the new one too,
    // under which a republished record that overtook it would be.
    assert_eq!(candidates(19, 21), [second.clone(), third.clone()]);
    // Republished after the rotation: keyed anew, found under the old one.
    assert_eq!(candidates(21, 21), [third.clone(), second.clone()]);
    // The old one's time ended more than the ledger's retention ago: nothing is remembered under it.
    assert_eq!(candidates(28, 28), std::slice::from_ref(&third));
    assert_eq!(candidates(26, 26), [third.clone(), second.clone()]);
    // A record of long ago, read only now, asks under everything since.
    assert_eq!(candidates(1, 28), [first, second.clone(), third.clone()]);
    // A clock that runs ahead has keyed under a secret of the future: its event's other record looks there too.
    assert_eq!(
        candidates(12, 12),
        [second, rotation().keys[0].clone(), third]
    );
}

#[test]
fn a_key_of_upstreams_own_is_the_only_one_and_is_sent_as_it_is() {
    let Rotation { ring, intent, .. } = rotation();
    let own = IdempotencyKey::from_upstream("outbox-row/17").unwrap();
    let intent = Intent {
        idempotency_key: Some(own.clone()),
        ..intent
    };
    assert_eq!(ring.key(&intent, day(1)), own);
    assert_eq!(
        ring.candidates(&intent, day(1), day(28), DAY * 7),
        std::slice::from_ref(&own)
    );
    assert_eq!(own.short_form(), None);
}

#[test]
fn p08_channel_recipient_and_source_each_make_another_key() {
    let rules = IntakeRules::default();
    let keys: Vec<IdempotencyKey> = [
        r#"{"id":"e-1008","channel":"sms","to":"+447700900123"}"#,
        r#"{"id":"e-1008","channel":"sms","to":"+447700900124"}"#,
        r#"{"id":"e-1008","channel":"email","to":"one@example.com"}"#,
        r#"{"id":"e-1008","channel":"email","to":"two@example.com"}"#,
        r#"{"id":"e-1008","source":"shop","channel":"sms","to":"+447700900123"}"#,
        r#"{"id":"e-1008","source":"bank","channel":"sms","to":"+447700900123"}"#,
    ]
    .iter()
    .map(|value| {
        derive(
            &secret("sixteen letters!"),
            &namespace("n"),
            &read(value, &rules),
        )
    })
    .collect();
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
}

#[test]
fn p09_any_id_makes_a_short_safe_key_and_long_ones_are_not_cut() {
    let head = "a".repeat(255);
    let ids = [
        format!("{head}{}", "b".repeat(345)),
        format!("{head}{}", "c".repeat(345)),
        "заказ-42/é".to_owned(),
        "a\r\nX-Evil: 1".to_owned(),
        "1".to_owned(),
    ];
    let keys: Vec<IdempotencyKey> = ids
        .iter()
        .map(|id| {
            let intent = Intent {
                event_id: EventId(id.as_str().into()),
                ..login_code()
            };
            derive(&secret("sixteen letters!"), &namespace("n"), &intent)
        })
        .collect();
    for key in &keys {
        assert_eq!(key.as_str().len(), 36);
        let safe = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        assert!(key.as_str().bytes().all(safe));
        assert_eq!(key.short_form().unwrap().len(), 22);
    }
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), ids.len());
}

#[test]
fn p12_other_content_is_another_fingerprint_under_the_same_key() {
    let rules = IntakeRules::default();
    let with = |rest: &str| {
        read(
            &format!(r#"{{"id":"e-1012","channel":"sms","to":"+447700900123",{rest}}}"#),
            &rules,
        )
    };
    let key = |intent: &Intent| derive(&secret("sixteen letters!"), &namespace("n"), intent);
    let first = with(r#""content":{"text":"A","to_name":"x"}"#);
    let same = with(
        r#""content":{"to_name":"x","text":"\u0041"},"metadata":{"try":2},"expires_at":"2026-11-30T00:00:00Z""#,
    );
    assert_eq!(first.fingerprint(), same.fingerprint());
    for other in [
        r#""content":{"text":"B","to_name":"x"}"#,
        r#""content":{"text":"A"}"#,
        r#""content":{"text":"A","to_name":["x"]}"#,
        r#""content":{"text":"A","to_name":"x"},"from":"Example""#,
        r#""content":{"text":"A","to_name":"x"},"provider":"captifi""#,
        r#""content":{"text":"A","to_name":"x"},"reference":"r""#,
    ] {
        let other = with(other);
        assert_eq!(key(&first), key(&other));
        assert_ne!(first.fingerprint(), other.fingerprint());
    }
}

/// Changes one field that the key is made from.
fn changed(intent: &Intent, field: usize, to: &str) -> Intent {
    let text: Arc<str> = to.into();
    let template = |name: Arc<str>, version| Some(Template { name, version });
    let mut intent = intent.clone();
    match field {
        0 => intent.event_id = EventId(text),
        1 => intent.source = Some(text),
        2 => intent.channel = Some(text),
        3 => intent.recipient = Recipient::canonical(&text),
        4 => intent.template = template(text, Some("3".into())),
        5 => intent.template = template("code".into(), Some(text)),
        6 => intent.source = None,
        7 => intent.channel = None,
        8 => intent.template = None,
        _ => intent.template = template("code".into(), None),
    }
    intent
}

proptest! {
    #[test]
    fn each_field_of_the_key_changes_it_and_no_other_does(
        field in 0usize..10,
        to in "[a-z0-9]{0,8}",
        other_namespace in "[a-z]{2,8}",
        text in ".{0,8}",
    ) {
        let key = |secret_text: &str, namespace_text: &str, intent: &Intent| {
            derive(&secret(secret_text), &namespace(namespace_text), intent)
        };
        let intent = login_code();
        let base = key("sixteen letters!", "n", &intent);
        let other = changed(&intent, field, &to);
        prop_assert_eq!(base == key("sixteen letters!", "n", &other), intent == other);
        prop_assert_ne!(&base, &key("sixteen letters?", "n", &intent));
        prop_assert_ne!(&base, &key("sixteen letters!", &other_namespace, &intent));
        let mut beside = intent;
        beside.content.insert("text".to_owned(), text.as_str().into());
        beside.metadata.insert("text".to_owned(), text.as_str().into());
        beside.from = Some(text.clone());
        beside.reference = Some(text);
        beside.provider = Some("another".into());
        beside.expires_at = Some(day(1));
        prop_assert_eq!(base, key("sixteen letters!", "n", &beside));
    }
}
