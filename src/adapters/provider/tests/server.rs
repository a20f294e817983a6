//! A server that does what a test's script says with each connection, and keeps what it saw.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::adapters::clock::BootMoment;
use crate::adapters::provider::ProviderClient;
use crate::domain::classify::{Answer, Response};
use crate::domain::idempotency_key::RequestFingerprint;
use crate::domain::profile::{Binding, Profile};
use crate::domain::render::RenderedRequest;

/// Long enough for anything that comes at all.
pub(in crate::adapters::provider) const PATIENT: Duration = Duration::from_secs(20);
/// Long enough for loopback, short enough to wait for.
pub(in crate::adapters::provider) const BRIEF: Duration = Duration::from_millis(300);

/// What the server saw.
#[derive(Default)]
pub(in crate::adapters::provider) struct Seen {
    /// Connections that were accepted.
    pub(in crate::adapters::provider) connections: usize,
    /// Requests that came whole.
    pub(in crate::adapters::provider) whole: Vec<String>,
    /// What came of requests that did not.
    pub(in crate::adapters::provider) parts: Vec<Vec<u8>>,
}

pub(in crate::adapters::provider) struct Server {
    pub(in crate::adapters::provider) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    /// Ends with the test.
    _tasks: JoinSet<()>,
}

/// One connection of a server.
pub(in crate::adapters::provider) struct Connection {
    pub(in crate::adapters::provider) stream: TcpStream,
    seen: Arc<Mutex<Seen>>,
}

impl Server {
    /// Serves each connection, numbered from 0, as `script` says.
    pub(in crate::adapters::provider) async fn start<F, S>(script: F) -> Self
    where
        F: Fn(usize, Connection) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let mut tasks = JoinSet::new();
        let watched = Arc::clone(&seen);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = {
                    let mut seen = watched.lock().unwrap();
                    seen.connections += 1;
                    seen.connections - 1
                };
                let seen = Arc::clone(&watched);
                connections.spawn(script(number, Connection { stream, seen }));
            }
        });
        Self {
            address,
            seen,
            _tasks: tasks,
        }
    }

    /// Answers every request of every connection with these bytes.
    pub(in crate::adapters::provider) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::<[u8]>::from(answer.into());
        Self::start(move |_, mut connection| {
            let answer = Arc::clone(&answer);
            async move {
                while connection.request().await.is_some() {
                    if connection.stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    pub(in crate::adapters::provider) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// The profile of a provider that is this server, with `more` in it.
    pub(in crate::adapters::provider) fn profile(&self, more: &str) -> Profile {
        profile(&format!("http://{}", self.address), more)
    }

    pub(in crate::adapters::provider) fn client(&self) -> ProviderClient {
        ProviderClient::new(&self.profile("")).unwrap()
    }

    pub(in crate::adapters::provider) fn request(&self, body: &str) -> RenderedRequest {
        request(&format!("http://{}/send", self.address), body)
    }

    /// What a fresh client gets for one request.
    pub(in crate::adapters::provider) async fn ask(&self, patience: Duration) -> Answer {
        let request = self.request("{\"text\":\"code 482901\"}");
        self.client()
            .send(&request, BootMoment::after(patience))
            .await
    }

    pub(in crate::adapters::provider) async fn ask_for_response(
        &self,
        patience: Duration,
    ) -> Response {
        response(self.ask(patience).await)
    }
}

impl Connection {
    /// The next request with its body, or `None` if the connection ends before one is whole.
    pub(in crate::adapters::provider) async fn request(&mut self) -> Option<String> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if is_whole(&bytes) {
                let text = String::from_utf8(bytes).unwrap();
                self.seen.lock().unwrap().whole.push(text.clone());
                return Some(text);
            }
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => {
                    if !bytes.is_empty() {
                        self.seen.lock().unwrap().parts.push(bytes);
                    }
                    return None;
                }
                Ok(len) => bytes.extend_from_slice(&buffer[..len]),
            }
        }
    }

    pub(in crate::adapters::provider) async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Ends the connection with a reset instead of a goodbye.
    pub(in crate::adapters::provider) fn reset(self) {
        let socket = socket2::SockRef::from(&self.stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }
}

/// The response that an answer is.
pub(in crate::adapters::provider) fn response(answer: Answer) -> Response {
    match answer {
        Answer::Response(response) => response,
        Answer::NotSent(cause) => panic!("not sent: {cause:?}"),
        Answer::Lost(cause) => panic!("lost: {cause:?}"),
    }
}

/// Whether a head and as many bytes as it announces are there.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let announced = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |len| len.trim().parse().unwrap());
    bytes.len() - end - 4 >= announced
}

/// The profile of a provider at `origin`.
pub(in crate::adapters::provider) fn profile(origin: &str, more: &str) -> Profile {
    let text = format!(
        r#"
vendor = "fixture"
operation = "send"
verified = "documented"
verified_on = "2026-11-30"
accepted = {{ status = "2xx", id = "/id" }}
[request]
method = "POST"
url = "http://fixture.example/send"
body = {{ kind = "json" }}
{more}
"#
    );
    let binding = Binding {
        base_url: Some(origin.parse().unwrap()),
        ..Binding::default()
    };
    Profile::parse(&text).unwrap().bind(binding).unwrap()
}

pub(in crate::adapters::provider) fn request(url: &str, body: &str) -> RenderedRequest {
    RenderedRequest {
        method: http::Method::POST,
        url: url.parse().unwrap(),
        headers: [(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        )]
        .into_iter()
        .collect(),
        body: body.to_owned().into(),
        fingerprint: RequestFingerprint([0; 32]),
        companions: Vec::new(),
    }
}

/// An HTTP/1.1 answer with a length.
pub(in crate::adapters::provider) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
