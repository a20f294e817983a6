//! Decides between lanes: topics of intents, each with a weight, none of which waits behind the backlog of another. Who is
//! sent first where places are few is `fair_turns`; how many of each lane may be open is `house`.

pub mod fair_turns;
pub mod house;

pub use fair_turns::FairTurns;
pub use house::{House, Use};

use std::num::NonZeroU32;
use std::sync::Arc;

use super::position::TopicPartition;

/// One lane, by its place in the configuration: 0 is that of `kafka.topic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub usize);

/// Which topic is which lane's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneTopics(Vec<Arc<str>>);

impl LaneTopics {
    /// These topics, the first being that of lane 0.
    pub fn new(topics: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self(topics.into_iter().collect())
    }

    /// The lane that this partition is of. Nothing is read of other topics; lane 0 would have them.
    pub fn of(&self, partition: &TopicPartition) -> Lane {
        let mut topics = self.0.iter();
        let place = topics.position(|topic| *topic == partition.topic);
        place.map_or_else(Lane::default, Lane)
    }
}

/// What a lane counts beside others: one of weight 2 gets twice as much as one of weight 1, where both want more than there is.
pub type Weight = NonZeroU32;

/// The heaviest that a lane can be.
pub const WEIGHT_MAX: u32 = 1_000;

/// The most lanes there can be.
pub const LANES_MAX: usize = 16;
