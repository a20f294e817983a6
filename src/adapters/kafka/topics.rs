//! Looks at topics, and creates them where the configuration says so.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

/// What a topic should be like when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTopicShape {
    /// Number of partitions.
    pub partitions: i32,
    /// Copies of each.
    pub replication: i32,
}

/// The number of partitions of `topic`; `None` if there is no such topic.
pub fn partitions_of(
    config: &ClientConfig,
    topic: &str,
    timeout: Duration,
) -> KafkaResult<Option<i32>> {
    let client: BaseConsumer = config.create()?;
    count(client.client(), topic, timeout)
}

/// The same of a topic that has just been created: asks until the brokers know of it, for at most `timeout`.
pub async fn until_there(
    config: &ClientConfig,
    topic: &str,
    timeout: Duration,
) -> KafkaResult<Option<i32>> {
    let client: BaseConsumer = config.create()?;
    let end = tokio::time::Instant::now() + timeout;
    loop {
        let found = count(client.client(), topic, timeout)?;
        if found.is_some() || tokio::time::Instant::now() >= end {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn count<C: rdkafka::ClientContext>(
    client: &rdkafka::client::Client<C>,
    topic: &str,
    timeout: Duration,
) -> KafkaResult<Option<i32>> {
    let metadata = client.fetch_metadata(Some(topic), timeout)?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Ok(None);
    };
    match found.error().map(RDKafkaErrorCode::from) {
        None => Ok(i32::try_from(found.partitions().len())
            .ok()
            .filter(|count| *count > 0)),
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            Ok(None)
        }
        Some(code) => Err(KafkaError::MetadataFetch(code)),
    }
}

/// Creates a topic; one that is there already is left as it is.
pub async fn create(config: &ClientConfig, topic: &str, shape: NewTopicShape) -> KafkaResult<()> {
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let replication = TopicReplication::Fixed(shape.replication);
    let topic = NewTopic::new(topic, shape.partitions, replication);
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    for result in admin.create_topics([&topic], &options).await? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(KafkaError::AdminOp(code)),
        }
    }
    Ok(())
}

/// One setting of a topic, as the broker tells it; `None` if it does not tell.
pub async fn setting(
    config: &ClientConfig,
    topic: &str,
    name: &str,
) -> KafkaResult<Option<String>> {
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let options = AdminOptions::new().request_timeout(Some(Duration::from_secs(10)));
    let described = admin
        .describe_configs([&ResourceSpecifier::Topic(topic)], &options)
        .await?;
    for resource in described {
        let resource = resource.map_err(KafkaError::AdminOp)?;
        if let Some(entry) = resource.get(name) {
            return Ok(entry.value.clone());
        }
    }
    Ok(None)
}
