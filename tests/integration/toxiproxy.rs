//! Toxiproxy for a test: a TCP proxy that misbehaves when told to. It knows nothing of the protocol inside.
//!
//! The proxy ends with whoever started it: `tests/toxiproxy.sh run` reads a pipe that only this process holds open.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::waiting::{say_left_out, until};

/// A running Toxiproxy, ended when dropped.
#[derive(Debug)]
pub struct Toxiproxy {
    running: Child,
    api: String,
    client: reqwest::Client,
}

/// One listening address that leads to another.
#[derive(Debug)]
pub struct Proxy<'a> {
    server: &'a Toxiproxy,
    name: String,
    address: SocketAddr,
}

/// Which bytes a toxic is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: requests.
    Upstream,
    /// From the server to the client: answers.
    Downstream,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toxic {
    /// Nothing comes through, and the connection stays open: toxic `timeout` with timeout 0.
    Hang,
    /// The connection is reset (RST) at the first bytes: toxic `reset_peer`.
    Reset,
    /// The connection is closed (FIN) after so many bytes: toxic `limit_data`.
    CloseAfter {
        /// How many bytes still come through.
        bytes: u64,
    },
    /// Every piece comes so much later: toxic `latency`.
    Late {
        /// By how much.
        by: Duration,
    },
}

impl Toxiproxy {
    /// Starts one. None, with a line on the terminal, unless `SENDONCE_TEST_TOXIPROXY=1`.
    pub async fn start() -> Option<Self> {
        if std::env::var("SENDONCE_TEST_TOXIPROXY").is_ok_and(|value| value == "1") {
            return Some(Self::start_it().await);
        }
        say_left_out(
            "needs Toxiproxy, run tests/toxiproxy.sh fetch and set SENDONCE_TEST_TOXIPROXY=1",
        );
        None
    }

    async fn start_it() -> Self {
        // Its own port 0 would do, but it does not tell which port it got.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|free| free.local_addr())
            .expect("a free port")
            .port();
        let running = Command::new("bash")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/toxiproxy.sh"))
            .args(["run", "--port", &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash runs");
        // Only one of several tests may install it first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = Self {
            running,
            api: format!("http://127.0.0.1:{port}"),
            client: reqwest::Client::builder()
                .no_proxy()
                .timeout(Duration::from_secs(10))
                .build()
                .expect("a client"),
        };
        until(
            "toxiproxy to serve (tests/toxiproxy.sh fetch builds it)",
            Duration::from_secs(20),
            async || {
                server
                    .client
                    .get(format!("{}/version", server.api))
                    .send()
                    .await
                    .is_ok()
            },
            |serves| *serves,
        )
        .await;
        server
    }

    /// Opens a new port on loopback that leads to `upstream`.
    pub async fn proxy(&self, name: &str, upstream: SocketAddr) -> Proxy<'_> {
        let asked =
            json!({"name": name, "listen": "127.0.0.1:0", "upstream": upstream, "enabled": true});
        let created = self
            .ask(reqwest::Method::POST, "/proxies", Some(&asked))
            .await;
        let listen = created["listen"].as_str().expect("an address");
        Proxy {
            server: self,
            name: name.to_owned(),
            address: listen.parse().expect("an address"),
        }
    }

    async fn ask(&self, method: reqwest::Method, path: &str, body: Option<&Value>) -> Value {
        let mut request = self.client.request(method, format!("{}{path}", self.api));
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a body");
        assert!(
            status.is_success(),
            "toxiproxy answers {status} to {path}: {text}"
        );
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }
}

impl Drop for Toxiproxy {
    fn drop(&mut self) {
        drop(self.running.stdin.take());
        let _ = self.running.wait();
    }
}

impl Proxy<'_> {
    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes something go wrong on every connection, those that are open too, until `heal`. Several toxics add up.
    pub async fn add(&self, direction: Direction, toxic: Toxic) {
        let (kind, attributes) = match toxic {
            Toxic::Hang => ("timeout", json!({"timeout": 0})),
            Toxic::Reset => ("reset_peer", json!({"timeout": 0})),
            Toxic::CloseAfter { bytes } => ("limit_data", json!({"bytes": bytes})),
            Toxic::Late { by } => ("latency", json!({"latency": by.as_millis() as u64})),
        };
        let stream = match direction {
            Direction::Upstream => "upstream",
            Direction::Downstream => "downstream",
        };
        let asked = json!({"type": kind, "stream": stream, "attributes": attributes});
        let path = format!("/proxies/{}/toxics", self.name);
        self.server
            .ask(reqwest::Method::POST, &path, Some(&asked))
            .await;
    }

    /// Takes all toxics away. A connection that hung is closed by it.
    pub async fn heal(&self) {
        let path = format!("/proxies/{}/toxics", self.name);
        let toxics = self.server.ask(reqwest::Method::GET, &path, None).await;
        for toxic in toxics.as_array().expect("a list") {
            let path = format!("{path}/{}", toxic["name"].as_str().expect("a name"));
            self.server.ask(reqwest::Method::DELETE, &path, None).await;
        }
    }

    /// Closes the port and all connections, so that connecting is refused.
    pub async fn close(&self) {
        self.enable(false).await;
    }

    /// Opens the port again.
    pub async fn open(&self) {
        self.enable(true).await;
    }

    async fn enable(&self, enabled: bool) {
        let path = format!("/proxies/{}", self.name);
        let asked = json!({"enabled": enabled});
        self.server
            .ask(reqwest::Method::POST, &path, Some(&asked))
            .await;
    }
}
