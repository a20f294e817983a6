//! Decides which one number a text means: E.164, or a refusal wherever a guess would be needed.
//!
//! The `phonenumber` crate is asked for Google's metadata alone (calling codes, lengths, prefixes, patterns), never to
//! parse: its parser takes `++1…`, 16 digits and letters, drops digits that look like a trunk prefix (`+7 800 1234567`
//! becomes `+7 001234567`), and appends whatever it likes to a default region. Here no digit is ever added or dropped
//! but a trunk or dialling prefix that the metadata names. So a later metadata changes what is taken, not how it is
//! written, and keys stay what they are.
//!
//! Whether a possible number exists is the provider's to say.

use phonenumber::Metadata;
use phonenumber::country::Id;
use phonenumber::metadata::{DATABASE, Descriptor};

use super::{RecipientFault, is_format};

/// E.164 (2010), section 6.2.1: at most 15 digits with the country code.
const DIGITS_MAX: usize = 15;

/// The longest country calling code. No code is the beginning of another.
const COUNTRY_CODE_LEN_MAX: usize = 3;

/// The longest prefix with which international calls begin, anywhere in the metadata, with room.
const DIALLING_PREFIX_LEN_MAX: usize = 8;

/// Short codes have 3 to 6 digits; from 7 on, local numbers without their area code look the same.
const SHORT_CODE_LEN: std::ops::RangeInclusive<usize> = 3..=6;

/// The zeros of the decimal digits that are read; each is followed by the other nine. ASCII and, in the order of
/// their code points, Arabic-Indic, its extended form, Devanagari, Bengali, Thai and fullwidth.
const ZEROS: [char; 7] = [
    '0', '\u{0660}', '\u{06F0}', '\u{0966}', '\u{09E6}', '\u{0E50}', '\u{FF10}',
];

/// A region whose local numbers are read: its two letters in ISO 3166-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region(Id);

impl Region {
    /// The region with these two capital letters, if the metadata knows it.
    pub fn new(letters: &str) -> Option<Self> {
        let region = Self(letters.parse().ok()?);
        region.metadata().is_some().then_some(region)
    }

    /// Its two letters.
    pub fn letters(&self) -> &str {
        self.0.as_ref()
    }

    fn metadata(self) -> Option<&'static Metadata> {
        DATABASE.by_id(self.0.as_ref())
    }
}

/// `text` in E.164, or as a short code where those are allowed.
pub(super) fn canonical(
    text: &str,
    default_region: Option<Region>,
    short_codes: bool,
) -> Result<String, RecipientFault> {
    let typed = Typed::read(text)?;
    if typed.digits.len() > DIGITS_MAX + DIALLING_PREFIX_LEN_MAX {
        return Err(RecipientFault::NotPossible);
    }
    if typed.plus {
        return international(&typed.digits, typed.trunk_zero);
    }
    if typed.trunk_zero.is_some() {
        return Err(RecipientFault::Form);
    }
    let mut readings = Vec::new();
    if short_codes && is_short_code(&typed.digits) {
        readings.push(typed.digits.clone());
    }
    match default_region.and_then(Region::metadata) {
        Some(metadata) => {
            readings.extend(dialled_abroad(&typed.digits, metadata));
            readings.extend(dialled_at_home(&typed.digits, metadata));
        }
        None if readings.is_empty() => return Err(RecipientFault::NoRegion),
        None => {}
    }
    readings.sort();
    readings.dedup();
    match readings.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(RecipientFault::NotPossible),
        [_, _, ..] => Err(RecipientFault::Ambiguous),
    }
}

/// What stands in the text, once everything is gone that only sets digits apart.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    plus: bool,
    /// ASCII digits.
    digits: String,
    /// How many digits stand before a zero that was written as `(0)` and is not among the digits.
    trunk_zero: Option<usize>,
}

impl Typed {
    fn read(text: &str) -> Result<Self, RecipientFault> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || is_format(c));
        let text = without_scheme(text);
        let mut typed = Self {
            plus: false,
            digits: String::new(),
            trunk_zero: None,
        };
        let mut bracket: Option<usize> = None;
        for character in text.chars() {
            match character {
                '+' | '\u{FF0B}' if typed.plus || !typed.digits.is_empty() => {
                    return Err(RecipientFault::Plus);
                }
                '+' | '\u{FF0B}' => typed.plus = true,
                '(' if bracket.is_some() => return Err(RecipientFault::Form),
                '(' => bracket = Some(typed.digits.len()),
                ')' => {
                    let start = bracket.take().ok_or(RecipientFault::Form)?;
                    if start > 0 && typed.digits.get(start..) == Some("0") {
                        if typed.trunk_zero.is_some() {
                            return Err(RecipientFault::Form);
                        }
                        typed.digits.truncate(start);
                        typed.trunk_zero = Some(start);
                    }
                }
                _ => match digit(character) {
                    Some(digit) => typed.digits.push(digit),
                    None if sets_apart(character) => {}
                    None => return Err(RecipientFault::Character),
                },
            }
        }
        match (bracket, typed.digits.is_empty()) {
            (Some(_), _) => Err(RecipientFault::Form),
            (None, true) => Err(RecipientFault::Empty),
            (None, false) => Ok(typed),
        }
    }
}

