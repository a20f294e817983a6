//! Decides what a cluster must be like for the promises to hold, and what follows where it is otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::runtime::Runtime;

use crate::adapters::kafka::client;
use crate::adapters::kafka::survey::{Survey, TopicShape};
use crate::cli::findings::Findings;
use crate::config::lanes::Topics;
use crate::config::ledger::Replication;
use crate::config::{Config, spans};
use crate::pipeline::tokens;

/// What a dead letter carries beyond its record, in bytes: our headers and the batch around it.
const DEAD_LETTER_ROOM: usize = 32 * 1024;

/// Looks at brokers, topics and the group.
pub(super) fn look(
    config: &Config,
    timeout: Duration,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let tokens = tokens::source(&config.kafka, runtime.handle())?;
    let survey = match Survey::new(&client::consumer(&config.kafka), tokens.clone(), timeout) {
        Ok(survey) => survey,
        // Told already: librdkafka does not take the properties.
        Err(_) => return Ok(()),
    };
    match survey.brokers() {
        Ok(count) => findings.fine("brokers", format!("{count} at {}", config.kafka.brokers)),
        Err(error) => {
            findings.unreachable(
                "brokers",
                format!("{} cannot be reached: {error}", config.kafka.brokers),
            );
            return Ok(());
        }
    }
    for lane in config.lanes.iter() {
        look_at_lane(&runtime, &survey, config, &lane.topics, findings);
    }
    Ok(())
}

fn look_at_lane(
    runtime: &Runtime,
    survey: &Survey,
    config: &Config,
    topics: &Topics,
    findings: &mut Findings,
) {
    let intents = look_at_topic(survey, config, &topics.intents, findings);
    let dead_letters = look_at_topic(survey, config, &topics.dead_letters, findings);
    if let (Some(intents), Some(dead_letters)) = (intents, dead_letters)
        && dead_letters.partitions < intents.partitions
    {
        findings.warning(
            &topics.dead_letters,
            format!(
                "{} partitions for {} of {}: letters of the others go by their key, and no longer keep their partition's number",
                dead_letters.partitions, intents.partitions, topics.intents
            ),
        );
    }
    if dead_letters.is_some() {
        findings.fine(
            &topics.dead_letters,
            "whether we may write there is not tried: only a letter would show it, so see to the permission Write",
        );
    }
    let ledger = match config.ledger.replication {
        Replication::Off => None,
        Replication::Topic => look_at_topic(survey, config, &topics.ledger, findings),
    };
    if let (Some(intents), Some(ledger)) = (intents, ledger)
        && ledger.partitions != intents.partitions
    {
        findings.fault(
            &topics.ledger,
            format!(
                "{} partitions for {} of {}: give it as many, each partition has a log of its own",
                ledger.partitions, intents.partitions, topics.intents
            ),
        );
    }
    let with_tokens = config.kafka.oauth.is_some();
    for (topic, shape, judge) in [
        (&topics.intents, intents, intents_settings as Judge),
        (&topics.dead_letters, dead_letters, dead_letter_settings),
        (&topics.ledger, ledger, ledger_settings),
    ] {
        if shape.is_none() {
            continue;
        }
        if with_tokens {
            findings.warning(
                topic,
                "its settings cannot be asked for with OAUTHBEARER; look at them by other means",
            );
            continue;
        }
        match runtime.block_on(survey.settings(topic)) {
            Ok(settings) => judge(topic, config, &settings, findings),
            Err(error) => findings.warning(
                topic,
                format!("the broker does not tell its settings: {error}"),
            ),
        }
    }
    if let Some(shape) = intents {
        look_at_group(survey, config, &topics.intents, shape, findings);
    }
}

type Judge = fn(&str, &Config, &BTreeMap<String, String>, &mut Findings);

