//! Waits for what another process does, which sends us no event: the one place in the tests that looks again after a
//! pause. It never decides how long something should take, only when to give up.

use std::fmt::Debug;
use std::io::Write;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until `arrived` holds of what `look` sees, and returns that.
///
/// # Panics
///
/// After `at_most`, with `what` was waited for and the last sight.
pub async fn until<T: Debug>(
    what: &str,
    at_most: Duration,
    mut look: impl AsyncFnMut() -> T,
    arrived: impl Fn(&T) -> bool,
) -> T {
    let end = tokio::time::Instant::now() + at_most;
    loop {
        let seen = look().await;
        if arrived(&seen) {
            return seen;
        }
        assert!(
            tokio::time::Instant::now() < end,
            "waited {at_most:?} for {what}; last seen: {seen:?}"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

/// Says on the terminal that a suite is left out. `print!` would be captured with a passing test's output.
pub fn say_left_out(why: &str) {
    let _ = writeln!(std::io::stderr(), "left out: {why}");
}
