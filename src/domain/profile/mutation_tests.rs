//! Every shipped profile with one thing changed in it: each kind of slip is refused, with a message that names the place.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use super::example_tests::{changed_in, every_place};
use super::tests::{SHIPPED, faults_of};

/// A kind of slip.
struct Slip {
    name: &'static str,
    /// What is put at a place, if the slip can be made there. Lists are numbered `[]`.
    at: fn(place: &str, value: &Value) -> Option<Value>,
    /// What the fault says.
    told: &'static str,
}

fn text(text: &str) -> Option<Value> {
    Some(Value::String(text.to_owned()))
}

fn is_template(place: &str) -> bool {
    place.starts_with("request.body.template") || place.starts_with("request.headers")
}

const SLIPS: &[Slip] = &[
    Slip {
        name: "a number out of range",
        at: |place, _| match place {
            "key.max_len" => Some(Value::Integer(70_000)),
            _ if place.starts_with("limits.") => Some(Value::Integer(0)),
            _ => None,
        },
        told: "expected a whole number",
    },
    Slip {
        name: "a status that is none",
        at: |place, _| match place {
            "accepted.status" | "rule[].when.status" | "wait[].on" | "key.replay.status" => {
                Some(Value::Integer(99))
            }
            _ => None,
        },
        told: "expected statuses",
    },
    Slip {
        name: "a span without a unit",
        at: |place, _| match place {
            "key.window"
            | "key.window_margin"
            | "key.lock_lapses"
            | "rule[].wait"
            | "wait[].fixed"
            | "request.auth.reuse"
            | "request.auth.reuse_min"
            | "request.auth.lifetime" => text("30"),
            _ if place.starts_with("timeouts.") => text("30"),
            _ => None,
        },
        told: "expected a span above zero",
    },
    Slip {
        name: "a word that is not of the set",
        at: |place, _| match place {
            "verified"
            | "request.method"
            | "request.http"
            | "request.auth.kind"
            | "request.auth.algorithm"
            | "request.auth.secret_in"
            | "request.auth.secret_form"
            | "request.auth.hash"
            | "request.auth.written"
            | "request.body.kind"
            | "key.form"
            | "key.window_source"
            | "key.window_starts"
            | "key.stores"
            | "key.scope"
            | "accepted.without_id"
            | "rule[].class"
            | "rule[].id"
            | "rule[].reason"
            | "rule[].wait_scope"
            | "rule[].wait_until"
            | "wait[].as"
            | "wait[].scope" => text("gladly"),
            _ => None,
        },
        told: "expected",
    },
    Slip {
        name: "a pointer without a slash",
        at: |place, value| match place {
            "accepted.id" if value.as_str()?.starts_with('/') => text("id"),
            "key.place" if value.as_str()?.starts_with("body ") => text("body id"),
            "error_code.body" | "wait[].body" | "key.replay.body" => text("id"),
            "rule[].when.body" => Some(Value::Table("id = 1".parse().ok()?)),
            _ => None,
        },
        told: "a JSON Pointer begins with a slash",
    },
    Slip {
        name: "an expression that is none",
        at: |place, _| match place {
            "rule[].when.text" | "wait[].text" | "error_code.text" => text("("),
            _ if place.ends_with(".regex") => text("("),
            _ => None,
        },
        told: "is no regular expression",
    },
    Slip {
        name: "a key that is longer than its field",
        at: |place, _| match place {
            "key.max_len" => Some(Value::Integer(21)),
            _ => None,
        },
        told: "a key of this form has",
    },
    Slip {
        name: "a window that is over before it begins",
        at: |place, _| match place {
            "key.window" => text("60s"),
            _ => None,
        },
        told: "no attempt would ever start",
    },
    Slip {
        name: "a header that cannot be",
        at: |place, value| match place {
            "accepted.id" if value.as_str()?.starts_with("header ") => text("header a b"),
            "key.place" if value.as_str()?.starts_with("header ") => text("header a b"),
            "key.replay.header" | "wait[].header" => text("a b"),
            _ => None,
        },
        told: "names no valid header",
    },
    Slip {
        name: "a name that nothing has",
        at: |place, value| match place {
            _ if !value.is_str() => None,
            "request.url" => text("https://a.example/{{ nobody }}"),
            _ => is_template(place).then(|| text("{{ nobody }}")).flatten(),
        },
        told: "names nothing that a profile can read",
    },
    Slip {
        name: "an address that is none",
        at: |place, _| match place {
            "request.url" => text("ftp://a.example/"),
            _ => None,
        },
        told: "must begin with https://",
    },
    Slip {
        name: "a secret in the profile",
        at: |place, value| match place {
            "request.auth.secret"
            | "request.auth.username"
            | "request.auth.password"
            | "request.auth.access_key_id"
            | "request.auth.secret_access_key"
            | "request.auth.session_token"
            | "request.auth.client_secret"
            | "request.auth.service_account" => text("sk_live_42"),
            // The client's id is no secret where it signs.
            "request.auth.client_id" if value.as_str() == Some("env:PAYPAL_CLIENT_ID") => {
                text("sk_live_42")
            }
            _ if place.starts_with("request.auth.parameters.") => text("sk_live_42"),
            _ => None,
        },
        told: "a profile never holds a secret",
    },
    Slip {
        name: "a token endpoint that is no address",
        at: |place, _| match place {
            "request.auth.token_url" => text("//elsewhere.example/token"),
            _ => None,
        },
        told: "a path at the host of request.url",
    },
    Slip {
        name: "a setting that there is not, in credentials",
        at: |place, _| match place {
            "request.auth.issuer"
            | "request.auth.key_id"
            | "request.auth.region"
            | "request.auth.scope"
            | "request.auth.audience"
            | "request.auth.subject" => text("{{ settings.nowhere }}"),
            _ => None,
        },
        told: "there is no settings.nowhere",
    },
    Slip {
        name: "a part of a request that there is not",
        at: |place, _| match place {
            "request.auth.signs" => text("{{ weather }}"),
            _ if place.starts_with("request.auth.headers.") => text("{{ weather }}"),
            _ => None,
        },
        told: "is no part of a request",
    },
    Slip {
        name: "a signing name that is none",
        at: |place, _| match place {
            "request.auth.service" => text("s e s"),
            _ => None,
        },
        told: "expected a signing name",
    },
    Slip {
        name: "a day that no calendar has",
        at: |place, _| match place {
            "verified_on" => text("2026-02-30"),
            _ => None,
        },
        told: "expected a day",
    },
];

