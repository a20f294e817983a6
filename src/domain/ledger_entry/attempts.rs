//! The attempts of a story, in the order of their identities. Nearly always there is one, so they lie in a list: a tree's node
//! has room for eleven, and a story is copied with each entry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AttemptFacts, AttemptId};

/// Every attempt that anyone made under one key. Written down as a map is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<AttemptId, AttemptFacts>")]
pub struct Attempts(Vec<(AttemptId, AttemptFacts)>);

impl Attempts {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody has made one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&AttemptId, &AttemptFacts)> {
        self.0.iter().map(|(id, facts)| (id, facts))
    }

    /// Their identities.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &AttemptId> {
        self.0.iter().map(|(id, _)| id)
    }

    /// What is known of each.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &AttemptFacts> {
        self.0.iter().map(|(_, facts)| facts)
    }

    /// What is known of each, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut AttemptFacts> {
        self.0.iter_mut().map(|(_, facts)| facts)
    }

    /// What is known of this one, if it is known at all.
    pub fn get(&self, id: &AttemptId) -> Option<&AttemptFacts> {
        let at = self.place(id).ok()?;
        self.0.get(at).map(|(_, facts)| facts)
    }

    /// What is known of this one, to be added to.
    pub(super) fn of(&mut self, id: AttemptId) -> &mut AttemptFacts {
        let at = self.place(&id).unwrap_or_else(|at| {
            self.0.insert(at, (id, AttemptFacts::default()));
            at
        });
        #[allow(
            clippy::indexing_slicing,
            reason = "it is there, or has just been put there"
        )]
        &mut self.0[at].1
    }

    fn place(&self, id: &AttemptId) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(id))
    }
}

impl From<BTreeMap<AttemptId, AttemptFacts>> for Attempts {
    fn from(attempts: BTreeMap<AttemptId, AttemptFacts>) -> Self {
        Self(attempts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::super::{Started, Writer};
    use super::*;
    use crate::domain::time::Timestamp;

    proptest! {
        /// Oracle: the map that they are written down as.
        #[test]
        fn they_are_and_are_written_as_a_map_of_the_same(
            made in prop::collection::vec((0_u32..3, 0_u32..4, 0_u128..3, any::<i64>()), 0..30),
        ) {
            let (mut attempts, mut map) = (Attempts::default(), BTreeMap::new());
            for (round, attempt, writer, at) in made {
                let id = AttemptId { round, attempt, writer: Writer(Uuid::from_u128(writer)) };
                let at = Timestamp::from_millis(at);
                let started = Some(Started { at, deadline: at });
                attempts.of(id).started = started;
                let facts: &mut AttemptFacts = map.entry(id).or_default();
                facts.started = started;
            }
            prop_assert!(attempts.iter().eq(&map));
            prop_assert!(map.keys().all(|id| attempts.get(id) == map.get(id)));
            let written = postcard::to_allocvec(&attempts).unwrap();
            prop_assert_eq!(&written, &postcard::to_allocvec(&map).unwrap());
            prop_assert_eq!(postcard::from_bytes::<Attempts>(&written).unwrap(), attempts);
        }
    }
}
