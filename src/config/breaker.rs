//! Decides when a provider counts as down. How that is judged is `domain::breaker`.

use std::time::Duration;

use super::section::Section;

/// `[breaker]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    /// Answers that are looked back at, at most.
    pub answers: u32,
    /// No further back than this.
    pub window: Duration,
    /// Opens when so many percent of `answers` were failures.
    pub share_percent: u32,
    /// Opens when so many answers in a row were failures.
    pub in_row: u32,
    /// From opening to the first probe; doubles up to `retry.probe_interval`.
    pub first_probe: Duration,
}

impl BreakerConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        const HOUR: Duration = Duration::from_hours(1);
        let answers = section.number("answers", 1..=1_000);
        let window = section.span("window", Duration::from_secs(1)..=HOUR);
        let share_percent = section.number("share_percent", 1..=100);
        let in_row = section.number("in_row", 1..=1_000);
        let first_probe = section.span("first_probe", Duration::from_millis(10)..=HOUR);
        Some(Self {
            answers: answers?,
            window: window?,
            share_percent: share_percent?,
            in_row: in_row?,
            first_probe: first_probe?,
        })
    }
}
