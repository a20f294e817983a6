//! Sees to it at start that the topics are there and as they must be.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::adapters::kafka::dead_letters::Destination;
use crate::adapters::kafka::oauth::TokenSource;
use crate::adapters::kafka::survey::Survey;
use crate::adapters::kafka::{client, topics};
use crate::config::lanes::Topics;
use crate::config::ledger::Replication;
use crate::config::{Config, spans};

use super::ledger_log::LogOf;
use super::service::RunError;

/// How long any one question to a broker may take.
const ASK: Duration = Duration::from_secs(20);
/// The same for the settings of a topic. Some brokers never answer that, and the start does not depend on it.
const ASK_FOR_SETTINGS: Duration = Duration::from_secs(3);

/// What is known of the topics.
#[derive(Debug)]
pub struct Prepared {
    /// Partitions of all topics of intents.
    pub partitions: usize,
    /// The logs of the ledger, if it is replicated.
    pub logs: Vec<LogOf>,
    /// Where dead letters go.
    pub destinations: Vec<Destination>,
}

/// Looks at the topics, and creates what is missing if the configuration says so.
///
/// # Errors
///
/// When one is missing or unfit, or no broker answers.
pub fn prepare(
    config: &Config,
    tokens: &TokenSource,
    runtime: &Runtime,
) -> Result<Prepared, RunError> {
    let asker = client::asker(&config.kafka);
    let survey = Survey::new(&asker, tokens.clone(), ASK)?;
    let partitions_of = |topic: &str, count: i32, settings: Vec<(&'static str, String)>| {
        let mut found = survey.topic(topic)?;
        if found.is_none() && config.kafka.create_topics {
            let shape = topics::NewTopicShape {
                partitions: count,
                replication: config.kafka.replication_factor.unwrap_or(-1),
                settings,
            };
            runtime.block_on(topics::create(&asker, topic, &shape))?;
            found = survey.until_there(topic)?;
        }
        let shape = found.ok_or_else(|| RunError::TopicMissing(topic.to_owned()))?;
        Ok::<i32, RunError>(i32::try_from(shape.partitions).unwrap_or(i32::MAX))
    };
    let usual = config.kafka.partitions;
    let mut prepared = Prepared {
        partitions: 0,
        logs: Vec::new(),
        destinations: Vec::new(),
    };
    for Topics {
        intents,
        dead_letters,
        ledger,
    } in config.lanes.iter().map(|lane| &lane.topics)
    {
        let partitions = partitions_of(intents, usual, Vec::new())?;
        prepared.partitions += usize::try_from(partitions).unwrap_or(0);
        prepared.destinations.push(Destination {
            of: intents.as_str().into(),
            topic: dead_letters.as_str().into(),
            partitions: partitions_of(dead_letters, usual, Vec::new())?,
        });
        if config.ledger.replication == Replication::Off {
            continue;
        }
        let logs = partitions_of(ledger, partitions, ledger_settings(config))?;
        if logs != partitions {
            return Err(RunError::TopicUnfit {
                topic: ledger.clone(),
                problem: format!(
                    "has {logs} partitions, and {intents} has {partitions}: give it as many, each partition has a log of its own"
                ),
            });
        }
        if config.kafka.oauth.is_none() {
            let curious = Survey::new(&asker, tokens.clone(), ASK_FOR_SETTINGS)?;
            match runtime.block_on(curious.settings(ledger)) {
                Ok(settings) => refuse_forgetting(config, ledger, &settings)?,
                Err(error) => tracing::warn!(
                    %error, topic = %ledger,
                    "the broker does not tell the topic's settings: it must not be compacted"
                ),
            }
        }
        prepared.logs.push(LogOf {
            intents: intents.as_str().into(),
            ledger: ledger.as_str().into(),
            partitions,
        });
    }
    Ok(prepared)
}

/// What whoever reads it from its beginning would not know.
fn refuse_forgetting(
    config: &Config,
    topic: &str,
    settings: &BTreeMap<String, String>,
) -> Result<(), RunError> {
    let unfit = |problem: String| {
        Err(RunError::TopicUnfit {
            topic: topic.to_owned(),
            problem,
        })
    };
    let kept = settings
        .get("retention.ms")
        .and_then(|kept| kept.parse().ok());
    let remembered = config.ledger.retention;
    if let Some(kept) = kept.map(Duration::from_millis)
        && kept < remembered
    {
        return unfit(format!(
            "keeps entries for {}, less than ledger.retention ({}): raise retention.ms",
            spans::show(kept),
            spans::show(remembered)
        ));
    }
    let is_compacted = settings
        .get("cleanup.policy")
        .is_some_and(|policy| policy.contains("compact"));
    if is_compacted {
        return unfit(
            "is compacted: of each intent only the last word would stay, whoever had it. Set cleanup.policy=delete"
                .to_owned(),
        );
    }
    Ok(())
}

/// Not compacted: a late writer must not be able to erase what was there. A period longer than the ledger remembers, so that
/// whoever reads it from its beginning knows all that the others know.
fn ledger_settings(config: &Config) -> Vec<(&'static str, String)> {
    let ledger = &config.ledger;
    let period = ledger.retention / ledger.generations.get();
    let retention = ledger.retention.saturating_add(period);
    vec![
        ("cleanup.policy", "delete".to_owned()),
        ("retention.ms", retention.as_millis().to_string()),
        ("message.timestamp.type", "LogAppendTime".to_owned()),
    ]
}
