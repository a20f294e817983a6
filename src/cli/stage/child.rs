//! Decides how this program's own subcommands are started, watched and ended as processes of their own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A subcommand that runs as a process. It dies with this one, whatever happens.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    pid: Pid,
}

impl Running {
    /// Starts this executable with `arguments`. What it says goes to the end of `NAME.log` in `folder`.
    ///
    /// # Errors
    ///
    /// When the log cannot be opened or the process cannot be started.
    pub fn start(
        name: &str,
        folder: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let log = log_of(name, folder);
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("{} cannot be opened", log.display()))?;
        let executable = std::env::current_exe().context("this program's own file is not known")?;
        let parent = rustix::process::getpid().as_raw_nonzero().to_string();
        let mut command = Command::new(executable);
        // What is set for the service on this machine is not meant for a rehearsal.
        for (name, _) in std::env::vars_os()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"SENDONCE_"))
        {
            command.env_remove(name);
        }
        let child = command
            .args(["--die-with", &parent])
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        let pid = child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{name} ended at once"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            pid,
        })
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    ///
    /// Names the process and its status.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => bail!("{} has ended too early: {status}", self.name),
        }
    }

    /// Kills it as a crash or the kernel would, and waits for its end.
    ///
    /// # Errors
    ///
    /// When it cannot be killed.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.child
            .kill()
            .await
            .with_context(|| format!("{} cannot be killed", self.name))
    }

    /// Asks it to end, as an orchestrator does, and waits for that.
    ///
    /// # Errors
    ///
    /// When it does not end within the time, or ends with another status than 0.
    pub async fn stop(mut self, within: Duration) -> anyhow::Result<()> {
        self.still_runs()?;
        kill_process(self.pid, Signal::TERM)
            .with_context(|| format!("{} cannot be signalled", self.name))?;
        self.wait(within).await
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// When it does not end within the time, or ends with another status than 0.
    pub async fn wait(&mut self, within: Duration) -> anyhow::Result<()> {
        match timeout(within, self.child.wait()).await {
            Ok(status) => {
                let status = status?;
                if !status.success() {
                    bail!("{} ended with {status}", self.name);
                }
                Ok(())
            }
            Err(_) => bail!("{} has not ended within {within:?}", self.name),
        }
    }
}

/// Where a process of that name writes what it says.
fn log_of(name: &str, folder: &Path) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// Makes this process die with its parent, which is `parent`.
///
/// # Errors
///
/// When the system refuses, or the parent has gone already.
pub fn die_with(parent: i32) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have gone before the line above.
    let present = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if present != Some(parent) {
        bail!("the process that started this one has gone");
    }
    Ok(())
}
