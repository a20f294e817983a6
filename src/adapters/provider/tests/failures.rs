//! What a failed exchange proves: nothing was sent, or nothing at all.

use std::net::SocketAddr;
use std::time::Duration;

use super::server::{BRIEF, PATIENT, Server, profile, request};
use crate::adapters::clock::BootMoment;
use crate::adapters::provider::ProviderClient;
use crate::domain::classify::{Answer, LostCause, NotSentCause};

fn assert_lost(answer: &Answer, cause: LostCause) {
    assert!(
        matches!(answer, Answer::Lost(known) if *known == cause),
        "{answer:?} instead of {cause:?}"
    );
}

fn assert_not_sent(answer: &Answer, cause: NotSentCause) {
    assert!(
        matches!(answer, Answer::NotSent(known) if *known == cause),
        "{answer:?} instead of {cause:?}"
    );
}

async fn ask_at(origin: &str, patience: Duration) -> Answer {
    let client = ProviderClient::new(&profile(origin, "")).unwrap();
    client
        .send(
            &request(&format!("{origin}/send"), "{}"),
            BootMoment::after(patience),
        )
        .await
}

#[tokio::test]
async fn p01_a_server_that_reads_and_hangs_leaves_it_lost_at_the_deadline() {
    let (left, mut is_left) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(move |_, mut connection| {
        let left = left.clone();
        async move {
            connection.request().await;
            assert_eq!(connection.request().await, None);
            left.send(()).unwrap();
        }
    })
    .await;
    assert_lost(&server.ask(BRIEF).await, LostCause::ReadTimeout);
    is_left.recv().await.unwrap();
    let seen = server.seen();
    assert_eq!((seen.whole.len(), seen.parts.len()), (1, 0));
}

#[tokio::test]
async fn a_sender_that_hangs_up_has_sent_the_whole_request_and_closes_its_connection() {
    let (left, mut is_left) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(move |_, mut connection| {
        let left = left.clone();
        async move {
            connection.request().await;
            assert_eq!(connection.request().await, None);
            left.send(()).unwrap();
        }
    })
    .await;
    for body in ["{}".to_owned(), "x".repeat(40_000)] {
        let client = server.client();
        let request = server.request(&body);
        let deadline = BootMoment::after(PATIENT);
        let answer = client
            .send_and_hang_up(&request, deadline, Duration::ZERO)
            .await;
        assert!(answer.is_none(), "{answer:?}");
        is_left.recv().await.unwrap();
    }
    let seen = server.seen();
    assert_eq!((seen.whole.len(), seen.parts.len()), (2, 0));
}

#[tokio::test]
async fn who_hangs_up_later_than_the_answer_gets_it_and_who_was_never_heard_learns_it() {
    let server = Server::answering("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
    let hang_up = async |origin: &str| {
        let client = ProviderClient::new(&profile(origin, "")).unwrap();
        let request = request(&format!("{origin}/send"), "{}");
        client
            .send_and_hang_up(&request, BootMoment::after(PATIENT), PATIENT)
            .await
            .unwrap()
    };
    let answer = hang_up(&format!("http://{}", server.address)).await;
    assert!(matches!(answer, Answer::Response(response) if response.status == 202));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    assert_not_sent(&hang_up(&origin).await, NotSentCause::ConnectRefused);
}

#[tokio::test]
async fn a_head_that_stops_coming_leaves_it_lost_at_the_deadline() {
    let server = Server::start(|_, mut connection| async move {
        connection.request().await;
        connection.write("HTTP/1.1 202 Acc").await;
        connection.request().await;
    })
    .await;
    assert_lost(&server.ask(BRIEF).await, LostCause::ReadTimeout);
}

#[tokio::test]
async fn p14_a_reset_or_a_close_after_reading_leaves_it_lost() {
    let server = Server::start(|_, mut connection| async move {
        connection.request().await;
        connection.reset();
    })
    .await;
    assert_lost(&server.ask(PATIENT).await, LostCause::Reset);
    let server = Server::start(|_, mut connection| async move {
        connection.request().await;
    })
    .await;
    assert_lost(&server.ask(PATIENT).await, LostCause::Closed);
    assert_eq!(server.seen().whole.len(), 1, "nothing is asked twice");
}

#[tokio::test]
async fn p14_a_reset_before_reading_is_never_taken_for_proof_that_it_was_read() {
    let server = Server::start(|_, connection| async move { connection.reset() }).await;
    let answer = server.ask(PATIENT).await;
    // By then the last byte may have been handed to the kernel, or not: both answers are true of what they say.
    let honest = matches!(
        answer,
        Answer::Lost(LostCause::Reset | LostCause::Closed)
            | Answer::NotSent(NotSentCause::CutShort)
    );
    assert!(honest, "{answer:?}");
    assert_eq!(server.seen().connections, 1, "nothing is asked twice");
}

#[tokio::test]
async fn p21_a_closed_port_is_not_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    assert_not_sent(
        &ask_at(&format!("http://{address}"), PATIENT).await,
        NotSentCause::ConnectRefused,
    );
}

#[tokio::test]
async fn p21_a_name_without_an_address_is_not_sent() {
    let answer = ask_at("http://provider.invalid", PATIENT).await;
    assert_not_sent(&answer, NotSentCause::Dns);
}

