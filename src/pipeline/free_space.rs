//! Decides when to say that the ledger's disk is running full: below a limit, and then at most once a minute. A full disk
//! stops every send, so that it is said while there is time.

use std::time::Duration;

use crate::domain::time::Timestamp;

/// Below this it is little for any ledger: half a million intents or so are left.
const FREE_MIN_BYTES: u64 = 1024 * 1024 * 1024;
/// Below this part of the ledger's own size it is little as well: a period that is over is copied before it is dropped.
const SHARE: u64 = 4;
/// Between two warnings.
const PAUSE: Duration = Duration::from_secs(60);

/// Whether it was said lately.
#[derive(Debug, Default)]
pub struct FreeSpace {
    told_at: Option<Timestamp>,
}

impl FreeSpace {
    /// Whether to warn now, with so many bytes free on the disk of a ledger of this size.
    pub fn is_to_be_told(&mut self, free: u64, ledger: u64, now: Timestamp) -> bool {
        let is_little = free < FREE_MIN_BYTES || free < ledger / SHARE;
        let early = self
            .told_at
            .is_some_and(|told| now < told.plus(PAUSE) && now >= told);
        let is_told = is_little && !early;
        if is_told {
            self.told_at = Some(now);
        }
        is_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * 1024 * 1024;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn little_is_less_than_a_gibibyte_or_than_a_quarter_of_the_ledger() {
        let told = |free, ledger| FreeSpace::default().is_to_be_told(free, ledger, at(0));
        assert!(!told(GIB, 0) && told(GIB - 1, 0));
        assert!(!told(5 * GIB, 20 * GIB) && told(5 * GIB - 1, 20 * GIB));
    }

    #[test]
    fn it_is_told_at_once_and_then_once_a_minute_for_as_long_as_it_lasts() {
        let mut space = FreeSpace::default();
        let mut told_at = Vec::new();
        for second in (0..=130).step_by(10) {
            if space.is_to_be_told(0, 0, at(second)) {
                told_at.push(second);
            }
        }
        assert_eq!(told_at, [0, 60, 120]);
        assert!(space.is_to_be_told(0, 0, at(5)), "the clock stepped back");
    }
}
