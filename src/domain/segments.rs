//! Decides into how many SMS a text is cut, as networks bill it: by the alphabet that can write all of it, and by what
//! fits beside the header of a part. It does not cut, change or send anything, and does not know who allows how many.
//!
//! Source: 3GPP TS 23.038 (formerly GSM 03.38), sections 6.2.1 (the default alphabet and its extension table) and 6.2.3
//! (UCS2), and TS 23.040, section 9.2.3.24.1 (concatenation by a header of six octets).

/// The default alphabet: seven bits a character, in the order of its codes; code 0x1B leads to the extension table.
const BASIC: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà";

/// The extension table: each character takes two places, the escape and its own.
const EXTENSION: &str = "\u{c}^{}\\[~]|€";

/// How much a message takes alone, and how much each part of several.
struct Room {
    alone: usize,
    part: usize,
}

/// 140 octets of seven bits, less the header's six octets, which take seven places.
const GSM_7: Room = Room {
    alone: 160,
    part: 153,
};

/// 70 units of two octets, less the header's three.
const UCS_2: Room = Room {
    alone: 70,
    part: 67,
};

/// How many SMS `text` takes: at least one, for an empty text too. One character outside the default alphabet makes the
/// whole text UCS-2, in UTF-16 units; neither an escape and its character nor a surrogate pair is parted.
pub fn segments(text: &str) -> u32 {
    let widths: Option<Vec<usize>> = text.chars().map(width_in_gsm_7).collect();
    match widths {
        Some(widths) => parts(widths.into_iter(), &GSM_7),
        None => parts(text.chars().map(char::len_utf16), &UCS_2),
    }
}

/// How many places the default alphabet needs for a character, if it has it.
fn width_in_gsm_7(c: char) -> Option<usize> {
    if BASIC.contains(c) {
        Some(1)
    } else if EXTENSION.contains(c) {
        Some(2)
    } else {
        None
    }
}

fn parts(widths: impl Iterator<Item = usize> + Clone, room: &Room) -> u32 {
    if widths.clone().sum::<usize>() <= room.alone {
        return 1;
    }
    let (mut parts, mut used) = (1_u32, 0_usize);
    for width in widths {
        if used + width > room.part {
            parts = parts.saturating_add(1);
            used = 0;
        }
        used += width;
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn p59_a_text_takes_as_many_sms_as_networks_bill() {
        let a = |count| "a".repeat(count);
        let combined = "e\u{301}".repeat(70);
        let line_break = |end| format!("{}{end}{}", a(80), a(79));
        for (text, expected) in [
            (String::new(), 1),
            (a(160), 1),
            (a(161), 2),
            (a(306), 2),
            (a(307), 3),
            (line_break("\r\n"), 2),
            (line_break("\n"), 1),
            ("é".repeat(70), 1),
            ("é".repeat(160), 1),
            (combined, 3),
            (format!("{}∞", "|".repeat(69)), 1),
            (format!("{}∞", "|".repeat(70)), 2),
            ("€".repeat(80), 1),
            ("€".repeat(81), 2),
            ("漢".repeat(70), 1),
            ("漢".repeat(71), 2),
            ("漢".repeat(134), 2),
            ("漢".repeat(135), 3),
            ("🦆".repeat(35), 1),
            ("🦆".repeat(36), 2),
        ] {
            let shown: String = text.chars().take(3).collect();
            assert_eq!(
                segments(&text),
                expected,
                "{shown}… of {}",
                text.chars().count()
            );
        }
    }

    #[test]
    fn p59_a_pair_that_does_not_fit_goes_into_the_next_part() {
        // The 153rd place is free, and an escape would take it alone.
        let text = format!("{}€{}", "a".repeat(152), "a".repeat(151));
        assert_eq!(
            text.chars().count() + 1,
            305,
            "two parts, if it could be parted"
        );
        assert_eq!(segments(&text), 2);
        assert_eq!(segments(&format!("{text}a")), 3);
        // A part of 67 units has room for 33 pairs.
        assert_eq!(segments(&"🦆".repeat(66)), 2);
        assert_eq!(segments(&"🦆".repeat(67)), 3);
    }

    #[test]
    fn the_tables_are_those_of_the_standard() {
        assert_eq!(BASIC.chars().count(), 127, "128 codes, less the escape");
        assert_eq!(EXTENSION.chars().count(), 10);
        let mut all: Vec<char> = BASIC.chars().chain(EXTENSION.chars()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 137, "no character has two places");
        // Each a neighbour that looks alike and is not in it: back quote, c with cedilla, capital with grave.
        for outside in ['`', 'ç', 'À', 'Α', '\t', '\u{a0}', '’'] {
            assert_eq!(width_in_gsm_7(outside), None, "{outside:?}");
        }
    }

    proptest! {
        /// The oracle writes the parts down and looks at them.
        #[test]
        fn every_part_is_as_full_as_it_can_be(text in "[a€|漢🦆\n]{0,400}") {
            let gsm = text.chars().all(|c| BASIC.contains(c) || EXTENSION.contains(c));
            let width = |c: char| match gsm {
                true => 1 + usize::from(EXTENSION.contains(c)),
                false => c.len_utf16(),
            };
            let (alone, room) = if gsm { (160, 153) } else { (70, 67) };
            let whole: usize = text.chars().map(width).sum();
            let mut written: Vec<Vec<usize>> = vec![Vec::new()];
            for c in text.chars() {
                let last = written.last_mut().unwrap();
                match last.iter().sum::<usize>() + width(c) > room {
                    true => written.push(vec![width(c)]),
                    false => last.push(width(c)),
                }
            }
            let expected = if whole <= alone { 1 } else { written.len() };
            prop_assert_eq!(segments(&text) as usize, expected);
        }
    }
}
