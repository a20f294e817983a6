//! Decides what the service is told: reads the layers, refuses what cannot be meant, and hands out types that hold.
//!
//! `config/default.toml` is the lowest layer, so its comments and the behaviour cannot part; a file and the environment
//! lie above it. Every fault of every layer is found at once, each with its key and where it came from. It does not know
//! what a profile says, nor whether a broker or a directory is there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub mod breaker;
pub mod fault;
pub mod intents;
pub mod kafka;
pub mod kafka_properties;
pub mod keys;
pub mod lanes;
mod layers;
pub mod ledger;
pub mod providers;
pub mod rejections;
pub mod retry;
pub mod secret;
mod section;
pub mod service;
pub mod spans;

pub use crate::domain::dead_letter::HeaderFamily;
use breaker::BreakerConfig;
pub use fault::{Fault, Faults, Origin};
use intents::IntentsConfig;
pub use kafka::{KafkaConfig, Ordering};
use keys::KeysConfig;
use lanes::{LaneConfig, LanesConfig};
use layers::Layers;
use ledger::LedgerConfig;
use providers::ProvidersConfig;
use rejections::RejectionsConfig;
use retry::RetryConfig;
use secret::References;
use section::{Findings, Section};
use service::{AdminConfig, DispatchConfig, LogConfig, ShutdownConfig};

/// The lowest layer: every key with its default.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Everything that can be set, checked and resolved. `Debug` tells no secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The cluster and the group.
    pub kafka: KafkaConfig,
    /// The topics.
    pub lanes: LanesConfig,
    /// Limits of what is read.
    pub intents: IntentsConfig,
    /// What keys are made from.
    pub keys: KeysConfig,
    /// The memory of what was sent.
    pub ledger: LedgerConfig,
    /// Budget, backoff and waits.
    pub retry: RetryConfig,
    /// When a provider counts as down.
    pub breaker: BreakerConfig,
    /// When a template is paused.
    pub rejections: RejectionsConfig,
    /// Limits of what is in flight.
    pub dispatch: DispatchConfig,
    /// Who sends what.
    pub providers: ProvidersConfig,
    /// How the service ends.
    pub shutdown: ShutdownConfig,
    /// The admin listener.
    pub admin: AdminConfig,
    /// The log.
    pub log: LogConfig,
}

/// What a configuration is read from, besides the defaults.
#[derive(Default)]
pub struct Sources {
    /// The file's path, for messages, and its text.
    pub file: Option<(PathBuf, String)>,
    /// Environment variables. Those that begin with `SENDONCE__` are the upper layer; all can be referred to as secrets.
    pub environment: Vec<(OsString, OsString)>,
}

impl Config {
    /// Reads the defaults, `file` and the process's environment.
    pub fn load(file: Option<&Path>) -> Result<Self, Faults> {
        let environment = std::env::vars_os().collect();
        let file = match file {
            None => None,
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => Some((path.to_owned(), text)),
                Err(error) => {
                    return Err(Faults::from(Fault {
                        key: String::new(),
                        origin: Some(Origin::File(path.to_owned())),
                        message: format!("cannot be read: {error}"),
                    }));
                }
            },
        };
        Self::from_sources(&Sources { file, environment })
    }

    /// Reads the defaults and `sources`. Touches nothing else but the files that `file:` references name.
    pub fn from_sources(sources: &Sources) -> Result<Self, Faults> {
        let mut findings = Findings::default();
        let references = References::new(&sources.environment);
        let layers = Layers::stack(sources, &mut findings);
        let config = Section::root(layers, &mut findings, &references, Self::read);
        match config {
            Some(config) if findings.faults.is_empty() => Ok(config),
            Some(_) | None => Err(Faults::from(findings.faults)),
        }
    }

    /// What is missing before anything could be sent: checked by `run` and `check`, not when the configuration is read.
    pub fn missing_to_run(&self) -> Option<Faults> {
        let lacking = |key: &str, message: &str| Fault {
            key: key.to_owned(),
            origin: None,
            message: message.to_owned(),
        };
        let mut faults = Vec::new();
        if self.keys.ring.is_none() {
            faults.push(lacking(
                "keys.secrets",
                "at least one is needed: keys cannot be made without a secret",
            ));
        }
        if self.providers.accounts.is_empty() {
            faults.push(lacking(
                "routes",
                "at least one route or [provider.NAME] is needed: nothing could be sent",
            ));
        }
        (!faults.is_empty()).then(|| Faults::from(faults))
    }

    fn read(root: &mut Section<'_>) -> Option<Self> {
        let dispatch = root.section("dispatch", DispatchConfig::read);
        let intents = root.section("intents", IntentsConfig::read);
        let size_max = intents.as_ref().map(|intents| intents.size_max);
        let mut first = None;
        let kafka = root.section("kafka", |kafka| {
            first = LaneConfig::read(kafka);
            KafkaConfig::read(kafka, size_max)
        });
        let lanes = LanesConfig::read(root, first);
        let keys = root.section("keys", KeysConfig::read);
        let ledger = root.section("ledger", LedgerConfig::read);
        let retry = root.section("retry", RetryConfig::read);
        let breaker = root.section("breaker", BreakerConfig::read);
        let rejections = root.section("rejections", RejectionsConfig::read);
        let providers = ProvidersConfig::read(root);
        let shutdown = root.section("shutdown", ShutdownConfig::read);
        let admin = root.section("admin", AdminConfig::read);
        let log = root.section("log", LogConfig::read);
        if let (Some(intents), Some(ledger)) = (&intents, &ledger)
            && intents.max_age >= ledger.retention
        {
            root.fault(
                "intents.max_age",
                &format!(
                    "must be below ledger.retention ({}), or what the ledger has forgotten would be sent again",
                    spans::show(ledger.retention)
                ),
            );
        }
        if let (Some(intents), Some(lanes)) = (&intents, &lanes)
            && intents.open_max < lanes.iter().count()
        {
            root.fault("intents.open_max", "must be at least the number of lanes");
        }
        Some(Self {
            kafka: kafka?,
            lanes: lanes?,
            intents: intents?,
            keys: keys?,
            ledger: ledger?,
            retry: retry?,
            breaker: breaker?,
            rejections: rejections?,
            dispatch: dispatch?,
            providers: providers?,
            shutdown: shutdown?,
            admin: admin?,
            log: log?,
        })
    }
}

#[cfg(test)]
mod tests;
