//! Counts how many places the open intents of each lane take, and which lanes are asked to stay where they are. How many there
//! may be is decided in `domain::lanes::house`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::domain::lanes::Lane;

/// What is taken in each lane.
#[derive(Debug)]
pub struct Occupancy {
    lanes: Box<[Taken]>,
    /// Places that must have been given back before it is told.
    told_from: usize,
    /// Places given back since it was told last.
    given_back: AtomicUsize,
    left: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    places: AtomicUsize,
    is_full: AtomicBool,
}

/// The places of one open intent; dropping it gives them back.
#[derive(Debug)]
pub struct Stay {
    occupancy: Arc<Occupancy>,
    lane: Lane,
    places: usize,
}

impl Occupancy {
    /// Nothing is taken in any of so many lanes. Whoever waits is told whenever `told_from` places have been given back: to
    /// wake a thread for each of them costs more than what it then reads.
    pub fn of(lanes: usize, told_from: usize) -> Arc<Self> {
        Arc::new(Self {
            lanes: (0..lanes).map(|_| Taken::default()).collect(),
            told_from: told_from.max(1),
            given_back: AtomicUsize::new(0),
            left: Notify::new(),
        })
    }

    /// Takes so many places in a lane. Whether there is room was asked before, by the one that lets in.
    pub fn take(self: &Arc<Self>, lane: Lane, places: usize) -> Stay {
        if let Some(taken) = self.lanes.get(lane.0) {
            taken.places.fetch_add(places, Ordering::Relaxed);
        }
        Stay {
            occupancy: Arc::clone(self),
            lane,
            places,
        }
    }

    /// The places that are taken in a lane.
    pub fn taken(&self, lane: Lane) -> usize {
        let taken = self.lanes.get(lane.0);
        taken.map_or(0, |taken| taken.places.load(Ordering::Relaxed))
    }

    /// Says whether nothing more of a lane is read for lack of room.
    pub fn set_full(&self, lane: Lane, is_full: bool) {
        if let Some(taken) = self.lanes.get(lane.0) {
            taken.is_full.store(is_full, Ordering::Relaxed);
        }
    }

    /// Whether nothing more of a lane is read for lack of room.
    pub fn is_full(&self, lane: Lane) -> bool {
        let taken = self.lanes.get(lane.0);
        taken.is_some_and(|taken| taken.is_full.load(Ordering::Relaxed))
    }

    /// Resolves once enough places have been given back since it resolved last. Fewer may have been given back, unsaid.
    pub async fn left(&self) {
        self.left.notified().await;
        self.given_back.store(0, Ordering::Relaxed);
    }
}

impl Stay {
    /// Whose it is.
    pub const fn lane(&self) -> Lane {
        self.lane
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(taken) = self.occupancy.lanes.get(self.lane.0) {
            taken.places.fetch_sub(self.places, Ordering::Relaxed);
            let (given_back, enough) = (&self.occupancy.given_back, self.occupancy.told_from);
            let before = given_back.fetch_add(self.places, Ordering::Relaxed);
            if before < enough && before.saturating_add(self.places) >= enough {
                self.occupancy.left.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_once_enough_has_been_given_back() {
        let occupancy = Occupancy::of(1, 3);
        let stays: Vec<Stay> = (0..7).map(|_| occupancy.take(Lane::default(), 1)).collect();
        let mut told = Vec::new();
        for stay in stays {
            drop(stay);
            let left = tokio::time::timeout(std::time::Duration::ZERO, occupancy.left());
            told.push(left.await.is_ok());
        }
        assert_eq!(told, [false, false, true, false, false, true, false]);
        assert_eq!(occupancy.taken(Lane::default()), 0);
    }
}
