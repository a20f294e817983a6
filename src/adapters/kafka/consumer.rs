//! A member of the consumer group. Tells of records and of partitions that come and go, and leaves every answer to its
//! caller: a partition is taken up and let go only when told so, because work in flight must be recorded first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rdkafka::consumer::{
    BaseConsumer, CommitMode, Consumer as _, ConsumerContext, RebalanceProtocol,
};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, ClientContext, Offset as Place, TopicPartitionList};

use super::client::Talk;
use super::headers::readable;
use super::oauth::TokenSource;
use crate::domain::position::{NextOffset, Offset, Position, TopicPartition};
use crate::domain::record::Record;
use crate::domain::time::Timestamp;

/// What one look at the group brought.
#[derive(Debug)]
pub enum Polled {
    /// A record of a partition that is assigned.
    Record(Record),
    /// These partitions are ours once `take_up` is called.
    Assigned(Vec<TopicPartition>),
    /// These partitions are to be let go: work, commit, then call `let_go`.
    Revoked(Vec<TopicPartition>),
    /// These partitions went to another member already: nothing may be committed. Call `let_go`.
    Lost(Vec<TopicPartition>),
    /// The client has given up and must be built anew, or the process must end.
    Fatal(KafkaError),
    /// Something went wrong that the client goes on trying to mend.
    Fault(KafkaError),
    /// Nothing within the time.
    Nothing,
}

/// Where reading begins in a partition without a committed position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At the oldest record.
    Earliest,
    /// After the newest record.
    Latest,
    /// At the first record written at or after this moment.
    Moment(Timestamp),
}

/// Where reading begins in one partition, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// At the position that the group committed.
    Committed(NextOffset),
    /// At the oldest record: nothing was committed, or what was has expired.
    Earliest,
    /// Here, for the same reason, because `StartAt` says so. It is to be committed at once: whoever begins anew would
    /// choose a later place, and pass over what came in between.
    Chosen(NextOffset),
}

impl Beginning {
    /// The position, if it is known.
    pub fn position(self) -> Option<NextOffset> {
        match self {
            Self::Committed(next) | Self::Chosen(next) => Some(next),
            Self::Earliest => None,
        }
    }
}

/// A rebalance that has been announced and not yet answered.
enum Announced {
    Assigned(Vec<TopicPartition>),
    Revoked(Vec<TopicPartition>),
    Lost(Vec<TopicPartition>),
}

/// What librdkafka calls back into.
pub struct GroupContext {
    talk: Talk,
    tokens: TokenSource,
    announced: Mutex<VecDeque<Announced>>,
    closing: AtomicBool,
}

impl ClientContext for GroupContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        self.talk.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.talk.error(&error, reason);
    }

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> Result<rdkafka::client::OAuthToken, Box<dyn std::error::Error>> {
        self.tokens.fetch()
    }
}

impl ConsumerContext for GroupContext {
    /// Only takes note: the poll loop acts on it, so that work in flight can end and be recorded before.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        if self.closing.load(Ordering::SeqCst) {
            // Nobody polls for announcements any more, and librdkafka waits for the answer.
            if let Err(error) = release(consumer, partitions) {
                tracing::warn!(%error, "partitions could not be let go while closing");
            }
            return;
        }
        let partitions = listed(partitions);
        let announced = if kind == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            Announced::Assigned(partitions)
        } else if consumer.assignment_lost() {
            Announced::Lost(partitions)
        } else {
            Announced::Revoked(partitions)
        };
        self.announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(announced);
    }
}

/// A member of the consumer group.
pub struct GroupConsumer {
    inner: BaseConsumer<GroupContext>,
    start_at: StartAt,
}

impl GroupConsumer {
    /// Joins nothing yet: call `subscribe`.
    pub fn new(config: &ClientConfig, tokens: TokenSource, start_at: StartAt) -> KafkaResult<Self> {
        let context = GroupContext {
            talk: Talk::new("consumer"),
            tokens,
            announced: Mutex::default(),
            closing: AtomicBool::new(false),
        };
        let inner: BaseConsumer<GroupContext> = config.create_with_context(context)?;
        Ok(Self { inner, start_at })
    }

