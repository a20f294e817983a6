//! Plays the halves of a round and reads what they cost from outside.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::Arguments;
use super::figures::{Bare, Pipeline};
use super::prepare;
use crate::cli::stage::broker::{Broker, partitions_for, publish};
use crate::cli::stage::cast::cue;
use crate::cli::stage::child::Running;
use crate::cli::stage::exposition;
use crate::cli::stage::instance::{Instance, Setting};
use crate::cli::stage::provider::{Provider, Stats};

/// How long one request may take: much longer than it does, so that none is ever repeated.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long half a round may take at least.
const HALF_WITHIN_MIN: Duration = Duration::from_secs(120);
/// How long an instance may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(45);
/// How often it is looked whether half a round is over. Rarely, as looking costs what is measured.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What both halves share.
pub struct Stage<'a> {
    arguments: &'a Arguments,
    folder: &'a Path,
    broker: Broker,
    provider: Provider,
    requests: PathBuf,
    digest: Option<String>,
    run: String,
}

impl<'a> Stage<'a> {
    /// Starts brokers and provider, and prepares the requests.
    ///
    /// # Errors
    ///
    /// When one of them cannot be had.
    pub async fn set(arguments: &'a Arguments, folder: &'a Path) -> anyhow::Result<Self> {
        let broker = arguments
            .brokers
            .as_deref()
            .map_or_else(|| Broker::embedded(1), |brokers| Ok(Broker::at(brokers)))?;
        let provider = Provider::start(folder, false, &[]).await?;
        let run = uuid::Uuid::new_v4().simple().to_string();
        let stage = Self {
            arguments,
            folder,
            broker,
            provider,
            requests: folder.join("requests.ndjson"),
            digest: None,
            run,
        };
        prepare::write(&stage.requests, arguments.intents, &stage.setting(""))?;
        Ok(stage)
    }

    /// The bare client.
    ///
    /// # Errors
    ///
    /// When it fails, or has not sent what is to be sent.
    pub async fn bare(&mut self) -> anyhow::Result<Bare> {
        self.provider.reset().await?;
        let (requests, concurrency) = (
            self.requests.display().to_string(),
            self.arguments.concurrency.to_string(),
        );
        let url = self.provider.messages_url();
        let arguments = [
            "bench-bare",
            "--url",
            &url,
            "--requests",
            &requests,
            "--concurrency",
            &concurrency,
        ];
        Running::start("bench-bare", self.folder, &arguments, &[])?
            .wait(self.within())
            .await?;
        let stats = self.provider.stats().await?;
        Ok(Bare {
            per_second: self.per_second(&stats)?,
        })
    }

    /// The pipeline.
    ///
    /// # Errors
    ///
    /// When it fails, or has not sent what is to be sent, each once.
    pub async fn pipeline(&mut self, round: u32) -> anyhow::Result<Pipeline> {
        let topic = format!("sendonce-bench-{}-{round}", self.run);
        let dead_letters = format!("{topic}.dlq");
        let partitions = partitions_for(self.arguments.intents);
        for topic in [&topic, &dead_letters] {
            self.broker.create_topic(topic, partitions).await?;
        }
        publish(
            &self.broker.publisher()?,
            &topic,
            (0..self.arguments.intents).map(cue),
            None,
        )
        .await?;
        self.provider.reset().await?;
        let mut instance = Instance::start(
            &format!("instance-{round}"),
            self.folder,
            &self.setting(&topic),
        )?;
        let pipeline = self.drain(&mut instance, &topic).await?;
        let asker = self.broker.asker(&topic)?;
        ensure!(asker.count(&dead_letters)? == 0, "there are dead letters");
        asker.nothing_dropped(&topic)?;
        self.broker.delete_topics(&[&topic, &dead_letters]).await?;
        Ok(pipeline)
    }

