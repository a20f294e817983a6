//! One assignment of one partition: who may start attempts for it, what is open in it, and when its work has ended.
//!
//! A tenure owns its partition once it has read in the ledger topic all that others have done there, or at once where there is
//! no ledger topic. A tenure that is over starts nothing new. Its late results still reach the ledger, but never a commit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::adapters::kafka::consumer::Beginning;
use crate::domain::ledger_entry::Writer;
use crate::domain::offset_tracker::{OffsetTracker, Settlement, TrackerFault};
use crate::domain::position::{AssignmentEpoch, NextOffset, Offset, TopicPartition};
use crate::domain::time::Timestamp;

/// One assignment of one partition.
pub struct Tenure {
    /// The partition.
    pub partition: TopicPartition,
    /// Grows with each assignment in this process.
    pub epoch: AssignmentEpoch,
    /// Under which name its entries are written.
    pub writer: Writer,
    beginning: Beginning,
    over: watch::Sender<bool>,
    /// Since when it owns its partition, if it does.
    owned: watch::Sender<Option<Timestamp>>,
    let_go: AtomicBool,
    book: Mutex<Book>,
    idle: Notify,
}

/// What is open in a tenure.
#[derive(Default)]
struct Book {
    tracker: OffsetTracker,
    at_work: usize,
    read_to: Option<NextOffset>,
    oldest: BTreeMap<Offset, Timestamp>,
}

/// Held by whoever works on a record of the tenure; the tenure is idle when all are gone.
pub struct AtWork(Arc<Tenure>);

impl Tenure {
    /// A tenure that begins now.
    pub fn new(
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        writer: Writer,
        beginning: Beginning,
    ) -> Self {
        let tracker = match beginning {
            Beginning::Committed(_) | Beginning::Earliest => OffsetTracker::default(),
            Beginning::Chosen(next) => OffsetTracker::beginning_at(next),
        };
        let book = Book {
            tracker,
            ..Book::default()
        };
        Self {
            partition,
            epoch,
            writer,
            beginning,
            over: watch::Sender::new(false),
            owned: watch::Sender::new(None),
            let_go: AtomicBool::new(false),
            book: Mutex::new(book),
            idle: Notify::new(),
        }
    }

    /// Takes note of a record that has been read.
    pub fn open(&self, offset: Offset, recorded_at: Timestamp) -> Result<(), TrackerFault> {
        let mut book = self.book();
        book.tracker.open(offset)?;
        book.oldest.insert(offset, recorded_at);
        book.read_to = Some(offset.next());
        Ok(())
    }

    /// Takes note that a record's end is durable, or that there is nothing to remember of it.
    pub fn settle(&self, offset: Offset, settlement: Settlement) -> Result<(), TrackerFault> {
        let mut book = self.book();
        book.oldest.remove(&offset);
        book.tracker.settle(offset, settlement)
    }

    /// The position that may be committed; nothing any more once the partition was let go.
    pub fn committable(&self) -> Option<NextOffset> {
        if self.let_go.load(Ordering::SeqCst) {
            return None;
        }
        self.book().tracker.committable()
    }

    /// Where reading began, if that is known.
    pub fn begun_at(&self) -> Option<NextOffset> {
        self.beginning.position()
    }

    /// The position after the last record that was read; `None` before the first.
    pub fn read_to(&self) -> Option<NextOffset> {
        self.book().read_to
    }

    /// Records between the committable position and the last one read.
    pub fn span(&self) -> usize {
        self.book().tracker.span()
    }

    /// When the record was written that has been open longest by its timestamp's offset order.
    pub fn oldest_open(&self) -> Option<Timestamp> {
        self.book().oldest.values().min().copied()
    }

    /// Records that are open.
    pub fn open_count(&self) -> usize {
        self.book().oldest.len()
    }

    /// Counts the caller as at work until the guard is dropped.
    pub fn at_work(self: &Arc<Self>) -> AtWork {
        self.book().at_work += 1;
        AtWork(Arc::clone(self))
    }

    /// From now on it owns its partition: work on its records may begin.
    pub fn own(&self, now: Timestamp) {
        self.owned.send_replace(Some(now));
    }

    /// Whether it owns its partition.
    pub fn owns(&self) -> bool {
        self.owned_since().is_some()
    }

    /// Since when it owns its partition, by our own clock.
    pub fn owned_since(&self) -> Option<Timestamp> {
        *self.owned.borrow()
    }

    /// Resolves once it owns its partition.
    pub async fn owned(&self) {
        let mut owned = self.owned.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = owned.wait_for(Option::is_some).await;
    }

    /// From now on nothing new is started.
    pub fn end(&self) {
        self.over.send_replace(true);
    }

    /// From now on nothing is committed either.
    pub fn let_go(&self) {
        self.end();
        self.let_go.store(true, Ordering::SeqCst);
    }

    /// Whether nothing new may be started.
    pub fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Resolves once nothing new may be started.
    pub async fn over(&self) {
        let mut over = self.over.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = over.wait_for(|over| *over).await;
    }

    /// Records that are being worked on.
    pub fn at_work_count(&self) -> usize {
        self.book().at_work
    }

    /// Whether nobody is at work.
    pub fn is_idle(&self) -> bool {
        self.at_work_count() == 0
    }

    /// Resolves once nobody is at work.
    pub async fn idle(&self) {
        loop {
            let told = self.idle.notified();
            if self.is_idle() {
                return;
            }
            told.await;
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut book = self.0.book();
        book.at_work = book.at_work.saturating_sub(1);
        if book.at_work == 0 {
            self.0.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn tenure() -> Tenure {
        let partition = TopicPartition {
            topic: "t".into(),
            partition: 0,
        };
        let writer = Writer(Uuid::nil());
        Tenure::new(partition, AssignmentEpoch(1), writer, Beginning::Earliest)
    }

    #[test]
    fn nothing_is_committed_for_a_partition_that_was_let_go() {
        let tenure = tenure();
        tenure.open(Offset(4), Timestamp::EPOCH).unwrap();
        tenure.settle(Offset(4), Settlement::Ignored).unwrap();
        assert_eq!(tenure.committable(), Some(NextOffset(5)));
        tenure.end();
        assert_eq!(
            tenure.committable(),
            Some(NextOffset(5)),
            "over, but still ours to commit"
        );
        tenure.let_go();
        assert_eq!(tenure.committable(), None);
    }

    #[test]
    fn the_oldest_open_record_is_told_until_it_is_settled() {
        let tenure = tenure();
        tenure.open(Offset(1), Timestamp::from_millis(20)).unwrap();
        tenure.open(Offset(2), Timestamp::from_millis(10)).unwrap();
        assert_eq!(tenure.oldest_open(), Some(Timestamp::from_millis(10)));
        tenure.settle(Offset(2), Settlement::Ignored).unwrap();
        assert_eq!(tenure.oldest_open(), Some(Timestamp::from_millis(20)));
        assert_eq!((tenure.open_count(), tenure.span()), (1, 2));
    }

    #[tokio::test]
    async fn a_tenure_is_idle_once_the_last_one_at_work_is_gone() {
        let tenure = Arc::new(tenure());
        let first = tenure.at_work();
        let second = tenure.at_work();
        drop(first);
        assert!(!tenure.is_idle());
        let waiting = {
            let tenure = Arc::clone(&tenure);
            tokio::spawn(async move { tenure.idle().await })
        };
        tokio::task::yield_now().await;
        drop(second);
        waiting.await.unwrap();
    }
}
