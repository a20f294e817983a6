//! Credentials go into their header and nowhere else.

use super::server::{PATIENT, Server, answer};
use crate::adapters::clock::BootMoment;
use crate::adapters::provider::{ClientFault, Connecting, ProviderClient};
use crate::config::secret::References;

fn references() -> References {
    References::new(&[
        ("TOKEN".into(), "s3cret".into()),
        ("USER".into(), "AC1".into()),
        ("COLON".into(), "a:b".into()),
        ("BROKEN".into(), "a\r\nX-Evil: 1".into()),
    ])
}

fn client(server: &Server, auth: &str) -> Result<ProviderClient, ClientFault> {
    let profile = server.profile(&format!("auth = {auth}"));
    ProviderClient::connecting(&profile, &references(), &Connecting::default())
}

#[tokio::test]
async fn each_kind_writes_its_header() {
    for (auth, header) in [
        (
            r#"{ kind = "bearer", secret = "env:TOKEN" }"#,
            "authorization: Bearer s3cret",
        ),
        // RFC 7617, section 2: base64 of AC1:s3cret.
        (
            r#"{ kind = "basic", username = "env:USER", password = "env:TOKEN" }"#,
            "authorization: Basic QUMxOnMzY3JldA==",
        ),
        (
            r#"{ kind = "header", name = "X-Api-Key", secret = "env:TOKEN" }"#,
            "x-api-key: s3cret",
        ),
        (
            r#"{ kind = "header", name = "Authorization", prefix = "App ", secret = "env:TOKEN" }"#,
            "authorization: App s3cret",
        ),
    ] {
        let server = Server::answering(answer("200 OK", "", "")).await;
        let client = client(&server, auth).unwrap();
        client
            .send(&server.request("{}"), BootMoment::after(PATIENT))
            .await;
        let whole = server.seen().whole[0].clone();
        assert!(whole.lines().any(|line| line == header), "{auth}");
        assert_eq!(
            whole.matches("s3cret").count() + whole.matches("OnMzY3JldA").count(),
            1
        );
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_or_sent_is_told_by_its_place_and_not_shown() {
    let server = Server::answering("").await;
    for (auth, fault) in [
        (
            r#"{ kind = "bearer", secret = "env:ABSENT" }"#,
            "request.auth.secret: the environment variable ABSENT is not set",
        ),
        (
            r#"{ kind = "bearer", secret = "env:BROKEN" }"#,
            "request.auth.secret: the secret cannot stand in a header",
        ),
        (
            r#"{ kind = "basic", username = "env:COLON", password = "env:TOKEN" }"#,
            "request.auth.username: the secret cannot stand in a header",
        ),
    ] {
        let refused = client(&server, auth).err().unwrap();
        assert_eq!(refused.to_string(), fault);
    }
}
