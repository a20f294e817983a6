//! An honest model of a provider of messages, which fails its clients as real ones do and keeps the truth of what it did.
//!
//! It decides what a provider is held to in tests, in the demo and in the bench. It deliberately knows nothing of the rest
//! of this program, so that it cannot share its mistakes, and it promises nothing about speed or durability beyond its
//! truth log: what it remembers is in memory. It can be told to break its word about keys, as real ones do: then its answers
//! lie, and its truth still does not.
//!
//! Endpoints:
//!
//! - `POST /v1/messages` takes a message as JSON (recipient in `to`) or as a form (`to` or `To`) under the key in the header
//!   `Idempotency-Key`. It answers 201 with `{"id": …}`; to a key that comes again the same, with `Idempotent-Replayed: true`;
//!   400 without a key or a recipient, 409 while the key's first request is being worked on, 422 when the key belongs to
//!   another request. Refusals are problems (RFC 9457). The form of these answers follows the IETF draft "The Idempotency-Key
//!   HTTP Header Field" (draft-ietf-httpapi-idempotency-key-header-07, section 2.7).
//! - `GET /v1/messages?to=…&reference=…` is `{"messages": [{"id", "to", "reference", "text", "made_at"}]}`, newest first,
//!   at most fifty, where look-ups are switched on.
//! - `GET /admin/deliveries` is what happened under each key: `[{"key", "message_id", "recipient", "requests", "deliveries"}]`.
//! - `GET /admin/stats` counts what happened.
//! - `POST /admin/reset` forgets every key and all that happened; the truth log goes on.
//! - `GET /admin/faults` and `POST /admin/faults` read and change the fault mix.

mod admin;
mod answers;
mod connection;
mod exchange;
mod faults;
mod listing;
mod memory;
mod message;
#[cfg(test)]
mod tests;
mod truth;

use std::fs::File;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use faults::{BadMix, Fault, FaultMix, Scope};
pub use truth::{Event, Item, Stats};

use exchange::Provider;

/// How the provider behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The path of a send. Every other path but the admin ones is not found.
    pub path: String,
    /// The header that carries the idempotency key.
    pub key_header: String,
    /// Whether it recognises keys. One that does not takes every complete request for a new message.
    pub keys: bool,
    /// How long it remembers a key after its acceptance.
    pub window: Duration,
    /// Whether it gives another request under a known key the first one's answer, in place of a conflict.
    pub ignores_body: bool,
    /// Whether it knows a key only once its first request has been answered: requests that come meanwhile are new messages.
    pub lacks_lock: bool,
    /// The recipient of messages that it always answers with a server error, and never accepts.
    pub fails_for: Option<String>,
    /// Whether it remembers those errors under their keys.
    pub stores_errors: bool,
    /// Whether messages can be looked up, and how long after its acceptance one shows.
    pub lookups: Option<Duration>,
    /// The member of an acceptance that carries the message id.
    pub id_field: String,
    /// Which faults it has, until they are changed.
    pub faults: FaultMix,
    /// What the draw of faults follows from.
    pub seed: u64,
    /// The file to which what really happens is appended, one JSON object a line. It is written before each answer leaves.
    pub truth_log: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            path: "/v1/messages".to_owned(),
            key_header: "Idempotency-Key".to_owned(),
            keys: true,
            window: Duration::from_secs(24 * 60 * 60),
            ignores_body: false,
            lacks_lock: false,
            fails_for: None,
            stores_errors: false,
            lookups: None,
            id_field: "id".to_owned(),
            faults: FaultMix::default(),
            seed: 0,
            truth_log: None,
        }
    }
}

/// Why the provider does not serve, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The name of the key's header is none.
    #[error("`{name}` cannot be the name of a header")]
    KeyHeader {
        /// The name as it was given.
        name: String,
    },
    /// The truth log cannot be opened.
    #[error("the truth log {} cannot be opened", path.display())]
    OpenTruthLog {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The truth log can no longer be written. A provider without its truth is worth nothing, so it stops.
    #[error("the truth log cannot be written")]
    WriteTruthLog(#[source] io::Error),
}

/// Serves connections of the listener until `shutdown` is ready, then cuts those that are open.
///
/// # Errors
///
/// When the truth log cannot be opened or written, or the options name an impossible header.
pub async fn serve(
    options: Options,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let truth_log = match &options.truth_log {
        Some(path) => Some(open_log(path.clone())?),
        None => None,
    };
    let provider = Arc::new(Provider::new(options, truth_log)?);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            error = provider.broken() => return Err(ServeError::WriteTruthLog(error)),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection::serve(Arc::clone(&provider), stream));
                }
                // Nothing is wrong with the listener: the client has gone, or there are too many open files for a while.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// How long nothing is accepted after the system has refused to.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

fn open_log(path: PathBuf) -> Result<File, ServeError> {
    File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|source| ServeError::OpenTruthLog { path, source })
}
