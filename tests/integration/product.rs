//! The real binary under test: `sendonce run` as a process with its own ledger, and an embedded broker to read from.
//! It knows how to set it up and start it; what is right is said by the tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::producer::{FutureProducer, FutureRecord};
use tempfile::TempDir;

use crate::kafka_view::Kafka;
use crate::worker::Worker;

/// Within this, whatever the product is to do must have happened. Generous: two cores run many tests at once.
pub const SOON: Duration = Duration::from_secs(60);

/// The first of the ports that tests take for what they start.
const FIRST_PORT: u16 = 10_000;

/// The group of a worker that is set up `in_another_group`.
pub const ANOTHER_GROUP: &str = "sendonce-again";

/// The broker embedded in librdkafka, with the product's topics.
pub struct Embedded {
    kafka: Kafka,
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl Embedded {
    /// One broker with `send-intents` and its companions of so many partitions.
    pub fn with_partitions(partitions: i32) -> Self {
        let cluster = MockCluster::new(1).expect("an embedded broker");
        for topic in ["send-intents", "send-intents.dlq", "send-intents.ledger"] {
            cluster.create_topic(topic, partitions, 1).expect("a topic");
        }
        Self {
            kafka: Kafka::at(cluster.bootstrap_servers()),
            cluster,
        }
    }

    /// Publishes intents in order, and waits for every acknowledgement.
    pub async fn publish(&self, records: &[Sent]) {
        publish(self, "send-intents", records).await;
    }

    /// Waits until the workers' group has committed all there is.
    pub async fn until_committed(&self) {
        self.until_committed_to_the_end("sendonce", "send-intents", SOON)
            .await;
    }

    /// The same of the group of a worker that is set up `in_another_group`.
    pub async fn until_committed_in_another_group(&self) {
        self.until_committed_to_the_end(ANOTHER_GROUP, "send-intents", SOON)
            .await;
    }

    /// The cluster itself, to break it.
    pub fn cluster(&self) -> &MockCluster<'static, DefaultProducerContext> {
        &self.cluster
    }
}

impl Deref for Embedded {
    type Target = Kafka;

    fn deref(&self) -> &Kafka {
        &self.kafka
    }
}

/// One record to publish.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Its Kafka key.
    pub key: Option<String>,
    /// Its value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// Its partition; chosen by the key if absent.
    pub partition: Option<i32>,
    /// Its timestamp, if it is not now.
    pub timestamp_ms: Option<i64>,
}

impl Sent {
    /// A record with this JSON as its value.
    pub fn json(value: &serde_json::Value) -> Self {
        Self {
            value: Some(value.to_string().into_bytes()),
            ..Self::default()
        }
    }

