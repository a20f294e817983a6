//! What must hold in every case, whatever else it shows: one delivery a key by the same bytes each time, nothing
//! vanishes, nothing is committed that is not durable, every request was in the ledger before, and nothing panics.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use rdkafka::Message as _;
use rdkafka::message::{Headers as _, OwnedMessage};
use sendonce::domain::idempotency_key::IntentFingerprint;
use sendonce::domain::intent::decode::{Decoded, IntakeRules, RecordView, decode};
use sendonce::domain::ledger_entry::Story;

use crate::dead_letters::dead_letters;
use crate::kafka_view::Kafka;
use crate::ledger_view::stories;
use crate::product::{ANOTHER_GROUP, Home, SOON, code};
use crate::scripted::Scripted;
use crate::stub::Stub;
use crate::waiting::until;
use crate::worker::Worker;

/// Everyone who took part in a case.
pub struct Standing<'a> {
    kafka: &'a Kafka,
    home: &'a Home,
    group: &'static str,
    stubs: Vec<&'a Stub>,
    scripted: Vec<&'a Scripted>,
    open: Vec<(i32, i64)>,
}

impl<'a> Standing<'a> {
    /// A case on these brokers with one worker's home, whose intents have all come to their end.
    pub fn of(kafka: &'a Kafka, home: &'a Home) -> Self {
        Self {
            kafka,
            home,
            group: "sendonce",
            stubs: Vec::new(),
            scripted: Vec::new(),
            open: Vec::new(),
        }
    }

    /// The same with this provider in it.
    pub fn stub(mut self, stub: &'a Stub) -> Self {
        self.stubs.push(stub);
        self
    }

    /// The same with this provider in it.
    pub fn scripted(mut self, scripted: &'a Scripted) -> Self {
        self.scripted.push(scripted);
        self
    }

    /// The same where these records, by partition and offset, have not come to their end.
    pub fn open(mut self, open: &[(i32, i64)]) -> Self {
        self.open.extend_from_slice(open);
        self
    }

    /// The same where what counts is committed in the other group.
    pub fn in_another_group(mut self) -> Self {
        self.group = ANOTHER_GROUP;
        self
    }

    /// Waits until the worker's counts add up, ends it, and holds everyone to the rest. Returns what the ledger holds.
    pub async fn holds(self, mut worker: Worker) -> Ledger {
        add_up(&worker, self.open.len() as u64).await;
        worker.term();
        assert_eq!(code(worker.ended(SOON).await), 0, "ends as asked");
        self.holds_after_the_end().await
    }

    /// The same where no process runs any more.
    pub async fn holds_after_the_end(self) -> Ledger {
        assert!(!self.home.log().contains("panicked"), "nothing panics");
        let ledger = Ledger::of(self.home);
        self.one_delivery_a_key(&ledger).await;
        self.only_the_durable_is_committed(&ledger);
        self.one_dead_letter_a_record();
        ledger
    }

    async fn one_delivery_a_key(&self, ledger: &Ledger) {
        let mut requests: BTreeMap<String, u64> = BTreeMap::new();
        for stub in &self.stubs {
            let stats = stub.stats().await;
            assert_eq!(stats.duplicate_deliveries, 0, "{stats:?}");
            assert_eq!(stats.keys_with_differing_requests, 0, "{stats:?}");
            for item in stub.deliveries().await {
                assert!(item.deliveries <= 1, "{item:?}");
                let story = item.key.as_deref().and_then(|key| ledger.by_key(key));
                let accepted = story.and_then(Story::accepted);
                if let Some(id) = accepted.and_then(|answer| answer.message_id.as_deref()) {
                    assert_eq!(item.message_id.as_deref(), Some(id));
                }
                *requests.entry(item.key.unwrap_or_default()).or_default() += item.requests;
            }
        }
        for scripted in &self.scripted {
            let seen = scripted.seen();
            for one in &seen {
                let mut of_its_key = seen.iter().filter(|other| other.key() == one.key());
                let same =
                    of_its_key.all(|other| (&other.line, &other.body) == (&one.line, &one.body));
                assert!(one.key().is_none() || same, "one key, one request: {one:?}");
            }
            for (name, (made, delivered)) in scripted.by_key() {
                assert!(delivered <= 1, "{name} was delivered {delivered} times");
                let keyed = seen.iter().any(|one| one.key() == Some(&name));
                let name = if keyed { name } else { String::new() };
                *requests.entry(name).or_default() += made;
            }
        }
        let mut in_all = 0;
        for (key, made) in requests {
            in_all += made;
            if !key.is_empty() {
                let attempts = ledger.by_key(&key).map_or(0, attempts);
                assert!(
                    made <= attempts,
                    "{made} requests, {attempts} attempts: {key}"
                );
            }
        }
        let attempts: u64 = ledger.stories.iter().map(attempts).sum();
        assert!(in_all <= attempts, "{in_all} requests, {attempts} attempts");
    }

