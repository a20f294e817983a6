//! Counts what became of each intent, from what the provider really did and what lies in the dead-letter topic.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Context;
use comfy_table::Table;
use rdkafka::message::{Headers, Message, OwnedMessage};
use serde::{Deserialize, Serialize};

use crate::cli::stage::board::board;
use crate::cli::stage::provider::Told;

/// What was seen of a play.
pub struct Evidence {
    /// When each recipient's intent was published, in milliseconds since 1970.
    pub published: HashMap<String, i64>,
    /// The provider's truth log.
    pub truth: Vec<Told>,
    /// The records of the dead-letter topic.
    pub dead_letters: Vec<OwnedMessage>,
    /// Repeats that the instances did not send.
    pub suppressed: f64,
    /// How often an instance was killed.
    pub kills: u64,
    /// From the first intent to the last commit.
    pub seconds: f64,
}

/// What became of the intents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Intents published.
    pub intents: u64,
    /// Intents delivered and not set aside.
    pub accepted: u64,
    /// Intents in the dead-letter topic.
    pub dead_lettered: u64,
    /// Requests that reached the provider.
    pub attempts: u64,
    /// Messages that the provider accepted.
    pub deliveries: u64,
    /// Messages accepted beyond the first of their recipient, each of whom is to get one.
    pub duplicate_deliveries: u64,
    /// Intents neither delivered nor set aside.
    pub lost: u64,
    /// Repeats that the instances did not send, as far as they live to tell.
    pub suppressed: u64,
    /// Repeats that the provider answered from its memory.
    pub provider_replays: u64,
    /// Instances killed.
    pub kills: u64,
    /// From the first intent to the last commit.
    pub seconds: f64,
    /// Messages accepted in each of those seconds.
    pub sends_per_second: f64,
    /// Dead letters by reason.
    #[serde(skip)]
    pub reasons: BTreeMap<String, u64>,
    /// Milliseconds from publishing to acceptance: the median and the 99th percentile.
    #[serde(skip)]
    pub latency_ms: Option<(i64, i64)>,
}

impl Report {
    /// Whether every intent became one message, or is set aside with a reason.
    pub fn is_right(&self) -> bool {
        self.duplicate_deliveries == 0 && self.lost == 0
    }
}

impl Evidence {
    /// Counts.
    ///
    /// # Errors
    ///
    /// When a dead letter cannot be read.
    pub fn weigh(self) -> anyhow::Result<Report> {
        let mut deliveries: HashMap<&str, u64> = HashMap::new();
        let mut events: HashMap<&str, u64> = HashMap::new();
        let mut latencies = Vec::new();
        for told in &self.truth {
            *events.entry(&told.event).or_default() += 1;
            let Some(recipient) = told
                .recipient
                .as_deref()
                .filter(|_| told.event == "delivery")
            else {
                continue;
            };
            let before = deliveries.entry(recipient).or_default();
            *before += 1;
            if let (1, Some(published)) = (*before, self.published.get(recipient)) {
                latencies.push(told.time.as_millisecond() - published);
            }
        }
        let mut set_aside = HashSet::new();
        let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
        for record in &self.dead_letters {
            let dead_letter = DeadLetter::read(record)?;
            *reasons.entry(dead_letter.reason).or_default() += 1;
            set_aside.insert(dead_letter.recipient);
        }
        let count = |event: &str| events.get(event).copied().unwrap_or_default();
        let (mut accepted, mut lost) = (0, 0);
        for recipient in self.published.keys() {
            match (
                set_aside.contains(recipient),
                deliveries.contains_key(recipient.as_str()),
            ) {
                (true, _) => {}
                (false, true) => accepted += 1,
                (false, false) => lost += 1,
            }
        }
        let made: u64 = deliveries.values().sum();
        Ok(Report {
            intents: self.published.len() as u64,
            accepted,
            dead_lettered: set_aside.len() as u64,
            // Each request begins in one of these ways.
            attempts: count("request")
                + count("reset_before_reading")
                + count("incomplete")
                + count("key_missing"),
            deliveries: made,
            duplicate_deliveries: made - deliveries.len() as u64,
            lost,
            suppressed: whole(self.suppressed),
            provider_replays: count("replay"),
            kills: self.kills,
            seconds: rounded(self.seconds),
            sends_per_second: rounded(made as f64 / self.seconds),
            reasons,
            latency_ms: percentiles(latencies),
        })
    }
}

/// What a dead letter says of its intent.
struct DeadLetter {
    recipient: String,
    reason: String,
}

impl DeadLetter {
    fn read(record: &OwnedMessage) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Addressed {
            to: String,
        }
        let place = || {
            format!(
                "the dead letter at partition {}, offset {}",
                record.partition(),
                record.offset()
            )
        };
        let value = record
            .payload()
            .with_context(|| format!("{} has no value", place()))?;
        let Addressed { to } = serde_json::from_slice(value)
            .with_context(|| format!("{} is no intent of this demo", place()))?;
        let header = record.headers().and_then(|headers| {
            headers
                .iter()
                .find(|header| header.key == "sendonce-reason")
        });
        let reason = header
            .and_then(|header| header.value)
            .with_context(|| format!("{} has no reason", place()))?;
        Ok(Self {
            recipient: to,
            reason: String::from_utf8_lossy(reason).into_owned(),
        })
    }
}

