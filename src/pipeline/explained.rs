//! The message ids of one account that the ledger can explain: each belongs to a story of its own, so that a look-up by
//! content takes no other intent's message for ours. Kept only where the profile's look-up can be ambiguous.
//!
//! A message that is being sent just now has no id yet. So what is on its way is counted by what a look-up would see of it,
//! and while an equal message is on its way a find proves nothing.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::adapters::ledger::{Ledger, LedgerError};
use crate::domain::profile::Pointer;
use crate::domain::time::Timestamp;

/// What is known of an account's message ids: a hash of each, 8 bytes, for as long as the provider can find the message.
#[derive(Debug, Default)]
pub struct Explained {
    hasher: RandomState,
    ids: Mutex<Option<Ids>>,
    /// Held by whoever reads the ledger, on a thread that may wait.
    reading: Mutex<()>,
    on_their_way: Mutex<HashMap<u64, u32>>,
}

/// The ids of the latest span and of the one before it.
#[derive(Debug)]
struct Ids {
    /// Whether the ledger has been read to its end.
    is_complete: bool,
    /// Whether a message was accepted without telling its id: it may be any of those that a search finds.
    some_without_id: bool,
    since: Timestamp,
    latest: HashSet<u64>,
    before: HashSet<u64>,
}

impl Ids {
    fn begun(now: Timestamp) -> Self {
        Self {
            is_complete: false,
            some_without_id: false,
            since: now,
            latest: HashSet::new(),
            before: HashSet::new(),
        }
    }

    fn insert(&mut self, hash: u64, now: Timestamp, keeps: Duration) -> bool {
        if now >= self.since.plus(keeps) {
            self.before = std::mem::take(&mut self.latest);
            self.since = now;
        }
        !self.before.contains(&hash) && self.latest.insert(hash)
    }
}

/// A message is on its way while this lives.
#[derive(Debug)]
pub struct OnItsWay<'a> {
    all: &'a Mutex<HashMap<u64, u32>>,
    looks_like: u64,
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.looks_like) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                all.remove(&self.looks_like);
            }
        }
    }
}

impl Explained {
    /// Reads the ledger once, so that what was accepted before this process is known too. Blocks; nobody else waits for it
    /// but who calls it at the same time.
    pub fn read(
        &self,
        provider: &str,
        ledger: &dyn Ledger,
        now: Timestamp,
        keeps: Duration,
    ) -> Result<(), LedgerError> {
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // From here on what is accepted is noted beside, and what was durable before is found.
        if self
            .ids()
            .get_or_insert_with(|| Ids::begun(now))
            .is_complete
        {
            return Ok(());
        }
        let (mut found, mut some_without_id) = (Vec::new(), false);
        ledger.each_story(&mut |story| {
            let ours = story
                .rendering
                .as_ref()
                .is_some_and(|rendering| &*rendering.provider == provider);
            if ours
                && story.updated_at.plus(keeps) >= now
                && let Some(answer) = story.accepted()
            {
                match answer.message_id.as_deref() {
                    Some(id) => found.push(self.hasher.hash_one(id)),
                    None => some_without_id = true,
                }
            }
            true
        })?;
        if let Some(ids) = self.ids().as_mut() {
            ids.latest.extend(found);
            ids.some_without_id |= some_without_id;
            ids.is_complete = true;
        }
        Ok(())
    }

    /// Takes note of an accepted message, if ids are kept at all. To be called once the acceptance is durable: what was
    /// durable before the ledger is read is found by that.
    pub fn accepted(&self, message_id: Option<&str>, now: Timestamp, keeps: Duration) {
        if let Some(ids) = self.ids().as_mut() {
            match message_id {
                Some(id) => drop(ids.insert(self.hasher.hash_one(id), now, keeps)),
                None => ids.some_without_id = true,
            }
        }
    }

    /// Whether the ledger explains this id.
    pub fn explains(&self, message_id: &str) -> bool {
        let hash = self.hasher.hash_one(message_id);
        self.ids()
            .as_ref()
            .is_some_and(|ids| ids.latest.contains(&hash) || ids.before.contains(&hash))
    }

