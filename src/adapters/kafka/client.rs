//! What all clients of librdkafka share: how their properties are put together and how they talk to the log.

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

/// Hands librdkafka's own words to the log, each under the client that said them.
#[derive(Clone, Copy, Debug)]
pub struct Talk {
    client: &'static str,
}

impl Talk {
    /// For the client of this name.
    pub const fn new(client: &'static str) -> Self {
        Self { client }
    }

    /// One line of librdkafka's log.
    pub fn log(self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let client = self.client;
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => {
                tracing::error!(target: "librdkafka", client, facility, "{message}");
            }
            RDKafkaLogLevel::Warning => {
                tracing::warn!(target: "librdkafka", client, facility, "{message}");
            }
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", client, facility, "{message}");
            }
            RDKafkaLogLevel::Debug => {
                tracing::debug!(target: "librdkafka", client, facility, "{message}");
            }
        }
    }

    /// An error that librdkafka reports outside of any call.
    pub fn error(self, error: &KafkaError, reason: &str) {
        tracing::warn!(target: "librdkafka", client = self.client, %error, "{reason}");
    }
}
