use std::time::Duration;

use super::*;
use crate::domain::idempotency_key::IdempotencyKey;

/// Every file of config/providers by its name; `shipped_profiles` of the integration tests tells if one is missing.
macro_rules! shipped {
    ($($name:literal,)*) => {
        pub(in crate::domain) const SHIPPED: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("../../../config/providers/", $name, ".toml")),
        )),*];
    };
}
shipped! {
    "adyen",
    "apns",
    "bandwidth",
    "brevo",
    "captifi",
    "courier",
    "discord-bot",
    "discord-webhook",
    "fcm",
    "generic",
    "govuk-notify",
    "infobip",
    "infobip-idempotent",
    "knock",
    "line",
    "loops",
    "mailgun",
    "nhs-notify",
    "novu",
    "onesignal",
    "paypal",
    "postmark",
    "resend",
    "sendgrid",
    "ses",
    "slack",
    "sparkpost",
    "square",
    "stripe",
    "telnyx-email",
    "twilio",
    "vonage",
}

/// A profile as it ships, not yet bound.
pub(in crate::domain) fn shipped_text(name: &str) -> &'static str {
    SHIPPED.iter().find(|(known, _)| *known == name).unwrap().1
}

/// A profile as it ships, bound to settings of no meaning.
pub(in crate::domain) fn shipped(name: &str) -> Profile {
    let profile =
        Profile::parse(shipped_text(name)).unwrap_or_else(|faults| panic!("{name}: {faults:#?}"));
    let settings = profile
        .settings()
        .keys()
        .map(|setting| (setting.clone(), format!("the-{setting}")))
        .collect();
    profile
        .bind(Binding {
            settings,
            base_url: None,
        })
        .unwrap()
}

/// A small profile, with `more` after it.
pub(in crate::domain) fn parsed(more: &str) -> Result<Profile, Vec<Fault>> {
    Profile::parse(&format!("{BASE}\n{more}"))
}

/// The least that a profile must say, with a body of its own for `more` to add to.
pub(in crate::domain) const BASE: &str = r#"
vendor = "fixture"
operation = "send"
verified = "documented"
verified_on = "2026-11-30"
request = { method = "POST", url = "https://fixture.example/send", body = { kind = "json", template = { to = "{{ to }}" } } }
accepted = { status = 201, id = "/id" }
"#;

fn shown(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(Fault::to_string).collect()
}

pub(super) fn faults_of(text: &str) -> Vec<String> {
    match Profile::parse(text) {
        Ok(_) => Vec::new(),
        Err(faults) => shown(&faults),
    }
}

#[test]
fn the_least_profile_has_the_defaults() {
    let profile = parsed("").unwrap();
    assert_eq!(profile.timeouts, TIMEOUTS_DEFAULT);
    assert!(profile.key.is_none());
    assert_eq!(profile.limits, Limits::default());
    assert_eq!(profile.request.auth, Auth::None);
    assert_eq!(profile.request.version, HttpVersion::One);
    assert_eq!(
        profile.waits.len(),
        1,
        "Retry-After is read unless the profile says otherwise"
    );
    assert!(profile.is_bound());
}

