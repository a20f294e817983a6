//! Workers whose ledger fails them: one that panics each time, one whose flush is slow, and one that has ended. The crew
//! alone, with a ledger of the tests' own; broker and provider are as in the other suites.

use std::sync::Arc;
use std::time::Duration;

use sendonce::adapters::clock::Clock;
use sendonce::adapters::kafka::client;
use sendonce::adapters::kafka::consumer::Beginning;
use sendonce::adapters::kafka::dead_letters::{DeadLetters, Destination};
use sendonce::adapters::kafka::oauth::TokenSource;
use sendonce::adapters::ledger::memory::{Flushing, MemoryLedger};
use sendonce::adapters::ledger::{Changed, Ledger, LedgerError, LedgerSize, Persisting, Recorded};
use sendonce::config::{Config, HeaderFamily, Sources};
use sendonce::domain::attempt::Verdict;
use sendonce::domain::idempotency_key::{LedgerKey, ProfileHash};
use sendonce::domain::lanes::Lane;
use sendonce::domain::ledger_entry::{Entry, Fact, Story, Writer};
use sendonce::domain::ledger_log::Checkpoint;
use sendonce::domain::position::{AssignmentEpoch, NextOffset, Offset, Position, TopicPartition};
use sendonce::domain::record::Record;
use sendonce::domain::time::Timestamp;
use sendonce::pipeline::accounts::Accounts;
use sendonce::pipeline::depth::{Depth, Shown};
use sendonce::pipeline::occupancy::Occupancy;
use sendonce::pipeline::tenure::Tenure;
use sendonce::pipeline::work_threads::Spawner;
use sendonce::pipeline::worker::{Crew, Parts, Reading};
use sendonce::telemetry::metrics::Metrics;
use sendonce::telemetry::status::{NotReady, Status};
use tokio::runtime::Handle;

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{Embedded, Home, SOON, Setup, sms};
use crate::scripted::{Scripted, accepting};
use crate::waiting::until;

/// A ledger in memory that panics whenever a fact of one kind is to be written.
struct PanicsAt {
    inner: MemoryLedger,
    kind: fn(&Fact) -> bool,
}

impl Ledger for PanicsAt {
    fn recall(&self, key: LedgerKey) -> Result<Option<Recorded>, LedgerError> {
        self.inner.recall(key)
    }

    fn persist(&self, expected: Option<Arc<Story>>, entry: Entry) -> Persisting<Recorded> {
        assert!(!(self.kind)(&entry.fact), "as the test wants it");
        self.inner.persist(expected, entry)
    }

    fn merge(&self, entries: Vec<Entry>) -> Persisting<Vec<Changed>> {
        self.inner.merge(entries)
    }

