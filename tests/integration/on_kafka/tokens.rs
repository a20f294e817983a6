//! SASL OAUTHBEARER: the product fetches its own tokens, and every one of its clients gets in by one.
//!
//! The broker takes unsecured tokens (RFC 7519, section 6), as only a test may.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::kafka_cluster::{CONTROLLER_PORT, Cluster, PORT, SPARE_PORT, Size, private};
use crate::product::{Home, SOON, Setup, code, sms};
use crate::stub::Stub;
use crate::waiting::until;

/// A broker with one more listener that lets in by token alone.
fn cluster() -> Option<Cluster> {
    let listeners = format!(
        "PLAINTEXT://127.0.0.1:{PORT},CONTROLLER://127.0.0.1:{CONTROLLER_PORT},TOKEN://127.0.0.1:{SPARE_PORT}"
    );
    let advertised = format!("PLAINTEXT://127.0.0.1:{PORT},TOKEN://127.0.0.1:{SPARE_PORT}");
    let module = "org.apache.kafka.common.security.oauthbearer";
    private(
        Size::One,
        &[
            ("listeners", &listeners),
            ("advertised.listeners", &advertised),
            (
                "listener.security.protocol.map",
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TOKEN:SASL_PLAINTEXT",
            ),
            ("listener.name.token.sasl.enabled.mechanisms", "OAUTHBEARER"),
            (
                "listener.name.token.oauthbearer.sasl.jaas.config",
                &format!("{module}.OAuthBearerLoginModule required;"),
            ),
            (
                "listener.name.token.oauthbearer.sasl.server.callback.handler.class",
                &format!(
                    "{module}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
                ),
            ),
        ],
    )
}

/// Grants a token to whoever comes with the credentials; returns its address.
async fn token_endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(grant(connection));
        }
    });
    format!("http://{address}/token")
}

async fn grant(mut connection: TcpStream) {
    let mut asked = String::new();
    let mut part = [0; 1024];
    while !asked.contains("grant_type=client_credentials") {
        let Ok(read @ 1..) = connection.read(&mut part).await else {
            return;
        };
        asked.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    // me:shh
    let known = asked
        .to_ascii_lowercase()
        .contains("authorization: basic bwu6c2ho");
    let body = if known { granted() } else { "{}".to_owned() };
    let answer = format!(
        "HTTP/1.1 {} \r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        if known { 200 } else { 401 },
        body.len(),
    );
    let _ = connection.write_all(answer.as_bytes()).await;
}

fn granted() -> String {
    let now = jiff::Timestamp::now().as_second();
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let claims = serde_json::json!({"sub": "me", "iat": now, "exp": now + 300});
    let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
    serde_json::json!({"access_token": format!("{header}.{claims}."), "expires_in": 300})
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn check_publish_and_run_get_in_by_tokens_of_their_own() {
    let Some(cluster) = cluster() else { return };
    cluster
        .create_topics(&[("send-intents", 2), ("send-intents.dlq", 2)])
        .await;
    let stub = Stub::with(&[]).await;
    let mut setup = Setup::new(&cluster, &stub.url())
        .set("KAFKA__OAUTH__TOKEN_URL", &token_endpoint().await)
        .set("KAFKA__OAUTH__CLIENT_ID", "me")
        .set("KAFKA__OAUTH__CLIENT_SECRET", "env:TEST_CLIENT_SECRET")
        .set("KAFKA__PROPERTIES__SECURITY_PROTOCOL", "sasl_plaintext")
        .set("KAFKA__PROPERTIES__SASL_MECHANISM", "OAUTHBEARER");
    setup.bootstrap = cluster.spare().to_owned();
    setup
        .environment
        .push(("TEST_CLIENT_SECRET".to_owned(), "shh".to_owned()));
    let home = Home::new(&setup);

    let typed = |words: &[&str]| {
        let mut command = home.command(&setup);
        command.args(words);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let checked = typed(&["check", "--connect"]).await.unwrap();
    let told = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{told}");
    assert!(told.contains("1 at"), "{told}");

    let intents = home.path("intents.ndjson");
    std::fs::write(&intents, sms("e-1", "one").to_string()).unwrap();
    let published = typed(&["publish", intents.to_str().unwrap()])
        .await
        .unwrap();
    assert_eq!(code(published.status), 0);

    let mut worker = home.start(&setup);
    let deliveries = async || stub.stats().await.deliveries;
    until("the message to be delivered", SOON, deliveries, |count| {
        *count == 1
    })
    .await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);
}
