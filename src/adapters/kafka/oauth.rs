//! Fetches tokens for SASL OAUTHBEARER by the client credentials grant (RFC 6749, section 4.4), since librdkafka is built
//! without libcurl.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::client::OAuthToken;
use serde::Deserialize;
use tokio::runtime::Handle;
use url::Url;

use crate::domain::time::Timestamp;

/// Where tokens come from.
#[derive(Clone)]
pub struct TokenEndpoint {
    /// The authorisation server's token endpoint.
    pub url: Url,
    /// The client's id there.
    pub client_id: String,
    /// The client's secret there.
    pub client_secret: String,
    /// The scope to ask for; empty asks for none.
    pub scope: String,
}

/// Fetches a token whenever librdkafka wants a fresh one. Cheap to clone.
#[derive(Clone)]
pub struct TokenSource(Option<Arc<Fetcher>>);

struct Fetcher {
    endpoint: TokenEndpoint,
    http: reqwest::Client,
    runtime: Handle,
    now: fn() -> Timestamp,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<u64>,
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "TokenSource(…)"
        } else {
            "TokenSource(none)"
        })
    }
}

impl TokenSource {
    /// For brokers that want no token.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Fetches over `http` on `runtime`; `now` tells the time.
    pub fn new(
        endpoint: TokenEndpoint,
        http: reqwest::Client,
        runtime: Handle,
        now: fn() -> Timestamp,
    ) -> Self {
        Self(Some(Arc::new(Fetcher {
            endpoint,
            http,
            runtime,
            now,
        })))
    }

    /// A fresh token. Blocks for up to 30 s, on librdkafka's polling thread; never call it from an async task.
    pub fn fetch(&self) -> Result<OAuthToken, Box<dyn Error>> {
        let fetcher = self
            .0
            .as_ref()
            .ok_or("no kafka.oauth.token_url is configured")?;
        fetcher.runtime.block_on(fetcher.ask())
    }
}

impl Fetcher {
    async fn ask(&self) -> Result<OAuthToken, Box<dyn Error>> {
        let TokenEndpoint {
            url,
            client_id,
            client_secret,
            scope,
        } = &self.endpoint;
        let mut form = vec![("grant_type", "client_credentials")];
        if !scope.is_empty() {
            form.push(("scope", scope));
        }
        let answer = self
            .http
            .post(url.clone())
            .basic_auth(client_id, Some(client_secret))
            .timeout(Duration::from_secs(30))
            .form(&form)
            .send()
            .await
            .map_err(reqwest::Error::without_url)?
            .error_for_status()
            .map_err(reqwest::Error::without_url)?;
        let body = answer.bytes().await.map_err(reqwest::Error::without_url)?;
        let granted: Granted = serde_json::from_slice(&body)
            .map_err(|_| "the token endpoint's answer is not a grant")?;
        let life = Duration::from_secs(granted.expires_in.unwrap_or(300));
        let expires = (self.now)().plus(life).as_millis();
        Ok(OAuthToken {
            token: granted.access_token,
            principal_name: client_id.clone(),
            lifetime_ms: expires,
        })
    }
}
