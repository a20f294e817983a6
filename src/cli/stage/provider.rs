//! Watches the stub provider from outside, by its admin paths and its truth log. Its shapes are read anew here, so that the
//! watcher notices when the provider changes what it promises.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::child::Running;
use super::{free_address, loopback_client};

/// The stub provider as a process of its own.
#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    running: Running,
    truth_log: Option<PathBuf>,
    client: reqwest::Client,
}

/// Totals, as the provider tells them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Stats {
    /// How often each event happened.
    pub events: BTreeMap<String, u64>,
    /// Distinct keys seen.
    pub keys: u64,
    /// Messages accepted.
    pub deliveries: u64,
    /// Messages accepted beyond the first of their key.
    pub duplicate_deliveries: u64,
    /// Keys under which requests of differing bytes came.
    pub keys_with_differing_requests: u64,
    /// A sum over what was asked for under each key.
    pub requests_digest: String,
    /// When the first message was accepted.
    pub first_delivery_at: Option<Timestamp>,
    /// When the last message was accepted.
    pub last_delivery_at: Option<Timestamp>,
}

/// One line of the truth log.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Told {
    /// When it happened.
    pub time: Timestamp,
    /// What happened.
    pub event: String,
    /// The key of its request.
    pub key: Option<String>,
    /// Whom its message is for.
    pub recipient: Option<String>,
}

impl Provider {
    /// Starts a provider with these further arguments, and waits until it answers. With `truth_told` it keeps a truth log in
    /// `folder`.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not answer.
    pub async fn start(
        folder: &Path,
        truth_told: bool,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let address = free_address()?;
        let truth_log = truth_told.then(|| folder.join("truth.ndjson"));
        let (listen, log) = (
            address.to_string(),
            truth_log.as_ref().map(|path| path.display().to_string()),
        );
        let mut all = vec!["stub-provider", "--listen", &listen];
        if let Some(log) = &log {
            all.extend(["--truth-log", log]);
        }
        all.extend(arguments);
        let running = Running::start("stub-provider", folder, &all, &[])?;
        let mut provider = Self {
            address,
            running,
            truth_log,
            client: loopback_client()?,
        };
        provider.wait_until_it_answers().await?;
        Ok(provider)
    }

    /// Where messages are posted.
    pub fn messages_url(&self) -> String {
        format!("http://{}/v1/messages", self.address)
    }

    /// What has happened so far.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn stats(&self) -> anyhow::Result<Stats> {
        let answer = self
            .client
            .get(self.admin("stats"))
            .send()
            .await?
            .error_for_status()?;
        serde_json::from_slice(&answer.bytes().await?)
            .context("the provider's totals cannot be read")
    }

    /// Makes it forget all that happened.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn reset(&self) -> anyhow::Result<()> {
        self.client
            .post(self.admin("reset"))
            .send()
            .await?
            .error_for_status()?;
        Ok(())
    }

    /// Every line of its truth log.
    ///
    /// # Errors
    ///
    /// When there is none, or a line cannot be read.
    pub fn truth(&self) -> anyhow::Result<Vec<Told>> {
        let path = self
            .truth_log
            .as_ref()
            .context("the provider keeps no truth log")?;
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        text.lines()
            .map(|line| {
                serde_json::from_str(line).with_context(|| format!("not a line of truth: {line}"))
            })
            .collect()
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    ///
    /// Tells its status.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        self.running.still_runs()
    }

    async fn wait_until_it_answers(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while self.stats().await.is_err() {
            self.running.still_runs()?;
            if start.elapsed() > START_WITHIN {
                bail!("the stub provider does not answer within {START_WITHIN:?}");
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    fn admin(&self, path: &str) -> String {
        format!("http://{}/admin/{path}", self.address)
    }
}

/// How long a start may take: a busy machine is within it.
const START_WITHIN: Duration = Duration::from_secs(20);
/// How often it is looked whether a process has come up.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
