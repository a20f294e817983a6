//! Decides when a template that is rejected too often is paused. How that is judged is `domain::rejection_limit`.

use std::time::Duration;

use crate::domain::rejection_limit::RejectionRules;

use super::section::Section;

/// `[rejections]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectionsConfig {
    /// Pauses when so many percent of `outcomes` were rejections; 0 pauses nothing.
    pub share_percent: u32,
    /// Outcomes that are looked back at.
    pub outcomes: u32,
}

impl RejectionsConfig {
    /// The rules of every template, if any is to be paused.
    pub fn rules(&self, probe_interval: Duration) -> Option<RejectionRules> {
        let rules = RejectionRules {
            outcomes: self.outcomes,
            share_percent: self.share_percent,
            probe_interval,
        };
        (self.share_percent > 0).then_some(rules)
    }

    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let share_percent = section.number("share_percent", 0..=100);
        let outcomes = section.number("outcomes", 1..=1_000);
        Some(Self {
            share_percent: share_percent?,
            outcomes: outcomes?,
        })
    }
}
