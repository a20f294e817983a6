//! Decides how what was looked at is told: as a table for people, or as JSON for programs.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use super::exit::Exit;

/// How much weight a finding has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// It is as it should be.
    Fine,
    /// It works, with a consequence that one should know.
    Warning,
    /// It cannot be looked at, since something is not reached.
    Unreachable,
    /// It cannot work.
    Fault,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its weight.
    pub weight: Weight,
    /// What it is about.
    pub about: String,
    /// What was found, and what to do about it.
    pub found: String,
}

/// All that was looked at, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// It is as it should be.
    pub fn fine(&mut self, about: &str, found: impl ToString) {
        self.add(Weight::Fine, about, found);
    }

    /// It works, with a consequence.
    pub fn warning(&mut self, about: &str, found: impl ToString) {
        self.add(Weight::Warning, about, found);
    }

    /// It is not reached.
    pub fn unreachable(&mut self, about: &str, found: impl ToString) {
        self.add(Weight::Unreachable, about, found);
    }

    /// It cannot work.
    pub fn fault(&mut self, about: &str, found: impl ToString) {
        self.add(Weight::Fault, about, found);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }

    /// What they come to: faults weigh more than what is not reached.
    pub fn exit(&self) -> Exit {
        match self.0.iter().map(|finding| finding.weight).max() {
            Some(Weight::Fault) => Exit::Config,
            Some(Weight::Unreachable) => Exit::Unavailable,
            Some(Weight::Warning | Weight::Fine) | None => Exit::Done,
        }
    }

    /// Writes them as a table, or as an array of objects.
    ///
    /// # Errors
    ///
    /// When `out` takes no more.
    pub fn write(&self, json: bool, out: &mut impl Write) -> io::Result<()> {
        if json {
            serde_json::to_writer_pretty(&mut *out, &self.0)?;
            return writeln!(out);
        }
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(["", "What", "Found"]);
        for finding in &self.0 {
            let mark = match finding.weight {
                Weight::Fine => "ok",
                Weight::Warning => "warning",
                Weight::Unreachable => "unreachable",
                Weight::Fault => "fault",
            };
            table.add_row([mark, &finding.about, &finding.found]);
        }
        writeln!(out, "{table}")
    }

    fn add(&mut self, weight: Weight, about: &str, found: impl ToString) {
        self.0.push(Finding {
            weight,
            about: about.to_owned(),
            found: found.to_string(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_weighs_more_than_what_is_not_reached() {
        let mut findings = Findings::default();
        assert_eq!(findings.exit(), Exit::Done);
        findings.warning("a", "b");
        assert_eq!(findings.exit(), Exit::Done);
        findings.unreachable("a", "b");
        assert_eq!(findings.exit(), Exit::Unavailable);
        findings.fault("a", "b");
        findings.fine("a", "b");
        assert_eq!(findings.exit(), Exit::Config);
    }

    #[test]
    fn they_are_written_as_an_array_of_objects() {
        let mut findings = Findings::default();
        findings.warning("topic", "few replicas");
        let mut out = Vec::new();
        findings.write(true, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        [
          {
            "weight": "warning",
            "about": "topic",
            "found": "few replicas"
          }
        ]
        "#);
    }
}
