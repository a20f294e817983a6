//! The tenures that run now, by partition.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::{Arc, MutexGuard, PoisonError, RwLock};

use uuid::Uuid;

use crate::adapters::kafka::consumer::Beginning;
use crate::domain::ledger_entry::Writer;
use crate::domain::position::{AssignmentEpoch, TopicPartition};

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
