//! Follows the log on a thread of its own: what others have appended goes into the ledger, and only then counts as followed.
//! It follows all partitions, whoever owns them, so that a takeover finds everything there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::error::KafkaResult;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::adapters::kafka::ledger_topic::{LedgerReader, Told, Unreadable};
use crate::adapters::ledger::{Changed, Ledger, LedgerError};
use crate::domain::idempotency_key::ProfileHash;
use crate::domain::ledger_entry::Entry;
use crate::domain::ledger_log::{LogView, Logged, Reading};
use crate::domain::position::{Position, TopicPartition};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::status::{NotReady, Status};

use super::LedgerLog;
use crate::pipeline::depth::Depth;
use crate::pipeline::tenures::Tenures;

/// The longest that one look at the log takes.
const LOOK: Duration = Duration::from_millis(100);
/// How long entries are gathered before they are put into the ledger together.
const GATHER: Duration = Duration::from_millis(5);
/// Entries that are put into the ledger together, at most.
const BATCH: usize = 1_024;
/// Between two checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(5);

/// The following thread.
pub struct Follower {
    reader: LedgerReader,
    parts: Parts,
    views: BTreeMap<TopicPartition, LogView>,
    /// Partitions that hold something which cannot be read. They are not followed any further.
    stuck: BTreeSet<TopicPartition>,
    gathered: Gathered,
    checkpointed: Instant,
    reminded: Instant,
}

/// What the following thread works with.
pub struct Parts {
    /// The log.
    pub log: Arc<LedgerLog>,
    /// Where everything goes.
    pub ledger: Arc<dyn Ledger>,
    /// The tenures that run: one that is not the owner any more ends.
    pub tenures: Arc<Tenures>,
    /// Dead letters that nobody has dealt with.
    pub depth: Arc<Depth>,
    /// Told of each partition whose tenure has ended so.
    pub fenced: mpsc::UnboundedSender<TopicPartition>,
    /// Where the ledger's answers are waited for.
    pub runtime: Handle,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What the admin listener tells.
    pub status: Arc<Status>,
    /// How often owners say again that they are: well before the log forgets it.
    pub remind_every: Duration,
    /// Turns true when following is to end.
    pub stop: watch::Receiver<bool>,
}

/// What has been read and is not in the ledger yet.
#[derive(Default)]
struct Gathered {
    entries: Vec<Entry>,
    profiles: HashMap<ProfileHash, Arc<str>>,
    views: BTreeMap<TopicPartition, LogView>,
    since: Option<Instant>,
}

impl Follower {
    /// Follows each partition from where the view of it ends.
    ///
    /// # Errors
    ///
    /// When librdkafka does not take the partitions.
    pub fn new(
        reader: LedgerReader,
        parts: Parts,
        begin: Vec<(TopicPartition, LogView)>,
    ) -> KafkaResult<Self> {
        let mut follower = Self {
            reader,
            parts,
            views: BTreeMap::new(),
            stuck: BTreeSet::new(),
            gathered: Gathered::default(),
            checkpointed: Instant::now(),
            reminded: Instant::now(),
        };
        let mut from = Vec::new();
        for (partition, view) in begin {
            let log = follower.parts.log.logs.log_of(&partition);
            from.push((log, Some(view.read_to())));
            follower.views.insert(partition, view);
        }
        follower.reader.follow(&from)?;
        let views = follower.views.clone();
        follower.parts.log.has_followed(views);
        Ok(follower)
    }

