//! Decides how spans of time are written: a number with a unit, or several. It does not know which are sensible where.

use std::time::Duration;

use jiff::fmt::friendly::SpanParser;

const UNITS: [(u128, &str); 5] = [
    (24 * 60 * 60 * 1000, "d"),
    (60 * 60 * 1000, "h"),
    (60 * 1000, "m"),
    (1000, "s"),
    (1, "ms"),
];

/// Reads `500ms`, `40s`, `1h 30m`, `7d` and the like: whole milliseconds, a day is 24 hours, not negative. Months and years
/// are not read, since their length depends on where they begin.
pub fn parse(text: &str) -> Option<Duration> {
    const PARSER: SpanParser = SpanParser::new();
    let span = PARSER.parse_span(text).ok()?;
    let span = span
        .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        .ok()?;
    let span = Duration::try_from(span).ok()?;
    span.subsec_nanos()
        .is_multiple_of(1_000_000)
        .then_some(span)
}

/// Writes a span in its largest whole unit: `7d`, `90s`, `1500ms`.
pub fn show(span: Duration) -> String {
    let millis = span.as_millis();
    let (size, unit) = UNITS
        .into_iter()
        .find(|(size, _)| millis != 0 && millis.is_multiple_of(*size))
        .unwrap_or((1000, "s"));
    format!("{}{unit}", millis / size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_are_read_with_their_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("40s", 40_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("1h 30m", 5_400_000),
            ("1.5s", 1_500),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_has_no_fixed_length_or_no_unit_is_refused() {
        for text in [
            "", "40", "-1s", "1s ago", "1mo", "1y", "soon", "1ns", "1.0001s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(millis in 0u64..10_000_000_000) {
            let span = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(span)), Some(span));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
