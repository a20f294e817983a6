//! When a connection is used again, and that no request is ever handed over twice.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::server::{PATIENT, Server, answer, response};
use crate::adapters::clock::BootMoment;
use crate::adapters::provider::ProviderClient;
use crate::domain::classify::{Answer, LostCause};

fn accepted() -> String {
    answer("201 Created", "", r#"{"id":"m-1"}"#)
}

async fn ask_twice(server: &Server, client: &ProviderClient) {
    for _ in 0..2 {
        let deadline = BootMoment::after(PATIENT);
        let answered = client.send(&server.request("{}"), deadline).await;
        assert_eq!(response(answered).status, 201);
    }
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = Server::answering(accepted()).await;
    ask_twice(&server, &server.client()).await;
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn p14_an_idle_connection_is_left_before_servers_close_it() {
    let server = Server::answering(accepted()).await;
    let mut profile = server.profile("");
    profile.timeouts.pool_idle = std::time::Duration::ZERO;
    ask_twice(&server, &ProviderClient::new(&profile).unwrap()).await;
    assert_eq!(server.seen().connections, 2);
    assert!(server.profile("").timeouts.pool_idle < std::time::Duration::from_secs(5));
}

#[tokio::test]
async fn p21_connections_are_left_at_their_age_so_that_a_new_address_is_found() {
    let server = Server::answering(accepted()).await;
    let mut profile = server.profile("");
    profile.timeouts.pool_age = std::time::Duration::ZERO;
    ask_twice(&server, &ProviderClient::new(&profile).unwrap()).await;
    assert_eq!(
        server.seen().connections,
        2,
        "the age is reached however busy a connection is"
    );
}

#[tokio::test]
async fn p14_a_connection_that_closes_on_the_second_request_leaves_that_one_lost() {
    let server = Server::start(|_, mut connection| async move {
        connection.request().await;
        connection.write(&accepted()).await;
        connection.request().await;
    })
    .await;
    let client = server.client();
    let deadline = BootMoment::after(PATIENT);
    assert_eq!(
        response(client.send(&server.request("1"), deadline).await).status,
        201
    );
    let second = client.send(&server.request("22"), deadline).await;
    assert!(
        matches!(second, Answer::Lost(LostCause::Closed)),
        "{second:?}"
    );
    assert_eq!(
        server.seen().whole.len(),
        2,
        "and is not sent on another connection by itself"
    );
}

/// Servers close idle connections just as requests are written to them. Whatever comes of a request, the server must not
/// have seen it twice, nor at all if it is reported as not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p14_no_request_is_handed_over_twice_while_connections_close_under_it() {
    const CALLERS: usize = 8;
    const EACH: usize = 250;
    let server = Server::start(|number, mut connection| async move {
        // Closes after one to four answers, at once or with a reset, while more requests are on their way.
        for _ in 0..=(number % 4) {
            if connection.request().await.is_none() {
                return;
            }
            if connection
                .stream
                .write_all(accepted().as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
        if number % 3 == 0 {
            connection.reset();
        }
    })
    .await;
    let server = Arc::new(server);
    let client = Arc::new(server.client());
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (server, client) = (Arc::clone(&server), Arc::clone(&client));
        callers.spawn(async move {
            let mut answers = Vec::new();
            for number in 0..EACH {
                let body = format!("\"{caller}-{number}\"");
                let deadline = BootMoment::after(PATIENT);
                let answer = client.send(&server.request(&body), deadline).await;
                answers.push((body, answer));
            }
            answers
        });
    }
    let answers: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
    let mut times: HashMap<String, usize> = HashMap::new();
    for whole in &server.seen().whole {
        let body = whole.rsplit("\r\n").next().unwrap().to_owned();
        *times.entry(body).or_default() += 1;
    }
    let (mut answered, mut lost, mut not_sent) = (0, 0, 0);
    for (body, answer) in &answers {
        let seen = times.get(body).copied().unwrap_or(0);
        match answer {
            Answer::Response(_) => {
                answered += 1;
                assert_eq!(seen, 1, "{body}");
            }
            Answer::Lost(_) => {
                lost += 1;
                assert!(seen <= 1, "{body} was seen {seen} times");
            }
            Answer::NotSent(cause) => {
                not_sent += 1;
                assert_eq!(seen, 0, "{body} was reported as not sent: {cause:?}");
            }
        }
    }
    assert_eq!(answered + lost + not_sent, CALLERS * EACH);
    assert!(answered > 0);
}

#[test]
fn each_runtime_has_connections_of_its_own_and_is_not_hurt_when_another_ends() {
    let [serving, one, other] = [(); 3].map(|()| tokio::runtime::Runtime::new().unwrap());
    let server = serving.block_on(Server::answering(accepted()));
    let client = server.client();
    // A second request may open a second connection: the first one is idle again only a moment after its answer.
    one.block_on(ask_twice(&server, &client));
    let of_one = server.seen().connections;
    other.block_on(ask_twice(&server, &client));
    assert!(server.seen().connections > of_one, "one of its own");
    drop(one);
    other.block_on(ask_twice(&server, &client));
}
