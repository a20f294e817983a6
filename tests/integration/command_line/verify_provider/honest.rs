//! Providers that keep their word, and what can be said of those that promise little.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{EXECUTE, FAILING, PROFILE, StubProcess, asked_by_content, checks, keyless, verify};
use crate::command_line::text;

#[test]
fn an_honest_provider_keeps_its_word_and_the_profile_may_say_that_it_was_seen() {
    let stub = StubProcess::start(&["--lookups-after-ms", "400", "--fails-for", FAILING]);
    let output = verify(
        &stub,
        PROFILE,
        &[&EXECUTE[..], &["--failing", "FAILING"]].concat(),
    );
    let checks = checks(&output);
    let verdicts: BTreeMap<_, _> = checks
        .iter()
        .map(|(name, (verdict, _))| (name.as_str(), verdict.as_str()))
        .collect();
    // The stub takes keys of any length and character, and no profile says what a lost key gets.
    let unknown = ["missing_key", "outside_key_alphabet", "too_long_key"];
    for (name, verdict) in &verdicts {
        let expected = if unknown.contains(name) {
            "unknown"
        } else {
            "holds"
        };
        assert_eq!(*verdict, expected, "{name}: {}", checks[*name].1);
    }
    assert_eq!(verdicts.len(), 16, "{verdicts:?}");
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let proposal = report["proposals"][0].as_str().unwrap();
    assert!(
        proposal.starts_with("verified = \"observed\""),
        "{proposal}"
    );
}

#[test]
fn a_provider_that_takes_its_time_is_asked_again_while_it_works_on_a_key() {
    let stub = StubProcess::start(&[
        "--fault",
        "slow=1",
        "--slow-ms",
        "300",
        "--lookups-after-ms",
        "0",
    ]);
    let output = verify(&stub, PROFILE, &EXECUTE);
    let checks = checks(&output);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let (verdict, observed) = &checks["at_once"];
    assert_eq!(verdict, "holds", "{observed}");
    assert!(observed.contains(" in_progress"), "{observed}");
    assert_eq!(checks["cut_connection"].0, "holds", "{checks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_provider_without_keys_only_what_can_be_seen_is_said() {
    let stub = StubProcess::start(&["--no-keys"]);
    let output = verify(&stub, &keyless(), &EXECUTE);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let checks = checks(&output);
    let holds = ["first_send", "latency"];
    for (name, (verdict, observed)) in &checks {
        let expected = match holds.contains(&name.as_str()) {
            true => "holds",
            false => "not_applicable",
        };
        assert_eq!(verdict, expected, "{name}: {observed}");
    }
    assert_eq!(stub.stats().await["deliveries"], 4);
}

#[test]
fn a_look_up_by_content_finds_the_message_and_leaves_out_what_is_explained() {
    let stub = StubProcess::start(&["--no-keys", "--lookups-after-ms", "300"]);
    let output = verify(&stub, &asked_by_content("30s"), &EXECUTE);
    let checks = checks(&output);
    assert!(
        checks["look_up"].1.starts_with("found after "),
        "{checks:?}"
    );
    assert_eq!(checks["look_up"].0, "holds", "{checks:?}");
    assert_eq!(checks["look_up_absence"].0, "holds", "{checks:?}");
}
