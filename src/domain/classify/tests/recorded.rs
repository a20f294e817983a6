//! Answers in recorded form, in `answers/`: what each means at its profile. Rows of the vendors' list of answers are named by
//! their number, and every rule of every profile is met by one at least.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;
use super::{circumstances, line, response};
use crate::domain::profile::tests::{SHIPPED, shipped};

/// The answers at each profile, by its name.
macro_rules! answers {
    ($($name:literal,)*) => {
        const ANSWERS: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("answers/", $name, ".toml")),
        )),*];
    };
}
answers! {
    "adyen",
    "ahasend",
    "apns",
    "azure-email",
    "azure-sms",
    "bandwidth",
    "braze-transactional",
    "brevo",
    "captifi",
    "clickatell",
    "courier",
    "discord-bot",
    "discord-webhook",
    "emailit",
    "fcm",
    "generic",
    "govuk-notify",
    "hyperline",
    "infobip",
    "infobip-idempotent",
    "knock",
    "line",
    "loops",
    "mailgun",
    "nhs-notify",
    "novu",
    "nylas",
    "onesignal",
    "paypal",
    "postmark",
    "postmark-batch",
    "qstash",
    "resend",
    "sendgrid",
    "ses",
    "slack",
    "sparkpost",
    "square",
    "square-bulk",
    "stripe",
    "telnyx-email",
    "twilio",
    "usesend",
    "vonage",
}

/// Profiles of vendors for whom none ships: they prove the format.
macro_rules! fixture_profiles {
    ($($name:literal,)*) => {
        const FIXTURES: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("fixture_profiles/", $name, ".toml")),
        )),*];
    };
}
fixture_profiles! {
    "ahasend",
    "azure-email",
    "azure-sms",
    "braze-transactional",
    "clickatell",
    "emailit",
    "hyperline",
    "nylas",
    "postmark-batch",
    "qstash",
    "square-bulk",
    "usesend",
}

/// Rows that no answer decides: what is decided instead, and where that is a test by the row's number, its file.
const ELSEWHERE: &[(u16, &str, Option<&str>)] = &[
    (7, "the window is over before anything is sent", WINDOWS),
    (
        13,
        "a key that is longer than its field is refused",
        PROFILES,
    ),
    (14, "no key is empty", PROFILES),
    (56, "a key that does not fit is hashed, never cut", PROFILES),
    (
        78,
        "the window is looked at right before each attempt",
        WINDOWS,
    ),
    (82, "another region is another request", PLACES),
    (
        83,
        "of two windows that are documented the shorter counts",
        WINDOWS,
    ),
    (128, "a wait that cannot be used is ignored", WAITS),
    (132, "each hole of a URL is encoded by itself", RENDERING),
    (
        133,
        "equal texts are counted against what the ledger explains",
        LOOK_UPS,
    ),
    (
        135,
        "a find is accepted, whatever became of its delivery",
        None,
    ),
    (137, "absence beyond the retention proves nothing", None),
    (139, "absence beyond the retention proves nothing", None),
    (
        140,
        "absence within the consistency delay proves nothing",
        None,
    ),
    (
        141,
        "a find by the key in the data is accepted, with its id",
        None,
    ),
];

const WINDOWS: Option<&str> = Some(include_str!("../../dispatch/tests/windows.rs"));
const PROFILES: Option<&str> = Some(include_str!("../../profile/tests.rs"));
const PLACES: Option<&str> = Some(include_str!("../../render/places_tests.rs"));
const RENDERING: Option<&str> = Some(include_str!("../../render/tests.rs"));
const WAITS: Option<&str> = Some(include_str!("../../retry_after.rs"));
const LOOK_UPS: Option<&str> = Some(include_str!("../../reconcile/tests.rs"));