    /// Starts the thread. `alive` goes when it ends.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn start(self, alive: oneshot::Sender<()>) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("ledger-follower".into())
            .spawn(move || {
                // Dropped at the end, whatever that is.
                let _alive = alive;
                self.run();
            })
    }

    fn run(mut self) {
        while !*self.parts.stop.borrow() {
            if self.reminded.elapsed() >= self.parts.remind_every {
                self.remind();
            }
            let wait = match self.gathered.since {
                Some(since) => GATHER.saturating_sub(since.elapsed()),
                None => LOOK,
            };
            match self.reader.poll(wait) {
                Told::Record { at, logged } => self.read(&at, logged),
                Told::Fault(error) => {
                    tracing::warn!(%error, "following the ledger topic met a fault and goes on");
                }
                Told::Nothing => {}
            }
            let is_due = self
                .gathered
                .since
                .is_some_and(|since| since.elapsed() >= GATHER);
            if is_due || self.gathered.entries.len() >= BATCH {
                if !self.put_into_ledger() {
                    return;
                }
                if self.checkpointed.elapsed() >= CHECKPOINT_EVERY {
                    self.keep_checkpoint(false);
                }
            }
        }
        if self.put_into_ledger() {
            self.keep_checkpoint(true);
        }
    }

    fn read(&mut self, at: &Position, logged: Result<Logged, Unreadable>) {
        let Some(partition) = self.parts.log.logs.intents_of(&at.partition) else {
            return;
        };
        let Some(view) = self.views.get_mut(&partition) else {
            return;
        };
        if self.stuck.contains(&partition) {
            return;
        }
        self.gathered.since.get_or_insert_with(Instant::now);
        match logged {
            Ok(logged) => match view.read(at.offset, logged) {
                Reading::Fold(entry) => self.gathered.entries.push(*entry),
                Reading::Begun(_) => {}
                Reading::Keep { hash, text } => {
                    self.gathered.profiles.insert(hash, text);
                }
                Reading::TooLate(writer) => tracing::warn!(
                    position = %at, writer = %writer.0,
                    "a former owner has decided something too late: it counts for nobody"
                ),
            },
            Err(Unreadable::Foreign) => {
                view.pass(at.offset);
                self.parts.metrics.ledger_topic_foreign();
                tracing::warn!(position = %at, "something in the ledger topic is none of ours; passed over");
            }
            Err(Unreadable::Ours(why)) => {
                self.parts.status.set(NotReady::LedgerTopicUnreadable);
                tracing::error!(
                    position = %at, %why,
                    "an entry of the ledger topic cannot be read: its partition is not taken up here. A newer version may have written it"
                );
                self.stuck.insert(partition);
                return;
            }
        }
        self.gathered.views.insert(partition, *view);
    }

    /// Puts what has been gathered into the ledger, and tries until it is there. Returns whether to go on.
    fn put_into_ledger(&mut self) -> bool {
        let Gathered {
            entries,
            profiles,
            views,
            ..
        } = std::mem::take(&mut self.gathered);
        let (ledger, depth) = (
            Arc::clone(&self.parts.ledger),
            Arc::clone(&self.parts.depth),
        );
        let put = async || {
            for (hash, text) in &profiles {
                ledger.keep_profile(*hash, Arc::clone(text)).await?;
            }
            if !entries.is_empty() {
                let _counting = depth.counting().await;
                for Changed { before, after } in ledger.merge(entries.clone()).await? {
                    depth.changed(before.as_deref(), &after);
                }
            }
            Ok::<(), LedgerError>(())
        };
        loop {
            match self.parts.runtime.block_on(put()) {
                Ok(()) => break,
                Err(LedgerError::Closed) => return false,
                Err(error) => {
                    tracing::error!(%error, "the ledger does not take what was read from its topic; tried again");
                    let pause = async { tokio::time::sleep(Duration::from_secs(1)).await };
                    self.parts.runtime.block_on(pause);
                    if *self.parts.stop.borrow() {
                        return false;
                    }
                }
            }
        }
        self.parts.log.has_followed(views.clone());
        for (partition, view) in views {
            self.fence(partition, &view);
        }
        true
    }

    /// Ends a tenure that the log does not name as the owner any more: another one has followed, or the log was made anew.
    fn fence(&self, partition: TopicPartition, view: &LogView) {
        let Some(tenure) = self.parts.tenures.of(&partition) else {
            return;
        };
        if view.owner() == Some(tenure.writer) || !tenure.owns() || tenure.is_over() {
            return;
        }
        tracing::warn!(
            %partition, epoch = tenure.epoch.0,
            "the ledger topic does not name us as the partition's owner any more: nothing more is started here"
        );
        tenure.end();
        // Nobody listens any more at the end of the process.
        let _ = self.parts.fenced.send(partition);
    }

    /// Lets the owners say again that they are.
    fn remind(&mut self) {
        self.reminded = Instant::now();
        for tenure in self.parts.tenures.all() {
            if tenure.owns() && !tenure.is_over() {
                let log = Arc::clone(&self.parts.log);
                self.parts.runtime.spawn(log.remind(tenure));
            }
        }
    }

    fn keep_checkpoint(&mut self, is_last: bool) {
        self.checkpointed = Instant::now();
        let checkpoint = self.parts.log.checkpoint(is_last);
        let kept = self.parts.ledger.keep_checkpoint(checkpoint);
        if let Err(error) = self.parts.runtime.block_on(kept) {
            tracing::warn!(%error, "how far the ledger topic was followed is not kept; a restart reads more of it again");
        }
    }
}
