//! Builds the service from its configuration, runs it until a signal, and ends it within its time.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::KafkaError;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::adapters::admin;
use crate::adapters::clock::Clock;
use crate::adapters::kafka::client;
use crate::adapters::kafka::consumer::{GroupConsumer, StartAt};
use crate::adapters::kafka::dead_letters::DeadLetters;
use crate::adapters::ledger::sled_store::{FlushReport, LedgerOptions, OpenError, SledLedger};
use crate::adapters::ledger::{Ledger, LedgerError};
use crate::config::Config;
use crate::config::ledger::Replication;
use crate::domain::lanes::LaneTopics;
use crate::telemetry::metrics::{Metrics, MetricsError};
use crate::telemetry::status::Status;

use super::accounts::{AccountFault, Accounts};
use super::committer::Committer;
use super::depth::{Depth, Shown};
use super::intake::{self, Ended, Intake, IntakeLimits};
use super::leaving::{abandon, leave};
use super::ledger_log::{self, Following, Opened, Opening, OpeningError};
use super::lobby::Lobby;
use super::owning::Owning;
use super::tenures::Tenures;
use super::tokens;
use super::topics::{self, Prepared};
use super::upkeep::Upkeep;
use super::work_threads::WorkThreads;
use super::worker::{self, Crew, Reading};

/// Headers and framing of a dead letter, beside the record's own bytes.
const DEAD_LETTER_ROOM: usize = 32_768;
/// How long leaving the group may take: what is left of the drain within these.
const LEAVE_MIN: Duration = Duration::from_millis(500);
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// As asked, with everything in flight recorded.
    Drained,
    /// As asked, but with records still being worked on when the time was up.
    Forced {
        /// How many; unknown if it was asked a second time.
        at_work: Option<usize>,
    },
}

