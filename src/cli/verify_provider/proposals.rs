//! Decides what a profile could state after what was seen. It edits no file: what a profile says is its author's word.

use std::time::Duration;

use crate::config::spans;
use crate::domain::profile::Profile;
use crate::domain::time::Timestamp;

use super::latency::Latency;
use super::other_body::Noticed;
use super::report::{Check, Standing};
use super::{first_send, stores};

/// What was seen beside the checks' verdicts.
#[derive(Debug, Default)]
pub struct Learnt {
    /// Whether another body is noticed.
    pub noticed: Option<Noticed>,
    /// By what a replay differs from a fresh answer, as lines of TOML.
    pub marks: Vec<String>,
    /// Errors that came again.
    pub repeated: Vec<stores::Repeated>,
    /// What sends took.
    pub latency: Option<Latency>,
    /// When a message was found.
    pub found_after: Option<Duration>,
    /// The status at which equal requests at once were called a conflict.
    pub mistaken_conflict: Option<u16>,
}

/// What the profile could state, as lines of TOML or sentences.
pub fn proposals(
    profile: &Profile,
    checks: &[Check],
    learnt: &Learnt,
    today: Timestamp,
) -> Vec<String> {
    let mut lines = Vec::new();
    let stands = |name: &str, standing: Standing| {
        checks
            .iter()
            .any(|check| check.check == name && check.verdict == standing)
    };
    let broken = checks.iter().any(|check| check.verdict == Standing::Broken);
    let seen = stands(first_send::NAME, Standing::Holds)
        && (profile.key.is_none() || stands("replay", Standing::Holds));
    if !broken && seen {
        let today = today.to_string();
        let day = today.split('T').next().unwrap_or_default();
        lines.push(format!("verified = \"observed\", verified_on = \"{day}\""));
    }
    if let Some(key) = &profile.key {
        let noticed = match learnt.noticed {
            Some(Noticed::Yes) => Some(true),
            Some(Noticed::No) => Some(false),
            Some(Noticed::CannotTell) | None => None,
        };
        if let Some(noticed) = noticed.filter(|noticed| key.compares_body != Some(*noticed)) {
            lines.push(format!("[key] compares_body = {noticed}"));
        }
        if key.replay.is_empty() {
            lines.extend(learnt.marks.iter().map(|mark| format!("[key] {mark}")));
        }
        if key.stores.is_none()
            && let Some(stores) = stores::proposal(&learnt.repeated)
        {
            lines.push(format!("[key] {stores}"));
        }
        if let Some(status) = learnt.mistaken_conflict {
            lines.push(format!(
                "a rule that tells a {status} for a key in progress from a conflict: equal requests at once were called one"
            ));
        }
    }
    if let Some(latency) = &learnt.latency {
        let timeout = latency.timeout(profile.timeouts.connect);
        lines.push(format!(
            "[timeouts] request = \"{}\", p99 = \"{}ms\", p99_source = \"measured\"",
            spans::show(timeout),
            latency.p99.as_micros().div_ceil(1_000).max(1)
        ));
    }
    if let (Some(lookup), Some(after)) = (&profile.lookup, learnt.found_after) {
        lines.push(format!(
            "[lookup] delay: found after {} ms, the profile waits {}",
            after.as_millis(),
            spans::show(lookup.delay)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = r#"
vendor = "fixture"
operation = "send"
verified = "documented"
verified_on = "2026-11-30"
accepted = { status = "2xx", id = "/id" }
request = { method = "POST", url = "https://fixture.example/send", body = { kind = "json", template = { to = "{{ to }}" } } }
key = { place = "header Key", max_len = 64, window = "24h", window_source = "assumed" }
"#;

    fn checks(verdicts: &[(&'static str, Standing)]) -> Vec<Check> {
        let check = |(name, verdict): &(&'static str, Standing)| Check {
            check: name,
            claim: String::new(),
            observed: String::new(),
            verdict: *verdict,
        };
        verdicts.iter().map(check).collect()
    }

    fn proposed(verdicts: &[(&'static str, Standing)], learnt: &Learnt) -> Vec<String> {
        let profile = Profile::parse(PROFILE).unwrap();
        let today = Timestamp::parse_rfc3339("2026-12-24T10:00:00Z").unwrap();
        proposals(&profile, &checks(verdicts), learnt, today)
    }

    #[test]
    fn a_provider_that_kept_its_word_was_observed() {
        use Standing::{Broken, Holds, Unknown};
        let observed = vec!["verified = \"observed\", verified_on = \"2026-12-24\"".to_owned()];
        let held = [("first_send", Holds), ("replay", Holds)];
        assert_eq!(proposed(&held, &Learnt::default()), observed);
        for broken in [
            [("first_send", Holds), ("replay", Unknown)],
            [("first_send", Holds), ("replay", Broken)],
            [("replay", Holds), ("first_send", Unknown)],
        ] {
            assert_eq!(proposed(&broken, &Learnt::default()), Vec::<String>::new());
        }
    }

    #[test]
    fn what_the_profile_does_not_say_is_proposed_as_it_was_seen() {
        let learnt = Learnt {
            noticed: Some(Noticed::No),
            marks: vec!["replay = { status = 200 }".to_owned()],
            repeated: vec![
                stores::Repeated {
                    status: 400,
                    stored: true,
                    burned: false,
                },
                stores::Repeated {
                    status: 500,
                    stored: true,
                    burned: false,
                },
            ],
            latency: Latency::of(vec![Duration::from_secs(4)]),
            found_after: None,
            mistaken_conflict: Some(409),
        };
        insta::assert_snapshot!(proposed(&[], &learnt).join("\n"), @r#"
        [key] compares_body = false
        [key] replay = { status = 200 }
        [key] stores = "all"
        a rule that tells a 409 for a key in progress from a conflict: equal requests at once were called one
        [timeouts] request = "45s", p99 = "4000ms", p99_source = "measured"
        "#);
    }
}
