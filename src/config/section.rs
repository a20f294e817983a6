//! Decides what may be typed at a key: its kind and its range. Each key is taken once; what nobody takes is unknown.
//! It does not know what the keys mean, nor how they relate.
//!
//! A fault does not stop the reading: it is noted, and the value is absent.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Value;

use super::layers::{Layers, Leaf};
use super::secret::{References, Secret};
use super::{Fault, Origin, spans};

/// What has been found so far: faults, and which layer set each key that was taken.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) faults: Vec<Fault>,
    origins: BTreeMap<String, Origin>,
}

/// One section, while its keys are taken.
pub(super) struct Section<'a> {
    path: String,
    entries: BTreeMap<String, Layers>,
    findings: &'a mut Findings,
    references: &'a References,
}

impl<'a> Section<'a> {
    /// Reads the whole, and reports the keys that `read` did not take.
    pub(super) fn root<T>(
        layers: Layers,
        findings: &'a mut Findings,
        references: &'a References,
        read: impl FnOnce(&mut Section<'_>) -> Option<T>,
    ) -> Option<T> {
        let entries = match layers {
            Layers::Branch(entries) => entries,
            Layers::Leaf(_) => BTreeMap::new(),
        };
        let mut root = Section {
            path: String::new(),
            entries,
            findings,
            references,
        };
        let value = read(&mut root);
        root.refuse_the_rest();
        value
    }

    /// Reads the section `name`, and reports the keys that `read` did not take. An absent one is empty.
    pub(super) fn section<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Section<'_>) -> Option<T>,
    ) -> Option<T> {
        let path = self.path_of(name);
        let entries = match self.entries.remove(name) {
            Some(Layers::Branch(entries)) => entries,
            Some(Layers::Leaf(leaf)) => {
                self.note(&path, Some(leaf.origin), "is a section, not a value");
                return None;
            }
            None => BTreeMap::new(),
        };
        let mut section = Section {
            path,
            entries,
            findings: &mut *self.findings,
            references: self.references,
        };
        let value = read(&mut section);
        section.refuse_the_rest();
        value
    }

    /// The names of the keys and sections that have not been taken yet.
    pub(super) fn names(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }

    /// Notes a fault of the key at `path`, counted from this section.
    pub(super) fn fault(&mut self, path: &str, message: &str) {
        let path = self.path_of(path);
        let origin = self.findings.origins.get(&path).cloned();
        self.note(&path, origin, message);
    }

