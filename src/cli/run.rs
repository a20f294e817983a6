//! `sendonce run`: reads the configuration and runs the service until it is asked to end.

use crate::adapters::kafka::consumer::StartAt;
use crate::config::Config;
use crate::domain::time::Timestamp;
use crate::pipeline::service::{self, Run};

use super::exit::Exit;

/// Read intents from Kafka and send each once, until SIGTERM or SIGINT.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Where reading begins in partitions for which the group has committed nothing: `earliest`, `latest`, or a moment
    /// like 2026-11-30T12:00:00Z.
    #[arg(long, value_name = "WHERE", default_value = "earliest", value_parser = start_at)]
    start_at: StartAt,
}

/// Runs the service.
///
/// # Errors
///
/// A configuration that cannot be meant, and what stopped the service or kept it from starting.
pub fn run(config: &Config, arguments: &Arguments) -> anyhow::Result<Exit> {
    if let Some(faults) = config.missing_to_run() {
        return Err(faults.into());
    }
    match service::run(config, arguments.start_at)? {
        Run::Drained => Ok(Exit::Done),
        Run::Forced { at_work } => {
            tracing::warn!(
                at_work,
                "ended with work left open; the next start goes on from the ledger"
            );
            Ok(Exit::Temporary)
        }
    }
}

fn start_at(text: &str) -> Result<StartAt, String> {
    match text {
        "earliest" => Ok(StartAt::Earliest),
        "latest" => Ok(StartAt::Latest),
        moment => Timestamp::parse_rfc3339(moment)
            .map(StartAt::Moment)
            .ok_or_else(|| {
                "neither earliest, latest, nor a moment like 2026-11-30T12:00:00Z".to_owned()
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_begins_at_a_word_or_a_moment_and_nowhere_else() {
        assert_eq!(start_at("earliest"), Ok(StartAt::Earliest));
        assert_eq!(start_at("latest"), Ok(StartAt::Latest));
        let moment = StartAt::Moment(Timestamp::from_millis(1_795_953_600_000));
        assert_eq!(start_at("2026-11-29T12:00:00Z"), Ok(moment));
        assert!(start_at("yesterday").is_err());
        assert!(start_at("2026-11-29T12:00:00").is_err());
    }
}
