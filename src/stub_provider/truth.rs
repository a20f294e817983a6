//! Decides how what really happened is counted and written down. It never forgets, and nothing in it changes what the
//! provider answers: the provider's memory has a window, the truth has none.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};

use jiff::Timestamp;
use serde::Serialize;

use super::faults::Fault;
use super::memory::RequestHash;

/// What happened to one request, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A whole request arrived.
    Request,
    /// Its message was accepted: a person gets it.
    Delivery,
    /// A key's stored answer was given.
    Replay,
    /// It was turned away because the key's first request is being worked on.
    InProgress,
    /// It was turned away because the key belongs to another request.
    Conflict,
    /// It was turned away because it has no key.
    KeyMissing,
    /// It was turned away because no recipient could be read from it.
    Invalid,
    /// It was answered with a server error, as every message to its recipient is.
    Failed,
    /// The connection ended before the body did.
    Incomplete,
    /// It met a fault.
    Fault(Fault),
}

impl Event {
    /// The name in the truth log and the statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Delivery => "delivery",
            Self::Replay => "replay",
            Self::InProgress => "in_progress",
            Self::Conflict => "conflict",
            Self::KeyMissing => "key_missing",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Fault(fault) => fault.name(),
        }
    }
}

/// What is known of a request when an event is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen<'a> {
    /// Its idempotency key.
    pub key: Option<&'a str>,
    /// The hash of its method, URL and body, once it has come whole.
    pub request: Option<&'a RequestHash>,
    /// Whom it is for.
    pub recipient: Option<&'a str>,
    /// The provider's number for the message.
    pub message: Option<u64>,
    /// What a search may find it by: reference and text.
    pub searchable: Option<&'a (Option<String>, Option<String>)>,
}

/// What happened under one key; where requests carry none, to one sequence of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Item {
    /// The key, if there was one.
    pub key: Option<Box<str>>,
    /// The identifier of the first message accepted.
    pub message_id: Option<String>,
    /// Whom it is for, once a body has told.
    pub recipient: Option<Box<str>>,
    /// Requests that began, also those that were cut before their body was read.
    pub requests: u64,
    /// Messages accepted: more than one is a duplicate.
    pub deliveries: u64,
    /// Faults met.
    #[serde(skip)]
    pub faults: u32,
    /// The hash of the first whole request.
    #[serde(skip)]
    first_request: Option<RequestHash>,
    /// Whole requests whose bytes differ from the first one's.
    #[serde(skip)]
    differing: u64,
}

/// Totals since the start or the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// How often each event happened.
    pub events: BTreeMap<&'static str, u64>,
    /// Distinct keys, or distinct requests where there is none.
    pub keys: u64,
    /// Messages accepted.
    pub deliveries: u64,
    /// Messages accepted beyond the first of their key.
    pub duplicate_deliveries: u64,
    /// Keys under which requests of differing bytes came.
    pub keys_with_differing_requests: u64,
    /// A sum over the first request of each key: the same requests make the same sum, in whatever order they come.
    pub requests_digest: String,
    /// When the first message was accepted.
    pub first_delivery_at: Option<String>,
    /// When the last message was accepted.
    pub last_delivery_at: Option<String>,
}

/// The truth of everything that has happened.
#[derive(Debug)]
pub struct Truth {
    items: Vec<Item>,
    by_key: HashMap<Box<str>, usize>,
    by_bytes: HashMap<RequestHash, usize>,
    events: BTreeMap<Event, u64>,
    duplicate_deliveries: u64,
    keys_with_differing_requests: u64,
    requests_digest: u64,
    first_delivery_at: Option<Timestamp>,
    last_delivery_at: Option<Timestamp>,
    log: Option<File>,
    lines: Vec<u8>,
}

impl Truth {
    /// An empty truth that writes its log to a file, if there is one.
    pub fn new(log: Option<File>) -> Self {
        Self {
            items: Vec::new(),
            by_key: HashMap::new(),
            by_bytes: HashMap::new(),
            events: BTreeMap::new(),
            duplicate_deliveries: 0,
            keys_with_differing_requests: 0,
            requests_digest: 0,
            first_delivery_at: None,
            last_delivery_at: None,
            log,
            lines: Vec::new(),
        }
    }

    /// Tells that a request of a key has begun. Returns its number under that key, from 1, and the faults the key has met.
    pub fn begin(&mut self, key: &str) -> (u64, u32) {
        self.item(Some(key), None).map_or((1, 0), |item| {
            item.requests += 1;
            (item.requests, item.faults)
        })
    }