    /// Any text, empty too.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let leaf = self.take(name)?;
        match (leaf.value, leaf.verbatim) {
            (Value::String(text), _) | (_, Some(text)) => Some(text),
            (_, None) => self.refuse(name, "must be text, in quotes"),
        }
    }

    /// Text that `fits` accepts; `allowed` says what that is.
    pub(super) fn text_that(
        &mut self,
        name: &str,
        allowed: &str,
        fits: impl FnOnce(&str) -> bool,
    ) -> Option<String> {
        let text = self.text(name)?;
        if fits(&text) {
            return Some(text);
        }
        self.refuse(name, &format!("must be {allowed}"))
    }

    /// A whole number in `range`.
    pub(super) fn number<T>(&mut self, name: &str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + std::fmt::Display,
    {
        let leaf = self.take(name)?;
        let number = leaf
            .value
            .as_integer()
            .and_then(|number| T::try_from(number).ok());
        match number {
            Some(number) if range.contains(&number) => Some(number),
            Some(_) | None => self.refuse(
                name,
                &format!(
                    "must be a whole number from {} to {}",
                    range.start(),
                    range.end()
                ),
            ),
        }
    }

    /// True or false.
    pub(super) fn switch(&mut self, name: &str) -> Option<bool> {
        let leaf = self.take(name)?;
        match leaf.value.as_bool() {
            Some(on) => Some(on),
            None => self.refuse(name, "must be true or false"),
        }
    }

    /// A span of time in `range`.
    pub(super) fn span(&mut self, name: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let leaf = self.take(name)?;
        let span = leaf.value.as_str().and_then(spans::parse);
        match span {
            Some(span) if range.contains(&span) => Some(span),
            Some(_) | None => self.refuse(
                name,
                &format!(
                    "must be a span of time with its unit, from \"{}\" to \"{}\"",
                    spans::show(*range.start()),
                    spans::show(*range.end())
                ),
            ),
        }
    }

    /// One of a closed set of words.
    pub(super) fn choice<T: Clone>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(name)?;
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(choice.clone());
        }
        let words: Vec<String> = choices
            .iter()
            .map(|(word, _)| format!("\"{word}\""))
            .collect();
        self.refuse(name, &format!("must be one of {}", words.join(", ")))
    }

    /// The secret that a reference stands for; `""` is none.
    pub(super) fn secret(&mut self, name: &str) -> Option<Option<Secret>> {
        let reference = self.text(name)?;
        if reference.is_empty() {
            return Some(None);
        }
        match self.references.resolve(&reference) {
            Ok(secret) => Some(Some(secret)),
            Err(unresolved) => self.refuse(name, &unresolved.to_string()),
        }
    }

    /// A value of any kind, and its text where the environment gave it.
    pub(super) fn any(&mut self, name: &str) -> Option<(Value, Option<String>)> {
        self.take(name).map(|leaf| (leaf.value, leaf.verbatim))
    }

    /// Reads the tables of the list `name` one after the other; an absent list has none. What is wrong in one of them
    /// makes the whole list absent.
    pub(super) fn each_of<T>(
        &mut self,
        name: &str,
        mut read: impl FnMut(&mut Section<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        if !self.entries.contains_key(name) {
            return Some(Vec::new());
        }
        let leaf = self.take(name)?;
        let Value::Array(items) = leaf.value else {
            return self.refuse(name, "must be a list of tables");
        };
        let mut read_items = Vec::new();
        for (place, item) in items.into_iter().enumerate() {
            let path = format!("{}[{place}]", self.path_of(name));
            let Value::Table(table) = item else {
                self.note(&path, Some(leaf.origin.clone()), "must be a table");
                read_items.push(None);
                continue;
            };
            let entries = table
                .into_iter()
                .map(|(name, value)| {
                    let leaf = Leaf {
                        value,
                        verbatim: None,
                        origin: leaf.origin.clone(),
                    };
                    (name, Layers::Leaf(leaf))
                })
                .collect();
            let mut section = Section {
                path,
                entries,
                findings: &mut *self.findings,
                references: self.references,
            };
            read_items.push(read(&mut section));
            section.refuse_the_rest();
        }
        read_items.into_iter().collect()
    }

    /// The secret behind `reference`, as a property of the key `name`.
    pub(super) fn resolve(&mut self, name: &str, reference: &str) -> Option<Secret> {
        match self.references.resolve(reference) {
            Ok(secret) => Some(secret),
            Err(unresolved) => self.refuse(name, &unresolved.to_string()),
        }
    }

    /// Notes a fault of a key of this section; always `None`.
    pub(super) fn refuse<T>(&mut self, name: &str, message: &str) -> Option<T> {
        self.fault(name, message);
        None
    }

    fn take(&mut self, name: &str) -> Option<Leaf> {
        let path = self.path_of(name);
        match self.entries.remove(name) {
            Some(Layers::Leaf(leaf)) => {
                self.findings.origins.insert(path, leaf.origin.clone());
                Some(leaf)
            }
            Some(Layers::Branch(_)) => self.refuse(name, "is a value, not a section"),
            None => self.refuse(name, "is missing"),
        }
    }

    fn refuse_the_rest(&mut self) {
        for (name, layers) in std::mem::take(&mut self.entries) {
            let path = self.path_of(&name);
            self.refuse_all_of(&path, layers);
        }
    }

    fn refuse_all_of(&mut self, path: &str, layers: Layers) {
        match layers {
            Layers::Leaf(leaf) => self.note(path, Some(leaf.origin), "there is no such key"),
            Layers::Branch(entries) if entries.is_empty() => {
                self.note(path, None, "there is no such section");
            }
            Layers::Branch(entries) => {
                for (name, layers) in entries {
                    self.refuse_all_of(&format!("{path}.{name}"), layers);
                }
            }
        }
    }

    fn note(&mut self, path: &str, origin: Option<Origin>, message: &str) {
        self.findings.faults.push(Fault {
            key: path.to_owned(),
            origin,
            message: message.to_owned(),
        });
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }
}
