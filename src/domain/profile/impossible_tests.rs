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
