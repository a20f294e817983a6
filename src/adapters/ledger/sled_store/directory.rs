//! Decides who may use the ledger's directory: one process at a time, the one that holds the lock on `lock`.
//! It does not know what else is in there.
//!
//! The lock is the kernel's (`flock`), so it ends with its process and a leftover file means nothing. The text in the file
//! only tells who holds it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::fault::OpenError;
use super::manifest;
use crate::domain::time::Timestamp;

/// How long to wait for a lock that another process holds.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// If the holder is seen to run: it may have been killed this very moment.
    running: Duration,
    /// If it lives in another container or on another machine, so that nobody can say.
    unseen: Duration,
    /// If it is gone, and the kernel is still taking it apart.
    gone: Duration,
}

const PATIENCE: Patience = Patience {
    running: Duration::from_secs(2),
    unseen: Duration::from_secs(4),
    gone: Duration::from_secs(10),
};

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Creates `directory` if need be and takes its lock, waiting a little for a holder that is just dying.
    pub(super) fn take(directory: &Path, now: Timestamp) -> Result<Self, OpenError> {
        Self::take_by(directory, now, PATIENCE, File::try_lock)
    }

    fn take_by(
        directory: &Path,
        now: Timestamp,
        patience: Patience,
        try_lock: impl FnOnce(&File) -> Result<(), TryLockError>,
    ) -> Result<Self, OpenError> {
        fs::create_dir_all(directory).map_err(|error| OpenError::io(directory, &error))?;
        // The directory's own name may be new. Not everyone may open the one above it; then it is as durable as any name.
        let above = directory.parent().map(manifest::sync_directory);
        above.unwrap_or(Ok(())).unwrap_or_default();
        let path = directory.join("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| OpenError::io(&path, &error))?;
        let file = match try_lock(&file) {
            Ok(()) => file,
            Err(TryLockError::WouldBlock) => wait_for(file, &path, patience)?,
            Err(TryLockError::Error(error)) => {
                return Err(OpenError::NoLocks {
                    directory: directory.to_owned(),
                    reason: error.to_string(),
                });
            }
        };
        write_holder(&file, now).map_err(|error| OpenError::io(&path, &error))?;
        Ok(Self { _file: file })
    }
}

/// Waits for the lock as long as its holder may be dying.
fn wait_for(file: File, path: &Path, patience: Patience) -> Result<File, OpenError> {
    let holder = Holder::read(&file);
    let patience = match &holder {
        Some(holder) => holder.deserves(patience),
        None => patience.unseen,
    };
    match lock_within(patience, file).map_err(|error| OpenError::io(path, &error))? {
        Some(file) => Ok(file),
        None => Err(OpenError::Held {
            directory: path.parent().map(PathBuf::from).unwrap_or_default(),
            holder: holder.map_or_else(
                || "another process, which left no name".to_owned(),
                |holder| holder.to_string(),
            ),
        }),
    }
}

/// `file`, locked; `None` if that takes longer than `patience`. The thread that waits ends with the lock or the process.
pub(super) fn lock_within(patience: Duration, file: File) -> io::Result<Option<File>> {
    let (told, waiting) = mpsc::channel();
    thread::Builder::new()
        .name("ledger-lock".to_owned())
        .spawn(move || {
            let locked = file.lock().map(|()| file);
            drop(told.send(locked));
        })?;
    match waiting.recv_timeout(patience) {
        Ok(locked) => locked.map(Some),
        Err(mpsc::RecvTimeoutError::Timeout | mpsc::RecvTimeoutError::Disconnected) => Ok(None),
    }
}

fn write_holder(mut file: &File, now: Timestamp) -> io::Result<()> {
    let holder = Holder {
        pid: std::process::id(),
        host: host(),
        namespace: pid_namespace(),
        since: now.to_string(),
    };
    file.set_len(0)?;
    file.rewind()?;
    write!(
        file,
        "pid {}\nhost {}\nnamespace {}\nsince {}\n",
        holder.pid, holder.host, holder.namespace, holder.since
    )
}

