//! Decides which topics intents are read from, and what each weighs beside the others. What that means for who is read and
//! sent first is `domain::lanes`.

use std::sync::Arc;

use crate::domain::lanes::{LANES_MAX, WEIGHT_MAX, Weight};

use super::keys::is_name_byte;
use super::providers::{NAME, is_name};
use super::section::Section;

/// Kafka takes names of topics up to this length (org.apache.kafka.common.internals.Topic).
const TOPIC_LENGTH_MAX: usize = 249;
/// Room for `.parking` and a little more in the companions' names.
const INTENTS_TOPIC_LENGTH_MAX: usize = 230;

/// Every lane. The names of all their topics differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanesConfig {
    /// The lane of `kafka.topic`.
    pub first: LaneConfig,
    /// `[lane.NAME]`, in the order of their names.
    pub further: Vec<(Arc<str>, LaneConfig)>,
}

/// One topic of intents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// Its topics.
    pub topics: Topics,
    /// What it counts beside others.
    pub weight: Weight,
}

/// The names of a lane's topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    /// The intents, T.
    pub intents: String,
    /// Dead letters; T.dlq unless it was named.
    pub dead_letters: String,
    /// The ledger's log, where the ledger is replicated: T.ledger.
    pub ledger: String,
}

impl LanesConfig {
    /// All lanes, in the order of `domain::lanes::Lane`.
    pub fn iter(&self) -> impl Iterator<Item = &LaneConfig> {
        let further = self.further.iter().map(|(_, lane)| lane);
        std::iter::once(&self.first).chain(further)
    }

    /// Their weights.
    pub fn weights(&self) -> Vec<Weight> {
        self.iter().map(|lane| lane.weight).collect()
    }

    /// The topics of their intents.
    pub fn intents(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|lane| lane.topics.intents.as_str())
    }

    /// The lane that is called so in the configuration.
    pub fn named(&self, name: &str) -> Option<&LaneConfig> {
        let mut named = self.further.iter().filter(|(own, _)| **own == *name);
        named.next().map(|(_, lane)| lane)
    }

    /// Reads every `[lane.NAME]` beside the lane of `[kafka]`.
    pub(super) fn read(root: &mut Section<'_>, first: Option<LaneConfig>) -> Option<Self> {
        let further = root.section("lane", |section| read_further(section, first.as_ref()));
        Some(Self {
            first: first?,
            further: further?,
        })
    }
}

impl LaneConfig {
    /// Reads a lane's keys from its section, and leaves the others.
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let given = section.names();
        let has = |key: &str| given.iter().any(|given| given == key);
        let intents = section.text_that(
            "topic",
            &format!("1 to {INTENTS_TOPIC_LENGTH_MAX} characters of A-Z a-z 0-9 . _ -"),
            |text| is_topic(text) && text.len() <= INTENTS_TOPIC_LENGTH_MAX,
        );
        let dead_letters = if has("dead_letter_topic") {
            section.text_that(
                "dead_letter_topic",
                &format!("\"\", or up to {TOPIC_LENGTH_MAX} characters of A-Z a-z 0-9 . _ -"),
                |text| text.is_empty() || is_topic(text),
            )
        } else {
            Some(String::new())
        };
        let weight = if has("weight") {
            section.number("weight", 1..=WEIGHT_MAX)
        } else {
            Some(1)
        };
        let (intents, mut dead_letters) = (intents?, dead_letters?);
        if dead_letters.is_empty() {
            dead_letters = format!("{intents}.dlq");
        }
        if dead_letters == intents {
            return section.refuse(
                "dead_letter_topic",
                "must differ from the topic, or every dead letter would be read as an intent again",
            );
        }
        let ledger = format!("{intents}.ledger");
        if dead_letters == ledger {
            return section.refuse(
                "dead_letter_topic",
                "must differ from the ledger's topic, which is named like the topic of the intents with \".ledger\" behind it",
            );
        }
        Some(Self {
            topics: Topics {
                intents,
                dead_letters,
                ledger,
            },
            weight: weight.and_then(Weight::new)?,
        })
    }

    /// Each topic under the key that names it.
    fn named_topics(&self) -> [(&'static str, &str); 3] {
        let Topics {
            intents,
            dead_letters,
            ledger,
        } = &self.topics;
        [
            ("topic", intents),
            ("dead_letter_topic", dead_letters),
            ("topic", ledger),
        ]
    }
}

/// The further lanes. What they name like another topic of ours is a fault: a dead letter would be read as an intent, or
/// nobody could tell whose it is.
fn read_further(
    section: &mut Section<'_>,
    first: Option<&LaneConfig>,
) -> Option<Vec<(Arc<str>, LaneConfig)>> {
    let mut taken: Vec<(String, String)> = Vec::new();
    if let Some(first) = first {
        let keys = first.named_topics();
        taken.extend(keys.map(|(key, topic)| (topic.to_owned(), format!("kafka.{key}"))));
    }
    let names = section.names();
    if names.len() >= LANES_MAX
        && let Some(name) = names.get(LANES_MAX - 1)
    {
        section.fault(
            name,
            &format!("is one too many: with that of [kafka] there can be {LANES_MAX} lanes"),
        );
    }
    let mut lanes = Vec::new();
    for name in names {
        if !is_name(&name) {
            section.fault(&name, &format!("a lane's name must be {NAME}"));
        }
        let lane = section.section(&name, LaneConfig::read);
        for (key, topic) in lane.iter().flat_map(LaneConfig::named_topics) {
            let path = format!("{name}.{key}");
            if let Some((_, by)) = taken.iter().find(|(known, _)| known == topic) {
                section.fault(&path, &format!("must differ from {by}: {topic}"));
                break;
            }
            taken.push((topic.to_owned(), format!("lane.{path}")));
        }
        lanes.push(lane.map(|lane| (Arc::from(name), lane)));
    }
    lanes.into_iter().collect()
}

fn is_topic(text: &str) -> bool {
    (1..=TOPIC_LENGTH_MAX).contains(&text.len())
        && text.bytes().all(is_name_byte)
        && !matches!(text, "." | "..")
}
