//! Decides how the checks are told: as a table of claim, observed and verdict, or as one JSON object, and what they come to.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use crate::cli::exit::Exit;

/// Whether a provider did what its profile says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It did.
    Holds,
    /// It did not.
    Broken,
    /// The profile promises nothing here, or what happened cannot be told from what the provider shows.
    Unknown,
    /// There is nothing to be looked at.
    NotApplicable,
}

impl Standing {
    const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Broken => "BROKEN",
            Self::Unknown => "unknown",
            Self::NotApplicable => "not applicable",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, for programs.
    pub check: &'static str,
    /// What the profile promises, or that it promises nothing.
    pub claim: String,
    /// What the provider did.
    pub observed: String,
    /// Whether the two agree.
    pub verdict: Standing,
}

impl Check {
    /// A check that had nothing to look at, for this reason.
    pub fn not_applicable(check: &'static str, claim: &str, why: &str) -> Self {
        Self {
            check,
            claim: claim.to_owned(),
            observed: why.to_owned(),
            verdict: Standing::NotApplicable,
        }
    }
}

/// All that was looked at, and what follows.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The profile, by vendor and operation.
    pub profile: String,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Check>,
    /// What the profile could state, as lines of TOML or as a sentence.
    pub proposals: Vec<String>,
    /// Requests that were made.
    pub requests: u32,
    /// Whether the first send was accepted: without it nothing else could be seen.
    #[serde(skip)]
    pub begun: bool,
}

impl Report {
    /// What the checks come to: one broken promise is a no, and a provider that took nothing could not be verified.
    pub fn exit(&self) -> Exit {
        let broken = |check: &Check| check.verdict == Standing::Broken;
        match (self.checks.iter().any(broken), self.begun) {
            (true, _) => Exit::No,
            (false, false) => Exit::Unavailable,
            (false, true) => Exit::Done,
        }
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// When `out` takes no more.
    pub fn write(&self, json: bool, out: &mut impl Write) -> io::Result<()> {
        if json {
            serde_json::to_writer_pretty(&mut *out, self)?;
            return writeln!(out);
        }
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(["Check", "Claim", "Observed", "Verdict"]);
        for check in &self.checks {
            table.add_row([
                check.check,
                &check.claim,
                &check.observed,
                check.verdict.words(),
            ]);
        }
        writeln!(out, "{}", table.trim_fmt())?;
        writeln!(out)?;
        let count = |standing| {
            let same = self.checks.iter().filter(|check| check.verdict == standing);
            same.count()
        };
        writeln!(
            out,
            "{}: {} hold, {} broken, {} unknown, {} not applicable; {} requests were made.",
            self.profile,
            count(Standing::Holds),
            count(Standing::Broken),
            count(Standing::Unknown),
            count(Standing::NotApplicable),
            self.requests
        )?;
        if !self.proposals.is_empty() {
            writeln!(out, "\nThe profile could state (no file was changed):")?;
            for proposal in &self.proposals {
                writeln!(out, "  {proposal}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdicts: &[Standing], begun: bool) -> Report {
        let check = |verdict: &Standing| Check {
            check: "replay",
            claim: "the same message".to_owned(),
            observed: "another message".to_owned(),
            verdict: *verdict,
        };
        Report {
            profile: "vendor message".to_owned(),
            checks: verdicts.iter().map(check).collect(),
            proposals: vec!["compares_body = true".to_owned()],
            requests: 3,
            begun,
        }
    }

    #[test]
    fn one_broken_promise_is_a_no_and_what_took_nothing_is_not_verified() {
        use Standing::{Broken, Holds, NotApplicable, Unknown};
        for (verdicts, begun, exit) in [
            (&[Holds, Unknown, NotApplicable][..], true, Exit::Done),
            (&[Holds, Broken], true, Exit::No),
            (&[Unknown, Broken], false, Exit::No),
            (&[Unknown], false, Exit::Unavailable),
        ] {
            assert_eq!(report(verdicts, begun).exit(), exit, "{verdicts:?}");
        }
    }

    #[test]
    fn it_is_a_table_with_a_sum_and_what_the_profile_could_state() {
        let mut out = Vec::new();
        report(&[Standing::Broken], true)
            .write(false, &mut out)
            .unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn as_json_it_is_one_object() {
        let mut out = Vec::new();
        report(&[Standing::NotApplicable], true)
            .write(true, &mut out)
            .unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
