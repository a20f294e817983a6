//! The tenures that run now, by partition.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::{Arc, MutexGuard, PoisonError, RwLock};

use uuid::Uuid;

use crate::adapters::kafka::consumer::Beginning;
use crate::domain::ledger_entry::Writer;
use crate::domain::position::{AssignmentEpoch, NextOffset, TopicPartition};
use crate::domain::record::Record;

use super::tenure::Tenure;

/// The tenures that run now.
#[derive(Default)]
pub struct Tenures {
    running: RwLock<HashMap<TopicPartition, Arc<Tenure>>>,
    epochs: Mutex<u64>,
}

impl Tenures {
    /// Begins a tenure of this partition, under a writer's name of its own.
    pub fn begin(
        &self,
        partition: TopicPartition,
        writer: Uuid,
        beginning: Beginning,
    ) -> Arc<Tenure> {
        let epoch = {
            let mut epochs = self.epochs();
            *epochs += 1;
            AssignmentEpoch(*epochs)
        };
        let tenure = Arc::new(Tenure::new(
            partition.clone(),
            epoch,
            Writer(writer),
            beginning,
        ));
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(former) = running.insert(partition, Arc::clone(&tenure)) {
            former.let_go();
        }
        tenure
    }

    /// Opens a record in its partition's tenure and returns that; `None` if none runs.
    ///
    /// A record that comes after a later one says that the log was cut or made anew, and that the client began again. So
    /// does the partition: in a tenure of its own, under the name that `writer` draws. What is settled is suppressed.
    pub fn open(&self, record: &Record, writer: impl FnOnce() -> Uuid) -> Option<Arc<Tenure>> {
        let position = &record.position;
        let tenure = self.of(&position.partition)?;
        let Err(fault) = tenure.open(position.offset, record.timestamp) else {
            return Some(tenure);
        };
        tracing::warn!(%position, %fault, "reading went back; a new tenure begins here");
        let from = Beginning::Committed(NextOffset(position.offset.0));
        let tenure = self.begin(position.partition.clone(), writer(), from);
        let opened = tenure.open(position.offset, record.timestamp);
        opened.is_ok().then_some(tenure)
    }

    /// The tenure of this partition, if it runs.
    pub fn of(&self, partition: &TopicPartition) -> Option<Arc<Tenure>> {
        self.running
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(partition)
            .cloned()
    }

    /// All that run.
    pub fn all(&self) -> Vec<Arc<Tenure>> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.values().cloned().collect()
    }

    /// Takes these out: from now on nothing is started or committed for them.
    pub fn let_go(&self, partitions: &[TopicPartition]) {
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        for partition in partitions {
            if let Some(tenure) = running.remove(partition) {
                tenure.let_go();
            }
        }
    }

    fn epochs(&self) -> MutexGuard<'_, u64> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::offset_tracker::Settlement;
    use crate::domain::position::{Offset, Position};
    use crate::domain::time::Timestamp;

    fn record(offset: i64) -> Record {
        let partition = TopicPartition {
            topic: "send-intents".into(),
            partition: 0,
        };
        Record {
            position: Position {
                partition,
                offset: Offset(offset),
            },
            timestamp: Timestamp::EPOCH,
            key: None,
            value: None,
            headers: Vec::new(),
            headers_unreadable: 0,
        }
    }

    fn opened(tenures: &Tenures, offset: i64) -> Arc<Tenure> {
        tenures
            .open(&record(offset), || Uuid::from_u128(2))
            .expect("no record is dropped")
    }

    #[test]
    fn a_log_that_begins_again_begins_a_tenure_and_drops_no_record() {
        let tenures = Tenures::default();
        let partition = record(0).position.partition;
        let first = tenures.begin(partition.clone(), Uuid::from_u128(1), Beginning::Earliest);
        for offset in 40..43 {
            assert!(Arc::ptr_eq(&opened(&tenures, offset), &first));
        }
        first.settle(Offset(40), Settlement::Ignored).unwrap();
        assert_eq!(first.committable(), Some(NextOffset(41)));

        let second = opened(&tenures, 0);
        assert!(second.epoch > first.epoch && second.writer != first.writer);
        assert!(first.is_over(), "nothing is started in the cut log's name");
        assert_eq!(
            first.committable(),
            None,
            "a position of the cut log is never committed over the new one's"
        );
        assert!(Arc::ptr_eq(&opened(&tenures, 1), &second));
        assert!(Arc::ptr_eq(&tenures.of(&partition).unwrap(), &second));
        assert_eq!(
            (second.open_count(), second.begun_at()),
            (2, Some(NextOffset(0)))
        );
        second.settle(Offset(0), Settlement::Ignored).unwrap();
        assert_eq!(second.committable(), Some(NextOffset(1)));
    }

    #[test]
    fn a_record_that_comes_twice_begins_a_tenure_too() {
        let tenures = Tenures::default();
        let partition = record(0).position.partition;
        tenures.begin(partition, Uuid::from_u128(1), Beginning::Earliest);
        let first = opened(&tenures, 7);
        let second = opened(&tenures, 7);
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!(second.open_count(), 1);
    }

    #[test]
    fn a_record_of_a_partition_that_was_let_go_is_not_opened() {
        let tenures = Tenures::default();
        assert!(tenures.open(&record(0), Uuid::nil).is_none());
    }
}
