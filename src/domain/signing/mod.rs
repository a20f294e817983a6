//! Decides what of a request is signed, and how the signature is written. It signs what is sent: the final URL, headers and
//! body. Nothing that it makes is part of a request's fingerprint, so that a retry may be signed anew.

pub mod aws;
pub mod jwt;
pub mod mac;

use std::fmt::Write as _;

use http::{HeaderMap, Method};
use url::Url;

/// A request as it is about to leave, but for what says who sends it.
#[derive(Clone, Copy)]
pub struct Outgoing<'a> {
    /// The method.
    pub method: &'a Method,
    /// Where it goes.
    pub url: &'a Url,
    /// Every header that is not set by the connection.
    pub headers: &'a HeaderMap,
    /// The body.
    pub body: &'a [u8],
}

impl Outgoing<'_> {
    /// The `Host` header as the connection writes it: with the port unless it is the scheme's own.
    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }
}

/// `bytes` in lower hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
