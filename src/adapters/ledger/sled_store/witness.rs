//! Decides how the number of a generation's latest durable batch is kept outside its database.
//! It does not know what a batch holds.
//!
//! Two slots are written in turn, each with its checksum, so that a write that a power cut tears costs one number. It is
//! written after the batch is durable and is not synced itself: it may lag behind the database, never lead.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::fault::OpenError;

const FILE: &str = "witness";
const SLOT: usize = 16;

#[derive(Debug)]
pub(super) struct Witness(File);

impl Witness {
    /// A new one that has seen batch 0, durably.
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

    /// Takes note that batch `number` is durable.
    pub(super) fn write(&self, number: u64) -> io::Result<()> {
        self.0
            .write_all_at(&slot(number), (number % 2) * SLOT as u64)
    }

    /// The latest batch that is known to be durable; `None` if neither slot is readable.
    pub(super) fn read(&self) -> io::Result<Option<u64>> {
        let mut latest = None;
        for place in 0..2 {
            let mut bytes = [0; SLOT];
            if let Err(error) = self.0.read_exact_at(&mut bytes, place * SLOT as u64) {
                if error.kind() == io::ErrorKind::UnexpectedEof {
                    continue;
                }
                return Err(error);
            }
            let [a, b, c, d, e, f, g, h, ..] = bytes;
            let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            if bytes == slot(number) {
                latest = latest.max(Some(number));
            }
        }
        Ok(latest)
    }
}

fn slot(number: u64) -> [u8; SLOT] {
    let bytes = number.to_be_bytes();
    let mut slot = [0; SLOT];
    let sum = Sha256::digest(bytes);
    for (place, byte) in slot.iter_mut().zip(bytes.iter().chain(sum.iter())) {
        *place = *byte;
    }
    slot
}