#[test]
fn a_key_has_a_margin_for_the_last_attempt_and_a_minute_of_skew() {
    let profile = parsed(r#"key = { place = "header Key", max_len = 64, window = "24h", window_source = "assumed" }"#).unwrap();
    let window = profile.key.unwrap().window;
    assert_eq!(window.length, Duration::from_secs(86_400));
    assert_eq!(window.margin, Duration::from_secs(5 + 30 + 10 + 60));
    assert!(!window.documented);
}

#[test]
fn all_faults_are_told_at_once_each_with_its_place() {
    let text = r#"
vendor = "Fixture Inc."
operation = 7
verified = "believed"
verified_on = "yesterday"
shade = "blue"

[settings]
Region = "eu"

[timeouts]
connect = "40s"
request = "30 s"

[request]
method = "BREW"
url = "https://user:secret@fixture.example/a/../b"
http = "3"
retries = 3
[request.auth]
kind = "bearer"
secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
[request.headers]
Host = "other.example"
"Bad Name" = "x"
X-Line = "a\nb"
[request.body]
kind = "json"
[request.body.template]
to = "{{ recipient }}"
at = 2026-11-30
list = ["{{ to", "{{ to | shout }}"]

[key]
place = ["header Idempotency-Key", "cookie key", "body /to"]
form = "short"
max_len = 10
window = "10s"
window_margin = "1s"
scope = ["planet"]
replay = [{ equals = true }, { header = "X", equals = [1] }]

[accepted]
status = [20]
id = "id"

[[rule]]
class = "accepted"
final = true
[[rule]]
when = {}
class = "fine"
[[rule]]
when = { status = "4xx", body = { "code" = 1, "/a" = { present = false }, "/b" = [], "/c" = { regex = "(" } }, colour = 1 }
class = "rejected"
wait = "1s"
id = "here"
reason = "because"

[[wait]]
header = "Retry-After"
fixed = "3s"
[[wait]]
body = "/wait"
as = "hours"

[error_code]
body = "code"
text = "ERROR"

[limits]
concurrency = 0
burst = 5
"#;
    insta::assert_snapshot!(faults_of(text).join("\n"));
}

#[test]
fn a_secret_is_never_repeated_in_a_fault() {
    let text = format!("{BASE}\n").replace(
        "method",
        r#"auth = { kind = "bearer", secret = "sk_live_42" }, method"#,
    );
    let faults = faults_of(&text);
    assert_eq!(
        faults,
        ["request.auth.secret: a profile never holds a secret: write env:NAME or file:PATH"]
    );
}

#[test]
fn text_that_is_no_toml_is_refused_with_its_line() {
    let faults = faults_of("vendor = \"a\"\noperation = \n");
    assert_eq!(faults.len(), 1);
    assert!(faults[0].starts_with("line 2: is no TOML"), "{faults:?}");
}

#[test]
fn v13_a_key_that_cannot_fit_its_field_is_refused() {
    let key = |form: &str, max_len: u32| {
        let more = format!(
            r#"key = {{ place = "header K", form = "{form}", max_len = {max_len}, window = "1h", window_source = "assumed" }}"#
        );
        parsed(&more).map(drop).map_err(|faults| shown(&faults))
    };
    for (form, least) in [("as_is", 36), ("uuid", 36), ("short", 22), ("hash", 32)] {
        assert_eq!(key(form, least), Ok(()), "{form}");
        let refused = format!(
            "key.max_len: a key of this form has {least} characters; choose a shorter form"
        );
        assert_eq!(key(form, least - 1), Err(vec![refused]), "{form}");
    }
}

#[test]
fn a_key_needs_its_window_and_says_whether_it_is_documented() {
    let faults = parsed(r#"key = { place = "header K", max_len = 64 }"#).unwrap_err();
    assert_eq!(
        shown(&faults),
        ["key.window: is missing", "key.window_source: is missing"]
    );
}

#[test]
fn a_key_without_a_place_is_no_key() {
    assert!(parsed("key = { place = [] }").unwrap().key.is_none());
    let faults = parsed(r#"key = { place = [], window = "1h" }"#).unwrap_err();
    assert_eq!(
        shown(&faults),
        ["key.window: means nothing without a place for the key"]
    );
}

#[test]
fn the_key_cannot_take_a_place_that_is_taken() {
    let key = |place: &str| {
        let more = format!(
            r#"key = {{ place = "{place}", max_len = 64, window = "1h", window_source = "assumed" }}"#
        );
        let text = format!("{BASE}\n{more}").replace(
            "method",
            r#"headers = { X-Taken = "1" }, auth = { kind = "header", name = "X-Api-Key", secret = "env:K" }, method"#,
        );
        faults_of(&text)
    };
    assert_eq!(key("header Free"), Vec::<String>::new());
    assert_eq!(key("body /meta/key"), Vec::<String>::new());
    for (place, problem) in [
        (
            "header x-taken",
            "this header is already set by the request",
        ),
        (
            "header X-Api-Key",
            "this header is already set by the request",
        ),
        (
            "header Content-Type",
            "this header is already set by the request",
        ),
        (
            "header Content-Length",
            "this header is set by the connection",
        ),
        ("body /to", "the body's template already has a value there"),
        (
            "body /to/key",
            "the body's template has a value on the way to it",
        ),
        ("body /list/*/key", "a place has no *"),
        ("body ", "the key cannot be the whole body"),
    ] {
        assert_eq!(key(place), [format!("key.place: {problem}")], "{place}");
    }
}

#[test]
fn the_hash_is_of_the_content_and_not_of_its_dress() {
    let one = Profile::parse(BASE).unwrap();
    let mut lines: Vec<_> = BASE.lines().collect();
    lines.reverse();
    let other = Profile::parse(&format!("# a comment\n\n{}", lines.join("\n\n"))).unwrap();
    assert_eq!(one.hash(), other.hash());
    let changed = Profile::parse(&BASE.replace("/send", "/send2")).unwrap();
    assert_ne!(one.hash(), changed.hash());
    // The hash is kept in ledgers: a new version of a library must not change it.
    assert_eq!(
        one.hash().to_string(),
        "f821cc591e6f344bb71f16a8b8c738849849618d4d1daa97a3286a0d20b91229"
    );
}

#[test]
fn the_canonical_text_is_the_same_profile_again() {
    for (name, _) in SHIPPED {
        let profile = shipped(name);
        let again = Profile::parse(profile.canonical()).unwrap();
        assert_eq!(again.hash(), profile.hash(), "{name}");
        assert_eq!(again.canonical(), profile.canonical(), "{name}");
    }
}

#[test]
fn an_earlier_version_lives_in_the_same_installation() {
    let bound = |text: &str| {
        let settings = [("account".to_owned(), "AC1".to_owned())].into();
        let base_url = Some("https://eu.fixture.example".parse().unwrap());
        Profile::parse(text)
            .unwrap()
            .bind(Binding { settings, base_url })
            .unwrap()
    };
    let older = format!("{BASE}\n[settings]\naccount = \"env:ACCOUNT\"\n");
    let newer = older
        .replace("/send", "/v2/send")
        .replace("account =", "region = \"eu\"\naccount =");
    let current = bound(&newer);
    let earlier = current.earlier(bound(&older).canonical()).unwrap();
    assert_eq!(earlier.hash(), bound(&older).hash());
    assert_eq!(earlier.settings()["account"], "AC1");
    assert_eq!(&*earlier.request.url.origin, "https://eu.fixture.example");
    let lost = older.replace("account =", "sender = \"env:SENDER\"\naccount =");
    assert_eq!(
        shown(&current.earlier(&lost).unwrap_err()),
        ["settings.sender: has not been read"]
    );
    let known = |text: &str| (text == "env:SENDER").then(|| "ACME".to_owned());
    let again = current.earlier_with(&lost, known).unwrap();
    assert_eq!(again.settings()["sender"], "ACME");
    assert_eq!(again.settings()["account"], "AC1");
}

#[test]
fn settings_are_bound_by_name_and_none_is_left_open() {
    let with_settings =
        || parsed("settings = { region = \"eu\", account = \"env:ACCOUNT\" }").unwrap();
    let bind = |settings: &[(&str, &str)]| {
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let binding = Binding {
            settings,
            base_url: None,
        };
        with_settings()
            .bind(binding)
            .map_err(|faults| shown(&faults))
    };
    assert!(!with_settings().is_bound());
    let bound = bind(&[("account", "AC1")]).unwrap();
    assert!(bound.is_bound());
    assert_eq!(bound.settings()["region"], "eu");
    assert_eq!(
        bind(&[]).unwrap_err(),
        ["settings.account: has not been read"]
    );
    assert_eq!(
        bind(&[("account", "")]).unwrap_err(),
        ["settings.account: is empty"]
    );
    assert_eq!(
        bind(&[("account", "AC1"), ("acount", "x")]).unwrap_err(),
        ["settings.acount: is no setting of this profile"]
    );
}

#[test]
fn v14_no_key_is_ever_empty_in_any_form() {
    assert_eq!(IdempotencyKey::from_upstream(""), None);
    let shortest = IdempotencyKey::from_upstream("7").unwrap();
    for (name, _) in SHIPPED {
        if let Some(key) = shipped(name).key {
            assert!(!key.wire(&shortest).is_empty(), "{name}");
        }
    }
}

#[test]
fn v56_a_key_of_230_characters_is_hashed_to_what_infobip_takes() {
    let rule = shipped("infobip-idempotent").key.unwrap();
    let long = |last: char| {
        let text = format!("{}{last}", "k".repeat(229));
        rule.wire(&IdempotencyKey::from_upstream(&text).unwrap())
            .into_owned()
    };
    assert_eq!(long('a').len(), 36);
    assert_ne!(long('a'), long('b'), "cut after 200 they would be one");
}

#[test]
fn p09_a_key_that_does_not_fit_is_hashed_and_never_cut() {
    let rule = |form: &str, max_len: u32, punctuation: &str| {
        let more = format!(
            r#"key = {{ place = "header K", form = "{form}", max_len = {max_len}, punctuation = "{punctuation}", window = "1h", window_source = "assumed" }}"#
        );
        parsed(&more).unwrap().key.unwrap()
    };
    let derived = IdempotencyKey::from_upstream("018f6b0a-0000-8000-8000-00000000002a").unwrap();
    let own = IdempotencyKey::from_upstream("order:7").unwrap();
    let long =
        |last: char| IdempotencyKey::from_upstream(&format!("{}{last}", "x".repeat(249))).unwrap();

    let as_is = rule("as_is", 64, "-_:");
    assert_eq!(as_is.wire(&derived), derived.as_str());
    assert_eq!(as_is.wire(&own), "order:7");
    assert_eq!(as_is.wire(&long('a')).len(), 36);
    assert_ne!(
        as_is.wire(&long('a')),
        as_is.wire(&long('b')),
        "alike in their first 249 characters"
    );

    let no_colon = rule("as_is", 64, "-_");
    assert_eq!(
        no_colon.wire(&own).len(),
        36,
        "a character that the provider refuses counts as not fitting"
    );

    let uuid = rule("uuid", 36, "-");
    assert_eq!(uuid.wire(&derived), derived.as_str());
    let parsed: uuid::Uuid = uuid.wire(&own).parse().unwrap();
    assert_eq!(parsed.get_version_num(), 8);

    let brief = rule("short", 25, "-_");
    assert_eq!(brief.wire(&derived), "AY9rCgAAgACAAAAAAAAAKg");
    assert_eq!(brief.wire(&own).len(), 22);

    let hashed = rule("hash", 45, "");
    assert_eq!(hashed.wire(&derived).len(), 45);
    assert!(hashed.wire(&own).bytes().all(|b| b.is_ascii_hexdigit()));
    assert_ne!(hashed.wire(&long('a')), hashed.wire(&long('b')));
}
