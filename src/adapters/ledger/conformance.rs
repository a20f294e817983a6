//! Decides what a ledger must do, whichever it is: one suite, run by each store over a factory of its own.
//! It does not know how a store keeps what it is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::examples::{
    RETENTION, START, answered, block, persist, recall, settle, started, subject,
};
use super::memory::{Flushing, MemoryLedger};
use super::sled_store::{LedgerOptions, SledLedger};
use super::{Ledger, LedgerError};
use crate::domain::attempt::Verdict;
use crate::domain::idempotency_key::ProfileHash;
use crate::domain::ledger_log::{Checkpoint, LogView};
use crate::domain::position::{NextOffset, Offset};
use crate::domain::time::Timestamp;

fn stories(ledger: &impl Ledger) -> BTreeMap<String, Timestamp> {
    let mut seen = BTreeMap::new();
    ledger
        .each_story(&mut |story| {
            let id = story.subject.event_id.clone().unwrap().to_string();
            assert_eq!(seen.insert(id, story.updated_at), None, "seen twice");
            true
        })
        .unwrap();
    seen
}

fn what_was_persisted_is_recalled(ledger: &impl Ledger) {
    assert_eq!(recall(ledger, 1), None);
    let open = persist(ledger, None, started(1, START));
    assert_eq!(recall(ledger, 1).as_ref(), Some(&open.story));
    let settled = persist(ledger, Some(&open), answered(1, START, Verdict::Accepted));
    assert!(settled.story.is_settled());
    assert_eq!(recall(ledger, 1), Some(settled.story));
    assert_eq!(recall(ledger, 2), None);
}

fn a_story_that_moved_on_is_not_overwritten(ledger: &impl Ledger) {
    let open = persist(ledger, None, started(1, START));
    let late = block(ledger.persist(None, started(1, START)));
    assert!(matches!(late, Err(LedgerError::Moved(_))), "{late:?}");
    let settled = persist(ledger, Some(&open), answered(1, START, Verdict::Accepted));
    let stale = block(ledger.persist(
        Some(Arc::clone(&open.story)),
        answered(1, START, Verdict::Unknown),
    ));
    assert!(matches!(stale, Err(LedgerError::Moved(_))), "{stale:?}");
    let absent = block(ledger.persist(
        Some(Arc::clone(&open.story)),
        answered(2, START, Verdict::Unknown),
    ));
    assert!(matches!(absent, Err(LedgerError::Moved(_))), "{absent:?}");
    assert_eq!(recall(ledger, 1), Some(settled.story));
    assert_eq!(recall(ledger, 2), None);
}

fn an_entry_seen_twice_changes_nothing(ledger: &impl Ledger) {
    let settled = settle(ledger, 1, START);
    let again = persist(
        ledger,
        Some(&settled),
        answered(1, START, Verdict::Accepted),
    );
    assert_eq!(again.story, settled.story);
    assert_eq!(ledger.size().entries, 1);
}

fn entries_from_elsewhere_are_folded_into_what_is_stored(ledger: &impl Ledger) {
    let open = persist(ledger, None, started(1, START));
    let news = vec![
        answered(1, START, Verdict::Accepted),
        started(2, START),
        answered(2, START, Verdict::Unknown),
        answered(2, START, Verdict::Rejected),
    ];
    let mut changed = block(ledger.merge(news.clone())).unwrap();
    changed.sort_by(|one, other| {
        one.after
            .subject
            .event_id
            .cmp(&other.after.subject.event_id)
    });
    let befores: Vec<_> = changed.iter().map(|story| &story.before).collect();
    assert_eq!(befores, [&Some(Arc::clone(&open.story)), &None]);
    let settled = recall(ledger, 1).unwrap();
    assert!(settled.is_settled());
    let raised = recall(ledger, 2).unwrap();
    assert!(!raised.has_unknown_answer(), "{raised:?}");
    let stale = block(ledger.persist(
        Some(Arc::clone(&open.story)),
        answered(1, START, Verdict::Unknown),
    ));
    assert!(matches!(stale, Err(LedgerError::Moved(_))), "{stale:?}");

    let size = ledger.size();
    for known in [news, Vec::new()] {
        assert_eq!(block(ledger.merge(known)).unwrap(), []);
    }
    let afters: Vec<_> = changed.into_iter().map(|story| story.after).collect();
    assert_eq!(afters, [Arc::clone(&settled), Arc::clone(&raised)]);
    assert_eq!(recall(ledger, 1), Some(settled));
    assert_eq!(recall(ledger, 2), Some(raised));
    assert_eq!(ledger.size(), size, "what is known is not written again");
}

