//! Rows V135 to V141 of the vendors' table: look-ups, from the unknown outcome to what follows what the provider said.

use super::*;
use crate::domain::classify::{Answer, Response};
use crate::domain::profile::Profile;
use crate::domain::profile::tests::{parsed, shipped};
use crate::domain::reconcile::{Finding, Question, judge};

const DAYS: u64 = 86_400;

/// A keyless provider whose look-up is this profile's.
fn terms_of(profile: &Profile) -> Terms {
    let lookup = profile.lookup.as_ref().unwrap();
    Terms {
        lookup: Some(LookupTerms {
            delay: lookup.delay,
            keeps: lookup.keeps,
        }),
        ..terms(None)
    }
}

/// A request that was not answered in time, made at the start.
fn timed_out_once(terms: &Terms) -> Told {
    Told::nothing().attempt(terms, at(0), &timed_out())
}

/// What this answer to the look-up proves of a message whose item would say `ours` at each of the profile's places.
fn judged(profile: &Profile, status: u16, body: &str, ours: &str, now: Timestamp) -> Finding {
    let lookup = profile.lookup.as_ref().unwrap();
    let pointers = lookup.items.ours.iter().map(|(pointer, _)| pointer);
    let ours: Vec<_> = pointers.map(|pointer| (pointer, ours.to_owned())).collect();
    let question = Question {
        ours: &ours,
        first_start: START,
        now,
        explained: None,
    };
    let answer = Answer::Response(Response {
        status,
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::copy_from_slice(body.as_bytes()),
        body_complete: true,
    });
    judge(lookup, &answer, &question)
}

/// What is next after the look-up at `now` was answered so.
fn followed(profile: &Profile, (status, body): (u16, &str), ours: &str, now: Timestamp) -> Told {
    let terms = terms_of(profile);
    let told = timed_out_once(&terms);
    assert_eq!(line(&told.next(&terms, &limits(), now)), "look up (no_key)");
    let finding = judged(profile, status, body, ours, now);
    let answers = reconciled(told.story.as_ref().unwrap(), &finding, &terms, now, half());
    answers.into_iter().fold(told, |mut told, (id, answer)| {
        let attempt = id.attempt;
        told.add(now, Fact::Answered { attempt, answer });
        told
    })
}

fn accepted_id(told: &Told) -> Option<&str> {
    told.story.as_ref()?.accepted()?.message_id.as_deref()
}

/// Accepted is what the provider made of the request; what became of the message later is another matter.
#[test]
fn v135_govuk_a_notification_that_could_not_be_delivered_was_accepted() {
    let body = r#"{"notifications":[{"id":"n-1","reference":"r-1","status":"permanent-failure"}]}"#;
    let told = followed(&shipped("govuk-notify"), (200, body), "r-1", at(600));
    assert_eq!(accepted_id(&told), Some("n-1"));
}

#[test]
fn v137_govuk_eight_days_after_the_attempt_an_empty_list_proves_nothing_and_is_not_asked_for() {
    let terms = terms_of(&shipped("govuk-notify"));
    let told = timed_out_once(&terms);
    assert_eq!(
        line(&told.next(&terms, &limits(), at(5 * DAYS))),
        "look up (no_key)"
    );
    // It keeps them for seven days, and the profile trusts six.
    for days in [6, 7, 8] {
        assert_eq!(
            line(&told.next(&terms, &limits(), at(days * DAYS))),
            "set aside outcome_unknown (no_key)"
        );
    }
}

#[test]
fn v139_infobip_49_hours_after_the_attempt_its_logs_prove_nothing_and_are_not_asked_for() {
    let terms = terms_of(&shipped("infobip"));
    let told = timed_out_once(&terms);
    assert_eq!(
        line(&told.next(&terms, &limits(), at(46 * 3_600))),
        "look up (no_key)"
    );
    assert_eq!(
        line(&told.next(&terms, &limits(), at(49 * 3_600))),
        "set aside outcome_unknown (no_key)"
    );
}

#[test]
fn v140_azure_an_operation_that_is_not_found_is_absent_only_after_the_delay() {
    let azure = parsed(
        r#"
[lookup]
proof = "key"
url   = "https://fixture.example/emails/operations/{{ key }}"
delay = "2m"
keeps = "24h"
id    = "/id"
ours  = { "/id" = "{{ key }}" }
absent = 404
"#,
    )
    .unwrap();
    let terms = terms_of(&azure);
    let told = timed_out_once(&terms);
    // Deadline 40 s, transport bound 10 s, delay 120 s.
    let visible = at(170);
    for early in [at(2), at(41), at(169)] {
        assert_eq!(
            told.next(&terms, &limits(), early),
            Step::Wait { until: visible }
        );
    }
    let told = followed(&azure, (404, ""), "k-1", visible);
    assert!(!told.story.as_ref().unwrap().may_have_been_taken());
    let later = visible.plus(Duration::from_secs(60));
    assert_eq!(line(&told.next(&terms, &limits(), later)), "start 2");
}

#[test]
fn v141_knock_one_run_with_our_key_is_accepted_and_its_id_is_the_message_s() {
    let knock = parsed(
        r#"
[lookup]
proof = "key"
url   = "https://fixture.example/v1/messages?trigger_data=%7B%22key%22:%22{{ key }}%22%7D"
delay = "5m"
keeps = "24h"
items = "/items"
page  = 50
id    = "/workflow_run_id"
ours  = { "/data/key" = "{{ key }}" }
"#,
    )
    .unwrap();
    let body = r#"{"items":[{"id":"m-1","workflow_run_id":"run-1","data":{"key":"k-1"}}]}"#;
    let told = followed(&knock, (200, body), "k-1", at(600));
    assert_eq!(accepted_id(&told), Some("run-1"));
    let of_another = r#"{"items":[{"id":"m-1","workflow_run_id":"run-1","data":{"key":"k-2"}}]}"#;
    let told = followed(&knock, (200, of_another), "k-1", at(600));
    assert_eq!(accepted_id(&told), None);
}
