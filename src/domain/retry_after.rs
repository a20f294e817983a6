//! Decides how long a provider asks us to wait, from the texts in which providers say so: `Retry-After` in both its forms
//! (RFC 9110, section 10.2.3) and what vendors made of it. It knows no clock: `now` is an argument. What a wait that
//! cannot be used leads to is for `retry` to say: backoff, never nothing.

use std::time::Duration;

use thiserror::Error;

use super::time::Timestamp;

/// The longest wait that is believed, unless the configuration says otherwise.
pub const WAIT_MAX_DEFAULT: Duration = Duration::from_secs(3 * 86_400);

/// Below this number of seconds since 1970 a moment is meant as seconds that are left, and above it seconds as a moment.
const EPOCH_FROM: u64 = 1_000_000_000;

/// How a wait is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Seconds, with decimals if need be, or an HTTP date in any of its three forms.
    RetryAfter,
    /// Seconds, with decimals if need be.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds left; a number of a billion or more is a moment in seconds since 1970.
    SecondsLeft,
    /// A moment in seconds since 1970; a number below a billion is seconds left.
    EpochSeconds,
    /// A moment in milliseconds since 1970.
    EpochMilliseconds,
    /// A moment as RFC 3339 writes it.
    Rfc3339,
}

impl Form {
    /// Every form, in the order of the enum.
    pub const ALL: [Self; 7] = [
        Self::RetryAfter,
        Self::Seconds,
        Self::Milliseconds,
        Self::SecondsLeft,
        Self::EpochSeconds,
        Self::EpochMilliseconds,
        Self::Rfc3339,
    ];

    /// Its name in profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetryAfter => "retry_after",
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::SecondsLeft => "seconds_left",
            Self::EpochSeconds => "epoch_seconds",
            Self::EpochMilliseconds => "epoch_milliseconds",
            Self::Rfc3339 => "rfc3339",
        }
    }
}

/// A wait that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedWait {
    /// From now on; above zero, at most the longest wait that is believed.
    pub at_least: Duration,
    /// The number looks like milliseconds where seconds are meant: a whole number of thousands, of ten thousand or more.
    pub unit_doubt: bool,
}

/// Why a wait cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unusable {
    /// Nothing was said.
    #[error("no wait is named")]
    Absent,
    /// It is not written in the form that is expected here.
    #[error("the wait is not written as expected")]
    Malformed,
    /// It has passed already, or is zero: it asks for no wait at all, which is no answer to a refusal.
    #[error("the wait has passed")]
    Past,
    /// It is longer than the longest wait that is believed.
    #[error("the wait is too long to be believed")]
    TooLong,
}

/// Reads a wait that is given once or several times; the longest that can be used counts.
///
/// # Errors
///
/// If none can be used: why the first cannot.
pub fn read<'a>(
    form: Form,
    texts: impl IntoIterator<Item = &'a [u8]>,
    now: Timestamp,
    wait_max: Duration,
) -> Result<AskedWait, Unusable> {
    let mut outcome: Result<AskedWait, _> = Err(Unusable::Absent);
    for text in texts {
        let this = read_one(form, text, now, wait_max);
        outcome = match (outcome, this) {
            (Ok(known), Ok(this)) if known.at_least >= this.at_least => Ok(known),
            (_, Ok(this)) => Ok(this),
            (Err(Unusable::Absent), Err(problem)) => Err(problem),
            (known, Err(_)) => known,
        };
    }
    outcome
}

