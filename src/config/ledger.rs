//! Decides where the ledger lies and for how long it remembers. It does not know how it is kept.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::section::Section;

/// `[ledger]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerConfig {
    /// Where it lies, from the working directory.
    pub directory: PathBuf,
    /// How long a settled intent is remembered. Always above `intents.max_age`.
    pub retention: Duration,
    /// In how many parts it is forgotten.
    pub generations: NonZeroU32,
    /// Memory for its pages, in MiB.
    pub cache_mib: u64,
    /// Entries that one flush takes at most.
    pub batch_max: usize,
    /// Whether it follows its partitions through the ledger topic.
    pub replication: Replication,
}

/// Where the ledger is beside this machine's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// Nowhere.
    Off,
    /// In the ledger topic.
    Topic,
}

impl LedgerConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let directory =
            section.text_that("directory", "a directory's path", |text| !text.is_empty());
        let retention = section.span(
            "retention",
            Duration::from_secs(60)..=Duration::from_hours(365 * 24),
        );
        let generations = section.number("generations", 2..=60_u32);
        let cache_mib = section.number("cache_mib", 8..=16_384);
        let batch_max = section.number("batch_max", 1..=16_384);
        let replication = section.choice(
            "replication",
            &[("off", Replication::Off), ("topic", Replication::Topic)],
        );
        Some(Self {
            directory: directory?.into(),
            retention: retention?,
            generations: generations.and_then(NonZeroU32::new)?,
            cache_mib: cache_mib?,
            batch_max: batch_max?,
            replication: replication?,
        })
    }
}