    /// Waits until every record is committed, and reads what that cost.
    async fn drain(&mut self, instance: &mut Instance, topic: &str) -> anyhow::Result<Pipeline> {
        let start = Instant::now();
        while self.provider.stats().await?.deliveries < self.arguments.intents {
            sleep(LOOK_AGAIN).await;
            instance.still_runs()?;
            ensure!(
                start.elapsed() < self.within(),
                "the pipeline has not sent all within {:?}",
                self.within()
            );
        }
        let mut asker = self.broker.asker(topic)?;
        loop {
            let (given_back, topic) = (asker, topic.to_owned());
            let (given_back, open) = spawn_blocking(move || {
                let open = given_back.uncommitted(&topic);
                (given_back, open)
            })
            .await?;
            asker = given_back;
            if open? == 0 {
                break;
            }
            sleep(LOOK_AGAIN).await;
            instance.still_runs()?;
            ensure!(
                start.elapsed() < self.within(),
                "the pipeline has not committed all within {:?}",
                self.within()
            );
        }
        let stats = self.provider.stats().await?;
        let (metrics, stat, status) = (
            instance.metrics().await?,
            instance.proc_file("stat")?,
            instance.proc_file("status")?,
        );
        instance.stop(STOP_WITHIN).await?;
        let milliseconds = |share: f64| {
            exposition::quantile(&metrics, "sendonce_attempt_duration_seconds", share)
                .map(|seconds| seconds * 1_000.0)
        };
        Ok(Pipeline {
            per_second: self.per_second(&stats)?,
            p50_ms: milliseconds(0.5).context("the pipeline has no histogram of its requests")?,
            p99_ms: milliseconds(0.99)
                .context("the pipeline's histogram does not reach its 99th percentile")?,
            cpu_seconds_per_1000: cpu_seconds(&stat)? * 1_000.0 / self.arguments.intents as f64,
            rss_mib_peak: rss_mib_peak(&status)?,
            fsyncs: exposition::sum(&metrics, "sendonce_ledger_flush_seconds_count"),
        })
    }

    /// Messages accepted each second between the first and the last one, once it is certain that they are what was to be sent.
    fn per_second(&mut self, stats: &Stats) -> anyhow::Result<f64> {
        let intents = self.arguments.intents;
        ensure!(
            stats.deliveries == intents && stats.keys == intents,
            "{} messages for {} keys instead of {intents}",
            stats.deliveries,
            stats.keys
        );
        let requests = stats.events.get("request").copied().unwrap_or_default();
        ensure!(
            requests == intents,
            "{requests} requests for {intents} intents"
        );
        let digest = self
            .digest
            .get_or_insert_with(|| stats.requests_digest.clone());
        ensure!(
            *digest == stats.requests_digest,
            "the bare client and the pipeline did not send the same bytes"
        );
        let (first, last) = stats
            .first_delivery_at
            .zip(stats.last_delivery_at)
            .context("the provider tells no times")?;
        Ok((intents - 1) as f64 / last.duration_since(first).as_secs_f64())
    }

    fn setting(&self, topic: &str) -> Setting {
        Setting {
            brokers: self.broker.bootstrap().to_owned(),
            group: topic.to_owned(),
            topic: topic.to_owned(),
            messages_url: self.provider.messages_url(),
            request_timeout: REQUEST_TIMEOUT,
            concurrency: self.arguments.concurrency,
        }
    }

    fn within(&self) -> Duration {
        HALF_WITHIN_MIN.max(Duration::from_millis(2 * self.arguments.intents))
    }
}

/// CPU time of a process, of user and system, from its `/proc/PID/stat` (proc_pid_stat(5): fields 14 and 15, in ticks).
fn cpu_seconds(stat: &str) -> anyhow::Result<f64> {
    /// `sysconf(_SC_CLK_TCK)` is 100 on every architecture that Linux runs on today.
    const TICKS_PER_SECOND: f64 = 100.0;
    // The second field is the name in parentheses, which may hold anything.
    let (_, fields) = stat
        .rsplit_once(") ")
        .context("a stat file without a name")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<f64>);
    let (user, system) = times
        .next()
        .zip(times.next())
        .context("a stat file without times")?;
    Ok((user? + system?) / TICKS_PER_SECOND)
}

/// The peak of a process's resident memory in MiB, from its `/proc/PID/status` (proc_pid_status(5): VmHWM, in KiB).
fn rss_mib_peak(status: &str) -> anyhow::Result<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("a status file without VmHWM")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_user_and_system_time_whatever_the_name() {
        let stat =
            "4711 (a) b) S 1 4711 4711 0 -1 4194560 1021 0 3 0 250 50 0 0 20 0 3 0 100 1000 10";
        assert!((cpu_seconds(stat).unwrap() - 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_peak_of_memory_is_read_in_mib() {
        assert!(
            (rss_mib_peak("Name:\ta\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n").unwrap() - 2.0).abs()
                < 1e-9
        );
        assert!(rss_mib_peak("Name:\ta\n").is_err());
    }
}
