//! What a client of the stub provider sees, byte by byte on real sockets, and what the truth says of it. Here are the client
//! and its readings; the rooms hold the tests.

mod faults;
mod keys;
mod truth;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Fault, FaultMix, Options, Scope, serve};

const BODY: &str = r#"{"to":"+12025550143","text":"Your code is 482901"}"#;
const OTHER_BODY: &str = r#"{"to":"+12025550143","text":"Your code is 111111"}"#;

/// A stub provider of its own for one test.
struct Stub {
    address: SocketAddr,
}

/// One answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Stub {
    async fn start(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            serve(options, listener, std::future::pending())
                .await
                .unwrap()
        });
        Self { address }
    }

    /// One whose every request meets a fault.
    async fn failing(fault: Fault) -> Self {
        Self::start(Options {
            faults: always(fault),
            ..Options::default()
        })
        .await
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends under a key, on a connection of its own.
    async fn send(&self, key: &str, body: &str) -> Answer {
        read_answer(&mut self.begin(key, body).await).await
    }

    /// Sends, and leaves the answer to be read.
    async fn begin(&self, key: &str, body: &str) -> TcpStream {
        let mut connection = self.connect().await;
        connection
            .write_all(message(key, body).as_bytes())
            .await
            .unwrap();
        connection
    }

    async fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut connection = self.connect().await;
        let head = format!(
            "{method} /admin/{path} HTTP/1.1\r\nhost: stub\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        connection
            .write_all(format!("{head}{body}").as_bytes())
            .await
            .unwrap();
        read_answer(&mut connection).await
    }

    async fn deliveries(&self) -> Value {
        serde_json::from_str(&self.admin("GET", "deliveries", "").await.body).unwrap()
    }

    async fn stats(&self) -> Value {
        serde_json::from_str(&self.admin("GET", "stats", "").await.body).unwrap()
    }

    /// Waits until so many whole requests have come.
    async fn requests_reach(&self, count: u64) {
        while self.stats().await["events"]["request"] != json!(count) {}
    }

    /// How often an event happened.
    async fn count(&self, event: &str) -> u64 {
        self.stats().await["events"][event]
            .as_u64()
            .unwrap_or_default()
    }
}

fn always(fault: Fault) -> FaultMix {
    FaultMix::default()
        .with_rates(BTreeMap::from([(fault, 1.0)]))
        .unwrap()
}

fn once(fault: Fault) -> FaultMix {
    always(fault).within(Scope::First)
}

fn message(key: &str, body: &str) -> String {
    format!(
        "POST /v1/messages HTTP/1.1\r\nhost: stub\r\nidempotency-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads one answer to the end that its head announces.
async fn read_answer(connection: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    loop {
        if let Some((answer, announced)) = parse(&bytes)
            && answer.body.len() >= announced
        {
            return answer;
        }
        assert_ne!(
            connection.read_buf(&mut bytes).await.unwrap(),
            0,
            "cut after {:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
}

/// What came up to the end of the connection.
async fn read_to_end(connection: &mut TcpStream) -> Result<String, ErrorKind> {
    let mut text = String::new();
    connection
        .read_to_string(&mut text)
        .await
        .map_err(|error| error.kind())?;
    Ok(text)
}

/// The answer so far, and how long its body is to become.
fn parse(bytes: &[u8]) -> Option<(Answer, usize)> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let announced = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    Some((
        Answer {
            status,
            headers,
            body: body.to_owned(),
        },
        announced,
    ))
}

impl Stub {
    /// Sends with the wish that the connection be closed after the answer.
    async fn begin_closing(&self, key: &str) -> TcpStream {
        let mut connection = self.connect().await;
        let whole = message(key, BODY).replacen("\r\n", "\r\nconnection: close\r\n", 1);
        connection.write_all(whole.as_bytes()).await.unwrap();
        connection
    }
}
