//! Answers in every state that a response can come in.

use tokio::io::AsyncWriteExt;

use super::server::{BRIEF, PATIENT, Server, answer};
use crate::adapters::provider::RESPONSE_BODY_MAX;
use crate::domain::classify::{Answer, LostCause};

#[tokio::test]
async fn a_request_goes_out_as_it_was_rendered_and_its_answer_comes_back() {
    let server =
        Server::answering(answer("201 Created", "X-Trace: a\r\n", r#"{"id":"m-1"}"#)).await;
    let response = server.ask_for_response(PATIENT).await;
    assert_eq!((response.status, response.body_complete), (201, true));
    assert_eq!(response.body, r#"{"id":"m-1"}"#);
    assert_eq!(response.headers["x-trace"], "a");
    let expected = format!(
        "POST /send HTTP/1.1\r\ncontent-type: application/json\r\naccept: */*\r\nuser-agent: sendonce/{}\r\nhost: {}\r\ncontent-length: 22\r\n\r\n{{\"text\":\"code 482901\"}}",
        env!("CARGO_PKG_VERSION"),
        server.address,
    );
    assert_eq!(server.seen().whole, [expected]);
}

#[tokio::test]
async fn p17_a_redirect_is_an_answer_and_is_not_followed() {
    for (status, location) in [
        ("302 Found", "/login"),
        ("301 Moved Permanently", "/send/"),
        ("307 Temporary Redirect", "/other"),
    ] {
        let server =
            Server::answering(answer(status, &format!("Location: {location}\r\n"), "")).await;
        let response = server.ask_for_response(PATIENT).await;
        assert_eq!(response.headers["location"], location);
        assert!((300..400).contains(&response.status));
        assert_eq!(server.seen().whole.len(), 1, "{status}");
    }
}

#[tokio::test]
async fn p17_early_answers_are_not_the_answer_and_nothing_is_expected() {
    let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let server = Server::answering(format!(
        "{early}{}",
        answer("202 Accepted", "", r#"{"id":"m-1"}"#)
    ))
    .await;
    let response = server.ask_for_response(PATIENT).await;
    assert_eq!(
        (response.status, &*response.body),
        (202, &br#"{"id":"m-1"}"#[..])
    );
    let refused = Server::answering(answer("417 Expectation Failed", "", "")).await;
    assert_eq!(refused.ask_for_response(PATIENT).await.status, 417);
    for server in [server, refused] {
        let whole = server.seen().whole.clone();
        assert_eq!(whole.len(), 1);
        assert!(!whole[0].to_lowercase().contains("expect"));
    }
}

#[tokio::test]
async fn p19_bodies_come_as_they_are() {
    for (status, headers, body) in [
        ("202 Accepted", "", "\u{feff}{\"id\":\"m-1\"}"),
        (
            "202 Accepted",
            "Content-Encoding: gzip\r\n",
            "{\"id\":\"m-1\"}",
        ),
        (
            "502 Bad Gateway",
            "Content-Type: text/html\r\n",
            "<html>502</html>",
        ),
        ("400 Bad Request", "", "<html>400</html>"),
        ("202 Accepted", "", "null"),
    ] {
        let server = Server::answering(answer(status, headers, body)).await;
        let response = server.ask_for_response(PATIENT).await;
        assert_eq!(
            (&*response.body, response.body_complete),
            (body.as_bytes(), true),
            "{status} {body}"
        );
        assert!(
            !server.seen().whole[0]
                .to_lowercase()
                .contains("accept-encoding")
        );
    }
}

#[tokio::test]
async fn p19_a_body_shorter_than_announced_is_not_complete() {
    let server = Server::start(|_, mut connection| async move {
        connection.request().await;
        connection
            .write(&format!(
                "HTTP/1.1 202 Accepted\r\ncontent-length: 400\r\n\r\n{}",
                "x".repeat(120)
            ))
            .await;
    })
    .await;
    let response = server.ask_for_response(PATIENT).await;
    assert_eq!(
        (response.status, response.body.len(), response.body_complete),
        (202, 120, false)
    );
}

#[tokio::test]
async fn p19_an_endless_body_ends_at_the_cap_and_its_connection_is_left() {
    let (left, mut is_left) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(move |_, mut connection| {
        let left = left.clone();
        async move {
            connection.request().await;
            connection
                .write("HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n")
                .await;
            let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
            while connection.stream.write_all(chunk.as_bytes()).await.is_ok() {}
            left.send(()).unwrap();
        }
    })
    .await;
    let client = server.client();
    for _ in 0..2 {
        let deadline = crate::adapters::clock::BootMoment::after(PATIENT);
        let Answer::Response(response) = client.send(&server.request("{}"), deadline).await else {
            panic!("an answer came");
        };
        assert_eq!(
            (response.body.len(), response.body_complete),
            (RESPONSE_BODY_MAX, false)
        );
        is_left.recv().await.unwrap();
    }
    assert_eq!(server.seen().connections, 2);
}

#[tokio::test]
async fn a_body_of_exactly_the_cap_is_complete_and_one_byte_more_is_not() {
    for (len, complete) in [(RESPONSE_BODY_MAX, true), (RESPONSE_BODY_MAX + 1, false)] {
        let server = Server::answering(answer("200 OK", "", &"x".repeat(len))).await;
        let response = server.ask_for_response(PATIENT).await;
        assert_eq!(
            (response.body.len(), response.body_complete),
            (RESPONSE_BODY_MAX, complete)
        );
    }
}

#[tokio::test]
async fn p19_a_body_that_stops_coming_is_cut_at_the_deadline() {
    let server = Server::start(|_, mut connection| async move {
        connection.request().await;
        connection
            .write("HTTP/1.1 202 Accepted\r\ncontent-length: 400\r\n\r\nx")
            .await;
        connection.request().await;
    })
    .await;
    let response = server.ask_for_response(BRIEF).await;
    assert_eq!(
        (response.status, &*response.body, response.body_complete),
        (202, &b"x"[..], false)
    );
}

#[tokio::test]
async fn what_is_no_http_or_too_much_of_it_is_no_answer() {
    for junk in [
        "SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(),
        format!(
            "HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n",
            "x".repeat(2 * 1024 * 1024)
        ),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Many: 1\r\n".repeat(5_000)),
    ] {
        let server = Server::start(move |_, mut connection| {
            let junk = junk.clone();
            async move {
                connection.request().await;
                let _ = connection.stream.write_all(junk.as_bytes()).await;
                connection.request().await;
            }
        })
        .await;
        let answer = server.ask(PATIENT).await;
        assert!(
            matches!(answer, Answer::Lost(LostCause::Protocol)),
            "{answer:?}"
        );
        assert_eq!(server.seen().whole.len(), 1);
    }
}