/// A port whose queue of connections is full, so that no handshake ends; and what keeps it full.
async fn full_port() -> (SocketAddr, socket2::Socket, Vec<tokio::net::TcpStream>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connected) =
        tokio::time::timeout(BRIEF, tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(connected.unwrap());
    }
    (address, socket, waiting)
}

#[tokio::test]
async fn p21_a_host_that_does_not_answer_the_handshake_is_not_sent() {
    let (address, _socket, _waiting) = full_port().await;
    let origin = format!("http://{address}");
    let client = ProviderClient::new(&profile(&origin, "[timeouts]\nconnect = \"200ms\"")).unwrap();
    let request = request(&format!("{origin}/send"), "{}");
    let answer = client.send(&request, BootMoment::after(PATIENT)).await;
    assert_not_sent(&answer, NotSentCause::ConnectTimeout);
    // A deadline before the end of the connect timeout: nothing was sent either.
    let answer = client
        .send(&request, BootMoment::after(Duration::from_millis(50)))
        .await;
    assert_not_sent(&answer, NotSentCause::Withheld);
}

#[tokio::test]
async fn a_deadline_that_has_passed_lets_nothing_out() {
    let server = Server::answering("").await;
    assert_not_sent(&server.ask(Duration::ZERO).await, NotSentCause::Withheld);
    assert_eq!(server.seen().connections, 0);
}

#[tokio::test]
async fn a_deadline_before_the_end_of_the_body_withholds_the_end() {
    let (go_on, gate) = tokio::sync::oneshot::channel::<()>();
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    let once = std::sync::Mutex::new(Some((gate, ended)));
    let server = Server::start(move |_, mut connection| {
        let (gate, ended) = once.lock().unwrap().take().unwrap();
        async move {
            // Reads nothing until the client has given up, and everything afterwards.
            gate.await.unwrap();
            ended.send(connection.request().await.is_some()).unwrap();
        }
    })
    .await;
    // More than the kernel's buffers on both sides hold.
    let body = format!("\"{}\"", "x".repeat(32 * 1024 * 1024));
    let answer = server
        .client()
        .send(&server.request(&body), BootMoment::after(BRIEF))
        .await;
    assert_not_sent(&answer, NotSentCause::Withheld);
    go_on.send(()).unwrap();
    assert!(
        !has_ended.await.unwrap(),
        "the server never saw a whole request"
    );
    let seen = server.seen();
    assert!(seen.whole.is_empty());
    assert!(seen.parts[0].starts_with(b"POST "));
    assert!(
        seen.parts[0].len() < body.len(),
        "what had not reached the kernel is dropped with the request"
    );
}

#[tokio::test]
async fn a_request_whose_sender_is_gone_never_ends() {
    let (reached, is_reached) = tokio::sync::oneshot::channel();
    let (go_on, gate) = tokio::sync::oneshot::channel::<()>();
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    let once = std::sync::Mutex::new(Some((reached, gate, ended)));
    let server = Server::start(move |_, mut connection| {
        let (reached, gate, ended) = once.lock().unwrap().take().unwrap();
        async move {
            connection.stream.readable().await.unwrap();
            reached.send(()).unwrap();
            gate.await.unwrap();
            ended.send(connection.request().await.is_some()).unwrap();
        }
    })
    .await;
    let client = server.client();
    let body = format!("\"{}\"", "x".repeat(32 * 1024 * 1024));
    let request = server.request(&body);
    tokio::select! {
        answer = client.send(&request, BootMoment::after(PATIENT)) => panic!("{answer:?}"),
        reached = is_reached => reached.unwrap(),
    }
    go_on.send(()).unwrap();
    assert!(
        !has_ended.await.unwrap(),
        "the server never saw a whole request"
    );
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_last_byte_left_is_not_sent() {
    let server = Server::start(|_, connection| async move {
        let mut some = vec![0; 64 * 1024];
        connection.stream.readable().await.unwrap();
        connection.stream.try_read(&mut some).unwrap();
        connection.reset();
    })
    .await;
    let body = format!("\"{}\"", "x".repeat(32 * 1024 * 1024));
    let answer = server
        .client()
        .send(&server.request(&body), BootMoment::after(PATIENT))
        .await;
    assert_not_sent(&answer, NotSentCause::CutShort);
}

#[tokio::test]
async fn a_request_without_a_body_is_lost_once_its_head_may_have_left() {
    let server = Server::start(|_, mut connection| async move {
        connection.request().await;
        connection.request().await;
    })
    .await;
    let answer = server
        .client()
        .send(&server.request(""), BootMoment::after(BRIEF))
        .await;
    assert_lost(&answer, LostCause::ReadTimeout);
    assert!(server.seen().whole[0].starts_with("POST"));
}

#[tokio::test]
async fn p53_no_failure_says_where_it_was_going() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for origin in [
        format!("http://{address}"),
        "http://provider.invalid".to_owned(),
    ] {
        let client = ProviderClient::new(&profile(&origin, "")).unwrap();
        let url = format!("{origin}/token-s3cret/send?to=%2B447700900123");
        let answer = client
            .send(&request(&url, "code 123456"), BootMoment::after(PATIENT))
            .await;
        let shown = format!("{answer:?}");
        assert!(
            !["s3cret", "447700900123", "123456"]
                .iter()
                .any(|part| shown.contains(part)),
            "{shown}"
        );
    }
}
