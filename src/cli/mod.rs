//! Decides what may be typed: one file per subcommand.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

mod bench;
mod demo;
pub mod key;
pub mod run;
mod stage;
pub mod stub_provider;

/// The Kafka consumer that sends each message once.
#[derive(Debug, clap::Parser)]
#[command(version)]
struct Arguments {
    /// The configuration. Variables such as SENDONCE__KAFKA__BROKERS go before it, the defaults behind it.
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
    Key(key::Arguments),
    StubProvider(stub_provider::Arguments),
    Bench(bench::Arguments),
    #[command(hide = true)]
    BenchBare(bench::bare::Arguments),
}

/// Does what was typed, and tells with which status to exit.
///
/// # Errors
///
/// Those of the subcommand.
pub fn run() -> anyhow::Result<ExitCode> {
    let Arguments {
        config,
        die_with,
        command,
    } = Arguments::parse();
    if let Some(parent) = die_with {
        stage::child::die_with(parent)?;
    }
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Run(arguments) => run::run(&arguments, config.as_deref()),
        Command::Demo(arguments) => one_core()?.block_on(demo::run(arguments)),
        Command::Key(arguments) => key::run(&arguments, config.as_deref()).map(done),
        Command::StubProvider(arguments) => one_core()?
            .block_on(stub_provider::run(arguments))
            .map(done),
        Command::Bench(arguments) => one_core()?.block_on(bench::run(arguments)),
        Command::BenchBare(arguments) => {
            all_cores()?.block_on(bench::bare::run(arguments)).map(done)
        }
    }
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