fn read_one(
    form: Form,
    text: &[u8],
    now: Timestamp,
    wait_max: Duration,
) -> Result<AskedWait, Unusable> {
    let text = std::str::from_utf8(text).map_err(|_| Unusable::Malformed)?;
    let text = text.trim_matches([' ', '\t']);
    let until = |moment: Timestamp| moment.since(now);
    let at_least = match form {
        Form::RetryAfter => match decimal_rounded_up(text) {
            Err(Unusable::Malformed) => until(http_date(text).ok_or(Unusable::Malformed)?),
            seconds => Duration::from_secs(seconds?),
        },
        Form::Seconds => Duration::from_secs(decimal_rounded_up(text)?),
        Form::Milliseconds => Duration::from_millis(decimal_rounded_up(text)?),
        Form::SecondsLeft | Form::EpochSeconds => match decimal_rounded_up(text)? {
            left if left < EPOCH_FROM => Duration::from_secs(left),
            moment => until(at_seconds(moment)?),
        },
        Form::EpochMilliseconds => {
            let millis = i64::try_from(decimal_rounded_up(text)?).map_err(|_| Unusable::TooLong)?;
            until(Timestamp::from_millis(millis))
        }
        Form::Rfc3339 => until(Timestamp::parse_rfc3339(text).ok_or(Unusable::Malformed)?),
    };
    if at_least.is_zero() {
        return Err(Unusable::Past);
    }
    if at_least > wait_max {
        return Err(Unusable::TooLong);
    }
    let seconds = at_least.as_secs();
    let unit_doubt = match form {
        Form::RetryAfter | Form::Seconds => {
            seconds >= 10_000
                && seconds.is_multiple_of(1_000)
                && text.bytes().all(|b| b.is_ascii_digit())
        }
        Form::Milliseconds
        | Form::SecondsLeft
        | Form::EpochSeconds
        | Form::EpochMilliseconds
        | Form::Rfc3339 => false,
    };
    Ok(AskedWait {
        at_least,
        unit_doubt,
    })
}

/// `120`, `1.5`, `0.5`: digits, at most one point, no sign and no exponent; a fraction counts as a whole one.
fn decimal_rounded_up(text: &str) -> Result<u64, Unusable> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(Unusable::Malformed);
    }
    let whole: u64 = whole.parse().map_err(|_| Unusable::TooLong)?;
    let up = u64::from(fraction.bytes().any(|b| b != b'0'));
    whole.checked_add(up).ok_or(Unusable::TooLong)
}

/// The three forms of RFC 9110, section 5.6.7. The library refuses a day that no calendar has, or of another weekday.
fn http_date(text: &str) -> Option<Timestamp> {
    let moment = httpdate::parse_http_date(text).ok()?;
    let since = moment.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis())
        .ok()
        .map(Timestamp::from_millis)
}

