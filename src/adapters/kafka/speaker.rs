//! What librdkafka calls back into for clients that are no member of a group: its log, and the tokens it needs.

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;

use super::client::Talk;
use super::oauth::TokenSource;

/// Speaks for one client.
#[derive(Clone)]
pub struct Speaker {
    talk: Talk,
    tokens: TokenSource,
}

impl Speaker {
    /// For the client of this name.
    pub const fn new(client: &'static str, tokens: TokenSource) -> Self {
        Self {
            talk: Talk::new(client),
            tokens,
        }
    }
}

impl ClientContext for Speaker {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.talk.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.talk.error(&error, reason);
    }

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.tokens.fetch()
    }
}

impl ConsumerContext for Speaker {}
