//! Decides whether a sealed generation surely does not hold a key, without asking the disk: a Bloom filter.
//! It does not know what a key stands for.
//!
//! Ten bits a key and seven probes let one absent key in 120 through (p = (1 − e^(−7/10))^7). Keys are digests already, so
//! their bytes are the probes' hashes. The filter is kept on disk: what its bits mean must not change with a crate's version,
//! which is why it is written out here.

use serde::{Deserialize, Serialize};

use crate::domain::idempotency_key::LedgerKey;

const BITS_A_KEY: u64 = 10;
const PROBES: u64 = 7;

/// A set of keys that may claim to hold one more, and never one less.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Filter {
    words: Vec<u64>,
}

impl Filter {
    /// An empty one with room for `keys` keys.
    pub(super) fn with_room_for(keys: u64) -> Self {
        let words = keys.saturating_mul(BITS_A_KEY).div_ceil(64).max(1);
        Self {
            words: vec![0; usize::try_from(words).unwrap_or(usize::MAX)],
        }
    }

    /// Adds `key`.
    pub(super) fn insert(&mut self, key: LedgerKey) {
        for bit in self.probes(key) {
            if let Some(word) = self.words.get_mut(bit.word) {
                *word |= bit.mask;
            }
        }
    }

    /// Whether `key` may have been added; false means surely not.
    pub(super) fn may_hold(&self, key: LedgerKey) -> bool {
        self.probes(key).all(|bit| {
            self.words
                .get(bit.word)
                .is_some_and(|word| word & bit.mask != 0)
        })
    }

    /// Double hashing (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006) over the key's two halves.
    fn probes(&self, key: LedgerKey) -> impl Iterator<Item = Bit> + use<> {
        let key = u128::from_be_bytes(key.0);
        let (first, second) = (high_half(key), high_half(key << 64) | 1);
        let bits = (self.words.len() as u128).saturating_mul(64);
        (0..PROBES).map(move |probe| {
            let hash = first.wrapping_add(second.wrapping_mul(probe));
            // The high half of hash × bits: a number below bits, each as likely as any other.
            let bit = high_half(u128::from(hash).wrapping_mul(bits));
            Bit {
                word: usize::try_from(bit / 64).unwrap_or(usize::MAX),
                mask: 1 << (bit % 64),
            }
        })
    }
}

struct Bit {
    word: usize,
    mask: u64,
}

fn high_half(number: u128) -> u64 {
    u64::try_from(number >> 64).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> LedgerKey {
        LedgerKey::of(b"test", &number.to_be_bytes())
    }

    #[test]
    fn it_holds_all_that_was_added_and_about_one_in_120_others() {
        let mut filter = Filter::with_room_for(10_000);
        (0..10_000).for_each(|number| filter.insert(key(number)));
        assert!((0..10_000).all(|number| filter.may_hold(key(number))));
        let wrong = (10_000..110_000).filter(|number| filter.may_hold(key(*number)));
        let wrong = wrong.count();
        assert!((600..1100).contains(&wrong), "{wrong} of 100,000");
    }

    #[test]
    fn its_bits_mean_the_same_for_ever() {
        let mut filter = Filter::with_room_for(12);
        (0..12).for_each(|number| filter.insert(key(number)));
        assert_eq!(filter.words, [0xcd89_10bd_b41f_fc6d, 0x642f_80d7_6db0_f0aa]);
    }
}