fn at_seconds(seconds: u64) -> Result<Timestamp, Unusable> {
    seconds
        .checked_mul(1_000)
        .and_then(|millis| i64::try_from(millis).ok())
        .map(Timestamp::from_millis)
        .ok_or(Unusable::TooLong)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Wednesday, 21 October 2026, 07:27:00 UTC.
    const NOW: Timestamp = Timestamp::from_millis(1_792_567_620_000);

    fn after(form: Form, texts: &[&str]) -> Result<AskedWait, Unusable> {
        read(
            form,
            texts.iter().map(|text| text.as_bytes()),
            NOW,
            WAIT_MAX_DEFAULT,
        )
    }

    fn seconds(form: Form, texts: &[&str]) -> Result<u64, Unusable> {
        after(form, texts).map(|wait| {
            assert_eq!(wait.at_least.subsec_nanos(), 0);
            wait.at_least.as_secs()
        })
    }

    #[test]
    fn p23_every_form_of_retry_after_gives_its_wait_or_none() {
        use Unusable::{Absent, Malformed, Past, TooLong};
        let table: &[(&[&str], Result<u64, Unusable>)] = &[
            (&["120"], Ok(120)),
            (&[" 120 "], Ok(120)),
            (&["\t120\t"], Ok(120)),
            (&["Wed, 21 Oct 2026 07:28:00 GMT"], Ok(60)),
            (&["Wednesday, 21-Oct-26 07:28:00 GMT"], Ok(60)),
            (&["Wed Oct 21 07:28:00 2026"], Ok(60)),
            (&["Wed, 21 Oct 2026 07:26:59 GMT"], Err(Past)),
            (&["Wed, 21 Oct 2026 07:27:00 GMT"], Err(Past)),
            (&["Thu, 01 Jan 1970 00:00:00 GMT"], Err(Past)),
            (&["1.5"], Ok(2)),
            (&["0.5"], Ok(1)),
            (&["1.0"], Ok(1)),
            (&["0.000000000000000000000000000001"], Ok(1)),
            (&["0"], Err(Past)),
            (&["0.0"], Err(Past)),
            (&["-3"], Err(Malformed)),
            (&["+3"], Err(Malformed)),
            (&["120abc"], Err(Malformed)),
            (&["soon"], Err(Malformed)),
            (&[""], Err(Malformed)),
            (&[], Err(Absent)),
            (&["1."], Err(Malformed)),
            (&[".5"], Err(Malformed)),
            (&["1.5.2"], Err(Malformed)),
            (&["1e3"], Err(Malformed)),
            (&["0x10"], Err(Malformed)),
            (&["1 2"], Err(Malformed)),
            (&["1,5"], Err(Malformed)),
            (&["10, 60"], Err(Malformed)),
            (&["\u{661}\u{662}"], Err(Malformed)),
            (&["NaN"], Err(Malformed)),
            (&["inf"], Err(Malformed)),
            // 2026 has no 31 February, and its 21 October is no Monday.
            (&["Tue, 31 Feb 2026 07:28:00 GMT"], Err(Malformed)),
            (&["Mon, 21 Oct 2026 07:28:00 GMT"], Err(Malformed)),
            (&["Wed, 21 Oct 2026 25:28:00 GMT"], Err(Malformed)),
            (&["Wed, 21 Oct 2026 07:28:00 CET"], Err(Malformed)),
            (&["2026-10-21T07:28:00Z"], Err(Malformed)),
            (&["10", "60"], Ok(60)),
            (&["60", "10"], Ok(60)),
            (&["soon", "10"], Ok(10)),
            (&["10", "soon"], Ok(10)),
            (&["10", "1000000000"], Ok(10)),
            (&["10", "Wed, 21 Oct 2026 07:28:00 GMT"], Ok(60)),
            (&["soon", "-3"], Err(Malformed)),
            (&["259200"], Ok(259_200)),
            (&["259201"], Err(TooLong)),
            (&["259200.1"], Err(TooLong)),
            (&["1000000000"], Err(TooLong)),
            (&["18446744073709551616"], Err(TooLong)),
            (&["18446744073709551615.9"], Err(TooLong)),
            (&["Fri, 31 Dec 9999 23:59:59 GMT"], Err(TooLong)),
        ];
        for (texts, expected) in table {
            assert_eq!(seconds(Form::RetryAfter, texts), *expected, "{texts:?}");
        }
    }

    #[test]
    fn p23_milliseconds_are_read_as_such_only_where_the_profile_says_so() {
        assert_eq!(seconds(Form::Milliseconds, &["60000"]), Ok(60));
        let silent = after(Form::RetryAfter, &["60000"]).unwrap();
        assert_eq!(silent.at_least, Duration::from_secs(60_000));
        assert!(
            silent.unit_doubt,
            "sixteen hours in round thousands are worth a warning"
        );
        for plain in ["120", "9000", "60001", "86400"] {
            assert!(
                !after(Form::RetryAfter, &[plain]).unwrap().unit_doubt,
                "{plain}"
            );
        }
        assert_eq!(
            after(Form::Milliseconds, &["0.65"]).map(|wait| wait.at_least),
            Ok(Duration::from_millis(1))
        );
    }

    #[test]
    fn a_date_is_counted_from_the_very_millisecond() {
        let later = NOW.plus(Duration::from_millis(1));
        let wait = read(
            Form::RetryAfter,
            [b"Wed, 21 Oct 2026 07:28:00 GMT".as_slice()],
            later,
            WAIT_MAX_DEFAULT,
        );
        assert_eq!(
            wait.map(|wait| wait.at_least),
            Ok(Duration::from_millis(59_999))
        );
    }

    #[test]
    fn v42_an_epoch_is_a_moment_and_not_a_billion_seconds() {
        assert_eq!(seconds(Form::EpochSeconds, &["1792567680"]), Ok(60));
        assert_eq!(seconds(Form::EpochSeconds, &["1792567680.25"]), Ok(61));
        assert_eq!(
            seconds(Form::EpochSeconds, &["1790000000"]),
            Err(Unusable::Past)
        );
        assert_eq!(seconds(Form::EpochMilliseconds, &["1792567680000"]), Ok(60));
    }

    #[test]
    fn v123_a_small_number_is_seconds_left_and_not_1970() {
        for form in [Form::EpochSeconds, Form::SecondsLeft] {
            assert_eq!(seconds(form, &["1"]), Ok(1));
        }
        assert_eq!(seconds(Form::SecondsLeft, &["1792567680"]), Ok(60));
    }

    #[test]
    fn v121_a_decimal_of_seconds_is_rounded_up() {
        assert_eq!(seconds(Form::Seconds, &["0.65"]), Ok(1));
    }

    #[test]
    fn v128_what_no_wait_can_mean_is_not_used() {
        use Unusable::{Malformed, Past, TooLong};
        for (text, problem) in [
            ("Wed, 21 Oct 2015 07:28:00 GMT", Past),
            ("-1", Malformed),
            ("1000000000", TooLong),
            ("abc", Malformed),
        ] {
            assert_eq!(seconds(Form::RetryAfter, &[text]), Err(problem), "{text}");
        }
        assert_eq!(seconds(Form::RetryAfter, &["abc", "abc"]), Err(Malformed));
    }

    #[test]
    fn rfc_3339_is_read_with_its_offset() {
        assert_eq!(
            seconds(Form::Rfc3339, &["2026-10-21T09:28:00+02:00"]),
            Ok(60)
        );
        assert_eq!(
            seconds(Form::Rfc3339, &["2026-10-21T07:28:00"]),
            Err(Unusable::Malformed)
        );
    }

    fn any_form() -> impl Strategy<Value = Form> {
        prop::sample::select(Form::ALL.to_vec())
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_wait_within_its_bounds_or_none(
            form in any_form(),
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4),
            now in any::<i64>(),
        ) {
            let now = Timestamp::from_millis(now);
            if let Ok(wait) = read(form, texts.iter().map(Vec::as_slice), now, WAIT_MAX_DEFAULT) {
                prop_assert!(!wait.at_least.is_zero());
                prop_assert!(wait.at_least <= WAIT_MAX_DEFAULT);
            }
        }

        #[test]
        fn near_numbers_and_dates_never_panic(
            form in any_form(),
            text in "[ \\t]{0,2}[-+]?[0-9]{0,24}(\\.[0-9]{0,4})?[ \\t]{0,2}|(Mon|Wed|Xyz),? [0-9]{1,3}[- ][A-Z][a-z]{2}[- ][0-9]{2,5} [0-9]{2}:[0-9]{2}:[0-9]{2}( GMT)?",
            now in any::<i64>(),
        ) {
            let _ = read(form, [text.as_bytes()], Timestamp::from_millis(now), WAIT_MAX_DEFAULT);
        }

        #[test]
        fn whole_seconds_are_taken_to_the_letter(asked in 1_u64..=259_200, blanks in "[ \\t]{0,3}") {
            let text = format!("{blanks}{asked}{blanks}");
            prop_assert_eq!(seconds(Form::RetryAfter, &[&text]), Ok(asked));
        }

        #[test]
        fn a_date_ahead_is_waited_for_exactly(ahead in 1_u64..=259_200) {
            let moment = std::time::UNIX_EPOCH + Duration::from_secs(1_792_567_620 + ahead);
            let text = httpdate::fmt_http_date(moment);
            prop_assert_eq!(seconds(Form::RetryAfter, &[&text]), Ok(ahead));
        }
    }
}
