//! Starts instances of `run` as a deployment does, with a configuration file and a ledger directory of their own, and
//! watches them from outside.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, sleep};

use super::child::Running;
use super::{free_address, loopback_client};

/// What every instance of a group is configured with.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Where the brokers are.
    pub brokers: String,
    /// The consumer group.
    pub group: String,
    /// The topic of intents.
    pub topic: String,
    /// Where the provider takes messages.
    pub messages_url: String,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// Requests in flight.
    pub concurrency: u32,
}

/// One instance of `run`.
#[derive(Debug)]
pub struct Instance {
    name: String,
    folder: PathBuf,
    admin: SocketAddr,
    running: Option<Running>,
    client: reqwest::Client,
}

impl Instance {
    /// Starts an instance. Its configuration, ledger and log lie in `folder`, under its name.
    ///
    /// # Errors
    ///
    /// When its files cannot be written or it cannot be started.
    pub fn start(name: &str, folder: &Path, setting: &Setting) -> anyhow::Result<Self> {
        let admin = free_address()?;
        let profiles = folder.join(format!("{name}-providers"));
        fs::create_dir_all(&profiles)?;
        fs::write(profiles.join("generic.toml"), profile(setting))?;
        fs::write(
            configuration_of(name, folder),
            configuration(setting, folder, name, admin),
        )?;
        let mut instance = Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
            admin,
            running: None,
            client: loopback_client()?,
        };
        instance.start_again()?;
        Ok(instance)
    }

    /// Starts it with the configuration and the ledger that it had.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let configuration = configuration_of(&self.name, &self.folder)
            .display()
            .to_string();
        let arguments = ["--config", &configuration, "run"];
        self.running = Some(Running::start(
            &self.name,
            &self.folder,
            &arguments,
            &[("SENDONCE_KEY_SECRET", KEY_SECRET)],
        )?);
        Ok(())
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it ends, or is not ready within the time.
    pub async fn ready(&mut self, within: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            self.still_runs()?;
            if self.get("ready").await.is_ok() {
                return Ok(());
            }
            if start.elapsed() > within {
                bail!("{} is not ready within {within:?}", self.name);
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Kills it as a crash would.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.take_running()?.kill().await
    }

    /// Asks it to end and waits for that.
    ///
    /// # Errors
    ///
    /// When it does not end in order.
    pub async fn stop(&mut self, within: Duration) -> anyhow::Result<()> {
        self.take_running()?.stop(within).await
    }

    /// Fails if it does not run.
    ///
    /// # Errors
    ///
    /// Tells its status.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        self.running
            .as_mut()
            .with_context(|| format!("{} does not run", self.name))?
            .still_runs()
    }

    /// Its metrics.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        self.get("metrics").await
    }

    /// A file of the system's about its process.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn proc_file(&self, file: &str) -> anyhow::Result<String> {
        let running = self
            .running
            .as_ref()
            .with_context(|| format!("{} does not run", self.name))?;
        let path = format!("/proc/{}/{file}", running.pid());
        fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))
    }

    fn take_running(&mut self) -> anyhow::Result<Running> {
        self.running
            .take()
            .with_context(|| format!("{} does not run", self.name))
    }

    async fn get(&self, path: &str) -> anyhow::Result<String> {
        let answer = self
            .client
            .get(format!("http://{}/{path}", self.admin))
            .send()
            .await?
            .error_for_status()?;
        Ok(String::from_utf8_lossy(&answer.bytes().await?).into_owned())
    }
}

/// The secret behind the keys of a rehearsal. It protects nothing.
pub const KEY_SECRET: &str = "a rehearsal keeps no secrets";
/// The namespace of a rehearsal's keys.
pub const NAMESPACE: &str = "rehearsal";
/// The profile of providers in the manner of the IETF draft, as it is shipped.
const GENERIC: &str = include_str!("../../../config/providers/generic.toml");
/// How often it is looked whether an instance is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn configuration_of(name: &str, folder: &Path) -> PathBuf {
    folder.join(format!("{name}.toml"))
}

/// The shipped profile with this rehearsal's address and time.
pub fn profile(setting: &Setting) -> String {
    let mut profile = String::new();
    for line in GENERIC.lines() {
        if line.starts_with("url ") {
            profile.push_str(&format!("url = \"{}\"\n", setting.messages_url));
        } else {
            profile.push_str(line);
            profile.push('\n');
        }
    }
    let request = setting.request_timeout.as_millis();
    // Connecting is part of the request's time, and must leave some of it.
    let connect = request / 2;
    profile.push_str(&format!(
        "\n[timeouts]\nconnect = \"{connect}ms\"\nrequest = \"{request}ms\"\n"
    ));
    profile
}

/// The configuration of one instance: what a rehearsal must say, and the defaults for all else.
fn configuration(setting: &Setting, folder: &Path, name: &str, admin: SocketAddr) -> String {
    let Setting {
        brokers,
        group,
        topic,
        concurrency,
        ..
    } = setting;
    let folder = folder.display();
    format!(
        r#"[kafka]
brokers = "{brokers}"
group = "{group}"
topic = "{topic}"

# A killed instance is missed after six seconds instead of 45.
[kafka.properties]
"session.timeout.ms" = 6000
"heartbeat.interval.ms" = 1000

[keys]
namespace = "{NAMESPACE}"

[[keys.secrets]]
from = 2020-01-01T00:00:00Z
secret = "env:SENDONCE_KEY_SECRET"

[ledger]
directory = "{folder}/{name}-ledger"

[dispatch]
concurrency = {concurrency}

[routes]
email = "generic"

[providers]
directory = "{folder}/{name}-providers"

[admin]
listen = "{admin}"

[log]
format = "json"
level = "info"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Sources};
    use crate::domain::profile::Profile;

    fn setting() -> Setting {
        Setting {
            brokers: "127.0.0.1:9092".to_owned(),
            group: "demo".to_owned(),
            topic: "send-intents".to_owned(),
            messages_url: "http://127.0.0.1:8090/v1/messages".to_owned(),
            request_timeout: Duration::from_secs(1),
            concurrency: 64,
        }
    }

    #[test]
    fn an_instance_is_configured_with_what_a_rehearsal_must_say() {
        let setting = setting();
        insta::assert_snapshot!(configuration(
            &setting,
            Path::new("/folder"),
            "instance-1",
            SocketAddr::from(([127, 0, 0, 1], 9464))
        ));
        let profile = profile(&setting);
        assert!(profile.contains("\nurl = \"http://127.0.0.1:8090/v1/messages\"\n"));
        assert!(profile.ends_with("\n[timeouts]\nconnect = \"500ms\"\nrequest = \"1000ms\"\n"));
    }

    #[test]
    fn the_service_takes_the_configuration_and_the_profile() {
        let folder = tempfile::tempdir().unwrap();
        let admin = SocketAddr::from(([127, 0, 0, 1], 9464));
        fs::create_dir(folder.path().join("i-providers")).unwrap();
        fs::write(
            folder.path().join("i-providers/generic.toml"),
            profile(&setting()),
        )
        .unwrap();
        let text = configuration(&setting(), folder.path(), "i", admin);
        let environment = vec![("SENDONCE_KEY_SECRET".into(), KEY_SECRET.into())];
        let config = Config::from_sources(&Sources {
            file: Some((configuration_of("i", folder.path()), text)),
            environment,
        })
        .unwrap();
        assert!(config.missing_to_run().is_none());
        assert_eq!(
            config.kafka.properties.get("session.timeout.ms"),
            Some("6000")
        );
        Profile::parse(&profile(&setting())).unwrap();
    }
}
