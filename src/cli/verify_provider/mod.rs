//! Decides how a provider is put to the test before anyone relies on it: what is typed, what a rehearsal shows, and what the
//! answer is. Each check has a file of its own that only judges; `course` asks.

use std::io::Write as _;
use std::io::{stderr, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value};
use url::Url;
use uuid::Uuid;

use crate::adapters::clock::Clock;
use crate::config::Config;
use crate::domain::idempotency_key::IdempotencyKey;
use crate::domain::render::RenderedRequest;

use super::exit::{Exit, UsageError};
use asking::Asker;
use course::Patience;
use plan::{Plan, Price};
use subject::{Subject, Typed, unfit};

mod asking;
mod at_once;
mod course;
mod cut;
mod first_send;
mod forgetting;
mod key_limits;
mod latency;
mod look_up;
mod missing_key;
mod other_body;
mod plan;
mod proposals;
mod replay;
mod report;
mod seen;
mod stores;
mod subject;

/// Put a provider's idempotency to the test, with real messages to a test account.
///
/// A rehearsal unless --execute is given: it prints how much would be sent, and sends nothing. Exits 1 if the provider did not
/// do what its profile promises, 69 if it did not even take the first message.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// A provider of the configuration, a profile of its folder, or a profile's file (….toml).
    #[arg(value_name = "PROFILE")]
    profile: String,
    /// Who gets the messages. It must be you: there may be dozens.
    #[arg(long, value_name = "RECIPIENT")]
    to: String,
    /// The content of the messages, a JSON object as in an intent.
    #[arg(long, value_name = "JSON", required_unless_present = "intent")]
    content: Option<String>,
    /// A file with an intent to send, in place of --content. Its id, recipient and key are not used.
    #[arg(long, value_name = "FILE", conflicts_with = "content")]
    intent: Option<PathBuf>,
    /// The channel, which decides how the recipient is read. Default: the one that is routed to the provider.
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Scheme, host and port in place of the profile's: a sandbox, or the stub provider.
    #[arg(long, value_name = "URL")]
    base_url: Option<Url>,
    /// Content that makes another body. Default: the content with one of its texts lengthened.
    #[arg(long, value_name = "JSON")]
    other_content: Option<String>,
    /// A file with an intent that the provider answers with an error, to see whether it stores errors. It goes to the
    /// recipient that it names, such as a vendor's number that always fails, else to that of --to.
    #[arg(long, value_name = "FILE")]
    failing: Option<PathBuf>,
    /// How many seconds after the first message its request comes again, to see whether its key is still known.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    forget_after: u64,
    /// For how many seconds at most a message is looked for.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    look_up_patience: u64,
    /// Further messages, which only measure how long a send takes.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    samples: u32,
    /// What one message costs, to tell what all may cost.
    #[arg(long, value_name = "AMOUNT")]
    price: Option<Price>,
    /// Send.
    #[arg(long)]
    execute: bool,
    /// Write one object instead of a table.
    #[arg(long)]
    json: bool,
    /// Show the first request, recipient and content included, on stderr. Credentials are not shown.
    #[arg(long)]
    reveal: bool,
}

/// Rehearses or verifies, and prints what came of it.
///
/// # Errors
///
/// A profile or an intent that cannot be used, and output that cannot be written. What the provider does is no error.
pub async fn run(arguments: Arguments, config: &Config) -> anyhow::Result<Exit> {
    let fields = match (&arguments.intent, &arguments.content) {
        (Some(path), _) => read_object(path)?,
        (None, content) => {
            let content = object("--content", content.as_deref().unwrap_or("{}"))?;
            Map::from_iter([("content".to_owned(), Value::Object(content))])
        }
    };
    let other_content = arguments.other_content.as_deref();
    let other_content = other_content.map(|text| object("--other-content", text));
    let typed = Typed {
        fields,
        to: &arguments.to,
        channel: arguments.channel.as_deref(),
        other_content: other_content.transpose()?,
        failing: arguments.failing.as_deref().map(read_object).transpose()?,
    };
    let subject = Subject::open(
        config,
        &arguments.profile,
        arguments.base_url.clone(),
        typed,
    )?;
    let example = IdempotencyKey::derived(Uuid::nil());
    let request = subject
        .request(&subject.intent, &example, Clock::wall())
        .map_err(unfit)?;
    if arguments.reveal {
        reveal(&request)?;
    }
    let plan = Plan::of(&subject, &request, arguments.samples, arguments.price);
    if !arguments.execute {
        plan.write(arguments.json, &mut stdout().lock())?;
        return Ok(Exit::Done);
    }
    // Drawn on stderr, and only if that is a terminal.
    let bar = ProgressBar::new(plan.sends.into()).with_style(ProgressStyle::with_template(
        "{msg:>20} {bar:40} {pos}/{len} {elapsed}",
    )?);
    let asker = Asker::new(&subject, config.retry.wait_max, bar.clone());
    let patience = Patience {
        forget_after: Duration::from_secs(arguments.forget_after),
        look_up: Duration::from_secs(arguments.look_up_patience),
        samples: arguments.samples,
    };
    let report = course::run(&subject, &asker, patience).await?;
    bar.finish_and_clear();
    report.write(arguments.json, &mut stdout().lock())?;
    Ok(report.exit())
}

/// Reads content here and not where the command line is, whose messages show what was typed.
fn object(whose: &str, text: &str) -> Result<Map<String, Value>, UsageError> {
    serde_json::from_str(text).map_err(|_| UsageError(format!("{whose}: expected a JSON object")))
}

fn read_object(path: &Path) -> Result<Map<String, Value>, UsageError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError(format!("{} cannot be read: {error}", path.display())))?;
    object(&path.display().to_string(), &text)
}

/// Shows a request as it goes out, but for its credentials.
fn reveal(request: &RenderedRequest) -> std::io::Result<()> {
    let mut out = stderr().lock();
    writeln!(out, "{} {}", request.method, request.url)?;
    for (name, value) in &request.headers {
        writeln!(out, "{name}: {}", String::from_utf8_lossy(value.as_bytes()))?;
    }
    writeln!(out, "\n{}\n", String::from_utf8_lossy(&request.body))
}
