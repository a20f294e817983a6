//! Writes intents to their topic, as upstream would: idempotently, with acks=all, and partitioned by key as Java clients do.
//! It does not know whether what it writes is an intent.

use std::collections::VecDeque;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::future_producer::OwnedDeliveryResult;
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer as _};

use super::oauth::TokenSource;
use super::speaker::Speaker;

/// Records on their way at once.
const ON_THEIR_WAY_MAX: usize = 10_000;

/// Writes records, many at a time.
pub struct Publisher {
    producer: FutureProducer<Speaker>,
    topic: String,
    on_their_way: VecDeque<DeliveryFuture>,
    written: u64,
}

impl Publisher {
    /// For this topic. `config` must choose the partitioner.
    ///
    /// # Errors
    ///
    /// When librdkafka does not take the properties.
    pub fn new(config: &ClientConfig, tokens: TokenSource, topic: &str) -> KafkaResult<Self> {
        let producer = config.create_with_context(Speaker::new("publish", tokens))?;
        Ok(Self {
            producer,
            topic: topic.to_owned(),
            on_their_way: VecDeque::new(),
            written: 0,
        })
    }

    /// Hands a record over, and waits while too many are on their way.
    ///
    /// # Errors
    ///
    /// When this or an earlier record was not acknowledged.
    pub async fn write(&mut self, key: &[u8], value: &[u8]) -> KafkaResult<()> {
        if self.on_their_way.len() >= ON_THEIR_WAY_MAX {
            self.acknowledge_one().await?;
        }
        loop {
            let record = FutureRecord::to(&self.topic).key(key).payload(value);
            match self.producer.send_result(record) {
                Ok(delivery) => {
                    self.on_their_way.push_back(delivery);
                    return Ok(());
                }
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                    if self.on_their_way.is_empty() {
                        return Err(KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull));
                    }
                    self.acknowledge_one().await?;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    /// Waits until every record has been acknowledged.
    ///
    /// # Errors
    ///
    /// When one was not.
    pub async fn finish(&mut self) -> KafkaResult<()> {
        while !self.on_their_way.is_empty() {
            self.acknowledge_one().await?;
        }
        self.producer.flush(Duration::from_secs(1))
    }

    /// Records that the brokers have acknowledged.
    pub fn written(&self) -> u64 {
        self.written
    }

    async fn acknowledge_one(&mut self) -> KafkaResult<()> {
        let Some(delivery) = self.on_their_way.pop_front() else {
            return Ok(());
        };
        let told: Option<OwnedDeliveryResult> = delivery.await.ok();
        match told {
            Some(Ok(_)) => {
                self.written += 1;
                Ok(())
            }
            Some(Err((error, _))) => Err(error),
            None => Err(KafkaError::Canceled),
        }
    }
}
