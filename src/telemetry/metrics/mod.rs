//! Records what happens, cheaply: every series whose labels are known beforehand is there from the start, at zero, and is
//! reached without a look-up by text. What each metric means is in [`super::declared`].
//!
//! The number of series depends on the configured providers and topics and the assigned partitions alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::{Gauge, Histogram, IntCounter, IntGauge, IntGaugeVec, Registry, TextEncoder};

mod registering;

use registering::{ProviderFamilies, Registering, members};

use super::declared;
use super::duplicate_window::{DuplicateWindow, Totals};
use crate::domain::attempt::Verdict;
use crate::domain::breaker::{BreakerState, Cause};
use crate::domain::dead_letter::Reason;
use crate::domain::intent::decode::IgnoredReason;
use crate::domain::lanes::Lane;
use crate::domain::position::TopicPartition;
use crate::domain::reconcile::Finding;
use crate::domain::time::Timestamp;

/// Metrics could not be declared or written as text: a mistake in the declarations.
#[derive(Debug, thiserror::Error)]
#[error("a metric is declared wrongly: {0}")]
pub struct MetricsError(#[from] prometheus::Error);

/// How an intent ended at a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider took it.
    Accepted,
    /// It was set aside.
    DeadLettered,
}

/// Why a record that came again was not sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suppressed {
    /// It had been settled before it was read.
    Ledger,
    /// It was settled while this record waited behind it.
    InFlight,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitResult {
    /// The coordinator took it.
    Ok,
    /// The group had moved on.
    Stale,
    /// It is tried again.
    Failed,
}

/// How partitions moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebalance {
    /// Some came.
    Assigned,
    /// Some are to be let go.
    Revoked,
    /// Some are gone already.
    Lost,
}

/// Everything that is counted and shown.
pub struct Metrics {
    registry: Registry,
    providers: BTreeMap<Arc<str>, ProviderMetrics>,
    other: ProviderMetrics,
    records: IntCounter,
    ignored: Members<IgnoredReason, IntCounter>,
    suppressed: Members<Suppressed, IntCounter>,
    dead_letters: Members<Reason, IntCounter>,
    dead_letter_depth: Members<Reason, IntGauge>,
    unknown_open: IntGauge,
    /// Open intents and the oldest one's age, by topic.
    open: Vec<(Arc<str>, IntGauge, Gauge)>,
    uncommitted_span: IntGaugeVec,
    consumer_lag: IntGaugeVec,
    duplicates: Duplicates,
    ledger_flush: Histogram,
    ledger_entries: IntGauge,
    ledger_bytes: IntGauge,
    ledger_disk_free: IntGauge,
    commits: Members<CommitResult, IntCounter>,
    rebalances: Members<Rebalance, IntCounter>,
    stalled: IntGauge,
    panics: IntCounter,
    ledger_topic_foreign: IntCounter,
}

/// What is counted of one provider. Cheap to clone.
#[derive(Clone)]
pub struct ProviderMetrics {
    outcomes: Members<Outcome, IntCounter>,
    attempts: Members<Verdict, IntCounter>,
    unmatched: IntCounter,
    lookups: Members<&'static str, IntCounter>,
    ids_absent: IntCounter,
    replays: IntCounter,
    suspected: IntCounter,
    attempt_duration: Histogram,
    /// By lane.
    send_latency: Arc<[Histogram]>,
    circuit: Members<BreakerState, IntGauge>,
    circuit_opened: Members<Cause, IntCounter>,
    templates_paused: IntGauge,
    template_pauses: IntCounter,
}

/// One series for each member of a closed set.
type Members<M, S> = Arc<[(M, S)]>;

struct Duplicates {
    window: Mutex<DuplicateWindow>,
    suppressed: Gauge,
    replayed: Gauge,
    suspected: Gauge,
}

