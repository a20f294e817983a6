//! The stub provider for a test: in this process, on a port of its own, and asked over its own listener.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::http::{client, get};
use crate::product::SOON;
use crate::waiting::until;
use sendonce::stub_provider::{Fault, FaultMix, Options, serve};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// What happened under one key, as the stub tells it.
#[derive(Clone, Debug, Deserialize)]
pub struct Item {
    pub key: Option<String>,
    pub message_id: Option<String>,
    pub recipient: Option<String>,
    pub requests: u64,
    pub deliveries: u64,
}

/// What happened in all, as the stub tells it.
#[derive(Clone, Debug, Deserialize)]
pub struct Stats {
    pub keys: u64,
    pub deliveries: u64,
    pub duplicate_deliveries: u64,
    pub keys_with_differing_requests: u64,
}

/// A stub provider, ended when dropped.
pub struct Stub {
    address: SocketAddr,
    _alive: oneshot::Sender<()>,
}

impl Stub {
    /// One that recognises keys and meets its clients with these faults, each by its share of requests.
    pub async fn with(faults: &[(Fault, f64)]) -> Self {
        Self::start(Options {
            faults: mix(faults),
            ..Options::default()
        })
        .await
    }

    /// One with these options.
    pub async fn start(options: Options) -> Self {
        Self::at(
            TcpListener::bind("127.0.0.1:0").await.expect("a port"),
            options,
        )
    }

    /// The same at a place that has been there before it.
    pub fn at(listener: TcpListener, options: Options) -> Self {
        let address = listener.local_addr().expect("an address");
        let (alive, ended) = oneshot::channel();
        tokio::spawn(async move {
            let ended = async { drop(ended.await) };
            serve(options, listener, ended).await.expect("it serves");
        });
        Self {
            address,
            _alive: alive,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on it meets its clients with these faults.
    pub async fn change_faults(&self, faults: &[(Fault, f64)]) {
        let body = serde_json::to_vec(&mix(faults)).expect("a mix");
        let answer = client()
            .post(format!("{}/admin/faults", self.url()))
            .body(body)
            .send()
            .await
            .expect("an answer");
        assert!(answer.status().is_success(), "{answer:?}");
    }

    /// What happened under each key.
    pub async fn deliveries(&self) -> Vec<Item> {
        let answer = get(format!("{}/admin/deliveries", self.url()))
            .await
            .expect("an answer");
        serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("items")
    }

    /// What happened in all.
    pub async fn stats(&self) -> Stats {
        let answer = get(format!("{}/admin/stats", self.url()))
            .await
            .expect("an answer");
        serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("counts")
    }

    /// Waits until so many messages have been taken.
    pub async fn until_delivered(&self, count: u64) {
        let deliveries = async || self.stats().await.deliveries;
        until("messages to be taken", SOON, deliveries, |taken| {
            *taken >= count
        })
        .await;
    }

    /// Requests that began, over all keys.
    pub async fn requests(&self) -> u64 {
        self.deliveries()
            .await
            .iter()
            .map(|item| item.requests)
            .sum()
    }

    /// Requests and deliveries by recipient.
    pub async fn by_recipient(&self) -> BTreeMap<String, (u64, u64)> {
        let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for item in self.deliveries().await {
            let count = counts
                .entry(item.recipient.unwrap_or_default())
                .or_default();
            count.0 += item.requests;
            count.1 += item.deliveries;
        }
        counts
    }
}

/// A mix of faults, each by its share of requests.
pub fn mix(faults: &[(Fault, f64)]) -> FaultMix {
    FaultMix::default()
        .with_rates(faults.iter().copied().collect())
        .expect("shares")
}
