//! Asks loopback listeners, without TLS.

use std::sync::OnceLock;

/// One client for all: connections are pooled.
pub fn client() -> &'static reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        // Another test may have done so.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("a client")
    })
}

/// GET.
pub async fn get(url: String) -> reqwest::Result<reqwest::Response> {
    client().get(url).send().await
}
