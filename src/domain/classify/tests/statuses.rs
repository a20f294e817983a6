//! The verdict of every status, by the defaults and at every shipped profile.

use std::fmt::Write as _;

use super::super::*;
use super::{HTML, circumstances, later, line, response};
use crate::domain::profile::tests::{SHIPPED, parsed, shipped};

/// Statuses 100 to 599 with an empty and with an HTML body, neighbours of one meaning together.
fn statuses(profile: &Profile) -> String {
    let mut table = String::new();
    let mut rows: Vec<(u16, u16, String)> = Vec::new();
    for status in 100..=599 {
        let empty = line(&later(profile, response(status, &[], "")));
        let html = line(&later(profile, response(status, &[], HTML)));
        let row = match empty == html {
            true => empty,
            false => format!("{empty} | HTML: {html}"),
        };
        match rows.last_mut() {
            Some((_, to, same)) if *same == row => *to = status,
            _ => rows.push((status, status, row)),
        }
    }
    for (from, to, row) in rows {
        match from == to {
            true => writeln!(table, "{from}      {row}").unwrap(),
            false => writeln!(table, "{from}-{to}  {row}").unwrap(),
        }
    }
    table
}

#[test]
fn every_status_without_a_readable_body_at_every_shipped_profile() {
    for (name, _) in SHIPPED {
        insta::assert_snapshot!(format!("statuses_{name}"), statuses(&shipped(name)));
    }
}

#[test]
fn the_defaults_are_those_of_the_design() {
    let profile = parsed("").unwrap();
    let verdict = |status| later(&profile, response(status, &[], "")).verdict;
    for (status, expected) in [
        (425, Verdict::NotSent),
        (429, Verdict::Throttled),
        (408, Verdict::Unknown),
        (409, Verdict::Unknown),
        (412, Verdict::Unknown),
        (500, Verdict::Unknown),
        (599, Verdict::Unknown),
        (300, Verdict::Unknown),
        (399, Verdict::Unknown),
        (401, Verdict::Misconfigured),
        (402, Verdict::AccountHold),
        (400, Verdict::Rejected),
        (403, Verdict::Rejected),
        (404, Verdict::Rejected),
        (417, Verdict::Rejected),
        (422, Verdict::Rejected),
        (499, Verdict::Rejected),
    ] {
        assert_eq!(verdict(status), expected, "{status}");
    }
    assert!(later(&profile, response(302, &[], "")).flags.last_word);
    for status in [100, 199, 204, 299, 600, 999] {
        let classified = later(&profile, response(status, &[], ""));
        assert_eq!(classified.verdict, Verdict::Unknown, "{status}");
        assert!(classified.flags.unmatched, "{status} is counted");
    }
}

#[test]
fn an_attempt_without_an_answer_is_not_sent_or_unknown_by_its_cause_alone() {
    let profile = shipped("twilio");
    for cause in NotSentCause::ALL {
        let classified = classify(&profile, &Answer::NotSent(cause), &circumstances(true));
        let refused = cause == NotSentCause::TokenRefused;
        let verdict = match refused {
            true => Verdict::Misconfigured,
            false => Verdict::NotSent,
        };
        assert_eq!(
            (classified.verdict, classified.detail),
            (verdict, cause.label())
        );
        assert_eq!(classified.flags, Flags::default());
    }
    for cause in LostCause::ALL {
        let classified = classify(&profile, &Answer::Lost(cause), &circumstances(true));
        assert_eq!(
            (classified.verdict, classified.detail),
            (Verdict::Unknown, cause.label())
        );
        assert_eq!(classified.flags, Flags::default());
    }
}
