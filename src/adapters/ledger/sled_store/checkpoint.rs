//! Decides how it is kept how far the log has been followed: a small file that is replaced as a whole. One that cannot be read
//! is as good as none: the log is followed from its beginning then, and what is known already changes nothing.

use std::fs;
use std::io;
use std::path::Path;

use super::manifest;
use crate::adapters::ledger::LedgerError;
use crate::domain::ledger_log::Checkpoint;

const FILE: &str = "followed";

/// Keeps it, durably.
pub(super) fn keep(root: &Path, checkpoint: &Checkpoint) -> Result<(), LedgerError> {
    let path = root.join(FILE);
    serde_json::to_vec(checkpoint)
        .map_err(io::Error::from)
        .and_then(|text| manifest::replace(&path, &text))
        .map_err(|error| LedgerError::Unwritable(format!("{}: {error}", path.display()).into()))
}

/// The one that was kept last.
pub(super) fn find(root: &Path) -> Result<Option<Checkpoint>, LedgerError> {
    let path = root.join(FILE);
    match fs::read(&path) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LedgerError::Damaged(
            format!("{}: {error}", path.display()).into(),
        )),
    }
}
