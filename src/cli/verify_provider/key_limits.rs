//! Decides which keys probe a profile's limits, and whether the provider takes what the profile says: keys of the greatest
//! length whole, one character more not, and the characters it names.
//!
//! Each length is probed by two keys that differ in their last character only: a provider that cuts takes them for one.

use crate::domain::idempotency_key::IdempotencyKey;
use crate::domain::profile::{KeyForm, KeyRule};

use super::report::{Check, Standing};
use super::seen::{Same, Seen, same_message};

/// The longest key that can be: see [`IdempotencyKey::from_upstream`].
const LEN_MAX: usize = 255;

/// A limit of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The greatest length.
    Longest,
    /// One character more.
    TooLong,
    /// The characters that are taken.
    Alphabet,
    /// One that is not.
    OutsideAlphabet,
}

/// The keys that probe a limit, or why there are none.
pub type Probes = Result<Vec<IdempotencyKey>, &'static str>;

impl Limit {
    /// Every limit, in the order in which they are probed.
    pub const ALL: [Self; 4] = [
        Self::Longest,
        Self::TooLong,
        Self::Alphabet,
        Self::OutsideAlphabet,
    ];

    /// Its name, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Longest => "longest_key",
            Self::TooLong => "too_long_key",
            Self::Alphabet => "key_alphabet",
            Self::OutsideAlphabet => "outside_key_alphabet",
        }
    }

    /// What the profile says.
    pub fn claim(self, rule: &KeyRule) -> String {
        let max = rule.max_len;
        let marks = rule.punctuation.as_deref();
        match (self, marks) {
            (Self::Longest, _) => format!("keys of {max} characters are taken whole"),
            (Self::TooLong, _) => format!("keys have {max} characters at most"),
            (Self::Alphabet, None) => "keys may have any visible ASCII".to_owned(),
            (Self::Alphabet, Some(marks)) => format!("keys may have letters, digits and {marks}"),
            (Self::OutsideAlphabet, _) => "keys may have no other characters".to_owned(),
        }
    }

    /// The keys that probe it. `nonce` makes them unlike those of any other run: letters and digits, 32 at least.
    pub fn probes(self, rule: &KeyRule, nonce: &str) -> Probes {
        if rule.form != KeyForm::AsIs {
            return Err("sendonce sends keys of one fixed form here, as the first send did");
        }
        let keys = match self {
            Self::Longest if rule.max_len > LEN_MAX => {
                return Err("no intent can bring so long a key");
            }
            Self::Longest => pair(nonce, rule.max_len),
            Self::TooLong if rule.max_len >= LEN_MAX => {
                return Err("no intent can bring so long a key");
            }
            Self::TooLong => pair(nonce, rule.max_len + 1),
            Self::Alphabet => {
                let marks: String = match rule.punctuation.as_deref() {
                    Some("") => return Err("letters and digits alone: the longest key has them"),
                    Some(marks) => marks.to_owned(),
                    None => ('!'..='~').filter(|c| !c.is_ascii_alphanumeric()).collect(),
                };
                vec![beginning(&format!("{marks}{nonce}"), rule.max_len)]
            }
            Self::OutsideAlphabet => {
                let Some(allowed) = rule.punctuation.as_deref() else {
                    return Err("any visible ASCII is allowed");
                };
                let outside = ('!'..='~')
                    .filter(|c| !c.is_ascii_alphanumeric())
                    .find(|c| !allowed.contains(*c));
                match outside {
                    Some(mark) => vec![beginning(&format!("{mark}{nonce}"), rule.max_len)],
                    None => return Err("any visible ASCII is allowed"),
                }
            }
        };
        let keys: Option<Vec<_>> = keys
            .iter()
            .map(|text| IdempotencyKey::from_upstream(text))
            .collect();
        keys.ok_or("no key can be made of these characters")
    }

    /// Judges the answers to its keys, in their order.
    pub fn judge(self, rule: &KeyRule, seen: &[Seen]) -> Check {
        let (observed, verdict) = match self {
            Self::Longest => longest(seen),
            Self::TooLong => too_long(seen),
            Self::Alphabet => alphabet(seen),
            Self::OutsideAlphabet => outside(seen),
        };
        Check {
            check: self.name(),
            claim: self.claim(rule),
            observed,
            verdict,
        }
    }
}

