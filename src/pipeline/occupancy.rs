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
    /// Nothing is taken in any of so many lanes.
    pub fn of(lanes: usize) -> Arc<Self> {
        Arc::new(Self {
            lanes: (0..lanes).map(|_| Taken::default()).collect(),
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

    /// Resolves once places have been given back since it resolved last.
    pub async fn left(&self) {
        self.left.notified().await;
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
            self.occupancy.left.notify_one();
        }
    }
}
