//! Decides how much patience there is. What is done with it is `domain::retry`.

use std::time::Duration;

use super::section::Section;
use super::spans;

/// `[retry]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryConfig {
    /// Attempts that may end not sent, throttled or unknown.
    pub budget: u32,
    /// The bound of the first random wait; it doubles with each retry.
    pub base: Duration,
    /// The bound's own bound, at least `base`.
    pub cap: Duration,
    /// A longer Retry-After is ignored.
    pub wait_max: Duration,
    /// Polls while the provider is still working on a key.
    pub in_progress_max: u32,
    /// The wait between such polls, where the provider names none.
    pub in_progress_wait: Duration,
    /// How often an account that refuses everything is tried again.
    pub probe_interval: Duration,
}

impl RetryConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        const HOUR: Duration = Duration::from_hours(1);
        const TENTH: Duration = Duration::from_millis(100);
        let budget = section.number("budget", 1..=100);
        let base = section.span("base", Duration::from_millis(1)..=HOUR);
        let cap = section.span("cap", Duration::from_millis(1)..=Duration::from_hours(24));
        if let (Some(base), Some(cap)) = (base, cap)
            && cap < base
        {
            let least = spans::show(base);
            section.fault("cap", &format!("must be at least retry.base ({least})"));
        }
        let wait_max = section.span(
            "wait_max",
            Duration::from_secs(1)..=Duration::from_hours(30 * 24),
        );
        let in_progress_max = section.number("in_progress_max", 1..=10_000);
        let in_progress_wait = section.span("in_progress_wait", Duration::from_millis(10)..=HOUR);
        let probe_interval = section.span("probe_interval", TENTH..=HOUR);
        Some(Self {
            budget: budget?,
            base: base?,
            cap: cap?,
            wait_max: wait_max?,
            in_progress_max: in_progress_max?,
            in_progress_wait: in_progress_wait?,
            probe_interval: probe_interval?,
        })
    }
}