fn longest(seen: &[Seen]) -> (String, Standing) {
    match (seen, merged(seen)) {
        (seen, _) if seen.iter().any(Seen::is_refused) && merged(seen).is_none() => {
            (format!("refused: {}", told(seen)), Standing::Broken)
        }
        (_, Some(true)) => (
            "cut: two keys that differ in their last character are one".to_owned(),
            Standing::Broken,
        ),
        (_, Some(false)) => ("taken whole".to_owned(), Standing::Holds),
        (seen, None) => (told(seen), Standing::Unknown),
    }
}

fn too_long(seen: &[Seen]) -> (String, Standing) {
    match (seen, merged(seen)) {
        (seen, None) if seen.iter().all(Seen::is_refused) => {
            (format!("refused: {}", told(seen)), Standing::Holds)
        }
        (_, Some(true)) => (
            "cut: two keys that differ in their last character are one".to_owned(),
            Standing::Holds,
        ),
        (_, Some(false)) => (
            "taken whole: max_len could be greater".to_owned(),
            Standing::Unknown,
        ),
        (seen, None) => (told(seen), Standing::Unknown),
    }
}

fn alphabet(seen: &[Seen]) -> (String, Standing) {
    let verdict = match seen {
        [seen] if seen.is_accepted() => Standing::Holds,
        [seen] if seen.is_refused() => Standing::Broken,
        _ => Standing::Unknown,
    };
    (told(seen), verdict)
}

fn outside(seen: &[Seen]) -> (String, Standing) {
    match seen {
        [seen] if seen.is_accepted() => (
            "taken: punctuation could have more".to_owned(),
            Standing::Unknown,
        ),
        [seen] if seen.is_refused() => (format!("refused: {}", seen.told()), Standing::Holds),
        _ => (told(seen), Standing::Unknown),
    }
}

/// Whether two keys were taken for one; `None` if the answers do not tell.
fn merged(seen: &[Seen]) -> Option<bool> {
    let [one, other] = seen else { return None };
    if !one.is_accepted() {
        return None;
    }
    // The reference follows from the key, so that the bodies may differ: a conflict means one key too.
    if other.replay || other.verdict == crate::domain::attempt::Verdict::Conflict {
        return Some(true);
    }
    match (other.is_accepted(), same_message(one, other)) {
        (true, Same::Yes) => Some(true),
        (true, Same::No) => Some(false),
        (true, Same::CannotTell) | (false, _) => None,
    }
}

fn told(seen: &[Seen]) -> String {
    let mut told: Vec<_> = seen.iter().map(Seen::told).collect();
    told.dedup();
    told.join("; ")
}

/// Two keys of this length that differ in their last character.
fn pair(nonce: &str, len: usize) -> Vec<String> {
    let stem = beginning(nonce, len.saturating_sub(1));
    vec![format!("{stem}a"), format!("{stem}b")]
}

