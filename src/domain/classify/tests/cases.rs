//! Cases of the field that an answer alone decides.

use super::super::*;
use super::{HTML, circumstances, cut, first, later, line, response};
use crate::domain::profile::tests::{BASE, SHIPPED, parsed, shipped};

#[test]
fn p01_a_gateway_error_after_the_provider_took_it_is_unknown_whoever_it_is() {
    for (name, _) in SHIPPED {
        for status in [500, 502, 503, 504, 524, 599] {
            let classified = later(&shipped(name), response(status, &[], HTML));
            assert_eq!(
                line(&classified),
                "unknown (server_error)",
                "{name} {status}"
            );
        }
    }
}

/// A provider that answers 200 whatever happens, in text or in JSON: the forms of case p03.
fn always_200() -> Profile {
    let rules = r#"
[[rule]]
when = { status = 200, text = '^ERROR:' }
class = "rejected"
[[rule]]
when = { status = 200, body = { "/messages/*/status" = [1, 5] } }
class = "throttled"
[[rule]]
when = { status = 200, body = { "/messages/*/status" = 0 } }
class = "accepted"
[[rule]]
when = { status = 200, body = { "/messages/*/status" = { regex = '^[0-9]+$' } } }
class = "rejected"
[error_code]
body = "/messages/0/status"
text = '^ERROR:([0-9]+)'
"#;
    let text = BASE.replace(
        r#"{ status = 201, id = "/id" }"#,
        r#"{ status = [], id = "/messages/0/message-id" }"#,
    );
    Profile::parse(&format!("{text}\n{rules}")).unwrap()
}