impl Metrics {
    /// Declares everything, at zero. `providers` are the configured names, and `topics` those of the lanes: no other becomes a
    /// label.
    pub fn new<'a>(
        providers: impl IntoIterator<Item = &'a str>,
        topics: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, MetricsError> {
        let new = Registering::default();
        let topics: Vec<Arc<str>> = topics.into_iter().map(Arc::from).collect();
        let families = ProviderFamilies::new(&new, &topics)?;
        let providers = providers
            .into_iter()
            .map(|name| Ok((Arc::from(name), families.of(name)?)))
            .collect::<Result<_, MetricsError>>()?;
        new.gauges(&declared::BUILD)?
            .get_metric_with_label_values(&[env!("CARGO_PKG_VERSION")])?
            .set(1);
        let reasons = Reason::ALL.map(|reason| (reason, reason.name()));
        let ignored = IgnoredReason::ALL.map(|reason| (reason, reason.name()));
        let depth = new.gauges(&declared::DEAD_LETTER_DEPTH)?;
        Ok(Self {
            other: families.of("other")?,
            providers,
            records: new.counter(&declared::RECORDS)?,
            ignored: new.counter_each(&declared::IGNORED, ignored)?,
            suppressed: new.counter_each(
                &declared::SUPPRESSED,
                [
                    (Suppressed::Ledger, "ledger"),
                    (Suppressed::InFlight, "in_flight"),
                ],
            )?,
            dead_letters: new.counter_each(&declared::DEAD_LETTERS, reasons)?,
            dead_letter_depth: members(reasons, |name| {
                depth.get_metric_with_label_values(&[name])
            })?,
            unknown_open: new.gauge(&declared::UNKNOWN_OPEN)?,
            open: {
                let count = new.gauges(&declared::OPEN_INTENTS)?;
                let oldest = new.fractions(&declared::OLDEST_OPEN)?;
                let of = |topic: Arc<str>| {
                    let count = count.get_metric_with_label_values(&[&topic])?;
                    let oldest = oldest.get_metric_with_label_values(&[&topic])?;
                    Ok((topic, count, oldest))
                };
                topics
                    .into_iter()
                    .map(of)
                    .collect::<Result<_, MetricsError>>()?
            },
            uncommitted_span: new.gauges(&declared::UNCOMMITTED_SPAN)?,
            consumer_lag: new.gauges(&declared::CONSUMER_LAG)?,
            duplicates: Duplicates::new(&new)?,
            ledger_flush: new.histogram(&declared::LEDGER_FLUSH)?,
            ledger_entries: new.gauge(&declared::LEDGER_ENTRIES)?,
            ledger_bytes: new.gauge(&declared::LEDGER_BYTES)?,
            ledger_disk_free: new.gauge(&declared::LEDGER_DISK_FREE)?,
            commits: new.counter_each(
                &declared::COMMITS,
                [
                    (CommitResult::Ok, "ok"),
                    (CommitResult::Stale, "stale"),
                    (CommitResult::Failed, "failed"),
                ],
            )?,
            rebalances: new.counter_each(
                &declared::REBALANCES,
                [
                    (Rebalance::Assigned, "assigned"),
                    (Rebalance::Revoked, "revoked"),
                    (Rebalance::Lost, "lost"),
                ],
            )?,
            stalled: new.gauge(&declared::CONSUMER_STALLED)?,
            panics: new.counter(&declared::PANICS)?,
            ledger_topic_foreign: new.counter(&declared::LEDGER_TOPIC_FOREIGN)?,
            registry: new.into_registry(),
        })
    }

    /// What is counted of this provider; of `other` if it is not among the configured ones.
    pub fn provider(&self, name: &str) -> ProviderMetrics {
        self.providers.get(name).unwrap_or(&self.other).clone()
    }

    /// A record has been read.
    pub fn record(&self) {
        self.records.inc();
    }

    /// A record asks for nothing.
    pub fn ignored(&self, reason: IgnoredReason) {
        count(&self.ignored, reason);
    }

    /// A record came again and was not sent again.
    pub fn suppressed(&self, reason: Suppressed) {
        count(&self.suppressed, reason);
    }

    /// The broker acknowledged a dead letter.
    pub fn dead_letter(&self, reason: Reason) {
        count(&self.dead_letters, reason);
    }

    /// A commit has been answered.
    pub fn commit(&self, result: CommitResult) {
        count(&self.commits, result);
    }

    /// Partitions have moved.
    pub fn rebalance(&self, kind: Rebalance) {
        count(&self.rebalances, kind);
    }

    /// Work on a record panicked.
    pub fn panic(&self) {
        self.panics.inc();
    }

    /// A record in the ledger topic was none of ours.
    pub fn ledger_topic_foreign(&self) {
        self.ledger_topic_foreign.inc();
    }

    /// One group commit of the ledger took this long.
    pub fn ledger_flush(&self, took: Duration) {
        self.ledger_flush.observe(took.as_secs_f64());
    }

    /// The ledger's size.
    pub fn ledger_size(&self, entries: u64, bytes: u64) {
        self.ledger_entries.set(shown(entries));
        self.ledger_bytes.set(shown(bytes));
    }

    /// So many bytes are left on the ledger's file system.
    pub fn ledger_disk_free(&self, bytes: u64) {
        self.ledger_disk_free.set(shown(bytes));
    }

    /// So many dead letters of each reason wait for someone; reasons that are not named have none.
    pub fn dead_letter_depth(&self, depth: impl Fn(Reason) -> u64) {
        for (reason, gauge) in self.dead_letter_depth.iter() {
            gauge.set(shown(depth(*reason)));
        }
    }

    /// Of so many intents nobody knows whether they went out.
    pub fn unknown_open(&self, count: u64) {
        self.unknown_open.set(shown(count));
    }

    /// So many records of each topic are open, the oldest of this age.
    pub fn open_intents(&self, of: impl Fn(&str) -> (u64, Duration)) {
        for (topic, open, oldest_open) in &self.open {
            let (count, oldest) = of(topic);
            open.set(shown(count));
            oldest_open.set(oldest.as_secs_f64());
        }
    }

