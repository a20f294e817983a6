//! Decides how profile versions are kept: one small file each, named by its hash.
//! It does not know what a profile says, nor which stories name it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::manifest;
use crate::adapters::ledger::LedgerError;
use crate::domain::idempotency_key::ProfileHash;

/// Keeps `text` under `hash`, durably.
pub(super) fn keep(root: &Path, hash: ProfileHash, text: &str) -> Result<(), LedgerError> {
    let path = path(root, hash);
    if let Ok(kept) = fs::read(&path)
        && kept == text.as_bytes()
    {
        return Ok(());
    }
    manifest::replace(&path, text.as_bytes())
        .map_err(|error| LedgerError::Unwritable(format!("{}: {error}", path.display()).into()))
}

/// The profile kept under `hash`.
pub(super) fn find(root: &Path, hash: ProfileHash) -> Result<Option<Arc<str>>, LedgerError> {
    let path = path(root, hash);
    let damaged =
        |reason: &str| LedgerError::Damaged(format!("{}: {reason}", path.display()).into());
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(damaged(&error.to_string())),
    };
    let found: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    if found == hash.0 {
        Ok(Some(text.into()))
    } else {
        Err(damaged("its content does not fit its name"))
    }
}

/// Where profiles are.
pub(super) fn directory(root: &Path) -> PathBuf {
    root.join("profiles")
}

fn path(root: &Path, hash: ProfileHash) -> PathBuf {
    directory(root).join(format!("{hash}.toml"))
}
