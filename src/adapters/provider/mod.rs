//! Carries requests to a provider over HTTP, once each, and brings back what came of them. It decides nothing about an
//! intent: it knows no retries, follows no redirects, and asks no proxy that nobody named.
//!
//! What it answers for: a request that is reported as not sent was not sent. Its last byte leaves only while the deadline
//! has not passed, and never after the request was given up.

mod body;
mod credentials;
mod failure;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustls::ClientConfig;
use thiserror::Error;
use tokio::runtime::{self, Handle};
use url::Url;

pub use self::credentials::Unready;
pub use self::tls::TlsFault;

use self::body::{Delivery, WithheldBody};
use self::credentials::Credentials;
use crate::adapters::clock::{BootMoment, Clock};
use crate::config::secret::{References, Unresolved};
use crate::domain::classify::{Answer, NotSentCause, Response};
use crate::domain::profile::{HttpVersion, Profile, Timeouts};
use crate::domain::render::RenderedRequest;

/// The most that is read of a response's body, in bytes. What is longer is cut, and its connection is not used again.
pub const RESPONSE_BODY_MAX: usize = 64 * 1024;

/// One provider's connections and credentials.
pub struct ProviderClient {
    credentials: Credentials,
    timeouts: Timeouts,
    version: HttpVersion,
    proxy: Option<Url>,
    tls: ClientConfig,
    /// One for each runtime that sends: a connection is served where it was opened, and must not be waited for elsewhere.
    pools: RwLock<HashMap<runtime::Id, Pool>>,
    /// What sends where no other client can be built.
    first: reqwest::Client,
}

/// Connections that are all younger than the age at which they are left.
struct Pool {
    client: reqwest::Client,
    until: BootMoment,
}

/// What an installation adds to a profile's way of connecting.
#[derive(Clone, Debug, Default)]
pub struct Connecting {
    /// Certificate authorities to believe beside the system's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// A proxy for every request. Without one, requests go straight: the environment's `HTTPS_PROXY` is not looked at, as
    /// it would put another server between us and the answer without anybody's asking. What a proxy says of a request in
    /// the clear cannot be told from what the provider says.
    pub proxy: Option<Url>,
}

/// Why there can be no client.
#[derive(Debug, Error)]
pub enum ClientFault {
    /// A secret cannot be read.
    #[error("request.auth.{0}: {1}")]
    Secret(String, Unresolved),
    /// A secret is not what it has to be there. What it is instead is not told.
    #[error("request.auth.{0}: {1}")]
    NotSuch(&'static str, &'static str),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsFault),
    /// The HTTP client cannot be built. The error holds no secret: nothing of a request is in it.
    #[error("no HTTP client: {0}")]
    Http(reqwest::Error),
}

impl ProviderClient {
    /// A client for `profile`, its secrets read from this process's environment and files.
    ///
    /// # Errors
    ///
    /// If a secret cannot be read or sent, or the system cannot do TLS.
    pub fn new(profile: &Profile) -> Result<Self, ClientFault> {
        Self::connecting(profile, &References::of_process(), &Connecting::default())
    }

    /// A client for `profile` with its secrets from `references`.
    ///
    /// # Errors
    ///
    /// If a secret cannot be read or sent, a file of certificate authorities cannot be read, or the system has none.
    pub fn connecting(
        profile: &Profile,
        references: &References,
        connecting: &Connecting,
    ) -> Result<Self, ClientFault> {
        let version = profile.request.version;
        let alpn: &[&str] = match version {
            HttpVersion::One => &["http/1.1"],
            HttpVersion::Two => &["h2"],
        };
        let encrypted = profile.request.is_encrypted();
        let tls = tls::client_config(encrypted, connecting.ca_file.as_deref(), alpn)?;
        let (timeouts, proxy) = (profile.timeouts, connecting.proxy.clone());
        let credentials = Credentials::open(profile, references, connecting)?;
        let first = Pool::open(&timeouts, version, proxy.as_ref(), tls.clone())
            .map_err(ClientFault::Http)?;
        Ok(Self {
            credentials,
            timeouts,
            version,
            proxy,
            tls,
            pools: RwLock::default(),
            first: first.client,
        })
    }