    /// The same under a Kafka key.
    pub fn keyed(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// A record with these bytes as its value.
    pub fn bytes(value: impl Into<Vec<u8>>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// The same in this partition.
    pub fn at(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The same with one header more.
    pub fn headed(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// An SMS to a number that nobody has, with this event id and text.
pub fn sms(id: &str, text: &str) -> serde_json::Value {
    serde_json::json!({
        "id": id, "channel": "sms", "to": "+447700900123", "content": {"text": text},
    })
}

/// The same intent for the provider of this name.
pub fn via(provider: &str, mut intent: serde_json::Value) -> serde_json::Value {
    intent["provider"] = provider.into();
    intent
}

/// Publishes records in order and waits for every acknowledgement.
pub async fn publish(kafka: &Kafka, topic: &str, records: &[Sent]) {
    let producer: FutureProducer = kafka
        .client()
        .set("enable.idempotence", "true")
        .set("partitioner", "murmur2_random")
        .create()
        .expect("a producer");
    let mut deliveries = Vec::new();
    for record in records {
        let mut out: FutureRecord<'_, str, [u8]> = FutureRecord::to(topic);
        out.key = record.key.as_deref();
        out.payload = record.value.as_deref();
        out.partition = record.partition;
        out.timestamp = record.timestamp_ms;
        let mut headers = rdkafka::message::OwnedHeaders::new();
        for (key, value) in &record.headers {
            headers = headers.insert(rdkafka::message::Header {
                key,
                value: Some(value),
            });
        }
        out.headers = Some(headers);
        let delivery = producer.send_result(out);
        deliveries.push(delivery.unwrap_or_else(|(why, _)| panic!("not queued: {why}")));
    }
    for delivery in deliveries {
        delivery
            .await
            .expect("an answer")
            .expect("an acknowledgement");
    }
}

/// How a worker is set up.
#[derive(Clone)]
pub struct Setup {
    /// Where its brokers are.
    pub bootstrap: String,
    /// Its providers. SMS, email and push go to the first one; an intent may name any.
    pub providers: Vec<Provider>,
    /// More environment.
    pub environment: Vec<(String, String)>,
}

/// One provider of a worker.
#[derive(Clone)]
pub struct Provider {
    /// Its name in the configuration.
    pub name: String,
    /// Its profile.
    pub profile: String,
    /// Where its requests go.
    pub url: String,
}

impl Setup {
    /// A worker that reads from `kafka` and sends SMS to the stub provider at `provider_url`, patiently but fast.
    pub fn new(kafka: &Kafka, provider_url: &str) -> Self {
        Self {
            bootstrap: kafka.bootstrap().to_owned(),
            providers: Vec::new(),
            environment: Vec::new(),
        }
        .provider("stub", STUB_PROFILE, provider_url)
        // The embedded broker lets a group that its last member has left wait for a whole session.
        .set("KAFKA__PROPERTIES__SESSION_TIMEOUT_MS", "6000")
        .set("KAFKA__PROPERTIES__HEARTBEAT_INTERVAL_MS", "500")
        .set(
            "LEDGER__REPLICATION",
            &std::env::var("SENDONCE_TEST_REPLICATION").unwrap_or("off".to_owned()),
        )
    }

    /// The same with this profile for its first provider.
    pub fn with_profile(mut self, profile: &str) -> Self {
        profile.clone_into(&mut self.providers[0].profile);
        self
    }

    /// The same with one provider more.
    pub fn provider(mut self, name: &str, profile: &str, url: &str) -> Self {
        self.providers.push(Provider {
            name: name.to_owned(),
            profile: profile.to_owned(),
            url: url.to_owned(),
        });
        self
    }

    /// The same in a group of another name: nothing is committed there, and the embedded broker has no former member
    /// whose session must end first.
    pub fn in_another_group(self) -> Self {
        self.set("KAFKA__GROUP", ANOTHER_GROUP)
    }

    /// The same with one setting more, as in the environment: `KAFKA__SPAN_MAX`, `100`.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.environment
            .push((format!("SENDONCE__{name}"), value.to_owned()));
        self
    }
}

/// The stub provider's profile: keyed, a window of a day.
pub const STUB_PROFILE: &str = include_str!("stub_profile.toml");
/// The same provider, taken for one that recognises no keys.
pub const KEYLESS_PROFILE: &str = include_str!("stub_profile_keyless.toml");

/// The same profile with 30 s for a request: longer than any test waits.
pub fn patient(profile: &str) -> String {
    profile.replace("request = \"1s\"", "request = \"30s\"")
}

/// A worker's home: its ledger, its configuration, its log. Outlives the process.
pub struct Home {
    directory: TempDir,
    admin_port: u16,
}

impl Home {
    /// Writes the configuration of `setup`.
    pub fn new(setup: &Setup) -> Self {
        let directory = TempDir::new().expect("a folder");
        let admin_port = free_port();
        let home = Self {
            directory,
            admin_port,
        };
        home.configure(setup);
        home
    }

    /// Writes the configuration of `setup` over the one before.
    pub fn configure(&self, setup: &Setup) {
        let profiles = self.path("providers");
        fs::create_dir_all(&profiles).expect("a folder");
        let mut config = format!(
            "[kafka]\nbrokers = \"{}\"\ncommit_interval = \"100ms\"\n\
             [keys]\nnamespace = \"test\"\n\
             [[keys.secrets]]\nfrom = 2020-01-01T00:00:00Z\nsecret = \"env:TEST_KEY_SECRET\"\n\
             [ledger]\ndirectory = \"{}\"\n\
             [admin]\nlisten = \"127.0.0.1:{}\"\n\
             [providers]\ndirectory = \"{}\"\n",
            setup.bootstrap,
            self.path("ledger").display(),
            self.admin_port,
            profiles.display(),
        );
        for Provider { name, profile, url } in &setup.providers {
            fs::write(profiles.join(format!("{name}.toml")), profile).expect("a profile");
            writeln!(config, "[provider.{name}]\nbase_url = \"{url}\"").expect("text");
        }
        let first = &setup.providers[0].name;
        config.push_str("[routes]\n");
        for channel in ["sms", "email", "push"] {
            writeln!(config, "{channel} = \"{first}\"").expect("text");
        }
        fs::write(self.path("sendonce.toml"), config).expect("a configuration");
    }

    /// A place in the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// All that its processes logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Whether any file of its ledger has this text in it.
    pub fn ledger_holds(&self, text: &str) -> bool {
        let mut folders = vec![self.path("ledger")];
        let mut holds = false;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = fs::read(path).expect("a file");
                    holds |= bytes
                        .windows(text.len())
                        .any(|window| window == text.as_bytes());
                }
            }
        }
        holds
    }

    /// Starts the worker.
    pub fn start(&self, setup: &Setup) -> Worker {
        self.start_with(setup, &[])
    }

    /// Starts the worker with more arguments behind `run`.
    pub fn start_with(&self, setup: &Setup, arguments: &[&str]) -> Worker {
        let mut command = self.command(setup);
        command.arg("run").args(arguments);
        self.spawn(command)
    }

    /// Starts the worker by the command that `under` makes of its own.
    pub fn start_under(&self, setup: &Setup, under: impl FnOnce(&Command) -> Command) -> Worker {
        let mut command = self.command(setup);
        command.arg("run");
        self.spawn(under(&command))
    }

    fn spawn(&self, mut command: Command) -> Worker {
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.path("log"))
            .expect("a log");
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Worker::new(child.expect("the binary starts"), self.admin_port)
    }

