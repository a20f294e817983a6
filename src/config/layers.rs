//! Decides which layer a value comes from: the environment above the file above the defaults. It knows no key but the
//! one place where the environment spells names differently, and judges no value.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use toml::{Table, Value};

use super::section::Findings;
use super::{DEFAULTS, Fault, Origin, Sources};

const PREFIX: &str = "SENDONCE__";
/// More than any key has, so that a variable's name cannot nest without end.
const DEPTH_MAX: usize = 8;

/// The stacked layers: what is set, and by which of them. No `Debug`, since a secret may stand where none should.
pub(super) enum Layers {
    /// A section.
    Branch(BTreeMap<String, Layers>),
    /// A value.
    Leaf(Leaf),
}

/// One value as it was set.
pub(super) struct Leaf {
    pub(super) value: Value,
    /// The environment variable's own text: `true` or `17` may be meant as text.
    pub(super) verbatim: Option<String>,
    pub(super) origin: Origin,
}

impl Layers {
    /// Stacks the defaults, the file and the environment.
    pub(super) fn stack(sources: &Sources, findings: &mut Findings) -> Self {
        let mut stacked = Self::Branch(BTreeMap::new());
        stacked.lay_text(DEFAULTS, &Origin::Default, findings);
        if let Some((path, text)) = &sources.file {
            stacked.lay_text(text, &Origin::File(path.clone()), findings);
        }
        let mut seen = BTreeSet::new();
        let mut variables: Vec<_> = sources
            .environment
            .iter()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
            .collect();
        variables.sort();
        for (name, value) in variables {
            stacked.lay_variable(name, value, &mut seen, findings);
        }
        stacked
    }

    fn lay_text(&mut self, text: &str, origin: &Origin, findings: &mut Findings) {
        match text.parse::<Table>() {
            Ok(mut table) => {
                flatten_properties(&mut table);
                for (name, value) in table {
                    self.lay(&[name], value, None, origin, findings);
                }
            }
            Err(error) => {
                // Neither the line itself nor the error's own rendering is shown: a secret may stand in it.
                let place = error.span().map_or_else(String::new, |span| {
                    let before = text.get(..span.start).unwrap_or(text);
                    let line = before.matches('\n').count() + 1;
                    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
                    format!("line {line}, column {column}: ")
                });
                findings.faults.push(Fault {
                    key: String::new(),
                    origin: Some(origin.clone()),
                    message: format!("{place}{}", error.message().trim()),
                });
            }
        }
    }

    fn lay_variable(
        &mut self,
        name: &OsStr,
        value: &OsStr,
        seen: &mut BTreeSet<Vec<String>>,
        findings: &mut Findings,
    ) {
        let shown = name.to_string_lossy().into_owned();
        let origin = Origin::Environment(shown.clone());
        let mut refuse = |message: &str| {
            findings.faults.push(Fault {
                key: String::new(),
                origin: Some(origin.clone()),
                message: message.to_owned(),
            });
        };
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
            return refuse("is not UTF-8");
        };
        let path: Vec<String> = name
            .strip_prefix(PREFIX)
            .unwrap_or_default()
            .split("__")
            .map(str::to_lowercase)
            .collect();
        if path.iter().any(String::is_empty) || path.len() > DEPTH_MAX {
            return refuse("must name a key, like SENDONCE__SECTION__FIELD");
        }
        let path = with_dots(path);
        if !seen.insert(path.clone()) {
            return refuse("names the same key as another variable does");
        }
        let parsed = value
            .parse::<Value>()
            .unwrap_or_else(|_| Value::String(value.to_owned()));
        self.lay(&path, parsed, Some(value), &origin, findings);
    }

    /// Lays `value` at `path`: sections melt into one another, anything else replaces what was there.
    fn lay(
        &mut self,
        path: &[String],
        value: Value,
        verbatim: Option<&str>,
        origin: &Origin,
        findings: &mut Findings,
    ) {
        self.lay_below(&mut Vec::new(), path, value, verbatim, origin, findings);
    }

    fn lay_below(
        &mut self,
        above: &mut Vec<String>,
        path: &[String],
        value: Value,
        verbatim: Option<&str>,
        origin: &Origin,
        findings: &mut Findings,
    ) {
        let (branch, first, rest) = match (self, path.split_first()) {
            (Self::Branch(branch), Some((first, rest))) => (branch, first, rest),
            (Self::Leaf(_), Some(_)) => {
                findings.faults.push(Fault {
                    key: above.join("."),
                    origin: Some(origin.clone()),
                    message: "is a value, not a section".to_owned(),
                });
                return;
            }
            (_, None) => return,
        };
        above.push(first.clone());
        match (branch.get_mut(first), value, rest) {
            (Some(Self::Branch(_)) | None, Value::Table(table), []) => {
                let below = branch
                    .entry(first.clone())
                    .or_insert_with(|| Self::Branch(BTreeMap::new()));
                for (name, value) in table {
                    below.lay_below(above, &[name], value, None, origin, findings);
                }
            }
            (Some(Self::Branch(_)), _, []) => findings.faults.push(Fault {
                key: above.join("."),
                origin: Some(origin.clone()),
                message: "is a section, not a value".to_owned(),
            }),
            (Some(Self::Leaf(_)) | None, value, []) => {
                let leaf = Self::Leaf(Leaf {
                    value,
                    verbatim: verbatim.map(str::to_owned),
                    origin: origin.clone(),
                });
                branch.insert(first.clone(), leaf);
            }
            (_, value, rest) => branch
                .entry(first.clone())
                .or_insert_with(|| Self::Branch(BTreeMap::new()))
                .lay_below(above, rest, value, verbatim, origin, findings),
        }
        above.pop();
    }
}

/// librdkafka's names have dots, which shells do not take in a variable's name; of those that can be set by text only
/// `log_level` has an underscore (librdkafka 2.12.1, CONFIGURATION.md).
fn with_dots(mut path: Vec<String>) -> Vec<String> {
    if let [section, properties, name] = path.as_mut_slice()
        && section == "kafka"
        && properties == "properties"
        && name != "log_level"
    {
        *name = name.replace('_', ".");
    }
    path
}

/// `security.protocol = …` without quotes nests in TOML; librdkafka's names are flat.
fn flatten_properties(table: &mut Table) {
    let properties = table
        .get_mut("kafka")
        .and_then(|kafka| kafka.get_mut("properties"))
        .and_then(Value::as_table_mut);
    if let Some(properties) = properties {
        let mut flat = Table::new();
        flatten("", std::mem::take(properties), &mut flat);
        *properties = flat;
    }
}

fn flatten(above: &str, table: Table, flat: &mut Table) {
    for (name, value) in table {
        let name = if above.is_empty() {
            name
        } else {
            format!("{above}.{name}")
        };
        match value {
            Value::Table(below) => flatten(&name, below, flat),
            value @ (Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_)) => {
                flat.insert(name, value);
            }
        }
    }
}
