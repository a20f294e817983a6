//! A provider that a test plays itself: a small TCP server that does with each request what a script says, and keeps
//! what it saw. It knows HTTP/1.1 as far as the product speaks it, and recognises no keys: what it takes, the script says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::product::SOON;
use crate::waiting::until;

/// The most that an endless answer is let write: above every cap of a client, and above what two sockets buffer.
const ENDLESS_MAX: u64 = 64 * 1024 * 1024;

/// What happens to one request that has come whole.
#[derive(Clone, Debug)]
pub enum Act {
    /// Answers with these bytes, and goes on with the connection.
    Answer(Vec<u8>),
    /// The same once the gate is open.
    AnswerAfter(Gate, Vec<u8>),
    /// Answers with these bytes and closes, without having said so.
    AnswerAndClose(Vec<u8>),
    /// Answers with the first bytes, then with the second ones again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// Says nothing until the client goes.
    Hang,
    /// Resets the connection.
    Reset,
}

/// What happens to one request, and whether the provider takes its message.
#[derive(Clone, Debug)]
pub struct Turn {
    act: Act,
    takes: bool,
}

impl Act {
    /// Takes the message, and then acts.
    pub fn taking(self) -> Turn {
        Turn {
            act: self,
            takes: true,
        }
    }

    /// Acts, and does not take the message.
    pub fn not_taking(self) -> Turn {
        Turn {
            act: self,
            takes: false,
        }
    }
}

/// An acceptance with a message id.
pub fn accepting() -> Turn {
    Act::Answer(answer("201 Created", "", r#"{"id":"msg-1"}"#)).taking()
}

/// The same once the gate is open.
pub fn accepting_after(gate: &Gate) -> Turn {
    let accepted = answer("201 Created", "", r#"{"id":"msg-1"}"#);
    Act::AnswerAfter(gate.clone(), accepted).taking()
}

/// An answer with this status, and an empty object as its body.
pub fn refusing(status: &str) -> Turn {
    Act::Answer(answer(status, "", "{}")).not_taking()
}

/// An HTTP/1.1 answer with a length. `headers` are whole lines.
pub fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// Holds answers back until a test opens it.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed one.
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets everything through from now on.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn opened(&self) {
        let mut open = self.0.subscribe();
        open.wait_for(|open| *open).await.expect("a gate");
    }
}

/// One request that came whole.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which connection brought it, counted from 0.
    pub connection: usize,
    /// When it was whole.
    pub at: Instant,
    /// Its request line.
    pub line: String,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: String,
    /// Whether the provider took its message.
    pub taken: bool,
}

impl Seen {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(own, _)| own == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// Its idempotency key.
    pub fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }
}

/// A provider that follows a script, ended when dropped.
pub struct Scripted {
    address: SocketAddr,
    notes: Arc<Notes>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Notes {
    seen: Mutex<Vec<Seen>>,
    connections: watch::Sender<usize>,
    endless_bytes: Mutex<u64>,
}

impl Scripted {
    /// Plays these turns in the order in which requests come, whatever they ask, and the last one ever after.
    pub async fn playing(turns: impl IntoIterator<Item = Turn>) -> Self {
        let turns: Vec<Turn> = turns.into_iter().collect();
        Self::by(move |_, before| turns.get(before.len()).or(turns.last()).cloned().unwrap()).await
    }

