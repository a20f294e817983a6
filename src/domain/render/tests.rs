use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::domain::intent::{EventId, Recipient, Template};
use crate::domain::profile::Binding;
use crate::domain::profile::tests::{BASE, SHIPPED, shipped, shipped_text};

pub(super) fn key() -> IdempotencyKey {
    IdempotencyKey::from_upstream("018f6b0a-0000-8000-8000-00000000002a").unwrap()
}

/// An intent whose content is read from JSON text, with every digit kept.
pub(super) fn intent(content: &str) -> Intent {
    Intent {
        event_id: EventId("e-1".into()),
        source: None,
        channel: Some("sms".into()),
        provider: None,
        recipient: Recipient::canonical("+12025550143"),
        from: None,
        content: serde_json::from_str(content).unwrap(),
        template: None,
        expires_at: None,
        idempotency_key: None,
        reference: None,
        metadata: Map::new(),
    }
}

/// The base profile with this body's template instead of its own.
fn with_body(kind: &str, template: &str) -> Profile {
    let text = BASE.replace(
        r#"body = { kind = "json", template = { to = "{{ to }}" } }"#,
        &format!(r#"body = {{ kind = "{kind}", template = {template} }}"#),
    );
    Profile::parse(&text).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn body(profile: &Profile, intent: &Intent) -> Result<String, RenderFault> {
    let rendered = render(profile, intent, &key())?;
    Ok(String::from_utf8(rendered.body.to_vec()).unwrap())
}

fn json_body(template: &str, content: &str) -> Result<String, RenderFault> {
    body(&with_body("json", template), &intent(content))
}

#[test]
fn the_shipped_profiles_render_an_intent_to_these_bytes() {
    let mut full = intent(
        r#"{"text": "Your code is 482901", "n": 1.50, "title": "Code", "subject": "Your code", "amount": 1099,
            "currency": "eur", "payment_method": {"type": "scheme"}, "source_id": "cnon:card-nonce-ok"}"#,
    );
    full.from = Some("+12025550100".into());
    full.template = Some(Template {
        name: "login-code".into(),
        version: None,
    });
    let mut shown = String::new();
    for (name, _) in SHIPPED {
        let rendered = render(&shipped(name), &full, &key()).unwrap();
        let mut headers: Vec<_> = rendered
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        headers.sort();
        shown.push_str(&format!(
            "# {name}\n{} {}\n{}\n\n{}\nfingerprint {}\n\n",
            rendered.method,
            rendered.url,
            headers.join("\n"),
            String::from_utf8_lossy(&rendered.body),
            rendered.fingerprint,
        ));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_sole_expression_keeps_its_type_and_mixed_text_is_text() {
    let content =
        r#"{"n": 7, "yes": true, "list": [1, null], "map": {"b": 1, "a": 2}, "text": "x"}"#;
    let template = r#"{ n = "{{ content.n }}", yes = "{{content.yes}}", list = "{{ content.list }}", map = "{{ content.map }}", mixed = "{{ content.n }} and {{ content.yes }}", spaced = " {{ content.n }}", fixed = [1, 2.5, true, "t"] }"#;
    assert_eq!(
        json_body(template, content).unwrap(),
        r#"{"fixed":[1,2.5,true,"t"],"list":[1,null],"map":{"a":2,"b":1},"mixed":"7 and true","n":7,"spaced":" 7","yes":true}"#
    );
}

#[test]
fn p59_a_text_of_too_many_sms_is_not_rendered_and_one_that_fits_goes_out_as_it_is() {
    let profile = |text: &str| {
        let limit = format!("[limits.segments]\nmax = 2\ntext = \"{text}\"");
        Profile::parse(&format!("{BASE}\n{limit}")).unwrap()
    };
    let of = |length: usize| intent(&format!(r#"{{"text": "{}"}}"#, "a".repeat(length)));
    let whole = profile("{{ content.text }}");
    assert!(render(&whole, &of(306), &key()).is_ok());
    let refused = render(&whole, &of(307), &key()).unwrap_err();
    assert_eq!(refused.problem, RenderProblem::TooLong);
    assert_eq!(refused.to_string(), "limits.segments: too_long");
    // What is counted is what the provider is sent, a sender's addition included.
    let signed = profile("{{ content.text }} - Yours");
    assert!(render(&signed, &of(298), &key()).is_ok());
    assert!(render(&signed, &of(299), &key()).is_err());
    let optional = profile("{{ content.other | default(none) }}");
    assert!(
        render(&optional, &of(9_999), &key()).is_ok(),
        "nothing to count"
    );
}

#[test]
fn a_text_can_be_cut() {
    assert_eq!(
        json_body(
            r#"{ t = "{{ content.text[:4] }}", r = "{{ reference[:8] }}" }"#,
            r#"{"text": "löwen"}"#
        )
        .unwrap(),
        r#"{"r":"018f6b0a","t":"löwe"}"#
    );
}

#[test]
fn numbers_keep_every_digit_by_path_and_through_an_expression() {
    for number in [
        "1.10",
        "0.1",
        "1e+400",
        "12345678901234567890123456789012345678901234567890",
        "-0",
        "-9223372036854775808",
        "18446744073709551615",
        "3.14159265358979323846264338327950288",
    ] {
        let content = format!(r#"{{"n": {number}}}"#);
        let written = json_body(r#"{ n = "{{ content.n }}" }"#, &content).unwrap();
        assert_eq!(written, content.replace(' ', ""), "by path");
        let written = json_body(r#"{ n = "{{ content.n | default(0) }}" }"#, &content).unwrap();
        assert_eq!(written, content.replace(' ', ""), "through the engine");
        let written = json_body(r#"{ n = "{{ content.n ~ ' EUR' }}" }"#, &content).unwrap();
        assert_eq!(written, format!(r#"{{"n":"{number} EUR"}}"#), "as text");
    }
}

#[test]
fn a_number_that_the_engine_cannot_hold_is_not_computed_with() {
    let problem = |template: &str, content: &str| json_body(template, content).unwrap_err().problem;
    assert_eq!(
        json_body(r#"{ n = "{{ content.n + 1 }}" }"#, r#"{"n": 41}"#).unwrap(),
        r#"{"n":42}"#
    );
    assert_eq!(
        problem(r#"{ n = "{{ content.n + 1 }}" }"#, r#"{"n": 0.1}"#),
        RenderProblem::Failed
    );
    assert_eq!(
        problem(r#"{ n = "{{ content.n * 1e308 * 10 }}" }"#, r#"{"n": 10}"#),
        RenderProblem::NotJson
    );
}

#[test]
fn what_is_none_is_left_out_and_what_is_missing_is_a_fault() {
    let template = r#"{ a = "{{ from }}", b = "{{ content.null }}", c = "{{ content.gone | default(none) }}", d = ["{{ from }}", "x", "{{ from }}"], e = { f = "{{ from }}" }, g = "{{ template.version }}" }"#;
    assert_eq!(
        json_body(template, r#"{"null": null}"#).unwrap(),
        r#"{"d":["x"],"e":{}}"#
    );
    for source in [
        "{{ content.gone }}",
        "{{ content.gone.deeper }}",
        "{{ content.text.deeper }}",
        "{{ content.gone | upper }}",
    ] {
        let fault = json_body(
            &format!("{{ list = [ {{ leaf = \"{source}\" }} ] }}"),
            r#"{"text": "x"}"#,
        )
        .unwrap_err();
        assert_eq!(fault.path, "request.body.template.list[0].leaf", "{source}");
        assert_eq!(fault.problem, RenderProblem::Undefined, "{source}");
    }
    let fault = json_body(r#"{ a = "Hello {{ from }}" }"#, "{}").unwrap_err();
    assert_eq!(
        fault.problem,
        RenderProblem::Absent,
        "nobody is greeted as none"
    );
}

#[test]
fn every_name_has_its_value() {
    let mut named = intent("{}");
    named.template = Some(Template {
        name: "login".into(),
        version: Some("3".into()),
    });
    let template = r#"{ id = "{{ id }}", key = "{{ key }}", key_short = "{{ key_short }}", reference = "{{ reference }}", name = "{{ template.name }}", template = "{{ template }}", computed = "{{ template.version ~ '/' ~ id }}" }"#;
    let profile = with_body("json", template);
    assert_eq!(
        body(&profile, &named).unwrap(),
        r#"{"computed":"3/e-1","id":"e-1","key":"018f6b0a-0000-8000-8000-00000000002a","key_short":"AY9rCgAAgACAAAAAAAAAKg","name":"login","reference":"018f6b0a-0000-8000-8000-00000000002a","template":{"name":"login","version":"3"}}"#
    );
    named.reference = Some("order-7".into());
    assert!(
        body(&profile, &named)
            .unwrap()
            .contains(r#""reference":"order-7""#)
    );
}

#[test]
fn a_fault_names_the_leaf_and_never_the_content() {
    let secret = "482901";
    let content = json!({ "text": { "code": secret } }).to_string();
    let fault = json_body(r#"{ a = "code {{ content.text }}" }"#, &content).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "request.body.template.a: the value is a list or an object where text has to be"
    );
    let rendered = render(
        &shipped("generic"),
        &intent(r#"{"text": "482901"}"#),
        &key(),
    )
    .unwrap();
    let debug = format!("{rendered:?}");
    assert!(
        !debug.contains(secret) && !debug.contains("2025550143"),
        "{debug}"
    );
}

#[test]
fn v132_each_hole_of_a_url_is_encoded_by_itself() {
    let text = BASE.replace(
        "https://fixture.example/send",
        "https://fixture.example/to/{{ to }}/x?mail={{ content.mail }}&n={{ content.n }}",
    );
    let profile = Profile::parse(&text).unwrap();
    let rendered = render(
        &profile,
        &intent(r#"{"mail": "a+b&c=d/é?#@example.com", "n": 1.50}"#),
        &key(),
    )
    .unwrap();
    assert_eq!(
        rendered.url.as_str(),
        "https://fixture.example/to/%2B12025550143/x?mail=a%2Bb%26c%3Dd%2F%C3%A9%3F%23%40example.com&n=1.50"
    );
}

#[test]
fn no_value_leads_a_url_elsewhere() {
    let text = BASE.replace(
        "https://fixture.example/send",
        "https://fixture.example/a/{{ content.x }}/send?q={{ content.q | default('') }}",
    );
    let profile = Profile::parse(&text).unwrap();
    let url = |x: &str| {
        let content = json!({ "x": x }).to_string();
        render(&profile, &intent(&content), &key()).map(|rendered| rendered.url.to_string())
    };
    assert_eq!(url("b").unwrap(), "https://fixture.example/a/b/send?q=");
    assert_eq!(
        url("../../admin").unwrap(),
        "https://fixture.example/a/..%2F..%2Fadmin/send?q="
    );
    assert_eq!(
        url("%2e%2e").unwrap(),
        "https://fixture.example/a/%252e%252e/send?q="
    );
    assert_eq!(
        url("@evil.example").unwrap(),
        "https://fixture.example/a/%40evil.example/send?q="
    );
    for astray in ["..", ".", ""] {
        let fault = url(astray).unwrap_err();
        assert_eq!(
            (fault.path.as_str(), fault.problem),
            ("request.url", RenderProblem::NotInPath),
            "{astray:?}"
        );
    }
}

#[test]
fn p09_no_value_adds_a_header() {
    let text = BASE.replace(
        "method",
        r#"headers = { X-From = "{{ from }}", X-Tag = "t-{{ content.tag }}" }, method"#,
    );
    let profile = Profile::parse(&text).unwrap();
    let headers = |tag: &str| {
        let content = json!({ "tag": tag }).to_string();
        render(&profile, &intent(&content), &key()).map(|rendered| rendered.headers)
    };
    let plain = headers("7").unwrap();
    assert_eq!(plain["x-tag"], "t-7");
    assert!(
        !plain.contains_key("x-from"),
        "a header whose value is none is left out"
    );
    for tag in ["a\r\nX-Evil: 1", "a\nb", "a\0b", "a\u{7f}"] {
        let fault = headers(tag).unwrap_err();
        assert_eq!(
            (fault.path.as_str(), fault.problem),
            ("request.headers.X-Tag", RenderProblem::NotInHeader)
        );
    }
}

#[test]
fn the_key_stands_where_the_provider_takes_it() {
    let more = |place: &str, quoted: bool| {
        format!(
            r#"key = {{ place = {place}, max_len = 64, quoted = {quoted}, window = "1h", window_source = "assumed" }}"#
        )
    };
    let profile = Profile::parse(&format!(
        "{BASE}\n{}",
        more(r#"["header Idempotency-Key", "body /meta/key"]"#, true)
    ))
    .unwrap();
    let rendered = render(&profile, &intent("{}"), &key()).unwrap();
    assert_eq!(
        rendered.headers["idempotency-key"],
        "\"018f6b0a-0000-8000-8000-00000000002a\""
    );
    assert_eq!(
        rendered.body,
        r#"{"meta":{"key":"018f6b0a-0000-8000-8000-00000000002a"},"to":"+12025550143"}"#
    );
    let own = IdempotencyKey::from_upstream(r#"a"b\c"#).unwrap();
    let rendered = render(&profile, &intent("{}"), &own).unwrap();
    assert_eq!(rendered.headers["idempotency-key"], r#""a\"b\\c""#);

    let form = with_body("form", r#"{ To = "{{ to }}" }"#);
    let form = Profile::parse(&format!(
        "{}\n{}",
        form.canonical().replace(
            "vendor",
            &format!("{}\nvendor", more(r#""body /ref""#, false))
        ),
        ""
    ))
    .unwrap();
    assert_eq!(
        body(&form, &intent("{}")).unwrap(),
        "To=%2B12025550143&ref=018f6b0a-0000-8000-8000-00000000002a"
    );
}

#[test]
fn a_form_repeats_the_field_of_a_list_and_takes_single_values_only() {
    let profile = with_body(
        "form",
        r#"{ Media = "{{ content.media }}", Fixed = ["a", 1, true], N = "{{ content.n }}", From = "{{ from }}", T = "{{ content.n }}&x=1" }"#,
    );
    assert_eq!(
        body(&profile, &intent(r#"{"media": ["u&1", 2], "n": 1.50}"#)).unwrap(),
        "Fixed=a&Fixed=1&Fixed=true&Media=u%261&Media=2&N=1.50&T=1.50%26x%3D1"
    );
    let fault = body(&profile, &intent(r#"{"media": [{}], "n": 1}"#)).unwrap_err();
    assert_eq!(fault.problem, RenderProblem::NotText);
}

#[test]
fn a_request_is_the_same_every_time_and_the_fingerprint_tells_any_other() {
    let profile = shipped("generic");
    let one = render(
        &profile,
        &intent(r#"{"b": 1, "a": {"d": 2, "c": 3}}"#),
        &key(),
    )
    .unwrap();
    let same = render(
        &profile,
        &intent(r#"{"a": {"c": 3, "d": 2}, "b": 1}"#),
        &key(),
    )
    .unwrap();
    assert_eq!(
        (one.fingerprint, &one.body),
        (same.fingerprint, &same.body),
        "the order of members says nothing"
    );
    let other = render(&profile, &intent(r#"{"b": 2}"#), &key()).unwrap();
    assert_ne!(one.fingerprint, other.fingerprint);
    let elsewhere = shipped("generic")
        .bind(Binding {
            base_url: Some("https://eu.fixture.example/v9".parse().unwrap()),
            ..Binding::default()
        })
        .unwrap();
    let moved = render(
        &elsewhere,
        &intent(r#"{"b": 1, "a": {"d": 2, "c": 3}}"#),
        &key(),
    )
    .unwrap();
    assert_eq!(
        moved.url.as_str(),
        "https://eu.fixture.example/v9/v1/messages"
    );
    assert_ne!(
        one.fingerprint, moved.fingerprint,
        "another region has not seen the key"
    );
}

#[test]
fn a_fingerprint_cannot_be_shifted_between_its_parts() {
    let url = |text: &str| Url::parse(text).unwrap();
    assert_ne!(
        fingerprint(&Method::POST, &url("https://a.example/b"), b"c"),
        fingerprint(&Method::POST, &url("https://a.example/"), b"bc")
    );
    assert_ne!(
        fingerprint(&Method::POST, &url("https://a.example/"), b""),
        fingerprint(&Method::PUT, &url("https://a.example/"), b"")
    );
}

#[test]
fn an_unbound_profile_renders_nothing() {
    let profile = Profile::parse(shipped_text("twilio")).unwrap();
    let fault = render(&profile, &intent(r#"{"text": "x"}"#), &key()).unwrap_err();
    assert_eq!(fault.problem, RenderProblem::Unbound);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "-?[1-9][0-9]{0,30}\\.[0-9]{1,20}".prop_map(|text| serde_json::from_str(&text).unwrap()),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_content_breaks_the_json_around_it(value in any_json(), text in any::<String>()) {
        let profile = with_body("json", r#"{ a = "{{ content.value }}", b = "x{{ content.text }}y", c = "end" }"#);
        let content = json!({ "value": value, "text": text }).to_string();
        let written: Value = serde_json::from_str(&body(&profile, &intent(&content)).unwrap()).unwrap();
        let mut expected = json!({ "b": format!("x{text}y"), "c": "end" });
        if !value.is_null() {
            expected["a"] = value;
        }
        prop_assert_eq!(written, expected);
    }

    #[test]
    fn a_path_and_the_engine_come_to_the_same(value in any_json()) {
        let profile = with_body("json", r#"{ a = "{{ content.value }}", b = "{{ content['value'] }}" }"#);
        let content = json!({ "value": value }).to_string();
        let written: Value = serde_json::from_str(&body(&profile, &intent(&content)).unwrap()).unwrap();
        prop_assert_eq!(written.get("a"), written.get("b"));
    }

    #[test]
    fn no_content_breaks_a_form(text in any::<String>()) {
        let profile = with_body("form", r#"{ A = "{{ content.text }}", B = "end" }"#);
        let content = json!({ "text": text }).to_string();
        let written = body(&profile, &intent(&content)).unwrap();
        let fields: Vec<_> = form_urlencoded::parse(written.as_bytes()).into_owned().collect();
        prop_assert_eq!(fields, vec![("A".to_owned(), text), ("B".to_owned(), "end".to_owned())]);
    }
}
