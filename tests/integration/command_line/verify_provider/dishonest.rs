//! Each way to break the word about keys, caught by the check that is about it.

use super::{EXECUTE, FAILING, PROFILE, StubProcess, asked_by_content, broken, checks, verify};
use crate::command_line::text;

#[test]
fn a_provider_that_forgets_keys_after_two_seconds_is_caught_by_their_being_forgotten() {
    let stub = StubProcess::start(&["--window", "2", "--lookups-after-ms", "0"]);
    let output = verify(
        &stub,
        PROFILE,
        &["--execute", "--json", "--forget-after", "3"],
    );
    assert_eq!(broken(&output), ["forgetting"], "{}", text(&output.stdout));
    assert_eq!(
        checks(&output)["forgetting"].1,
        "forgotten after 3s: another message, two under one key"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_provider_that_ignores_the_body_is_caught_by_its_silence() {
    let stub = StubProcess::start(&["--ignore-body", "--lookups-after-ms", "0"]);
    let output = verify(&stub, PROFILE, &EXECUTE);
    assert_eq!(broken(&output), ["other_body"], "{}", text(&output.stdout));
    assert_eq!(
        checks(&output)["other_body"].1,
        "silently answered with the first message (201, accepted, a replay)"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_provider_that_stores_errors_is_caught_by_the_error_that_comes_again() {
    let stub = StubProcess::start(&[
        "--fails-for",
        FAILING,
        "--store-errors",
        "--lookups-after-ms",
        "0",
    ]);
    let output = verify(
        &stub,
        PROFILE,
        &[&EXECUTE[..], &["--failing", "FAILING"]].concat(),
    );
    assert_eq!(broken(&output), ["stores"], "{}", text(&output.stdout));
    assert_eq!(
        checks(&output)["stores"].1,
        "a 500 was stored: a retry replays it"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_error_that_no_one_asked_for_shows_that_errors_are_stored_too() {
    let stub = StubProcess::start(&["--fault", "stored_error=1", "--first-only"]);
    let output = verify(&stub, PROFILE, &EXECUTE);
    assert_eq!(broken(&output), ["stores"], "{}", text(&output.stdout));
    assert_eq!(
        checks(&output)["first_send"].1,
        "not accepted: 500, unknown (stored_error), a replay, at attempt 2"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_provider_that_lets_requests_at_once_through_is_caught_by_its_two_messages() {
    let stub = StubProcess::start(&[
        "--no-lock",
        "--fault",
        "slow=1",
        "--slow-ms",
        "300",
        "--lookups-after-ms",
        "0",
    ]);
    let output = verify(&stub, PROFILE, &EXECUTE);
    assert_eq!(broken(&output), ["at_once"], "{}", text(&output.stdout));
    let (_, observed) = &checks(&output)["at_once"];
    assert!(observed.contains(" messages for one key: "), "{observed}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_delay_that_is_too_short_is_caught_by_the_message_that_is_absent_after_it() {
    let stub = StubProcess::start(&["--no-keys", "--lookups-after-ms", "600000"]);
    let output = verify(&stub, &asked_by_content("1s"), &EXECUTE);
    assert_eq!(broken(&output), ["look_up"], "{}", text(&output.stdout));
    let (_, observed) = &checks(&output)["look_up"];
    assert!(observed.starts_with("absent after "), "{observed}");
    assert_eq!(output.status.code(), Some(1));
}
