//! Creates topics where the configuration says so. Which there are, `survey` tells.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

/// What a topic should be like when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopicShape {
    /// Number of partitions.
    pub partitions: i32,
    /// Copies of each; -1 leaves it to the brokers.
    pub replication: i32,
    /// Settings that are not the brokers' own, by name.
    pub settings: Vec<(&'static str, String)>,
}

/// Creates a topic; one that is there already is left as it is. The binding's admin client never fetches a token, so this
/// times out with OAUTHBEARER.
///
/// # Errors
///
/// When no broker answers, or it does not let us create the topic.
pub async fn create(config: &ClientConfig, topic: &str, shape: &NewTopicShape) -> KafkaResult<()> {
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let replication = TopicReplication::Fixed(shape.replication);
    let mut topic = NewTopic::new(topic, shape.partitions, replication);
    for (name, value) in &shape.settings {
        topic = topic.set(name, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    for result in admin.create_topics([&topic], &options).await? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(KafkaError::AdminOp(code)),
        }
    }
    Ok(())
}
