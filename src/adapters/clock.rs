//! Tells the time and throws the dice. Nothing else in the program reads a clock or draws a number.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt as _;
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

use crate::domain::time::{Timestamp, UnitFraction};

/// The wall clock and the dice. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Clock(());

impl Clock {
    /// Now, by the wall clock.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
    }

    /// Now, for those who can hold no clock.
    pub fn wall() -> Timestamp {
        Self::default().now()
    }

    /// A drawn fraction, 0 ≤ x < 1.
    pub fn jitter(&self) -> UnitFraction {
        UnitFraction::new(rand::rng().random()).unwrap_or(UnitFraction::ZERO)
    }

    /// A drawn version 4 UUID.
    pub fn random_uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    /// A stopwatch that has not been started.
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch::default()
    }
}

/// A moment on the boot clock, which goes on while the machine sleeps and never steps (`clock_gettime(2)`,
/// CLOCK_BOOTTIME).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootMoment(Duration);

impl BootMoment {
    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
        Self(Duration::new(seconds, nanos))
    }

    /// The moment `span` from now.
    pub fn after(span: Duration) -> Self {
        Self(Self::now().0.saturating_add(span))
    }

    /// The moment `span` ago, or the machine's start.
    #[cfg(test)]
    pub fn ago(span: Duration) -> Self {
        Self(Self::now().0.saturating_sub(span))
    }

    /// Whether it has come.
    pub fn has_passed(self) -> bool {
        Self::now() >= self
    }

    /// How long ago it came; zero if it has not.
    pub fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    /// How long until it comes; zero if it has.
    pub fn remaining(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }
}

/// Measures one span at a time.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch(Arc<Mutex<Option<BootMoment>>>);

impl Stopwatch {
    /// Begins to measure.
    pub fn start(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(BootMoment::now());
    }

    /// The span since `start`; zero if it was never started.
    pub fn read(&self) -> Duration {
        let started = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.map_or(Duration::ZERO, |started| {
            BootMoment::now().0.saturating_sub(started.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_never_goes_back_and_a_deadline_passes() {
        let earlier = BootMoment::now();
        assert!(BootMoment::now() >= earlier);
        assert!(BootMoment::after(Duration::ZERO).has_passed());
        let later = BootMoment::after(Duration::from_secs(3_600));
        assert!(!later.has_passed());
        assert!(later.remaining() > Duration::from_secs(3_590));
    }
}
