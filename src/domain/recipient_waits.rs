//! Decides which recipients are sent nothing for now, because the provider wants it so of them alone. It does not know who waits.
//!
//! Its moments are those of a clock that never steps; where they begin does not matter.

use std::collections::HashMap;

use super::intent::Recipient;
use super::time::Timestamp;

/// So many recipients wait at once. One too many takes the place of the one whose wait ends first.
pub const WAITS_MAX: usize = 10_000;

/// Who waits, and until when.
#[derive(Debug, Default)]
pub struct RecipientWaits {
    until: HashMap<Recipient, Timestamp>,
    /// When the last of all waits is over.
    last: Option<Timestamp>,
}

impl RecipientWaits {
    /// Nothing is to be sent to this recipient before `until`. A wait is never shortened.
    pub fn asked(&mut self, recipient: &Recipient, until: Timestamp, now: Timestamp) {
        self.last = self.last.max(Some(until));
        if let Some(known) = self.until.get_mut(recipient) {
            *known = until.max(*known);
            return;
        }
        if self.until.len() >= WAITS_MAX {
            self.until.retain(|_, until| *until > now);
        }
        if self.until.len() >= WAITS_MAX {
            let waits = self.until.iter();
            let first = waits.min_by_key(|(_, until)| **until);
            if let Some(first) = first.map(|(recipient, _)| recipient.clone()) {
                self.until.remove(&first);
            }
        }
        self.until.insert(recipient.clone(), until);
    }

    /// Until when this recipient waits, if it does. What is over is forgotten.
    pub fn until(&mut self, recipient: &Recipient, now: Timestamp) -> Option<Timestamp> {
        let until = *self.until.get(recipient)?;
        if until > now {
            return Some(until);
        }
        self.until.remove(recipient);
        None
    }

    /// Whether nobody waits any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.last.is_none_or(|last| last <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn recipient(number: usize) -> Recipient {
        Recipient::canonical(&format!("device-{number}"))
    }

    #[test]
    fn a_recipient_waits_alone_and_its_wait_is_never_shortened() {
        let mut waits = RecipientWaits::default();
        waits.asked(&recipient(1), at(60), at(0));
        waits.asked(&recipient(1), at(10), at(1));
        assert_eq!(waits.until(&recipient(1), at(59)), Some(at(60)));
        assert_eq!(waits.until(&recipient(2), at(59)), None);
        assert!(!waits.is_over(at(59)));
        assert!(waits.is_over(at(60)));
        assert_eq!(waits.until(&recipient(1), at(60)), None);
        waits.asked(&recipient(1), at(70), at(61));
        assert_eq!(waits.until(&recipient(1), at(61)), Some(at(70)), "anew");
    }

    #[test]
    fn the_table_is_bounded_and_loses_first_what_is_over_and_then_what_is_over_soonest() {
        let mut waits = RecipientWaits::default();
        for number in 0..WAITS_MAX {
            let until = if number < 10 { 5 } else { 100 + number };
            let until = at(i64::try_from(until).unwrap());
            waits.asked(&recipient(number), until, at(0));
        }
        waits.asked(&recipient(WAITS_MAX), at(50), at(6));
        assert_eq!(waits.until.len(), WAITS_MAX - 9, "ten were over");
        for number in WAITS_MAX + 1..WAITS_MAX + 12 {
            waits.asked(&recipient(number), at(1_000_000), at(6));
        }
        assert_eq!(waits.until.len(), WAITS_MAX);
        assert_eq!(waits.until(&recipient(WAITS_MAX), at(6)), None);
        assert_eq!(waits.until(&recipient(10), at(6)), None);
        assert_eq!(waits.until(&recipient(11), at(6)), Some(at(111)));
    }
}