/// Every row of the vendors' list of answers.
const ROWS: &[u16] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 24, 25, 26, 27, 29, 30,
    31, 32, 34, 35, 36, 37, 38, 39, 40, 42, 43, 44, 46, 47, 48, 49, 51, 52, 53, 56, 57, 58, 60, 61,
    62, 64, 65, 67, 68, 69, 70, 72, 73, 75, 76, 77, 78, 80, 82, 83, 85, 86, 87, 88, 89, 90, 91, 92,
    93, 95, 96, 98, 100, 101, 102, 103, 105, 106, 108, 110, 111, 112, 113, 116, 117, 118, 119, 121,
    123, 125, 126, 128, 129, 130, 132, 133, 135, 137, 139, 140, 141,
];

/// One answer and what it means.
struct Recorded {
    /// What it shows, with the number of its row in front if it has one.
    is: String,
    first_attempt: bool,
    response: Response,
    means: String,
    id: Option<String>,
    code: Option<String>,
    wait: Option<String>,
}

fn recorded(text: &str) -> Vec<Recorded> {
    let table: toml::Table = text.parse().unwrap();
    let answers = table["answer"].as_array().unwrap();
    answers
        .iter()
        .map(|answer| {
            let fields = answer.as_table().unwrap();
            let known = [
                "is", "at", "status", "header", "body", "means", "id", "code", "wait",
            ];
            for field in fields.keys() {
                assert!(
                    known.contains(&field.as_str()),
                    "{field} is no field of an answer"
                );
            }
            let text = |field: &str| Some(fields.get(field)?.as_str().unwrap().to_owned());
            let headers: Vec<(&str, &str)> = fields
                .get("header")
                .iter()
                .flat_map(|headers| headers.as_table().unwrap())
                .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
                .collect();
            let status = fields["status"].as_integer().unwrap().try_into().unwrap();
            let body = text("body").unwrap_or_default();
            Recorded {
                is: text("is").unwrap(),
                first_attempt: match text("at").as_deref() {
                    None => true,
                    Some("repeat") => false,
                    Some(other) => panic!("{other} is no attempt"),
                },
                response: response(status, &headers, &body),
                means: text("means").unwrap(),
                id: text("id"),
                code: text("code"),
                wait: text("wait"),
            }
        })
        .collect()
}

fn profile_named(name: &str) -> Profile {
    match FIXTURES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => {
            Profile::parse(text).unwrap_or_else(|faults| panic!("{name}: {faults:#?}"))
        }
        None => shipped(name),
    }
}

fn asked(wait: Wait) -> String {
    let seconds = wait.at_least.as_secs_f64();
    match wait.scope {
        WaitScope::Intent => format!("{seconds}s"),
        WaitScope::Account => format!("{seconds}s account"),
        WaitScope::Recipient => format!("{seconds}s recipient"),
    }
}

/// The number of a row, `V35` in front of what an answer shows.
fn row(is: &str) -> Option<u16> {
    let (number, _) = is.strip_prefix('V')?.split_once(' ')?;
    number.parse().ok()
}

/// The rows that are tests of their own beside this file, by its text.
fn rows_written_out() -> BTreeSet<u16> {
    let texts = [include_str!("vendors.rs"), include_str!("cases.rs")];
    let tests = texts.iter().flat_map(|text| text.split("fn v").skip(1));
    let numbers = tests.map(|rest| rest.split('_').next().unwrap().parse().unwrap());
    numbers.collect()
}

