//! What a bare client does, and what the whole pipeline does, against the same provider on the same machine.
//!
//! Each round plays both, one after the other, the pipeline first in every second round, so that a machine that gets slower
//! or faster treats both alike. (A) posts prepared requests with a bare reqwest client. (B) is `run` as it is deployed, with
//! its ledger on disk, draining a topic that was filled before it started. Both send the same requests to the byte, at the
//! same concurrency, to the same process of the stub provider: it sums up what it was asked for, and the bench refuses to
//! conclude anything if the sums differ.
//!
//! Both are timed by the provider, from the first message that it accepts to the last. So the start of the process, its
//! joining of the group (three seconds with the embedded brokers) and its last commit are not in the figures, nor is the
//! bare client's start.

pub mod bare;
mod figures;
mod prepare;
mod round;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use figures::Figures;
use round::Stage;

/// Measure the pipeline against a bare client.
///
/// Prints medians of the rounds: requests per second of the bare client and of the pipeline and their ratio; of the
/// pipeline also the median and the 99th percentile of one request in milliseconds (interpolated in its own histogram),
/// CPU seconds of its process for 1,000 intents, the peak of its memory in MiB, and its ledger's flushes.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// How many intents are sent in each half of a round.
    #[arg(long, value_name = "NUMBER", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1_000..=500_000))]
    intents: u64,
    /// Requests in flight.
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    concurrency: u32,
    /// Rounds, each with both halves.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=99))]
    rounds: u32,
    /// Real brokers instead of the embedded ones. Topics named sendonce-bench-… are created there and deleted.
    #[arg(long, value_name = "HOST:PORT,…")]
    brokers: Option<String>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
///
/// # Errors
///
/// When a part cannot be started, or nothing can be concluded. The folder with the parts' logs is kept then, and named.
pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let folder = tempfile::Builder::new()
        .prefix("sendonce-bench-")
        .tempdir()
        .context("no folder for the bench")?;
    let measured = tokio::select! {
        measured = measure(&arguments, folder.path()) => measured,
        _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let figures = match measured {
        Ok(figures) => figures,
        Err(error) => {
            return Err(error.context(format!("the logs are in {}", folder.keep().display())));
        }
    };
    let mut stdout = std::io::stdout().lock();
    if arguments.json {
        writeln!(stdout, "{}", serde_json::to_string(&figures)?)?;
    } else {
        writeln!(stdout, "{}", figures::table(&figures, stdout.is_terminal()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The status of a process that SIGINT ended, as shells tell it.
const INTERRUPTED: u8 = 130;

async fn measure(arguments: &Arguments, folder: &std::path::Path) -> anyhow::Result<Figures> {
    let bar = ProgressBar::new(u64::from(arguments.rounds) * 2);
    if let Ok(style) = ProgressStyle::with_template("{bar:20.green} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let mut stage = Stage::set(arguments, folder).await?;
    let (mut bare, mut pipeline) = (Vec::new(), Vec::new());
    for round in 0..arguments.rounds {
        let halves = if round % 2 == 0 {
            [Half::Bare, Half::Pipeline]
        } else {
            [Half::Pipeline, Half::Bare]
        };
        for half in halves {
            match half {
                Half::Bare => {
                    bar.set_message("the bare client");
                    bare.push(stage.bare().await?);
                }
                Half::Pipeline => {
                    bar.set_message("the pipeline");
                    pipeline.push(stage.pipeline(round).await?);
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    figures::conclude(&bare, &pipeline)
}

/// What one round consists of.
#[derive(Clone, Copy)]
enum Half {
    Bare,
    Pipeline,
}
