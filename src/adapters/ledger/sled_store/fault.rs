//! Decides what a refusal of the disk or of sled means: a disk that may recover, or a directory that is damaged.
//! It does not know what was asked of them.

use std::io;
use std::path::{Path, PathBuf};

use crate::adapters::ledger::LedgerError;

/// Why a ledger's directory could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("the ledger in {} is in use by {holder}: stop it, or give this instance a directory of its own", directory.display())]
    Held {
        /// The ledger's directory.
        directory: PathBuf,
        /// Who holds it.
        holder: String,
    },
    /// The file system has no locks, so nobody can say whether another process has it.
    #[error("the ledger in {} cannot be locked ({reason}): put it on a file system with locks (a local disk)", directory.display())]
    NoLocks {
        /// The ledger's directory.
        directory: PathBuf,
        /// What the file system said.
        reason: String,
    },
    /// Something durable is missing or cannot be read.
    #[error(
        "the ledger is damaged: {}: {reason}. It is not opened, since it would forget what was sent: restore the directory \
         from a copy; or set it aside and start with an empty one, and what is read again and younger than \
         intents.max_age is sent again, under its old key",
        path.display()
    )]
    Damaged {
        /// What is damaged.
        path: PathBuf,
        /// How that shows.
        reason: String,
    },
    /// It was written by a version of the program that this one cannot read.
    #[error("{} has layout {found}, this build reads layout {known}: start the version that wrote it", path.display())]
    Layout {
        /// The file that says so.
        path: PathBuf,
        /// Its layout.
        found: u32,
        /// The layout of this build.
        known: u32,
    },
    /// The disk refused.
    #[error("{}: {reason}", path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
}

impl OpenError {
    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Disk {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    }

    pub(super) fn damaged(path: &Path, reason: &str) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// What went wrong inside one generation.
#[derive(Debug)]
pub(super) enum Fault {
    /// The disk refused.
    Disk(String),
    /// What is there cannot be read.
    Damaged(String),
}

impl Fault {
    pub(super) fn at(self, path: &Path) -> OpenError {
        match self {
            Self::Disk(reason) => OpenError::Disk {
                path: path.to_owned(),
                reason,
            },
            Self::Damaged(reason) => OpenError::Damaged {
                path: path.to_owned(),
                reason,
            },
        }
    }

    pub(super) fn told(self, path: &Path) -> LedgerError {
        match self {
            Self::Disk(reason) => {
                LedgerError::Unwritable(format!("{}: {reason}", path.display()).into())
            }
            Self::Damaged(reason) => {
                LedgerError::Damaged(format!("{}: {reason}", path.display()).into())
            }
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Disk(error.to_string())
    }
}

impl From<sled::Error> for Fault {
    /// sled reports what it cannot read as corruption, but also as an I/O error of its own making.
    fn from(error: sled::Error) -> Self {
        match error {
            sled::Error::Io(error) if is_ours(&error) => Self::Damaged(error.to_string()),
            sled::Error::Io(error) => Self::Disk(error.to_string()),
            sled::Error::Corruption { .. } => Self::Damaged("sled finds it corrupt".to_owned()),
            sled::Error::CollectionNotFound(_)
            | sled::Error::Unsupported(_)
            | sled::Error::ReportableBug(_) => Self::Damaged(error.to_string()),
        }
    }
}

/// Whether an I/O error speaks of what was read. sled copies errors and loses their code, so the kind has to tell; its
/// message about its own lock on the file is an `Other` too, and means no damage.
fn is_ours(error: &io::Error) -> bool {
    let unreadable = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::Other
    );
    unreadable && error.raw_os_error().is_none() && !speaks_of_lock(error)
}

/// Whether sled was refused its lock on its file. It has no kind for that, only a text.
pub(super) fn is_about_its_lock(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(error) if speaks_of_lock(error))
}

fn speaks_of_lock(error: &io::Error) -> bool {
    error.to_string().contains("acquire lock")
}