    fn keep_checkpoint(&self, checkpoint: Checkpoint) -> Persisting<()> {
        self.inner.keep_checkpoint(checkpoint)
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>, LedgerError> {
        self.inner.checkpoint()
    }

    fn keep_profile(&self, hash: ProfileHash, text: Arc<str>) -> Persisting<()> {
        self.inner.keep_profile(hash, text)
    }

    fn profile(&self, hash: ProfileHash) -> Result<Option<Arc<str>>, LedgerError> {
        self.inner.profile(hash)
    }

    fn each_story(&self, visit: &mut dyn FnMut(&Story) -> bool) -> Result<(), LedgerError> {
        self.inner.each_story(visit)
    }

    fn expire(&self, now: Timestamp) -> Result<u64, LedgerError> {
        self.inner.expire(now)
    }

    fn size(&self) -> LedgerSize {
        self.inner.size()
    }
}

fn in_memory(flushing: Flushing) -> MemoryLedger {
    MemoryLedger::new(Duration::from_secs(3_600), flushing)
}

/// A crew that sends to the provider from this ledger.
fn crew(setup: &Setup, ledger: Arc<dyn Ledger>, metrics: &Arc<Metrics>) -> Arc<Crew> {
    crew_with(setup, ledger, metrics, &Arc::default())
}

/// The same, with a status to look at.
fn crew_with(
    setup: &Setup,
    ledger: Arc<dyn Ledger>,
    metrics: &Arc<Metrics>,
    status: &Arc<Status>,
) -> Arc<Crew> {
    let home = Home::new(setup);
    let path = home.path("sendonce.toml");
    let text = std::fs::read_to_string(&path).expect("a configuration");
    let secret = ("TEST_KEY_SECRET".into(), "worth nothing at all".into());
    let sources = Sources {
        file: Some((path, text)),
        environment: vec![secret],
    };
    let config = Config::from_sources(&sources).expect("it can be meant");
    let accounts = Accounts::open(&config, metrics).expect("accounts");
    let producer = client::producer(&config.kafka, 2_000_000);
    let destination = Destination {
        of: "send-intents".into(),
        topic: "send-intents.dlq".into(),
        partitions: 1,
    };
    let family = HeaderFamily::default();
    let dead_letters = DeadLetters::new(&producer, TokenSource::none(), vec![destination], family);
    let depth =
        tokio::task::block_in_place(|| Depth::of(&*ledger, Arc::clone(metrics), Shown::All));
    Crew::new(Parts {
        spawner: Spawner::on(vec![Handle::current()]),
        clock: Clock::default(),
        ledger,
        log: None,
        accounts,
        dead_letters: dead_letters.expect("a producer"),
        depth: Arc::new(depth.expect("it can be counted")),
        reading: Reading {
            rules: config.intents.rules(),
            keys: config.keys.ring.clone().expect("a secret"),
            retention: config.ledger.retention,
            max_age: config.intents.max_age,
        },
        wait_max: config.retry.wait_max,
        group: "sendonce".into(),
        ordered_by_key: true,
        metrics: Arc::clone(metrics),
        status: Arc::clone(status),
    })
}

/// Hands one intent to the crew, as the first record of its partition.
fn handed_over(crew: &Arc<Crew>) -> Arc<Tenure> {
    let partition = TopicPartition {
        topic: "send-intents".into(),
        partition: 0,
    };
    let writer = Writer(crew.writer_name());
    let tenure = Tenure::new(
        partition.clone(),
        AssignmentEpoch(1),
        writer,
        Beginning::Earliest,
    );
    let tenure = Arc::new(tenure);
    let record = Record {
        position: Position {
            partition,
            offset: Offset(0),
        },
        timestamp: Clock::wall(),
        key: Some("k".into()),
        value: Some(sms("e-1", "hello").to_string().into()),
        headers: Vec::new(),
        headers_unreadable: 0,
    };
    tenure.own(record.timestamp);
    tenure.open(Offset(0), record.timestamp).expect("the first");
    let stay = Occupancy::of(1, 1).take(Lane::default(), 1);
    crew.take(record, Arc::clone(&tenure), stay);
    tenure
}

async fn ended(tenure: &Tenure) {
    let idle = tokio::time::timeout(SOON, tenure.idle()).await;
    idle.expect("it ends");
    assert_eq!(tenure.committable(), Some(NextOffset(1)), "it is settled");
}

/// What becomes of an intent while each fact of this kind panics: requests, and reason and detail of its dead letter.
async fn while_panicking(kind: fn(&Fact) -> bool) -> (usize, String, String) {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([accepting()]).await;
    let inner = in_memory(Flushing::Automatic);
    let metrics = Arc::new(Metrics::new(["stub"], ["send-intents"]).expect("metrics"));
    let setup = Setup::new(&kafka, &provider.url());
    let crew = crew(&setup, Arc::new(PanicsAt { inner, kind }), &metrics);
    ended(&handed_over(&crew)).await;
    let told = metrics.render().expect("metrics");
    assert!(told.contains("\nsendonce_panics_total 5\n"), "{told}");
    let letters = dead_letters(&kafka);
    let [(reason, detail)] = reasons(&letters)[..] else {
        panic!("one dead letter: {letters:?}");
    };
    assert_eq!(letters[0].header("event-id"), Some("e-1"));
    assert!(letters[0].header("key").is_some() && letters[0].value.is_some());
    (provider.seen().len(), reason.to_owned(), detail.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_panics_before_each_request_is_set_aside_and_nothing_was_sent() {
    let told = while_panicking(|fact| matches!(fact, Fact::Started { .. })).await;
    assert_eq!(told, (0, "malformed".into(), "panicked".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_panics_after_a_request_is_set_aside_as_unknown_and_was_sent_once() {
    let told = while_panicking(|fact| matches!(fact, Fact::Answered { .. })).await;
    assert_eq!(told, (1, "outcome_unknown".into(), "panicked".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_flush_takes_nothing_from_the_time_of_the_request() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([accepting()]).await;
    let ledger = Arc::new(in_memory(Flushing::Manual));
    let metrics = Arc::new(Metrics::new(["stub"], ["send-intents"]).expect("metrics"));
    let setup = Setup::new(&kafka, &provider.url());
    let crew = crew(&setup, Arc::<MemoryLedger>::clone(&ledger), &metrics);
    let tenure = handed_over(&crew);
    let unflushed = async || ledger.unflushed();
    until("a start", SOON, unflushed, |count| *count == 1).await;
    // Longer than the second that the profile gives a request: what is tested is that this time passes.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    ledger.flush();
    provider.until_seen(1).await;
    until("an answer", SOON, unflushed, |count| *count == 1).await;
    ledger.flush();
    ended(&tenure).await;
    let mut verdicts = Vec::new();
    let visited = ledger.each_story(&mut |story| {
        let answers = story.attempts.values().map(|facts| facts.answered.as_ref());
        verdicts.extend(answers.map(|answer| answer.map(|answer| answer.verdict)));
        true
    });
    visited.expect("it can be read");
    assert_eq!(verdicts, [Some(Verdict::Accepted)]);
}

/// The ledger's thread has panicked, say. Nobody has asked the process to end.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_has_ended_is_told_and_not_taken_for_the_end_of_the_tenure() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([accepting()]).await;
    let ledger = in_memory(Flushing::Automatic);
    ledger.close();
    let metrics = Arc::new(Metrics::new(["stub"], ["send-intents"]).expect("metrics"));
    let status = Arc::new(Status::default());
    let setup = Setup::new(&kafka, &provider.url());
    let crew = crew_with(&setup, Arc::new(ledger), &metrics, &status);
    assert!(!crew.has_ledger_ended());
    let tenure = handed_over(&crew);
    let told = tokio::time::timeout(SOON, crew.ledger_ended()).await;
    told.expect("the service is told, and ends");
    assert!(status.not_ready().contains(&NotReady::LedgerNotWritable));
    let waits = (tenure.at_work_count(), tenure.is_over());
    assert_eq!(waits, (1, false), "the record is not dropped");
    tenure.end();
    let idle = tokio::time::timeout(SOON, tenure.idle()).await;
    idle.expect("it holds up no end of the process");
    assert_eq!(tenure.committable(), None, "nothing is settled");
    assert_eq!(provider.seen().len(), 0, "nothing is sent");
}
