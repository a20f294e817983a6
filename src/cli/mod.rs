//! Decides what may be typed: one file per subcommand.

use std::path::PathBuf;

use clap::Parser;

pub mod key;
pub mod stub_provider;

/// The Kafka consumer that sends each message once.
#[derive(Debug, clap::Parser)]
#[command(version)]
struct Arguments {
    /// The configuration. Variables such as SENDONCE__KAFKA__BROKERS go before it, the defaults behind it.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// What is to be done.
#[derive(Debug, clap::Subcommand)]
enum Command {
    Key(key::Arguments),
    StubProvider(stub_provider::Arguments),
}

/// Does what was typed.
///
/// # Errors
///
/// Those of the subcommand.
pub fn run() -> anyhow::Result<()> {
    let Arguments { config, command } = Arguments::parse();
    match command {
        Command::Key(arguments) => key::run(&arguments, config.as_deref()),
        Command::StubProvider(arguments) => one_core()?.block_on(stub_provider::run(arguments)),
    }
}

/// A runtime that leaves the other cores to other processes.
fn one_core() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
