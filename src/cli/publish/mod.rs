//! Decides what `publish` writes: intents, one a line, each read first exactly as `run` would read it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read as _, Write as _, stderr, stdin, stdout};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::adapters::kafka::client;
use crate::adapters::kafka::publisher::Publisher;
use crate::config::Config;
use crate::domain::intent::Intent;
use crate::domain::intent::decode::{Decoded, IntakeRules, RecordView, decode};
use crate::domain::intent::refusal::Fault;
use crate::pipeline::tokens;

use super::exit::{Exit, UsageError};
use lines::Lines;

mod lines;

/// Refused lines that are told one by one.
const TOLD_MAX: u64 = 100;

/// Write intents to their topic: one JSON object a line, as `run` reads them.
///
/// Every line is read first, and nothing is written unless all of them are intents. Exits 1 if a line was refused.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The file, or `-` for standard input, which is then kept in memory.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What becomes the record's Kafka key: intents with one key are sent one after the other, and an event that is
    /// published again must get the same key.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = KeyBy::EventId)]
    key_by: KeyBy,
    /// The lane to write to, as `[lane.NAME]` calls it; without it, `kafka.topic`.
    #[arg(long, value_name = "NAME")]
    lane: Option<String>,
    /// Write the lines that are intents, and pass over the others; standard input is then written as it comes.
    #[arg(long)]
    skip_invalid: bool,
    /// Only read the lines; write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write one object instead of a line of text.
    #[arg(long)]
    json: bool,
}

/// What becomes the record's Kafka key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KeyBy {
    /// The event's id.
    EventId,
    /// The recipient in canonical form, so that each one's messages keep their order. It can then be read off the keys.
    Recipient,
}

/// What became of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Tally {
    read: u64,
    refused: u64,
    published: u64,
}

/// Publishes.
///
/// # Errors
///
/// When the file cannot be read, or Kafka does not take what is written; how many it took is told before.
pub fn run(config: &Config, arguments: &Arguments) -> anyhow::Result<Exit> {
    let topic = topic(config, arguments.lane.as_deref())?;
    let rules = config.intents.rules();
    let mut tally = Tally::default();
    let once = arguments.skip_invalid && !arguments.dry_run;
    let mut kept = None;
    if !once {
        if is_stdin(&arguments.file) {
            let mut all = Vec::new();
            stdin().lock().read_to_end(&mut all)?;
            kept = Some(all);
        }
        let mut input = open(&arguments.file, kept.as_deref(), "reading")?;
        while let Some(line) = input.next(&rules)? {
            if let Err(refused) = line {
                tally.refused += 1;
                tell(tally.refused, &refused);
            }
            tally.read += 1;
        }
        input.bar.finish_and_clear();
    }
    let outcome = if arguments.dry_run || (!once && tally.refused > 0) {
        Ok(())
    } else {
        tally = Tally::default();
        let input = open(&arguments.file, kept.as_deref(), "publishing")?;
        write_all((config, topic), &rules, input, arguments.key_by, &mut tally)
    };
    report(arguments, &tally)?;
    outcome?;
    Ok(if tally.refused == 0 {
        Exit::Done
    } else {
        Exit::No
    })
}

/// The topic of the lane of this name.
fn topic<'a>(config: &'a Config, name: Option<&str>) -> Result<&'a str, UsageError> {
    let lane = match name {
        None => &config.lanes.first,
        Some(name) => config
            .lanes
            .named(name)
            .ok_or_else(|| UsageError(format!("there is no [lane.{name}]")))?,
    };
    Ok(&lane.topics.intents)
}

