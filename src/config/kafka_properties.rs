//! Decides which of librdkafka's own properties may be set, and how those that would break a promise are refused.
//! It does not know which the adapters set themselves, beyond those that are refused because they do.
//!
//! Names, kinds and ranges: CONFIGURATION.md of librdkafka 2.12.1. Whether a property that is not in the table exists, and
//! takes the value, librdkafka itself says when the client is made; `sendonce check` asks it.

use std::collections::BTreeMap;

use toml::Value;

use super::secret::{References, Secret};
use super::section::Section;

/// What a dead letter may carry beyond the record's value, in bytes: its key, its own headers and ours.
const DEAD_LETTER_ROOM: usize = 32 * 1024;

/// `[kafka.properties]`: names and values for librdkafka. `Debug` tells no value that came by reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaProperties(BTreeMap<String, PropertyValue>);

/// A property's value as librdkafka takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// It stood in the configuration.
    Plain(String),
    /// It came by reference.
    Secret(Secret),
}

impl KafkaProperties {
    /// Names and values, to be handed to librdkafka and to nothing else.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.expose()))
    }

    /// The value of the property `name`, if it was set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(PropertyValue::expose)
    }

    /// Whether the group is run by the broker (KIP-848), so that the client's own assignor and timeouts must not be set.
    pub fn is_group_run_by_broker(&self) -> bool {
        self.get("group.protocol")
            .is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer"))
    }

    /// Reads the section. `wants_tokens`: whether `[kafka.oauth]` is filled in; both are `None` if they are at fault.
    pub(super) fn read(
        section: &mut Section<'_>,
        size_max: Option<usize>,
        wants_tokens: Option<bool>,
    ) -> Option<Self> {
        let mut properties = BTreeMap::new();
        let mut whole = true;
        for name in section.names() {
            match read_property(section, &name) {
                Some(value) => {
                    properties.insert(name, value);
                }
                None => whole = false,
            }
        }
        let properties = Self(properties);
        properties.check_together(section, size_max, wants_tokens);
        whole.then_some(properties)
    }

    fn check_together(
        &self,
        section: &mut Section<'_>,
        size_max: Option<usize>,
        wants_tokens: Option<bool>,
    ) {
        let by_broker = self.is_group_run_by_broker();
        for name in [
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "partition.assignment.strategy",
        ] {
            if by_broker && self.get(name).is_some() {
                section.fault(
                    name,
                    "must not be set with group.protocol = \"consumer\": the broker decides it",
                );
            }
        }
        if !by_broker && self.get("group.remote.assignor").is_some() {
            section.fault(
                "group.remote.assignor",
                "needs group.protocol = \"consumer\"",
            );
        }
        if let (Some(size_max), Some(most)) = (size_max, self.get("message.max.bytes")) {
            let least = size_max.saturating_add(DEAD_LETTER_ROOM);
            if most.parse::<usize>().is_ok_and(|most| most < least) {
                section.fault(
                    "message.max.bytes",
                    &format!(
                        "must be at least intents.size_max and 32 KiB ({least}), or a large intent would be dead-lettered without its value"
                    ),
                );
            }
        }
        let bearer = ["sasl.mechanism", "sasl.mechanisms"]
            .into_iter()
            .find(|name| {
                self.get(name)
                    .is_some_and(|mechanism| mechanism.eq_ignore_ascii_case("OAUTHBEARER"))
            });
        match (bearer, wants_tokens) {
            (Some(name), Some(false)) => {
                section.fault(name, "OAUTHBEARER needs [kafka.oauth] token_url");
            }
            (None, Some(true)) => {
                section.fault(
                    "sasl.mechanism",
                    "must be \"OAUTHBEARER\" where [kafka.oauth] token_url is set",
                );
            }
            (Some(_), Some(true) | None) | (None, Some(false) | None) => {}
        }
    }
}

impl PropertyValue {
    /// The value, for librdkafka.
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(secret) => secret.expose(),
        }
    }
}

