//! Decides how the log looks and where it goes: to stderr, pretty or as JSON. What is logged, others decide; a recipient,
//! a body or a credential never is.

use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;

use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::config::service::{LogConfig, LogFormat};

/// Begins to log, and logs panics from now on.
pub fn begin(config: &LogConfig) -> Result<(), TryInitError> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match config.format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Pretty => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(config.level.clone()))
        .try_init()?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Tells where it panicked, and not what it said: that may hold content.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    let thread = std::thread::current();
    tracing::error!(
        location,
        thread = thread.name(),
        "panicked; what it said is left out, as it may hold content"
    );
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn p53_a_panic_is_logged_by_its_place_and_without_its_text() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .json()
            .with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(layer);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(log_panic));
        let panicked = tracing::subscriber::with_default(subscriber, || {
            std::panic::catch_unwind(|| panic!("to +447700900123: code 123456"))
        });
        std::panic::set_hook(before);
        assert!(panicked.is_err());
        let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(lines.contains("src/telemetry/log.rs:"), "{lines}");
        assert!(
            !lines.contains("447700900123") && !lines.contains("123456"),
            "{lines}"
        );
    }
}
