//! Reads records and hands them to the crew, within the limits; answers the group's rebalances.
//!
//! One thread polls, always: while nothing may be read of a lane, its partitions are paused and polling goes on. What waits
//! for room, and when a lane is paused, is decided in `lobby`.

mod assignment;
mod disputes;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::KafkaError;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::adapters::kafka::consumer::{GroupConsumer, Polled};
use crate::domain::lanes::{Lane, LaneTopics};
use crate::domain::position::TopicPartition;
use crate::domain::record::Record;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::status::{Loop, NotReady, Status};

use super::committer::Committer;
use super::lobby::Lobby;
use super::occupancy::Stay;
use super::owning::Owning;
use super::tenure::Tenure;
use super::tenures::Tenures;
use super::worker::Crew;
use disputes::Disputes;

/// The longest that one look at the group takes.
const LOOK: Duration = Duration::from_millis(100);

/// How long the last commit may take at a shutdown: what is left of the drain within these.
const LAST_COMMIT_MIN: Duration = Duration::from_millis(500);
const LAST_COMMIT_MAX: Duration = Duration::from_secs(5);

/// How much may be open, beside the places of each lane.
#[derive(Clone, Copy, Debug)]
pub struct IntakeLimits {
    /// Records of one partition between its committed position and the last one read.
    pub span_max: usize,
    /// How long work in flight may take to end when a partition is revoked, or at shutdown.
    pub drain: Duration,
}

/// How reading ended.
#[derive(Debug)]
pub enum Ended {
    /// As asked, with everything recorded.
    Drained,
    /// As asked, but this many records were still being worked on when the time was up.
    Forced {
        /// Records still worked on.
        at_work: usize,
    },
    /// The client cannot go on.
    Broken(KafkaError),
}

/// The reading thread.
pub struct Intake {
    consumer: Arc<GroupConsumer>,
    tenures: Arc<Tenures>,
    committer: Committer,
    crew: Arc<Crew>,
    limits: IntakeLimits,
    lanes: LaneTopics,
    partitions: usize,
    runtime: Handle,
    metrics: Arc<Metrics>,
    status: Arc<Status>,
    stop: watch::Receiver<bool>,
    lobby: Lobby,
    spans_full: HashSet<TopicPartition>,
    owning: Owning,
    disputes: Disputes,
    leaving: VecDeque<Leaving>,
}

/// Partitions that are to be let go once their work has ended.
struct Leaving {
    partitions: Vec<TopicPartition>,
    tenures: Vec<Arc<Tenure>>,
    until: Instant,
}

/// What the reading thread works with.
pub struct Parts {
    /// The member of the group.
    pub consumer: Arc<GroupConsumer>,
    /// The tenures that run.
    pub tenures: Arc<Tenures>,
    /// The one that commits.
    pub committer: Committer,
    /// Those who work.
    pub crew: Arc<Crew>,
    /// Where records wait for room.
    pub lobby: Lobby,
    /// How much may be open beside that.
    /// Who owns what in the ledger topic.
    pub owning: Owning,
    /// How much may be open.
    pub limits: IntakeLimits,
    /// The topics of the lanes.
    pub lanes: LaneTopics,
    /// Partitions of all topics together, as they were at the start.
    pub partitions: usize,
    /// Where work is spawned.
    pub runtime: Handle,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What the admin listener tells.
    pub status: Arc<Status>,
    /// Turns true when reading is to end.
    pub stop: watch::Receiver<bool>,
}

impl Intake {
    /// Reads nothing yet.
    pub fn new(parts: Parts) -> Self {
        Self {
            consumer: parts.consumer,
            tenures: parts.tenures,
            committer: parts.committer,
            crew: parts.crew,
            limits: parts.limits,
            lanes: parts.lanes,
            partitions: parts.partitions,
            runtime: parts.runtime,
            metrics: parts.metrics,
            status: parts.status,
            stop: parts.stop,
            lobby: parts.lobby,
            spans_full: HashSet::new(),
            owning: parts.owning,
            disputes: Disputes::default(),
            leaving: VecDeque::new(),
        }
    }

    /// Reads until it is told to stop or the client breaks, then drains. Gives the committer back, to be stopped.
    pub fn run(mut self) -> (Ended, Committer) {
        let broken = loop {
            if *self.stop.borrow() {
                break None;
            }
            self.status.beat(Loop::Intake);
            self.see_off();
            self.look_at_owners();
            self.resume_where_there_is_room();
            self.hand_over_held();
            let timeout = if self.leaving.is_empty() && self.lobby.is_empty() {
                LOOK
            } else {
                LOOK / 10
            };
            match self.consumer.poll(timeout) {
                Polled::Record(record) => self.read(record),
                Polled::Assigned(partitions) => {
                    if let Err(error) = self.take_up(partitions) {
                        break Some(error);
                    }
                }
                Polled::Revoked(partitions) => self.revoked(partitions),
                Polled::Lost(partitions) => self.lost(partitions),
                Polled::Fault(error) => tracing::warn!(%error, "reading met a fault and goes on"),
                Polled::Fatal(error) => break Some(error),
                Polled::Nothing => {}
            }
        };
        let forced = self.drain();
        let ended = match broken {
            Some(error) => Ended::Broken(error),
            None if forced == 0 => Ended::Drained,
            None => Ended::Forced { at_work: forced },
        };
        self.status.ended(Loop::Intake);
        (ended, self.committer)
    }

    fn read(&mut self, record: Record) {
        let lane = self.lanes.of(&record.position.partition);
        if let Some((record, stay)) = self.lobby.receive(lane, record) {
            self.hand_over(record, stay);
        }
    }

