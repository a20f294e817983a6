//! Makes series from their declarations: those whose labels are known beforehand at once, so that they are there at zero.

use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

use super::{Members, MetricsError, Outcome, ProviderMetrics};
use crate::domain::attempt::Verdict;
use crate::domain::breaker::{BreakerState, Cause};
use crate::domain::reconcile::Finding;
use crate::telemetry::declared::{self, Declared, Kind};

/// The families that have a series for each provider.
pub(super) struct ProviderFamilies {
    outcomes: IntCounterVec,
    attempts: IntCounterVec,
    unmatched: IntCounterVec,
    lookups: IntCounterVec,
    ids_absent: IntCounterVec,
    replays: IntCounterVec,
    suspected: IntCounterVec,
    attempt_duration: HistogramVec,
    send_latency: HistogramVec,
    topics: Vec<Arc<str>>,
    circuit: IntGaugeVec,
    circuit_opened: IntCounterVec,
    templates_paused: IntGaugeVec,
    template_pauses: IntCounterVec,
}

impl ProviderFamilies {
    pub(super) fn new(new: &Registering, topics: &[Arc<str>]) -> Result<Self, MetricsError> {
        Ok(Self {
            topics: topics.to_vec(),
            outcomes: new.counters(&declared::OUTCOMES)?,
            attempts: new.counters(&declared::ATTEMPTS)?,
            unmatched: new.counters(&declared::UNMATCHED_ANSWERS)?,
            lookups: new.counters(&declared::LOOKUPS)?,
            ids_absent: new.counters(&declared::MESSAGE_IDS_ABSENT)?,
            replays: new.counters(&declared::PROVIDER_REPLAYS)?,
            suspected: new.counters(&declared::SUSPECTED_DUPLICATES)?,
            attempt_duration: new.histograms(&declared::ATTEMPT_DURATION)?,
            send_latency: new.histograms(&declared::SEND_LATENCY)?,
            circuit: new.gauges(&declared::PROVIDER_CIRCUIT)?,
            circuit_opened: new.counters(&declared::PROVIDER_CIRCUIT_OPENED)?,
            templates_paused: new.gauges(&declared::TEMPLATES_PAUSED)?,
            template_pauses: new.counters(&declared::TEMPLATE_PAUSES)?,
        })
    }

    pub(super) fn of(&self, provider: &str) -> Result<ProviderMetrics, MetricsError> {
        let one = |family: &IntCounterVec| family.get_metric_with_label_values(&[provider]);
        Ok(ProviderMetrics {
            outcomes: members(
                [
                    (Outcome::Accepted, "accepted"),
                    (Outcome::DeadLettered, "dead_lettered"),
                ],
                |name| {
                    self.outcomes
                        .get_metric_with_label_values(&[provider, name])
                },
            )?,
            attempts: members(
                Verdict::ALL.map(|verdict| (verdict, verdict.name())),
                |name| {
                    self.attempts
                        .get_metric_with_label_values(&[provider, name])
                },
            )?,
            unmatched: one(&self.unmatched)?,
            lookups: members(Finding::NAMES.map(|name| (name, name)), |name| {
                self.lookups.get_metric_with_label_values(&[provider, name])
            })?,
            ids_absent: one(&self.ids_absent)?,
            replays: one(&self.replays)?,
            suspected: one(&self.suspected)?,
            attempt_duration: self
                .attempt_duration
                .get_metric_with_label_values(&[provider])?,
            send_latency: self
                .topics
                .iter()
                .map(|topic| {
                    self.send_latency
                        .get_metric_with_label_values(&[provider, topic])
                })
                .collect::<Result<_, _>>()?,
            circuit: members(
                BreakerState::ALL.map(|state| (state, state.name())),
                |name| self.circuit.get_metric_with_label_values(&[provider, name]),
            )?,
            circuit_opened: members(Cause::ALL.map(|cause| (cause, cause.name())), |name| {
                self.circuit_opened
                    .get_metric_with_label_values(&[provider, name])
            })?,
            templates_paused: self
                .templates_paused
                .get_metric_with_label_values(&[provider])?,
            template_pauses: one(&self.template_pauses)?,
        })
    }
}

/// Makes collectors from declarations and registers them.
#[derive(Default)]
pub(super) struct Registering(Registry);

impl Registering {
    pub(super) fn into_registry(self) -> Registry {
        self.0
    }

    pub(super) fn counter(&self, declared: &Declared) -> prometheus::Result<IntCounter> {
        self.register(IntCounter::with_opts(opts(declared))?)
    }

    pub(super) fn counters(&self, declared: &Declared) -> prometheus::Result<IntCounterVec> {
        self.register(IntCounterVec::new(opts(declared), &labels(declared))?)
    }

    /// One counter for each member of a closed set, under its name.
    pub(super) fn counter_each<M, const N: usize>(
        &self,
        declared: &Declared,
        names: [(M, &str); N],
    ) -> prometheus::Result<Members<M, IntCounter>> {
        let family = self.counters(declared)?;
        members(names, |name| family.get_metric_with_label_values(&[name]))
    }

    pub(super) fn gauge(&self, declared: &Declared) -> prometheus::Result<IntGauge> {
        self.register(IntGauge::with_opts(opts(declared))?)
    }

    pub(super) fn gauges(&self, declared: &Declared) -> prometheus::Result<IntGaugeVec> {
        self.register(IntGaugeVec::new(opts(declared), &labels(declared))?)
    }

    /// Gauges that are not only whole.
    pub(super) fn fractions(&self, declared: &Declared) -> prometheus::Result<GaugeVec> {
        self.register(GaugeVec::new(opts(declared), &labels(declared))?)
    }

    pub(super) fn histogram(&self, declared: &Declared) -> prometheus::Result<Histogram> {
        self.register(Histogram::with_opts(histogram_opts(declared))?)
    }

    fn histograms(&self, declared: &Declared) -> prometheus::Result<HistogramVec> {
        self.register(HistogramVec::new(
            histogram_opts(declared),
            &labels(declared),
        )?)
    }

    fn register<C: Collector + Clone + 'static>(&self, made: C) -> prometheus::Result<C> {
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }
}

/// One series for each member of a closed set.
pub(super) fn members<M, S, const N: usize>(
    names: [(M, &str); N],
    series: impl Fn(&str) -> prometheus::Result<S>,
) -> prometheus::Result<Members<M, S>> {
    names
        .into_iter()
        .map(|(member, name)| Ok((member, series(name)?)))
        .collect()
}

fn opts(declared: &Declared) -> Opts {
    Opts::new(declared.name, declared.help)
}

fn histogram_opts(declared: &Declared) -> HistogramOpts {
    let buckets = match declared.kind {
        Kind::Histogram { buckets, .. } => buckets,
        Kind::Counter | Kind::Gauge => &[],
    };
    HistogramOpts::new(declared.name, declared.help).buckets(buckets.to_vec())
}

fn labels(declared: &Declared) -> Vec<&'static str> {
    declared.labels.iter().map(|label| label.name).collect()
}