/// The report for people.
pub fn table(report: &Report, for_terminal: bool) -> Table {
    let reasons: Vec<_> = report
        .reasons
        .iter()
        .map(|(reason, count)| (format!("  {reason}"), count.to_string()))
        .collect();
    let mut rows = vec![
        ("intents", report.intents.to_string()),
        ("attempts", report.attempts.to_string()),
        ("deliveries", report.deliveries.to_string()),
        ("duplicates", report.duplicate_deliveries.to_string()),
        ("lost", report.lost.to_string()),
        ("dead letters", report.dead_lettered.to_string()),
    ];
    rows.extend(
        reasons
            .iter()
            .map(|(reason, count)| (reason.as_str(), count.clone())),
    );
    rows.extend([
        ("provider replays", report.provider_replays.to_string()),
        ("suppressed", report.suppressed.to_string()),
        ("kills", report.kills.to_string()),
        ("seconds", format!("{:.1}", report.seconds)),
        (
            "sends per second",
            format!("{:.0}", report.sends_per_second),
        ),
    ]);
    if let Some((median, high)) = report.latency_ms {
        rows.push(("published to accepted, p50", format!("{median} ms")));
        rows.push(("published to accepted, p99", format!("{high} ms")));
    }
    board(rows, for_terminal)
}

/// The median and the 99th percentile, each a value that was measured (nearest rank).
fn percentiles(mut values: Vec<i64>) -> Option<(i64, i64)> {
    values.sort_unstable();
    let at = |percent: usize| {
        values
            .get((values.len() * percent).div_ceil(100).checked_sub(1)?)
            .copied()
    };
    at(50).zip(at(99))
}

/// With one decimal place.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A count that travelled as a floating point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count is whole, and never negative"
)]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests {
    use rdkafka::message::{Header, OwnedHeaders, Timestamp as RecordTime};

    use super::*;

    fn told(event: &str, recipient: &str, ms: i64) -> Told {
        Told {
            time: jiff::Timestamp::from_millisecond(ms).unwrap(),
            event: event.to_owned(),
            key: Some(format!("key of {recipient}")),
            recipient: Some(recipient.to_owned()),
        }
    }

    fn dead_letter(recipient: &str, reason: &str) -> OwnedMessage {
        let headers = OwnedHeaders::new().insert(Header {
            key: "sendonce-reason",
            value: Some(reason),
        });
        let value = format!(r#"{{"id":"1","to":"{recipient}"}}"#);
        OwnedMessage::new(
            Some(value.into_bytes()),
            None,
            "t.dlq".to_owned(),
            RecordTime::NotAvailable,
            0,
            7,
            Some(headers),
        )
    }

    fn evidence() -> Evidence {
        Evidence {
            published: ["a", "b", "c", "d", "e"]
                .into_iter()
                .map(|recipient| (recipient.to_owned(), 1_000))
                .collect(),
            truth: vec![
                told("request", "a", 1_010),
                told("delivery", "a", 1_010),
                told("reset_before_reading", "b", 1_020),
                told("request", "b", 1_050),
                told("delivery", "b", 1_050),
                told("request", "b", 1_060),
                told("replay", "b", 1_060),
                told("request", "c", 1_070),
                told("delivery", "c", 1_070),
                told("request", "c", 1_080),
                told("delivery", "c", 1_080),
                told("request", "d", 1_090),
                told("delivery", "d", 1_090),
            ],
            dead_letters: vec![
                dead_letter("d", "outcome_unknown"),
                dead_letter("d", "outcome_unknown"),
            ],
            suppressed: 3.0,
            kills: 1,
            seconds: 2.0,
        }
    }

    #[test]
    fn an_intent_is_accepted_set_aside_or_lost() {
        let report = evidence().weigh().unwrap();
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"intents":5,"accepted":3,"dead_lettered":1,"attempts":7,"deliveries":5,"duplicate_deliveries":1,"lost":1,"suppressed":3,"provider_replays":1,"kills":1,"seconds":2.0,"sends_per_second":2.5}"#
        );
        assert_eq!(
            report.reasons,
            BTreeMap::from([("outcome_unknown".to_owned(), 2)])
        );
        assert!(!report.is_right());
    }

    #[test]
    fn a_report_is_right_when_nothing_came_twice_and_nothing_is_missing() {
        let report = Report {
            lost: 0,
            duplicate_deliveries: 0,
            ..evidence().weigh().unwrap()
        };
        assert!(report.is_right());
        assert!(
            !Report {
                lost: 1,
                ..report.clone()
            }
            .is_right()
        );
        assert!(
            !Report {
                duplicate_deliveries: 1,
                ..report
            }
            .is_right()
        );
    }

    #[test]
    fn the_table_shows_what_a_person_asks_for() {
        insta::assert_snapshot!(table(&evidence().weigh().unwrap(), false));
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        assert_eq!(percentiles((1..=200).collect()), Some((100, 198)));
        assert_eq!(percentiles(vec![7]), Some((7, 7)));
        assert_eq!(percentiles(vec![]), None);
    }
}