    /// Hands over what has room. Waits for room while nothing else can be read, and pauses what waits too long.
    fn hand_over_held(&mut self) {
        let until = Instant::now() + LOOK;
        loop {
            while let Some((record, stay)) = self.lobby.let_in() {
                self.hand_over(record, stay);
            }
            if self.lobby.is_empty() {
                return;
            }
            let others_are_read = self.lobby.is_open(|lane| self.is_assigned(lane));
            let now = Instant::now();
            for lane in self.lobby.pausing(others_are_read, now) {
                self.pause_lane(lane);
            }
            if others_are_read || self.lobby.is_paused() || now >= until {
                return;
            }
            let left = self.lobby.occupancy().left();
            // Whether places came or not is seen above.
            let _ = self
                .runtime
                .block_on(async { tokio::time::timeout_at(until, left).await });
        }
    }

    fn is_assigned(&self, lane: Lane) -> bool {
        let tenures = self.tenures.all();
        let mut ours = tenures.iter().filter(|tenure| !tenure.is_over());
        ours.any(|tenure| self.lanes.of(&tenure.partition) == lane)
    }

    fn hand_over(&mut self, record: Record, stay: Stay) {
        let Some(tenure) = self.tenures.open(&record, || self.crew.writer_name()) else {
            return;
        };
        self.metrics.record();
        let partition = record.position.partition.clone();
        if !tenure.owns() && !self.owning.is_taking_for(&tenure) && !tenure.is_over() {
            self.own(&tenure);
        }
        self.crew.take(record, Arc::clone(&tenure), stay);
        if tenure.span() >= self.limits.span_max && self.spans_full.insert(partition.clone()) {
            tracing::warn!(%partition, span = tenure.span(), "too much is uncommitted: the partition is paused");
            self.pause(&[partition]);
        }
    }

    fn pause_lane(&self, lane: Lane) {
        let partitions = self.partitions_of(&[lane]);
        tracing::debug!(
            topic = partitions.first().map(|partition| &*partition.topic),
            partitions = partitions.len(),
            "as much is open as may be: reading is paused"
        );
        self.pause(&partitions);
    }

    /// The partitions of these lanes that are ours.
    fn partitions_of(&self, lanes: &[Lane]) -> Vec<TopicPartition> {
        let tenures = self.tenures.all();
        let partitions = tenures.iter().map(|tenure| &tenure.partition);
        partitions
            .filter(|partition| lanes.contains(&self.lanes.of(partition)))
            .cloned()
            .collect()
    }

    fn resume_where_there_is_room(&mut self) {
        let lanes_open = self.lobby.resuming();
        let below = |partition: &TopicPartition| {
            self.tenures
                .of(partition)
                .is_none_or(|tenure| tenure.span() <= self.limits.span_max / 2)
        };
        let spans_open: Vec<TopicPartition> = self
            .spans_full
            .iter()
            .filter(|partition| below(partition))
            .cloned()
            .collect();
        for partition in &spans_open {
            self.spans_full.remove(partition);
        }
        let mut open = spans_open;
        if !lanes_open.is_empty() {
            open.extend(self.partitions_of(&lanes_open));
        }
        open.retain(|partition| {
            let is_paused = self.lobby.has_paused(self.lanes.of(partition));
            let is_owned = !self.owning.is_taking(partition) && !self.disputes.is_open(partition);
            !is_paused && !self.spans_full.contains(partition) && is_owned
        });
        if open.is_empty() {
            return;
        }
        if let Err(error) = self.consumer.resume(&open) {
            tracing::warn!(%error, "reading could not be resumed");
        }
    }

    fn pause(&self, partitions: &[TopicPartition]) {
        if let Err(error) = self.consumer.pause(partitions) {
            tracing::warn!(%error, "reading could not be paused");
        }
    }

    /// Ends all work, records and commits what it came to. Returns how many records were still worked on.
    fn drain(&mut self) -> usize {
        let tenures = self.tenures.all();
        for tenure in &tenures {
            tenure.end();
        }
        // Said once it is true that nothing new is started.
        self.status.set(NotReady::Draining);
        self.lobby.clear();
        let until = Instant::now() + self.limits.drain;
        while Instant::now() < until && tenures.iter().any(|tenure| !tenure.is_idle()) {
            self.status.beat(Loop::Intake);
            // Polling keeps the membership until the work has ended; nothing it brings is read any more.
            match self.consumer.poll(LOOK / 10) {
                Polled::Lost(partitions) => self.lost(partitions),
                Polled::Revoked(partitions) => {
                    // The commit below comes first; the group waits for us until then.
                    self.leaving.push_back(Leaving {
                        partitions,
                        tenures: Vec::new(),
                        until,
                    });
                }
                Polled::Record(_)
                | Polled::Assigned(_)
                | Polled::Fatal(_)
                | Polled::Fault(_)
                | Polled::Nothing => {}
            }
        }
        let at_work = tenures.iter().map(|tenure| tenure.at_work_count()).sum();
        let left = until.saturating_duration_since(Instant::now());
        let patience = left.clamp(LAST_COMMIT_MIN, LAST_COMMIT_MAX);
        if !self.commit_last(&tenures, patience) {
            tracing::warn!(
                "the last commit was not answered in time; what was settled is suppressed when read again"
            );
        }
        let partitions: Vec<_> = tenures
            .iter()
            .map(|tenure| tenure.partition.clone())
            .collect();
        self.tenures.let_go(&partitions);
        at_work
    }
}