    /// Tells one event of a request. What is told reaches the log with the next [`Truth::write`].
    pub fn tell(&mut self, event: Event, seen: Seen<'_>, now: Timestamp) {
        *self.events.entry(event).or_default() += 1;
        self.count(event, seen);
        if event == Event::Delivery {
            self.first_delivery_at.get_or_insert(now);
            self.last_delivery_at = Some(now);
        }
        if self.log.is_some() {
            self.append_line(event, seen, now);
        }
    }

    /// Writes what has been told to the log, with one system call.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write(&mut self) -> io::Result<()> {
        if let Some(log) = &mut self.log {
            log.write_all(&self.lines)?;
            self.lines.clear();
        }
        Ok(())
    }

    /// What happened under each key, in the order in which the keys came.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The totals.
    pub fn stats(&self) -> Stats {
        Stats {
            events: self
                .events
                .iter()
                .map(|(event, count)| (event.name(), *count))
                .collect(),
            keys: self.items.len() as u64,
            deliveries: self
                .events
                .get(&Event::Delivery)
                .copied()
                .unwrap_or_default(),
            duplicate_deliveries: self.duplicate_deliveries,
            keys_with_differing_requests: self.keys_with_differing_requests,
            requests_digest: format!("{:016x}", self.requests_digest),
            first_delivery_at: self.first_delivery_at.map(written),
            last_delivery_at: self.last_delivery_at.map(written),
        }
    }

    /// Begins anew. The log stays as it is, and goes on.
    pub fn clear(&mut self) {
        *self = Self::new(self.log.take());
    }

    fn count(&mut self, event: Event, seen: Seen<'_>) {
        let (mut duplicates, mut newly_differing, mut digest) = (0, 0, 0);
        if let Some(item) = self.item(seen.key, seen.request) {
            match event {
                Event::Request => {
                    if seen.key.is_none() {
                        item.requests += 1;
                    }
                    if item.recipient.is_none() {
                        item.recipient = seen.recipient.map(Into::into);
                    }
                    match (item.first_request, seen.request) {
                        (None, Some(request)) => {
                            item.first_request = Some(*request);
                            digest = leading_word(request);
                        }
                        (Some(first), Some(request)) if *request != first => {
                            item.differing += 1;
                            newly_differing = u64::from(item.differing == 1);
                        }
                        (_, _) => {}
                    }
                }
                Event::Delivery => {
                    duplicates = u64::from(item.deliveries > 0);
                    item.deliveries += 1;
                    if item.message_id.is_none() {
                        item.message_id = seen.message.map(message_id);
                    }
                }
                Event::Fault(_) => item.faults += 1,
                Event::Replay
                | Event::InProgress
                | Event::Conflict
                | Event::KeyMissing
                | Event::Invalid
                | Event::Failed
                | Event::Incomplete => {}
            }
        }
        self.duplicate_deliveries += duplicates;
        self.keys_with_differing_requests += newly_differing;
        self.requests_digest = self.requests_digest.wrapping_add(digest);
    }

    /// The item of a key, or of a request where there is no key; made when it is new.
    fn item(&mut self, key: Option<&str>, request: Option<&RequestHash>) -> Option<&mut Item> {
        let known = match (key, request) {
            (Some(key), _) => self.by_key.get(key),
            (None, Some(request)) => self.by_bytes.get(request),
            (None, None) => return None,
        };
        let place = known.copied().unwrap_or(self.items.len());
        if place == self.items.len() {
            match (key, request) {
                (Some(key), _) => self.by_key.insert(key.into(), place),
                (None, Some(request)) => self.by_bytes.insert(*request, place),
                (None, None) => None,
            };
            self.items.push(Item {
                key: key.map(Into::into),
                ..Item::default()
            });
        }
        self.items.get_mut(place)
    }

    fn append_line(&mut self, event: Event, seen: Seen<'_>, now: Timestamp) {
        #[derive(Serialize)]
        struct Line<'a> {
            time: String,
            event: &'static str,
            key: Option<&'a str>,
            sha256: Option<String>,
            recipient: Option<&'a str>,
            message_id: Option<String>,
        }
        let line = Line {
            time: written(now),
            event: event.name(),
            key: seen.key,
            sha256: seen.request.map(hexadecimal),
            recipient: seen.recipient,
            message_id: seen.message.map(message_id),
        };
        // Writing to a vector cannot fail, and a line has no map with keys that are no strings.
        if serde_json::to_writer(&mut self.lines, &line).is_ok() {
            self.lines.push(b'\n');
        }
    }
}

