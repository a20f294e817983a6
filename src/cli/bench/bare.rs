//! The measure of the bench: a bare client that posts prepared requests and does nothing else. It knows nothing of intents,
//! ledgers or retries.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

/// Post prepared requests with a bare client, each once. The bench starts this.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Where they are posted.
    #[arg(long)]
    url: String,
    /// The file of requests, one JSON object a line.
    #[arg(long)]
    requests: PathBuf,
    /// How many are on their way at once.
    #[arg(long)]
    concurrency: usize,
}

/// One prepared request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Its idempotency key.
    pub key: String,
    /// Its body, which is JSON.
    pub body: String,
}

/// Posts them all.
///
/// # Errors
///
/// When the file cannot be read, or a request is not answered with 201.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&arguments.requests)
        .with_context(|| format!("{} cannot be read", arguments.requests.display()))?;
    let requests = text
        .lines()
        .map(|line| {
            serde_json::from_str::<Prepared>(line)
                .map(|Prepared { key, body }| (key, Bytes::from(body)))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    // The client looks for one even though it speaks plain HTTP only; it is no fault when there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .no_proxy()
        .http1_only()
        .pool_max_idle_per_host(usize::MAX)
        .build()?;
    let mut posting = JoinSet::new();
    for _ in 0..arguments.concurrency {
        let (requests, next, client, url) = (
            Arc::clone(&requests),
            Arc::clone(&next),
            client.clone(),
            arguments.url.clone(),
        );
        posting.spawn(async move {
            while let Some((key, body)) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let request = client
                    .post(&url)
                    .header(CONTENT_TYPE, "application/json")
                    .header("Idempotency-Key", key)
                    .body(body.clone());
                let answer = request.send().await?;
                ensure!(
                    answer.status() == http::StatusCode::CREATED,
                    "a request was answered with {}",
                    answer.status()
                );
                answer.bytes().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(posted) = posting.join_next().await {
        posted??;
    }
    Ok(())
}
