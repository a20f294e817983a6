//! Decides what becomes of records that have been read and find no room: which is let in next, and which lanes are asked to
//! stay at the brokers meanwhile. How much room a lane has is `domain::lanes::house`.
//!
//! A short stall is waited out, because a pause throws away what was fetched already. But while another lane can still be
//! read, few records are kept here: behind the others might be one that has room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::lanes::{House, Lane, Use, Weight};
use crate::domain::position::TopicPartition;
use crate::domain::record::Record;

use super::occupancy::{Occupancy, Stay};

/// How long a lane without room is waited for before it is paused.
const PATIENCE: Duration = Duration::from_secs(1);
/// Places of the records that are kept here of a lane while others are read on.
const KEPT_MAX: usize = 256;
/// In so many parts at least, a lane's share of the house is filled again.
const REFILLS: usize = 128;
/// Bytes of records that one place has room for.
const PLACE_BYTES: usize = 16 * 1024;

/// Where records wait for room.
pub struct Lobby {
    house: House,
    occupancy: Arc<Occupancy>,
    queues: Vec<Queue>,
}

/// The records of one lane.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Since when the first one waits, and nothing was let in.
    since: Option<Instant>,
    is_paused: bool,
}

struct Waiting {
    record: Record,
    places: usize,
}

impl Lobby {
    /// Nobody waits. `open_max` places are shared out by these weights.
    pub fn new(open_max: usize, weights: &[Weight]) -> Self {
        let house = House::new(open_max, weights);
        let shares = (0..weights.len()).map(|lane| house.share(Lane(lane)));
        let told_from = shares.min().unwrap_or_default() / REFILLS;
        Self {
            house,
            occupancy: Occupancy::of(weights.len(), told_from),
            queues: weights.iter().map(|_| Queue::default()).collect(),
        }
    }

    /// What is taken.
    pub fn occupancy(&self) -> &Arc<Occupancy> {
        &self.occupancy
    }

    /// A record of this lane has been read. Gives it back with its places if there is room for it now, and keeps it if not.
    pub fn receive(&mut self, lane: Lane, record: Record) -> Option<(Record, Stay)> {
        let places = self.places_of(lane, &record);
        let nobody_waits = self.queues.get(lane.0)?.waiting.is_empty();
        if nobody_waits && places <= self.house.room(lane, |lane| self.at(lane)) {
            return Some((record, self.occupancy.take(lane, places)));
        }
        let queue = self.queues.get_mut(lane.0)?;
        queue.waiting.push_back(Waiting { record, places });
        None
    }

