//! Decides how the process behaves as a service: how much at once, how it ends, where it is asked, what it logs.

use std::net::SocketAddr;
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::section::Section;

/// `[dispatch]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchConfig {
    /// Requests in flight to one provider.
    pub concurrency: usize,
}

/// `[shutdown]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownConfig {
    /// How long running requests may take to end. That it exceeds the timeouts of every profile is checked where the
    /// profiles are read.
    pub drain: Duration,
}

/// `[admin]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Where it listens; `None` is nowhere.
    pub listen: Option<SocketAddr>,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// How a line looks.
    pub format: LogFormat,
    /// Which lines there are.
    pub level: Targets,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

impl Default for LogConfig {
    /// As in the default file, for commands that read no configuration.
    fn default() -> Self {
        Self {
            format: LogFormat::Pretty,
            level: Targets::new().with_default(LevelFilter::INFO),
        }
    }
}

impl DispatchConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let concurrency = section.number("concurrency", 1..=4_096);
        Some(Self {
            concurrency: concurrency?,
        })
    }
}

impl ShutdownConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let drain = section.span(
            "drain",
            Duration::from_millis(100)..=Duration::from_mins(10),
        );
        Some(Self { drain: drain? })
    }
}

impl AdminConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let listen = section.text("listen")?;
        if listen.is_empty() {
            return Some(Self { listen: None });
        }
        match listen.parse() {
            Ok(listen) => Some(Self {
                listen: Some(listen),
            }),
            Err(_) => section.refuse(
                "listen",
                "must be an IP address and a port, like \"127.0.0.1:9464\", or \"\" for nowhere",
            ),
        }
    }
}

impl LogConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let format = section.choice(
            "format",
            &[("pretty", LogFormat::Pretty), ("json", LogFormat::Json)],
        );
        let level = section.text("level").and_then(|text| match read_level(&text) {
            Some(level) => Some(level),
            None => section.refuse(
                "level",
                "must be off, error, warn, info, debug or trace, or a list like \"info,sendonce::pipeline=debug\"",
            ),
        });
        Some(Self {
            format: format?,
            level: level?,
        })
    }
}

/// Reads a filter. A word alone must be a level: the parser would take a misspelt one for a module, and log all of it.
fn read_level(text: &str) -> Option<Targets> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    text.split(',')
        .map(str::trim)
        .all(|part| part.contains('=') || is_level(part))
        .then(|| text.parse().ok())
        .flatten()
}