    /// Has ready what a request says who sends it with: a token, where it needs one, is fetched now, so that no attempt has to
    /// wait for it. What follows it sends at once.
    ///
    /// # Errors
    ///
    /// There is no token. Nothing was sent.
    pub async fn make_ready(&self) -> Result<(), Unready> {
        self.credentials.make_ready(Clock::wall()).await
    }

    /// Sends `request` once. Whatever comes of it is an answer, at the latest at `deadline` on the boot clock. If the
    /// future is dropped, nobody knows what came of it, but what had not left by then never will.
    pub async fn send(&self, request: &RenderedRequest, deadline: BootMoment) -> Answer {
        let delivery = Delivery::new(&request.body, deadline);
        self.carry(request, deadline, &delivery).await
    }

    /// Sends `request` once and closes its connection `pause` after the last byte of the body was handed over, as a client
    /// does that dies while it waits. `None` if that came first; what had come by then, an answer or a failure, otherwise.
    ///
    /// A request without a body cannot be watched: it is cut `pause` from now, sent or not.
    pub async fn send_and_hang_up(
        &self,
        request: &RenderedRequest,
        deadline: BootMoment,
        pause: Duration,
    ) -> Option<Answer> {
        let delivery = Delivery::new(&request.body, deadline);
        let cut = async {
            delivery.handed_over().await;
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        };
        // The cut goes last: an answer that is there already is no lost one.
        tokio::select! {
            biased;
            answer = self.carry(request, deadline, &delivery) => Some(answer),
            () = cut => None,
        }
    }

    async fn carry(
        &self,
        request: &RenderedRequest,
        deadline: BootMoment,
        delivery: &Arc<Delivery>,
    ) -> Answer {
        if deadline.has_passed() {
            return Answer::NotSent(NotSentCause::Withheld);
        }
        let mut outgoing = reqwest::Request::new(request.method.clone(), request.url.clone());
        *outgoing.headers_mut() = request.headers.clone();
        let signing = self
            .credentials
            .put_into(&mut outgoing, &request.body, Clock::wall());
        let token = match tokio::time::timeout(deadline.remaining(), signing).await {
            Ok(Ok(token)) => token,
            Ok(Err(cause)) => return Answer::NotSent(cause),
            Err(_) => return Answer::NotSent(NotSentCause::TokenUnavailable),
        };
        if !request.body.is_empty() {
            let body = WithheldBody::new(request.body.clone(), Arc::clone(delivery));
            *outgoing.body_mut() = Some(reqwest::Body::wrap(body));
        }
        let _given_up_at_the_end = GivenUpAtTheEnd(delivery);
        let answered = self.client().execute(outgoing);
        match tokio::time::timeout(deadline.remaining(), answered).await {
            Ok(Ok(response)) => {
                if let Some(token) = &token {
                    self.credentials.answered(token, response.status().as_u16());
                }
                Answer::Response(received(response, deadline).await)
            }
            Ok(Err(error)) => failure::answer_to(&error, delivery),
            Err(_) => failure::answer_to_deadline(delivery),
        }
    }

    /// The connections in use here; a new lot once these are too old, so that a changed address is found.
    fn client(&self) -> reqwest::Client {
        let here = Handle::current().id();
        let in_use = |pools: &HashMap<runtime::Id, Pool>| {
            let pool = pools.get(&here)?;
            (!pool.until.has_passed()).then(|| pool.client.clone())
        };
        let found = in_use(&self.pools.read().unwrap_or_else(PoisonError::into_inner));
        if let Some(client) = found {
            return client;
        }
        let mut pools = self.pools.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = in_use(&pools) {
            return client;
        }
        let (version, proxy, tls) = (self.version, self.proxy.as_ref(), self.tls.clone());
        // One has been built before from the same parts; its connections are better than none.
        let opened = Pool::open(&self.timeouts, version, proxy, tls).unwrap_or_else(|_| Pool {
            client: self.first.clone(),
            until: BootMoment::after(self.timeouts.pool_age),
        });
        let client = opened.client.clone();
        pools.insert(here, opened);
        client
    }
}

