//! Decides what the ledger on disk must stand beyond the conformance suite: damage, full disks, kills and many periods.
//! It does not know how entries are encoded.

mod damage;
mod flushing;
mod full_disk;
mod killed;
mod periods;
mod twin;

use std::path::Path;
use std::sync::Arc;

use super::{LedgerOptions, OpenError, SledLedger};
use crate::adapters::ledger::examples::{RETENTION, START, answered, block, started};
use crate::adapters::ledger::{Ledger, LedgerError, Recorded};
use crate::domain::attempt::Verdict;
use crate::domain::time::Timestamp;

fn options(directory: &Path) -> LedgerOptions {
    LedgerOptions {
        directory: directory.to_owned(),
        retention: RETENTION,
        generations: 7.try_into().unwrap(),
        cache_bytes: 8 << 20,
        batch_max: 1024,
        watch: None,
    }
}

fn open(directory: &Path, now: Timestamp) -> Result<SledLedger, OpenError> {
    SledLedger::open(options(directory), now)
}

fn reopened(directory: &Path) -> SledLedger {
    open(directory, START).unwrap()
}

/// Starts every intent of `ids` at `at`, all at once.
fn start_all(
    ledger: &SledLedger,
    ids: std::ops::Range<u64>,
    at: Timestamp,
) -> Vec<Result<Recorded, LedgerError>> {
    let all: Vec<_> = ids
        .map(|id| ledger.persist(None, started(id, at)))
        .collect();
    all.into_iter().map(block).collect()
}

/// Starts every intent of `ids` at `at` and lets it be accepted, all at once.
fn settle_all(ledger: &SledLedger, ids: std::ops::Range<u64>, at: Timestamp) {
    let open = start_all(ledger, ids.clone(), at);
    let all: Vec<_> = ids
        .zip(open)
        .map(|(id, open)| {
            let open: Arc<_> = open.unwrap().story;
            ledger.persist(Some(open), answered(id, at, Verdict::Accepted))
        })
        .collect();
    for settled in all {
        assert!(block(settled).unwrap().story.is_settled());
    }
}
