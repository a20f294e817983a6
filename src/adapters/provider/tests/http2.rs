//! HTTP/2 frame by frame: only a refusal in so many words proves that a stream was not looked at.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::server::{BRIEF, Connection, PATIENT, Server};
use crate::adapters::clock::BootMoment;
use crate::adapters::provider::ProviderClient;
use crate::domain::classify::{Answer, LostCause, NotSentCause};

// RFC 9113, section 6.
const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;
const WINDOW_UPDATE: u8 = 0x8;
const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
// RFC 9113, section 7.
const NO_ERROR: u32 = 0x0;
const INTERNAL_ERROR: u32 = 0x2;
const REFUSED_STREAM: u32 = 0x7;

impl Connection {
    async fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).await.ok()?;
        Some((kind, flags, u32::from_be_bytes(stream), payload))
    }

    async fn send_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![a, b, c, kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).await.unwrap();
    }

    async fn send_goodbye(&mut self, last_stream: u32, reason: u32) {
        let payload = [last_stream.to_be_bytes(), reason.to_be_bytes()].concat();
        self.send_frame(GOAWAY, 0, 0, &payload).await;
    }

    async fn greet_on_http2(&mut self) {
        let mut preface = [0; 24];
        self.stream.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        self.send_frame(SETTINGS, 0, 0, &[]).await;
    }

    /// Greets, and reads until a request has come whole; its stream and body.
    async fn request_of_http2(&mut self) -> Option<(u32, Vec<u8>)> {
        self.greet_on_http2().await;
        let mut body = Vec::new();
        loop {
            match self.frame().await? {
                (SETTINGS, 0, ..) => self.send_frame(SETTINGS, ACK, 0, &[]).await,
                (DATA, flags, stream, part) => {
                    body.extend_from_slice(&part);
                    if flags & END_STREAM != 0 {
                        return Some((stream, body));
                    }
                }
                (_, _, _, _) => {}
            }
        }
    }

    /// Reads until the client is gone.
    async fn until_closed(&mut self) {
        while self.frame().await.is_some() {}
    }
}

async fn ask<F, S>(script: F) -> (Answer, usize)
where
    F: Fn(Connection) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let server = Server::start(move |_, connection| script(connection)).await;
    let client = ProviderClient::new(&server.profile("http = \"2\"")).unwrap();
    let answer = client
        .send(&server.request("{\"a\":1}"), BootMoment::after(PATIENT))
        .await;
    let connections = server.seen().connections;
    (answer, connections)
}

#[tokio::test]
async fn http2_is_spoken_where_the_profile_says_so() {
    let (answer, _) = ask(|mut connection| async move {
        let (stream, body) = connection.request_of_http2().await.unwrap();
        assert_eq!(body, b"{\"a\":1}");
        // HPACK, RFC 7541, appendix A: index 8 is :status 200.
        connection
            .send_frame(HEADERS, END_HEADERS, stream, &[0x88])
            .await;
        connection
            .send_frame(DATA, END_STREAM, stream, b"{\"id\":\"m-1\"}")
            .await;
        connection.until_closed().await;
    })
    .await;
    let response = super::server::response(answer);
    assert_eq!(
        (response.status, &*response.body, response.body_complete),
        (200, &b"{\"id\":\"m-1\"}"[..], true)
    );
}

#[tokio::test]
async fn p16_a_refused_stream_is_not_sent() {
    let (answer, connections) = ask(|mut connection| async move {
        let (stream, _) = connection.request_of_http2().await.unwrap();
        connection
            .send_frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())
            .await;
        connection.until_closed().await;
    })
    .await;
    assert!(
        matches!(answer, Answer::NotSent(NotSentCause::RefusedStream)),
        "{answer:?}"
    );
    assert_eq!(
        connections, 1,
        "the retry is ours to make, not the client's"
    );
}

#[tokio::test]
async fn p16_a_goodbye_that_names_an_earlier_stream_is_not_sent() {
    for reason in [NO_ERROR, INTERNAL_ERROR] {
        let (answer, _) = ask(move |mut connection| async move {
            connection.request_of_http2().await.unwrap();
            connection.send_goodbye(0, reason).await;
            connection.until_closed().await;
        })
        .await;
        assert!(
            matches!(answer, Answer::NotSent(NotSentCause::GoAway)),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn p16_a_goodbye_that_names_our_stream_or_a_later_one_leaves_it_lost() {
    for reason in [NO_ERROR, INTERNAL_ERROR] {
        for later in [0, 2, 0x7FFF_FFFE] {
            let (answer, _) = ask(move |mut connection| async move {
                let (stream, _) = connection.request_of_http2().await.unwrap();
                connection
                    .send_goodbye((stream + later).min(0x7FFF_FFFF), reason)
                    .await;
            })
            .await;
            assert!(
                matches!(answer, Answer::Lost(_)),
                "{reason} {later}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn p16_a_reset_for_another_reason_leaves_it_lost() {
    let (answer, connections) = ask(|mut connection| async move {
        let (stream, _) = connection.request_of_http2().await.unwrap();
        connection
            .send_frame(RST_STREAM, 0, stream, &INTERNAL_ERROR.to_be_bytes())
            .await;
        connection.until_closed().await;
    })
    .await;
    assert!(
        matches!(answer, Answer::Lost(LostCause::Reset)),
        "{answer:?}"
    );
    assert_eq!(connections, 1);
}

#[tokio::test]
async fn a_deadline_before_the_end_of_the_body_withholds_the_end_of_the_stream() {
    let (go_on, gate) = tokio::sync::oneshot::channel::<()>();
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    let once = std::sync::Mutex::new(Some((gate, ended)));
    let server = Server::start(move |_, mut connection| {
        let (gate, ended) = once.lock().unwrap().take().unwrap();
        async move {
            connection.greet_on_http2().await;
            // The window of a stream (RFC 9113, section 6.9.2) is used up long before the body's end.
            gate.await.unwrap();
            let more = (1_u32 << 30).to_be_bytes();
            connection.send_frame(WINDOW_UPDATE, 0, 0, &more).await;
            connection.send_frame(WINDOW_UPDATE, 0, 1, &more).await;
            let mut whole = false;
            while let Some((kind, flags, ..)) = connection.frame().await {
                whole |= kind == DATA && flags & END_STREAM != 0;
                if kind == RST_STREAM {
                    break;
                }
            }
            ended.send(whole).unwrap();
        }
    })
    .await;
    let client = ProviderClient::new(&server.profile("http = \"2\"")).unwrap();
    let body = format!("\"{}\"", "x".repeat(1024 * 1024));
    let answer = client
        .send(&server.request(&body), BootMoment::after(BRIEF))
        .await;
    assert!(
        matches!(answer, Answer::NotSent(NotSentCause::Withheld)),
        "{answer:?}"
    );
    go_on.send(()).unwrap();
    drop(client);
    assert!(
        !has_ended.await.unwrap(),
        "the server never saw the stream's end"
    );
}

#[tokio::test]
async fn p16_a_close_in_the_middle_of_it_leaves_it_lost() {
    let (answer, _) = ask(|mut connection| async move {
        connection.request_of_http2().await.unwrap();
    })
    .await;
    assert!(matches!(answer, Answer::Lost(_)), "{answer:?}");
}
