//! Decides what may be typed: one file per subcommand. What can be piped on goes to stdout, all talk to stderr.

mod bench;
pub mod check;
mod demo;
pub mod exit;
pub mod findings;
pub mod key;
pub mod publish;
pub mod run;
mod stage;
pub mod stub_provider;
pub mod verify_provider;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;

use crate::config::Config;
use crate::config::service::LogConfig;
use crate::telemetry::log;
use exit::Exit;

/// The Kafka consumer that sends each message once.
#[derive(Debug, clap::Parser)]
#[command(name = "sendonce", version, max_term_width = 100)]
struct Arguments {
    /// The configuration, above the defaults and below SENDONCE__SECTION__FIELD in the environment.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// End when the process of this number, which started this one, ends.
    #[arg(long, value_name = "PID", hide = true)]
    die_with: Option<i32>,
    #[command(subcommand)]
    command: Command,
}

/// What is to be done.
#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(run::Arguments),
    Demo(demo::Arguments),
    Check(check::Arguments),
    Publish(publish::Arguments),
    Key(key::Arguments),
    StubProvider(Box<stub_provider::Arguments>),
    VerifyProvider(Box<verify_provider::Arguments>),
    Bench(bench::Arguments),
    #[command(hide = true)]
    BenchBare(bench::bare::Arguments),
}

/// Does what was typed, and tells by the exit code how it ended.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let wrong = error.use_stderr();
            // Whoever asked may have gone.
            let _ = error.print();
            return if wrong { Exit::Usage } else { Exit::Done }.into();
        }
    };
    // Everything that speaks TLS takes the one provider that is built in. It can only be there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match carry_out(arguments) {
        Ok(code) => code,
        Err(error) => {
            let exit = Exit::of(&error);
            if exit != Exit::Done {
                let _ = writeln!(std::io::stderr(), "sendonce: {error:#}");
            }
            exit.into()
        }
    }
}

fn carry_out(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(parent) = arguments.die_with {
        stage::child::die_with(parent)?;
    }
    let file = arguments.config.as_deref();
    match arguments.command {
        Command::Run(arguments) => run::run(&configured(file)?, &arguments).map(ExitCode::from),
        Command::Demo(arguments) => {
            log::begin(&LogConfig::default())?;
            one_core()?.block_on(demo::run(arguments))
        }
        Command::Check(arguments) => check::run(file, &arguments).map(ExitCode::from),
        Command::Publish(arguments) => {
            publish::run(&configured(file)?, &arguments).map(ExitCode::from)
        }
        Command::Key(arguments) => {
            log::begin(&LogConfig::default())?;
            key::run(&arguments, file).map(ExitCode::from)
        }
        Command::StubProvider(arguments) => {
            log::begin(&LogConfig::default())?;
            one_core()?.block_on(stub_provider::run(*arguments))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::VerifyProvider(arguments) => {
            let config = configured(file)?;
            let verified = verify_provider::run(*arguments, &config);
            one_core()?.block_on(verified).map(ExitCode::from)
        }
        Command::Bench(arguments) => {
            log::begin(&LogConfig::default())?;
            one_core()?.block_on(bench::run(arguments))
        }
        Command::BenchBare(arguments) => {
            log::begin(&LogConfig::default())?;
            all_cores()?.block_on(bench::bare::run(arguments))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Reads the configuration and begins to log as it says.
fn configured(file: Option<&Path>) -> anyhow::Result<Config> {
    let config = Config::load(file)?;
    log::begin(&config.log)?;
    Ok(config)
}

/// A runtime that leaves the other cores to other processes.
fn one_core() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// A runtime on every core, as the service has it.
fn all_cores() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn what_may_be_typed_does_not_contradict_itself() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_configuration_is_named_before_or_behind_the_subcommand() {
        for typed in [
            ["sendonce", "--config", "a.toml", "check"],
            ["sendonce", "check", "--config", "a.toml"],
        ] {
            let arguments = Arguments::try_parse_from(typed).unwrap();
            assert_eq!(arguments.config.as_deref(), Some(Path::new("a.toml")));
        }
    }
}