/// Who holds the lock, as written in it.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    host: String,
    /// The process ids' name space and the machine's boot: only within both does `pid` mean anything.
    namespace: String,
    since: String,
}

impl Holder {
    fn read(mut file: &File) -> Option<Self> {
        let mut text = String::new();
        file.rewind().ok()?;
        file.take(4096).read_to_string(&mut text).ok()?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .map(str::to_owned)
        };
        Some(Self {
            pid: field("pid")?.parse().ok()?,
            host: field("host")?,
            namespace: field("namespace")?,
            since: field("since")?,
        })
    }

    fn deserves(&self, patience: Patience) -> Duration {
        if self.namespace != pid_namespace() {
            patience.unseen
        } else if Path::new("/proc").join(self.pid.to_string()).exists() {
            patience.running
        } else {
            patience.gone
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            pid, host, since, ..
        } = self;
        write!(f, "process {pid} on {host}, since {since}")
    }
}

fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    host.trim().to_owned()
}

/// Empty where `/proc` is missing: then no holder is ever seen.
fn pid_namespace() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_792_567_620_000);
    const SHORT: Patience = Patience {
        running: Duration::from_millis(50),
        unseen: Duration::from_millis(50),
        gone: Duration::from_millis(50),
    };
    const LONG: Patience = Patience {
        running: Duration::from_secs(60),
        unseen: Duration::from_secs(60),
        gone: Duration::from_secs(60),
    };

    fn take(directory: &Path, patience: Patience) -> Result<DirectoryLock, OpenError> {
        DirectoryLock::take_by(directory, NOW, patience, File::try_lock)
    }

    #[test]
    fn p49_a_second_holder_is_told_who_has_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let _held = take(directory.path(), SHORT).unwrap();
        let refused = take(directory.path(), SHORT).unwrap_err().to_string();
        let holder = format!("process {} on ", std::process::id());
        assert!(refused.contains(&holder), "{refused}");
        assert!(
            refused.contains("since 2026-10-21T07:27:00.000Z"),
            "{refused}"
        );
    }

    #[test]
    fn p49_the_lock_is_had_as_soon_as_a_dying_holder_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        let held = take(directory.path(), SHORT).unwrap();
        thread::scope(|threads| {
            let waiting = threads.spawn(|| take(directory.path(), LONG));
            drop(held);
            assert!(waiting.join().unwrap().is_ok());
        });
    }

    #[test]
    fn p49_a_leftover_lock_file_means_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for leftover in ["", "pid 1\nhost elsewhere\n", "\u{0}\u{0}"] {
            fs::write(directory.path().join("lock"), leftover).unwrap();
            take(directory.path(), SHORT).unwrap();
        }
    }

    #[test]
    fn p49_a_file_system_without_locks_is_refused_with_its_reason() {
        let directory = tempfile::tempdir().unwrap();
        let none = |_: &File| Err(TryLockError::Error(io::Error::other("no locks here")));
        let refused = DirectoryLock::take_by(directory.path(), NOW, SHORT, none).unwrap_err();
        assert!(matches!(&refused, OpenError::NoLocks { reason, .. } if reason == "no locks here"));
    }

    #[test]
    fn a_holder_is_waited_for_by_what_can_be_seen_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let _held = take(directory.path(), SHORT).unwrap();
        let running = Holder::read(&File::open(directory.path().join("lock")).unwrap()).unwrap();
        assert_eq!(running.deserves(PATIENCE), PATIENCE.running);
        // Above what Linux gives out at most, 2^22.
        let gone = Holder {
            pid: 4_194_305,
            ..running
        };
        assert_eq!(gone.deserves(PATIENCE), PATIENCE.gone);
        let unseen = Holder {
            namespace: "another".to_owned(),
            ..gone
        };
        assert_eq!(unseen.deserves(PATIENCE), PATIENCE.unseen);
    }
}
