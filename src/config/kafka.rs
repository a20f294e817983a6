//! Decides which cluster and group, and how positions are kept. Which of librdkafka's own properties may be set is
//! `kafka_properties`; which topics are read, `lanes`.

use std::time::Duration;

use url::Url;

use crate::domain::dead_letter::HeaderFamily;

use super::kafka_properties::KafkaProperties;
use super::keys::is_name_byte;
use super::providers::{PLAIN_URL, plain_url};
use super::secret::Secret;
use super::section::Section;

/// `[kafka]`, but for its lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaConfig {
    /// host:port, with commas between.
    pub brokers: String,
    /// The consumer group.
    pub group: String,
    /// Static membership, if any.
    pub group_instance_id: Option<String>,
    /// What may overtake what.
    pub ordering: Ordering,
    /// Whether missing topics are created at start.
    pub create_topics: bool,
    /// Partitions of a topic that is created.
    pub partitions: i32,
    /// Replicas of a topic that is created; `None` is the broker's default.
    pub replication_factor: Option<i32>,
    /// Records of one partition between its first open one and the last one read, at most.
    pub span_max: usize,
    /// How often positions are committed.
    pub commit_interval: Duration,
    /// Under whose names a dead letter tells its origin.
    pub dead_letter_headers: HeaderFamily,
    /// After this long without progress, although records wait, the consumer counts as stalled.
    pub stall_after: Duration,
    /// librdkafka's own properties, as they were set.
    pub properties: KafkaProperties,
    /// Where tokens come from, if the brokers want any.
    pub oauth: Option<OauthConfig>,
}

/// What may overtake what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// Intents with one Kafka key go one after the other; a null key orders nothing.
    Key,
    /// Everything overtakes.
    None,
}

/// `[kafka.oauth]`: the client credentials grant of RFC 6749, section 4.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthConfig {
    /// Where tokens are issued.
    pub token_url: Url,
    /// Who asks for them.
    pub client_id: String,
    /// Its secret.
    pub client_secret: Secret,
    /// What to ask for.
    pub scope: Option<String>,
}

impl KafkaConfig {
    pub(super) fn read(section: &mut Section<'_>, size_max: Option<usize>) -> Option<Self> {
        let brokers = section.text_that(
            "brokers",
            "host:port, several with commas between",
            |text| {
                text.split(',').all(|broker| {
                    let broker = broker.trim();
                    !broker.is_empty() && !broker.contains(char::is_whitespace)
                })
            },
        );
        let group = section.text_that("group", "1 to 249 characters", |text| {
            (1..=249).contains(&text.len()) && !text.contains(char::is_control)
        });
        let group_instance_id = section.text_that(
            "group_instance_id",
            "\"\", or up to 249 characters of A-Z a-z 0-9 . _ -",
            |text| text.len() <= 249 && text.bytes().all(is_name_byte),
        );
        let ordering = section.choice(
            "ordering",
            &[("key", Ordering::Key), ("none", Ordering::None)],
        );
        let create_topics = section.switch("create_topics");
        let partitions = section.number("partitions", 1..=10_000);
        let replication_factor = section.number("replication_factor", 0..=15);
        let span_max = section.number("span_max", 1..=1_000_000);
        let commit_interval = section.span(
            "commit_interval",
            Duration::from_millis(100)..=Duration::from_mins(1),
        );
        let dead_letter_headers = section.choice(
            "dead_letter_headers",
            &[
                ("broker", HeaderFamily::Broker),
                ("connect", HeaderFamily::Connect),
                ("spring", HeaderFamily::Spring),
            ],
        );
        let stall_after = section.span(
            "stall_after",
            Duration::from_secs(5)..=Duration::from_hours(1),
        );
        let oauth = section.section("oauth", read_oauth);
        if let (Some(true), Some(Some(_))) = (create_topics, &oauth) {
            section.fault(
                "create_topics",
                "cannot be true with [kafka.oauth]: the client that creates topics never fetches a token; create them by other means",
            );
        }
        let wants_tokens = oauth.as_ref().map(Option::is_some);
        let properties = section.section("properties", |properties| {
            KafkaProperties::read(properties, size_max, wants_tokens)
        });
        Some(Self {
            brokers: brokers?,
            group: group?,
            group_instance_id: group_instance_id.map(|id| (!id.is_empty()).then_some(id))?,
            ordering: ordering?,
            create_topics: create_topics?,
            partitions: partitions?,
            replication_factor: replication_factor.map(|few| (few != 0).then_some(few))?,
            span_max: span_max?,
            commit_interval: commit_interval?,
            dead_letter_headers: dead_letter_headers?,
            stall_after: stall_after?,
            properties: properties?,
            oauth: oauth?,
        })
    }
}

fn read_oauth(section: &mut Section<'_>) -> Option<Option<OauthConfig>> {
    let token_url = section.text("token_url");
    let client_id = section.text("client_id");
    let client_secret = section.secret("client_secret");
    let scope = section.text("scope");
    let (token_url, client_id, client_secret, scope) =
        (token_url?, client_id?, client_secret?, scope?);
    if token_url.is_empty() {
        return Some(None);
    }
    let token_url = match plain_url(&token_url) {
        Some(url) => Some(url),
        None => section.refuse("token_url", PLAIN_URL),
    };
    if client_id.is_empty() {
        section.fault("client_id", "is needed with token_url");
    }
    let client_secret = match client_secret {
        Some(secret) => Some(secret),
        None => section.refuse("client_secret", "is needed with token_url"),
    };
    Some(Some(OauthConfig {
        token_url: token_url?,
        client_id,
        client_secret: client_secret?,
        scope: (!scope.is_empty()).then_some(scope),
    }))
}
