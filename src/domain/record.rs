//! Decides what is kept of a record while its intent is open: everything that can be
//! read, unchanged, since a dead letter repeats it.

use bytes::Bytes;

use super::position::Position;
use super::time::Timestamp;

/// What Kafka handed us, in memory of our own.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it stands.
    pub position: Position,
    /// Its timestamp, by its producer's or the broker's clock; the epoch if it has none.
    pub timestamp: Timestamp,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// Its headers, in order; names may repeat.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// How many more headers it has, whose names cannot be read. They are not kept: it is the one part that a dead letter
    /// does not repeat.
    pub headers_unreadable: usize,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Record({}, {} bytes)", self.position, self.size())
    }
}

impl Record {
    /// Bytes of key, value and headers together.
    pub fn size(&self) -> usize {
        let bytes = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + bytes(value))
            .sum();
        bytes(&self.key) + bytes(&self.value) + headers
    }
}
