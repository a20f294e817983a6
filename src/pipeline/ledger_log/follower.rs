//! Follows the log on a thread of its own: what others have appended goes into the ledger, and only then counts as followed.
//! It follows all partitions, whoever owns them, so that a takeover finds everything there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::error::KafkaResult;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::adapters::kafka::ledger_topic::{LedgerReader, Told, Unreadable};
use crate::adapters::ledger::{Changed, Ledger, LedgerError};
use crate::domain::idempotency_key::ProfileHash;
use crate::domain::ledger_entry::{Entry, Writer};
use crate::domain::ledger_log::{Checkpoint, LogView, Logged, Reading};
use crate::domain::position::{NextOffset, Position, TopicPartition};
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
/// How long a broker may take to say where a partition of the log begins and ends.
const ASK: Duration = Duration::from_secs(20);

/// The following thread.
pub struct Follower {
    reader: LedgerReader,
    parts: Parts,
    views: BTreeMap<TopicPartition, LogView>,
    /// Partitions that hold something which cannot be read. They are not followed any further.
    stuck: BTreeSet<TopicPartition>,
    gathered: Gathered,
    checkpointed: Instant,
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
    /// Turns true when following is to end.
    pub stop: watch::Receiver<bool>,
}

/// What has been read and is not in the ledger yet.
#[derive(Default)]
struct Gathered {
    entries: Vec<Entry>,
    profiles: HashMap<ProfileHash, Arc<str>>,
    /// Owners' markers, in the order of the log.
    begun: Vec<(TopicPartition, Writer)>,
    views: BTreeMap<TopicPartition, LogView>,
    since: Option<Instant>,
}

impl Follower {
    /// Finds out where to begin in each partition: where an earlier process on this machine has left off, as long as the log
    /// still reaches back so far.
    ///
    /// # Errors
    ///
    /// When no broker answers.
    pub fn new(reader: LedgerReader, parts: Parts, checkpoint: &Checkpoint) -> KafkaResult<Self> {
        let mut follower = Self {
            reader,
            parts,
            views: BTreeMap::new(),
            stuck: BTreeSet::new(),
            gathered: Gathered::default(),
            checkpointed: Instant::now(),
        };
        let mut from = Vec::new();
        for partition in follower.parts.log.logs.partitions() {
            let log = follower.parts.log.logs.log_of(&partition);
            let (low, high) = follower.reader.watermarks(&log, ASK)?;
            let low = NextOffset(low.0);
            let mut known = checkpoint.followed.iter();
            let left_off = known.find(|(of, _)| *of == partition);
            let view = left_off
                .map(|(_, view)| *view)
                .filter(|view| (low..=high).contains(&view.read_to()))
                .unwrap_or(LogView::beginning(low, None));
            from.push((log, Some(view.read_to())));
            follower.views.insert(partition, view);
        }
        follower.reader.follow(&from)?;
        let views = follower.views.clone();
        follower.parts.log.has_followed(views);
        Ok(follower)
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn start(self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("ledger-follower".into())
            .spawn(move || self.run())
    }

    fn run(mut self) {
        while !*self.parts.stop.borrow() {
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
                Reading::Fold(entry) if self.parts.log.is_own(&entry) => {}
                Reading::Fold(entry) => self.gathered.entries.push(*entry),
                Reading::Begun(writer) => self.gathered.begun.push((partition.clone(), writer)),
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
            begun,
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
        self.parts.log.has_followed(views);
        for (partition, writer) in begun {
            self.fence(partition, writer);
        }
        true
    }

    /// Ends the tenure that another one has followed.
    fn fence(&self, partition: TopicPartition, owner: Writer) {
        let Some(tenure) = self.parts.tenures.of(&partition) else {
            return;
        };
        if tenure.writer == owner || !tenure.owns() || tenure.is_over() {
            return;
        }
        tracing::warn!(
            %partition, epoch = tenure.epoch.0,
            "another instance says in the ledger topic that it owns the partition: nothing more is started here"
        );
        tenure.end();
        // Nobody listens any more at the end of the process.
        let _ = self.parts.fenced.send(partition);
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