#[test]
fn p03_an_error_inside_a_200_is_no_acceptance() {
    let profile = always_200();
    let read = |body: &str| {
        let classified = first(&profile, response(200, &[], body));
        (classified.verdict, classified.provider_code)
    };
    assert_eq!(read("ERROR:14"), (Verdict::Rejected, Some("14".into())));
    assert_eq!(
        read(r#"{"messages":[{"status":"29"}]}"#),
        (Verdict::Rejected, Some("29".into()))
    );
    assert_eq!(
        read(r#"{"messages":[{"status":"1"}]}"#),
        (Verdict::Throttled, Some("1".into()))
    );
    assert_eq!(
        read(r#"{"messages":[{"status":1}]}"#),
        (Verdict::Throttled, Some("1".into()))
    );
    let accepted = first(
        &profile,
        response(
            200,
            &[],
            r#"{"messages":[{"status":"0","message-id":"m-1"}]}"#,
        ),
    );
    assert_eq!(
        (accepted.verdict, accepted.message_id.as_deref()),
        (Verdict::Accepted, Some("m-1"))
    );
    // What has never been seen before is unknown and counted; so is a login page that answers 200.
    for odd in [
        r#"{"messages":[{"status":"busy"}]}"#,
        r#"{"messages":[]}"#,
        "",
        HTML,
        "null",
    ] {
        assert_eq!(
            line(&first(&profile, response(200, &[], odd))),
            "unknown +unmatched (unmatched)",
            "{odd}"
        );
    }
}

#[test]
fn p10_a_replayed_error_ends_the_series_at_once() {
    let profile = shipped("generic");
    let replayed = [("Idempotent-Replayed", "true")];
    assert_eq!(
        line(&first(&profile, response(500, &[], "{}"))),
        "unknown (server_error)"
    );
    assert_eq!(
        line(&later(&profile, response(500, &replayed, "{}"))),
        "unknown +replay +final (stored_error)"
    );
    assert_eq!(
        line(&later(&profile, response(429, &replayed, "{}"))),
        "throttled +replay +final (stored_error)"
    );
    assert_eq!(
        line(&later(&profile, response(400, &replayed, "{}"))),
        "rejected +replay (refused)"
    );
    let accepted = later(&profile, response(201, &replayed, r#"{"id":"m-1"}"#));
    assert_eq!(line(&accepted), "accepted +replay (accepted)");
}

#[test]
fn p13_the_last_attempt_of_every_window_is_over_before_the_key_is_forgotten() {
    for (name, _) in SHIPPED {
        let profile = shipped(name);
        if let Some(key) = &profile.key {
            let longest = profile.timeouts.connect + profile.timeouts.request;
            let last_end = key.window.length - key.window.margin + longest;
            let skew = Duration::from_secs(60);
            assert!(last_end + skew < key.window.length, "{name}");
        }
    }
}

#[test]
fn p16_a_stream_that_was_refused_is_not_sent_and_one_that_was_reset_is_unknown_at_every_provider() {
    for (name, _) in SHIPPED {
        let profile = shipped(name);
        let read = |answer| line(&classify(&profile, &answer, &circumstances(true)));
        for (cause, expected) in [
            (NotSentCause::RefusedStream, "not_sent (refused_stream)"),
            (NotSentCause::GoAway, "not_sent (go_away)"),
        ] {
            assert_eq!(read(Answer::NotSent(cause)), expected, "{name}");
        }
        for (cause, expected) in [
            (LostCause::Reset, "unknown (reset)"),
            (LostCause::Closed, "unknown (closed)"),
        ] {
            assert_eq!(read(Answer::Lost(cause)), expected, "{name}");
        }
    }
}

#[test]
fn p22_a_bad_certificate_is_not_sent_whoever_the_provider_is() {
    for (name, _) in SHIPPED {
        let refused = Answer::NotSent(NotSentCause::Tls);
        let classified = classify(&shipped(name), &refused, &circumstances(false));
        assert_eq!(line(&classified), "not_sent (tls)", "{name}");
    }
}

#[test]
fn v111_a_read_timeout_is_unknown_even_where_every_error_means_not_sent() {
    for (name, _) in SHIPPED {
        let lost = Answer::Lost(LostCause::ReadTimeout);
        let classified = classify(&shipped(name), &lost, &circumstances(true));
        assert_eq!(line(&classified), "unknown (read_timeout)", "{name}");
    }
}

#[test]
fn p17_redirects_and_early_answers_are_never_an_acceptance() {
    for (name, _) in SHIPPED {
        let profile = shipped(name);
        for status in [301, 302, 303, 307, 308] {
            let classified = first(&profile, response(status, &[("Location", "/login")], HTML));
            assert_eq!(
                line(&classified),
                "unknown +final (unexpected_redirect)",
                "{name} {status}"
            );
        }
        assert_eq!(
            first(&profile, response(417, &[], "")).verdict,
            Verdict::Rejected
        );
    }
}

#[test]
fn p19_a_body_that_cannot_be_read_leaves_the_status_to_speak() {
    let by_status = parsed("").map(|mut profile| {
        profile.accepted.status = shipped("generic").accepted.status;
        profile
    });
    let profile = by_status.unwrap();
    let table = [
        (
            "i",
            response(202, &[], "\u{feff}{\"id\":\"m-1\"}"),
            "accepted (accepted)",
        ),
        (
            "ii",
            cut(response(202, &[], r#"{"id":"m-1","rest":"#)),
            "accepted +id absent (accepted)",
        ),
        (
            "iii",
            response(202, &[("Content-Encoding", "gzip")], r#"{"id":"m-1"}"#),
            "accepted +id absent (accepted)",
        ),
        ("iv", response(502, &[], HTML), "unknown (server_error)"),
        (
            "v",
            cut(response(202, &[], &"x".repeat(65_536))),
            "accepted +id absent (accepted)",
        ),
        ("vi", response(400, &[], HTML), "rejected (refused)"),
        (
            "vii",
            response(202, &[], "null"),
            "accepted +id absent (accepted)",
        ),
    ];
    for (row, answer, expected) in table {
        assert_eq!(line(&first(&profile, answer)), expected, "{row}");
    }
    let identity = first(
        &profile,
        response(202, &[("Content-Encoding", "identity")], r#"{"id":"m-1"}"#),
    );
    assert_eq!(identity.message_id.as_deref(), Some("m-1"));
}

#[test]
fn p19_a_rule_that_needs_a_body_which_cannot_be_read_makes_it_unknown() {
    let captifi = shipped("captifi");
    // A refusal may stand in the part that did not come.
    assert_eq!(
        line(&first(&captifi, cut(response(201, &[], r#"{"id":"#)))),
        "unknown (body_unreadable)"
    );
    assert_eq!(
        line(&first(&captifi, response(201, &[], r#"{"id":"b-1"}"#))),
        "accepted (accepted)"
    );
    assert_eq!(
        line(&later(&captifi, cut(response(409, &[], "{")))),
        "unknown (body_unreadable)"
    );
    // Whatever the body would have said, the verdict is the same.
    let twilio = shipped("twilio");
    assert_eq!(
        first(&twilio, cut(response(400, &[], r#"{"code":212"#))).verdict,
        Verdict::Rejected
    );
    assert_eq!(
        first(&twilio, cut(response(401, &[], ""))).verdict,
        Verdict::Misconfigured
    );
    assert_eq!(
        first(&twilio, cut(response(403, &[], ""))).verdict,
        Verdict::Unknown
    );
    // A rule that surely holds counts although the body is cut, unless one before it might.
    assert_eq!(
        first(&twilio, cut(response(429, &[], "{"))).verdict,
        Verdict::Throttled
    );
}

#[test]
fn p20_an_acceptance_needs_no_id_and_finds_it_in_header_or_body() {
    let text = BASE.replace(
        r#"{ status = 201, id = "/id" }"#,
        r#"{ status = "2xx", id = "header X-Message-Id" }"#,
    );
    let profile = Profile::parse(&text).unwrap();
    let with_id = first(&profile, response(202, &[("x-message-id", "abc")], ""));
    assert_eq!(
        (line(&with_id).as_str(), with_id.message_id.as_deref()),
        ("accepted (accepted)", Some("abc"))
    );
    for answer in [
        response(202, &[], ""),
        response(201, &[("Location", "/messages/abc")], ""),
        response(200, &[], "{}"),
    ] {
        assert_eq!(
            line(&first(&profile, answer)),
            "accepted +id absent (accepted)"
        );
    }
    let in_body = parsed("").unwrap();
    let id = |body: &str| first(&in_body, response(201, &[], body)).message_id;
    assert_eq!(
        id(r#"{"id":12345678901234567890123}"#).as_deref(),
        Some("12345678901234567890123")
    );
    let long = |len| format!(r#"{{"id":"{}"}}"#, "i".repeat(len));
    assert_eq!(id(&long(255)).map(|id| id.len()), Some(255));
    for none in [
        "{}",
        r#"{"id":null}"#,
        r#"{"id":""}"#,
        r#"{"id":{}}"#,
        r#"{"id":"a\nb"}"#,
        &long(256),
    ] {
        assert_eq!(id(none), None, "{none}");
    }
}

#[test]
fn p20_a_profile_may_say_that_no_id_is_no_acceptance() {
    let with = |without_id: &str| {
        let text = BASE.replace(
            r#"id = "/id" }"#,
            &format!(r#"id = "/id", without_id = "{without_id}" }}"#),
        );
        Profile::parse(&text).unwrap()
    };
    // V98: an empty id says that nothing was sent.
    assert_eq!(
        line(&first(
            &with("rejected"),
            response(201, &[], r#"{"id":""}"#)
        )),
        "rejected (no_message_id)"
    );
    assert_eq!(
        line(&first(&with("unknown"), response(201, &[], "{}"))),
        "unknown (no_message_id)"
    );
    assert_eq!(
        line(&first(&with("rejected"), cut(response(201, &[], "{")))),
        "unknown (no_message_id)"
    );
}

#[test]
fn p23_the_wait_of_any_retryable_answer_is_read_and_a_doubt_is_passed_on() {
    let generic = shipped("generic");
    for status in [408, 425, 429, 503] {
        let classified = later(&generic, response(status, &[("Retry-After", "120")], ""));
        let wait = classified.wait.unwrap();
        assert_eq!(
            (wait.at_least, wait.unit_doubt),
            (Duration::from_secs(120), false),
            "{status}"
        );
    }
    let doubtful = later(&generic, response(429, &[("Retry-After", "60000")], ""))
        .wait
        .unwrap();
    assert_eq!(
        (doubtful.at_least, doubtful.unit_doubt),
        (Duration::from_secs(60_000), true)
    );
    for backoff in [
        "-3",
        "soon",
        "",
        "0",
        "Wed, 21 Oct 2026 07:26:59 GMT",
        "259201",
    ] {
        assert_eq!(
            later(&generic, response(429, &[("Retry-After", backoff)], "")).wait,
            None,
            "{backoff}"
        );
    }
}