/// `tel:` (RFC 3966) and `sms:` (RFC 5724), as far as they hold a number alone: parameters are refused with their `;`.
fn without_scheme(text: &str) -> &str {
    for scheme in ["tel:", "sms:"] {
        if let Some((start, rest)) = text.split_at_checked(scheme.len())
            && start.eq_ignore_ascii_case(scheme)
        {
            return rest;
        }
    }
    text
}

fn digit(character: char) -> Option<char> {
    ZEROS.iter().find_map(|zero| {
        let value = u32::from(character).checked_sub(u32::from(*zero))?;
        char::from_digit(value, 10)
    })
}

/// Blanks, dots, dashes and invisible marks. No slash, comma or letter: behind those stands another number.
fn sets_apart(character: char) -> bool {
    let blank = character.is_whitespace() && !character.is_control();
    let dash = matches!(character, '-' | '.' | '\u{2010}'..='\u{2015}' | '\u{2212}');
    blank || dash || is_format(character)
}

/// All of `digits` behind the plus: a calling code and a national number that is possible there.
fn international(digits: &str, trunk_zero: Option<usize>) -> Result<String, RecipientFault> {
    let (code, countries) = (1..=COUNTRY_CODE_LEN_MAX)
        .find_map(|len| {
            let code = digits.get(..len).filter(|code| !code.starts_with('0'))?;
            let countries = DATABASE.by_code(&code.parse::<u16>().ok()?)?;
            Some((code, countries))
        })
        .ok_or(RecipientFault::CountryCode)?;
    let national = digits.get(code.len()..).unwrap_or_default();
    let trunk_is_zero = countries
        .iter()
        .any(|country| country.national_prefix() == Some("0"));
    if let Some(place) = trunk_zero
        && (place != code.len() || !trunk_is_zero)
    {
        return Err(RecipientFault::TrunkPrefix);
    }
    if trunk_is_zero && national.starts_with('0') {
        return Err(RecipientFault::TrunkPrefix);
    }
    let possible = digits.len() <= DIGITS_MAX
        && countries
            .iter()
            .any(|country| has_length(country, national.len()));
    if possible {
        Ok(format!("+{digits}"))
    } else {
        Err(RecipientFault::NotPossible)
    }
}

/// How `digits` read if they begin with a prefix that dials out of the country, such as 00 or 011.
fn dialled_abroad(digits: &str, home: &Metadata) -> Vec<String> {
    let Some(prefix) = home.international_prefix() else {
        return Vec::new();
    };
    (1..=DIALLING_PREFIX_LEN_MAX)
        .filter_map(|len| digits.split_at_checked(len))
        .filter(|(start, _)| {
            prefix
                .find(start)
                .is_some_and(|found| found.start() == 0 && found.end() == start.len())
        })
        .filter_map(|(_, rest)| international(rest, None).ok())
        .collect()
}

/// How `digits` read as a number of the country itself: behind its trunk prefix where it has one. Without that prefix
/// only a mobile number is read, which nobody dials in part, or a number of the plan that has 1 for both prefix and
/// country (NANP), where the prefix is optional.
fn dialled_at_home(digits: &str, home: &Metadata) -> Vec<String> {
    let written = |national: &str| format!("+{}{national}", home.country_code());
    let mut readings = Vec::new();
    let bare = match home.national_prefix() {
        None => is_national(digits, home),
        Some(prefix) => {
            if let Some(national) = digits.strip_prefix(prefix)
                && is_national(national, home)
            {
                readings.push(written(national));
            }
            let optional = prefix == "1";
            (optional && is_national(digits, home)) || is_mobile(digits, home)
        }
    };
    if bare {
        readings.push(written(digits));
    }
    readings
}

/// A number with its area code, by length and by how it begins.
fn is_national(national: &str, country: &Metadata) -> bool {
    let begins = country.descriptors().general().is_match(national);
    begins && has_length(country, national.len())
}

fn is_mobile(national: &str, country: &Metadata) -> bool {
    country
        .descriptors()
        .mobile()
        .is_some_and(|mobile| mobile.is_match(national))
}

fn is_short_code(digits: &str) -> bool {
    SHORT_CODE_LEN.contains(&digits.len()) && !digits.starts_with('0')
}

/// Whether any kind of number there has `len` digits. The metadata keeps lengths by kind; its general entry has none.
fn has_length(country: &Metadata, len: usize) -> bool {
    let kinds = country.descriptors();
    let kinds: [Option<&Descriptor>; 11] = [
        kinds.fixed_line(),
        kinds.mobile(),
        kinds.toll_free(),
        kinds.premium_rate(),
        kinds.shared_cost(),
        kinds.personal_number(),
        kinds.voip(),
        kinds.pager(),
        kinds.uan(),
        kinds.voicemail(),
        kinds.standard_rate(),
    ];
    kinds
        .into_iter()
        .flatten()
        .flat_map(Descriptor::possible_length)
        .any(|possible| usize::from(*possible) == len)
}

#[cfg(test)]
mod tests;
