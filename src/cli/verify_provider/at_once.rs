//! Decides whether requests that come at once under one key become one message.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::attempt::Verdict;

use super::report::{Check, Standing};
use super::seen::Seen;

/// Requests that are sent at once.
pub const COUNT: u32 = 8;

/// Judges the answers to requests at once under one new key, with what one more got after them. `marked` tells that the
/// profile names a mark of replays.
pub fn judge(seen: &[Seen], settled: Option<&Seen>, marked: bool) -> Check {
    let all = || seen.iter().chain(settled);
    let ids: BTreeSet<_> = all()
        .filter_map(|seen| seen.message_id.as_deref())
        .collect();
    let accepted = all().filter(|seen| seen.is_accepted());
    let fresh = accepted.clone().filter(|seen| !seen.replay).count();
    let tally = tally(seen);
    let (observed, verdict) = match (ids.len(), fresh) {
        (2.., _) => (
            format!("{} messages for one key: {tally}", ids.len()),
            Standing::Broken,
        ),
        (0, 2..) if marked => (
            format!("{fresh} acceptances that are no replay: {tally}"),
            Standing::Broken,
        ),
        _ if accepted.count() == 0 => (format!("none was accepted: {tally}"), Standing::Unknown),
        (0, _) if !marked => (
            format!("{tally}; without ids and marks nobody can tell how many messages"),
            Standing::Unknown,
        ),
        (_, _) => (format!("one message: {tally}"), Standing::Holds),
    };
    Check {
        check: "at_once",
        claim: format!("{COUNT} requests at once under one key are one message"),
        observed,
        verdict,
    }
}

/// The status at which equal requests were called a conflict: such an intent would be set aside as if its content had
/// changed.
pub fn mistaken_conflict(seen: &[Seen]) -> Option<u16> {
    seen.iter()
        .find(|seen| seen.verdict == Verdict::Conflict)
        .and_then(|seen| seen.status)
}

fn tally(seen: &[Seen]) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for seen in seen {
        let name = match seen.replay && seen.is_accepted() {
            true => "replayed",
            false => seen.verdict.name(),
        };
        *counts.entry(name).or_default() += 1;
    }
    let counts: Vec<_> = counts
        .into_iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{accepted, answered, replayed, without_id};
    use super::*;

    fn standing(seen: &[Seen], settled: Option<&Seen>, marked: bool) -> (Standing, String) {
        let check = judge(seen, settled, marked);
        (check.verdict, check.observed)
    }

    #[test]
    fn one_acceptance_among_replays_and_polls_holds() {
        let seen = [
            accepted("a"),
            replayed("a"),
            answered(409, Verdict::InProgress),
            answered(409, Verdict::InProgress),
        ];
        assert_eq!(
            standing(&seen, Some(&replayed("a")), true),
            (
                Standing::Holds,
                "one message: 1 accepted, 2 in_progress, 1 replayed".to_owned()
            )
        );
    }

    #[test]
    fn two_ids_are_two_messages() {
        assert_eq!(
            standing(&[accepted("a"), accepted("b")], None, true),
            (
                Standing::Broken,
                "2 messages for one key: 2 accepted".to_owned()
            )
        );
        let later = accepted("b");
        assert_eq!(
            standing(&[accepted("a")], Some(&later), true).0,
            Standing::Broken
        );
    }

    #[test]
    fn without_ids_a_second_unmarked_acceptance_tells() {
        let seen = [without_id(accepted("a")), without_id(accepted("a"))];
        assert_eq!(standing(&seen, None, true).0, Standing::Broken);
        assert_eq!(standing(&seen, None, false).0, Standing::Unknown);
        let seen = [without_id(accepted("a")), without_id(replayed("a"))];
        assert_eq!(standing(&seen, None, true).0, Standing::Holds);
    }

    #[test]
    fn where_none_was_accepted_nothing_was_seen() {
        let seen = [answered(429, Verdict::Throttled)];
        assert_eq!(
            standing(&seen, None, true),
            (
                Standing::Unknown,
                "none was accepted: 1 throttled".to_owned()
            )
        );
    }

    #[test]
    fn equal_requests_that_are_called_a_conflict_are_pointed_out() {
        assert_eq!(mistaken_conflict(&[accepted("a")]), None);
        let seen = [accepted("a"), answered(409, Verdict::Conflict)];
        assert_eq!(mistaken_conflict(&seen), Some(409));
    }
}