    /// So many records of the partition lie between the first open one and the last one read.
    pub fn uncommitted_span(&self, partition: &TopicPartition, span: u64) {
        set_of_partition(&self.uncommitted_span, partition, span);
    }

    /// So many records of the partition lie behind the last one that was committed.
    pub fn consumer_lag(&self, partition: &TopicPartition, lag: u64) {
        set_of_partition(&self.consumer_lag, partition, lag);
    }

    /// The partition is no longer ours: nothing is shown of it any more.
    pub fn partition_left(&self, partition: &TopicPartition) {
        let number = partition.partition.to_string();
        for family in [&self.uncommitted_span, &self.consumer_lag] {
            // It may never have been shown.
            let _ = family.remove_label_values(&[&partition.topic, number.as_str()]);
        }
    }

    /// Whether records wait and nothing moves.
    pub fn stalled(&self, stalled: bool) {
        self.stalled.set(i64::from(stalled));
    }

    /// Brings the shares of duplicates up to `now`. To be called every few seconds.
    pub fn tick(&self, now: Timestamp) {
        let sum = |count: fn(&ProviderMetrics) -> u64| -> u64 {
            let all = self.providers.values().chain([&self.other]);
            all.map(count).sum()
        };
        let totals = Totals {
            outcomes: sum(|provider| total(&provider.outcomes)),
            suppressed: total(&self.suppressed),
            replayed: sum(|provider| provider.replays.get()),
            suspected: sum(|provider| provider.suspected.get()),
        };
        let shares = self
            .duplicates
            .window
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .observe(now, totals);
        self.duplicates.suppressed.set(shares.suppressed);
        self.duplicates.replayed.set(shares.replayed);
        self.duplicates.suspected.set(shares.suspected);
    }

    /// Everything in Prometheus's text format, version 0.0.4.
    pub fn render(&self) -> Result<String, MetricsError> {
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }
}

impl Duplicates {
    fn new(new: &Registering) -> Result<Self, MetricsError> {
        let family = new.fractions(&declared::DUPLICATE_RATE)?;
        Ok(Self {
            window: Mutex::default(),
            suppressed: family.get_metric_with_label_values(&["suppressed"])?,
            replayed: family.get_metric_with_label_values(&["replayed"])?,
            suspected: family.get_metric_with_label_values(&["suspected"])?,
        })
    }
}

impl ProviderMetrics {
    /// An attempt has been answered, or given up as unanswered.
    pub fn attempt(&self, verdict: Verdict, took: Duration) {
        count(&self.attempts, verdict);
        self.attempt_duration.observe(took.as_secs_f64());
    }

    /// Its circuit stands so.
    pub fn circuit(&self, now: BreakerState) {
        for (state, gauge) in self.circuit.iter() {
            gauge.set(i64::from(*state == now));
        }
    }

    /// Its circuit has opened.
    pub fn circuit_opened(&self, cause: Cause) {
        count(&self.circuit_opened, cause);
    }

    /// One more template is paused.
    pub fn template_paused(&self) {
        self.templates_paused.inc();
        self.template_pauses.inc();
    }

    /// One of the paused templates is paused no more.
    pub fn template_released(&self) {
        self.templates_paused.dec();
    }

    /// No rule and no default caught an answer.
    pub fn unmatched(&self) {
        self.unmatched.inc();
    }

    /// An unknown outcome was looked up; `finding` is its name.
    pub fn looked_up(&self, finding: &Finding) {
        count(&self.lookups, finding.name());
    }

    /// An intent has reached its end.
    pub fn outcome(&self, outcome: Outcome) {
        count(&self.outcomes, outcome);
    }

    /// An intent was accepted, and no message id was found.
    pub fn id_absent(&self) {
        self.ids_absent.inc();
    }

    /// The provider answered from its memory.
    pub fn replay(&self) {
        self.replays.inc();
    }

    /// The provider knew the key of a first attempt.
    pub fn suspected_duplicate(&self) {
        self.suspected.inc();
    }

    /// An intent of this lane was accepted this long after its record was written.
    pub fn send_latency(&self, lane: Lane, latency: Duration) {
        if let Some(series) = self.send_latency.get(lane.0) {
            series.observe(latency.as_secs_f64());
        }
    }
}

fn count<M: PartialEq>(members: &[(M, IntCounter)], member: M) {
    if let Some((_, series)) = members.iter().find(|(known, _)| *known == member) {
        series.inc();
    }
}

fn total<M>(members: &[(M, IntCounter)]) -> u64 {
    members.iter().map(|(_, series)| series.get()).sum()
}

fn set_of_partition(family: &IntGaugeVec, partition: &TopicPartition, value: u64) {
    let number = partition.partition.to_string();
    // The number of labels is right, which is all that could fail.
    if let Ok(series) = family.get_metric_with_label_values(&[&partition.topic, number.as_str()]) {
        series.set(shown(value));
    }
}

fn shown(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
