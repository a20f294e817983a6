//! Decides how a secret is referred to and resolved, so that none stands in a file and none is ever shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::sync::Arc;

/// The most that a referenced file may hold, in bytes: a certificate chain fits, a log file does not.
const FILE_SIZE_MAX: u64 = 64 * 1024;

/// A secret. Neither `Debug` nor `Display` tells it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes `text` as a secret.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The secret itself: for a MAC, a request's header or librdkafka's configuration, and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why a reference could not be resolved. Names the reference's target, never its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// It is no reference at all. What it is instead is not told: it may be the secret.
    #[error(
        "must be a reference, \"env:NAME\" or \"file:PATH\", so that no secret stands in a configuration"
    )]
    NoReference,
    /// There is no such environment variable.
    #[error("the environment variable {0} is not set")]
    NotSet(String),
    /// The environment variable or file has nothing in it.
    #[error("{0} is empty")]
    Empty(String),
    /// It is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotText(String),
    /// The file cannot be read.
    #[error("the file {0} cannot be read: {1}")]
    Unreadable(String, String),
    /// The file is over 64 KiB.
    #[error("the file {0} is larger than 64 KiB")]
    TooLarge(String),
}

/// Resolves references against one environment, and the file system.
pub struct References {
    environment: BTreeMap<String, Option<String>>,
}

impl References {
    /// References into `environment`.
    pub fn new(environment: &[(OsString, OsString)]) -> Self {
        let environment = environment
            .iter()
            .filter_map(|(name, value)| {
                Some((name.to_str()?.to_owned(), value.to_str().map(str::to_owned)))
            })
            .collect();
        Self { environment }
    }

    /// References into this process's environment.
    pub fn of_process() -> Self {
        let environment: Vec<_> = std::env::vars_os().collect();
        Self::new(&environment)
    }

    /// Whether `text` has the form of a reference.
    pub fn is_reference(text: &str) -> bool {
        text.starts_with("env:") || text.starts_with("file:")
    }

    /// What `reference` (`env:NAME` or `file:PATH`) stands for; one line break at the end of a file is not part of it.
    pub fn resolve(&self, reference: &str) -> Result<Secret, Unresolved> {
        if let Some(name) = reference.strip_prefix("env:") {
            let value = self
                .environment
                .get(name)
                .ok_or_else(|| Unresolved::NotSet(name.to_owned()))?
                .as_deref()
                .ok_or_else(|| Unresolved::NotText(format!("the environment variable {name}")))?;
            return taken(value, || format!("the environment variable {name}"));
        }
        let Some(path) = reference.strip_prefix("file:") else {
            return Err(Unresolved::NoReference);
        };
        let unreadable = |error: std::io::Error| {
            Unresolved::Unreadable(path.to_owned(), error.kind().to_string())
        };
        let mut content = Vec::new();
        std::fs::File::open(path)
            .map_err(unreadable)?
            .take(FILE_SIZE_MAX + 1)
            .read_to_end(&mut content)
            .map_err(unreadable)?;
        if content.len() as u64 > FILE_SIZE_MAX {
            return Err(Unresolved::TooLarge(path.to_owned()));
        }
        let content = String::from_utf8(content)
            .map_err(|_| Unresolved::NotText(format!("the file {path}")))?;
        let line = content.strip_suffix('\n').unwrap_or(&content);
        taken(line.strip_suffix('\r').unwrap_or(line), || {
            format!("the file {path}")
        })
    }
}

fn taken(value: &str, whose: impl FnOnce() -> String) -> Result<Secret, Unresolved> {
    if value.is_empty() {
        return Err(Unresolved::Empty(whose()));
    }
    Ok(Secret::new(value))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn references() -> References {
        References::new(&[
            ("TOKEN".into(), "s3cret".into()),
            ("BLANK".into(), "".into()),
        ])
    }

    #[test]
    fn an_environment_variable_and_a_file_are_resolved() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"from a file\r\n").unwrap();
        let path = format!("file:{}", file.path().display());
        assert_eq!(
            references().resolve("env:TOKEN").unwrap().expose(),
            "s3cret"
        );
        assert_eq!(references().resolve(&path).unwrap().expose(), "from a file");
    }

    #[test]
    fn what_cannot_be_resolved_says_why_without_telling_a_value() {
        let resolve = |reference: &str| references().resolve(reference).unwrap_err().to_string();
        assert_eq!(
            resolve("env:NONE"),
            "the environment variable NONE is not set"
        );
        assert_eq!(
            resolve("env:BLANK"),
            "the environment variable BLANK is empty"
        );
        assert_eq!(
            resolve("file:/nowhere/at/all"),
            "the file /nowhere/at/all cannot be read: entity not found"
        );
        assert!(!resolve("hunter2").contains("hunter2"));
    }

    #[test]
    fn a_file_over_the_limit_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[b'x'; 64 * 1024 + 1]).unwrap();
        let path = format!("file:{}", file.path().display());
        assert!(matches!(
            references().resolve(&path),
            Err(Unresolved::TooLarge(_))
        ));
    }

    #[test]
    fn p53_a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(…)");
    }
}
