//! Decides where a plan cannot hold: what the configuration and a provider's profile promise each other. It looks at numbers
//! only, and asks nobody.

use std::time::Duration;

use crate::config::spans;
use crate::domain::dispatch::{KeyTerms, Terms};
use crate::domain::profile::{Lookup, LookupProof};
use crate::domain::retry::Backoff;

/// What is promised at a provider, and what does not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// What follows an outcome that nobody knows, if all fits.
    pub(super) promise: String,
    /// Whether that is the best there is: a repeat under a key.
    pub(super) is_sure: bool,
    /// What does not fit.
    pub(super) doubts: Vec<String>,
}

/// The version of the UUID that a derived key is (`domain::key_ring`).
const KEY_VERSION: u32 = 8;

/// Looks at one provider's terms, and at the version that it wants of a UUID, beside the shutdown's time and the ledger's memory.
pub(super) fn look(
    terms: &Terms,
    lookup: Option<&Lookup>,
    uuid_version: Option<u32>,
    drain: Duration,
    retention: Duration,
) -> Plan {
    let mut doubts = Vec::new();
    let span = terms.request_span;
    if span >= drain {
        doubts.push(format!(
            "a request may take {}, and shutdown.drain is {}: a shutdown can cut it, and its outcome is unknown",
            spans::show(span),
            spans::show(drain)
        ));
    }
    if let Some(key) = &terms.key {
        look_at_window(terms, key, retention, &mut doubts);
    }
    if let Some(version) = uuid_version.filter(|version| *version != KEY_VERSION) {
        doubts.push(format!(
            "the provider wants UUIDs of version {version}, and our keys have version {KEY_VERSION}: if it checks that, it refuses every \
             request; find out with verify-provider, or let each intent bring an idempotency_key of version {version}"
        ));
    }
    if lookup.is_some_and(|lookup| lookup.proof == LookupProof::Content) {
        doubts.push(
            "a look-up by content knows what this instance sent: an equal message to the same recipient that another instance or program \
             sends from this account at that time may be taken for it; key records by recipient, and share the account with nobody"
                .to_owned(),
        );
    }
    let asked = lookup.map(|lookup| {
        let by = match lookup.proof {
            LookupProof::Key => "by its key",
            LookupProof::Reference => "by its reference",
            LookupProof::Content => "by recipient and content",
        };
        format!("looked up {by} after {}", spans::show(lookup.delay))
    });
    let (promise, is_sure) = match (&terms.key, asked) {
        (Some(key), asked) => {
            let then = asked.map_or("set aside".to_owned(), |asked| asked);
            let window = spans::show(key.window);
            (
                format!(
                    "recognises keys for {window}: each intent is delivered once within that time; what is unknown then is {then}"
                ),
                true,
            )
        }
        (None, Some(asked)) => (
            format!("recognises no keys: an attempt of unknown outcome is {asked}"),
            true,
        ),
        (None, None) => (
            "recognises no keys and cannot be asked: an attempt of unknown outcome is never repeated, but set aside".to_owned(),
            false,
        ),
    };
    Plan {
        promise,
        is_sure,
        doubts,
    }
}

fn look_at_window(terms: &Terms, key: &KeyTerms, retention: Duration, doubts: &mut Vec<String>) {
    let repeats_until = key.window.saturating_sub(key.margin);
    let series = series_max(terms.budget, terms.request_span, terms.pace.backoff);
    if series > repeats_until {
        doubts.push(format!(
            "{} attempts with their waits may take {}, and the last one may start {} after the first: lower retry.budget or \
             retry.cap, or an outcome may stay unknown",
            terms.budget,
            spans::show(series),
            spans::show(repeats_until)
        ));
    }
    if retention < key.window {
        doubts.push(format!(
            "the provider remembers keys for {}, and ledger.retention is {}: what comes again in between is answered from the \
             provider's memory, and counted as a suspected duplicate",
            spans::show(key.window),
            spans::show(retention)
        ));
    }
}

