//! Windows of documented providers: what is no longer sent because its key may be forgotten.

use super::*;
use crate::domain::profile::Profile;
use crate::domain::profile::tests::shipped;

/// The terms under which intents for this profile are sent.
fn terms_of(profile: &Profile) -> Terms {
    let key = profile.key.as_ref().unwrap();
    Terms {
        request_span: profile.timeouts.request,
        ..terms(Some(KeyTerms {
            window: key.window.length,
            margin: key.window.margin,
        }))
    }
}

fn next_at(terms: &Terms, seconds: u64) -> String {
    let told = Told::nothing().attempt(terms, at(0), &timed_out());
    line(&told.next(terms, &limits(), at(seconds)))
}

const OVER: &str = "set aside outcome_unknown (window_closed)";

#[test]
fn v07_a_day_after_the_first_attempt_nothing_is_sent_to_stripe() {
    let stripe = terms_of(&shipped("stripe"));
    assert_eq!(next_at(&stripe, 86_400 - 106), "start 2");
    assert_eq!(next_at(&stripe, 86_400 - 105), OVER);
    assert_eq!(next_at(&stripe, 25 * 3_600), OVER);
}

#[test]
fn v83_a_key_of_brevo_is_used_for_less_than_the_shorter_of_its_two_windows() {
    let brevo = terms_of(&shipped("brevo"));
    assert_eq!(next_at(&brevo, 15 * 60 - 106), "start 2");
    assert_eq!(next_at(&brevo, 15 * 60 - 105), OVER);
    assert_eq!(next_at(&brevo, 20 * 60), OVER);
}

#[test]
fn v78_a_wait_that_leads_beyond_five_minutes_leads_to_no_request() {
    let azure = include_str!("../../classify/tests/fixture_profiles/azure-email.toml");
    let azure = terms_of(&Profile::parse(azure).unwrap());
    assert_eq!(next_at(&azure, 5 * 60 - 106), "start 2");
    assert_eq!(next_at(&azure, 6 * 60), OVER);
    // The same right before the request leaves, after whatever was waited for.
    let told = Told::nothing().attempt(&azure, at(0), &timed_out());
    let story = told.story.unwrap();
    let late = may_send(&story, &azure, &limits(), at(1_000), at(6 * 60));
    assert_eq!(late, Err(Withheld::WindowClosed));
}

#[test]
fn what_was_surely_not_taken_has_no_window() {
    let brevo = terms_of(&shipped("brevo"));
    let told = Told::nothing().attempt(&brevo, at(0), &heard(Verdict::Throttled));
    assert_eq!(line(&told.next(&brevo, &limits(), at(20 * 60))), "start 2");
}