fn read_property(section: &mut Section<'_>, name: &str) -> Option<PropertyValue> {
    let (value, verbatim) = section.any(name)?;
    let text = match (value, verbatim) {
        (Value::String(text), _) | (_, Some(text)) => text,
        (Value::Integer(number), None) => number.to_string(),
        (Value::Boolean(on), None) => on.to_string(),
        (Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_), None) => {
            return section.refuse(name, "must be text, a whole number, or true or false");
        }
    };
    let value = if References::is_reference(&text) {
        PropertyValue::Secret(section.resolve(name, &text)?)
    } else if SECRETS.contains(&name) {
        return section.refuse(
            name,
            "must be a reference, \"env:NAME\" or \"file:PATH\", so that no secret stands in a configuration",
        );
    } else {
        PropertyValue::Plain(text)
    };
    match refusal(name, value.expose()) {
        Some(message) => section.refuse(name, &message),
        None => Some(value),
    }
}

/// Properties that hold a password or a private key.
const SECRETS: [&str; 4] = [
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
];

/// What a property may be.
enum Rule {
    /// It is set from this key of ours.
    By(&'static str),
    /// Nothing: it may not be set at all.
    Nothing,
    /// True or false.
    Is(bool),
    /// One of these values, whatever the case.
    Only(&'static [&'static str]),
    /// A whole number in this range.
    Between(i64, i64),
}

