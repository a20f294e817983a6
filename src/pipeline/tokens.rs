//! Decides where tokens for Kafka come from: for the service, and for subcommands that ask or publish.

use tokio::runtime::Handle;

use crate::adapters::clock::Clock;
use crate::adapters::kafka::oauth::{TokenEndpoint, TokenSource};
use crate::adapters::provider::{ClientFault, plain_client};
use crate::config::KafkaConfig;

/// The tokens that the configuration asks for. `runtime` must have threads of its own: tokens are waited for on librdkafka's.
///
/// # Errors
///
/// When the system's certificates cannot be read.
pub fn source(kafka: &KafkaConfig, runtime: &Handle) -> Result<TokenSource, ClientFault> {
    let Some(oauth) = &kafka.oauth else {
        return Ok(TokenSource::none());
    };
    let endpoint = TokenEndpoint {
        url: oauth.token_url.clone(),
        client_id: oauth.client_id.clone(),
        client_secret: oauth.client_secret.expose().to_owned(),
        scope: oauth.scope.clone().unwrap_or_default(),
    };
    Ok(TokenSource::new(
        endpoint,
        plain_client()?,
        runtime.clone(),
        Clock::wall,
    ))
}
