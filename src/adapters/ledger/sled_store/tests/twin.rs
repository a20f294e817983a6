//! Decides that the ledger on disk remembers what its twin in memory remembers, whatever was done to both.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::open;
use crate::adapters::ledger::Ledger;
use crate::adapters::ledger::examples::{
    RETENTION, START, answered, block, recall, started, subject,
};
use crate::adapters::ledger::memory::{Flushing, MemoryLedger};
use crate::domain::attempt::Verdict;
use crate::domain::ledger_entry::Entry;

const INTENTS: u64 = 6;

#[derive(Clone, Debug)]
enum Step {
    Start(u64),
    Answer(u64, Verdict),
    /// Hours go by.
    Wait(u32),
    Expire,
    /// The process ends and comes back.
    Restart,
}

fn steps() -> impl Strategy<Value = Step> {
    let intent = 0..INTENTS;
    prop_oneof![
        4 => intent.clone().prop_map(Step::Start),
        4 => (intent, prop::sample::select(Verdict::ALL.to_vec()))
            .prop_map(|(id, verdict)| Step::Answer(id, verdict)),
        3 => (1..100_u32).prop_map(Step::Wait),
        2 => Just(Step::Expire),
        1 => Just(Step::Restart),
    ]
}

fn write(ledger: &impl Ledger, entry: Entry) {
    let expected = ledger.recall(entry.subject.ledger_key()).unwrap();
    let expected = expected.map(|recorded| recorded.story);
    block(ledger.persist(expected, entry)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_disk_forgets_nothing_that_memory_remembers(
        steps in prop::collection::vec(steps(), 1..40),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let twin = MemoryLedger::new(RETENTION, Flushing::Automatic);
        let mut ledger = open(directory.path(), START).unwrap();
        let mut now = START;
        // What only the disk still remembers would go on differently.
        let mut retired = BTreeSet::new();
        for step in steps {
            match step {
                Step::Start(id) | Step::Answer(id, _) if retired.contains(&id) => {}
                Step::Start(id) => {
                    write(&ledger, started(id, now));
                    write(&twin, started(id, now));
                }
                Step::Answer(id, verdict) => {
                    write(&ledger, answered(id, now, verdict));
                    write(&twin, answered(id, now, verdict));
                }
                Step::Wait(hours) => now = now.plus(Duration::from_secs(3600) * hours),
                Step::Expire => {
                    ledger.expire(now).unwrap();
                    twin.expire(now).unwrap();
                    let forgotten = (0..INTENTS).filter(|id| {
                        recall(&twin, *id).is_none() && recall(&ledger, *id).is_some()
                    });
                    retired.extend(forgotten);
                }
                Step::Restart => {
                    drop(ledger);
                    ledger = open(directory.path(), now).unwrap();
                }
            }
            for id in (0..INTENTS).filter(|id| !retired.contains(id)) {
                prop_assert_eq!(recall(&ledger, id), recall(&twin, id));
            }
        }
        let mut seen = Vec::new();
        ledger
            .each_story(&mut |story| {
                seen.push((story.subject.ledger_key(), Arc::new(story.clone())));
                true
            })
            .unwrap();
        seen.sort_by_key(|(key, _)| *key);
        let mut held: Vec<_> = (0..INTENTS)
            .filter_map(|id| Some((subject(id).ledger_key(), recall(&ledger, id)?)))
            .collect();
        held.sort_by_key(|(key, _)| *key);
        prop_assert_eq!(seen, held);
    }
}
