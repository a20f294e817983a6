//! Answers those who look after the process, over HTTP. Decides nothing about the service. It takes only GET and HEAD:
//!
//! - `/metrics`: every metric in Prometheus's text format;
//! - `/live`: 200 while the process's loops turn, else 503 with those that do not;
//! - `/ready`: 200 when nothing stands against it, else 503 with the reasons, from a closed list.
//!
//! Everything else is 404. A connection gets one answer and little time; more connections than a few wait in the
//! system's queue. No request's body is read.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::telemetry::metrics::Metrics;
use crate::telemetry::status::Status;

/// Connections served at once.
const CONNECTIONS_MAX: usize = 32;
/// From its first byte to its last, no connection lasts longer.
const CONNECTION_SPAN: Duration = Duration::from_secs(10);
/// A request's head must be there by then.
const HEAD_SPAN: Duration = Duration::from_secs(5);
/// Bytes of a request's head, at most; the least that hyper takes.
const HEAD_BYTES_MAX: usize = 8 * 1024;

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// The admin listener, bound to its address.
pub struct Admin {
    listener: TcpListener,
}

impl Admin {
    /// Binds the address.
    ///
    /// # Errors
    ///
    /// When the address is taken or not ours.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until it is dropped.
    pub async fn serve(self, metrics: Arc<Metrics>, status: Arc<Status>) {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let connection = match self.listener.accept().await {
                Ok((connection, _)) => connection,
                Err(error) => {
                    // Out of file descriptors, most likely: trying again at once would only burn time.
                    tracing::warn!(%error, "the admin listener could not take a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (metrics, status) = (Arc::clone(&metrics), Arc::clone(&status));
            tokio::spawn(async move {
                answer_one(connection, &metrics, &status).await;
                drop(permit);
            });
        }
    }
}

/// Gives a connection its one answer. Whoever asked may have gone; nobody is told of that.
async fn answer_one(connection: TcpStream, metrics: &Metrics, status: &Status) {
    let service = service_fn(async |request: Request<Incoming>| {
        Ok::<_, Infallible>(answer(&request, metrics, status))
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_SPAN)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(connection), service);
    if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_SPAN, served).await {
        tracing::debug!(%error, "an admin connection ended early");
    }
}

fn answer(
    request: &Request<Incoming>,
    metrics: &Metrics,
    status: &Status,
) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if !matches!(path, "/metrics" | "/live" | "/ready") {
        return respond(
            StatusCode::NOT_FOUND,
            JSON,
            r#"{"error":"not_found"}"#.into(),
        );
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = respond(
            StatusCode::METHOD_NOT_ALLOWED,
            JSON,
            r#"{"error":"method_not_allowed"}"#.into(),
        );
        refused
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match path {
        "/metrics" => match metrics.render() {
            Ok(text) => respond(StatusCode::OK, TEXT_FORMAT, text),
            Err(error) => {
                tracing::error!(%error, "metrics could not be rendered");
                respond(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    JSON,
                    r#"{"error":"internal"}"#.into(),
                )
            }
        },
        "/live" => {
            let stuck = status.stuck().into_iter().map(|stuck| stuck.name());
            respond_verdict("live", "stuck", stuck.collect())
        }
        _ => {
            let against = status.not_ready().into_iter().map(|reason| reason.name());
            respond_verdict("ready", "reasons", against.collect())
        }
    }
}

/// `{"live":true}`, or `{"live":false,"stuck":["intake"]}`. The words are our own, so none needs escaping.
fn respond_verdict(verdict: &str, why: &str, against: Vec<&str>) -> Response<Full<Bytes>> {
    if against.is_empty() {
        return respond(StatusCode::OK, JSON, format!("{{\"{verdict}\":true}}"));
    }
    respond(
        StatusCode::SERVICE_UNAVAILABLE,
        JSON,
        format!(
            "{{\"{verdict}\":false,\"{why}\":[\"{}\"]}}",
            against.join("\",\"")
        ),
    )
}

fn respond(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::telemetry::status::{Loop, NotReady};

    async fn listening() -> (SocketAddr, Arc<Status>) {
        let admin = Admin::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = admin.address().unwrap();
        let status = Arc::new(Status::default());
        let metrics = Arc::new(Metrics::new(["captifi"], ["send-intents"]).unwrap());
        tokio::spawn(admin.serve(metrics, Arc::clone(&status)));
        (address, status)
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A connection that is cut counts as what came before.
        let _ = connection.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn get(address: SocketAddr, path: &str) -> (u16, String) {
        let answer = ask(address, &format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    #[tokio::test]
    async fn metrics_are_served_in_the_text_format() {
        let (address, _) = listening().await;
        let request = "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n";
        let answer = ask(address, request).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer.contains("content-type: text/plain; version=0.0.4"),
            "{answer}"
        );
        assert!(
            answer.contains("\n# TYPE sendonce_records_total counter\n"),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn ready_tells_what_stands_against_it() {
        let (address, status) = listening().await;
        let not_yet = r#"{"ready":false,"reasons":["not_assigned"]}"#;
        assert_eq!(get(address, "/ready").await, (503, not_yet.into()));
        status.clear(NotReady::NotAssigned);
        assert_eq!(
            get(address, "/ready").await,
            (200, r#"{"ready":true}"#.into())
        );
        status.set(NotReady::Draining);
        status.set(NotReady::LedgerNotWritable);
        let reasons = r#"{"ready":false,"reasons":["ledger_not_writable","draining"]}"#;
        assert_eq!(get(address, "/ready").await, (503, reasons.into()));
    }

    #[tokio::test]
    async fn live_does_not_ask_whether_it_is_ready() {
        let (address, status) = listening().await;
        status.beat(Loop::Intake);
        assert_eq!(
            get(address, "/live").await,
            (200, r#"{"live":true}"#.into())
        );
    }

    #[tokio::test]
    async fn a_query_is_passed_over_and_other_paths_are_not_there() {
        let (address, _) = listening().await;
        assert_eq!(get(address, "/live?verbose=1").await.0, 200);
        for path in ["/", "/metrics/", "/live/../ready", "/debug/pprof"] {
            assert_eq!(get(address, path).await.0, 404, "{path}");
        }
    }

    #[tokio::test]
    async fn only_get_and_head_are_taken() {
        let (address, _) = listening().await;
        let post = "POST /ready HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n";
        let answer = ask(address, post).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(answer.contains("allow: GET, HEAD"), "{answer}");
        let head = ask(address, "HEAD /live HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_refused() {
        let (address, _) = listening().await;
        let request = format!(
            "GET /live HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n",
            "x".repeat(HEAD_BYTES_MAX * 2)
        );
        let answer = ask(address, &request).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
            "{answer}"
        );
        assert_eq!(get(address, "/live").await.0, 200);
    }

    #[tokio::test]
    async fn one_connection_gets_one_answer() {
        let (address, _) = listening().await;
        let twice = "GET /live HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2);
        let answer = ask(address, &twice).await;
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }

    #[tokio::test]
    async fn a_connection_that_says_nothing_is_cut_and_gives_its_place_back() {
        let (address, _) = listening().await;
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        // Waits in the system's queue until the silent ones have been cut; time runs as fast as it is waited for.
        tokio::time::pause();
        assert_eq!(get(address, "/live").await.0, 200);
    }
}