/// The identifier of a message by its number.
pub fn message_id(message: u64) -> String {
    format!("msg-{message:08}")
}

/// A time as RFC 3339 with microseconds.
fn written(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// The first eight bytes of a hash as a number.
fn leading_word(hash: &RequestHash) -> u64 {
    hash.iter()
        .take(8)
        .fold(0, |word, byte| (word << 8) | u64::from(*byte))
}

/// A hash in hexadecimal digits.
fn hexadecimal(hash: &RequestHash) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or('0');
    hash.iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: RequestHash = [0x1a; 32];
    const OTHER: RequestHash = [0x2b; 32];

    fn seen<'a>(key: Option<&'a str>, request: &'a RequestHash) -> Seen<'a> {
        Seen {
            key,
            request: Some(request),
            recipient: Some("+12025550143"),
            message: Some(7),
            searchable: None,
        }
    }

    #[test]
    fn a_second_delivery_of_a_key_is_a_duplicate_and_keeps_the_first_message() {
        let mut truth = Truth::new(None);
        assert_eq!(truth.begin("k"), (1, 0));
        truth.tell(
            Event::Delivery,
            seen(Some("k"), &ONE),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(truth.begin("k"), (2, 0));
        truth.tell(
            Event::Delivery,
            Seen {
                message: Some(8),
                ..seen(Some("k"), &ONE)
            },
            Timestamp::UNIX_EPOCH,
        );
        let stats = truth.stats();
        assert_eq!(
            (stats.keys, stats.deliveries, stats.duplicate_deliveries),
            (1, 2, 1)
        );
        assert_eq!(
            truth.items().first().unwrap().message_id.as_deref(),
            Some("msg-00000007")
        );
    }

    #[test]
    fn a_key_with_differing_requests_is_counted_once() {
        let mut truth = Truth::new(None);
        for request in [&ONE, &OTHER, &OTHER, &ONE] {
            truth.begin("k");
            truth.tell(
                Event::Request,
                seen(Some("k"), request),
                Timestamp::UNIX_EPOCH,
            );
        }
        assert_eq!(truth.stats().keys_with_differing_requests, 1);
    }

    #[test]
    fn the_digest_is_the_same_for_the_same_requests_in_any_order_and_however_often() {
        let digest = |requests: &[(&str, &RequestHash)]| {
            let mut truth = Truth::new(None);
            for (key, request) in requests {
                truth.tell(
                    Event::Request,
                    seen(Some(key), request),
                    Timestamp::UNIX_EPOCH,
                );
            }
            truth.stats().requests_digest
        };
        let meant = digest(&[("a", &ONE), ("b", &OTHER)]);
        assert_eq!(digest(&[("b", &OTHER), ("a", &ONE), ("b", &OTHER)]), meant);
        assert_ne!(digest(&[("a", &ONE), ("b", &ONE)]), meant);
    }

    #[test]
    fn requests_without_a_key_are_told_apart_by_their_bytes() {
        let mut truth = Truth::new(None);
        for request in [&ONE, &OTHER, &ONE] {
            truth.tell(Event::Request, seen(None, request), Timestamp::UNIX_EPOCH);
            truth.tell(Event::Delivery, seen(None, request), Timestamp::UNIX_EPOCH);
        }
        let made: Vec<_> = truth
            .items()
            .iter()
            .map(|item| (item.requests, item.deliveries))
            .collect();
        assert_eq!(made, [(2, 2), (1, 1)]);
        assert_eq!(truth.stats().duplicate_deliveries, 1);
    }

    #[test]
    fn a_line_of_the_log_says_what_happened_when_and_to_which_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut truth = Truth::new(Some(file.reopen().unwrap()));
        truth.tell(
            Event::Fault(Fault::Slow),
            seen(Some("k"), &ONE),
            Timestamp::UNIX_EPOCH,
        );
        truth.write().unwrap();
        insta::assert_snapshot!(std::fs::read_to_string(file.path()).unwrap(), @r#"{"time":"1970-01-01T00:00:00.000000Z","event":"slow","key":"k","sha256":"1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a","recipient":"+12025550143","message_id":"msg-00000007"}"#);
    }
}
