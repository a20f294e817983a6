//! Decides how a table of a profile is read: every fault is noted with its key path, and reading goes on, so that an
//! author sees all of them at once. A field that nobody asked for is a fault too. It knows no field by name.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use toml::{Table, Value};

/// One thing that is wrong with a profile, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key path, such as `rule[2].when.body."/error/code"`.
    pub path: String,
    /// What is wrong. Never quotes the value of a secret.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// The faults found so far.
#[derive(Debug, Default)]
pub(super) struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    pub(super) fn add(&self, path: impl Into<String>, problem: impl Into<String>) {
        self.0.borrow_mut().push(Fault {
            path: path.into(),
            problem: problem.into(),
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(super) fn into_list(self) -> Vec<Fault> {
        self.0.into_inner()
    }
}

/// One table that is being read.
pub(super) struct Section<'a> {
    faults: &'a Faults,
    path: String,
    table: &'a Table,
    asked: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(faults: &'a Faults, path: impl Into<String>, table: &'a Table) -> Self {
        Self {
            faults,
            path: path.into(),
            table,
            asked: RefCell::default(),
        }
    }

    pub(super) fn faults(&self) -> &'a Faults {
        self.faults
    }

    /// The path of this table itself.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The path of one of its keys.
    pub(super) fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    pub(super) fn fault(&self, key: &str, problem: impl Into<String>) {
        self.faults.add(self.path_of(key), problem);
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        let (key, value) = self.table.get_key_value(key)?;
        self.asked.borrow_mut().insert(key);
        Some(value)
    }

    /// Every key and value, for tables whose keys are the author's own.
    pub(super) fn every(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let mut asked = self.asked.borrow_mut();
        asked.extend(self.table.keys().map(String::as_str));
        self.table.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        let value = self.value(key)?;
        let text = value.as_str();
        if text.is_none() {
            self.fault(key, format!("expected text, found {}", value.type_str()));
        }
        text
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.fault(
                key,
                format!("expected true or false, found {}", value.type_str()),
            );
        }
        flag
    }

    /// A whole number within `range`.
    pub(super) fn number(&self, key: &str, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        let value = self.value(key)?;
        let number = value
            .as_integer()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| range.contains(number));
        if number.is_none() {
            self.fault(
                key,
                format!(
                    "expected a whole number, {} to {}",
                    range.start(),
                    range.end()
                ),
            );
        }
        number
    }

    /// A span such as `250ms`, `5s`, `15m`, `24h` or `30d`, above zero.
    pub(super) fn span(&self, key: &str) -> Option<Duration> {
        let text = self.text(key)?;
        let span = parse_span(text);
        if span.is_none() {
            self.fault(
                key,
                "expected a span above zero, such as 250ms, 5s, 15m, 24h or 30d",
            );
        }
        span
    }

    /// One word of a closed set.
    pub(super) fn word<T: Copy>(&self, key: &str, set: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = set.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            self.fault(key, format!("expected {}", one_of(set)));
        }
        found.map(|(_, member)| *member)
    }

    /// A list of texts; a single text stands for a list of one.
    pub(super) fn texts(&self, key: &str) -> Vec<&'a str> {
        match self.value(key) {
            None => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(items)) => {
                let texts: Vec<_> = items.iter().filter_map(Value::as_str).collect();
                if texts.len() != items.len() {
                    self.fault(key, "expected a list of texts");
                }
                texts
            }
            Some(other) => {
                self.fault(
                    key,
                    format!("expected a list of texts, found {}", other.type_str()),
                );
                Vec::new()
            }
        }
    }

    pub(super) fn section(&self, key: &str) -> Option<Section<'a>> {
        let value = self.value(key)?;
        let Some(table) = value.as_table() else {
            self.fault(key, format!("expected a table, found {}", value.type_str()));
            return None;
        };
        Some(Section::new(self.faults, self.path_of(key), table))
    }

    /// The tables of a list, such as every `[[rule]]`; a single table stands for a list of one.
    pub(super) fn sections(&self, key: &str) -> Vec<Section<'a>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let (items, numbered) = (list_of(value), value.is_array());
        let mut sections = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let path = match numbered {
                true => format!("{}[{index}]", self.path_of(key)),
                false => self.path_of(key),
            };
            match item.as_table() {
                Some(table) => sections.push(Section::new(self.faults, path, table)),
                None => self
                    .faults
                    .add(path, format!("expected a table, found {}", item.type_str())),
            }
        }
        sections
    }

    /// Notes `key` as missing.
    pub(super) fn missing(&self, key: &str) {
        self.fault(key, "is missing");
    }

    /// Ends the reading: what nobody asked for is a fault.
    pub(super) fn close(self) {
        let asked = self.asked.borrow();
        for key in self.table.keys() {
            if !asked.contains(key.as_str()) {
                self.fault(key, "is no field of a profile");
            }
        }
    }
}

/// `path.key`, with the key quoted where TOML would quote it.
pub(super) fn join(path: &str, key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match (path.is_empty(), bare) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{key:?}"),
        (false, true) => format!("{path}.{key}"),
        (false, false) => format!("{path}.{key:?}"),
    }
}

/// The items of a list; a single value stands for a list of one.
pub(super) fn list_of(value: &Value) -> &[Value] {
    value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice)
}

fn one_of<T>(set: &[(&str, T)]) -> String {
    let names: Vec<_> = set.iter().map(|(name, _)| *name).collect();
    match names.as_slice() {
        [single] => (*single).to_owned(),
        several => format!("one of {}", several.join(", ")),
    }
}

fn parse_span(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let span = Duration::from_millis(number.checked_mul(millis)?);
    (!span.is_zero()).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_name_their_unit_and_are_above_zero() {
        assert_eq!(parse_span("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_span("5s"), Some(Duration::from_secs(5)));
        assert_eq!(parse_span("15m"), Some(Duration::from_secs(900)));
        assert_eq!(parse_span("24h"), Some(Duration::from_secs(86_400)));
        assert_eq!(parse_span("30d"), Some(Duration::from_secs(2_592_000)));
        for wrong in [
            "",
            "5",
            "s",
            "0s",
            "-1s",
            "1.5s",
            "5 s",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(parse_span(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_fault_is_noted_and_reading_goes_on() {
        let table: Table = r#"
            word = "red"
            number = 70000
            text = 7
            surplus = true
            "/odd key" = 1
        "#
        .parse()
        .unwrap();
        let faults = Faults::default();
        let section = Section::new(&faults, "top", &table);
        assert_eq!(section.word("word", &[("blue", 1), ("green", 2)]), None);
        assert_eq!(section.number("number", 1..=65_535), None);
        assert_eq!(section.text("text"), None);
        section.close();
        let faults: Vec<_> = faults.into_list().iter().map(Fault::to_string).collect();
        assert_eq!(
            faults,
            [
                "top.word: expected one of blue, green",
                "top.number: expected a whole number, 1 to 65535",
                "top.text: expected text, found integer",
                "top.\"/odd key\": is no field of a profile",
                "top.surplus: is no field of a profile",
            ]
        );
    }
}