    /// Does with each request what `script` says of it and of all that came before.
    pub async fn by(script: impl Fn(&Seen, &[Seen]) -> Turn + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let notes = Arc::<Notes>::default();
        let script = Arc::new(script);
        let mut tasks = JoinSet::new();
        let noted = Arc::clone(&notes);
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            for number in 0.. {
                let (stream, _) = listener.accept().await.expect("a connection");
                noted.connections.send_modify(|count| *count += 1);
                let connection = Connection {
                    number,
                    stream,
                    unread: Vec::new(),
                    notes: Arc::clone(&noted),
                };
                open.spawn(connection.serve(Arc::clone(&script)));
            }
        });
        Self {
            address,
            notes,
            _tasks: tasks,
        }
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests that came whole, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.notes.locked().clone()
    }

    /// Those whose body has this in it.
    pub fn seen_with(&self, part: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|request| request.body.contains(part));
        seen
    }

    /// Waits until so many requests have come, and returns all.
    pub async fn until_seen(&self, count: usize) -> Vec<Seen> {
        let what = format!("{count} requests to come");
        until(
            &what,
            SOON,
            async || self.seen(),
            |seen| seen.len() >= count,
        )
        .await
    }

    /// Connections that were made.
    pub fn connections(&self) -> usize {
        *self.notes.connections.borrow()
    }

    /// Bytes that its endless answers have written.
    pub fn endless_bytes(&self) -> u64 {
        *self.notes.endless_bytes.lock().unwrap()
    }

    /// Requests and messages by key; by their bytes where there is no key. A provider that recognises keys delivers a
    /// key's message once, however many of its requests it takes.
    pub fn by_key(&self) -> BTreeMap<String, (u64, u64)> {
        let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for request in self.seen() {
            let name = request.key().unwrap_or(&request.body).to_owned();
            let count = counts.entry(name).or_default();
            count.0 += 1;
            count.1 += u64::from(request.taken);
            if request.key().is_some() {
                count.1 = count.1.min(1);
            }
        }
        counts
    }
}

impl Notes {
    fn locked(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap()
    }
}

/// One connection.
struct Connection {
    number: usize,
    stream: TcpStream,
    unread: Vec<u8>,
    notes: Arc<Notes>,
}

impl Connection {
    /// A client that is gone ends its connection, and nothing else.
    async fn serve(mut self, script: Arc<impl Fn(&Seen, &[Seen]) -> Turn>) {
        while let Some(mut request) = self.request().await {
            let act = {
                let mut seen = self.notes.locked();
                let Turn { act, takes } = script(&request, &seen);
                request.taken = takes;
                seen.push(request);
                act
            };
            let goes_on = match act {
                Act::Answer(bytes) => self.stream.write_all(&bytes).await.is_ok(),
                Act::AnswerAfter(gate, bytes) => {
                    gate.opened().await;
                    self.stream.write_all(&bytes).await.is_ok()
                }
                Act::AnswerAndClose(bytes) => {
                    let _ = self.stream.write_all(&bytes).await;
                    false
                }
                Act::Endless(first, again) => self.write_endlessly(&first, &again).await,
                Act::Hang => {
                    let _ = self.stream.read_to_end(&mut self.unread).await;
                    false
                }
                Act::Reset => {
                    let socket = socket2::SockRef::from(&self.stream);
                    socket.set_linger(Some(Duration::ZERO)).expect("a reset");
                    false
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    async fn write_endlessly(&mut self, first: &[u8], again: &[u8]) -> bool {
        let mut bytes = first;
        while self.stream.write_all(bytes).await.is_ok() {
            let mut written = self.notes.endless_bytes.lock().unwrap();
            *written += bytes.len() as u64;
            assert!(*written < ENDLESS_MAX, "the client reads without end");
            bytes = again;
        }
        false
    }

    /// The next request, or `None` if the connection ends before one is whole.
    async fn request(&mut self) -> Option<Seen> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Some(request) = self.whole() {
                return Some(request);
            }
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.unread.extend_from_slice(&buffer[..length]),
            }
        }
    }

    /// A request whose head and as many bytes as it announces are there.
    fn whole(&mut self) -> Option<Seen> {
        let head_end = self
            .unread
            .windows(4)
            .position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&self.unread[..head_end]).into_owned();
        let mut lines = head.lines();
        let line = lines.next()?.to_owned();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let announced = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = announced.map_or(0, |(_, length)| length.parse().expect("a length"));
        let end = head_end + 4 + length;
        let body = String::from_utf8_lossy(self.unread.get(head_end + 4..end)?).into_owned();
        self.unread.drain(..end);
        Some(Seen {
            connection: self.number,
            at: Instant::now(),
            line,
            headers,
            body,
            taken: false,
        })
    }
}
