//! Decides how places in a topic are named, so that a record's own offset and the one to read next never mix.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One partition of one topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number, from 0.
    pub partition: i32,
}

/// The offset that a record itself has, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Offset(pub i64);

/// The offset to read next: what Kafka stores as a committed position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NextOffset(pub i64);

impl Offset {
    /// The position to commit once everything up to and including this record is settled.
    pub const fn next(self) -> NextOffset {
        NextOffset(self.0.saturating_add(1))
    }
}

/// Where one record stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The partition it stands in.
    pub partition: TopicPartition,
    /// Its own offset.
    pub offset: Offset,
}

/// One tenure of one partition in this process: grows with each assignment, so that late results can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssignmentEpoch(pub u64);

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition, self.offset.0)
    }
}