    /// Joins the group for these topics.
    pub fn subscribe(&self, topics: &[&str]) -> KafkaResult<()> {
        self.inner.subscribe(topics)
    }

    /// Looks once, for at most `timeout`. Must be called at least every `max.poll.interval.ms`.
    pub fn poll(&self, timeout: Duration) -> Polled {
        if let Some(announced) = self.announced() {
            return announced;
        }
        let polled = match self.inner.poll(timeout) {
            Some(Ok(message)) => Polled::Record(record(&message)),
            Some(Err(error)) if is_fatal(&error) => Polled::Fatal(error),
            Some(Err(error)) => Polled::Fault(error),
            None => Polled::Nothing,
        };
        match polled {
            Polled::Nothing => self.announced().unwrap_or(Polled::Nothing),
            Polled::Record(_)
            | Polled::Assigned(_)
            | Polled::Revoked(_)
            | Polled::Lost(_)
            | Polled::Fatal(_)
            | Polled::Fault(_) => polled,
        }
    }

    /// Takes up partitions that were announced as assigned, each at its beginning.
    pub fn take_up(&self, partitions: &[(TopicPartition, Beginning)]) -> KafkaResult<()> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for (partition, beginning) in partitions {
            let place = beginning
                .position()
                .map_or(Place::Beginning, |next| Place::Offset(next.0));
            list.add_partition_offset(&partition.topic, partition.partition, place)?;
        }
        match self.inner.rebalance_protocol() {
            RebalanceProtocol::Cooperative => self.inner.incremental_assign(&list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.inner.assign(&list),
        }
    }

    /// Lets partitions go that were announced as revoked or lost.
    pub fn let_go(&self, partitions: &[TopicPartition]) -> KafkaResult<()> {
        release(&self.inner, &list(partitions))
    }

    /// Lets everything go and makes ready to be dropped, which leaves the group. Commit before.
    pub fn close(&self) {
        self.inner.context().closing.store(true, Ordering::SeqCst);
        let released = self
            .inner
            .assignment()
            .and_then(|all| release(&self.inner, &all));
        if let Err(error) = released {
            tracing::warn!(%error, "the assignment could not be let go while closing");
        }
    }

