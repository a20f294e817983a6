//! Profiles that say what cannot be: each is refused at the place of it.

use super::tests::{BASE, faults_of};

#[test]
fn a_rule_that_an_earlier_one_always_precedes_is_refused() {
    let rules = |earlier: &str, later: &str| {
        faults_of(&format!(
            r#"{BASE}
[[rule]]
when = {earlier}
class = "rejected"
[[rule]]
when = {later}
class = "unknown"
"#
        ))
    };
    let refused = ["rule[1]: is never reached: rule[0] catches all that it would"];
    for (earlier, later) in [
        ("{ status = 429 }", "{ status = 429 }"),
        ("{ status = [409, 429] }", "{ status = 429, text = 'x' }"),
        (
            "{ status = '4xx' }",
            "{ status = '400-410', body = { '/a' = 1 } }",
        ),
        (
            "{ body = { '/a' = [1, 2] } }",
            "{ status = 400, body = { '/a' = 2, '/b' = 1 } }",
        ),
        (
            "{ body = { '/a' = { present = true } } }",
            "{ body = { '/a' = 'x' } }",
        ),
        (
            "{ header = { X-A = 'b' } }",
            "{ header = { x-a = 'b', X-B = 'c' } }",
        ),
        ("{ text = '^a' }", "{ status = 400, text = '^a' }"),
        (
            "{ status = 400, first_attempt = true }",
            "{ status = 400, first_attempt = true, text = 'x' }",
        ),
    ] {
        assert_eq!(rules(earlier, later), refused, "{earlier} before {later}");
    }
    for (earlier, later) in [
        ("{ status = 429, text = 'x' }", "{ status = 429 }"),
        ("{ status = [409, 429] }", "{ status = [409, 500] }"),
        ("{ status = 400 }", "{ text = 'x' }"),
        ("{ body = { '/a' = 1 } }", "{ body = { '/a' = [1, 2] } }"),
        ("{ body = { '/a' = 1 } }", "{ body = { '/b' = 1 } }"),
        (
            "{ body = { '/a' = { empty = true } } }",
            "{ body = { '/a' = { present = true } } }",
        ),
        ("{ header = { X-A = 'b' } }", "{ body = { '/X-A' = 'b' } }"),
        ("{ text = '^a' }", "{ text = '^ab' }"),
        (
            "{ status = 400, first_attempt = true }",
            "{ status = 400, first_attempt = false }",
        ),
    ] {
        assert_eq!(
            rules(earlier, later),
            Vec::<String>::new(),
            "{earlier} before {later}"
        );
    }
}

#[test]
fn a_key_in_the_query_has_a_name_that_is_free_and_needs_no_encoding() {
    let place = |url: &str, place: &str| {
        let key = format!(
            r#"key = {{ place = {place}, max_len = 64, window = "1h", window_source = "assumed" }}"#
        );
        faults_of(&format!("{BASE}\n{key}").replace("https://fixture.example/send", url))
    };
    let free = "https://fixture.example/send";
    assert_eq!(place(free, "'query once'"), Vec::<String>::new());
    assert_eq!(
        place(&format!("{free}?a=1"), "'query once'"),
        Vec::<String>::new()
    );
    let taken = ["key.place: the URL already has this parameter"];
    assert_eq!(place(&format!("{free}?once=1"), "'query once'"), taken);
    assert_eq!(
        place(&format!("{free}?a=1&once={{{{ to }}}}"), "'query once'"),
        taken
    );
    assert_eq!(place(free, "['query once', 'query once']"), taken);
    let expected = r#"key.place: expected "header NAME", "body /POINTER" or "query NAME""#;
    for name in ["'query a b'", "'query a&b'", "'query '", "'query'"] {
        assert_eq!(place(free, name), [expected], "{name}");
    }
}

