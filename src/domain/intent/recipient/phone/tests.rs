use proptest::prelude::*;

use super::RecipientFault::{
    Ambiguous, Character, CountryCode, Empty, Form, NoRegion, NotPossible, Plus, TrunkPrefix,
};
use super::*;

fn read(text: &str, region: &str, short_codes: bool) -> Result<String, RecipientFault> {
    let region = (!region.is_empty()).then(|| Region::new(region).unwrap());
    canonical(text, region, short_codes)
}

#[test]
fn p58_an_international_number_is_the_same_in_every_spelling() {
    for (typed, written) in [
        ("+447700900123", "+447700900123"),
        ("+44 7700 900123", "+447700900123"),
        (" +44 7700 900123", "+447700900123"),
        ("+44\u{A0}7700\u{202F}900123\n", "+447700900123"),
        ("\u{202A}+44 7700 900123\u{202C}", "+447700900123"),
        ("+44-7700-900-123", "+447700900123"),
        ("+44.7700.900.123", "+447700900123"),
        ("+44 \u{2013} 7700 \u{2212} 900123", "+447700900123"),
        ("\u{FF0B}\u{FF14}\u{FF14}7700900123", "+447700900123"),
        ("+44(0)7700900123", "+447700900123"),
        ("+44 (0) 7700 900123", "+447700900123"),
        ("(+44) 7700 900123", "+447700900123"),
        ("(+44)(0)7700 900123", "+447700900123"),
        ("tel:+44-7700-900123", "+447700900123"),
        ("TEL: +447700900123", "+447700900123"),
        ("sms: +1 (202) 555-0143", "+12025550143"),
        ("+1 (202) 555-0143", "+12025550143"),
        (
            "+\u{664}\u{664}\u{667}\u{667}\u{660}\u{660}\u{669}\u{660}\u{660}\u{661}\u{662}\u{663}",
            "+447700900123",
        ),
        ("+\u{6F4}\u{6F4}\u{6F7}\u{6F7}00900123", "+447700900123"),
        ("+\u{967}2025550143", "+12025550143"),
    ] {
        for (region, short_codes) in [
            ("", false),
            ("", true),
            ("GB", false),
            ("US", true),
            ("IT", false),
        ] {
            assert_eq!(
                read(typed, region, short_codes).as_deref(),
                Ok(written),
                "{typed:?} in {region:?}"
            );
        }
    }
}

#[test]
fn p58_no_digit_is_dropped_that_may_belong_to_the_number() {
    for (typed, answer) in [
        // Italy's zeros are part of the number, and 800 is one of Russia's own prefixes though 8 is the trunk's.
        ("+39 06 1234 5678", Ok("+390612345678")),
        ("+39 (06) 1234 5678", Ok("+390612345678")),
        ("+39 (0)6 1234 5678", Err(TrunkPrefix)),
        ("+7 800 555 01 43", Ok("+78005550143")),
        ("+7 (8) 916 555 01 43", Err(NotPossible)),
        ("+44 07700 900123", Err(TrunkPrefix)),
        ("+49 0170 1234567", Err(TrunkPrefix)),
        ("+44 7(0)700 900123", Err(TrunkPrefix)),
        ("+1 (0) 202 555 0143", Err(TrunkPrefix)),
        ("+36 06 20 123 4567", Err(NotPossible)),
    ] {
        for region in ["", "GB", "IT", "US", "RU"] {
            assert_eq!(
                read(typed, region, false),
                answer.map(str::to_owned),
                "{typed:?} in {region:?}"
            );
        }
    }
}

#[test]
fn p58_what_is_no_one_number_is_refused() {
    for (typed, fault) in [
        ("", Empty),
        (" ", Empty),
        ("+", Empty),
        ("sms:", Empty),
        ("++12025550143", Plus),
        ("+ +12025550143", Plus),
        ("12025550143+", Plus),
        ("+44+7700900123", Plus),
        ("+1234567890123456", NotPossible),
        ("+4477009001234567", NotPossible),
        ("+4477009", NotPossible),
        ("+00447700900123", CountryCode),
        ("+0447700900123", CountryCode),
        ("+9991234567", CountryCode),
        ("+1 800 FLOWERS", Character),
        ("+12025550143x5", Character),
        ("+12025550143 ext. 5", Character),
        ("+12025550143;ext=5", Character),
        ("+12025550143?body=hello", Character),
        ("+12025550143/44", Character),
        ("+12025550143,+12025550144", Character),
        ("+12025550143\n+12025550144", Character),
        ("+1 202\t555 0143", Character),
        ("+12025550143#", Character),
        ("*12025550143", Character),
        ("mailto:+12025550143", Character),
        ("+1 (202 555-0143", Form),
        ("+1 202) 555-0143", Form),
        ("+1 ((202)) 555-0143", Form),
        ("+44(0)(0)7700900123", Form),
        ("person@example.com", Character),
    ] {
        for region in ["", "GB", "US"] {
            assert_eq!(
                read(typed, region, true),
                Err(fault),
                "{typed:?} in {region:?}"
            );
        }
    }
}

