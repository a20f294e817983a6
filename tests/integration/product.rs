//! The real binary under test: `sendonce run` as a process with its own ledger, and an embedded broker to read from.
//! It knows how to start, ask, stop and kill it; what is right is said by the tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::producer::{FutureProducer, FutureRecord};
use tempfile::TempDir;

use crate::http::get;
use crate::kafka_view::Kafka;
use crate::waiting::until;

/// Within this, whatever the product is to do must have happened. Generous: two cores run many tests at once.
pub const SOON: Duration = Duration::from_secs(60);

/// The broker embedded in librdkafka, with the product's topics.
pub struct Embedded {
    kafka: Kafka,
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl Embedded {
    /// One broker with `send-intents` and `send-intents.dlq` of so many partitions.
    pub fn with_partitions(partitions: i32) -> Self {
        let cluster = MockCluster::new(1).expect("an embedded broker");
        for topic in ["send-intents", "send-intents.dlq"] {
            cluster.create_topic(topic, partitions, 1).expect("a topic");
        }
        Self {
            kafka: Kafka::at(cluster.bootstrap_servers()),
            cluster,
        }
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

    /// The same in this partition.
    pub fn at(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }
}

/// An SMS to a number that nobody has, with this event id and text.
pub fn sms(id: &str, text: &str) -> serde_json::Value {
    serde_json::json!({
        "id": id, "channel": "sms", "to": "+447700900123", "content": {"text": text},
    })
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
pub struct Setup {
    /// Where its brokers are.
    pub bootstrap: String,
    /// The provider profiles it finds, by name.
    pub profiles: Vec<(String, String)>,
    /// Where the profiles' requests go.
    pub provider_url: String,
    /// More configuration: whole TOML tables that the defaults below do not name.
    pub more: String,
    /// More environment.
    pub environment: Vec<(String, String)>,
}

impl Setup {
    /// A worker that reads from `kafka` and sends SMS to the stub provider at `provider_url`, patiently but fast.
    pub fn new(kafka: &Kafka, provider_url: &str) -> Self {
        Self {
            bootstrap: kafka.bootstrap().to_owned(),
            profiles: vec![("stub".to_owned(), STUB_PROFILE.to_owned())],
            provider_url: provider_url.to_owned(),
            more: String::new(),
            environment: Vec::new(),
        }
        // The embedded broker lets a group that its last member has left wait for a whole session.
        .set("KAFKA__PROPERTIES__SESSION_TIMEOUT_MS", "6000")
        .set("KAFKA__PROPERTIES__HEARTBEAT_INTERVAL_MS", "500")
    }

    /// The same with a profile of its own under the name `stub`.
    pub fn with_profile(mut self, profile: &str) -> Self {
        self.profiles = vec![("stub".to_owned(), profile.to_owned())];
        self
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
        for (name, profile) in &setup.profiles {
            fs::write(profiles.join(format!("{name}.toml")), profile).expect("a profile");
            writeln!(
                config,
                "[provider.{name}]\nbase_url = \"{}\"",
                setup.provider_url
            )
            .expect("text");
        }
        if !setup.more.contains("[routes]") {
            config.push_str("[routes]\nsms = \"stub\"\nemail = \"stub\"\npush = \"stub\"\n");
        }
        config.push_str(&setup.more);
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
        Worker {
            child: child.expect("the binary starts"),
            admin: format!("http://127.0.0.1:{}", self.admin_port),
        }
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

/// A running worker; killed when dropped.
pub struct Worker {
    child: Child,
    admin: String,
}

impl Worker {
    /// SIGKILL, and nothing of it is left when this returns.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM.
    pub fn term(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&mut self, at_most: Duration) -> ExitStatus {
        let ended = until(
            "the worker to end",
            at_most,
            async || self.child.try_wait().expect("a child"),
            Option::is_some,
        );
        ended.await.expect("ended")
    }

    /// Waits until it says that it is ready.
    pub async fn ready(&self) {
        let ready = async || match get(format!("{}/ready", self.admin)).await {
            Ok(answer) => answer.status().as_u16(),
            Err(_) => 0,
        };
        until("the worker to be ready", SOON, ready, |status| {
            *status == 200
        })
        .await;
    }

    /// The sum of all series of this metric whose labels include `labels`; 0 if there is none.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let Ok(answer) = get(format!("{}/metrics", self.admin)).await else {
            return 0.0;
        };
        let text = answer.text().await.unwrap_or_default();
        series(&text)
            .filter(|(series, _)| {
                series.split('{').next() == Some(name)
                    && labels
                        .iter()
                        .all(|(label, value)| series.contains(&format!("{label}=\"{value}\"")))
            })
            .map(|(_, value)| value)
            .sum()
    }

    /// Waits until a metric has at least this value.
    pub async fn until_metric(&self, name: &str, labels: &[(&str, &str)], least: f64) {
        let look = async || self.metric(name, labels).await;
        until(
            &format!("{name} {labels:?} to reach {least}"),
            SOON,
            look,
            |value| *value >= least,
        )
        .await;
    }

    /// The whole text of its metrics.
    pub async fn metrics(&self) -> String {
        let answer = get(format!("{}/metrics", self.admin))
            .await
            .expect("an answer");
        answer.text().await.expect("text")
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The exit code of a process that ended by itself.
pub fn code(status: ExitStatus) -> i32 {
    assert_eq!(status.signal(), None, "ended by a signal");
    status.code().expect("a code")
}

/// The series of a text of metrics.
pub fn series(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(series, value)| Some((series, value.parse().ok()?)))
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

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Whether a folder holds anything.
pub fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}
