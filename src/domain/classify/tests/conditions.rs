//! What a condition on header, body or text holds for, and where waits and codes are found.

use super::super::*;
use super::{HTML, cut, first, later, line, response};
use crate::domain::profile::tests::parsed;

#[test]
fn waits_are_taken_from_the_first_source_that_has_a_usable_one() {
    let profile = parsed(
        r#"
[[wait]]
on = [429]
body = "/retry_after"
as = "seconds"
scope = "account"
[[wait]]
header = "X-Reset"
as = "epoch_seconds"
[[wait]]
on = [429]
fixed = "9s"
"#,
    )
    .unwrap();
    let wait = |status, headers: &[(&str, &str)], body: &str| {
        later(&profile, response(status, headers, body))
            .wait
            .map(|wait| (wait.at_least.as_secs(), wait.scope))
    };
    assert_eq!(
        wait(429, &[("X-Reset", "1792567680")], r#"{"retry_after":4.2}"#),
        Some((5, WaitScope::Account))
    );
    assert_eq!(
        wait(
            429,
            &[("X-Reset", "1792567680")],
            r#"{"retry_after":"soon"}"#
        ),
        Some((60, WaitScope::Intent))
    );
    assert_eq!(
        wait(429, &[("X-Reset", "1")], ""),
        Some((1, WaitScope::Intent))
    );
    assert_eq!(
        wait(429, &[("Retry-After", "30")], ""),
        Some((9, WaitScope::Intent)),
        "what is not named is not read"
    );
    assert_eq!(wait(503, &[], ""), None);
    assert_eq!(
        wait(400, &[("X-Reset", "1792567680")], ""),
        None,
        "nothing follows a rejection"
    );
}

#[test]
fn conditions_on_headers_look_at_every_value_without_case() {
    let profile = parsed(
        r#"
[[rule]]
when = { header = { X-Retry = "NO" } }
class = "rejected"
[[rule]]
when = { header = { X-Kind = { regex = '^a+$' }, X-Gone = { absent = true } } }
class = "conflict"
[[rule]]
when = { header = { X-Empty = { empty = true } } }
class = "account_hold"
"#,
    )
    .unwrap();
    let verdict = |headers: &[(&str, &str)]| later(&profile, response(503, headers, "")).verdict;
    assert_eq!(
        verdict(&[("x-retry", "yes"), ("x-retry", " no ")]),
        Verdict::Rejected
    );
    assert_eq!(verdict(&[("x-kind", "aaa")]), Verdict::Conflict);
    assert_eq!(
        verdict(&[("x-kind", "aaa"), ("x-gone", "1")]),
        Verdict::Unknown
    );
    assert_eq!(verdict(&[("x-empty", "")]), Verdict::AccountHold);
    assert_eq!(verdict(&[]), Verdict::Unknown);
}

#[test]
fn conditions_on_the_body_speak_of_json_documents_only() {
    let profile = parsed(
        r#"
[[rule]]
when = { status = 503, body = { "/error" = { absent = true } } }
class = "rejected"
[[rule]]
when = { status = 503, body = { "/error" = { empty = true } } }
class = "conflict"
[[rule]]
when = { status = 503, body = { "/error" = { present = true } } }
class = "account_hold"
"#,
    )
    .unwrap();
    let verdict = |body: &str| later(&profile, response(503, &[], body)).verdict;
    assert_eq!(verdict("{}"), Verdict::Rejected);
    assert_eq!(verdict(r#"{"error":null}"#), Verdict::Rejected);
    assert_eq!(verdict("null"), Verdict::Rejected);
    for empty in [r#"{"error":""}"#, r#"{"error":[]}"#, r#"{"error":{}}"#] {
        assert_eq!(verdict(empty), Verdict::Conflict, "{empty}");
    }
    for present in [r#"{"error":"x"}"#, r#"{"error":0}"#, r#"{"error":false}"#] {
        assert_eq!(verdict(present), Verdict::AccountHold, "{present}");
    }
    for no_json in ["", " ", HTML, "{", "{\"error\":}"] {
        assert_eq!(verdict(no_json), Verdict::Unknown, "{no_json}");
    }
}

#[test]
fn a_code_that_is_too_long_or_not_printable_is_dropped() {
    let profile = parsed(r#"error_code = { body = ["/code", "/error/code"] }"#).unwrap();
    let code = |body: &str| later(&profile, response(400, &[], body)).provider_code;
    assert_eq!(code(r#"{"error":{"code":"E_7"}}"#).as_deref(), Some("E_7"));
    assert_eq!(
        code(r#"{"code":{"x":1},"error":{"code":7}}"#).as_deref(),
        Some("7")
    );
    let long = |len| format!(r#"{{"code":"{}"}}"#, "c".repeat(len));
    assert_eq!(code(&long(64)).map(|code| code.len()), Some(64));
    for none in [
        long(65),
        r#"{"code":"a\u0007"}"#.into(),
        r#"{"code":"ключ"}"#.into(),
        "{}".into(),
        r#"{"code":""}"#.into(),
    ] {
        assert_eq!(code(&none), None, "{none}");
    }
}

#[test]
fn no_body_shows_in_a_debug_print() {
    let answer = Answer::Response(response(200, &[("X-To", "+12025550143")], "code 482901"));
    let shown = format!("{answer:?}");
    assert!(
        !shown.contains("482901") && !shown.contains("2025550143"),
        "{shown}"
    );
}

#[test]
fn every_part_of_an_answer_must_be_one_of_these() {
    let profile = parsed(
        r#"
[[rule]]
when = { status = 200, body = { "/parts/*/status" = { every = [0, "ok"] } } }
class = "accepted"
[[rule]]
when = { status = 200, body = { "/parts/*/status" = 0 } }
class = "unknown"
final = true
reason = "partial"
[[rule]]
when = { status = 503, header = { X-Part = { every = "gone" } } }
class = "rejected"
"#,
    )
    .unwrap();
    let read = |body: &str| line(&first(&profile, response(200, &[], body)));
    for all in [
        r#"{"parts":[{"status":"0"}]}"#,
        r#"{"parts":[{"status":0},{"status":"ok"}]}"#,
    ] {
        assert_eq!(read(all), "accepted +id absent (accepted)", "{all}");
    }
    for mixed in [
        r#"{"parts":[{"status":0},{"status":1}]}"#,
        r#"{"parts":[{"status":0},{"status":null}]}"#,
        r#"{"parts":[{"status":{}},{"status":0}]}"#,
    ] {
        assert_eq!(read(mixed), "unknown +final (partial)", "{mixed}");
    }
    for none in [r#"{"parts":[]}"#, r#"{"parts":[{"status":1}]}"#, "{}"] {
        assert_eq!(read(none), "unknown +unmatched (unmatched)", "{none}");
    }
    let headers = |headers: &[(&str, &str)]| later(&profile, response(503, headers, "")).verdict;
    assert_eq!(
        headers(&[("x-part", "Gone"), ("x-part", " gone ")]),
        Verdict::Rejected
    );
    assert_eq!(
        headers(&[("x-part", "gone"), ("x-part", "sent")]),
        Verdict::Unknown
    );
    assert_eq!(headers(&[]), Verdict::Unknown);
}

#[test]
fn a_wait_may_stand_inside_a_text() {
    let profile = parsed(
        r#"
[[wait]]
text = 'after (.{29})'
[[wait]]
text = 'in ([0-9]+) s'
as = "seconds"
[[wait]]
fixed = "1m"
"#,
    )
    .unwrap();
    let wait = |body: &str| {
        let asked = later(&profile, response(429, &[], body)).wait.unwrap();
        asked.at_least.as_secs()
    };
    assert_eq!(
        wait(r#"{"message":"try again after Wed, 21 Oct 2026 07:29:00 GMT"}"#),
        120
    );
    assert_eq!(wait("try again in 9 s"), 9);
    assert_eq!(wait("try again after the twenty-first of October"), 60);
    assert_eq!(
        later(&profile, cut(response(429, &[], "in 9 s")))
            .wait
            .map(|wait| wait.at_least.as_secs()),
        Some(60),
        "what is cut is not read"
    );
}

#[test]
fn a_rule_may_wait_until_a_quota_begins_anew() {
    let until = |until: &str, more: &str| {
        let profile = parsed(&format!(
            r#"
[[rule]]
when = {{ status = 429 }}
class = "account_hold"
wait_until = "{until}"
{more}
"#
        ))
        .unwrap();
        let wait = later(&profile, response(429, &[], "")).wait.unwrap();
        wait.at_least.as_secs()
    };
    // It is 07:27:00 UTC.
    assert_eq!(until("next_hour", ""), 33 * 60);
    assert_eq!(until("midnight_utc", ""), 16 * 3_600 + 33 * 60);
    assert_eq!(
        until("next_hour", r#"wait = "2h""#),
        7_200,
        "the longer of the two"
    );
}
