//! That each toxic does to a connection what the suites rely on.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::toxiproxy::{Direction, Proxy, Toxic, Toxiproxy};

/// Reads four bytes of every connection and answers with the same four; `heard` counts them.
async fn echo() -> (SocketAddr, tokio::sync::watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (heard, hears) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            let heard = heard.clone();
            tokio::spawn(async move {
                let mut word = [0; 4];
                while peer.read_exact(&mut word).await.is_ok() {
                    heard.send_modify(|count| *count += 1);
                    if peer.write_all(&word).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, hears)
}

/// Sends a word and reads the answer to its end or four bytes.
async fn call(proxy: &Proxy<'_>) -> std::io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(proxy.address()).await?;
    connection.write_all(b"ping").await?;
    let mut answer = Vec::new();
    connection.take(4).read_to_end(&mut answer).await?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_toxic_on_the_answer_lets_the_request_arrive() {
    let Some(toxiproxy) = Toxiproxy::start().await else {
        return;
    };
    let (server, mut heard) = echo().await;
    let proxy = toxiproxy.proxy("answers", server).await;
    assert_eq!(call(&proxy).await.expect("an answer"), b"ping");

    proxy.add(Direction::Downstream, Toxic::Reset).await;
    let why = call(&proxy).await.expect_err("a reset");
    assert_eq!(why.kind(), ErrorKind::ConnectionReset);
    heard.wait_for(|count| *count == 2).await.expect("a server");
    proxy.heal().await;

    proxy
        .add(Direction::Downstream, Toxic::CloseAfter { bytes: 2 })
        .await;
    assert_eq!(call(&proxy).await.expect("half an answer"), b"pi");
    heard.wait_for(|count| *count == 3).await.expect("a server");
    proxy.heal().await;

    proxy.add(Direction::Downstream, Toxic::Hang).await;
    let hanging = tokio::time::timeout(Duration::from_millis(500), call(&proxy)).await;
    assert!(hanging.is_err(), "an answer came: {hanging:?}");
    heard.wait_for(|count| *count == 4).await.expect("a server");
    proxy.heal().await;

    let late = Duration::from_millis(300);
    proxy
        .add(Direction::Downstream, Toxic::Late { by: late })
        .await;
    let asked = tokio::time::Instant::now();
    assert_eq!(call(&proxy).await.expect("an answer"), b"ping");
    assert!(asked.elapsed() >= late);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_toxic_on_the_request_keeps_it_from_the_server() {
    let Some(toxiproxy) = Toxiproxy::start().await else {
        return;
    };
    let (server, heard) = echo().await;
    let proxy = toxiproxy.proxy("requests", server).await;

    proxy.add(Direction::Upstream, Toxic::Hang).await;
    let hanging = tokio::time::timeout(Duration::from_millis(500), call(&proxy)).await;
    assert!(hanging.is_err(), "an answer came: {hanging:?}");

    proxy.close().await;
    let why = call(&proxy).await.expect_err("no port");
    assert_eq!(why.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(*heard.borrow(), 0);

    proxy.heal().await;
    proxy.open().await;
    assert_eq!(call(&proxy).await.expect("an answer"), b"ping");
    assert_eq!(*heard.borrow(), 1);
}