#[test]
fn p58_a_local_form_needs_a_region_and_is_read_by_its_plan_alone() {
    for (typed, region, answer) in [
        ("07700900123", "", Err(NoRegion)),
        ("7700900123", "", Err(NoRegion)),
        ("00447700900123", "", Err(NoRegion)),
        ("447700900123", "", Err(NoRegion)),
        ("12025550143", "", Err(NoRegion)),
        ("07700900123", "GB", Ok("+447700900123")),
        ("07700 900 123", "GB", Ok("+447700900123")),
        ("(07700) 900123", "GB", Ok("+447700900123")),
        ("tel:07700900123", "GB", Ok("+447700900123")),
        ("00447700900123", "GB", Ok("+447700900123")),
        ("0012025550143", "GB", Ok("+12025550143")),
        ("00 44 (0) 7700 900123", "GB", Err(Form)),
        // A zero may be missing, or the plus: each would be a guess.
        ("7700900123", "GB", Err(NotPossible)),
        ("447700900123", "GB", Err(NotPossible)),
        ("900123", "GB", Err(NotPossible)),
        ("0770090012", "GB", Err(NotPossible)),
        ("077009001234", "GB", Err(NotPossible)),
        ("07700900123", "US", Err(NotPossible)),
        ("00447700900123", "US", Err(NotPossible)),
        ("011447700900123", "US", Ok("+447700900123")),
        ("2025550143", "US", Ok("+12025550143")),
        ("(202) 555-0143", "US", Ok("+12025550143")),
        ("1 202 555 0143", "US", Ok("+12025550143")),
        ("5550143", "US", Err(NotPossible)),
        ("3550143", "US", Err(NotPossible)),
        ("8 800 555 01 43", "RU", Ok("+78005550143")),
        ("800 555 01 43", "RU", Err(NotPossible)),
        ("06 1234 5678", "IT", Ok("+390612345678")),
        ("6 1234 5678", "IT", Err(NotPossible)),
        ("0170 1234567", "DE", Ok("+491701234567")),
        ("30 123456", "DE", Err(NotPossible)),
        ("139 1234 5678", "CN", Ok("+8613912345678")),
        ("98765 43210", "IN", Ok("+919876543210")),
        ("098765 43210", "IN", Ok("+919876543210")),
        // In Hong Kong both 00 and 001 dial abroad: this is Washington or Egypt.
        ("0012025550143", "HK", Err(Ambiguous)),
    ] {
        assert_eq!(
            read(typed, region, false),
            answer.map(str::to_owned),
            "{typed:?} in {region:?}"
        );
    }
}

#[test]
fn p58_a_short_code_is_read_only_where_it_may_be_meant() {
    for (typed, region, short_codes, answer) in [
        ("72345", "", false, Err(NoRegion)),
        ("72345", "GB", false, Err(NotPossible)),
        ("72345", "", true, Ok("72345")),
        ("72345", "GB", true, Ok("72345")),
        (" 72345 ", "US", true, Ok("72345")),
        ("sms:72345", "US", true, Ok("72345")),
        ("+72345", "", true, Err(NotPossible)),
        ("12", "", true, Err(NoRegion)),
        ("0123", "", true, Err(NoRegion)),
        ("5550143", "", true, Err(NoRegion)),
        // Six digits are a whole number in the Faroe Islands.
        ("211234", "FO", true, Err(Ambiguous)),
        ("211234", "FO", false, Ok("+298211234")),
    ] {
        assert_eq!(
            read(typed, region, short_codes),
            answer.map(str::to_owned),
            "{typed:?} in {region:?}"
        );
    }
}

#[test]
fn a_region_has_two_capital_letters_that_the_metadata_knows() {
    assert_eq!(Region::new("GB").unwrap().letters(), "GB");
    for no_region in ["", "gb", "UK", "XX", "GBR", "001", "AQ"] {
        assert_eq!(Region::new(no_region), None, "{no_region}");
    }
}

/// Whatever the library's metadata gives as an example of its own.
#[test]
fn every_example_of_the_metadata_is_kept_digit_by_digit() {
    let mut seen = 0;
    for country in DATABASE.iter() {
        let kinds = country.descriptors();
        for kind in [
            kinds.mobile(),
            kinds.fixed_line(),
            kinds.toll_free(),
            kinds.voip(),
        ] {
            let Some(example) = kind.and_then(Descriptor::example) else {
                continue;
            };
            let number = format!("+{}{example}", country.country_code());
            assert_eq!(
                canonical(&number, None, false),
                Ok(number.clone()),
                "{}",
                country.id()
            );
            seen += 1;
        }
    }
    assert!(seen > 700, "{seen}");
}

proptest! {
    #[test]
    fn the_canonical_form_is_its_own_and_holds_no_digit_that_was_not_typed(
        text in "[+0-9() .-]{0,20}",
        region in prop::sample::select(vec!["", "GB", "US", "DE", "IT", "RU", "HK", "FO"]),
        short_codes in any::<bool>(),
    ) {
        if let Ok(written) = read(&text, region, short_codes) {
            prop_assert_eq!(read(&written, region, short_codes), Ok(written.clone()));
            let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
            let (typed, kept) = (digits(&text), digits(&written));
            // Its end is what was typed; before it stands a calling code, typed or the region's.
            let tail = &kept[kept.len().min(3)..];
            prop_assert!(typed.ends_with(tail), "{} {}", text, written);
            if text.trim().starts_with('+') && !text.contains('(') {
                prop_assert_eq!(typed, kept);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), short_codes in any::<bool>()) {
        let _ = read(&text, "", short_codes);
        let _ = read(&text, "GB", short_codes);
    }
}
