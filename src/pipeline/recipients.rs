//! Holds back what goes to recipients that the provider wants left alone for a while. How long that is, is decided in
//! `domain::recipient_waits`.
//!
//! What is held back goes out one after the other, so that nobody comes back to a recipient in a crowd. While no recipient
//! waits, this costs a look at one flag.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::adapters::clock::BootMoment;
use crate::domain::intent::Recipient;
use crate::domain::recipient_waits::RecipientWaits;
use crate::domain::time::{Timestamp, UnitFraction};

use super::order::{Queues, Turn};

/// The longest slice in which a wait is waited: the timer stands still while the machine sleeps.
const SLICE: Duration = Duration::from_secs(30);

/// The recipients of one account.
pub struct Recipients {
    waits: Mutex<RecipientWaits>,
    /// Those who are held back, each behind who came before it to the same recipient.
    held: Queues<Recipient>,
    /// Whether anyone may have to wait.
    anyone: AtomicBool,
    /// When the waits' time began.
    opened: BootMoment,
}

/// The right to send something to a recipient that has waited; dropping it lets the next one.
pub type RecipientTurn = Turn<Recipient>;

impl Default for Recipients {
    /// Nobody waits.
    fn default() -> Self {
        Self {
            waits: Mutex::default(),
            held: Queues::default(),
            anyone: AtomicBool::new(false),
            opened: BootMoment::now(),
        }
    }
}

impl Recipients {
    /// Waits as long as this recipient is to be left alone, and until those who came before have been answered. `None` where
    /// there is nothing to wait for.
    pub async fn admit(&self, recipient: &Recipient) -> Option<RecipientTurn> {
        let turn = self.turn(recipient)?;
        turn.reached().await;
        while let Some(until) = self.until(recipient) {
            let left = until.since(self.moment());
            tokio::time::sleep(left.min(SLICE)).await;
        }
        Some(turn)
    }

    /// Until when this recipient is to be left alone, if it is.
    pub fn until(&self, recipient: &Recipient) -> Option<Timestamp> {
        if !self.anyone.load(Ordering::SeqCst) {
            return None;
        }
        self.waits().until(recipient, self.moment())
    }

    /// The provider wants this recipient left alone for so long. Jitter makes it longer, as for a whole account.
    pub fn asked(&self, recipient: &Recipient, at_least: Duration, jitter: UnitFraction) {
        let now = self.moment();
        let until = now.plus(at_least + jitter.of(at_least / 10));
        let mut waits = self.waits();
        waits.asked(recipient, until, now);
        self.anyone.store(true, Ordering::SeqCst);
    }

    fn turn(&self, recipient: &Recipient) -> Option<RecipientTurn> {
        if !self.anyone.load(Ordering::SeqCst) {
            return None;
        }
        let now = self.moment();
        let mut waits = self.waits();
        if waits.until(recipient, now).is_some() || self.held.has(recipient) {
            return Some(self.held.enter(recipient.clone()));
        }
        if self.held.is_empty() && waits.is_over(now) {
            *waits = RecipientWaits::default();
            self.anyone.store(false, Ordering::SeqCst);
        }
        None
    }

    fn moment(&self) -> Timestamp {
        Timestamp::EPOCH.plus(self.opened.elapsed())
    }

    fn waits(&self) -> MutexGuard<'_, RecipientWaits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn someone() -> Recipient {
        Recipient::canonical("+447700900123")
    }

    /// Tokio's paused time does not move the boot clock, so these waits are short and real.
    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn what_is_held_back_goes_one_after_the_other_and_then_the_flag_is_taken_down() {
        let recipients = Recipients::default();
        let someone = someone();
        let other = Recipient::canonical("+447700900124");
        assert!(recipients.admit(&someone).await.is_none());
        recipients.asked(&someone, SHORT, UnitFraction::ZERO);
        assert!(recipients.until(&someone).is_some());
        assert!(recipients.admit(&other).await.is_none(), "others go on");

        let first = recipients.admit(&someone).await;
        assert!(first.is_some() && recipients.until(&someone).is_none());
        let mut second = std::pin::pin!(recipients.admit(&someone));
        let early = tokio::time::timeout(SHORT, second.as_mut()).await;
        assert!(early.is_err(), "the wait is over, the first one is not");
        drop(first);
        drop(second.await.expect("a turn"));
        assert!(recipients.admit(&someone).await.is_none());
        assert!(!recipients.anyone.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_wait_that_is_asked_for_anew_holds_the_next_one_too() {
        let recipients = Recipients::default();
        recipients.asked(&someone(), SHORT, UnitFraction::ZERO);
        let first = recipients.admit(&someone()).await.expect("a turn");
        recipients.asked(&someone(), Duration::from_secs(600), UnitFraction::ZERO);
        drop(first);
        let second = tokio::time::timeout(SHORT, recipients.admit(&someone())).await;
        assert!(second.is_err());
    }
}
