//! What the documented answers of vendors mean at their shipped profiles.

use super::super::*;
use super::{circumstances, first, later, line, response};
use crate::domain::profile::tests::{parsed, shipped};

#[test]
fn v18_captifi_says_conflict_with_the_status_that_others_use_for_in_progress() {
    let answer = response(409, &[], r#"{"error":{"code":"idempotency_conflict"}}"#);
    let classified = later(&shipped("captifi"), answer);
    assert_eq!(line(&classified), "conflict (key_conflict)");
    assert_eq!(
        classified.provider_code.as_deref(),
        Some("idempotency_conflict")
    );
    // Its neighbour: a 409 with another code is not guessed at.
    let other = response(409, &[], r#"{"error":{"code":"busy"}}"#);
    assert_eq!(
        line(&later(&shipped("captifi"), other)),
        "unknown (status_conflict)"
    );
}

#[test]
fn v19_ietf_style_409_is_in_progress() {
    let headers = [
        ("Content-Type", "application/problem+json"),
        ("Retry-After", "3"),
    ];
    let answer = response(409, &headers, r#"{"type":"https://example.com/busy"}"#);
    let classified = later(&shipped("generic"), answer);
    assert_eq!(line(&classified), "in_progress (still_working)");
    assert_eq!(
        classified.wait.map(|wait| wait.at_least),
        Some(Duration::from_secs(3))
    );
}

#[test]
fn v20_ietf_style_422_is_conflict() {
    let answer = response(422, &[], r#"{"title":"Idempotency-Key is already used"}"#);
    assert_eq!(
        line(&later(&shipped("generic"), answer.clone())),
        "conflict (key_conflict)"
    );
    let at_first = first(&shipped("generic"), answer);
    assert!(is_alarm(&at_first, true), "nobody else should know the key");
    assert!(!is_alarm(&at_first, false));
}

#[test]
fn v21_captifi_replays_with_200_instead_of_201() {
    let captifi = shipped("captifi");
    let replayed = later(
        &captifi,
        response(200, &[], r#"{"id":"b-1","meta":{"replayed":true}}"#),
    );
    assert_eq!(line(&replayed), "accepted +replay (accepted)");
    assert_eq!(replayed.message_id.as_deref(), Some("b-1"));
    for (status, body) in [
        (200, r#"{"id":"b-1"}"#),
        (201, r#"{"id":"b-1","meta":{"replayed":true}}"#),
    ] {
        assert!(
            later(&captifi, response(status, &[], body)).flags.replay,
            "either mark is enough"
        );
    }
    let fresh = first(
        &captifi,
        response(201, &[], r#"{"id":"b-1","meta":{"replayed":false}}"#),
    );
    assert_eq!(line(&fresh), "accepted (accepted)");
    assert!(!is_alarm(&fresh, true));
    assert!(is_alarm(
        &first(&captifi, response(200, &[], r#"{"id":"b-1"}"#)),
        true
    ));
}

#[test]
fn v22_captifi_holds_the_second_request_until_the_first_is_done() {
    let captifi = shipped("captifi");
    let given_up = classify(
        &captifi,
        &Answer::Lost(LostCause::ReadTimeout),
        &circumstances(false),
    );
    assert_eq!(line(&given_up), "unknown (read_timeout)");
    assert!(
        captifi.timeouts.request >= Duration::from_secs(30),
        "it must outlast the first request"
    );
}

#[test]
fn v34_twilio_429_is_throttled_and_surely_not_processed() {
    let classified = first(
        &shipped("twilio"),
        response(429, &[], r#"{"code":20429,"status":429}"#),
    );
    assert_eq!(line(&classified), "throttled (rate_limited)");
    assert_eq!(classified.provider_code.as_deref(), Some("20429"));
    let wait = classified.wait.unwrap();
    assert_eq!(
        (wait.at_least, wait.scope),
        (Duration::from_secs(1), WaitScope::Account)
    );
    let named = first(
        &shipped("twilio"),
        response(429, &[("Retry-After", "7")], ""),
    );
    assert_eq!(
        named.wait.unwrap().at_least,
        Duration::from_secs(7),
        "what the answer names is never undercut"
    );
}

#[test]
fn v35_twilio_rejects_a_number_whether_the_code_is_a_number_or_text() {
    for body in [
        r#"{"code":21211}"#,
        r#"{"code":"21211"}"#,
        r#"{"code":21214}"#,
        r#"{"code":"21614"}"#,
    ] {
        let classified = first(&shipped("twilio"), response(400, &[], body));
        assert_eq!(line(&classified), "rejected (recipient_invalid)", "{body}");
    }
}

#[test]
fn v36_twilio_rejects_who_has_opted_out() {
    let classified = first(&shipped("twilio"), response(400, &[], r#"{"code":21610}"#));
    assert_eq!(line(&classified), "rejected (opted_out)");
    assert_eq!(classified.provider_code.as_deref(), Some("21610"));
}

#[test]
fn v37_twilio_refuses_credentials_and_no_message_is_to_blame() {
    let classified = first(&shipped("twilio"), response(401, &[], r#"{"code":20003}"#));
    assert_eq!(line(&classified), "misconfigured (credentials_refused)");
}

#[test]
fn v38_twilio_500_is_unknown() {
    let twilio = shipped("twilio");
    assert!(twilio.key.is_none(), "so it is never repeated");
    for status in [500, 502, 503] {
        assert_eq!(
            line(&first(&twilio, response(status, &[], r#"{"code":20500}"#))),
            "unknown (server_error)"
        );
    }
}

#[test]
fn v39_twilio_201_is_accepted_whatever_becomes_of_the_delivery() {
    let classified = first(
        &shipped("twilio"),
        response(
            201,
            &[("Retry-After", "30")],
            r#"{"sid":"SM1","error_code":30005}"#,
        ),
    );
    assert_eq!(line(&classified), "accepted (accepted)");
    assert_eq!(
        (classified.message_id.as_deref(), classified.wait),
        (Some("SM1"), None)
    );
}

#[test]
fn v44_a_rule_may_ask_whether_it_is_the_first_attempt() {
    let key =
        r#"key = { place = "header K", max_len = 64, window = "1h", window_source = "assumed" }"#;
    let profile = parsed(&format!(
        r#"
{key}
[[rule]]
when = {{ status = 409, first_attempt = false }}
class = "accepted"
id = "absent"
[[rule]]
when = {{ status = 409, first_attempt = true }}
class = "unknown"
final = true
burned = true
"#
    ))
    .unwrap();
    let answer = response(409, &[], r#"{"id":"of another message"}"#);
    let again = later(&profile, answer.clone());
    assert_eq!(
        (line(&again).as_str(), again.message_id),
        ("accepted +id absent (accepted)", None)
    );
    assert_eq!(
        line(&first(&profile, answer)),
        "unknown +final +burned (unknown)"
    );
}