/// Why a run could not begin, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// What is configured cannot work.
    #[error("{0}")]
    Config(String),
    /// A topic that is needed is not there.
    #[error("topic {0} does not exist; create it, or set kafka.create_topics = true")]
    TopicMissing(String),
    /// A topic that is needed is not as it must be.
    #[error("topic {topic} {problem}")]
    TopicUnfit {
        /// Which.
        topic: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Kafka cannot be reached or does not let us in.
    #[error("Kafka")]
    Kafka(#[from] KafkaError),
    /// The ledger topic cannot be followed.
    #[error(transparent)]
    LedgerLog(#[from] OpeningError),
    /// The ledger cannot be opened.
    #[error(transparent)]
    LedgerClosed(#[from] OpenError),
    /// The ledger cannot be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A defect of ours.
    #[error("the reading thread panicked")]
    ReadingPanicked,
    /// A defect of ours, or of sled.
    #[error("the ledger ended by itself: nothing could be recorded any more")]
    LedgerEnded,
    /// The metrics cannot be declared.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The system refused something.
    #[error("{what}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// The refusal.
        source: std::io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> RunError {
    move |source| RunError::System { what, source }
}

/// Runs the service until SIGTERM or SIGINT.
pub fn run(config: &Config, start_at: StartAt) -> Result<Run, RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("service")
        .build()
        .map_err(system("the runtime"))?;
    let threads = WorkThreads::start().map_err(system("the runtimes of the workers"))?;
    let service = begin(config, start_at, &runtime, &threads);
    let outcome = service.and_then(|service| service.run(&runtime));
    // Whoever still waits on a socket does not keep the process alive.
    threads.end(Duration::from_secs(1));
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

struct Service {
    intake: Intake,
    consumer: Arc<GroupConsumer>,
    tenures: Arc<Tenures>,
    ledger: Arc<SledLedger>,
    following: Option<Following>,
    crew: Arc<Crew>,
    upkeep: tokio::task::JoinHandle<()>,
    stop: watch::Sender<bool>,
    drain: Duration,
}

fn begin(
    config: &Config,
    start_at: StartAt,
    runtime: &Runtime,
    threads: &WorkThreads,
) -> Result<Service, RunError> {
    let clock = Clock::default();
    let accounts = &config.providers.accounts;
    let metrics = Metrics::new(accounts.keys().map(|name| &**name), config.lanes.intents())?;
    let metrics = Arc::new(metrics);
    let status = Arc::new(Status::default());
    let keys = config
        .keys
        .ring
        .clone()
        .ok_or_else(|| RunError::Config("keys.secrets: at least one is needed".into()))?;

    let ledger = Arc::new(open_ledger(config, &clock, &metrics)?);
    let shared: Arc<dyn Ledger> = Arc::<SledLedger>::clone(&ledger);
    let shown = match config.ledger.replication {
        Replication::Off => Shown::All,
        Replication::Topic => Shown::Owned,
    };
    let depth = Arc::new(Depth::of(&*ledger, Arc::clone(&metrics), shown)?);
    let accounts = Accounts::open(config, &metrics).map_err(|faults: Vec<AccountFault>| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        RunError::Config(lines.join("\n"))
    })?;
    runtime.block_on(accounts.keep_profiles(&*ledger))?;
    for account in accounts.iter() {
        let span = account.terms.request_span;
        if span >= config.shutdown.drain {
            tracing::warn!(
                provider = %account.name, request_span = ?span, drain = ?config.shutdown.drain,
                "shutdown.drain is not above connect + request timeout: a shutdown may cut a request"
            );
        }
    }

    let tokens = tokens::source(&config.kafka, runtime.handle())
        .map_err(|error| RunError::Config(format!("kafka.oauth: {error}")))?;
    let Prepared {
        partitions,
        logs,
        destinations,
    } = topics::prepare(config, &tokens, runtime)?;
    let record_max = config.intents.size_max.saturating_add(DEAD_LETTER_ROOM);
    let dead_letters = DeadLetters::new(
        &client::producer(&config.kafka, record_max),
        tokens.clone(),
        destinations,
        config.kafka.dead_letter_headers,
    )?;

    let tenures = Arc::new(Tenures::default());
    let (stop, stopped) = watch::channel(false);
    let (log, following, owning) = match config.ledger.replication {
        Replication::Off => (None, None, Owning::without_log(clock.clone())),
        Replication::Topic => {
            let profiles = accounts.iter().map(|account| {
                let text: Arc<str> = account.profile.canonical().into();
                (account.profile_hash, text)
            });
            let opened = ledger_log::open(Opening {
                kafka: &config.kafka,
                tokens: &tokens,
                logs,
                retention: config.ledger.retention,
                profiles: profiles.collect(),
                ledger: Arc::clone(&shared),
                tenures: Arc::clone(&tenures),
                depth: Arc::clone(&depth),
                clock: clock.clone(),
                runtime: runtime.handle().clone(),
                metrics: Arc::clone(&metrics),
                status: Arc::clone(&status),
            })?;
            let Opened {
                log,
                following,
                fenced,
            } = opened;
            let owning = Owning::by_log(
                Arc::clone(&log),
                (Arc::clone(&shared), Arc::clone(&depth)),
                runtime.handle().clone(),
                fenced,
            );
            (Some(log), Some(following), owning)
        }
    };

    let crew = Crew::new(worker::Parts {
        spawner: threads.spawner(),
        clock: clock.clone(),
        ledger: shared,
        log,
        accounts,
        dead_letters,
        depth: Arc::clone(&depth),
        reading: Reading {
            rules: config.intents.rules(),
            keys,
            retention: config.ledger.retention,
            max_age: config.intents.max_age,
        },
        wait_max: config.retry.wait_max,
        group: config.kafka.group.as_str().into(),
        ordered_by_key: config.kafka.ordering == crate::config::Ordering::Key,
        metrics: Arc::clone(&metrics),
        status: Arc::clone(&status),
    });

    if let Some(listen) = config.admin.listen {
        let bound = runtime
            .block_on(admin::Admin::bind(listen))
            .map_err(system("the admin listener"))?;
        runtime.spawn(bound.serve(Arc::clone(&metrics), Arc::clone(&status)));
    }

    let consumer = Arc::new(GroupConsumer::new(
        &client::consumer(&config.kafka),
        tokens,
        start_at,
    )?);
    let lobby = Lobby::new(config.intents.open_max, &config.lanes.weights());
    let lanes = LaneTopics::new(config.lanes.intents().map(Arc::from));
    let upkeep = Upkeep {
        clock,
        ledger: Arc::clone(&ledger),
        consumer: Arc::clone(&consumer),
        tenures: Arc::clone(&tenures),
        occupancy: Arc::clone(lobby.occupancy()),
        lanes: lanes.clone(),
        depth,
        metrics: Arc::clone(&metrics),
        status: Arc::clone(&status),
        stall_after: config.kafka.stall_after,
        expire_every: expire_every(config),
        stop: stopped.clone(),
    };
    let upkeep = runtime.spawn(upkeep.run());
    let committer = Committer::start(
        Arc::clone(&consumer),
        Arc::clone(&tenures),
        Arc::clone(&metrics),
        config.kafka.commit_interval,
    )
    .map_err(system("the committer's thread"))?;
    consumer.subscribe(&config.lanes.intents().collect::<Vec<_>>())?;
    announce(config);

    let intake = Intake::new(intake::Parts {
        consumer: Arc::clone(&consumer),
        tenures: Arc::clone(&tenures),
        committer,
        crew: Arc::clone(&crew),
        lobby,
        owning,
        limits: IntakeLimits {
            span_max: config.kafka.span_max,
            drain: config.shutdown.drain,
        },
        lanes,
        partitions,
        runtime: runtime.handle().clone(),
        metrics,
        status,
        stop: stopped,
    });
    let drain = config.shutdown.drain;
    Ok(Service {
        intake,
        consumer,
        tenures,
        ledger,
        following,
        crew,
        upkeep,
        stop,
        drain,
    })
}

impl Service {
    fn run(self, runtime: &Runtime) -> Result<Run, RunError> {
        let Self {
            intake,
            consumer,
            tenures,
            ledger,
            following,
            crew,
            upkeep,
            stop,
            drain,
        } = self;
        let (mut term, mut int) = runtime
            .block_on(async {
                Ok((
                    signal(SignalKind::terminate())?,
                    signal(SignalKind::interrupt())?,
                ))
            })
            .map_err(system("signals"))?;
        let reading = std::thread::Builder::new()
            .name("intake".into())
            .spawn(move || intake.run())
            .map_err(system("the reading thread"))?;
        let (told, end) = tokio::sync::oneshot::channel();
        std::thread::Builder::new()
            .name("intake-end".into())
            .spawn(move || told.send(reading.join()))
            .map_err(system("a thread"))?;

        let mut asked = async || {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        let mut until = None;
        let mut following = following;
        let mut has_lost_the_log = false;
        let ended = runtime.block_on(async {
            let mut end = end;
            tokio::select! {
                ended = &mut end => return Some(ended),
                () = asked() => tracing::info!(
                    ?drain,
                    "asked to end: nothing new is started, what is in flight is recorded"
                ),
                () = crew.ledger_ended() => {}
                () = followed_to_the_end(&mut following) => {
                    tracing::error!("the ledger topic is not followed any more: the process ends");
                    has_lost_the_log = true;
                }
            }
            until = Some(Instant::now() + drain);
            stop.send_replace(true);
            tokio::select! {
                ended = &mut end => Some(ended),
                () = asked() => None,
            }
        });
        let outcome = match ended {
            Some(Ok(Ok((ended, committer)))) => {
                let left = until.map_or(LEAVE_MAX, |until| {
                    until.saturating_duration_since(Instant::now())
                });
                let patience = left.clamp(LEAVE_MIN, LEAVE_MAX);
                leave(consumer, Some(committer), upkeep, runtime, patience);
                match ended {
                    Ended::Drained => Ok(Run::Drained),
                    Ended::Forced { at_work } => Ok(Run::Forced {
                        at_work: Some(at_work),
                    }),
                    Ended::Broken(error) => Err(RunError::Kafka(error)),
                }
            }
            Some(Ok(Err(_)) | Err(_)) => {
                stop.send_replace(true);
                runtime.block_on(async {
                    tokio::select! {
                        () = abandon(&tenures) => {}
                        () = tokio::time::sleep(drain) => {}
                        () = asked() => {}
                    }
                });
                leave(consumer, None, upkeep, runtime, LEAVE_MAX);
                Err(RunError::ReadingPanicked)
            }
            None if crew.has_ledger_ended() || has_lost_the_log => {
                return Err(RunError::LedgerEnded);
            }
            None => {
                tracing::warn!("asked to end a second time: ends at once, whatever is open");
                return Ok(Run::Forced { at_work: None });
            }
        };
        let outcome = outcome.and_then(|run| match crew.has_ledger_ended() || has_lost_the_log {
            true => Err(RunError::LedgerEnded),
            false => Ok(run),
        });
        crew.flush(Duration::from_secs(1));
        if let Some(following) = following {
            following.end();
        }
        if !ledger.close() {
            tracing::warn!(
                "the ledger did not close in time; what was acknowledged is durable all the same"
            );
        }
        outcome
    }
}

/// Resolves once the log is followed no more; never where there is none.
async fn followed_to_the_end(following: &mut Option<Following>) {
    match following {
        Some(following) => following.ended().await,
        None => std::future::pending().await,
    }
}

fn open_ledger(
    config: &Config,
    clock: &Clock,
    metrics: &Arc<Metrics>,
) -> Result<SledLedger, RunError> {
    let watched = Arc::clone(metrics);
    let stopwatch = clock.stopwatch();
    let options = LedgerOptions {
        directory: config.ledger.directory.clone(),
        retention: config.ledger.retention,
        generations: config.ledger.generations,
        cache_bytes: config.ledger.cache_mib.saturating_mul(1024 * 1024),
        batch_max: config.ledger.batch_max,
        watch: Some(Arc::new(move |report| match report {
            FlushReport::Begun { .. } => stopwatch.start(),
            FlushReport::Durable { .. } => watched.ledger_flush(stopwatch.read()),
            FlushReport::Refused { .. } => {}
        })),
    };
    Ok(SledLedger::open(options, clock.now())?)
}

fn expire_every(config: &Config) -> Duration {
    let period = config.ledger.retention / config.ledger.generations.get();
    (period / 4).clamp(Duration::from_secs(1), Duration::from_secs(3_600))
}

fn announce(config: &Config) {
    let topics: Vec<&str> = config.lanes.intents().collect();
    tracing::info!(
        brokers = %config.kafka.brokers, group = %config.kafka.group, topics = topics.join(","),
        open_max = config.intents.open_max, span_max = config.kafka.span_max,
        ledger = %config.ledger.directory.display(), retention = ?config.ledger.retention,
        "started"
    );
    if config.ledger.replication == Replication::Topic {
        tracing::info!("the ledger follows its partitions through its topics");
        return;
    }
    tracing::warn!(
        "the ledger is this directory alone: what a partition's earlier owner sent and had not committed is sent again when \
         the partition moves. Providers that recognise the key answer from memory; others send it twice"
    );
}