/// The longest that a series of failed attempts may take from its first start to its last one's.
fn series_max(budget: u32, request_span: Duration, backoff: Backoff) -> Duration {
    (0..budget.saturating_sub(1)).fold(Duration::ZERO, |sum, n| {
        sum.saturating_add(request_span)
            .saturating_add(backoff.ceiling(n))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::retry::Pace;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_millis(500),
        cap: Duration::from_secs(60),
    };
    const DAY: Duration = Duration::from_secs(86_400);
    const DRAIN: Duration = Duration::from_secs(40);

    fn terms(window: Option<Duration>) -> Terms {
        Terms {
            key: window.map(|window| KeyTerms {
                window,
                margin: Duration::from_secs(105),
            }),
            lookup: None,
            request_span: Duration::from_secs(30),
            transport_bound: Duration::from_secs(10),
            budget: 8,
            in_progress_max: 8,
            pace: Pace {
                backoff: BACKOFF,
                in_progress_wait: Duration::from_secs(1),
                probe_interval: Duration::from_secs(60),
            },
        }
    }

    #[test]
    fn a_series_takes_its_requests_and_the_longest_waits_between() {
        // Seven requests of 30 s, and 0.5 + 1 + 2 + 4 + 8 + 16 + 32 s between.
        let series = series_max(8, Duration::from_secs(30), BACKOFF);
        assert_eq!(series, Duration::from_millis(210_000 + 63_500));
        assert_eq!(
            series_max(1, Duration::from_secs(30), BACKOFF),
            Duration::ZERO
        );
        assert_eq!(
            series_max(0, Duration::from_secs(30), BACKOFF),
            Duration::ZERO
        );
    }

    #[test]
    fn a_plan_that_holds_has_no_doubts() {
        let plan = look(&terms(Some(DAY)), None, Some(8), DRAIN, 7 * DAY);
        assert_eq!(plan.doubts, Vec::<String>::new());
        assert!(plan.is_sure);
    }

    #[test]
    fn a_window_that_is_shorter_than_a_series_is_a_doubt_and_one_that_just_holds_is_none() {
        let just = Duration::from_millis(273_500) + Duration::from_secs(105);
        assert!(
            look(&terms(Some(just)), None, None, DRAIN, DAY)
                .doubts
                .is_empty()
        );
        let short = just - Duration::from_millis(1);
        let plan = look(&terms(Some(short)), None, None, DRAIN, DAY);
        assert_eq!(plan.doubts.len(), 1, "{plan:?}");
        assert!(plan.doubts[0].starts_with("8 attempts with their waits may take"));
    }

    #[test]
    fn a_provider_that_remembers_longer_than_the_ledger_and_a_request_longer_than_the_drain_are_doubts()
     {
        let plan = look(
            &terms(Some(30 * DAY)),
            None,
            None,
            Duration::from_secs(30),
            7 * DAY,
        );
        assert_eq!(plan.doubts.len(), 2, "{plan:?}");
    }

    #[test]
    fn a_field_that_takes_uuids_of_another_version_than_ours_is_a_doubt() {
        let plan = look(&terms(Some(DAY)), None, Some(4), DRAIN, 7 * DAY);
        assert_eq!(plan.doubts.len(), 1, "{plan:?}");
        assert!(plan.doubts[0].starts_with("the provider wants UUIDs of version 4"));
        let ours = uuid::Builder::from_custom_bytes([7; 16]).into_uuid();
        assert_eq!(ours.get_version_num(), KEY_VERSION as usize);
    }

    #[test]
    fn without_a_key_and_without_a_look_up_nothing_is_sure() {
        let plan = look(&terms(None), None, None, DRAIN, DAY);
        assert!(!plan.is_sure);
        assert!(plan.promise.contains("cannot be asked"));
    }
}
