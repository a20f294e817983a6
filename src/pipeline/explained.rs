//! The message ids of one account that the ledger can explain: each belongs to a story of its own, so that a look-up by
//! content takes no other intent's message for ours. Kept only where the profile's look-up can be ambiguous.
//!
//! A message that is being sent just now has no id yet. So what is on its way is counted by what a look-up would see of it,
//! and while an equal message is on its way a find proves nothing.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::adapters::ledger::{Ledger, LedgerError};
use crate::domain::profile::Pointer;

/// What is known of an account's message ids: a hash of each, 8 bytes.
#[derive(Debug, Default)]
pub struct Explained {
    hasher: RandomState,
    known: Mutex<Option<HashSet<u64>>>,
    on_their_way: Mutex<HashMap<u64, u32>>,
}

/// A message is on its way while this lives.
#[derive(Debug)]
pub struct OnItsWay<'a> {
    all: &'a Mutex<HashMap<u64, u32>>,
    looks_like: u64,
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.looks_like) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                all.remove(&self.looks_like);
            }
        }
    }
}

impl Explained {
    /// Reads the ledger once, so that what was accepted before this process is known too. Blocks.
    pub fn read(&self, provider: &str, ledger: &dyn Ledger) -> Result<(), LedgerError> {
        let mut known = self.known();
        if known.is_some() {
            return Ok(());
        }
        let mut found = HashSet::new();
        ledger.each_story(&mut |story| {
            let ours = story
                .rendering
                .as_ref()
                .is_some_and(|rendering| &*rendering.provider == provider);
            if ours
                && let Some(id) = story
                    .accepted()
                    .and_then(|answer| answer.message_id.as_deref())
            {
                found.insert(self.hasher.hash_one(id));
            }
            true
        })?;
        *known = Some(found);
        Ok(())
    }

    /// Takes note of an accepted message's id, if ids are kept at all.
    pub fn accepted(&self, message_id: &str) {
        let hash = self.hasher.hash_one(message_id);
        if let Some(known) = self.known().as_mut() {
            known.insert(hash);
        }
    }

    /// Whether the ledger explains this id.
    pub fn explains(&self, message_id: &str) -> bool {
        let hash = self.hasher.hash_one(message_id);
        self.known()
            .as_ref()
            .is_some_and(|known| known.contains(&hash))
    }

    /// Claims an id for one story; false if another has it.
    pub fn claim(&self, message_id: &str) -> bool {
        let hash = self.hasher.hash_one(message_id);
        self.known().as_mut().is_none_or(|known| known.insert(hash))
    }

    /// Counts a message that looks like this to a look-up as on its way.
    pub fn departs(&self, ours: &[(&Pointer, String)]) -> OnItsWay<'_> {
        let looks_like = self.looks(ours);
        *self.ways().entry(looks_like).or_default() += 1;
        let all = &self.on_their_way;
        OnItsWay { all, looks_like }
    }

    /// Whether a message that looks like this is on its way.
    pub fn is_on_its_way(&self, ours: &[(&Pointer, String)]) -> bool {
        self.ways().contains_key(&self.looks(ours))
    }

    fn looks(&self, ours: &[(&Pointer, String)]) -> u64 {
        let texts: Vec<&str> = ours.iter().map(|(_, text)| text.as_str()).collect();
        self.hasher.hash_one(texts)
    }

    fn ways(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.on_their_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Option<HashSet<u64>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
