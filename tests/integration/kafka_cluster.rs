//! Apache Kafka for a test: starts brokers through `tests/kafka/kafka.sh` on ports of their own, asks them what they
//! hold, and ends them. It knows nothing of what the tests put into it.
//!
//! The brokers end with whoever started them, even when that is killed: the script leaves a guard behind that reads a
//! pipe which only this process holds open.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::Consumer;

use crate::kafka_view::{ANSWER_WITHIN, Kafka};
use crate::waiting::{say_left_out, until};

/// Below the ports that the kernel hands to outgoing connections (32768 and up by default): a dead broker's port must
/// stay free until the broker is back.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// One port that says "taken", then two for each of at most three brokers.
const PORTS_A_CLUSTER: u16 = 8;

/// How many brokers a cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// One broker, no replicas: up in four seconds.
    One = 1,
    /// A quorum: three replicas of everything, two of which acknowledge a write.
    Three = 3,
}

/// Running brokers, ended when dropped.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    kafka: Kafka,
    size: Size,
    spare: String,
    /// Held to keep other test processes off these ports.
    _claim: TcpListener,
    /// Held open: the guard ends the brokers when it closes.
    _alive: ChildStdin,
}

/// The cluster of three that the suites of this process share, started at the first call. None, with a line on the
/// terminal, unless `SENDONCE_TEST_KAFKA=1`.
///
/// Tests name their topics and groups after themselves, and take a cluster of their own to kill brokers in.
pub fn shared() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    wanted().then(|| SHARED.get_or_init(|| Cluster::start(Size::Three, &[])))
}

/// Stands in a property of a private cluster of one broker for the port of one more listener: `Cluster::spare`.
pub const SPARE_PORT: &str = "SPARE_PORT";
/// Stands in such a property for the port of the broker's own listener.
pub const PORT: &str = "BROKER_PORT";
/// Stands in such a property for the port of the broker's controller.
pub const CONTROLLER_PORT: &str = "CONTROLLER_PORT";

/// A cluster for one test alone, with broker properties of its own. None, as with `shared`.
pub fn private(size: Size, properties: &[(&str, &str)]) -> Option<Cluster> {
    wanted().then(|| Cluster::start(size, properties))
}

fn wanted() -> bool {
    let wanted = std::env::var("SENDONCE_TEST_KAFKA").is_ok_and(|value| value == "1");
    if !wanted {
        static SAID: OnceLock<()> = OnceLock::new();
        SAID.get_or_init(|| {
            say_left_out(
                "needs Apache Kafka, run tests/kafka/kafka.sh fetch and set SENDONCE_TEST_KAFKA=1",
            );
        });
    }
    wanted
}

impl Cluster {
    fn start(size: Size, properties: &[(&str, &str)]) -> Self {
        static STARTED: AtomicU16 = AtomicU16::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("kafka-{}-{number}", std::process::id()));
        let (claim, port) = claim_ports();

        let mut command = script(&directory, "start");
        command.arg("--until-stdin-closes");
        command.args(["--port", &port.to_string()]);
        command.args(["--brokers", &(size as u8).to_string()]);
        let spare = port + 2;
        for (name, value) in properties {
            let value = value.replace(SPARE_PORT, &spare.to_string());
            let value = value.replace(PORT, &port.to_string());
            let value = value.replace(CONTROLLER_PORT, &(port + 1).to_string());
            command.args(["--set", &format!("{name}={value}")]);
        }
        let mut starting = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bash runs");
        let alive = starting.stdin.take().expect("standard input is piped");
        let said = starting.wait_with_output().expect("the script ends");
        assert!(
            said.status.success(),
            "kafka.sh start: {}",
            String::from_utf8_lossy(&said.stderr)
        );