    /// Where reading begins in each partition, by what the group has committed. Asks the coordinator, and where nothing
    /// is committed the partition's leader.
    pub fn beginnings(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> KafkaResult<Vec<(TopicPartition, Beginning)>> {
        let committed = self.inner.committed_offsets(list(partitions), timeout)?;
        for element in committed.elements() {
            element.error()?;
        }
        let beginning = |partition: &TopicPartition| {
            let found = committed.find_partition(&partition.topic, partition.partition)?;
            match found.offset() {
                Place::Offset(next) => Some(Beginning::Committed(NextOffset(next))),
                Place::Beginning
                | Place::End
                | Place::Stored
                | Place::Invalid
                | Place::OffsetTail(_) => None,
            }
        };
        let begin = |partition: &TopicPartition| {
            let beginning = match beginning(partition) {
                Some(committed) => committed,
                None => self.chosen(partition, timeout)?,
            };
            Ok((partition.clone(), beginning))
        };
        partitions.iter().map(begin).collect()
    }

    /// Where reading begins in a partition without a committed position.
    fn chosen(&self, partition: &TopicPartition, timeout: Duration) -> KafkaResult<Beginning> {
        let at = match self.start_at {
            StartAt::Earliest => return Ok(Beginning::Earliest),
            StartAt::Latest => None,
            StartAt::Moment(moment) => self.first_since(moment, partition, timeout)?,
        };
        let at = match at {
            Some(at) => at,
            None => self.watermarks(partition, timeout)?.1,
        };
        Ok(Beginning::Chosen(at))
    }

    /// The first record written at or after a moment, if there is one.
    fn first_since(
        &self,
        moment: Timestamp,
        partition: &TopicPartition,
        timeout: Duration,
    ) -> KafkaResult<Option<NextOffset>> {
        let (topic, number) = (&partition.topic, partition.partition);
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset(topic, number, Place::Offset(moment.as_millis()))?;
        let found = self.inner.offsets_for_times(asked, timeout)?;
        for element in found.elements() {
            element.error()?;
        }
        let place = found.find_partition(topic, number);
        Ok(place.and_then(|place| match place.offset() {
            Place::Offset(at) => Some(NextOffset(at)),
            Place::Beginning
            | Place::End
            | Place::Stored
            | Place::Invalid
            | Place::OffsetTail(_) => None,
        }))
    }

    /// Commits positions and waits for the coordinator's word.
    pub fn commit(&self, positions: &[(TopicPartition, NextOffset)]) -> KafkaResult<()> {
        let mut list = TopicPartitionList::with_capacity(positions.len());
        for (partition, next) in positions {
            let place = Place::Offset(next.0);
            list.add_partition_offset(&partition.topic, partition.partition, place)?;
        }
        self.inner.commit(&list, CommitMode::Sync)
    }

    /// Reads a partition from here on.
    pub fn read_from(&self, partition: &TopicPartition, next: NextOffset) -> KafkaResult<()> {
        let (topic, number) = (&partition.topic, partition.partition);
        let patience = Duration::from_secs(10);
        self.inner
            .seek(topic, number, Place::Offset(next.0), patience)
    }

    /// Stops fetching from these partitions; what was fetched already is forgotten and read again later.
    pub fn pause(&self, partitions: &[TopicPartition]) -> KafkaResult<()> {
        self.inner.pause(&list(partitions))
    }

    /// Fetches from these partitions again.
    pub fn resume(&self, partitions: &[TopicPartition]) -> KafkaResult<()> {
        self.inner.resume(&list(partitions))
    }

    /// The oldest offset and the one after the newest, asked of the broker.
    pub fn watermarks(
        &self,
        partition: &TopicPartition,
        timeout: Duration,
    ) -> KafkaResult<(Offset, NextOffset)> {
        let (low, high) =
            self.inner
                .fetch_watermarks(&partition.topic, partition.partition, timeout)?;
        Ok((Offset(low), NextOffset(high)))
    }

    /// The client itself, to ask for metadata.
    pub fn client(&self) -> &rdkafka::client::Client<GroupContext> {
        self.inner.client()
    }

    fn announced(&self) -> Option<Polled> {
        let mut announced = self
            .inner
            .context()
            .announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        announced.pop_front().map(|announced| match announced {
            Announced::Assigned(partitions) => Polled::Assigned(partitions),
            Announced::Revoked(partitions) => Polled::Revoked(partitions),
            Announced::Lost(partitions) => Polled::Lost(partitions),
        })
    }
}

/// Whether a commit failed because the partition is no longer ours.
pub fn is_stale(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::IllegalGeneration
                | RDKafkaErrorCode::UnknownMemberId
                | RDKafkaErrorCode::RebalanceInProgress
                | RDKafkaErrorCode::FencedInstanceId
                | RDKafkaErrorCode::StaleMemberEpoch
                | RDKafkaErrorCode::AssignmentLost
        )
    )
}

fn release(
    consumer: &BaseConsumer<GroupContext>,
    partitions: &TopicPartitionList,
) -> KafkaResult<()> {
    if partitions.count() == 0 {
        return Ok(());
    }
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_unassign(partitions),
        RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
    }
}

fn is_fatal(error: &KafkaError) -> bool {
    matches!(error, KafkaError::MessageConsumptionFatal(_))
}

fn listed(partitions: &TopicPartitionList) -> Vec<TopicPartition> {
    let named = |topic: &str, partition| TopicPartition {
        topic: topic.into(),
        partition,
    };
    partitions
        .elements()
        .iter()
        .map(|element| named(element.topic(), element.partition()))
        .collect()
}

fn list(partitions: &[TopicPartition]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        list.add_partition(&partition.topic, partition.partition);
    }
    list
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let (headers, headers_unreadable) = message.headers().map_or_else(Default::default, readable);
    let partition = TopicPartition {
        topic: Arc::from(message.topic()),
        partition: message.partition(),
    };
    Record {
        position: Position {
            partition,
            offset: Offset(message.offset()),
        },
        timestamp: Timestamp::from_millis(message.timestamp().to_millis().unwrap_or(0)),
        key: message.key().map(Bytes::copy_from_slice),
        value: message.payload().map(Bytes::copy_from_slice),
        headers,
        headers_unreadable,
    }
}
