//! What a deploy changes for an intent that is open: nothing. Terms, verdicts and bytes are those of the profile that began it.

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{
    Embedded, Home, KEYLESS_PROFILE, SOON, STUB_PROFILE, Sent, Setup, code, patient, sms,
};
use crate::scripted::{Act, Scripted, accepting, answer};
use crate::standing::Standing;
use crate::worker::Worker;

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

/// An intent whose first attempt was throttled under a profile that takes its sender from the environment. The deploy after
/// that has the sender in the profile.
struct Deploy {
    kafka: Embedded,
    provider: Scripted,
    before: Setup,
}

impl Deploy {
    async fn of(intent: &serde_json::Value) -> Self {
        let kafka = Embedded::with_partitions(1);
        let throttled = answer("429 Too Many Requests", "retry-after: 3\r\n", "{}");
        let provider = Scripted::playing([Act::Answer(throttled).not_taking(), accepting()]).await;
        let profile = STUB_PROFILE
            .replace(
                "[request]",
                "[settings]\nsender = \"env:SENDER\"\n\n[request]",
            )
            .replace("\"{{ from }}\"", "\"{{ settings.sender }}\"");
        let before = Setup::new(&kafka, &provider.url()).with_profile(&profile);
        kafka.publish(&[Sent::json(intent)]).await;
        Self {
            kafka,
            provider,
            before,
        }
    }

    /// Starts a worker before the deploy, ends it, and starts one after it, with or without the setting's value.
    async fn carried_out(&self, setting_stays: bool) -> (Home, Worker) {
        let sender = ("SENDER".to_owned(), "ACME".to_owned());
        let mut before = self.before.clone();
        before.environment.push(sender.clone());
        let home = Home::new(&before);
        let mut worker = home.start(&before);
        worker
            .until_count("sendonce_attempts_total", &[("verdict", "throttled")], 1)
            .await;
        worker.term();
        assert_eq!(code(worker.ended(SOON).await), 0);

        let profile = STUB_PROFILE.replace("\"{{ from }}\"", "\"ACME\"");
        let mut after = self.before.clone().with_profile(&profile);
        if setting_stays {
            after.environment.push(sender);
        }
        let after = after.in_another_group();
        home.configure(&after);
        let worker = home.start(&after);
        (home, worker)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deploy_that_drops_a_setting_ends_no_open_intent() {
    let deploy = Deploy::of(&sms("e-1", "hello")).await;
    let (_home, _worker) = deploy.carried_out(true).await;
    deploy.kafka.until_committed_in_another_group().await;
    assert_eq!(reasons(&dead_letters(&deploy.kafka)), []);
    let seen = deploy.provider.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_waits_for_the_profile_that_began_it_until_it_expires() {
    let mut intent = sms("e-1", "hello");
    let expiry = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(20);
    intent["expires_at"] = expiry.to_string().into();
    let deploy = Deploy::of(&intent).await;
    let (home, worker) = deploy.carried_out(false).await;
    worker.until_not_ready("profile_missing").await;
    deploy.kafka.until_committed_in_another_group().await;
    assert!(jiff::Timestamp::now() >= expiry);
    let standing = Standing::of(&deploy.kafka, &home).scripted(&deploy.provider);
    standing.in_another_group().holds(worker).await;
    assert_eq!(
        deploy.provider.seen().len(),
        1,
        "never with another profile"
    );
    let letters = dead_letters(&deploy.kafka);
    assert_eq!(reasons(&letters), [("expired", "profile_missing")]);
}
