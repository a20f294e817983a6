//! The stage on which `demo` and `bench` play: brokers, a provider and instances of `run`, each as a deployment has them.
//!
//! Nothing here reaches into the service: it is started as anyone starts it, by this program's own executable with a
//! configuration file, and watched from outside.

pub mod board;
pub mod broker;
pub mod cast;
pub mod child;
pub mod exposition;
pub mod instance;
pub mod provider;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context;

/// An address on loopback that nobody listens on. It is free when it is looked for, and may be taken before it is used.
///
/// # Errors
///
/// When the system gives none.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    Ok(listener.local_addr()?)
}

/// A client for admin paths on loopback.
///
/// # Errors
///
/// When it cannot be built.
pub fn loopback_client() -> anyhow::Result<reqwest::Client> {
    // The client looks for one even though it speaks plain HTTP only; it is no fault when there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(reqwest::Client::builder()
        .no_proxy()
        .timeout(ANSWER_WITHIN)
        .build()?)
}

/// How long an admin path may take to answer: a busy machine is within it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
