//! Whether the log is the one that an earlier process on this machine has followed. It is, where the last marker that was read
//! still stands at its place: its name was drawn by chance. Else the log is followed from its beginning, and told all that is
//! known here: it was made anew, belongs to another cluster, or has forgotten that marker.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::error::KafkaResult;
use tokio::time::Instant;

use crate::adapters::kafka::ledger_topic::{LedgerReader, Told};
use crate::domain::ledger_entry::Writer;
use crate::domain::ledger_log::{Checkpoint, LogView, Logged};
use crate::domain::position::{NextOffset, Offset, TopicPartition};

use super::logs::Logs;

/// How long a broker may take to say where a partition of the log begins and ends.
const ASK: Duration = Duration::from_secs(20);
/// How long the markers may take to come.
const MARKERS_WITHIN: Duration = Duration::from_secs(10);
/// The longest that one look takes.
const LOOK: Duration = Duration::from_millis(100);

/// Where to go on in each partition.
pub(super) struct Recognised {
    /// What had been read of each, or its beginning.
    pub(super) begin: Vec<(TopicPartition, LogView)>,
    /// Partitions whose log is not the one that was followed.
    pub(super) strange: Vec<TopicPartition>,
}

/// Looks where the checkpoint says that the last markers stand.
pub(super) fn recognise(
    reader: &LedgerReader,
    logs: &Logs,
    checkpoint: &Checkpoint,
) -> KafkaResult<Recognised> {
    let mut known: BTreeMap<TopicPartition, LogView> =
        checkpoint.followed.iter().cloned().collect();
    let mut lows = Vec::new();
    let mut wanted: BTreeMap<TopicPartition, (Writer, Offset)> = BTreeMap::new();
    for partition in logs.partitions() {
        let log = logs.log_of(&partition);
        let (low, high) = reader.watermarks(&log, ASK)?;
        if let Some(view) = known.get(&partition) {
            match view.marker() {
                Some((writer, at))
                    if (low..Offset(high.0)).contains(&at) && view.read_to() <= high =>
                {
                    wanted.insert(log, (writer, at));
                }
                // Nobody has owned it yet, and nothing is there.
                None if view.read_to() == high && high == NextOffset(low.0) => {}
                Some(_) | None => {
                    known.remove(&partition);
                }
            }
        }
        lows.push((partition, low));
    }
    let found = markers(reader, &wanted)?;
    let mut recognised = Recognised {
        begin: Vec::new(),
        strange: Vec::new(),
    };
    for (partition, low) in lows {
        let log = logs.log_of(&partition);
        let is_same = wanted
            .get(&log)
            .is_none_or(|(writer, _)| found.get(&log) == Some(writer));
        let view = known.get(&partition).copied().filter(|_| is_same);
        if view.is_none() {
            recognised.strange.push(partition.clone());
        }
        let view = view.unwrap_or(LogView::beginning(NextOffset(low.0), None));
        recognised.begin.push((partition, view));
    }
    Ok(recognised)
}

/// Whose marker stands at each of these places, where one does.
fn markers(
    reader: &LedgerReader,
    wanted: &BTreeMap<TopicPartition, (Writer, Offset)>,
) -> KafkaResult<BTreeMap<TopicPartition, Writer>> {
    let from: Vec<_> = wanted
        .iter()
        .map(|(log, (_, at))| (log.clone(), Some(NextOffset(at.0))))
        .collect();
    let mut seen: BTreeMap<TopicPartition, Option<Writer>> = BTreeMap::new();
    if from.is_empty() {
        return Ok(BTreeMap::new());
    }
    reader.follow(&from)?;
    let end = Instant::now() + MARKERS_WITHIN;
    while seen.len() < wanted.len() && Instant::now() < end {
        match reader.poll(LOOK) {
            Told::Record { at, logged } => {
                let is_there = wanted
                    .get(&at.partition)
                    .is_some_and(|(_, place)| *place == at.offset);
                let writer = match logged {
                    Ok(Logged::Owner(writer)) if is_there => Some(writer),
                    Ok(Logged::Owner(_) | Logged::Entry(_) | Logged::Profile { .. }) | Err(_) => {
                        None
                    }
                };
                seen.entry(at.partition).or_insert(writer);
            }
            Told::Fault(error) => {
                tracing::warn!(%error, "looking for markers in the ledger topic met a fault and goes on");
            }
            Told::Nothing => {}
        }
    }
    let found = seen.into_iter();
    Ok(found
        .filter_map(|(log, writer)| Some((log, writer?)))
        .collect())
}
