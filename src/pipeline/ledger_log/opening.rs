//! Opens the log at the start of a process.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::error::KafkaError;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::debts::Debts;
use super::follower::{self, Follower};
use super::logs::{LogOf, Logs};
use super::recognising::{Recognised, recognise};
use super::{LedgerLog, Unacknowledged};
use crate::adapters::clock::Clock;
use crate::adapters::kafka::client;
use crate::adapters::kafka::ledger_topic::{LedgerAppender, LedgerReader};
use crate::adapters::kafka::oauth::TokenSource;
use crate::adapters::ledger::{Ledger, LedgerError};
use crate::config::KafkaConfig;
use crate::domain::idempotency_key::ProfileHash;
use crate::domain::ledger_log::Checkpoint;
use crate::domain::position::TopicPartition;
use crate::pipeline::depth::Depth;
use crate::pipeline::tenures::Tenures;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::status::Status;

/// What is needed to open it.
pub struct Opening<'a> {
    /// The cluster and the topics.
    pub kafka: &'a KafkaConfig,
    /// What the clients log in with.
    pub tokens: &'a TokenSource,
    /// The log of each intents topic.
    pub logs: Vec<LogOf>,
    /// How long the log remembers at least.
    pub retention: Duration,
    /// The profiles in force.
    pub profiles: Vec<(ProfileHash, Arc<str>)>,
    /// Where everything goes.
    pub ledger: Arc<dyn Ledger>,
    /// The tenures that run.
    pub tenures: Arc<Tenures>,
    /// Dead letters that nobody has dealt with.
    pub depth: Arc<Depth>,
    /// Time.
    pub clock: Clock,
    /// Where the ledger's answers are waited for.
    pub runtime: Handle,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What the admin listener tells.
    pub status: Arc<Status>,
}

/// Why it cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    /// Kafka cannot be reached or does not let us in.
    #[error("the ledger topic")]
    Kafka(#[from] KafkaError),
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The system refused the thread.
    #[error("the thread that follows the ledger topic")]
    Thread(#[from] std::io::Error),
}

/// An open log.
pub struct Opened {
    /// The log.
    pub log: Arc<LedgerLog>,
    /// The thread that follows it.
    pub following: Following,
    /// Tells of each partition that another instance has taken.
    pub fenced: mpsc::UnboundedReceiver<TopicPartition>,
}

/// The thread that follows the log. It is needed until the last that was worked on has been recorded.
pub struct Following {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<()>,
}

impl Following {
    /// Resolves once it has ended by itself: nobody learns any more what others do.
    pub async fn ended(&mut self) {
        // It never says anything but that it is gone.
        let _ = (&mut self.ended).await;
    }

    /// Ends it, after it has kept how far it has come.
    pub fn end(self) {
        self.stop.send_replace(true);
        if self.thread.join().is_err() {
            tracing::error!("the thread that follows the ledger topic panicked");
        }
    }
}

/// Opens the log, and begins to follow it where an earlier process on this machine has left off.
///
/// # Errors
///
/// When no broker answers, or the ledger cannot be read.
pub fn open(opening: Opening<'_>) -> Result<Opened, OpeningError> {
    let logs = Logs(opening.logs);
    let reader = client::ledger_reader(opening.kafka);
    let reader = LedgerReader::new(&reader, opening.tokens.clone())?;
    let mut checkpoint = match opening.ledger.checkpoint()? {
        Some(checkpoint) => checkpoint,
        // It holds nothing that the log could lack.
        None if opening.ledger.size().entries == 0 => Checkpoint::none_yet([]),
        None => Checkpoint::none_yet(logs.partitions()),
    };
    let Recognised { begin, strange } = recognise(&reader, &logs, &checkpoint)?;
    for partition in strange {
        let was_followed = checkpoint.followed.iter().any(|(of, _)| *of == partition);
        if was_followed && checkpoint.unpublished.insert(partition.clone()) {
            tracing::warn!(
                %partition,
                "the ledger topic is not the one that this ledger has followed: it is read from its beginning, and told what is known here"
            );
        }
    }
    checkpoint.followed.clone_from(&begin);
    opening
        .runtime
        .block_on(opening.ledger.keep_checkpoint(checkpoint.clone()))?;
    let appender = client::ledger_appender(opening.kafka);
    let log = Arc::new(LedgerLog {
        appender: LedgerAppender::new(&appender, opening.tokens.clone())?,
        logs,
        clock: opening.clock,
        status: Arc::clone(&opening.status),
        followed: Mutex::default(),
        moved: Notify::new(),
        profiles: opening.profiles,
        debts: Debts::of(&checkpoint),
        unacknowledged: Mutex::new(Unacknowledged::default()),
    });
    opening
        .runtime
        .spawn(Arc::clone(&log).pay_results(Arc::clone(&opening.ledger)));
    let (stop, stopped) = watch::channel(false);
    let (fenced, told) = mpsc::unbounded_channel();
    let parts = follower::Parts {
        log: Arc::clone(&log),
        ledger: opening.ledger,
        tenures: opening.tenures,
        depth: opening.depth,
        fenced,
        runtime: opening.runtime,
        metrics: opening.metrics,
        status: opening.status,
        remind_every: opening.retention / 4,
        stop: stopped,
    };
    let follower = Follower::new(reader, parts, begin)?;
    let (alive, ended) = oneshot::channel();
    let thread = follower.start(alive)?;
    Ok(Opened {
        log,
        following: Following {
            stop,
            thread,
            ended,
        },
        fenced: told,
    })
}
