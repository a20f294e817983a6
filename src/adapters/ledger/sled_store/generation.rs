//! Decides what a generation is: young while it takes writes, sealed for the rest of its life.
//! It does not know how either keeps its stories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::block::Frame;
use super::encoding;
use super::fault::{Fault, OpenError};
use super::manifest;
use super::sealed::{self, Sealed, Sealing};
use super::young::Young;
use crate::adapters::ledger::LedgerError;
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::ledger_entry::Story;
use crate::domain::time::Timestamp;

/// The stories that were written within one period.
#[derive(Debug)]
pub(super) struct Generation {
    /// Rises by one; the newest is the greatest.
    pub(super) id: u64,
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Young(Young),
    Sealed(Sealed),
}

impl Generation {
    /// One that is still young.
    pub(super) fn young(id: u64, path: PathBuf, young: Young) -> Self {
        Self {
            id,
            path,
            kind: Kind::Young(young),
        }
    }

    /// Opens a sealed one.
    pub(super) fn sealed(root: &Path, id: u64) -> Result<Self, OpenError> {
        let path = sealed_path(root, id);
        let kind = Kind::Sealed(Sealed::open(&path)?);
        Ok(Self { id, path, kind })
    }

    /// The young one that it is, if it is.
    pub(super) fn as_young(&self) -> Option<&Young> {
        match &self.kind {
            Kind::Young(young) => Some(young),
            Kind::Sealed(_) => None,
        }
    }

    /// The durable version of a story that it holds.
    pub(super) fn find(&self, key: LedgerKey) -> Result<Option<Story>, LedgerError> {
        let decode = |frame: &Frame<'_>| encoding::decode(frame.story).map_err(Fault::Damaged);
        let found = match &self.kind {
            Kind::Young(young) => young.find(key, decode),
            Kind::Sealed(sealed) => sealed.find(key, decode),
        };
        found.map_err(|fault| fault.told(&self.path))
    }

    /// Whether it holds a durable version of a story.
    pub(super) fn holds(&self, key: LedgerKey) -> Result<bool, LedgerError> {
        let holds = match &self.kind {
            Kind::Young(young) => Ok(young.holds(key)),
            Kind::Sealed(sealed) => sealed.holds(key),
        };
        holds.map_err(|fault| fault.told(&self.path))
    }

    /// Calls `visit` with the newest version of every story it holds, until `visit` returns false. What is written
    /// meanwhile is not seen.
    pub(super) fn each(
        &self,
        mut visit: impl FnMut(Frame<'_>) -> Result<bool, LedgerError>,
    ) -> Result<(), LedgerError> {
        let mut refused = None;
        let visit = |frame: Frame<'_>| match visit(frame) {
            Ok(going) => Ok(going),
            Err(error) => {
                refused = Some(error);
                Ok(false)
            }
        };
        let walked = match &self.kind {
            Kind::Young(young) => young.each(visit),
            Kind::Sealed(sealed) => sealed.each(visit),
        };
        walked.map_err(|fault| fault.told(&self.path))?;
        refused.map_or(Ok(()), Err)
    }

    /// Stories that it holds a version of.
    pub(super) fn entries(&self) -> u64 {
        match &self.kind {
            Kind::Young(young) => young.entries(),
            Kind::Sealed(sealed) => sealed.entries(),
        }
    }

    /// The latest moment at which any of its stories was written.
    pub(super) fn last_write(&self) -> Timestamp {
        match &self.kind {
            Kind::Young(young) => young.last_write(),
            Kind::Sealed(sealed) => sealed.last_write(),
        }
    }

    /// Copies the newest versions of a young one's stories into a file of their own, durably. `now` bounds what it says
    /// of its last write: a clock that once ran ahead must not keep it for ever.
    pub(super) fn seal(&self, root: &Path, now: Option<Timestamp>) -> Result<Self, LedgerError> {
        let path = sealed_path(root, self.id);
        let draft = path.with_extension("new");
        let refused = |error: io::Error| Fault::from(error).told(&draft);
        let mut sealing = Sealing::begin(&draft).map_err(refused)?;
        self.each(|frame| sealing.add(&frame).map(|()| true).map_err(refused))?;
        sealing
            .finish(now.map_or(self.last_write(), |now| self.last_write().min(now)))
            .and_then(|()| sealed::publish(&draft, &path))
            .map_err(refused)?;
        Self::sealed(root, self.id).map_err(|error| LedgerError::Damaged(error.to_string().into()))
    }
}

/// Where generation `id` lies once it is sealed.
pub(super) fn sealed_path(root: &Path, id: u64) -> PathBuf {
    manifest::generation(root, id).with_extension("stories")
}

/// Removes what a generation was while it was young. What still reads it reads on from the open file.
pub(super) fn discard_young(root: &Path, id: u64) -> Result<(), OpenError> {
    let path = manifest::generation(root, id);
    absent(fs::remove_dir_all(&path)).map_err(|error| OpenError::io(&path, &error))
}

/// Removes all that is left of generation `id`.
pub(super) fn discard(root: &Path, id: u64) -> Result<(), OpenError> {
    discard_young(root, id)?;
    let path = sealed_path(root, id);
    for path in [path.with_extension("new"), path] {
        absent(fs::remove_file(&path)).map_err(|error| OpenError::io(&path, &error))?;
    }
    Ok(())
}

fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
