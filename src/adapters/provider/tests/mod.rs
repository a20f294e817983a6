//! The client against small servers over real sockets, each written to misbehave in one way.

mod answers;
mod connections;
mod credentials;
mod failures;
mod http2;
pub(in crate::adapters::provider) mod server;
mod tls;
mod tokens;