fn the_last_checkpoint_is_found_again(ledger: &impl Ledger) {
    let partition = subject(1).origin.partition;
    let at = |next| Checkpoint {
        followed: vec![(
            partition.clone(),
            LogView::beginning(
                NextOffset(next),
                Some((started(1, START).writer, Offset(0))),
            ),
        )],
        appended_to: START,
        unpublished: [partition.clone()].into(),
    };
    assert_eq!(ledger.checkpoint().unwrap(), None);
    for next in [1, 7, 2] {
        block(ledger.keep_checkpoint(at(next))).unwrap();
        assert_eq!(ledger.checkpoint().unwrap(), Some(at(next)));
    }
}

fn settled_stories_expire_and_open_ones_stay(ledger: &impl Ledger) {
    settle(ledger, 1, START);
    persist(ledger, None, started(2, START));
    let day = Duration::from_secs(86_400);
    let later = START.plus(4 * day);
    settle(ledger, 3, later);
    // A story that came back to life in a later period is as young as its last write.
    let open = persist(ledger, None, started(4, START));
    persist(ledger, Some(&open), answered(4, later, Verdict::Accepted));
    assert_eq!(ledger.expire(START.plus(RETENTION)).unwrap(), 0);
    assert_eq!(stories(ledger).len(), 4);

    ledger.expire(START.plus(RETENTION + day)).unwrap();
    let left: Vec<String> = stories(ledger).into_keys().collect();
    assert_eq!(left, ["order-2", "order-3", "order-4"]);
    assert_eq!(recall(ledger, 1), None);
    assert!(recall(ledger, 2).is_some_and(|story| !story.is_settled()));
    assert!(recall(ledger, 4).is_some_and(|story| story.is_settled()));

    ledger.expire(START.plus(10 * RETENTION)).unwrap();
    let left: Vec<String> = stories(ledger).into_keys().collect();
    assert_eq!(left, ["order-2"]);
    assert_eq!(ledger.size().entries, 1);
}

fn a_profile_outlives_expiry(ledger: &impl Ledger) {
    let text: Arc<str> = "name = \"captifi\"".into();
    let hash = profile_hash(&text);
    assert_eq!(ledger.profile(hash).unwrap(), None);
    block(ledger.keep_profile(hash, Arc::clone(&text))).unwrap();
    block(ledger.keep_profile(hash, Arc::clone(&text))).unwrap();
    persist(ledger, None, started(1, START));
    ledger.expire(START.plus(10 * RETENTION)).unwrap();
    assert_eq!(ledger.profile(hash).unwrap(), Some(text));
}

fn profile_hash(text: &str) -> ProfileHash {
    use sha2::{Digest, Sha256};
    ProfileHash(Sha256::digest(text.as_bytes()).into())
}

fn a_visit_can_stop_early(ledger: &impl Ledger) {
    for id in 0..5 {
        settle(ledger, id, START);
    }
    let mut seen = 0;
    ledger
        .each_story(&mut |_| {
            seen += 1;
            seen < 2
        })
        .unwrap();
    assert_eq!(seen, 2);
}

/// A store, and what must live as long as it.
type Made<L> = (L, Option<tempfile::TempDir>);

fn in_memory() -> Made<MemoryLedger> {
    (MemoryLedger::new(RETENTION, Flushing::Automatic), None)
}

fn on_disk() -> Made<SledLedger> {
    let directory = tempfile::tempdir().unwrap();
    let options = LedgerOptions {
        directory: directory.path().to_owned(),
        retention: RETENTION,
        generations: 7.try_into().unwrap(),
        cache_bytes: 8 << 20,
        batch_max: 128,
        watch: None,
    };
    (SledLedger::open(options, START).unwrap(), Some(directory))
}

fn whole_suite<L: Ledger>(made: impl Fn() -> Made<L>) {
    let suite: [fn(&L); 8] = [
        what_was_persisted_is_recalled,
        a_story_that_moved_on_is_not_overwritten,
        an_entry_seen_twice_changes_nothing,
        entries_from_elsewhere_are_folded_into_what_is_stored,
        settled_stories_expire_and_open_ones_stay,
        a_profile_outlives_expiry,
        the_last_checkpoint_is_found_again,
        a_visit_can_stop_early,
    ];
    for case in suite {
        let (ledger, _kept) = made();
        case(&ledger);
    }
}

#[test]
fn the_ledger_in_memory_conforms() {
    whole_suite(in_memory);
}

#[test]
fn the_ledger_on_disk_conforms() {
    whole_suite(on_disk);
}