    /// The next record that waits and has room now, with its places.
    pub fn let_in(&mut self) -> Option<(Record, Stay)> {
        let lane = self.house.next(|lane| self.at(lane))?;
        let queue = self.queues.get_mut(lane.0)?;
        queue.since = None;
        let Waiting { record, places } = queue.waiting.pop_front()?;
        Some((record, self.occupancy.take(lane, places)))
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.waiting.is_empty())
    }

    /// Whether something may still be read of a lane for which `is_read` holds.
    pub fn is_open(&self, is_read: impl Fn(Lane) -> bool) -> bool {
        let mut lanes = (0..).map(Lane).zip(&self.queues);
        lanes.any(|(lane, queue)| !queue.is_paused && queue.waiting.is_empty() && is_read(lane))
    }

    /// Whether all that wait are of lanes that are paused.
    pub fn is_paused(&self) -> bool {
        let mut waiting = self.queues.iter().filter(|queue| !queue.waiting.is_empty());
        waiting.all(|queue| queue.is_paused)
    }

    /// Whether this lane is paused.
    pub fn has_paused(&self, lane: Lane) -> bool {
        let queue = self.queues.get(lane.0);
        queue.is_some_and(|queue| queue.is_paused)
    }

    /// The lanes that are to be paused from now on. `others_are_read`: something may be behind what waits here.
    pub fn pausing(&mut self, others_are_read: bool, now: Instant) -> Vec<Lane> {
        let mut pausing = Vec::new();
        for (lane, queue) in (0..).map(Lane).zip(&mut self.queues) {
            if queue.is_paused || queue.waiting.is_empty() {
                continue;
            }
            let since = *queue.since.get_or_insert(now);
            let kept: usize = queue.waiting.iter().map(|waiting| waiting.places).sum();
            let is_too_much = others_are_read && kept >= KEPT_MAX;
            if is_too_much || now.saturating_duration_since(since) >= PATIENCE {
                queue.is_paused = true;
                self.occupancy.set_full(lane, true);
                pausing.push(lane);
            }
        }
        pausing
    }

    /// The lanes that are paused no more from now on: those of which nobody waits, and that have room for half of their share.
    pub fn resuming(&mut self) -> Vec<Lane> {
        let has_room = |lane: Lane, queue: &Queue| {
            let half = (self.house.share(lane) / 2).max(1);
            let room = || self.house.room(lane, |lane| self.at(lane));
            queue.is_paused && queue.waiting.is_empty() && room() >= half
        };
        let lanes = (0..).map(Lane).zip(&self.queues);
        let resuming: Vec<Lane> = lanes
            .filter(|(lane, queue)| has_room(*lane, queue))
            .map(|(lane, _)| lane)
            .collect();
        for lane in &resuming {
            if let Some(queue) = self.queues.get_mut(lane.0) {
                (queue.is_paused, queue.since) = (false, None);
                self.occupancy.set_full(*lane, false);
            }
        }
        resuming
    }

    /// Records of these partitions are not waited for any more.
    pub fn forget(&mut self, partitions: &[TopicPartition]) {
        for queue in &mut self.queues {
            let stays =
                |waiting: &Waiting| !partitions.contains(&waiting.record.position.partition);
            queue.waiting.retain(stays);
        }
    }

    /// Nobody waits any more.
    pub fn clear(&mut self) {
        for queue in &mut self.queues {
            queue.waiting.clear();
        }
    }

    /// The places that a record takes: one, and one more for each 16 KiB, so that large records fill the house earlier.
    fn places_of(&self, lane: Lane, record: &Record) -> usize {
        let places = 1 + record.size() / PLACE_BYTES;
        places.min(self.house.share(lane))
    }

    fn at(&self, lane: Lane) -> Use {
        let queue = self.queues.get(lane.0);
        let next = queue.and_then(|queue| queue.waiting.front());
        Use {
            taken: self.occupancy.taken(lane),
            wants: next.is_some() || queue.is_some_and(|queue| queue.is_paused),
            next: next.map(|waiting| waiting.places),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::position::{Offset, Position};
    use crate::domain::time::Timestamp;

    const LOGIN: Lane = Lane(0);
    const MARKETING: Lane = Lane(1);

    fn record(lane: Lane, offset: i64, size: usize) -> Record {
        Record {
            position: Position {
                partition: TopicPartition {
                    topic: ["login", "marketing"][lane.0].into(),
                    partition: 0,
                },
                offset: Offset(offset),
            },
            timestamp: Timestamp::EPOCH,
            key: None,
            value: Some(vec![b'x'; size].into()),
            headers: Vec::new(),
            headers_unreadable: 0,
        }
    }

    fn lobby(open_max: usize, lanes: usize) -> Lobby {
        Lobby::new(open_max, &vec![Weight::MIN; lanes])
    }

    /// So many small records come to a lane. Those who were let in.
    fn come(lobby: &mut Lobby, lane: Lane, count: usize) -> Vec<Stay> {
        let come = (0..count).filter_map(|_| lobby.receive(lane, record(lane, 0, 10)));
        come.map(|(_, stay)| stay).collect()
    }

    fn let_in(lobby: &mut Lobby) -> Vec<Stay> {
        std::iter::from_fn(|| lobby.let_in())
            .map(|(_, stay)| stay)
            .collect()
    }

    #[test]
    fn one_lane_alone_fills_the_house_and_is_paused_once_patience_is_over() {
        let mut lobby = lobby(10, 1);
        let now = Instant::now();
        let mut stays = come(&mut lobby, LOGIN, 12);
        assert_eq!(stays.len(), 10);
        assert!(!lobby.is_open(|_| true));
        assert_eq!(lobby.pausing(false, now), []);
        assert_eq!(lobby.pausing(false, now + PATIENCE / 2), []);
        assert_eq!(lobby.pausing(false, now + PATIENCE), [LOGIN]);
        assert!(lobby.is_paused() && lobby.occupancy().is_full(LOGIN));
        assert_eq!(lobby.pausing(false, now + 2 * PATIENCE), [], "once");

        stays.truncate(8);
        let two = let_in(&mut lobby);
        assert_eq!((two.len(), lobby.is_empty()), (2, true));
        assert_eq!(lobby.resuming(), [], "full again");
        stays.truncate(3);
        assert_eq!(lobby.resuming(), [LOGIN], "half empty");
        assert!(!lobby.occupancy().is_full(LOGIN));
    }

    #[test]
    fn whatever_is_let_in_begins_patience_anew() {
        let mut lobby = lobby(2, 1);
        let now = Instant::now();
        let mut stays = come(&mut lobby, LOGIN, 4);
        assert_eq!(lobby.pausing(false, now), []);
        stays.pop();
        stays.extend(let_in(&mut lobby));
        assert_eq!(lobby.pausing(false, now + PATIENCE), []);
        assert_eq!(lobby.pausing(false, now + 2 * PATIENCE), [LOGIN]);
    }

    #[test]
    fn a_full_lane_is_paused_at_once_where_another_is_read_and_that_one_finds_room() {
        let mut lobby = lobby(1_000, 2);
        let now = Instant::now();
        let backlog = come(&mut lobby, MARKETING, 750 + KEPT_MAX - 1);
        assert_eq!(backlog.len(), 750);
        assert!(lobby.is_open(|lane| lane == LOGIN));
        assert!(!lobby.is_open(|lane| lane == MARKETING));
        assert_eq!(lobby.pausing(true, now), []);
        assert_eq!(come(&mut lobby, MARKETING, 1).len(), 0);
        assert_eq!(lobby.pausing(true, now), [MARKETING]);

        let codes = come(&mut lobby, LOGIN, 251);
        assert_eq!(codes.len(), 250, "half of its share was never lent");
        drop(backlog);
        let let_in = let_in(&mut lobby);
        let of = |lane: Lane| let_in.iter().filter(|stay| stay.lane() == lane).count();
        assert_eq!((of(LOGIN), of(MARKETING)), (1, KEPT_MAX));
    }

    #[test]
    fn a_lane_that_is_paused_wants_what_was_borrowed_from_it() {
        let mut lobby = lobby(100, 2);
        let now = Instant::now();
        let codes = come(&mut lobby, LOGIN, 75);
        let few = come(&mut lobby, MARKETING, 26);
        assert_eq!((codes.len(), few.len()), (75, 25));
        assert_eq!(lobby.pausing(false, now), []);
        assert_eq!(lobby.pausing(false, now + PATIENCE), [MARKETING]);
        drop(few);
        assert_eq!(let_in(&mut lobby).len(), 1);
        // Nobody of it waits here any more, and still nobody borrows what it is about to fetch.
        assert_eq!(come(&mut lobby, LOGIN, 1).len(), 0);
        assert_eq!(lobby.resuming(), [MARKETING]);
    }

    #[test]
    fn a_large_record_takes_more_places_and_never_more_than_the_share() {
        let mut lobby = lobby(10, 2);
        let (_, two) = lobby.receive(LOGIN, record(LOGIN, 0, PLACE_BYTES)).unwrap();
        assert_eq!(lobby.occupancy().taken(LOGIN), 2);
        let huge = record(LOGIN, 1, 100 * PLACE_BYTES);
        assert!(lobby.receive(LOGIN, huge).is_some());
        assert_eq!(lobby.occupancy().taken(LOGIN), 2, "given back at once");
        drop(two);
        let huge = record(LOGIN, 1, 100 * PLACE_BYTES);
        let (_, _stay) = lobby.receive(LOGIN, huge).unwrap();
        assert_eq!(lobby.occupancy().taken(LOGIN), 5);
    }

    #[test]
    fn what_is_not_ours_any_more_is_waited_for_no_more() {
        let mut lobby = lobby(1, 2);
        let _stay = come(&mut lobby, LOGIN, 2);
        let _other = come(&mut lobby, MARKETING, 2);
        lobby.forget(&[record(LOGIN, 0, 0).position.partition]);
        assert!(lobby.is_open(|lane| lane == LOGIN));
        assert!(!lobby.is_empty());
        lobby.clear();
        assert!(lobby.is_empty());
    }
}
