//! Decides which position of a partition may be committed: the end of the gap-free prefix of settled records.
//! It does not know how a record was settled, only that its end is durable; it commits nothing itself.

use std::collections::VecDeque;
use std::marker::PhantomData;

use super::position::{NextOffset, Offset};

/// Proof that what settles a record is durable. Only the ledger hands it out, after its flush.
#[derive(Debug)]
#[must_use]
pub struct Persisted {
    sealed: PhantomData<()>,
}

impl Persisted {
    /// Attests that the entry has been flushed. Called by the ledgers alone; `clippy.toml` and `tests/tidy.rs` see to it.
    pub(crate) fn attest() -> Self {
        Self {
            sealed: PhantomData,
        }
    }
}

/// Why a record's offset may move.
#[derive(Debug)]
pub enum Settlement {
    /// Its end is in the ledger.
    Persisted(Persisted),
    /// Nothing is to be remembered of it; the reason has been counted.
    Ignored,
}

/// The open records of one partition, in offset order.
#[derive(Debug, Default)]
pub struct OffsetTracker {
    open: VecDeque<(Offset, bool)>,
    next: Option<NextOffset>,
}

/// A record was offered out of order, or settled without having been opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrackerFault {
    /// Kafka hands out offsets in rising order; this one was not.
    #[error("offset {0:?} came after a later one")]
    OutOfOrder(Offset),
    /// Nothing is open under this offset.
    #[error("offset {0:?} is not open")]
    NotOpen(Offset),
}

impl OffsetTracker {
    /// One for a partition whose reading begins here by choice: this may be committed before anything has been read, so
    /// that the choice is made once.
    pub fn beginning_at(next: NextOffset) -> Self {
        Self {
            open: VecDeque::new(),
            next: Some(next),
        }
    }

    /// Takes note of a record that has been read. Offsets rise but may have gaps (compaction, transactions).
    pub fn open(&mut self, offset: Offset) -> Result<(), TrackerFault> {
        if self.open.back().is_some_and(|(last, _)| *last >= offset)
            || self.next.is_some_and(|next| next > NextOffset(offset.0))
        {
            return Err(TrackerFault::OutOfOrder(offset));
        }
        self.open.push_back((offset, false));
        Ok(())
    }

    /// Takes note that a record's end is durable.
    pub fn settle(&mut self, offset: Offset, settlement: Settlement) -> Result<(), TrackerFault> {
        match settlement {
            Settlement::Persisted(Persisted { .. }) | Settlement::Ignored => {}
        }
        let place = self
            .open
            .binary_search_by_key(&offset, |(open, _)| *open)
            .map_err(|_| TrackerFault::NotOpen(offset))?;
        if let Some((_, settled)) = self.open.get_mut(place) {
            *settled = true;
        }
        while let Some((first, true)) = self.open.front().copied() {
            self.next = Some(first.next());
            self.open.pop_front();
        }
        Ok(())
    }

    /// The position that may be committed; `None` until the first prefix is settled, unless reading began by choice.
    pub fn committable(&self) -> Option<NextOffset> {
        self.next
    }

    /// Records from the first open one to the last read one, settled ones among them included.
    pub fn span(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[allow(clippy::disallowed_methods, reason = "a test has no ledger to ask")]
    fn settled(tracker: &mut OffsetTracker, offset: i64) {
        tracker
            .settle(Offset(offset), Settlement::Persisted(Persisted::attest()))
            .unwrap();
    }

    #[test]
    fn p27_the_committed_position_stops_at_the_first_gap() {
        let mut tracker = OffsetTracker::default();
        for offset in 10..18 {
            tracker.open(Offset(offset)).unwrap();
        }
        for offset in [10, 11, 13, 14, 15, 16, 17] {
            settled(&mut tracker, offset);
        }
        assert_eq!(tracker.committable(), Some(NextOffset(12)));
        assert_eq!(tracker.span(), 6);
        settled(&mut tracker, 12);
        assert_eq!(tracker.committable(), Some(NextOffset(18)));
        assert_eq!(tracker.span(), 0);
    }

    #[test]
    fn a_chosen_beginning_may_be_committed_before_anything_is_read() {
        let mut tracker = OffsetTracker::beginning_at(NextOffset(7));
        assert_eq!(tracker.committable(), Some(NextOffset(7)));
        assert_eq!(
            tracker.open(Offset(6)),
            Err(TrackerFault::OutOfOrder(Offset(6)))
        );
        tracker.open(Offset(7)).unwrap();
        assert_eq!(
            (tracker.committable(), tracker.span()),
            (Some(NextOffset(7)), 1)
        );
        settled(&mut tracker, 7);
        assert_eq!(tracker.committable(), Some(NextOffset(8)));
    }

    #[test]
    fn gaps_in_the_log_itself_do_not_hold_the_position_back() {
        let mut tracker = OffsetTracker::default();
        tracker.open(Offset(3)).unwrap();
        tracker.open(Offset(9)).unwrap();
        settled(&mut tracker, 9);
        assert_eq!(tracker.committable(), None);
        settled(&mut tracker, 3);
        assert_eq!(tracker.committable(), Some(NextOffset(10)));
    }

    #[test]
    fn an_offset_that_goes_back_or_was_never_open_is_a_fault() {
        let mut tracker = OffsetTracker::default();
        tracker.open(Offset(5)).unwrap();
        assert_eq!(
            tracker.open(Offset(5)),
            Err(TrackerFault::OutOfOrder(Offset(5)))
        );
        assert_eq!(
            tracker.settle(Offset(6), Settlement::Ignored),
            Err(TrackerFault::NotOpen(Offset(6)))
        );
        settled(&mut tracker, 5);
        assert_eq!(
            tracker.open(Offset(4)),
            Err(TrackerFault::OutOfOrder(Offset(4)))
        );
    }

    proptest! {
        /// Oracle: the largest prefix of the offsets, in the order they were read, that is wholly settled.
        #[test]
        fn the_position_is_the_end_of_the_settled_prefix(
            offsets in prop::collection::btree_set(0i64..400, 1..60),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let offsets: Vec<i64> = offsets.into_iter().collect();
            let mut tracker = OffsetTracker::default();
            for offset in &offsets {
                tracker.open(Offset(*offset)).unwrap();
            }
            let mut done = BTreeSet::new();
            for index in order {
                let offset = offsets[index.index(offsets.len())];
                if done.insert(offset) {
                    settled(&mut tracker, offset);
                }
                let prefix = offsets.iter().take_while(|offset| done.contains(offset)).last();
                prop_assert_eq!(tracker.committable(), prefix.map(|last| NextOffset(last + 1)));
                let gone = offsets.iter().take_while(|offset| done.contains(offset)).count();
                prop_assert_eq!(tracker.span(), offsets.len() - gone);
            }
        }
    }
}
