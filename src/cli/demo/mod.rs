//! The whole product on one machine: two instances of `run`, brokers, and a provider that lies, hangs and resets. An instance
//! is killed midway and started again, and what arrived is counted.
//!
//! It decides what is played and when it is over. The counts are not the service's own: what was delivered comes from the
//! provider's truth log, what was set aside is read back from the dead-letter topic. Only `suppressed` is asked of the
//! instances, as nobody else can know it; what a killed instance had counted is gone with it.

mod play;
mod tally;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::stub_provider::Preset;
use tally::Report;

/// See it: ten thousand intents through a provider that lies, hangs and resets, and what became of them.
///
/// Exits with 1 if a message arrived twice or was lost.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// How many intents are published.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=500_000))]
    intents: u64,
    /// What the provider's faults follow from.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// How badly the provider behaves.
    #[arg(long, value_name = "MIX", value_enum, default_value_t = Preset::Harsh)]
    faults: Preset,
    /// How often an instance is killed.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    kills: u64,
    /// Intents published each second.
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Plays, counts and prints.
///
/// # Errors
///
/// When a part cannot be started, or nothing can be concluded. The folder with the parts' logs is kept then, and named.
pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let folder = tempfile::Builder::new()
        .prefix("sendonce-demo-")
        .tempdir()
        .context("no folder for the demo")?;
    let played = tokio::select! {
        played = play::play(&arguments, folder.path()) => played,
        _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let right = played.as_ref().is_ok_and(Report::is_right);
    let kept = (!right).then(|| folder.keep());
    let report = match (played, &kept) {
        (Ok(report), _) => report,
        (Err(error), Some(kept)) => {
            return Err(error.context(format!("the logs are in {}", kept.display())));
        }
        (Err(error), None) => return Err(error),
    };
    let mut stdout = std::io::stdout().lock();
    if arguments.json {
        writeln!(stdout, "{}", serde_json::to_string(&report)?)?;
    } else {
        writeln!(stdout, "{}", tally::table(&report, stdout.is_terminal()))?;
    }
    if let Some(kept) = kept {
        writeln!(std::io::stderr(), "the logs are in {}", kept.display())?;
    }
    Ok(if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The status of a process that SIGINT ended, as shells tell it.
const INTERRUPTED: u8 = 130;
