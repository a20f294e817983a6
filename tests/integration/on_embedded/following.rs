//! The ledger follows its partition: what one instance knows, another one finds in the ledger topic, with a disk that is empty.

use sendonce::stub_provider::{Fault, Options};

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{
    Embedded, Home, KEYLESS_PROFILE, SOON, STUB_PROFILE, Sent, Setup, code, patient, sms,
};
use crate::scripted::{Act, Scripted, accepting, answer};
use crate::standing::Standing;
use crate::stub::Stub;

fn replicated(kafka: &Embedded, url: &str) -> Setup {
    Setup::new(kafka, url).set("LEDGER__REPLICATION", "topic")
}

async fn keyless() -> Stub {
    Stub::start(Options {
        keys: false,
        ..Options::default()
    })
    .await
}

fn intents(count: usize) -> Vec<Sent> {
    let one = |n| Sent::json(&sms(&format!("e-{n}"), "hello"));
    (0..count).map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_with_an_empty_disk_sends_nothing_again() {
    let kafka = Embedded::with_partitions(2);
    let stub = keyless().await;
    let setup = replicated(&kafka, &stub.url()).with_profile(KEYLESS_PROFILE);
    let home = Home::new(&setup);
    kafka.publish(&intents(100)).await;
    let mut worker = home.start(&setup);
    kafka.until_committed().await;
    worker.kill();

    let setup = setup.in_another_group();
    let elsewhere = Home::new(&setup);
    let worker = elsewhere.start(&setup);
    kafka.until_committed_in_another_group().await;
    let ledger = [("reason", "ledger")];
    assert_eq!(
        worker.count("sendonce_suppressed_total", &ledger).await,
        100
    );
    assert_eq!(worker.count("sendonce_attempts_total", &[]).await, 0);
    let standing = Standing::of(&kafka, &elsewhere).stub(&stub);
    standing.in_another_group().holds(worker).await;
    assert_eq!(stub.stats().await.deliveries, 100);
    assert_eq!(reasons(&dead_letters(&kafka)), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_instance_died_over_is_not_repeated_by_one_that_has_an_empty_disk() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([Act::Hang.taking(), accepting()]).await;
    let setup = replicated(&kafka, &provider.url()).with_profile(&patient(KEYLESS_PROFILE));
    let home = Home::new(&setup);
    kafka.publish(&intents(1)).await;
    let mut worker = home.start(&setup);
    provider.until_seen(1).await;
    worker.kill();

    let setup = setup.in_another_group();
    let elsewhere = Home::new(&setup);
    let worker = elsewhere.start(&setup);
    kafka.until_committed_in_another_group().await;
    let standing = Standing::of(&kafka, &elsewhere).scripted(&provider);
    standing.in_another_group().holds(worker).await;
    assert_eq!(provider.seen().len(), 1, "never repeated");
    let letters = dead_letters(&kafka);
    assert_eq!(reasons(&letters), [("outcome_unknown", "no_key")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_intent_goes_on_elsewhere_in_its_series_with_the_bytes_that_began_it() {
    let kafka = Embedded::with_partitions(1);
    let failed = answer("503 Service Unavailable", "retry-after: 3\r\n", "{}");
    let turns = [Act::Answer(failed).not_taking(), accepting()];
    let provider = Scripted::playing(turns).await;
    let setup = replicated(&kafka, &provider.url());
    let home = Home::new(&setup);
    kafka.publish(&intents(1)).await;
    let mut worker = home.start(&setup);
    worker
        .until_count("sendonce_attempts_total", &[("verdict", "unknown")], 1)
        .await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);

    let another_body = STUB_PROFILE.replace("from      =", "sender    =");
    let setup = setup.with_profile(&another_body).in_another_group();
    let elsewhere = Home::new(&setup);
    let worker = elsewhere.start(&setup);
    kafka.until_committed_in_another_group().await;
    let standing = Standing::of(&kafka, &elsewhere).scripted(&provider);
    let ledger = standing.in_another_group().holds(worker).await;
    let seen = provider.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(
        (seen[0].key(), &seen[0].body),
        (seen[1].key(), &seen[1].body)
    );
    assert_eq!(ledger.story("e-0").attempts.len(), 2, "of two instances");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_written_once_whoever_reads_its_intent_again() {
    let kafka = Embedded::with_partitions(1);
    let stub = Stub::with(&[(Fault::StoredError, 1.0)]).await;
    let setup = replicated(&kafka, &stub.url()).set("RETRY__BASE", "20ms");
    let home = Home::new(&setup);
    let mut records = intents(3);
    records.push(Sent::json(&serde_json::json!({"id": 7})));
    kafka.publish(&records).await;
    let mut worker = home.start(&setup);
    kafka.until_committed().await;
    let before = dead_letters(&kafka).len();
    worker.kill();

    let setup = setup.in_another_group();
    let elsewhere = Home::new(&setup);
    let worker = elsewhere.start(&setup);
    kafka.until_committed_in_another_group().await;
    assert_eq!(worker.count("sendonce_attempts_total", &[]).await, 0);
    let depth = worker.count("sendonce_dead_letter_depth", &[]).await;
    assert_eq!(depth, 4, "also what others have set aside");
    let standing = Standing::of(&kafka, &elsewhere).stub(&stub);
    standing.in_another_group().holds(worker).await;
    assert_eq!((before, dead_letters(&kafka).len()), (4, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_was_not_replicated_before_is_told_to_the_topic() {
    let kafka = Embedded::with_partitions(1);
    let stub = keyless().await;
    let alone = Setup::new(&kafka, &stub.url()).with_profile(KEYLESS_PROFILE);
    let home = Home::new(&alone);
    kafka.publish(&intents(50)).await;
    let mut worker = home.start(&alone);
    kafka.until_committed().await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);

    let setup = replicated(&kafka, &stub.url())
        .with_profile(KEYLESS_PROFILE)
        .set("KAFKA__GROUP", "sendonce-between");
    home.configure(&setup);
    let mut worker = home.start(&setup);
    kafka
        .until_committed_to_the_end("sendonce-between", "send-intents", SOON)
        .await;
    worker.kill();
    let setup = setup.in_another_group();
    let elsewhere = Home::new(&setup);
    let worker = elsewhere.start(&setup);
    kafka.until_committed_in_another_group().await;
    let standing = Standing::of(&kafka, &elsewhere).stub(&stub);
    standing.in_another_group().holds(worker).await;
    assert_eq!(stub.stats().await.deliveries, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_story_of_a_partition_that_is_gone_holds_nothing_up() {
    let two = Embedded::with_partitions(2);
    let stub = keyless().await;
    let alone = Setup::new(&two, &stub.url()).with_profile(KEYLESS_PROFILE);
    let home = Home::new(&alone);
    let of_the_second: Vec<_> = intents(4).into_iter().map(|sent| sent.at(1)).collect();
    two.publish(&of_the_second).await;
    let mut worker = home.start(&alone);
    two.until_committed().await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);

    let one = Embedded::with_partitions(1);
    let setup = replicated(&one, &stub.url()).with_profile(KEYLESS_PROFILE);
    home.configure(&setup);
    one.publish(&[Sent::json(&sms("new", "hello"))]).await;
    let _worker = home.start(&setup);
    one.until_committed().await;
    assert_eq!(stub.stats().await.deliveries, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_with_an_empty_disk_owes_the_topic_nothing() {
    let kafka = Embedded::with_partitions(1);
    let stub = keyless().await;
    let setup = replicated(&kafka, &stub.url()).with_profile(KEYLESS_PROFILE);
    kafka.publish(&intents(200)).await;
    let home = Home::new(&setup);
    let mut worker = home.start(&setup);
    kafka.until_committed().await;
    worker.kill();
    let before = kafka.watermarks("send-intents.ledger")[0].1;
    for group in ["second", "third"] {
        let setup = setup.clone().set("KAFKA__GROUP", group);
        let elsewhere = Home::new(&setup);
        let mut worker = elsewhere.start(&setup);
        kafka
            .until_committed_to_the_end(group, "send-intents", SOON)
            .await;
        worker.kill();
    }
    let after = kafka.watermarks("send-intents.ledger")[0].1;
    assert_eq!(after - before, 4, "a marker and a profile each");
    assert_eq!(stub.stats().await.deliveries, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_topic_that_was_made_anew_is_not_taken_for_the_one_that_was_followed() {
    let stub = keyless().await;
    let first = Embedded::with_partitions(1);
    let setup = replicated(&first, &stub.url()).with_profile(KEYLESS_PROFILE);
    first.publish(&intents(100)).await;
    let sleeper = Home::new(&setup);
    let mut worker = sleeper.start(&setup);
    first.until_committed().await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);

    // Its log grows past where the sleeper had left the other one.
    let anew = Embedded::with_partitions(1);
    let setup = replicated(&anew, &stub.url()).with_profile(KEYLESS_PROFILE);
    let others = (0..200).map(|n| Sent::json(&sms(&format!("another-{n}"), "hello")));
    anew.publish(&others.collect::<Vec<_>>()).await;
    let home = Home::new(&setup);
    let mut worker = home.start(&setup);
    anew.until_committed().await;
    worker.kill();

    let setup = setup.in_another_group();
    sleeper.configure(&setup);
    let _worker = sleeper.start(&setup);
    anew.until_committed_in_another_group().await;
    assert_eq!(stub.stats().await.deliveries, 300, "none of them twice");
    assert!(
        sleeper
            .log()
            .contains("is not the one that this ledger has followed")
    );
}
