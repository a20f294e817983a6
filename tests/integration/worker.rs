//! A running `sendonce run`: how it is asked, stopped and killed. It knows nothing of how it was set up.

use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::http::get;
use crate::product::SOON;
use crate::waiting::until;

/// A running worker; killed when dropped.
pub struct Worker {
    child: Child,
    admin: String,
}

impl Worker {
    /// A process that serves its admin endpoints at this port.
    pub fn new(child: Child, admin_port: u16) -> Self {
        Self {
            child,
            admin: format!("http://127.0.0.1:{admin_port}"),
        }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and nothing of it is left when this returns.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM.
    pub fn term(&self) {
        self.signal(Signal::TERM);
    }

    /// Any signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
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

    /// Waits until it says that nothing stands against its being ready.
    pub async fn until_ready(&self) {
        self.until_readiness(r#""ready":true"#).await;
    }

    /// Waits until it says that this stands against its being ready.
    pub async fn until_not_ready(&self, reason: &str) {
        self.until_readiness(reason).await;
    }

    async fn until_readiness(&self, part: &str) {
        let told = async || match get(format!("{}/ready", self.admin)).await {
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        let what = format!("the worker's readiness to say {part}");
        until(&what, SOON, told, |told| told.contains(part)).await;
    }

    /// The sum of a metric's series whose labels include `labels`; 0 if there is none yet.
    pub async fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.metrics().await.count(name, labels)
    }

    /// Waits until a metric has at least this value.
    pub async fn until_count(&self, name: &str, labels: &[(&str, &str)], least: u64) {
        let what = format!("{name} {labels:?} to reach {least}");
        let look = async || self.count(name, labels).await;
        until(&what, SOON, look, |value| *value >= least).await;
    }

    /// What its metrics say now; nothing if it does not answer.
    pub async fn metrics(&self) -> Metrics {
        match get(format!("{}/metrics", self.admin)).await {
            Ok(answer) => Metrics(answer.text().await.unwrap_or_default()),
            Err(_) => Metrics(String::new()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a worker's metrics said at one moment.
#[derive(Debug)]
pub struct Metrics(String);

impl Metrics {
    /// The text as it was told.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The sum of a metric's series whose labels include `labels`; 0 if there is none. For whole numbers only.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let is_meant = |series: &str| {
            series.split('{').next() == Some(name)
                && labels
                    .iter()
                    .all(|(label, value)| series.contains(&format!("{label}=\"{value}\"")))
        };
        self.0
            .lines()
            .filter_map(|line| line.rsplit_once(' '))
            .filter(|(series, _)| is_meant(series))
            .map(|(series, value)| value.parse::<u64>().unwrap_or_else(|_| panic!("{series}")))
            .sum()
    }
}
