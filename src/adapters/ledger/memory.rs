//! Decides what a ledger in memory remembers across a crash: what was flushed, and nothing else.
//! The simulation's twin of the ledger on disk; it has no thread, and flushes when it is told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Changed, Ledger, LedgerError, LedgerSize, Persisting, Recorded};
use crate::domain::idempotency_key::{LedgerKey, ProfileHash};
use crate::domain::ledger_entry::{Entry, Story};
use crate::domain::ledger_log::Checkpoint;
use crate::domain::time::Timestamp;

/// When what is written becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushing {
    /// At once.
    Automatic,
    /// At the next `MemoryLedger::flush`.
    Manual,
}

/// A ledger that lives as long as this value.
#[derive(Debug)]
pub struct MemoryLedger {
    retention: Duration,
    flushing: Flushing,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    stories: BTreeMap<LedgerKey, Arc<Story>>,
    profiles: BTreeMap<[u8; 32], Arc<str>>,
    checkpoint: Option<Checkpoint>,
    /// Written and not flushed, in the order of writing.
    unflushed: Vec<Write>,
    closed: bool,
    refusal: Option<Arc<str>>,
}

#[derive(Debug)]
enum Write {
    Story {
        key: LedgerKey,
        story: Arc<Story>,
        told: oneshot::Sender<Result<Recorded, LedgerError>>,
    },
    Merged {
        changed: BTreeMap<LedgerKey, Changed>,
        told: oneshot::Sender<Result<Vec<Changed>, LedgerError>>,
    },
    Checkpoint {
        checkpoint: Checkpoint,
        told: oneshot::Sender<Result<(), LedgerError>>,
    },
    Profile {
        hash: ProfileHash,
        text: Arc<str>,
        told: oneshot::Sender<Result<(), LedgerError>>,
    },
}

impl MemoryLedger {
    /// An empty one that forgets settled stories `retention` after their last write.
    pub fn new(retention: Duration, flushing: Flushing) -> Self {
        Self {
            retention,
            flushing,
            held: Mutex::default(),
        }
    }

    /// Makes everything written so far durable and tells those who wait, in the order of writing. Returns how many
    /// writes that were.
    pub fn flush(&self) -> usize {
        self.held().flush()
    }

    /// Forgets what was not flushed, as a crash does. Whoever waits for it learns that the ledger is closed.
    pub fn forget_unflushed(&self) {
        self.held().unflushed.clear();
    }

    /// Writes that wait for a flush.
    pub fn unflushed(&self) -> usize {
        self.held().unflushed.len()
    }

    /// Refuses writes with this reason, as a full disk does, until called with `None`.
    pub fn refuse(&self, reason: Option<Arc<str>>) {
        self.held().refusal = reason;
    }

    /// Takes no more writes.
    pub fn close(&self) {
        let mut held = self.held();
        held.flush();
        held.closed = true;
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, held: &mut Held, write: Write) {
        held.unflushed.push(write);
        if self.flushing == Flushing::Automatic {
            held.flush();
        }
    }
}

impl Ledger for MemoryLedger {
    fn recall(&self, key: LedgerKey) -> Result<Option<Recorded>, LedgerError> {
        let story = self.held().stories.get(&key).map(Arc::clone);
        Ok(story.map(Recorded::attested))
    }

    fn persist(&self, expected: Option<Arc<Story>>, entry: Entry) -> Persisting<Recorded> {
        let (told, waiting) = Persisting::new();
        let key = entry.subject.ledger_key();
        let mut held = self.held();
        if let Err(error) = held.takes_writes() {
            drop(told.send(Err(error)));
        } else if held.newest(key) != expected.as_ref() {
            drop(told.send(Err(LedgerError::Moved(key))));
        } else {
            let story = Arc::new(Story::continued(expected.as_deref(), &entry));
            self.write(&mut held, Write::Story { key, story, told });
        }
        waiting
    }

    fn merge(&self, entries: Vec<Entry>) -> Persisting<Vec<Changed>> {
        let (told, waiting) = Persisting::new();
        let mut held = self.held();
        match held.takes_writes() {
            Ok(()) => {
                let changed = held.merged(entries);
                self.write(&mut held, Write::Merged { changed, told });
            }
            Err(error) => drop(told.send(Err(error))),
        }
        waiting
    }

    fn keep_profile(&self, hash: ProfileHash, text: Arc<str>) -> Persisting<()> {
        let (told, waiting) = Persisting::new();
        let mut held = self.held();
        match held.takes_writes() {
            Ok(()) => self.write(&mut held, Write::Profile { hash, text, told }),
            Err(error) => drop(told.send(Err(error))),
        }
        waiting
    }

    fn profile(&self, hash: ProfileHash) -> Result<Option<Arc<str>>, LedgerError> {
        Ok(self.held().profiles.get(&hash.0).map(Arc::clone))
    }

