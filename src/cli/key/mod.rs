//! Decides how keys are asked for at the command line. They are read and derived exactly as `run` does it, and no
//! recipient is printed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::adapters::clock::Clock;
use crate::config::{Config, Fault, Faults};
use crate::domain::intent::decode::{Decoded, IntakeRules, RecordView, decode};
use crate::domain::key_ring::KeyRing;
use crate::domain::time::Timestamp;

use super::exit::{Exit, UsageError};

/// Print the key under which an intent is sent.
///
/// Give either the event, field by field, or a file of intents.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    event: Event,
    /// Read intents from FILE, one JSON object a line; - is standard input.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "Event",
        required_unless_present = "event_id"
    )]
    file: Option<PathBuf>,
    /// The record's timestamp (RFC 3339), which chooses the secret in force. Now, if it is left out.
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    at: Option<Timestamp>,
    /// Print one JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

/// What an event's key follows from. Its content is no part of that.
#[derive(Clone, Debug, Default, clap::Args)]
struct Event {
    /// The event's id.
    #[arg(long, value_name = "ID", requires = "to")]
    event_id: Option<String>,
    /// The recipient, in any spelling that an intent may have.
    #[arg(long, value_name = "RECIPIENT", requires = "event_id")]
    to: Option<String>,
    /// The channel; left out only where intents name a provider instead.
    #[arg(long, value_name = "NAME", requires = "event_id")]
    channel: Option<String>,
    /// The provider, where the intent itself names it.
    #[arg(long, value_name = "NAME", requires = "event_id")]
    provider: Option<String>,
    /// The event's source.
    #[arg(long, value_name = "TEXT", requires = "event_id")]
    source: Option<String>,
    /// The template's name.
    #[arg(long, value_name = "NAME", requires = "event_id")]
    template: Option<String>,
    /// The template's version.
    #[arg(long, value_name = "TEXT", requires = "template")]
    template_version: Option<String>,
}

/// Prints what was asked for.
///
/// # Errors
///
/// A configuration without secrets, a file that cannot be read, and an event that is no intent. Of a file's lines those that
/// are none are named on standard error, and the answer is no.
pub fn run(arguments: &Arguments, config: Option<&Path>) -> anyhow::Result<Exit> {
    let config = Config::load(config)?;
    let ring = config.keys.ring.as_ref();
    let no_ring = || {
        Faults::from(Fault {
            key: "keys.secrets".to_owned(),
            origin: None,
            message: "at least one is needed: keys cannot be made without a secret".to_owned(),
        })
    };
    let derivation = Derivation {
        rules: config.intents.rules(),
        ring: ring.ok_or_else(no_ring)?,
        at: arguments.at.unwrap_or_else(Clock::wall),
    };
    let out = &mut std::io::stdout().lock();
    let Some(path) = &arguments.file else {
        let key = derivation.key(arguments.event.as_intent().as_bytes());
        let mut key = key.map_err(UsageError)?;
        // Of an event that is told field by field the content is not known.
        key.fingerprint = None;
        print(out, &[key], arguments.json)?;
        return Ok(Exit::Done);
    };
    let unreadable =
        |error: std::io::Error| UsageError(format!("{} cannot be read: {error}", path.display()));
    let lines = open(path).map_err(unreadable)?;
    let (keys, refused) = keys_of(lines, &derivation)?;
    print(out, &keys, arguments.json)?;
    let complaints = &mut std::io::stderr().lock();
    for Refused { line, why } in &refused {
        writeln!(complaints, "line {line}: {why}")?;
    }
    if refused.is_empty() {
        return Ok(Exit::Done);
    }
    writeln!(complaints, "{} of the lines are no intents", refused.len())?;
    Ok(Exit::No)
}

fn moment(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse_rfc3339(text)
        .ok_or("must be a date and time with an offset, like 2026-01-01T00:00:00Z")
}

fn open(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        Ok(Box::new(std::io::stdin().lock()))
    } else {
        Ok(Box::new(BufReader::new(File::open(path)?)))
    }
}

impl Event {
    /// The intent that these fields make, as a publisher would write it.
    fn as_intent(&self) -> String {
        let template = self.template.as_ref().map(|name| {
            let version = self.template_version.as_deref().into();
            Value::Object(Map::from_iter([
                ("name".to_owned(), name.as_str().into()),
                ("version".to_owned(), version),
            ]))
        });
        let fields = [
            ("id", self.event_id.as_deref().into()),
            ("to", self.to.as_deref().into()),
            ("channel", self.channel.as_deref().into()),
            ("provider", self.provider.as_deref().into()),
            ("source", self.source.as_deref().into()),
            ("template", template.into()),
        ];
        let fields = fields.map(|(name, value): (&str, Value)| (name.to_owned(), value));
        Value::Object(Map::from_iter(fields)).to_string()
    }
}

/// What all keys of one call follow from, besides their intents.
struct Derivation<'a> {
    rules: IntakeRules,
    ring: &'a KeyRing,
    at: Timestamp,
}

/// What is printed of one intent.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Derived {
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    event_id: String,
    key: String,
    /// Absent for a key of upstream's own, which has no short form.
    short: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

/// A line that is no intent.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    line: usize,
    why: String,
}

impl Derivation<'_> {
    fn key(&self, value: &[u8]) -> Result<Derived, String> {
        let record = RecordView {
            value: Some(value),
            headers: &[],
            headers_unreadable: 0,
        };
        match decode(&record, &self.rules) {
            Decoded::Intent(intent) => {
                let key = self.ring.key(&intent, self.at);
                Ok(Derived {
                    line: None,
                    event_id: intent.event_id.to_string(),
                    key: key.to_string(),
                    short: key.short_form(),
                    fingerprint: Some(intent.fingerprint().to_string()),
                })
            }
            Decoded::Ignored(reason) => Err(format!("{}: it asks for nothing", reason.name())),
            Decoded::Refused(refusal) => {
                let fault = refusal.fault;
                Err(format!("{} at {}", fault.detail, fault.place))
            }
        }
    }
}

/// The keys of all lines that are intents, and what is wrong with the others. Blank lines count, but are passed over.
fn keys_of(
    lines: impl BufRead,
    derivation: &Derivation<'_>,
) -> std::io::Result<(Vec<Derived>, Vec<Refused>)> {
    let mut keys = Vec::new();
    let mut refused = Vec::new();
    for (line, value) in (1..).zip(lines.split(b'\n')) {
        let value = value?;
        if value.trim_ascii().is_empty() {
            continue;
        }
        match derivation.key(&value) {
            Ok(key) => keys.push(Derived {
                line: Some(line),
                ..key
            }),
            Err(why) => refused.push(Refused { line, why }),
        }
    }
    Ok((keys, refused))
}

fn print(out: &mut impl Write, keys: &[Derived], json: bool) -> anyhow::Result<()> {
    if json {
        for key in keys {
            writeln!(out, "{}", serde_json::to_string(key)?)?;
        }
        return Ok(());
    }
    let with_fingerprint = keys.iter().any(|key| key.fingerprint.is_some());
    let mut header = vec!["event id", "key", "short form"];
    header.extend(with_fingerprint.then_some("intent fingerprint"));
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header);
    for key in keys {
        // An id may hold line breaks, which would tear the table.
        let event_id = key.event_id.escape_debug().to_string();
        let short = key.short.clone().unwrap_or_else(|| "-".to_owned());
        let mut row = vec![event_id, key.key.clone(), short];
        row.extend(key.fingerprint.clone());
        table.add_row(row);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(())
}

#[cfg(test)]
mod tests;