fn look_at_topic(
    survey: &Survey,
    config: &Config,
    topic: &str,
    findings: &mut Findings,
) -> Option<TopicShape> {
    match survey.topic(topic) {
        Ok(Some(shape)) => {
            let TopicShape {
                partitions,
                replicas,
            } = shape;
            let found = format!("{partitions} partitions of {replicas} replicas");
            if replicas < 2 {
                findings.warning(
                    topic,
                    format!("{found}: what it holds is lost with one broker's disk"),
                );
            } else {
                findings.fine(topic, found);
            }
            Some(shape)
        }
        Ok(None) if config.kafka.create_topics => {
            findings.warning(
                topic,
                "is not there yet; it is created at start (kafka.create_topics)",
            );
            None
        }
        Ok(None) => {
            findings.fault(
                topic,
                "is not there; create it, or set kafka.create_topics = true",
            );
            None
        }
        Err(error) => {
            findings.fault(topic, format!("cannot be described: {error}"));
            None
        }
    }
}

fn intents_settings(
    topic: &str,
    config: &Config,
    settings: &BTreeMap<String, String>,
    findings: &mut Findings,
) {
    if is_compacted(settings) {
        findings.warning(
            topic,
            "is compacted: an intent that has a later one with its Kafka key can vanish unread",
        );
    }
    if let Some(kept) = retention(settings)
        && kept < config.intents.max_age
    {
        findings.warning(
            topic,
            format!(
                "keeps records for {}, less than intents.max_age ({}): intents can vanish unread while a provider is down",
                spans::show(kept),
                spans::show(config.intents.max_age)
            ),
        );
    }
    acknowledged_by_one(topic, settings, findings);
}

fn dead_letter_settings(
    topic: &str,
    config: &Config,
    settings: &BTreeMap<String, String>,
    findings: &mut Findings,
) {
    if is_compacted(settings) {
        findings.fault(topic, "is compacted: dead letters with one Kafka key erase one another; set cleanup.policy=delete");
    }
    if let Some(kept) = retention(settings) {
        let remembered = config.ledger.retention;
        if kept < remembered {
            findings.warning(
                topic,
                format!(
                    "keeps dead letters for {}, less than ledger.retention ({}): open ones are deleted before anybody must have seen them",
                    spans::show(kept),
                    spans::show(remembered)
                ),
            );
        }
    }
    let needed = config.intents.size_max.saturating_add(DEAD_LETTER_ROOM);
    let most = settings
        .get("max.message.bytes")
        .and_then(|most| most.parse::<usize>().ok());
    if let Some(most) = most
        && most < needed
    {
        findings.warning(
            topic,
            format!("takes {most} bytes, and a dead letter of intents.size_max needs {needed}: larger ones are written without their value"),
        );
    }
    acknowledged_by_one(topic, settings, findings);
}

fn ledger_settings(
    topic: &str,
    config: &Config,
    settings: &BTreeMap<String, String>,
    findings: &mut Findings,
) {
    if is_compacted(settings) {
        findings.fault(topic, "is compacted: of each intent only the last word would stay, whoever had it; set cleanup.policy=delete");
    }
    if let Some(kept) = retention(settings) {
        let remembered = config.ledger.retention;
        if kept < remembered {
            findings.fault(
                topic,
                format!(
                    "keeps entries for {}, less than ledger.retention ({}): an instance with an empty disk would not know what the others know",
                    spans::show(kept),
                    spans::show(remembered)
                ),
            );
        }
    }
    if settings
        .get("message.timestamp.type")
        .is_some_and(|kind| kind != "LogAppendTime")
    {
        findings.warning(
            topic,
            "message.timestamp.type is not LogAppendTime: entries carry their writers' clocks",
        );
    }
    acknowledged_by_one(topic, settings, findings);
}

fn acknowledged_by_one(topic: &str, settings: &BTreeMap<String, String>, findings: &mut Findings) {
    if settings
        .get("min.insync.replicas")
        .is_some_and(|fewest| fewest == "1")
    {
        findings.warning(
            topic,
            "min.insync.replicas is 1: a write counts as safe when one broker has it",
        );
    }
}

fn is_compacted(settings: &BTreeMap<String, String>) -> bool {
    settings
        .get("cleanup.policy")
        .is_some_and(|policy| policy.contains("compact"))
}

