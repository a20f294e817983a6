//! Decides which of librdkafka's properties a consumer alone has, and which a producer alone: handed to the other, each is
//! a warning in the log at every start. What a property does, and whether it may be set at all, is `config`'s.
//!
//! Source: CONFIGURATION.md of librdkafka 2.12.1, column "C/P". What is in neither list is for both.

use rdkafka::ClientConfig;

/// What kind of client a property is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// One that reads.
    Consumer,
    /// One that writes; so does librdkafka call one that administers.
    Producer,
}

impl Side {
    /// Whether a client of this side has the property.
    pub fn has(self, property: &str) -> bool {
        let others = match self {
            Self::Consumer => PRODUCERS,
            Self::Producer => CONSUMERS,
        };
        !others.contains(&property)
    }
}

/// `config` without what is for one side alone: good for any client.
pub fn for_both(config: &ClientConfig) -> ClientConfig {
    let mut shared = config.clone();
    for property in CONSUMERS.iter().chain(PRODUCERS) {
        shared.remove(property);
    }
    shared
}

const CONSUMERS: &[&str] = &[
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "consume.callback.max.messages",
    "coordinator.query.interval.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
    "partition.assignment.strategy",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "session.timeout.ms",
];

const PRODUCERS: &[&str] = &[
    "acks",
    "batch.num.messages",
    "batch.size",
    "compression.codec",
    "compression.level",
    "compression.type",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "linger.ms",
    "message.send.max.retries",
    "message.timeout.ms",
    "partitioner",
    "produce.offset.report",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queuing.strategy",
    "request.required.acks",
    "request.timeout.ms",
    "retries",
    "sticky.partitioning.linger.ms",
    "transaction.timeout.ms",
    "transactional.id",
];

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use rdkafka::ClientContext;
    use rdkafka::config::RDKafkaLogLevel;
    use rdkafka::consumer::{BaseConsumer, ConsumerContext};
    use rdkafka::producer::{BaseProducer, DeliveryResult, ProducerContext};

    use super::super::client::{asker, consumer, producer};
    use super::*;
    use crate::config::{Config, Sources};

    /// More than any client here says.
    const LINES: usize = 20;

    /// What a client said when it was made.
    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<String>>>);

    impl ClientContext for Said {
        fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
            let line = format!("{facility}: {message}");
            self.0.lock().unwrap().push(line);
        }
    }

    impl ConsumerContext for Said {}

    impl ProducerContext for Said {
        type DeliveryOpaque = ();

        fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
    }

    fn warned(said: &Said) -> Vec<String> {
        let mut said = said.0.lock().unwrap();
        said.retain(|line| line.starts_with("CONFWARN"));
        std::mem::take(&mut *said)
    }

    /// The binding's level follows that of the process's log, which a test has none of.
    fn audible(config: &ClientConfig) -> ClientConfig {
        let mut config = config.clone();
        config.set_log_level(RDKafkaLogLevel::Info);
        config
    }

    fn as_consumer(config: &ClientConfig) -> Vec<String> {
        let said = Said::default();
        let client: BaseConsumer<Said> = audible(config).create_with_context(said.clone()).unwrap();
        // What is said is heard once one listens, one line at a time.
        for _ in 0..LINES {
            drop(client.poll(Duration::from_millis(10)));
        }
        warned(&said)
    }

    fn as_producer(config: &ClientConfig) -> Vec<String> {
        let said = Said::default();
        let client: BaseProducer<Said> = audible(config).create_with_context(said.clone()).unwrap();
        for _ in 0..LINES {
            client.poll(Duration::from_millis(10));
        }
        warned(&said)
    }

    #[test]
    fn no_client_is_warned_of_a_property_that_is_not_its_own() {
        let text = "[kafka]\nbrokers = \"127.0.0.1:9\"\ngroup_instance_id = \"one\"\n[kafka.properties]\n\
                    \"session.timeout.ms\" = 6000\n\"fetch.min.bytes\" = 1\n\"isolation.level\" = \"read_committed\"\n\
                    \"compression.type\" = \"lz4\"\n\"message.timeout.ms\" = 20000\n\"socket.timeout.ms\" = 10000\n";
        let sources = Sources {
            file: Some(("sendonce.toml".into(), text.to_owned())),
            ..Sources::default()
        };
        let kafka = Config::from_sources(&sources).unwrap().kafka;
        let none: [String; 0] = [];
        let (reads, writes, asks) = (consumer(&kafka), producer(&kafka, 1_000_000), asker(&kafka));
        assert_eq!(as_consumer(&reads), none);
        assert_eq!(as_producer(&writes), none);
        assert_eq!(as_consumer(&asks), none);
        assert_eq!(as_producer(&for_both(&reads)), none);
        assert_eq!(reads.get("session.timeout.ms"), Some("6000"));
        assert_eq!(writes.get("compression.type"), Some("lz4"));
        for client in [&reads, &writes, &asks, &for_both(&reads)] {
            assert_eq!(client.get("socket.timeout.ms"), Some("10000"));
        }
        assert!(!as_producer(&reads).is_empty(), "librdkafka does warn");
    }
}
