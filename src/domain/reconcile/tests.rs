use super::*;
use crate::domain::classify::{LostCause, NotSentCause};
use crate::domain::profile::Profile;
use crate::domain::profile::tests::parsed;

const FIRST: Timestamp = Timestamp::from_millis(1_790_000_000_000);
const NOW: Timestamp = Timestamp::from_millis(1_790_000_100_000);

fn by_reference() -> Profile {
    parsed(
        r#"
[lookup]
proof = "reference"
url = "https://fixture.example/messages?reference={{ reference }}"
delay = "30s"
keeps = "7d"
items = "/messages"
page = 3
id = "/id"
absent = 404
ours = { "/reference" = "{{ reference }}" }
made_at = { at = "/made_at", as = "rfc3339" }
[[lookup.rule]]
when = { status = 200, body = { "/state" = "indexing" } }
means = "not_yet"
[[lookup.rule]]
when = { status = 410 }
means = "absent"
"#,
    )
    .unwrap()
}

fn asked(profile: &Profile, answer: &Answer, explained: Option<&dyn Fn(&str) -> bool>) -> Finding {
    let lookup = profile.lookup.as_ref().unwrap();
    let ours: Vec<_> = lookup
        .items
        .ours
        .iter()
        .map(|(pointer, _)| (pointer, "r-1".to_owned()))
        .collect();
    let question = Question {
        ours: &ours,
        first_start: FIRST,
        now: NOW,
        explained,
    };
    judge(lookup, answer, &question)
}

fn answer(status: u16, body: &str) -> Answer {
    Answer::Response(Response {
        status,
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::copy_from_slice(body.as_bytes()),
        body_complete: true,
    })
}