#[test]
fn every_recorded_answer_means_what_is_written_beside_it() {
    let mut wrong = Vec::new();
    for (name, text) in ANSWERS {
        let profile = profile_named(name);
        for answer in recorded(text) {
            let read = Answer::Response(answer.response);
            let classified = classify(&profile, &read, &circumstances(answer.first_attempt));
            let found = [
                Some(line(&classified)),
                classified.message_id,
                classified.provider_code,
                classified.wait.map(asked),
            ];
            let expected = [Some(answer.means), answer.id, answer.code, answer.wait];
            if found != expected {
                wrong.push(format!(
                    "{name}, {}:\n  expected {expected:?}\n  found    {found:?}",
                    answer.is
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn p19_a_body_that_cannot_be_read_never_says_something_else() {
    for (name, text) in ANSWERS {
        let profile = profile_named(name);
        for answer in recorded(text) {
            let verdict = |response| {
                let read = Answer::Response(response);
                classify(&profile, &read, &circumstances(answer.first_attempt)).verdict
            };
            let whole = verdict(answer.response.clone());
            let half = answer.response.body.len() / 2;
            let half = answer.response.body.slice(..half);
            let mut packed = answer.response.clone();
            let encoding = http::HeaderValue::from_static("gzip");
            packed.headers.insert("content-encoding", encoding);
            let mut broken = answer.response.clone();
            broken.body = half;
            broken.body_complete = false;
            for unreadable in [packed, broken] {
                let told = verdict(unreadable);
                assert!(
                    told == whole || told == Verdict::Unknown,
                    "{name}, {}: {whole} and then {told}",
                    answer.is
                );
            }
        }
    }
}

#[test]
fn every_rule_of_every_profile_is_met_by_a_recorded_answer() {
    let mut unmet = Vec::new();
    for (name, text) in ANSWERS {
        let profile = profile_named(name);
        let marks = profile.key.as_ref().map_or(&[][..], |key| &key.replay);
        let answers = recorded(text);
        for (index, rule) in profile.rules.iter().enumerate() {
            let met = answers.iter().any(|answer| {
                let reading = Reading::new(&answer.response, marks, answer.first_attempt);
                let judgement = weigh(&profile, answer.response.status, &reading);
                judgement
                    .rule
                    .is_some_and(|counts| std::ptr::eq(counts, rule))
            });
            if !met {
                unmet.push(format!("{name} rule[{index}]"));
            }
        }
    }
    assert_eq!(unmet, Vec::<String>::new());
}

#[test]
fn every_mark_of_a_replay_is_seen_in_a_recorded_answer() {
    let mut unseen = Vec::new();
    for (name, text) in ANSWERS {
        let profile = profile_named(name);
        let marks = profile.key.as_ref().map_or(&[][..], |key| &key.replay);
        let answers = recorded(text);
        for (index, mark) in marks.iter().enumerate() {
            let seen = answers.iter().any(|answer| {
                let reading = Reading::new(&answer.response, std::slice::from_ref(mark), false);
                reading.replay() == Holds::Yes
            });
            if !seen {
                unseen.push(format!("{name} key.replay[{index}]"));
            }
        }
    }
    assert_eq!(unseen, Vec::<String>::new());
}

#[test]
fn every_shipped_profile_has_recorded_answers() {
    for (name, _) in SHIPPED.iter().chain(FIXTURES) {
        assert!(ANSWERS.iter().any(|(known, _)| known == name), "{name}");
    }
    assert_eq!(ANSWERS.len(), SHIPPED.len() + FIXTURES.len());
}

#[test]
fn every_row_is_decided_here_or_it_is_told_where() {
    let mut rows: BTreeMap<u16, usize> = BTreeMap::new();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, text) in ANSWERS {
        for answer in recorded(text) {
            *named.entry(name).or_default() += 1;
            if let Some(row) = row(&answer.is) {
                *rows.entry(row).or_default() += 1;
            }
        }
    }
    for row in rows_written_out() {
        *rows.entry(row).or_default() += 1;
        *named.entry("written out").or_default() += 1;
    }
    println!("verdict tests by profile: {named:#?}");
    println!("verdict tests by row: {rows:?}");
    println!("verdict tests in all: {}", named.values().sum::<usize>());
    let elsewhere = ELSEWHERE.iter().map(|(row, ..)| *row);
    let decided: BTreeSet<u16> = rows.keys().copied().chain(elsewhere).collect();
    assert_eq!(decided, ROWS.iter().copied().collect());
    for (row, what, tests) in ELSEWHERE {
        assert!(!rows.contains_key(row), "V{row} is decided here: {what}");
        if let Some(tests) = tests {
            let test = format!("fn v{row:02}_");
            assert!(tests.contains(&test), "V{row} is no test there: {what}");
        }
    }
}
