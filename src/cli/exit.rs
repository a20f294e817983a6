//! Decides what the process tells its caller by its exit code, for every error in one place. The codes are those of
//! `sysexits.h`.

use std::io::ErrorKind;
use std::process::ExitCode;

use rdkafka::error::KafkaError;

use crate::config::Faults;
use crate::pipeline::ledger_log::OpeningError;
use crate::pipeline::service::RunError;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As it should.
    Done,
    /// The answer is no: nothing broke, but what was asked for is not so, or not wholly.
    No,
    /// It was typed wrongly.
    Usage,
    /// Something that is needed cannot be reached.
    Unavailable,
    /// A defect of ours.
    Internal,
    /// Not now; the same again later may do.
    Temporary,
    /// The configuration cannot be meant.
    Config,
}

/// What was typed makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::Temporary => 75,
            Self::Config => 78,
        }
    }

    /// What an error means. The first cause that is known counts.
    pub fn of(error: &anyhow::Error) -> Self {
        error.chain().find_map(of_cause).unwrap_or(Self::Internal)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if cause.is::<UsageError>() {
        return Some(Exit::Usage);
    }
    if cause.is::<Faults>() {
        return Some(Exit::Config);
    }
    if let Some(error) = cause.downcast_ref::<KafkaError>() {
        return Some(of_kafka(error));
    }
    if let Some(error) = cause.downcast_ref::<RunError>() {
        return Some(of_run(error));
    }
    let error = cause.downcast_ref::<std::io::Error>()?;
    let kind = error.kind();
    if kind == ErrorKind::BrokenPipe {
        // Whoever read our output has had enough of it.
        Some(Exit::Done)
    } else if kind == ErrorKind::AddrInUse {
        Some(Exit::Unavailable)
    } else {
        None
    }
}

fn of_run(error: &RunError) -> Exit {
    match error {
        RunError::Config(_) | RunError::TopicMissing(_) | RunError::TopicUnfit { .. } => {
            Exit::Config
        }
        RunError::Kafka(error) | RunError::LedgerLog(OpeningError::Kafka(error)) => of_kafka(error),
        RunError::LedgerLog(OpeningError::Ledger(_) | OpeningError::Thread(_)) => Exit::Unavailable,
        RunError::LedgerClosed(_) | RunError::Ledger(_) | RunError::System { .. } => {
            Exit::Unavailable
        }
        RunError::ReadingPanicked | RunError::LedgerEnded | RunError::Metrics(_) => Exit::Internal,
    }
}

fn of_kafka(error: &KafkaError) -> Exit {
    if matches!(error, KafkaError::ClientConfig(..)) {
        Exit::Config
    } else {
        Exit::Unavailable
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rdkafka::types::{RDKafkaConfRes, RDKafkaErrorCode};

    use super::*;
    use crate::config::Fault;

    #[test]
    fn every_error_has_the_code_of_its_first_known_cause() {
        let fault = Fault {
            key: "kafka.topic".into(),
            origin: None,
            message: "is wrong".into(),
        };
        let unknown_property = KafkaError::ClientConfig(
            RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN,
            "no such property".into(),
            "a".into(),
            "b".into(),
        );
        for (error, code) in [
            (anyhow::Error::from(Faults::from(fault)), 78),
            (anyhow::Error::from(unknown_property), 78),
            (
                KafkaError::MetadataFetch(RDKafkaErrorCode::AllBrokersDown).into(),
                69,
            ),
            (RunError::TopicMissing("a".into()).into(), 78),
            (RunError::ReadingPanicked.into(), 70),
            (RunError::LedgerEnded.into(), 70),
            (UsageError("neither".into()).into(), 64),
            (io::Error::from(io::ErrorKind::BrokenPipe).into(), 0),
            (io::Error::from(io::ErrorKind::AddrInUse).into(), 69),
            (io::Error::from(io::ErrorKind::InvalidData).into(), 70),
            (anyhow::anyhow!("something else"), 70),
        ] {
            assert_eq!(Exit::of(&error.context("while at it")).code(), code);
        }
    }
}
