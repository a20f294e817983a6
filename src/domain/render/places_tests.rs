//! Where a key goes beside headers and bodies, and what goes with it.

use super::tests::{intent, key};
use super::*;
use crate::domain::profile::tests::BASE;
use crate::domain::profile::{Binding, Profile};

fn keyed(key: &str) -> Profile {
    let key = format!("[key]\nmax_len = 64\nwindow = \"1h\"\nwindow_source = \"assumed\"\n{key}");
    Profile::parse(&format!("{BASE}\n{key}")).unwrap()
}

#[test]
fn a_key_in_the_query_stands_behind_all_else_at_every_origin() {
    let once = "place = [\"query once\", \"header K\"]";
    let rendered = render(&keyed(once), &intent("{}"), &key()).unwrap();
    let wire = "018f6b0a-0000-8000-8000-00000000002a";
    assert_eq!(
        rendered.url.as_str(),
        format!("https://fixture.example/send?once={wire}")
    );
    assert_eq!(rendered.headers["k"], wire);

    let own = IdempotencyKey::from_upstream("a&b=c/d?e#f+g").unwrap();
    let rendered = render(&keyed(once), &intent("{}"), &own).unwrap();
    assert_eq!(rendered.url.query(), Some("once=a%26b%3Dc%2Fd%3Fe%23f%2Bg"));
    let pairs: Vec<_> = rendered.url.query_pairs().collect();
    assert_eq!(pairs, [("once".into(), "a&b=c/d?e#f+g".into())]);

    let binding = Binding {
        base_url: Some("https://eu.fixture.example".parse().unwrap()),
        ..Binding::default()
    };
    let elsewhere = keyed(once).bind(binding).unwrap();
    let rendered = render(&elsewhere, &intent("{}"), &key()).unwrap();
    assert_eq!(
        rendered.url.as_str(),
        format!("https://eu.fixture.example/send?once={wire}")
    );
}

#[test]
fn v82_another_region_is_another_request() {
    let profile = || keyed("place = \"header K\"");
    let binding = Binding {
        base_url: Some("https://eu.fixture.example".parse().unwrap()),
        ..Binding::default()
    };
    let here = render(&profile(), &intent("{}"), &key()).unwrap();
    let there = render(&profile().bind(binding).unwrap(), &intent("{}"), &key()).unwrap();
    assert_ne!(here.fingerprint, there.fingerprint);
}

#[test]
fn a_companion_says_on_every_attempt_when_the_first_one_started_and_changes_no_fingerprint() {
    let profile = keyed(
        "place = \"header K\"\ncompanion = [{ header = \"Since\", first_attempt = \"http_date\" }, \
         { header = \"At\", first_attempt = \"rfc3339\" }, { header = \"Epoch\", first_attempt = \"epoch_seconds\" }]",
    );
    let rendered = render(&profile, &intent("{}"), &key()).unwrap();
    assert_eq!(rendered.headers.get("since"), None);
    let first = Timestamp::from_millis(1_792_567_620_999);
    let dated = rendered.dated(first);
    assert_eq!(dated.headers["since"], "Wed, 21 Oct 2026 07:27:00 GMT");
    assert_eq!(dated.headers["at"], "2026-10-21T07:27:00.000Z");
    assert_eq!(dated.headers["epoch"], "1792567620");
    assert_eq!(dated.headers, rendered.dated(first).headers);
    let bytes = (&dated.url, &dated.body, dated.fingerprint);
    assert_eq!(bytes, (&rendered.url, &rendered.body, rendered.fingerprint));
    // Whatever a clock says, nothing panics.
    for extreme in [i64::MIN, -1, 0, i64::MAX] {
        assert!(
            rendered
                .dated(Timestamp::from_millis(extreme))
                .headers
                .contains_key("since")
        );
    }
}

#[test]
fn a_request_without_companions_is_sent_as_it_is() {
    let rendered = render(&keyed("place = \"header K\""), &intent("{}"), &key()).unwrap();
    let dated = rendered.dated(Timestamp::EPOCH);
    assert!(matches!(dated, Cow::Borrowed(_)));
}
