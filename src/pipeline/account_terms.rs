//! Puts the terms of an account together: what the configuration says, and what its profile says.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::config::Config;
use crate::config::providers::ProviderConfig;
use crate::domain::account_gate::RateLimit;
use crate::domain::breaker::BreakerRules;
use crate::domain::dispatch::{KeyTerms, LookupTerms, Terms};
use crate::domain::profile::Profile;
use crate::domain::retry::{Backoff, Pace};

/// The rate of the configuration, else of the profile; a burst goes with the rate that it was said for.
pub(super) fn rate_limit(provider: &ProviderConfig, profile: &Profile) -> Option<RateLimit> {
    let of_profile = || {
        let per_second = profile.limits.rate_per_second.and_then(NonZeroU32::new)?;
        let burst = profile.limits.burst.and_then(NonZeroU32::new);
        Some(RateLimit { per_second, burst })
    };
    let limit = match provider.rate_per_second {
        Some(per_second) => Some(RateLimit {
            per_second,
            burst: None,
        }),
        None => of_profile(),
    };
    limit.map(|limit| RateLimit {
        burst: provider.burst.or(limit.burst),
        ..limit
    })
}

/// When its circuit opens.
pub(super) fn rules(config: &Config) -> BreakerRules {
    BreakerRules {
        answers: config.breaker.answers,
        window: config.breaker.window,
        share_percent: config.breaker.share_percent,
        in_row: config.breaker.in_row,
        first_probe: config.breaker.first_probe,
        probe_interval: config.retry.probe_interval,
    }
}

/// The terms of a profile under this configuration.
pub(super) fn terms(config: &Config, profile: &Profile) -> Terms {
    let (base, cap) = (config.retry.base, config.retry.cap);
    with_profile(
        profile,
        &Terms {
            key: None,
            lookup: None,
            request_span: Duration::ZERO,
            transport_bound: Duration::ZERO,
            budget: config.retry.budget,
            in_progress_max: config.retry.in_progress_max,
            pace: Pace {
                backoff: Backoff { base, cap },
                in_progress_wait: config.retry.in_progress_wait,
                probe_interval: config.retry.probe_interval,
            },
        },
    )
}

/// `terms` with what this version of the profile says.
pub(super) fn with_profile(profile: &Profile, terms: &Terms) -> Terms {
    Terms {
        key: profile.key.as_ref().map(|key| KeyTerms {
            window: key.window.length,
            margin: key.window.margin,
        }),
        lookup: profile.lookup.as_ref().map(|lookup| LookupTerms {
            delay: lookup.delay,
            keeps: lookup.keeps,
        }),
        request_span: profile.timeouts.request,
        transport_bound: profile.timeouts.unacknowledged,
        ..terms.clone()
    }
}