/// Sees to it that a request ends with its sender's interest in it.
struct GivenUpAtTheEnd<'a>(&'a Delivery);

impl Drop for GivenUpAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Pool {
    fn open(
        timeouts: &Timeouts,
        version: HttpVersion,
        proxy: Option<&Url>,
        tls: ClientConfig,
    ) -> reqwest::Result<Self> {
        let mut builder = plain_builder(tls)
            .connect_timeout(timeouts.connect)
            .pool_idle_timeout(timeouts.pool_idle)
            .tcp_user_timeout(timeouts.unacknowledged);
        if let Some(proxy) = proxy {
            builder = builder.proxy(reqwest::Proxy::all(proxy.clone())?);
        }
        let client = match version {
            HttpVersion::One => builder.http1_only(),
            HttpVersion::Two => builder.http2_prior_knowledge(),
        }
        .build()?;
        Ok(Self {
            client,
            until: BootMoment::after(timeouts.pool_age),
        })
    }
}

/// An HTTP client for what is no message, such as fetching a token: it too retries nothing and follows no redirect.
///
/// # Errors
///
/// If the system cannot do TLS.
pub fn plain_client() -> Result<reqwest::Client, ClientFault> {
    plain_client_with(true, None, None)
}

fn plain_client_with(
    encrypted: bool,
    ca_file: Option<&Path>,
    proxy: Option<&Url>,
) -> Result<reqwest::Client, ClientFault> {
    let tls = tls::client_config(encrypted, ca_file, &["http/1.1"])?;
    let mut builder = plain_builder(tls)
        .http1_only()
        .connect_timeout(Duration::from_secs(5))
        .timeout(Duration::from_secs(15));
    if let Some(proxy) = proxy {
        let proxy = reqwest::Proxy::all(proxy.clone()).map_err(ClientFault::Http)?;
        builder = builder.proxy(proxy);
    }
    builder.build().map_err(ClientFault::Http)
}

fn plain_builder(tls: ClientConfig) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .user_agent(concat!("sendonce/", env!("CARGO_PKG_VERSION")))
}

/// Reads a response up to the cap and the deadline.
async fn received(mut response: reqwest::Response, deadline: BootMoment) -> Response {
    let status = response.status().as_u16();
    let headers = std::mem::take(response.headers_mut());
    let mut read = Reading::default();
    let reading = async {
        while let Some(chunk) = response.chunk().await.ok()? {
            if !read.take(chunk) {
                return None;
            }
        }
        Some(())
    };
    let ended = tokio::time::timeout(deadline.remaining(), reading).await;
    Response {
        status,
        headers,
        body_complete: matches!(ended, Ok(Some(()))),
        body: read.into_body(),
    }
}

/// What has been read so far. A body of one chunk, the usual case, is not copied.
#[derive(Default)]
struct Reading {
    only: Option<Bytes>,
    several: BytesMut,
}

impl Reading {
    /// Takes a chunk; false if it is over the cap, and then only as much of it as fits.
    fn take(&mut self, mut chunk: Bytes) -> bool {
        let held = self.only.as_ref().map_or(self.several.len(), Bytes::len);
        let room = RESPONSE_BODY_MAX.saturating_sub(held);
        let fits = chunk.len() <= room;
        chunk.truncate(room);
        match self.only.take() {
            None if self.several.is_empty() => self.only = Some(chunk),
            None => self.several.extend_from_slice(&chunk),
            Some(first) => {
                self.several.extend_from_slice(&first);
                self.several.extend_from_slice(&chunk);
            }
        }
        fits
    }

    fn into_body(self) -> Bytes {
        self.only.unwrap_or_else(|| self.several.freeze())
    }
}
