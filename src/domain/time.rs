//! Decides how moments and chances are written down: milliseconds since the Unix epoch, and fractions of one.
//! It knows no clock and throws no dice: both arrive as arguments.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::date;
use jiff::fmt::temporal::Pieces;
use serde::{Deserialize, Serialize};

const SECONDS_PER_DAY: i32 = 86_400;

/// Two clocks that are kept by the network differ by less than this. Beyond it, a clock tells nothing.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);

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

    /// Reads a date and time of RFC 3339, section 5.6, with up to nine decimals, and nothing else of ISO 8601. Any year
    /// that has four digits will do: 9999-12-31 often means never. What is finer than a millisecond is cut off.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        if !has_shape_of_rfc3339(text) {
            return None;
        }
        let pieces = Pieces::parse(text).ok()?;
        let moment = pieces.date().to_datetime(pieces.time()?);
        let offset = pieces
            .to_numeric_offset()
            .filter(|offset| offset.seconds().abs() < SECONDS_PER_DAY)?;
        let local = moment.duration_since(date(1970, 1, 1).at(0, 0, 0, 0));
        let span = local.checked_sub(SignedDuration::from_secs(offset.seconds().into()))?;
        i64::try_from(span.as_millis()).ok().map(Self)
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

/// Date, time and offset are all there and in their places: the parser behind this takes more than that.
fn has_shape_of_rfc3339(text: &str) -> bool {
    const MOMENT: &str = "0000-00-00T00:00:00";
    const OFFSET: &str = "+00:00";
    let like = |part: &str, pattern: &str| {
        part.len() == pattern.len()
            && part
                .bytes()
                .zip(pattern.bytes())
                .all(|(byte, pattern)| match pattern {
                    b'0' => byte.is_ascii_digit(),
                    b'T' => matches!(byte, b'T' | b't'),
                    b'+' => matches!(byte, b'+' | b'-'),
                    exact => byte == exact,
                })
    };
    let Some((moment, rest)) = text.split_at_checked(MOMENT.len()) else {
        return false;
    };
    let offset = match rest.strip_prefix('.') {
        None => rest,
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            match rest.split_at_checked(digits) {
                Some((decimals, offset)) if (1..=9).contains(&decimals.len()) => offset,
                Some(_) | None => return false,
            }
        }
    };
    like(moment, MOMENT) && (matches!(offset, "Z" | "z") || like(offset, OFFSET))
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
    fn a_moment_is_read_with_any_offset() {
        let millis = |text: &str| Timestamp::parse_rfc3339(text).map(Timestamp::as_millis);
        for (text, moment) in [
            ("2026-10-21T07:27:00Z", 1_792_567_620_000),
            ("2026-10-21t07:27:00z", 1_792_567_620_000),
            ("2026-10-21T09:27:00+02:00", 1_792_567_620_000),
            ("2026-10-20T07:57:00.000999999-23:30", 1_792_567_620_000),
            ("2026-10-21T07:27:00.123456789-00:00", 1_792_567_620_123),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2016-12-31T23:59:60Z", 1_483_228_799_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("9999-12-31T23:59:59.999-23:59", 253_402_387_139_999),
        ] {
            assert_eq!(millis(text), Some(moment), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_of_rfc_3339_is_not_read() {
        for text in [
            "",
            "soon",
            "2026-10-21",
            "2026-10-21T07:27:00",
            "2026-10-21T07:27Z",
            "2026-10-21 07:27:00Z",
            "2026-10-21T07:27:00+02",
            "2026-10-21T07:27:00+0200",
            "2026-10-21T07:27:00+24:00",
            "2026-10-21T07:27:00.Z",
            "2026-10-21T07:27:00.1234567890Z",
            "2026-10-21T07:27:00,5Z",
            "2026-10-21T07:27:00Z[Europe/Berlin]",
            "2026-10-21T07:27:00[Europe/Berlin]",
            "2026-02-30T07:27:00Z",
            "2026-13-01T07:27:00Z",
            "2026-10-21T24:00:00Z",
            "2026-10-21T07:60:00Z",
            "20261021T072700Z",
            "+002026-10-21T07:27:00Z",
            "1792567620",
            " 2026-10-21T07:27:00Z",
            "2026-10-21T07:27:00\u{e9}",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(text), None, "{text}");
        }
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
