//! The course of the demo: start, publish, kill, start again, wait for the end, look. It does not count.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::Arguments;
use super::tally::{Evidence, Report};
use crate::cli::stage::broker::{Asker, Broker, partitions_for, publish};
use crate::cli::stage::cast::cue;
use crate::cli::stage::exposition;
use crate::cli::stage::instance::{Instance, Setting};
use crate::cli::stage::provider::{Provider, Stats};

const TOPIC: &str = "send-intents";
const DEAD_LETTERS: &str = "send-intents.dlq";
const GROUP: &str = "sendonce-demo";

/// Brokers of the embedded cluster.
const BROKERS: i32 = 3;
/// Instances of the service.
const INSTANCES: u64 = 2;
/// Requests that one instance has in flight.
const CONCURRENCY: u32 = 128;
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an instance may take until it is ready: the embedded brokers let a group wait three seconds for its members.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long an instance may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(45);
/// How often the parts are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The least time given to a play.
const PLAY_WITHIN_MIN: Duration = Duration::from_secs(150);

/// Plays the demo in `folder` and returns what became of each intent.
pub async fn play(arguments: &Arguments, folder: &Path) -> anyhow::Result<Report> {
    let bars = Bars::new(arguments.intents);
    bars.say("starting brokers, provider and instances");
    let broker = Broker::embedded(BROKERS)?;
    let partitions = partitions_for(arguments.intents);
    broker.create_topic(TOPIC, partitions).await?;
    broker.create_topic(DEAD_LETTERS, partitions).await?;
    let seed = arguments.seed.to_string();
    let provider = Provider::start(
        folder,
        true,
        &["--faults", arguments.faults.name(), "--seed", &seed],
    )
    .await?;
    let setting = Setting {
        brokers: broker.bootstrap().to_owned(),
        group: GROUP.to_owned(),
        topic: TOPIC.to_owned(),
        messages_url: provider.messages_url(),
        request_timeout: REQUEST_TIMEOUT,
        concurrency: CONCURRENCY,
    };
    let instances = (1..=INSTANCES)
        .map(|number| Instance::start(&format!("instance-{number}"), folder, &setting))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut scene = Scene {
        arguments,
        provider,
        instances,
        bars,
        kills: 0,
        start: Instant::now(),
    };
    for instance in &mut scene.instances {
        instance.ready(READY_WITHIN).await?;
    }

    scene.start = Instant::now();
    let publisher = broker.publisher()?;
    let publishing = publish(
        &publisher,
        TOPIC,
        (0..arguments.intents).map(cue),
        Some(arguments.rate),
    );
    let asker = broker.asker(GROUP)?;
    let (published, watched) = tokio::join!(publishing, scene.watch(asker));
    let (published, (asker, settled)) = (published?, watched?);
    let seconds = scene.start.elapsed().as_secs_f64();

    scene.bars.say("counting");
    let mut suppressed = 0.0;
    for instance in &mut scene.instances {
        suppressed += exposition::sum(&instance.metrics().await?, "sendonce_suppressed_total");
        if settled {
            instance.stop(STOP_WITHIN).await?;
        }
    }
    let held = asker.count(TOPIC)?;
    ensure!(
        held == arguments.intents,
        "the topic holds {held} records, not {}",
        arguments.intents
    );
    asker.nothing_dropped(TOPIC)?;
    let evidence = Evidence {
        published,
        truth: scene.provider.truth()?,
        dead_letters: asker.records(DEAD_LETTERS)?,
        suppressed,
        kills: scene.kills,
        seconds,
    };
    scene.bars.clear();
    evidence.weigh()
}

/// What is on stage.
struct Scene<'a> {
    arguments: &'a Arguments,
    provider: Provider,
    instances: Vec<Instance>,
    bars: Bars,
    kills: u64,
    start: Instant,
}

impl Scene<'_> {
    /// Watches and kills until every record is committed. Gives the asker back, and whether that end was reached in time.
    async fn watch(&mut self, mut asker: Asker) -> anyhow::Result<(Asker, bool)> {
        let within = PLAY_WITHIN_MIN.max(Duration::from_millis(10 * self.arguments.intents));
        loop {
            sleep(LOOK_AGAIN).await;
            let stats = self
                .provider
                .stats()
                .await
                .context("the provider does not answer")?;
            self.bars.show(&stats, self.kills);
            if self.kills < self.arguments.kills && stats.deliveries >= self.next_kill() {
                self.kill_and_start_again().await?;
            }
            self.provider.still_runs()?;
            for instance in &mut self.instances {
                instance.still_runs()?;
            }
            let (given_back, open) = spawn_blocking(move || {
                let open = asker
                    .uncommitted(TOPIC)
                    .and_then(|open| Ok((open, asker.count(TOPIC)?)));
                (asker, open)
            })
            .await?;
            asker = given_back;
            let (open, published) = open?;
            self.bars.committed(published - open.min(published));
            if open == 0 && published == self.arguments.intents {
                return Ok((asker, true));
            }
            if self.start.elapsed() > within {
                self.bars.say("time is over");
                return Ok((asker, false));
            }
        }
    }

    /// How many deliveries the next kill waits for: kills divide the intents evenly.
    fn next_kill(&self) -> u64 {
        self.arguments.intents * (self.kills + 1) / (self.arguments.kills + 1)
    }

    async fn kill_and_start_again(&mut self) -> anyhow::Result<()> {
        let turn = usize::try_from(self.kills % INSTANCES)?;
        let Some(instance) = self.instances.get_mut(turn) else {
            bail!("there is no instance {turn}");
        };
        instance.kill().await?;
        self.kills += 1;
        instance.start_again()
    }
}

/// Progress on stderr, where that is a terminal.
struct Bars {
    all: MultiProgress,
    delivered: ProgressBar,
    committed: ProgressBar,
    line: ProgressBar,
}

impl Bars {
    fn new(intents: u64) -> Self {
        let bar = |what: &str| {
            // The template is right, so that this default is never taken.
            let style = ProgressStyle::with_template(
                "{prefix:>10} {bar:40.green} {pos:>7}/{len} {per_sec}",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(intents)
                .with_style(style)
                .with_prefix(what.to_owned())
        };
        let all = MultiProgress::new();
        let (delivered, committed) = (all.add(bar("delivered")), all.add(bar("committed")));
        let line = all.add(ProgressBar::new_spinner());
        Self {
            all,
            delivered,
            committed,
            line,
        }
    }

    fn say(&self, what: &str) {
        self.line.set_message(what.to_owned());
        self.line.tick();
    }

    fn show(&self, stats: &Stats, kills: u64) {
        let count = |event: &str| stats.events.get(event).copied().unwrap_or_default();
        self.delivered.set_position(stats.deliveries);
        self.say(&format!(
            "{} requests, {} replays, {} delivered twice, {kills} kills",
            count("request") + count("reset_before_reading"),
            count("replay"),
            stats.duplicate_deliveries
        ));
    }

    fn committed(&self, count: u64) {
        self.committed.set_position(count);
    }

    fn clear(&self) {
        // Only the look of a terminal is at stake.
        let _ = self.all.clear();
    }
}
