//! Fetches tokens for SASL OAUTHBEARER by the client credentials grant (RFC 6749, section 4.4), since librdkafka is built
//! without libcurl.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use rdkafka::client::OAuthToken;
use tokio::runtime::Handle;
use url::Url;

use crate::domain::time::Timestamp;
use crate::domain::token::{basic_authorization, client_credentials_form, read_grant};

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
        let scope = Some(scope.as_str()).filter(|scope| !scope.is_empty());
        let answer = self
            .http
            .post(url.clone())
            .header(AUTHORIZATION, basic_authorization(client_id, client_secret))
            .timeout(Duration::from_secs(30))
            .form(&client_credentials_form(scope))
            .send()
            .await
            .map_err(reqwest::Error::without_url)?
            .error_for_status()
            .map_err(reqwest::Error::without_url)?;
        let body = answer.bytes().await.map_err(reqwest::Error::without_url)?;
        let granted = read_grant(&body).ok_or("the token endpoint's answer is not a grant")?;
        let expires = (self.now)().plus(granted.life).as_millis();
        Ok(OAuthToken {
            token: granted.access_token,
            principal_name: client_id.clone(),
            lifetime_ms: expires,
        })
    }
}
