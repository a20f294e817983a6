//! What a worker's ledger holds on disk, read from a copy, so that the worker itself is the one to open what its death
//! left behind.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use sendonce::adapters::clock::Clock;
use sendonce::adapters::ledger::Ledger as _;
use sendonce::adapters::ledger::sled_store::{LedgerOptions, SledLedger};
use sendonce::domain::ledger_entry::Story;
use tempfile::TempDir;

/// Every story in the ledger of a home whose worker does not run.
pub fn stories(home: &Path) -> Vec<Story> {
    let copy = TempDir::new().expect("a folder");
    copy_all(&home.join("ledger"), copy.path());
    let options = LedgerOptions {
        directory: copy.path().to_owned(),
        retention: Duration::from_secs(7 * 24 * 60 * 60),
        generations: NonZeroU32::new(7).expect("not zero"),
        cache_bytes: 64 * 1024 * 1024,
        batch_max: 1024,
        watch: None,
    };
    let ledger = SledLedger::open(options, Clock::wall()).expect("it opens");
    let mut stories = Vec::new();
    ledger
        .each_story(&mut |story| {
            stories.push(story.clone());
            true
        })
        .expect("it can be read");
    assert!(ledger.close(), "nothing was being written");
    stories
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
