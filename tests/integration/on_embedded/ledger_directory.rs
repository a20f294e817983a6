//! The ledger's directory: P49, and what is said of one that cannot be used.

use std::fs;
use std::time::Duration;

use crate::product::{Embedded, Home, SOON, STUB_PROFILE, Sent, Setup, code, patient, sms};
use crate::scripted::{Act, Scripted, accepting};
use crate::standing::Standing;

/// What a start says that the directory of the ledger does not allow (`EX_UNAVAILABLE` of sysexits.h).
const UNAVAILABLE: i32 = 69;

#[tokio::test(flavor = "multi_thread")]
async fn p49_a_second_process_names_the_first_and_a_killed_one_is_followed_at_once() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([Act::Hang.not_taking(), accepting()]).await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(&patient(STUB_PROFILE))
        .set("RETRY__BASE", "20ms");
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "hello"))]).await;
    let mut first = home.start(&setup);
    provider.until_seen(1).await;

    let elsewhere = Home::new(&setup);
    let same_ledger = Setup::new(&kafka, &provider.url())
        .set("LEDGER__DIRECTORY", home.path("ledger").to_str().unwrap());
    let mut second = elsewhere.start(&same_ledger);
    assert_eq!(
        code(second.ended(Duration::from_secs(5)).await),
        UNAVAILABLE
    );
    let log = elsewhere.log();
    assert!(
        log.contains(&format!("in use by process {}", first.pid())),
        "{log}"
    );
    assert!(!log.contains("assigned"), "{log}");
    assert_eq!(provider.seen().len(), 1);

    first.kill();
    let again = home.start(&setup.in_another_group());
    assert!(
        home.path("ledger/lock").exists(),
        "a leftover file is in nobody's way"
    );
    kafka.until_committed_in_another_group().await;
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .in_another_group()
        .holds(again)
        .await;
    assert_eq!(provider.seen().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_cannot_be_used_keeps_the_process_from_starting_and_says_what_to_do() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([accepting()]).await;
    let setup = Setup::new(&kafka, &provider.url());
    let home = Home::new(&setup);
    kafka.publish(&[Sent::json(&sms("e-1", "hello"))]).await;
    fs::write(home.path("ledger"), "no directory").unwrap();
    assert_eq!(code(home.start(&setup).ended(SOON).await), UNAVAILABLE);
    let path = home.path("ledger").display().to_string();
    assert!(home.log().contains(&path), "{}", home.log());

    fs::remove_file(home.path("ledger")).unwrap();
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let free = "sendonce_ledger_disk_free_bytes";
    worker.until_count(free, &[], 1).await;
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .holds(worker)
        .await;
    fs::write(home.path("ledger/format"), "no longer what it was").unwrap();
    assert_eq!(code(home.start(&setup).ended(SOON).await), UNAVAILABLE);
    let log = home.log();
    assert!(
        log.contains("the ledger is damaged") && log.contains("restore the"),
        "{log}"
    );
    assert_eq!(provider.seen().len(), 1, "never opened as an empty one");
}
