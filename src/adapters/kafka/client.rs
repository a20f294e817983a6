//! What all clients of librdkafka share: how their properties are put together and how they talk to the log.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use super::sides::Side;
use crate::config::KafkaConfig;

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

/// The settings of the group's member: what we need, under what the operator set.
///
/// Prefetching is bounded for all partitions together: the default of 64 MiB and 100,000 records a partition is more
/// than an instance may use.
pub fn consumer(config: &KafkaConfig) -> ClientConfig {
    let mut client = addressed(config);
    client
        .set("group.id", &config.group)
        .set("auto.offset.reset", "earliest")
        .set("fetch.message.max.bytes", "262144")
        .set("fetch.wait.max.ms", "100")
        .set("queued.min.messages", "4000")
        .set("queued.max.messages.kbytes", "16384")
        // How long a partition rests once the queue has reached its limits: the default of a second would leave the
        // workers idle, as they empty so small a queue in a quarter of that.
        .set("fetch.queue.backoff.ms", "20")
        .set("topic.metadata.refresh.interval.ms", "30000");
    if let Some(id) = &config.group_instance_id {
        client.set("group.instance.id", id);
    }
    if !config.properties.is_group_run_by_broker() {
        client.set("partition.assignment.strategy", "cooperative-sticky");
    }
    overlaid(client, config, &[Side::Consumer])
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .to_owned()
}

/// The settings of the producer of dead letters. `record_bytes_max` is the largest record that it may have to write.
///
/// Batches are small: a broker's limit is on the batch, so letters that each fit would be refused for being together.
pub fn producer(config: &KafkaConfig, record_bytes_max: usize) -> ClientConfig {
    let mut client = addressed(config);
    client
        .set("partitioner", "murmur2_random")
        .set("linger.ms", "5")
        .set("batch.size", "16384")
        .set("message.timeout.ms", "30000")
        .set("message.max.bytes", record_bytes_max.to_string());
    overlaid(client, config, &[Side::Producer])
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .to_owned()
}

/// The settings of the producer of the ledger topic. Every attempt waits for it: what has gathered within a few milliseconds
/// goes together.
pub fn ledger_appender(config: &KafkaConfig) -> ClientConfig {
    let mut client = addressed(config);
    client
        .set("linger.ms", "2")
        .set("compression.type", "zstd")
        .set("message.timeout.ms", "30000");
    overlaid(client, config, &[Side::Producer])
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .to_owned()
}

/// The settings of the reader of the ledger topic. It joins no group; the binding wants a name for one all the same.
pub fn ledger_reader(config: &KafkaConfig) -> ClientConfig {
    let mut client = addressed(config);
    client
        .set("group.id", &config.group)
        .set("fetch.wait.max.ms", "100")
        .set("queued.min.messages", "20000")
        .set("queued.max.messages.kbytes", "16384")
        .set("fetch.queue.backoff.ms", "20");
    overlaid(client, config, &[Side::Consumer])
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .to_owned()
}

/// The settings of a client that only asks, whichever side librdkafka counts it to.
pub fn asker(config: &KafkaConfig) -> ClientConfig {
    let any = [Side::Consumer, Side::Producer];
    overlaid(addressed(config), config, &any)
}

fn addressed(config: &KafkaConfig) -> ClientConfig {
    let mut client = ClientConfig::new();
    client
        .set("bootstrap.servers", &config.brokers)
        .set("client.id", "sendonce")
        // A producer's default is to let the brokers create what was misspelt.
        .set("allow.auto.create.topics", "false");
    client
}

/// `client` under what the operator set, as far as clients of all these sides have it.
fn overlaid(mut client: ClientConfig, config: &KafkaConfig, sides: &[Side]) -> ClientConfig {
    for (name, value) in config.properties.iter() {
        if sides.iter().all(|side| side.has(name)) {
            client.set(name, value);
        }
    }
    client
}
