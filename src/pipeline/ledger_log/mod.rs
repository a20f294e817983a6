//! The ledger as a log in Kafka, through which it follows its partition: what is appended there, how far the log has been
//! followed, and whether a tenure still owns its partition. What a record counts for is decided in `domain::ledger_log`.

mod debts;
mod follower;
mod logs;
mod opening;
mod recognising;
mod taking_over;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::error::KafkaError;
use tokio::sync::Notify;

use crate::adapters::clock::Clock;
use crate::adapters::kafka::ledger_topic::LedgerAppender;
use crate::domain::idempotency_key::ProfileHash;
use crate::domain::ledger_log::{Appended, Checkpoint, Claim, LogView, Logged};
use crate::domain::position::{NextOffset, TopicPartition};
use crate::domain::time::{CLOCK_SKEW, Timestamp};
use crate::telemetry::status::{NotReady, Status};

use super::tenure::Tenure;
use debts::Debts;
use logs::Logs;

pub use logs::LogOf;
pub use opening::{Following, Opened, Opening, OpeningError, open};

/// Between two tries to append what was not acknowledged.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The log of all intents topics.
pub struct LedgerLog {
    appender: LedgerAppender,
    logs: Logs,
    clock: Clock,
    status: Arc<Status>,
    /// How far the log of each partition of intents has been followed.
    followed: Mutex<HashMap<TopicPartition, LogView>>,
    moved: Notify,
    /// The profiles in force, for those who must render what is open here.
    profiles: Vec<(ProfileHash, Arc<str>)>,
    /// What an earlier process on this machine may have recorded and not appended.
    debts: Debts,
    /// When each result was recorded that is on the disk and not in the log yet.
    unacknowledged: Mutex<Unacknowledged>,
}

#[derive(Default)]
struct Unacknowledged {
    next: u64,
    since: BTreeMap<u64, Timestamp>,
}

/// Held while a result is on the disk and not in the log yet.
pub struct Owed<'a> {
    log: &'a LedgerLog,
    number: u64,
}

impl LedgerLog {
    /// Whether what this tenure has appended was the owner's. Resolves once the log has been followed so far.
    pub async fn claim(&self, tenure: &Tenure, appended: Appended) -> Claim {
        let followed = async {
            loop {
                let moved = self.moved.notified();
                let view = self.followed().get(&tenure.partition).copied();
                match view.map_or(Claim::NotYet, |view| view.claim(tenure.writer, appended)) {
                    Claim::NotYet => moved.await,
                    claim @ (Claim::Good | Claim::Fenced) => return claim,
                }
            }
        };
        tokio::select! {
            claim = followed => claim,
            () = tenure.over() => Claim::Fenced,
        }
    }

    /// Appends to the partition of the log that belongs to `partition` of the intents, and tries until it is acknowledged.
    pub async fn append(&self, partition: &TopicPartition, logged: &Logged) -> Appended {
        let to = self.logs.log_of(partition);
        loop {
            let after = self.followed().get(partition).map(LogView::read_to);
            match self.appender.append(&to, logged).await {
                Ok(at) => {
                    self.status.clear(NotReady::LedgerTopicUnavailable);
                    let after = after.unwrap_or(NextOffset(0));
                    return Appended { at, after };
                }
                Err(error) => {
                    self.not_acknowledged(&to, &error);
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    }

    fn not_acknowledged(&self, at: &TopicPartition, error: &KafkaError) {
        if self.status.set(NotReady::LedgerTopicUnavailable) {
            tracing::error!(
                %error, partition = %at,
                "the ledger topic takes no entries: nothing is sent until it does"
            );
        }
    }

    /// To be held while a result that is about to be recorded on the disk is not in the log yet.
    pub fn owed(&self, at: Timestamp) -> Owed<'_> {
        let mut unacknowledged = self.unacknowledged();
        let number = unacknowledged.next;
        unacknowledged.next += 1;
        unacknowledged.since.insert(number, at);
        Owed { log: self, number }
    }

    /// Says again whose the partition is and by which profiles its intents are rendered, before the log forgets it.
    async fn remind(self: Arc<Self>, tenure: Arc<Tenure>) {
        self.append_profiles(&tenure.partition).await;
        let marker = Logged::Owner(tenure.writer);
        if !tenure.is_over() {
            tokio::select! {
                _ = self.append(&tenure.partition, &marker) => {}
                () = tenure.over() => {}
            }
        }
    }

    async fn append_profiles(&self, partition: &TopicPartition) {
        for (hash, text) in &self.profiles {
            let (hash, text) = (*hash, Arc::clone(text));
            self.append(partition, &Logged::Profile { hash, text })
                .await;
        }
    }

    /// How far the log has been followed. What is recorded after the last checkpoint of a process is none of its own.
    fn checkpoint(&self, is_last: bool) -> Checkpoint {
        let now = self.clock.now();
        let oldest = self.unacknowledged().since.values().min().copied();
        let of_this_process = match oldest {
            None if is_last => now,
            // The clock may be set back before the next result is recorded.
            None => now.minus(CLOCK_SKEW),
            Some(oldest) => oldest.min(now).minus(CLOCK_SKEW),
        };
        Checkpoint {
            followed: self
                .followed()
                .iter()
                .map(|(of, view)| (of.clone(), *view))
                .collect(),
            appended_to: self.debts.since().unwrap_or(of_this_process),
            unpublished: self.debts.unpublished(),
        }
    }

    /// Takes note that a partition has been followed so far, and that all of it is in the ledger.
    fn has_followed(&self, views: impl IntoIterator<Item = (TopicPartition, LogView)>) {
        self.followed().extend(views);
        self.moved.notify_waiters();
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<TopicPartition, LogView>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unacknowledged(&self) -> MutexGuard<'_, Unacknowledged> {
        self.unacknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        self.log.unacknowledged().since.remove(&self.number);
    }
}