    fn keep_checkpoint(&self, checkpoint: Checkpoint) -> Persisting<()> {
        let (told, waiting) = Persisting::new();
        let mut held = self.held();
        match held.takes_writes() {
            Ok(()) => self.write(&mut held, Write::Checkpoint { checkpoint, told }),
            Err(error) => drop(told.send(Err(error))),
        }
        waiting
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>, LedgerError> {
        Ok(self.held().checkpoint.clone())
    }

    fn each_story(&self, visit: &mut dyn FnMut(&Story) -> bool) -> Result<(), LedgerError> {
        let stories: Vec<_> = self.held().stories.values().map(Arc::clone).collect();
        for story in stories {
            if !visit(&story) {
                break;
            }
        }
        Ok(())
    }

    fn expire(&self, now: Timestamp) -> Result<u64, LedgerError> {
        let mut held = self.held();
        let before = held.stories.len();
        held.stories
            .retain(|_, story| !story.is_settled() || story.updated_at.plus(self.retention) >= now);
        Ok(u64::try_from(before - held.stories.len()).unwrap_or(u64::MAX))
    }

    fn size(&self) -> LedgerSize {
        LedgerSize {
            entries: u64::try_from(self.held().stories.len()).unwrap_or(u64::MAX),
            bytes: 0,
        }
    }
}

impl Held {
    fn takes_writes(&self) -> Result<(), LedgerError> {
        match &self.refusal {
            _ if self.closed => Err(LedgerError::Closed),
            Some(reason) => Err(LedgerError::Unwritable(Arc::clone(reason))),
            None => Ok(()),
        }
    }

    /// The newest version of a story, durable or not.
    fn newest(&self, key: LedgerKey) -> Option<&Arc<Story>> {
        let unflushed = self.unflushed.iter().rev().find_map(|write| match write {
            Write::Story { key: of, story, .. } if *of == key => Some(story),
            Write::Merged { changed, .. } => changed.get(&key).map(|story| &story.after),
            Write::Story { .. } | Write::Checkpoint { .. } | Write::Profile { .. } => None,
        });
        unflushed.or_else(|| self.stories.get(&key))
    }

    /// What the stories of these entries become, of those that they change.
    fn merged(&self, entries: Vec<Entry>) -> BTreeMap<LedgerKey, Changed> {
        let mut merged: BTreeMap<LedgerKey, Changed> = BTreeMap::new();
        for entry in entries {
            let key = entry.subject.ledger_key();
            let before = match merged.get(&key) {
                Some(known) => known.before.clone(),
                None => self.newest(key).cloned(),
            };
            let known = merged
                .get(&key)
                .map(|known| &known.after)
                .or(before.as_ref());
            let after = Arc::new(Story::continued(known.map(|known| &**known), &entry));
            merged.insert(key, Changed { before, after });
        }
        merged.retain(|_, story| story.before.as_ref() != Some(&story.after));
        merged
    }

    fn flush(&mut self) -> usize {
        let writes = std::mem::take(&mut self.unflushed);
        let flushed = writes.len();
        for write in writes {
            match write {
                Write::Story { key, story, told } => {
                    self.stories.insert(key, Arc::clone(&story));
                    drop(told.send(Ok(Recorded::attested(story))));
                }
                Write::Merged { changed, told } => {
                    let stories = changed.iter();
                    let stories = stories.map(|(key, story)| (*key, Arc::clone(&story.after)));
                    self.stories.extend(stories);
                    drop(told.send(Ok(changed.into_values().collect())));
                }
                Write::Checkpoint { checkpoint, told } => {
                    self.checkpoint = Some(checkpoint);
                    drop(told.send(Ok(())));
                }
                Write::Profile { hash, text, told } => {
                    self.profiles.insert(hash.0, text);
                    drop(told.send(Ok(())));
                }
            }
        }
        flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::ledger::examples::{
        RETENTION, START, answered, block, persist, recall, started,
    };
    use crate::domain::attempt::Verdict;

    fn manual() -> MemoryLedger {
        MemoryLedger::new(RETENTION, Flushing::Manual)
    }

    #[test]
    fn what_is_not_flushed_is_not_recalled_and_a_crash_forgets_it() {
        let ledger = manual();
        let first = ledger.persist(None, started(1, START));
        assert_eq!(recall(&ledger, 1), None);
        assert_eq!(ledger.flush(), 1);
        let open = block(first).unwrap();
        assert_eq!(recall(&ledger, 1).as_ref(), Some(&open.story));

        let settled = answered(1, START, Verdict::Accepted);
        let lost = ledger.persist(Some(Arc::clone(&open.story)), settled);
        assert_eq!(ledger.unflushed(), 1);
        ledger.forget_unflushed();
        assert!(matches!(block(lost), Err(LedgerError::Closed)));
        assert_eq!(ledger.flush(), 0);
        assert_eq!(recall(&ledger, 1), Some(open.story));
    }

    #[test]
    fn the_guard_sees_what_is_written_and_not_flushed_yet() {
        let ledger = manual();
        let first = ledger.persist(None, started(1, START));
        let second = ledger.persist(None, started(1, START));
        assert!(matches!(block(second), Err(LedgerError::Moved(_))));
        ledger.flush();
        assert!(block(first).is_ok());
    }

    #[test]
    fn a_refusing_one_changes_nothing_and_takes_writes_again() {
        let ledger = MemoryLedger::new(RETENTION, Flushing::Automatic);
        ledger.refuse(Some("disk full".into()));
        let refused = block(ledger.persist(None, started(1, START)));
        assert!(matches!(refused, Err(LedgerError::Unwritable(_))));
        assert_eq!(recall(&ledger, 1), None);
        ledger.refuse(None);
        persist(&ledger, None, started(1, START));
        ledger.close();
        let late = block(ledger.persist(None, started(2, START)));
        assert!(matches!(late, Err(LedgerError::Closed)));
    }
}