    /// Every record before a committed position has an entry that says how it ended, or asked for nothing.
    fn only_the_durable_is_committed(&self, ledger: &Ledger) {
        let committed = self.kafka.committed(self.group, "send-intents");
        for (partition, offset) in &self.open {
            let at = committed[usize::try_from(*partition).unwrap()].unwrap_or(0);
            assert!(at <= *offset, "{at} is committed, {offset} is open");
        }
        for record in self.kafka.records("send-intents") {
            let partition = usize::try_from(record.partition()).unwrap();
            if record.offset() < committed[partition].unwrap_or(0) {
                let ended = ledger.tells_the_end_of(&record);
                assert!(ended, "{partition}@{} is committed", record.offset());
            }
        }
    }

    /// No case of ours kills a worker between the broker's acknowledgement and the ledger's, so there is no second one.
    fn one_dead_letter_a_record(&self) {
        let letters = dead_letters(self.kafka);
        for pair in letters.windows(2) {
            assert_ne!(pair[0].origin, pair[1].origin, "{pair:?}");
        }
    }
}

/// Waits until records read = accepted + dead-lettered + suppressed + ignored + open, of which the last is `open`, and
/// as many attempts were counted as outcomes need.
async fn add_up(worker: &Worker, open: u64) {
    let counts = async || {
        let metrics = worker.metrics().await;
        let count = |name: &str| metrics.count(&format!("sendonce_{name}"), &[]);
        Counts {
            records: count("records_total"),
            accepted: metrics.count("sendonce_outcomes_total", &[("outcome", "accepted")]),
            dead_lettered: count("dead_letters_total"),
            suppressed: count("suppressed_total"),
            ignored: count("ignored_total"),
            open: count("open_intents"),
            panics: count("panics_total"),
        }
    };
    let ends = |counts: &Counts| {
        let Counts {
            accepted,
            dead_lettered,
            suppressed,
            ignored,
            ..
        } = counts;
        accepted + dead_lettered + suppressed + ignored
    };
    let counts = until("the counts to add up", SOON, counts, |counts| {
        counts.open == open && counts.records == ends(counts) + open
    })
    .await;
    assert_eq!(counts.panics, 0);
}

#[derive(Debug)]
struct Counts {
    records: u64,
    accepted: u64,
    dead_lettered: u64,
    suppressed: u64,
    ignored: u64,
    open: u64,
    panics: u64,
}

/// What a ledger holds that no process has open.
#[derive(Debug)]
pub struct Ledger {
    stories: Vec<Story>,
    settled_places: HashSet<(i32, i64)>,
    settled_prints: HashSet<IntentFingerprint>,
}

impl Ledger {
    /// The ledger of a home.
    pub fn of(home: &Home) -> Self {
        let stories = stories(&home.path(""));
        let settled = || stories.iter().filter(|story| story.is_settled());
        let place = |story: &Story| {
            let origin = &story.subject.origin;
            (origin.partition.partition, origin.offset.0)
        };
        Self {
            settled_places: settled().map(place).collect(),
            settled_prints: settled().map(|story| story.subject.fingerprint).collect(),
            stories,
        }
    }

    /// The one story of this event.
    pub fn story(&self, event_id: &str) -> &Story {
        let mut of_event = self
            .stories
            .iter()
            .filter(|story| story.subject.event_id.as_deref() == Some(event_id));
        let story = of_event.next().expect("a story");
        assert!(of_event.next().is_none(), "several stories of {event_id}");
        story
    }

    /// All stories.
    pub fn stories(&self) -> &[Story] {
        &self.stories
    }

    fn by_key(&self, key: &str) -> Option<&Story> {
        let keyed = |story: &&Story| {
            let own = story.subject.key.as_ref();
            own.is_some_and(|own| own.as_str() == key)
        };
        self.stories.iter().find(keyed)
    }

    fn tells_the_end_of(&self, record: &OwnedMessage) -> bool {
        let headers: Vec<(String, Option<Bytes>)> = record.headers().map_or_else(Vec::new, |all| {
            all.iter()
                .map(|one| (one.key.to_owned(), one.value.map(Bytes::copy_from_slice)))
                .collect()
        });
        let view = RecordView {
            value: record.payload(),
            headers: &headers,
            headers_unreadable: 0,
        };
        let same_content = match decode(&view, &IntakeRules::default()) {
            Decoded::Ignored(_) => return true,
            Decoded::Intent(intent) => self.settled_prints.contains(&intent.fingerprint()),
            Decoded::Refused(_) => false,
        };
        let place = (record.partition(), record.offset());
        same_content || self.settled_places.contains(&place)
    }
}

/// The attempts that a story knows the start of.
pub fn attempts(story: &Story) -> u64 {
    let started = story
        .attempts
        .values()
        .filter(|facts| facts.started.is_some());
    started.count() as u64
}