/// The first `len` characters of `text`, which is repeated as often as it takes.
fn beginning(text: &str, len: usize) -> String {
    text.chars().cycle().take(len.min(LEN_MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{accepted, answered, replayed, without_id};
    use super::*;
    use crate::domain::attempt::Verdict;
    use crate::domain::profile::Profile;

    const NONCE: &str = "0123456789abcdef0123456789abcdef";

    fn rule(more: &str) -> KeyRule {
        let text = format!(
            r#"
vendor = "fixture"
operation = "send"
verified = "documented"
verified_on = "2026-11-30"
accepted = {{ status = "2xx", id = "/id" }}
request = {{ method = "POST", url = "https://fixture.example/send", body = {{ kind = "json", template = {{ to = "{{{{ to }}}}" }} }} }}
[key]
place = "header Key"
window = "24h"
window_source = "assumed"
{more}
"#
        );
        let profile = Profile::parse(&text).unwrap();
        profile.key.unwrap()
    }

    fn texts(limit: Limit, rule: &KeyRule) -> Vec<String> {
        let keys = limit.probes(rule, NONCE).unwrap();
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lengths_are_probed_by_two_keys_that_differ_in_their_last_character() {
        let rule = rule("max_len = 40\npunctuation = \"-_\"");
        assert_eq!(
            texts(Limit::Longest, &rule),
            [format!("{NONCE}0123456a"), format!("{NONCE}0123456b")]
        );
        assert_eq!(
            texts(Limit::TooLong, &rule),
            [format!("{NONCE}01234567a"), format!("{NONCE}01234567b")]
        );
    }

    #[test]
    fn characters_are_probed_by_all_that_are_allowed_and_one_that_is_not() {
        let narrow = rule("max_len = 40\npunctuation = \"-_\"");
        assert_eq!(
            texts(Limit::Alphabet, &narrow),
            [format!("-_{NONCE}-_0123")]
        );
        assert_eq!(
            texts(Limit::OutsideAlphabet, &narrow),
            [format!("!{NONCE}!012345")]
        );
        let wide = rule("max_len = 64");
        assert_eq!(
            texts(Limit::Alphabet, &wide),
            [format!("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{{|}}~{NONCE}")]
        );
        assert!(Limit::OutsideAlphabet.probes(&wide, NONCE).is_err());
    }

    #[test]
    fn what_sendonce_never_sends_is_not_probed() {
        let uuids = rule("max_len = 64\nform = \"uuid\"");
        let long = rule("max_len = 300");
        for limit in Limit::ALL {
            assert!(limit.probes(&uuids, NONCE).is_err(), "{limit:?}");
        }
        assert!(Limit::Longest.probes(&long, NONCE).is_err());
        assert!(Limit::TooLong.probes(&long, NONCE).is_err());
        assert!(
            Limit::TooLong
                .probes(&rule("max_len = 255"), NONCE)
                .is_err()
        );
    }

    #[test]
    fn two_keys_that_become_one_were_cut() {
        let rule = rule("max_len = 40");
        let standing = |limit: Limit, seen: &[Seen]| limit.judge(&rule, seen).verdict;
        let refused = || answered(400, Verdict::Rejected);
        let whole = [accepted("a"), accepted("b")];
        for cut in [
            accepted("a"),
            replayed("a"),
            answered(422, Verdict::Conflict),
        ] {
            let seen = [accepted("a"), cut];
            assert_eq!(standing(Limit::Longest, &seen), Standing::Broken);
            assert_eq!(standing(Limit::TooLong, &seen), Standing::Holds);
        }
        assert_eq!(standing(Limit::Longest, &whole), Standing::Holds);
        assert_eq!(standing(Limit::TooLong, &whole), Standing::Unknown);
        let both = [refused(), refused()];
        assert_eq!(standing(Limit::Longest, &both), Standing::Broken);
        assert_eq!(standing(Limit::TooLong, &both), Standing::Holds);
        let blind = [without_id(accepted("a")), without_id(accepted("b"))];
        assert_eq!(standing(Limit::Longest, &blind), Standing::Unknown);
    }

    #[test]
    fn an_allowed_character_must_be_taken_and_one_outside_refused() {
        let rule = rule("max_len = 40\npunctuation = \"-\"");
        let standing = |limit: Limit, seen: Seen| limit.judge(&rule, &[seen]).verdict;
        let refused = || answered(400, Verdict::Rejected);
        assert_eq!(standing(Limit::Alphabet, accepted("a")), Standing::Holds);
        assert_eq!(standing(Limit::Alphabet, refused()), Standing::Broken);
        assert_eq!(
            standing(Limit::OutsideAlphabet, accepted("a")),
            Standing::Unknown
        );
        assert_eq!(standing(Limit::OutsideAlphabet, refused()), Standing::Holds);
        let down = answered(503, Verdict::Unknown);
        assert_eq!(standing(Limit::Alphabet, down), Standing::Unknown);
    }
}
