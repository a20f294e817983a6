//! Decides how a fault in the configuration is told: which key, from where, and what is allowed.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The compiled-in `config/default.toml`.
    Default,
    /// The file given by `--config`.
    File(PathBuf),
    /// This environment variable.
    Environment(String),
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The key's path, `kafka.span_max` for one; empty if it is the layer as a whole.
    pub key: String,
    /// The layer that set it; absent if no layer did.
    pub origin: Option<Origin>,
    /// What is wrong and what is allowed. Never a value that could be a secret.
    pub message: String,
}

/// Everything that is wrong, by key. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// The faults, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }
}

impl From<Vec<Fault>> for Faults {
    fn from(mut faults: Vec<Fault>) -> Self {
        faults.sort();
        faults.dedup();
        Self(faults)
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.key.as_str(), &self.origin) {
            ("", Some(origin)) => write!(f, "{origin}: {}", self.message),
            ("", None) => f.write_str(&self.message),
            (key, Some(origin)) => write!(f, "{key} ({origin}): {}", self.message),
            (key, None) => write!(f, "{key}: {}", self.message),
        }
    }
}

/// One fault a line.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for fault in &self.0 {
            if !std::mem::take(&mut first) {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}
