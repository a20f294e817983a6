//! Whatever says who sends, a verification sends it; and a token that cannot be had is told from a provider that breaks its word.

use super::{EXECUTE, StubProcess, checks, keyless, verify};
use crate::scripted::{Act, Scripted, answer, refusing};

/// A key that everybody has, and a file with any text.
const RSA: &str = concat!(
    "file:",
    env!("CARGO_MANIFEST_DIR"),
    "/tests/keys/rfc7515_a2.pem"
);
const EC: &str = concat!(
    "file:",
    env!("CARGO_MANIFEST_DIR"),
    "/tests/keys/rfc7515_a3.pem"
);
const TEXT: &str = concat!("file:", env!("CARGO_MANIFEST_DIR"), "/rust-toolchain.toml");

fn with_auth(auth: &str) -> String {
    keyless().replace("[accepted]", &format!("[request.auth]\n{auth}\n[accepted]"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_credentials_can_be_verified_with() {
    let grant = r#"{"access_token":"t-1","expires_in":3600}"#;
    let endpoint = Scripted::playing([Act::Answer(answer("200 OK", "", grant)).not_taking()]).await;
    let url = endpoint.url();
    let kinds = [
        format!(
            "kind = \"hmac\"\nsecret = \"{EC}\"\nsigns = \"{{{{ body }}}}\"\nheaders = {{ X-Mac = \"{{{{ signature }}}}\" }}"
        ),
        format!(
            "kind = \"jwt\"\nalgorithm = \"ES256\"\nsecret = \"{EC}\"\nissuer = \"us\"\nreuse = \"50m\""
        ),
        format!("kind = \"jwt\"\nalgorithm = \"RS512\"\nsecret = \"{RSA}\"\nissuer = \"us\""),
        format!(
            "kind = \"client_assertion\"\ntoken_url = \"{url}/token\"\nclient_id = \"us\"\nalgorithm = \"RS512\"\nsecret = \"{RSA}\""
        ),
        format!(
            "kind = \"jwt_bearer\"\ntoken_url = \"{url}/token\"\nissuer = \"us\"\nsecret = \"{RSA}\""
        ),
    ];
    for auth in &kinds {
        let stub = StubProcess::start(&["--no-keys"]);
        let output = tokio::task::block_in_place(|| verify(&stub, &with_auth(auth), &EXECUTE));
        assert_eq!(output.status.code(), Some(0), "{auth}");
        assert_eq!(checks(&output)["first_send"].0, "holds", "{auth}");
    }
    assert_eq!(endpoint.seen().len(), 2, "one token a run");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_refuses_ends_a_verification_before_anything_is_sent() {
    let endpoint = Scripted::playing([refusing("401 Unauthorized")]).await;
    let auth = format!(
        "kind = \"client_credentials\"\ntoken_url = \"{}/token\"\nclient_id = \"{TEXT}\"\nclient_secret = \"{TEXT}\"",
        endpoint.url()
    );
    let stub = StubProcess::start(&["--no-keys"]);
    let output = tokio::task::block_in_place(|| verify(&stub, &with_auth(&auth), &EXECUTE));
    assert_eq!(output.status.code(), Some(69));
    let (_, observed) = &checks(&output)["first_send"];
    assert!(observed.contains("token_refused"), "{observed}");
    assert_eq!(stub.stats().await["deliveries"], 0);
}