        Self {
            directory,
            kafka: Kafka::at(
                String::from_utf8(said.stdout)
                    .expect("text")
                    .trim()
                    .to_owned(),
            ),
            size,
            spare: format!("127.0.0.1:{spare}"),
            _claim: claim,
            _alive: alive,
        }
    }

    /// Where the one more listener of a single broker is, if its properties make one.
    pub fn spare(&self) -> &str {
        &self.spare
    }

    /// Where broker `node`, counted from 1, listens: `127.0.0.1:port`.
    pub fn broker(&self, node: usize) -> &str {
        self.kafka
            .bootstrap()
            .split(',')
            .nth(node - 1)
            .expect("a broker of this cluster")
    }

    /// Creates topics of so many partitions, replicated on every broker.
    pub async fn create_topics(&self, topics: &[(&str, usize)]) {
        for (name, partitions) in topics {
            self.create_topic(name, *partitions, &[]).await;
        }
    }

    /// Creates one topic with settings of its own, replicated on every broker, and waits until its leaders are known.
    pub async fn create_topic(&self, name: &str, partitions: usize, settings: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> =
            self.client().create().expect("an admin client");
        let replicas = i32::from(self.size as u8);
        let count = i32::try_from(partitions).expect("few partitions");
        let mut topic = NewTopic::new(name, count, TopicReplication::Fixed(replicas));
        for (setting, value) in settings {
            topic = topic.set(setting, value);
        }
        let options = AdminOptions::new()
            .operation_timeout(Some(ANSWER_WITHIN))
            .request_timeout(Some(ANSWER_WITHIN));
        for created in admin
            .create_topics([&topic], &options)
            .await
            .expect("an answer")
        {
            created.unwrap_or_else(|(topic, why)| panic!("topic {topic}: {why}"));
        }
        self.until_led(name, partitions).await;
    }

    /// Waits until so many partitions of the topic have a leader.
    pub async fn until_led(&self, name: &str, partitions: usize) {
        until(
            &format!("leaders of {name}"),
            ANSWER_WITHIN,
            async || self.partitions_led(name),
            |led| *led == partitions,
        )
        .await;
    }

    /// How many partitions of `topic` have a leader.
    fn partitions_led(&self, topic: &str) -> usize {
        let metadata = self
            .asker()
            .fetch_metadata(Some(topic), ANSWER_WITHIN)
            .expect("metadata");
        let partitions = metadata
            .topics()
            .iter()
            .flat_map(|topic| topic.partitions());
        partitions
            .filter(|partition| partition.leader() > 0)
            .count()
    }

    /// SIGKILLs broker `node`, counted from 1.
    pub fn kill(&self, node: usize) {
        self.tell(&["kill", &node.to_string()]);
    }

    /// Starts a killed broker again, and returns once it serves.
    pub fn restart(&self, node: usize) {
        self.tell(&["restart", &node.to_string()]);
    }

    /// Stops broker `node` where it stands: its connections stay open and nothing answers.
    pub fn freeze(&self, node: usize) {
        self.tell(&["freeze", &node.to_string()]);
    }

    /// Lets a frozen broker go on.
    pub fn thaw(&self, node: usize) {
        self.tell(&["thaw", &node.to_string()]);
    }

    fn tell(&self, words: &[&str]) {
        let said = script(&self.directory, words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        assert!(
            said.status.success(),
            "kafka.sh {words:?}: {}",
            String::from_utf8_lossy(&said.stderr)
        );
    }
}

impl std::ops::Deref for Cluster {
    type Target = Kafka;

    fn deref(&self) -> &Kafka {
        &self.kafka
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = script(&self.directory, "stop")
            .arg("--now")
            .stdin(Stdio::null())
            .output();
    }
}

fn script(directory: &Path, word: &str) -> Command {
    let mut command = Command::new("bash");
    command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kafka/kafka.sh"))
        .arg(word)
        .arg("--dir")
        .arg(directory);
    command
}

/// Takes a block of ports that no other test process holds, and returns its claim and its first usable port.
fn claim_ports() -> (TcpListener, u16) {
    let blocks = PORTS.len() / usize::from(PORTS_A_CLUSTER);
    let from = usize::try_from(std::process::id()).expect("a process number") % blocks;
    (0..blocks)
        .map(|step| {
            PORTS.start + PORTS_A_CLUSTER * u16::try_from((from + step) % blocks).expect("a port")
        })
        .find_map(|base| {
            let claim = TcpListener::bind((Ipv4Addr::LOCALHOST, base)).ok()?;
            let free = (1..PORTS_A_CLUSTER)
                .all(|next| TcpListener::bind((Ipv4Addr::LOCALHOST, base + next)).is_ok());
            free.then_some((claim, base + 1))
        })
        .expect("a free block of ports")
}