#[test]
fn a_companion_goes_with_a_key_and_in_a_header_of_its_own() {
    let companion = |companion: &str| {
        faults_of(&format!(
            r#"{BASE}
[key]
place = "header K"
max_len = 64
window = "1h"
window_source = "assumed"
companion = {companion}
"#
        ))
    };
    let first = "first_attempt = 'http_date'";
    assert_eq!(
        companion(&format!("{{ header = 'Since', {first} }}")),
        Vec::<String>::new()
    );
    for (wrong, fault) in [
        (
            "{ header = 'Since' }",
            "key.companion.first_attempt: is missing",
        ),
        (
            "{ first_attempt = 'rfc3339' }",
            "key.companion.header: is missing",
        ),
        (
            "{ header = 'Since', first_attempt = 'now' }",
            "key.companion.first_attempt: expected one of http_date, rfc3339, epoch_seconds",
        ),
        (
            "{ header = 'k', first_attempt = 'rfc3339' }",
            "key.companion: the header k is set twice",
        ),
        (
            "{ header = 'Content-Type', first_attempt = 'rfc3339' }",
            "key.companion: the header content-type is set twice",
        ),
        (
            "{ header = 'a b', first_attempt = 'rfc3339' }",
            "key.companion.header: names no valid header",
        ),
    ] {
        assert_eq!(companion(wrong), [fault], "{wrong}");
    }
    let alone = format!("{BASE}\nkey = {{ companion = {{ header = 'Since', {first} }} }}");
    assert_eq!(
        faults_of(&alone),
        [
            "key.place: is missing",
            "key.companion: means nothing without a place for the key",
        ]
    );
}

#[test]
fn patience_ends_after_the_slowest_answers_and_their_source_is_told() {
    let timeouts = |text: &str| faults_of(&format!("{BASE}\n[timeouts]\n{text}\n"));
    assert_eq!(
        timeouts("p99 = '29s'\np99_source = 'measured'"),
        Vec::<String>::new()
    );
    assert_eq!(
        timeouts("p99 = '30s'\np99_source = 'documented'"),
        [
            "timeouts.request: must be longer than p99: what is about to be answered would be given up"
        ]
    );
    assert_eq!(timeouts("p99 = '1s'"), ["timeouts.p99_source: is missing"]);
    assert_eq!(
        timeouts("p99_source = 'measured'"),
        ["timeouts.p99: is missing"]
    );
}

#[test]
fn a_get_carries_no_body() {
    let text = BASE.replace("POST", "GET");
    assert_eq!(
        faults_of(&text),
        [r#"request.body: a GET carries none: write { kind = "none" }"#]
    );
    let without = text.replace(
        r#"{ kind = "json", template = { to = "{{ to }}" } }"#,
        r#"{ kind = "none" }"#,
    );
    assert_eq!(faults_of(&without), Vec::<String>::new());
}

#[test]
fn a_limit_of_sms_counts_a_text_of_the_intent() {
    let faults = |limit: &str| faults_of(&format!("{BASE}\n[limits.segments]\n{limit}\n"));
    assert_eq!(
        faults("max = 1\ntext = '{{ content.text }}'"),
        Vec::<String>::new()
    );
    for (limit, fault) in [
        ("max = 1", "limits.segments.text: is missing"),
        ("text = '{{ to }}'", "limits.segments.max: is missing"),
        (
            "max = 0\ntext = '{{ to }}'",
            "limits.segments.max: expected a whole number, 1 to 255",
        ),
        (
            "max = 256\ntext = '{{ to }}'",
            "limits.segments.max: expected a whole number, 1 to 255",
        ),
        (
            "max = 1\ntext = 'a'",
            "limits.segments.text: has no hole: every intent would count the same",
        ),
        (
            "max = 1\ntext = '{{ body }}'",
            "limits.segments.text: body names nothing that a profile can read",
        ),
        (
            "max = 1\ntext = '{{ to }}'\nper = 1",
            "limits.segments.per: is no field of a profile",
        ),
    ] {
        assert!(
            faults(limit).contains(&fault.to_owned()),
            "{limit}: {:?}",
            faults(limit)
        );
    }
}
