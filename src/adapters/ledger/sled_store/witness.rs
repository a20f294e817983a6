//! Decides how the number of a generation's durable blocks is kept outside its database.
//! It does not know what a block holds.
//!
//! Two slots are written in turn, each with its checksum, so that a write that a power cut tears costs one number. It is
//! written after the blocks are durable and is not synced itself: it may lag behind the database, never lead.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::fault::OpenError;

const FILE: &str = "witness";
const SLOT: usize = 8;

#[derive(Debug)]
pub(super) struct Witness(File);

impl Witness {
    /// A new one that has seen no block, durably.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(directory.join(FILE))?;
        file.write_all_at(&slot(0), 0)?;
        file.write_all_at(&slot(0), SLOT as u64)?;
        file.sync_all()?;
        Ok(Self(file))
    }

    /// The one in `directory`.
    pub(super) fn open(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join(FILE);
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Ok(Self(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(OpenError::damaged(&path, "it is missing"))
            }
            Err(error) => Err(OpenError::io(&path, &error)),
        }
    }

    /// Takes note that `blocks` blocks are durable.
    pub(super) fn write(&self, blocks: u32) -> io::Result<()> {
        let place = u64::from(blocks % 2) * SLOT as u64;
        self.0.write_all_at(&slot(blocks), place)
    }

    /// How many blocks are known to be durable; `None` if neither slot is readable.
    pub(super) fn read(&self) -> io::Result<Option<u32>> {
        let mut latest = None;
        for place in 0..2 {
            let mut bytes = [0; SLOT];
            if let Err(error) = self.0.read_exact_at(&mut bytes, place * SLOT as u64) {
                if error.kind() == io::ErrorKind::UnexpectedEof {
                    continue;
                }
                return Err(error);
            }
            let [a, b, c, d, ..] = bytes;
            let blocks = u32::from_be_bytes([a, b, c, d]);
            if bytes == slot(blocks) {
                latest = latest.max(Some(blocks));
            }
        }
        Ok(latest)
    }
}

fn slot(blocks: u32) -> [u8; SLOT] {
    let [a, b, c, d] = blocks.to_be_bytes();
    let [e, f, g, h] = crc32fast::hash(&[a, b, c, d]).to_be_bytes();
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_the_latest_number_also_after_it_was_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let witness = Witness::create(directory.path()).unwrap();
        assert_eq!(witness.read().unwrap(), Some(0));
        for blocks in [1, 2, 5, 9] {
            witness.write(blocks).unwrap();
            let again = Witness::open(directory.path()).unwrap();
            assert_eq!(again.read().unwrap(), Some(blocks));
        }
    }

    #[test]
    fn a_torn_write_costs_one_number_and_two_are_no_witness() {
        let directory = tempfile::tempdir().unwrap();
        let witness = Witness::create(directory.path()).unwrap();
        witness.write(7).unwrap();
        witness.write(8).unwrap();
        witness.0.write_all_at(&[0xff; 3], 2).unwrap();
        assert_eq!(witness.read().unwrap(), Some(7));
        witness.0.write_all_at(&[0xff; 3], 10).unwrap();
        assert_eq!(witness.read().unwrap(), None);
        witness.0.set_len(0).unwrap();
        assert_eq!(witness.read().unwrap(), None);
    }

    #[test]
    fn a_missing_one_is_damage() {
        let directory = tempfile::tempdir().unwrap();
        let missing = Witness::open(directory.path()).unwrap_err();
        assert!(matches!(missing, OpenError::Damaged { .. }));
    }
}
