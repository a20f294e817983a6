//! Decides what may be typed: one file per subcommand.

pub mod stub_provider;

use clap::Parser;

/// The Kafka consumer that sends each message once.
#[derive(Debug, clap::Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// What is to be done.
#[derive(Debug, clap::Subcommand)]
enum Command {
    StubProvider(stub_provider::Arguments),
}

/// Does what was typed.
///
/// # Errors
///
/// Those of the subcommand.
pub fn run() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::StubProvider(arguments) => one_core()?.block_on(stub_provider::run(arguments)),
    }
}

/// A runtime that leaves the other cores to other processes.
fn one_core() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
