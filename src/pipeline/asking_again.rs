//! Decides how long whoever is refused leave waits before he asks again.

use std::time::Duration;

use tokio::sync::futures::Notified;

use crate::domain::breaker::Refusal;
use crate::domain::time::Timestamp;

/// The least and the longest wait.
const TICK: Duration = Duration::from_millis(1);
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Resolves when it is worth while to ask again: `changed` has come, or what the refusal names.
pub(super) async fn asking_again(refusal: Refusal, now: Timestamp, changed: Notified<'_>) {
    let wait = match refusal {
        Refusal::Until(moment) => moment.since(now),
        Refusal::UntilAnswered => LOOK_AGAIN,
    };
    tokio::select! {
        () = changed => {}
        // In slices: the timer stands still while the machine sleeps.
        () = tokio::time::sleep(wait.clamp(TICK, LOOK_AGAIN)) => {}
    }
}
