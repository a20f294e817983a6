//! Decides how one sled is opened, written and read, and when what was written is durable.
//! It does not know what is in a block.
//!
//! What sled 0.34 needs to be told or watched for:
//!
//! - Its flush ends in `sync_file_range`, which neither writes the file's metadata nor empties the drive's cache; so each
//!   flush is followed by `sync_data` on its one file.
//! - A value near a quarter of a segment goes to a file of its own, which it never syncs; `STORY_BYTES_MAX` keeps away from that.
//! - A snapshot that was being written when the process died is taken for the newest one and refused; it is removed.
//! - Its own lock on the file outlives the database by a moment, and any process that is being started at that moment holds
//!   it too until it has become another program; so a database that is opened again waits, and asks again.
//! - It panics where it does not expect damage, on the thread that asks, and when it is dropped on a disk that refuses to sync; so every
//!   question is asked, and every database let go of, behind `catch_unwind`.
//! - An applied `Batch` makes every later read take a lock; blocks need no atomicity, so none is used.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use sled::IVec;

use super::directory;
use super::fault::{Fault, OpenError, is_about_its_lock};

/// No encoded story may be larger: one of sled's tree pages holds up to 17 blocks of 4 KiB and a story each, and must stay
/// below a quarter of a segment.
pub(super) const STORY_BYTES_MAX: usize = 24 * 1024;
/// How long an earlier database of this process may hold on to its file, each time that it is found to.
const LET_GO: Duration = Duration::from_secs(1);
/// How often it may be found to.
const LET_GO_MAX: u32 = 5;
const SEGMENT_BYTES: usize = 2 * 1024 * 1024;

/// One open sled.
#[derive(Debug)]
pub(super) struct Database {
    /// Absent only while it is being dropped.
    db: Option<sled::Db>,
    file: File,
}

impl Database {
    /// Opens the one in `directory`, or makes one.
    pub(super) fn open(directory: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        remove_half_snapshots(directory).map_err(|error| OpenError::io(directory, &error))?;
        let config = sled::Config::new()
            .path(directory)
            .cache_capacity(cache_bytes)
            .segment_size(SEGMENT_BYTES)
            .mode(sled::Mode::LowSpace)
            .flush_every_ms(None)
            .print_profile_on_drop(false);
        let path = directory.join("db");
        let io = |error: io::Error| OpenError::io(&path, &error);
        let mut found_held = 0;
        let db = loop {
            let mut held = false;
            let opened = guarded(|| {
                let opened = config.open();
                held = opened.as_ref().is_err_and(is_about_its_lock);
                Ok(opened?)
            });
            if !held || found_held >= LET_GO_MAX {
                break opened.map_err(|fault| fault.at(directory))?;
            }
            found_held += 1;
            // Taken and given back: nobody else wants it for good, since the directory is ours.
            drop(directory::lock_within(LET_GO, File::open(&path).map_err(io)?).map_err(io)?);
        };
        let file = File::open(&path).map_err(io)?;
        Ok(Self { db: Some(db), file })
    }

    /// Writes `blocks` and makes them durable.
    pub(super) fn append(&self, blocks: &[(u32, Vec<u8>)]) -> Result<(), Fault> {
        self.ask(|db| {
            for (number, block) in blocks {
                db.insert(number.to_be_bytes(), block.as_slice())?;
            }
            db.flush()?;
            Ok(())
        })?;
        self.sync()
    }

    /// Makes what was flushed durable.
    pub(super) fn sync(&self) -> Result<(), Fault> {
        Ok(self.file.sync_data()?)
    }

    /// Block `number`.
    pub(super) fn block(&self, number: u32) -> Result<Option<IVec>, Fault> {
        self.ask(|db| Ok(db.get(number.to_be_bytes())?))
    }

    /// Calls `visit` with every block, in the order of their numbers, until it returns false.
    pub(super) fn each_block(
        &self,
        mut visit: impl FnMut(u32, &[u8]) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let mut blocks = self.ask(|db| Ok(db.iter()))?;
        while let Some((key, block)) = guarded(|| Ok(blocks.next().transpose()?))? {
            let number = key.as_ref().try_into().map(u32::from_be_bytes);
            let number = number.map_err(|_| Fault::Damaged("a block has no number".to_owned()))?;
            if !visit(number, &block)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes out every block from `first` on, durably.
    pub(super) fn cut(&self, first: u32) -> Result<(), Fault> {
        self.ask(|db| {
            while let Some((number, _)) = db.range(first.to_be_bytes()..).next().transpose()? {
                db.remove(number)?;
            }
            db.flush()?;
            Ok(())
        })?;
        self.sync()
    }

    fn ask<T>(&self, ask: impl FnOnce(&sled::Db) -> Result<T, Fault>) -> Result<T, Fault> {
        match &self.db {
            Some(db) => guarded(|| ask(db)),
            None => Err(Fault::Disk("it is closed".to_owned())),
        }
    }
}

impl Drop for Database {
    /// Lets go of it, on whichever thread: the one that writes must outlive a disk that refuses.
    fn drop(&mut self) {
        let_go(self.db.take());
    }
}

/// Drops what belongs to sled. It syncs then, and panics if it cannot; what is not synced by now is not wanted.
fn let_go<T>(of_sled: T) {
    guarded(|| {
        drop(of_sled);
        Ok(())
    })
    .unwrap_or_default();
}

/// What sled answers, a panic taken for damage.
fn guarded<T>(ask: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(ask))
        .unwrap_or_else(|_panic| Err(Fault::Damaged("sled cannot make sense of it".to_owned())))
}

fn remove_half_snapshots(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "generating") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As sled's log is when the disk refuses the sync of its end.
    struct Refused;

    impl Drop for Refused {
        fn drop(&mut self) {
            panic!("it cannot sync");
        }
    }

    #[test]
    fn a_database_that_cannot_sync_its_end_takes_nobody_with_it() {
        let_go(Refused);
    }
}