fn item(id: &str, reference: &str, made_at: &str) -> String {
    format!(r#"{{"id":"{id}","reference":"{reference}","made_at":"{made_at}"}}"#)
}

fn list(items: &[String]) -> Answer {
    answer(200, &format!(r#"{{"messages":[{}]}}"#, items.join(",")))
}

const LATER: &str = "2026-09-21T15:13:21Z";

fn present(id: &str) -> Finding {
    Finding::Present(Some(id.to_owned()))
}

#[test]
fn an_item_of_ours_is_a_message_that_was_taken() {
    let found = list(&[item("m-9", "r-2", LATER), item("m-1", "r-1", LATER)]);
    assert_eq!(asked(&by_reference(), &found, None), present("m-1"));
    let without_id = answer(
        200,
        &format!(r#"{{"messages":[{{"reference":"r-1","made_at":"{LATER}"}}]}}"#),
    );
    assert_eq!(
        asked(&by_reference(), &without_id, None),
        Finding::Present(None)
    );
}

#[test]
fn a_complete_list_without_ours_is_an_absence_and_a_full_one_is_not() {
    let other = || item("m-9", "r-2", LATER);
    assert_eq!(asked(&by_reference(), &list(&[]), None), Finding::Absent);
    assert_eq!(
        asked(&by_reference(), &list(&[other(), other()]), None),
        Finding::Absent
    );
    assert_eq!(
        asked(&by_reference(), &list(&[other(), other(), other()]), None),
        Finding::Nothing("list_goes_on")
    );
}

/// A list with one item of ours that was made at `made_at`, from a provider whose clock says `date`.
fn made(made_at: &str, date: Option<&str>) -> Finding {
    let Answer::Response(mut response) = list(&[item("m-1", "r-1", made_at)]) else {
        panic!("it is an answer");
    };
    if let Some(date) = date {
        let date = http::HeaderValue::from_str(date).unwrap();
        response.headers.insert(http::header::DATE, date);
    }
    asked(&by_reference(), &Answer::Response(response), None)
}

#[test]
fn what_was_made_before_the_first_attempt_is_not_ours_but_a_minute_is_forgiven() {
    let agreed = Some("Mon, 21 Sep 2026 14:15:59 GMT");
    assert_eq!(FIRST.to_string(), "2026-09-21T14:13:20.000Z");
    assert_eq!(NOW.to_string(), "2026-09-21T14:15:00.000Z");
    assert_eq!(made("2026-09-21T14:12:19Z", agreed), Finding::Absent);
    assert_eq!(made("2026-09-21T14:12:20Z", agreed), present("m-1"));
    let unreadable = Finding::Nothing("moment_unreadable");
    assert_eq!(made("some time ago", agreed), unreadable);
}

#[test]
fn moments_of_a_clock_that_goes_otherwise_than_ours_prove_nothing() {
    let older = Finding::Nothing("older_match");
    assert_eq!(made("2026-09-21T14:12:19Z", None), older);
    let differ = Finding::Nothing("clocks_differ");
    for date in [
        "Mon, 21 Sep 2026 14:16:01 GMT",
        "Mon, 21 Sep 2026 14:13:59 GMT",
    ] {
        assert_eq!(made("2026-09-21T14:14:00Z", Some(date)), differ, "{date}");
    }
}

#[test]
fn only_what_says_so_is_an_absence() {
    let profile = by_reference();
    let finding = |status, body| asked(&profile, &answer(status, body), None);
    assert_eq!(finding(404, ""), Finding::Absent);
    assert_eq!(finding(410, "<html>"), Finding::Absent);
    for status in [204, 301, 400, 401, 403, 408, 429, 500, 502, 503, 504] {
        assert_eq!(
            finding(status, r#"{"messages":[]}"#),
            Finding::Nothing("status"),
            "{status}"
        );
    }
    assert_eq!(finding(200, "<html>"), Finding::Nothing("body_unreadable"));
    assert_eq!(
        finding(200, r#"{"messages":{}}"#),
        Finding::Nothing("no_list")
    );
    assert_eq!(
        finding(200, r#"{"error":"busy"}"#),
        Finding::Nothing("no_list")
    );
    assert_eq!(
        finding(200, r#"{"state":"indexing","messages":[]}"#),
        Finding::NotYet
    );
    let lost = Answer::Lost(LostCause::ReadTimeout);
    assert_eq!(
        asked(&profile, &lost, None),
        Finding::Nothing("read_timeout")
    );
    let unsent = Answer::NotSent(NotSentCause::Dns);
    assert_eq!(asked(&profile, &unsent, None), Finding::Nothing("dns"));
}

#[test]
fn a_body_that_was_cut_proves_nothing() {
    let cut = Answer::Response(Response {
        status: 200,
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::from_static(b"{\"messages\":[]}"),
        body_complete: false,
    });
    assert_eq!(
        asked(&by_reference(), &cut, None),
        Finding::Nothing("body_unreadable")
    );
}

/// Vendors' row 133: two equal texts to one number on one day, one of them explained by the ledger.
#[test]
fn v133_a_find_that_the_ledger_explains_is_not_ours() {
    let equal = list(&[item("m-2", "r-1", LATER), item("m-1", "r-1", LATER)]);
    let known = |ids: &'static [&'static str]| move |id: &str| ids.contains(&id);
    let profile = by_reference();
    assert_eq!(
        asked(&profile, &equal, Some(&known(&["m-2"]))),
        present("m-1")
    );
    assert_eq!(
        asked(&profile, &equal, Some(&known(&["m-1", "m-2"]))),
        Finding::Absent
    );
    let without_id = answer(
        200,
        &format!(r#"{{"messages":[{{"reference":"r-1","made_at":"{LATER}"}}]}}"#),
    );
    assert_eq!(
        asked(&profile, &without_id, Some(&known(&[]))),
        Finding::Nothing("no_message_id")
    );
}

#[test]
fn a_search_by_content_proves_no_absence_while_another_new_message_is_unexplained() {
    let text = r#"
[lookup]
proof = "content"
url = "https://fixture.example/messages?to={{ to }}"
delay = "30s"
keeps = "7d"
items = "/messages"
page = 50
id = "/id"
ours = { "/reference" = "{{ content.text }}" }
made_at = { at = "/made_at", as = "rfc3339" }
"#;
    let profile = parsed(text).unwrap();
    let ask = |items: &[String], known: &'static [&'static str]| {
        asked(
            &profile,
            &list(items),
            Some(&|id: &str| known.contains(&id)),
        )
    };
    let changed = || item("m-2", "r-1, shortened", LATER);
    let another = Finding::Nothing("another_unexplained");
    assert_eq!(ask(&[changed()], &[]), another);
    assert_eq!(ask(&[changed()], &["m-2"]), Finding::Absent);
    assert_eq!(
        ask(&[changed(), item("m-1", "r-1", LATER)], &[]),
        present("m-1")
    );
    let before = |text| item("m-2", text, "2026-09-21T14:00:00Z");
    assert_eq!(ask(&[before("r-1, shortened")], &[]), Finding::Absent);
    let older = Finding::Nothing("older_match");
    assert_eq!(ask(&[before("r-1")], &[]), older);
    assert_eq!(ask(&[before("r-1")], &["m-2"]), Finding::Absent);
    assert_eq!(ask(&[], &[]), Finding::Absent);
}

#[test]
fn a_document_that_is_the_one_item_is_present_if_it_is_ours() {
    let profile = parsed(
        r#"
[lookup]
proof = "key"
url = "https://fixture.example/messages/{{ key }}"
delay = "30s"
keeps = "7d"
id = "/id"
absent = [404]
rule = [{ when = { status = 303 }, means = "present" }]
ours = { "/reference" = "{{ key }}" }
"#,
    )
    .unwrap();
    let ours = answer(200, &item("m-1", "r-1", LATER));
    assert_eq!(asked(&profile, &ours, None), present("m-1"));
    let other = answer(200, &item("m-1", "r-2", LATER));
    assert_eq!(asked(&profile, &other, None), Finding::Nothing("not_ours"));
    assert_eq!(asked(&profile, &answer(404, ""), None), Finding::Absent);
    assert_eq!(
        asked(&profile, &answer(303, r#"{"id":"m-7"}"#), None),
        present("m-7")
    );
    assert_eq!(
        asked(&profile, &answer(303, ""), None),
        Finding::Present(None)
    );
}

#[test]
fn moments_are_read_in_four_forms() {
    let read = |form, text| moment(form, text).map(Timestamp::as_millis);
    assert_eq!(
        read(MomentForm::Rfc3339, "2026-09-21T14:13:20Z"),
        Some(1_790_000_000_000)
    );
    assert_eq!(
        read(MomentForm::Rfc2822, "Mon, 21 Sep 2026 14:13:20 +0000"),
        Some(1_790_000_000_000)
    );
    assert_eq!(
        read(MomentForm::EpochSeconds, "1790000000"),
        Some(1_790_000_000_000)
    );
    assert_eq!(
        read(MomentForm::EpochSeconds, "1790000000.25"),
        Some(1_790_000_000_000)
    );
    assert_eq!(
        read(MomentForm::EpochMilliseconds, "1790000000000"),
        Some(1_790_000_000_000)
    );
    for form in [
        MomentForm::Rfc3339,
        MomentForm::Rfc2822,
        MomentForm::EpochSeconds,
        MomentForm::EpochMilliseconds,
    ] {
        assert_eq!(read(form, "yesterday"), None, "{form:?}");
    }
}