/// How long the topic keeps its records; `None` is for ever, or not told.
fn retention(settings: &BTreeMap<String, String>) -> Option<Duration> {
    let millis = settings.get("retention.ms")?.parse().ok()?;
    Some(Duration::from_millis(millis))
}

fn look_at_group(
    survey: &Survey,
    config: &Config,
    topic: &str,
    shape: TopicShape,
    findings: &mut Findings,
) {
    let about = format!("group {}", config.kafka.group);
    match survey.committed(topic, shape.partitions) {
        Ok(0) => findings.fine(
            &about,
            format!(
                "has no positions in {topic} yet: `run` begins at the oldest record, and intents.max_age keeps old intents from being sent"
            ),
        ),
        Ok(known) => findings.fine(
            &about,
            format!("has positions in {known} of {} partitions of {topic}", shape.partitions),
        ),
        Err(error) if is_refusal(&error) => findings.fault(&about, format!("does not let us in: {error}")),
        Err(error) => findings.unreachable(&about, format!("does not answer: {error}")),
    }
}

fn is_refusal(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::GroupAuthorizationFailed
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::ClusterAuthorizationFailed
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    const INTENTS: &str = "send-intents";
    const LETTERS: &str = "send-intents.dlq";

    fn config() -> Config {
        Config::from_sources(&Sources::default()).unwrap()
    }

    fn judged(topic: &str, judge: Judge, settings: &[(&str, &str)]) -> String {
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let mut findings = Findings::default();
        judge(topic, &config(), &settings, &mut findings);
        let lines: Vec<String> = findings
            .iter()
            .map(|finding| format!("{:?} {}: {}", finding.weight, finding.about, finding.found))
            .collect();
        lines.join("\n")
    }

    #[test]
    fn kafkas_own_defaults_need_only_more_than_one_replica_in_sync() {
        let defaults = [
            ("cleanup.policy", "delete"),
            ("retention.ms", "604800000"),
            ("max.message.bytes", "1048588"),
            ("min.insync.replicas", "1"),
        ];
        let warning = "min.insync.replicas is 1: a write counts as safe when one broker has it";
        assert_eq!(
            judged(INTENTS, intents_settings, &defaults),
            format!("Warning send-intents: {warning}")
        );
        assert_eq!(
            judged(LETTERS, dead_letter_settings, &defaults),
            format!("Warning send-intents.dlq: {warning}")
        );
    }

    #[test]
    fn a_dead_letter_topic_that_loses_letters_is_told() {
        let losing = [
            ("cleanup.policy", "compact,delete"),
            ("retention.ms", "86400000"),
            ("max.message.bytes", "1000000"),
        ];
        insta::assert_snapshot!(judged(LETTERS, dead_letter_settings, &losing));
    }

    #[test]
    fn a_ledger_topic_that_loses_entries_is_told() {
        let losing = [
            ("cleanup.policy", "compact"),
            ("retention.ms", "86400000"),
            ("message.timestamp.type", "CreateTime"),
            ("min.insync.replicas", "1"),
        ];
        insta::assert_snapshot!(judged("send-intents.ledger", ledger_settings, &losing));
        let good = [
            ("cleanup.policy", "delete"),
            ("retention.ms", "691200000"),
            ("message.timestamp.type", "LogAppendTime"),
            ("min.insync.replicas", "2"),
        ];
        assert_eq!(judged("send-intents.ledger", ledger_settings, &good), "");
    }

    #[test]
    fn an_intents_topic_that_loses_intents_is_told() {
        let losing = [("cleanup.policy", "compact"), ("retention.ms", "3600000")];
        insta::assert_snapshot!(judged(INTENTS, intents_settings, &losing));
    }

    #[test]
    fn a_topic_that_keeps_its_records_for_ever_is_fine() {
        assert_eq!(
            judged(INTENTS, intents_settings, &[("retention.ms", "-1")]),
            ""
        );
        assert_eq!(
            judged(LETTERS, dead_letter_settings, &[("retention.ms", "-1")]),
            ""
        );
    }
}
