//! Decides that a full disk costs no story and no restart.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{open, reopened, start_all};
use crate::adapters::ledger::examples::{START, block, persist, recall, started};
use crate::adapters::ledger::{Ledger, LedgerError};

/// A file system of its own, gone when this is dropped.
struct Mount(tempfile::TempDir);

impl Mount {
    /// `None` where this process may not mount.
    fn of_mebibytes(size: u32) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}m"), "ledger-test"])
            .arg(directory.path())
            .output();
        mounted
            .is_ok_and(|done| done.status.success())
            .then_some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount")
            .arg("--lazy")
            .arg(self.path())
            .status();
        assert!(unmounted.unwrap().success());
    }
}

#[test]
fn p50_a_full_disk_refuses_writes_forgets_nothing_and_needs_no_restart() {
    let Some(mount) = Mount::of_mebibytes(24) else {
        eprintln!("left out: a file system of its own takes the right to mount");
        return;
    };
    let root = mount.path().join("ledger");
    let filler = mount.path().join("filler");
    let ledger = reopened(&root);
    fs::write(&filler, vec![1; 16 << 20]).unwrap();

    let mut written = 0;
    let refused = loop {
        let batch = written..written + 64;
        let (durable, refused): (Vec<_>, Vec<_>) = start_all(&ledger, batch.clone(), START)
            .into_iter()
            .partition(Result::is_ok);
        if !refused.is_empty() {
            // Which of them were in the group that was refused is not known from outside.
            assert!(
                refused
                    .iter()
                    .all(|refused| matches!(refused, Err(LedgerError::Unwritable(_))))
            );
            break batch.start + durable.len() as u64..batch.end;
        }
        written = batch.end;
    };
    assert!(!ledger.is_writable());
    let all_there = || (0..written).all(|id| recall(&ledger, id).is_some());
    assert!(all_there(), "while the disk is full");
    assert!(refused.clone().all(|id| recall(&ledger, id).is_none()));
    let still = block(ledger.persist(None, started(refused.start, START)));
    assert!(
        matches!(still, Err(LedgerError::Unwritable(_))),
        "{still:?}"
    );

    fs::remove_file(&filler).unwrap();
    persist(&ledger, None, started(refused.start, START));
    assert!(ledger.is_writable());
    assert!(all_there(), "after the disk has recovered");
    assert!(
        refused
            .clone()
            .skip(1)
            .all(|id| recall(&ledger, id).is_none())
    );
    drop(ledger);

    let ledger = reopened(&root);
    assert!((0..=refused.start).all(|id| recall(&ledger, id).is_some()));
    assert!(refused.skip(1).all(|id| recall(&ledger, id).is_none()));
}

#[test]
fn a_ledger_is_not_begun_on_a_full_disk() {
    let Some(mount) = Mount::of_mebibytes(1) else {
        eprintln!("left out: a file system of its own takes the right to mount");
        return;
    };
    let filler = vec![1; 2 << 20];
    assert!(fs::write(mount.path().join("filler"), filler).is_err());
    assert!(open(&mount.path().join("ledger"), START).is_err());
    fs::remove_file(mount.path().join("filler")).unwrap();
    // What the first try left does not keep a later one from beginning.
    assert!(open(&mount.path().join("ledger"), START).is_ok());
}