    /// The binary with its configuration and environment, to be given a subcommand.
    pub fn command(&self, setup: &Setup) -> Command {
        let mut command = sendonce();
        command
            .arg("--config")
            .arg(self.path("sendonce.toml"))
            .env("TEST_KEY_SECRET", "a secret of tests, worth nothing")
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .current_dir(self.directory.path())
            .envs(setup.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Drop for Home {
    /// Shows the log where a test has failed.
    #[allow(
        clippy::print_stdout,
        reason = "what is printed is captured, and shown with the failure"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() || std::env::var_os("SHOW_LOGS").is_some() {
            println!("{}", self.log());
        }
    }
}

/// The binary, to be given arguments.
pub fn sendonce() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sendonce"))
}

/// The exit code of a process that ended by itself.
pub fn code(status: ExitStatus) -> i32 {
    assert_eq!(status.signal(), None, "ended by a signal");
    status.code().expect("a code")
}

/// A record's headers by name.
pub fn headers(record: &rdkafka::message::OwnedMessage) -> BTreeMap<String, String> {
    use rdkafka::message::{Headers as _, Message as _};
    let text =
        |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
    record.headers().map_or_else(BTreeMap::new, |headers| {
        headers
            .iter()
            .map(|header| (header.key.to_owned(), text(header.value)))
            .collect()
    })
}

/// A port that was free a moment ago. It lies below those that the kernel hands to outgoing connections (32768 and up by
/// default) and those of test clusters, so that no test beside this one is given it meanwhile.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let ports = u32::from(20_000 - FIRST_PORT);
    loop {
        let number = ASKED.fetch_add(1, Ordering::Relaxed);
        assert!(number < ports, "a free port");
        // Test processes that run side by side begin at different places.
        let place = std::process::id().wrapping_mul(61).wrapping_add(number) % ports;
        let port = FIRST_PORT + u16::try_from(place).expect("a port");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