/// What cannot be left out, where its table is there.
const REQUIRED: &[&str] = &[
    "vendor",
    "operation",
    "verified",
    "verified_on",
    "request",
    "request.method",
    "request.url",
    "request.body",
    "request.body.kind",
    "request.auth.kind",
    "request.auth.name",
    "request.auth.secret",
    "request.auth.username",
    "request.auth.password",
    "request.auth.parameters",
    "request.auth.signs",
    "request.auth.headers",
    "request.auth.access_key_id",
    "request.auth.secret_access_key",
    "request.auth.region",
    "request.auth.service",
    "request.auth.algorithm",
    "request.auth.issuer",
    "request.auth.token_url",
    "request.auth.client_id",
    "request.auth.client_secret",
    "key.place",
    "key.max_len",
    "key.window",
    "key.window_source",
    "accepted",
    "accepted.status",
    "rule[].class",
    "rule[].when",
];

/// Kinds of credentials that no shipped profile has, or not with all of their fields.
const MORE_AUTH: [(&str, &str); 6] = [
    (
        "query",
        r#"kind = "query"
parameters = { api_key = "env:KEY", user = "env:USER" }"#,
    ),
    (
        "hmac",
        r#"kind = "hmac"
secret = "env:KEY"
secret_form = "base64"
hash = "sha512"
written = "base64"
signs = "{{ header x-at }}.{{ body }}"
headers = { x-at = "{{ timestamp }}", x-mac = "v1={{ signature }}" }"#,
    ),
    (
        "aws_sigv4",
        r#"kind = "aws_sigv4"
access_key_id = "env:ID"
secret_access_key = "env:KEY"
session_token = "env:SESSION"
region = "eu-west-1"
service = "ses""#,
    ),
    (
        "jwt",
        r#"kind = "jwt"
algorithm = "RS256"
secret = "env:KEY"
key_id = "k"
issuer = "us"
subject = "us"
audience = "them"
lifetime = "1h"
prefix = "JWT "
reuse = "50m"
reuse_min = "20m""#,
    ),
    (
        "client_credentials",
        r#"kind = "client_credentials"
token_url = "https://b.example/token"
client_id = "env:PAYPAL_CLIENT_ID"
client_secret = "env:SECRET"
secret_in = "body"
scope = "a b""#,
    ),
    (
        "jwt_bearer",
        r#"kind = "jwt_bearer"
token_url = "/token"
issuer = "us"
secret = "file:/key.pem"
key_id = "k"
audience = "them"
scope = "a b"
lifetime = "1h""#,
    ),
];