    /// Claims an id for one story. Tells why not, if another has it, or may have it.
    pub fn claim(
        &self,
        message_id: &str,
        now: Timestamp,
        keeps: Duration,
    ) -> Result<(), &'static str> {
        let hash = self.hasher.hash_one(message_id);
        let mut ids = self.ids();
        let ids = ids.as_mut().filter(|ids| ids.is_complete);
        let ids = ids.ok_or("ledger_unread")?;
        if ids.some_without_id {
            return Err("another_without_id");
        }
        if ids.insert(hash, now, keeps) {
            Ok(())
        } else {
            Err("claimed")
        }
    }

    /// Counts a message that looks like this to a look-up as on its way.
    pub fn departs(&self, ours: &[(&Pointer, String)]) -> OnItsWay<'_> {
        let looks_like = self.looks(ours);
        *self.ways().entry(looks_like).or_default() += 1;
        let all = &self.on_their_way;
        OnItsWay { all, looks_like }
    }

    /// Whether a message that looks like this is on its way.
    pub fn is_on_its_way(&self, ours: &[(&Pointer, String)]) -> bool {
        self.ways().contains_key(&self.looks(ours))
    }

    fn looks(&self, ours: &[(&Pointer, String)]) -> u64 {
        let texts: Vec<&str> = ours.iter().map(|(_, text)| text.as_str()).collect();
        self.hasher.hash_one(texts)
    }

    fn ways(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.on_their_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn ids(&self) -> MutexGuard<'_, Option<Ids>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use uuid::Uuid;

    use super::*;
    use crate::adapters::ledger::{Changed, LedgerSize, Persisting, Recorded};
    use crate::domain::attempt::{Flags, Verdict};
    use crate::domain::idempotency_key::{
        IdempotencyKey, IntentFingerprint, LedgerKey, ProfileHash, RequestFingerprint,
    };
    use crate::domain::ledger_entry::{Answered, Entry, Fact, Rendering, Story, Subject, Writer};
    use crate::domain::ledger_log::Checkpoint;
    use crate::domain::position::{Offset, Position, TopicPartition};

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);
    const HOUR: Duration = Duration::from_secs(3_600);

    /// A ledger with these stories, which tells when it is being read and goes on when it is told.
    struct Told {
        stories: Vec<Story>,
        begun: Mutex<mpsc::Sender<()>>,
        go_on: Mutex<mpsc::Receiver<()>>,
    }

    impl Told {
        fn of(stories: Vec<Story>) -> (Self, mpsc::Receiver<()>, mpsc::Sender<()>) {
            let (begun, reading) = mpsc::channel();
            let (go_on, waiting) = mpsc::channel();
            let told = Self {
                stories,
                begun: Mutex::new(begun),
                go_on: Mutex::new(waiting),
            };
            (told, reading, go_on)
        }
    }

    impl Ledger for Told {
        fn recall(&self, _: LedgerKey) -> Result<Option<Recorded>, LedgerError> {
            Ok(None)
        }
        fn persist(&self, _: Option<Arc<Story>>, _: Entry) -> Persisting<Recorded> {
            Persisting::new().1
        }
        fn merge(&self, _: Vec<Entry>) -> Persisting<Vec<Changed>> {
            Persisting::new().1
        }
        fn keep_checkpoint(&self, _: Checkpoint) -> Persisting<()> {
            Persisting::new().1
        }
        fn checkpoint(&self) -> Result<Option<Checkpoint>, LedgerError> {
            Ok(None)
        }
        fn keep_profile(&self, _: ProfileHash, _: Arc<str>) -> Persisting<()> {
            Persisting::new().1
        }
        fn profile(&self, _: ProfileHash) -> Result<Option<Arc<str>>, LedgerError> {
            Ok(None)
        }
        fn each_story(&self, visit: &mut dyn FnMut(&Story) -> bool) -> Result<(), LedgerError> {
            self.begun.lock().unwrap().send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
            self.stories.iter().all(visit);
            Ok(())
        }
        fn expire(&self, _: Timestamp) -> Result<u64, LedgerError> {
            Ok(0)
        }
        fn size(&self) -> LedgerSize {
            LedgerSize::default()
        }
    }

    /// A message that `provider` accepted at `at`.
    fn accepted(provider: &str, id: Option<&str>, at: Timestamp) -> Story {
        let subject = Subject {
            event_id: None,
            key: Some(IdempotencyKey::derived(Uuid::nil())),
            fingerprint: IntentFingerprint([0; 32]),
            origin: Position {
                partition: TopicPartition {
                    topic: "t".into(),
                    partition: 0,
                },
                offset: Offset(0),
            },
            recorded_at: at,
        };
        let entry = |fact| Entry {
            subject: subject.clone(),
            at,
            round: 0,
            writer: Writer(Uuid::nil()),
            fact,
        };
        let mut story = Story::beginning(&entry(Fact::Started {
            attempt: 1,
            deadline: at,
            rendering: Rendering {
                provider: provider.into(),
                profile: ProfileHash([0; 32]),
                request: RequestFingerprint([0; 32]),
            },
        }));
        let answer = Answered {
            verdict: Verdict::Accepted,
            flags: Flags::default(),
            heard: true,
            status: Some(201),
            provider_code: None,
            message_id: id.map(Into::into),
            detail: "accepted".into(),
            due: None,
        };
        story.fold(&entry(Fact::Answered { attempt: 1, answer }));
        story
    }

    fn read(explained: &Explained, stories: Vec<Story>) {
        let (ledger, _reading, go_on) = Told::of(stories);
        go_on.send(()).unwrap();
        explained.read("ours", &ledger, NOW, HOUR).unwrap();
    }

    #[test]
    fn what_the_ledger_knows_of_this_provider_and_of_late_is_explained() {
        let explained = Explained::default();
        assert_eq!(explained.claim("m-1", NOW, HOUR), Err("ledger_unread"));
        let stories = vec![
            accepted("ours", Some("m-1"), NOW),
            accepted("other", Some("m-2"), NOW),
            accepted("ours", Some("m-3"), NOW.minus(2 * HOUR)),
        ];
        read(&explained, stories);
        let known = ["m-1", "m-2", "m-3"].map(|id| explained.explains(id));
        assert_eq!(known, [true, false, false]);
        assert_eq!(explained.claim("m-1", NOW, HOUR), Err("claimed"));
        assert_eq!(explained.claim("m-2", NOW, HOUR), Ok(()));
        assert_eq!(explained.claim("m-2", NOW, HOUR), Err("claimed"));
    }

    #[test]
    fn what_is_accepted_while_the_ledger_is_read_waits_for_nobody_and_is_known_after() {
        let explained = Explained::default();
        let (ledger, reading, go_on) = Told::of(vec![accepted("ours", Some("m-1"), NOW)]);
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| explained.read("ours", &ledger, NOW, HOUR));
            reading.recv().unwrap();
            // The reader stands in the middle of the ledger, and goes on only after this.
            explained.accepted(Some("m-2"), NOW, HOUR);
            assert_eq!(explained.claim("m-9", NOW, HOUR), Err("ledger_unread"));
            go_on.send(()).unwrap();
            reader.join().unwrap().unwrap();
        });
        assert!(explained.explains("m-1") && explained.explains("m-2"));
    }

    #[test]
    fn a_message_without_an_id_may_be_any_that_is_found() {
        for told in [true, false] {
            let explained = Explained::default();
            let before = (!told).then(|| accepted("ours", None, NOW));
            read(&explained, before.into_iter().collect());
            if told {
                explained.accepted(None, NOW, HOUR);
            }
            assert_eq!(explained.claim("m-1", NOW, HOUR), Err("another_without_id"));
        }
    }

    #[test]
    fn an_id_is_known_for_as_long_as_the_provider_can_find_it_and_not_for_ever() {
        let explained = Explained::default();
        read(&explained, Vec::new());
        explained.accepted(Some("m-1"), NOW, HOUR);
        explained.accepted(Some("m-2"), NOW.plus(HOUR), HOUR);
        assert!(explained.explains("m-1"));
        explained.accepted(Some("m-3"), NOW.plus(2 * HOUR), HOUR);
        assert!(!explained.explains("m-1") && explained.explains("m-2"));
    }
}
