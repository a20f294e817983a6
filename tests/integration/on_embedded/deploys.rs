//! What a deploy changes for an intent that is open: nothing. Terms, verdicts and bytes are those of the profile that began it.

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{
    Embedded, Home, KEYLESS_PROFILE, SOON, STUB_PROFILE, Sent, Setup, code, patient, sms,
};
use crate::scripted::{Act, Scripted, accepting, answer};
use crate::standing::Standing;

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_has_got_a_key_does_not_repeat_what_was_sent_without_one() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([Act::Hang.taking(), accepting()]).await;
    let setup = Setup::new(&kafka, &provider.url()).with_profile(&patient(KEYLESS_PROFILE));
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "hello"))]).await;
    let mut worker = home.start(&setup);
    provider.until_seen(1).await;
    worker.kill();

    let setup = setup
        .with_profile(&patient(STUB_PROFILE))
        .in_another_group();
    home.configure(&setup);
    let worker = home.start(&setup);
    kafka.until_committed_in_another_group().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.in_another_group().holds(worker).await;
    assert_eq!(provider.seen().len(), 1, "never repeated");
    let letters = dead_letters(&kafka);
    assert_eq!(reasons(&letters), [("outcome_unknown", "no_key")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_a_deploy_has_the_bytes_of_before_and_is_judged_by_the_rules_of_before() {
    let kafka = Embedded::with_partitions(1);
    let throttled = answer("429 Too Many Requests", "retry-after: 3\r\n", "{}");
    let taken = answer("418 I'm a teapot", "", r#"{"id":"msg-1"}"#);
    let turns = [
        Act::Answer(throttled).not_taking(),
        Act::Answer(taken).taking(),
    ];
    let provider = Scripted::playing(turns).await;
    let with_a_rule = STUB_PROFILE.replace(
        "[error_code]",
        "[[rule]]\nwhen = { status = 418 }\nclass = \"accepted\"\nreason = \"already_accepted\"\n\n[error_code]",
    );
    let setup = Setup::new(&kafka, &provider.url()).with_profile(&with_a_rule);
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "hello"))]).await;
    let mut worker = home.start(&setup);
    worker
        .until_count("sendonce_attempts_total", &[("verdict", "throttled")], 1)
        .await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);

    let another_body = STUB_PROFILE.replace("from      =", "sender    =");
    let setup = setup.with_profile(&another_body).in_another_group();
    home.configure(&setup);
    let worker = home.start(&setup);
    kafka.until_committed_in_another_group().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.in_another_group().holds(worker).await;
    let seen = provider.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body);
    let accepted = ledger.story("e-1").accepted().expect("accepted");
    assert_eq!(accepted.status, Some(418), "a refusal by the new rules");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deploy_that_drops_a_setting_ends_no_open_intent() {
    let kafka = Embedded::with_partitions(1);
    let throttled = answer("429 Too Many Requests", "retry-after: 3\r\n", "{}");
    let provider = Scripted::playing([Act::Answer(throttled).not_taking(), accepting()]).await;
    let before = STUB_PROFILE
        .replace(
            "[request]",
            "[settings]\nsender = \"env:SENDER\"\n\n[request]",
        )
        .replace("\"{{ from }}\"", "\"{{ settings.sender }}\"");
    let mut setup = Setup::new(&kafka, &provider.url()).with_profile(&before);
    setup.environment.push(("SENDER".into(), "ACME".into()));
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "hello"))]).await;
    let mut worker = home.start(&setup);
    worker
        .until_count("sendonce_attempts_total", &[("verdict", "throttled")], 1)
        .await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);

    let after = STUB_PROFILE.replace("\"{{ from }}\"", "\"ACME\"");
    let setup = setup.with_profile(&after).in_another_group();
    home.configure(&setup);
    let _worker = home.start(&setup);
    kafka.until_committed_in_another_group().await;
    assert_eq!(reasons(&dead_letters(&kafka)), []);
    let seen = provider.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body);
}