const BEFORE_AUTH: &str = r#"
vendor = "fixture"
operation = "send"
verified = "documented"
verified_on = "2026-11-30"
accepted = { status = 201 }
[request]
method = "POST"
url = "https://a.example/send"
body = { kind = "none" }
[request.auth]
"#;

/// Every profile in which slips are made.
fn profiles() -> Vec<(String, String)> {
    let shipped = SHIPPED
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let more = MORE_AUTH.map(|(kind, auth)| (kind.to_owned(), format!("{BEFORE_AUTH}{auth}\n")));
    shipped.chain(more).collect()
}

/// `rule[3].when` as `rule[].when`.
fn unnumbered(place: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in place.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ if inside => continue,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Every place of a profile that is unlike those before it: of its rules, each field where it first stands.
fn places_of(profile: &str) -> Vec<(String, Value)> {
    let whole = Value::Table(profile.parse().unwrap());
    let mut alike = BTreeSet::new();
    let mut places = Vec::new();
    every_place(&whole, "", &mut |place, value| {
        if alike.insert(unnumbered(place)) {
            places.push((place.to_owned(), value.clone()));
        }
    });
    places
}

/// The fault at the place, above it, or inside of it.
fn told_at<'f>(faults: &'f [String], place: &str) -> Option<&'f str> {
    let at = |fault: &&String| {
        let (path, _) = fault.split_once(": ").unwrap();
        let above = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        place.strip_prefix(path).is_some_and(above) || path.starts_with(place)
    };
    faults.iter().find(at).map(String::as_str)
}

#[test]
fn every_slip_in_a_shipped_profile_is_refused_at_its_place() {
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, profile) in &profiles() {
        for (place, value) in places_of(profile) {
            for slip in SLIPS {
                let Some(instead) = (slip.at)(&unnumbered(&place), &value) else {
                    continue;
                };
                let faults = faults_of(&changed_in(profile, &place, &|at| *at = instead.clone()));
                let told = told_at(&faults, &place);
                assert!(
                    told.is_some_and(|fault| fault.contains(slip.told)),
                    "{name} {place}, {}: {faults:?}",
                    slip.name
                );
                assert!(faults.iter().all(|fault| !fault.contains("sk_live_42")));
                *made.entry(slip.name).or_default() += 1;
            }
        }
    }
    println!("{made:#?}");
    for slip in SLIPS {
        assert!(made.contains_key(slip.name), "{} was never made", slip.name);
    }
}

#[test]
fn every_field_that_a_shipped_profile_must_have_is_missed() {
    let mut missed = 0;
    for (name, profile) in &profiles() {
        for (place, _) in places_of(profile) {
            if !REQUIRED.contains(&unnumbered(&place).as_str()) {
                continue;
            }
            let (table, field) = place.rsplit_once('.').unwrap_or(("", &place));
            let without = changed_in(profile, table, &|value| {
                value.as_table_mut().unwrap().remove(field);
            });
            let faults = faults_of(&without);
            let expected = format!("{place}: is missing");
            assert!(faults.contains(&expected), "{name} {place}: {faults:?}");
            missed += 1;
        }
    }
    assert!(missed > 400, "{missed}");
}

#[test]
fn every_value_of_a_shipped_profile_has_its_type() {
    let date = Value::Datetime("2026-11-30".parse().unwrap());
    for (name, profile) in &profiles() {
        for (place, _) in places_of(profile) {
            let faults = faults_of(&changed_in(profile, &place, &|value| *value = date.clone()));
            assert!(
                told_at(&faults, &place).is_some(),
                "{name} {place}: {faults:?}"
            );
        }
    }
}

#[test]
fn no_table_of_a_shipped_profile_takes_a_field_that_nobody_knows() {
    for (name, profile) in &profiles() {
        let mut tables = vec![(String::new(), Value::Boolean(true))];
        tables.extend(places_of(profile));
        for (place, value) in tables {
            // There the names are the author's own.
            let free = place == "settings"
                || is_template(&place)
                || place == "request.auth.parameters"
                || place == "request.auth.headers"
                || place.ends_with("when.header")
                || place.ends_with("when.body");
            if free || !(value.is_table() || place.is_empty()) {
                continue;
            }
            let text = changed_in(profile, &place, &|value| {
                let surplus = ("surplus".to_owned(), Value::Integer(1));
                value.as_table_mut().unwrap().extend([surplus]);
            });
            let faults = faults_of(&text);
            assert!(
                faults.iter().any(|fault| fault.starts_with(&place)),
                "{name} {place}: {faults:?}"
            );
        }
    }
}
