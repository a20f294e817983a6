//! Decides how moments and chances are written down: milliseconds since the Unix epoch, and fractions of one.
//! It knows no clock and throws no dice: both arrive as arguments.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment on the wall clock, in whole milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch itself.
    pub const EPOCH: Self = Self(0);

    /// The moment `millis` milliseconds after the epoch; negative is before it.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Reads an RFC 3339 date and time, which must name its offset.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let moment: jiff::Timestamp = text.parse().ok()?;
        Some(Self(moment.as_millisecond()))
    }

    /// This moment moved forward; stops at the end of time instead of wrapping.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis_of(span)))
    }

    /// This moment moved back; stops at the beginning of time instead of wrapping.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis_of(span)))
    }

    /// The span from `earlier` to this moment, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

fn millis_of(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// A drawn chance, 0 ≤ x < 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct UnitFraction(f64);

impl UnitFraction {
    /// Nothing at all.
    pub const ZERO: Self = Self(0.0);

    /// The fraction, or `None` if `value` is not in 0 ≤ x < 1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..1.0).contains(&value).then_some(Self(value))
    }

    /// This share of `span`.
    pub fn of(self, span: Duration) -> Duration {
        span.mul_f64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_rfc_3339_with_milliseconds() {
        assert_eq!(
            Timestamp::from_millis(1_792_567_620_001).to_string(),
            "2026-10-21T07:27:00.001Z"
        );
    }

    #[test]
    fn a_moment_is_read_with_any_offset_and_never_without_one() {
        assert_eq!(
            Timestamp::parse_rfc3339("2026-10-21T09:27:00+02:00"),
            Some(Timestamp::from_millis(1_792_567_620_000))
        );
        assert_eq!(Timestamp::parse_rfc3339("2026-10-21T09:27:00"), None);
        assert_eq!(Timestamp::parse_rfc3339("soon"), None);
    }

    #[test]
    fn arithmetic_saturates() {
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(end.plus(Duration::from_secs(1)), end);
        assert_eq!(Timestamp::EPOCH.since(end), Duration::ZERO);
    }

    #[test]
    fn a_fraction_is_at_least_zero_and_below_one() {
        assert!(UnitFraction::new(0.0).is_some());
        assert!(UnitFraction::new(1.0).is_none());
        assert!(UnitFraction::new(-0.1).is_none());
        assert!(UnitFraction::new(f64::NAN).is_none());
    }
}