/// Properties with a rule, the rule, and its reason.
const RULES: &[(&[&str], Rule, &str)] = &[
    (
        &["bootstrap.servers", "metadata.broker.list"],
        Rule::By("kafka.brokers"),
        "one place names the cluster",
    ),
    (
        &["group.id"],
        Rule::By("kafka.group"),
        "one place names the group",
    ),
    (
        &["group.instance.id"],
        Rule::By("kafka.group_instance_id"),
        "one place names the member",
    ),
    (
        &["auto.commit.interval.ms"],
        Rule::By("kafka.commit_interval"),
        "positions are committed by sendonce itself",
    ),
    (
        &[
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.method",
            "sasl.oauthbearer.client.id",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.extensions",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.oauthbearer.grant.type",
            "sasl.oauthbearer.metadata.authentication.type",
            "enable.sasl.oauthbearer.unsecure.jwt",
        ],
        Rule::By("kafka.oauth"),
        "tokens are fetched by sendonce itself; this librdkafka is built without OIDC",
    ),
    (
        &["enable.auto.commit", "auto.commit.enable"],
        Rule::Is(false),
        "an automatic commit would pass over intents that have no durable end yet",
    ),
    (
        &["enable.auto.offset.store"],
        Rule::Is(false),
        "only positions whose records are all settled may ever be stored",
    ),
    (
        &["auto.offset.reset"],
        Rule::Only(&["earliest", "smallest", "beginning"]),
        "any other start passes over intents, for one those in a partition that was added; `run --start-at` chooses for a group without positions, and intents.max_age keeps old ones from being sent",
    ),
    (
        &["offset.store.method"],
        Rule::Only(&["broker"]),
        "positions kept elsewhere do not move with the partition",
    ),
    (
        &["offset.store.path", "offset.store.sync.interval.ms"],
        Rule::Nothing,
        "positions are kept in the broker, so that they move with the partition",
    ),
    (
        &["partition.assignment.strategy"],
        Rule::Only(&["cooperative-sticky"]),
        "an eager one takes every partition away at each rebalance, and the two kinds cannot share a group",
    ),
    (
        &["group.protocol"],
        Rule::Only(&["classic", "consumer"]),
        "there are no others",
    ),
    (
        &["group.protocol.type"],
        Rule::Nothing,
        "a consumer group has one type",
    ),
    (
        &["isolation.level"],
        Rule::Only(&["read_committed"]),
        "an intent of a transaction that was aborted was never asked for, and must not be sent",
    ),
    (
        &["enable.partition.eof"],
        Rule::Is(false),
        "the end of a partition would be taken for a fault",
    ),
    (
        &["topic.blacklist"],
        Rule::Nothing,
        "a topic that is hidden is silently not read",
    ),
    (
        &["topic.metadata.refresh.interval.ms"],
        Rule::Between(1_000, 3_600_000),
        "partitions that are added must be noticed",
    ),
    (
        &["allow.auto.create.topics"],
        Rule::Is(false),
        "a misspelt topic would come to be, with the broker's defaults; kafka.create_topics creates them as they must be",
    ),
    (
        &["enable.idempotence"],
        Rule::Is(true),
        "a dead letter would be written twice, or out of order",
    ),
    (
        &["acks", "request.required.acks"],
        Rule::Only(&["all", "-1"]),
        "an offset moves only when every replica in sync has the dead letter",
    ),
    (
        &["max.in.flight", "max.in.flight.requests.per.connection"],
        Rule::Between(1, 5),
        "an idempotent producer cannot keep more apart",
    ),
    (
        &["retries", "message.send.max.retries"],
        Rule::Between(1, 2_147_483_647),
        "an idempotent producer must be able to retry",
    ),
    (
        &["message.timeout.ms", "delivery.timeout.ms"],
        Rule::Between(1_000, 300_000),
        "a dead letter that is not acknowledged must be noticed and tried again",
    ),
    (
        &["queuing.strategy"],
        Rule::Only(&["fifo"]),
        "an idempotent producer keeps order",
    ),
    (
        &["transactional.id", "transaction.timeout.ms"],
        Rule::Nothing,
        "nothing here is transactional; the ledger and the acknowledgement of a dead letter do that work",
    ),
    (
        &["enable.gapless.guarantee"],
        Rule::Is(false),
        "one dead letter that failed would stop all others",
    ),
    (
        &["delivery.report.only.error"],
        Rule::Is(false),
        "the acknowledgement of a dead letter would never be seen",
    ),
    (
        &["partitioner"],
        Rule::Only(&["murmur2_random"]),
        "all producers must agree on a key's partition",
    ),
    (
        &["enable.ssl.certificate.verification"],
        Rule::Is(true),
        "a stranger could acknowledge what was never kept; name the authority by ssl.ca.location or ssl.ca.pem",
    ),
    (
        &["plugin.library.paths"],
        Rule::Nothing,
        "foreign code in the client can undo any promise",
    ),
    (
        &["api.version.request"],
        Rule::Is(true),
        "without it a broker counts as one that knows neither headers nor idempotent producers",
    ),
    (
        &["api.version.fallback.ms", "broker.version.fallback"],
        Rule::Nothing,
        "such brokers know neither headers nor idempotent producers",
    ),
    (
        &["internal.termination.signal"],
        Rule::Nothing,
        "signals belong to the orderly shutdown",
    ),
    (
        &["enabled_events", "log.queue"],
        Rule::Nothing,
        "events and logs are read by sendonce itself",
    ),
];

fn refusal(name: &str, value: &str) -> Option<String> {
    let (_, rule, reason) = RULES.iter().find(|(names, _, _)| names.contains(&name))?;
    match rule {
        Rule::By(key) => Some(format!("is set by {key}: {reason}")),
        Rule::Nothing => Some(format!("must not be set: {reason}")),
        Rule::Is(on) => {
            // librdkafka takes these three forms of each, whatever the case.
            let forms = if *on {
                ["true", "t", "1"]
            } else {
                ["false", "f", "0"]
            };
            let fits = forms.iter().any(|form| form.eq_ignore_ascii_case(value));
            (!fits).then(|| format!("may only be {on}: {reason}"))
        }
        Rule::Only(allowed) => {
            let fits = allowed.iter().any(|word| word.eq_ignore_ascii_case(value));
            (!fits).then(|| {
                let words: Vec<String> = allowed.iter().map(|word| format!("\"{word}\"")).collect();
                format!("may only be {}: {reason}", words.join(" or "))
            })
        }
        Rule::Between(least, most) => {
            let fits = value
                .parse::<i64>()
                .is_ok_and(|number| (*least..=*most).contains(&number));
            (!fits).then(|| format!("must be a whole number from {least} to {most}: {reason}"))
        }
    }
}
