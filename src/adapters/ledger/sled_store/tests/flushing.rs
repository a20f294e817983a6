//! Decides that nothing is told before its flush, and that writes share flushes.

use std::sync::{Arc, Mutex, OnceLock};

use super::{options, start_all};
use crate::adapters::ledger::examples::{START, answered, block, persist, recall, started};
use crate::adapters::ledger::sled_store::{FlushReport, LedgerOptions, SledLedger};
use crate::adapters::ledger::{Ledger, LedgerError};
use crate::domain::attempt::Verdict;
use crate::domain::ledger_entry::Story;

#[test]
fn a_story_is_recalled_as_it_was_until_its_flush_is_over() {
    type Seen = (FlushReport, Option<Arc<Story>>);
    let directory = tempfile::tempdir().unwrap();
    let ledger: Arc<OnceLock<Arc<SledLedger>>> = Arc::default();
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let (asked, seeing) = (Arc::clone(&ledger), Arc::clone(&seen));
    let options = LedgerOptions {
        watch: Some(Arc::new(move |report| {
            let recalled = recall(&**asked.get().unwrap(), 1);
            seeing.lock().unwrap().push((report, recalled));
        })),
        ..options(directory.path())
    };
    let opened = Arc::new(SledLedger::open(options, START).unwrap());
    ledger.set(Arc::clone(&opened)).unwrap();

    let open = persist(&*opened, None, started(1, START));
    let settled = persist(&*opened, Some(&open), answered(1, START, Verdict::Accepted));
    let (begun, durable) = (
        FlushReport::Begun { writes: 1 },
        FlushReport::Durable { writes: 1 },
    );
    let expected = [
        (begun, None),
        (durable, Some(open.story.clone())),
        (begun, Some(open.story)),
        (durable, Some(settled.story)),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn writes_that_wait_share_a_flush() {
    let directory = tempfile::tempdir().unwrap();
    let flushes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let counting = Arc::clone(&flushes);
    let options = LedgerOptions {
        batch_max: 100,
        watch: Some(Arc::new(move |report| {
            if let FlushReport::Durable { writes } = report {
                counting.lock().unwrap().push(writes);
            }
        })),
        ..options(directory.path())
    };
    let ledger = SledLedger::open(options, START).unwrap();
    assert!(start_all(&ledger, 0..5000, START).iter().all(Result::is_ok));
    let flushes = flushes.lock().unwrap();
    assert_eq!(flushes.iter().sum::<usize>(), 5000);
    assert!(flushes.iter().all(|writes| *writes <= 100));
    assert!(flushes.len() < 500, "{} flushes", flushes.len());
}

#[test]
fn of_two_writes_over_one_story_that_wait_together_the_first_wins() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = super::reopened(directory.path());
    let writes: Vec<_> = (0..50)
        .map(|_| ledger.persist(None, started(1, START)))
        .collect();
    let told: Vec<_> = writes.into_iter().map(block).collect();
    assert!(told[0].is_ok());
    assert!(
        told[1..]
            .iter()
            .all(|told| matches!(told, Err(LedgerError::Moved(_))))
    );
    assert_eq!(ledger.size().entries, 1);
}

#[test]
fn a_closed_ledger_has_flushed_what_waited_and_takes_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = super::reopened(directory.path());
    let waiting: Vec<_> = (0..100)
        .map(|id| ledger.persist(None, started(id, START)))
        .collect();
    assert!(ledger.close());
    assert!(waiting.into_iter().map(block).all(|told| told.is_ok()));
    let late = block(ledger.persist(None, started(100, START)));
    assert!(matches!(late, Err(LedgerError::Closed)), "{late:?}");
    assert!(matches!(ledger.expire(START), Err(LedgerError::Closed)));
    assert!(recall(&ledger, 99).is_some());
    assert!(ledger.close());
}