fn write_all(
    (config, topic): (&Config, &str),
    rules: &IntakeRules,
    mut input: Input<'_>,
    key_by: KeyBy,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let tokens = tokens::source(&config.kafka, runtime.handle())?;
    let properties = client::producer(&config.kafka, config.intents.size_max);
    let mut publisher = Publisher::new(&properties, tokens, topic)?;
    let written: anyhow::Result<()> = runtime.block_on(async {
        while let Some(line) = input.next(rules)? {
            tally.read += 1;
            match line {
                Ok(line) => {
                    let key = match key_by {
                        KeyBy::EventId => line.intent.event_id.0.as_bytes(),
                        KeyBy::Recipient => line.intent.recipient.expose().as_bytes(),
                    };
                    publisher.write(key, &line.value).await?;
                }
                Err(refused) => {
                    tally.refused += 1;
                    tell(tally.refused, &refused);
                }
            }
        }
        publisher.finish().await?;
        Ok(())
    });
    input.bar.finish_and_clear();
    tally.published = publisher.written();
    written.with_context(|| format!("not all lines were written to {topic}"))
}

/// A line that is an intent.
struct Line {
    value: Vec<u8>,
    intent: Box<Intent>,
}

/// A line that is none, and why. Tells nothing of its content.
struct Refused {
    number: u64,
    why: String,
}

/// The lines, one by one.
struct Input<'a> {
    lines: Lines<Box<dyn BufRead + 'a>>,
    bar: ProgressBar,
}

impl Input<'_> {
    fn next(&mut self, rules: &IntakeRules) -> io::Result<Option<Result<Line, Refused>>> {
        // One byte more than is allowed, so that what is too long is seen to be.
        let Some(line) = self.lines.next(rules.size_max.saturating_add(1))? else {
            return Ok(None);
        };
        self.bar.set_position(self.lines.consumed());
        let record = RecordView {
            value: Some(&line.content),
            headers: &[],
            headers_unreadable: 0,
        };
        let why = match decode(&record, rules) {
            Decoded::Intent(intent) => {
                return Ok(Some(Ok(Line {
                    value: line.content,
                    intent,
                })));
            }
            Decoded::Ignored(reason) => format!("it asks for nothing ({})", reason.name()),
            Decoded::Refused(refusal) => {
                let Fault { detail, place } = refusal.fault;
                format!("{} ({place})", detail.name())
            }
        };
        Ok(Some(Err(Refused {
            number: line.number,
            why,
        })))
    }
}

fn open<'a>(path: &Path, kept: Option<&'a [u8]>, what: &'static str) -> anyhow::Result<Input<'a>> {
    let (from, size): (Box<dyn BufRead + 'a>, Option<u64>) = match kept {
        Some(kept) => (Box::new(Cursor::new(kept)), u64::try_from(kept.len()).ok()),
        None if is_stdin(path) => (Box::new(BufReader::new(stdin())), None),
        None => {
            let unreadable = |error: io::Error| {
                UsageError(format!("{} cannot be read: {error}", path.display()))
            };
            let file = File::open(path).map_err(unreadable)?;
            let size = file.metadata().map_err(unreadable)?.len();
            (Box::new(BufReader::new(file)), Some(size))
        }
    };
    // Drawn on stderr, and only if that is a terminal.
    let bar = match size {
        Some(size) => ProgressBar::new(size).with_style(ProgressStyle::with_template(
            "{msg:>12} {bar:40} {bytes}/{total_bytes} {eta}",
        )?),
        None => ProgressBar::new_spinner(),
    };
    bar.set_message(what);
    Ok(Input {
        lines: Lines::new(from),
        bar,
    })
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Talk goes on even if nobody listens.
fn tell(count: u64, refused: &Refused) {
    if count <= TOLD_MAX {
        let _ = writeln!(stderr(), "line {}: {}", refused.number, refused.why);
    } else if count == TOLD_MAX + 1 {
        let _ = writeln!(stderr(), "more refused lines are counted only");
    }
}

fn report(arguments: &Arguments, tally: &Tally) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, tally)?;
        writeln!(out)?;
    } else {
        let Tally {
            read,
            refused,
            published,
        } = tally;
        writeln!(out, "{read} read, {refused} refused, {published} published")?;
    }
    Ok(())
}
