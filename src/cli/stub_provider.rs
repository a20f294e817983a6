//! Decides how the stub provider is started from the command line. What it does is [`crate::stub_provider`]'s.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::stub_provider::{Fault, FaultMix, Options, Scope, serve};

/// Run an honest model of a provider, which fails its clients as real ones do.
///
/// It takes messages at POST /v1/messages and tells what really happened at GET /admin/deliveries and /admin/stats.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Where it listens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// The path of a send.
    #[arg(long, value_name = "PATH", default_value = "/v1/messages")]
    path: String,
    /// The header that carries the idempotency key.
    #[arg(long, value_name = "NAME", default_value = "Idempotency-Key")]
    key_header: String,
    /// The member of an acceptance that carries the message id.
    #[arg(long, value_name = "NAME", default_value = "id")]
    id_field: String,
    /// Take every complete request for a new message, as providers without idempotency keys do.
    #[arg(long)]
    no_keys: bool,
    /// Let messages be looked up at GET /v1/messages, each so many milliseconds after its acceptance.
    #[arg(long, value_name = "MILLISECONDS")]
    lookups_after_ms: Option<u64>,
    /// How many seconds a key is remembered after its acceptance.
    #[arg(long, value_name = "SECONDS", default_value_t = 24 * 60 * 60)]
    window: u64,
    /// Break the promise about bodies: give another request under a known key the first one's answer, and no conflict.
    #[arg(long)]
    ignore_body: bool,
    /// Break the promise about requests at once: know a key only once its first request has been answered, so that those
    /// that come meanwhile are new messages. Shows with slow answers (--fault slow=1).
    #[arg(long)]
    no_lock: bool,
    /// Answer every message to RECIPIENT with a server error, and never accept one.
    #[arg(long, value_name = "RECIPIENT")]
    fails_for: Option<String>,
    /// Store those errors under their keys, so that a retry only replays them.
    #[arg(long, requires = "fails_for")]
    store_errors: bool,
    /// What the draw of faults follows from.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// The file to which what really happens is appended, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    truth_log: Option<PathBuf>,
    #[command(flatten)]
    faults: Faults,
}

/// Which faults the stub provider has.
#[derive(Clone, Debug, clap::Args)]
struct Faults {
    /// A ready mix of faults; the settings below change it.
    #[arg(long, value_name = "MIX", value_enum, default_value_t = Preset::None)]
    faults: Preset,
    /// The share of requests that meet one fault, as in `accept_then_hang=0.05`. May come many times.
    ///
    /// The faults are reset_before_reading, accept_then_hang, accept_then_reset, error_before_accepting,
    /// error_after_accepting, stored_error, throttled_seconds, throttled_date, slow, truncated_body and
    /// html_gateway_error.
    #[arg(long = "fault", value_name = "NAME=SHARE")]
    rates: Vec<Share>,
    /// Let only the first request of each key meet faults.
    #[arg(long)]
    first_only: bool,
    /// The most faults that one key meets.
    #[arg(long, value_name = "NUMBER")]
    faults_per_key: Option<u32>,
    /// How many milliseconds accept_then_hang keeps the connection open.
    #[arg(long, value_name = "MILLISECONDS")]
    hang_ms: Option<u64>,
    /// How many milliseconds late a slow answer is.
    #[arg(long, value_name = "MILLISECONDS")]
    slow_ms: Option<u64>,
    /// The wait, in seconds, that a 429 names.
    #[arg(long, value_name = "SECONDS")]
    retry_after: Option<u64>,
}

/// The ready mixes of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Preset {
    /// No faults at all.
    None,
    /// About one request in ten fails.
    Default,
    /// About every second request fails, most of them after the message was accepted.
    Harsh,
}

impl Preset {
    /// The name as it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Default => "default",
            Self::Harsh => "harsh",
        }
    }

    /// The mix of that name.
    pub fn mix(self) -> FaultMix {
        match self {
            Self::None => FaultMix::default(),
            Self::Default => FaultMix::bad_day(),
            Self::Harsh => FaultMix::harsh(),
        }
    }
}

/// One fault and its share of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share(Fault, f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let (name, rate) = typed
            .split_once('=')
            .ok_or("a fault is given as NAME=SHARE")?;
        let fault = Fault::named(name).ok_or_else(|| format!("there is no fault {name}"))?;
        let rate = rate.parse().map_err(|_| format!("{rate} is no number"))?;
        Ok(Self(fault, rate))
    }
}

impl Arguments {
    /// The provider's options as the arguments ask for them.
    fn options(&self) -> anyhow::Result<Options> {
        Ok(Options {
            path: self.path.clone(),
            key_header: self.key_header.clone(),
            keys: !self.no_keys,
            window: Duration::from_secs(self.window),
            ignores_body: self.ignore_body,
            lacks_lock: self.no_lock,
            fails_for: self.fails_for.clone(),
            stores_errors: self.store_errors,
            lookups: self.lookups_after_ms.map(Duration::from_millis),
            id_field: self.id_field.clone(),
            faults: self.faults.mix()?,
            seed: self.seed,
            truth_log: self.truth_log.clone(),
        })
    }
}

impl Faults {
    fn mix(&self) -> anyhow::Result<FaultMix> {
        let rates: BTreeMap<Fault, f64> = self
            .rates
            .iter()
            .map(|Share(fault, rate)| (*fault, *rate))
            .collect();
        let mut mix = self.faults.mix().with_rates(rates)?;
        if self.first_only {
            mix = mix.within(Scope::First);
        }
        if self.faults_per_key.is_some() {
            mix = mix.at_most_per_key(self.faults_per_key);
        }
        if let Some(hang_ms) = self.hang_ms {
            mix = mix.hanging_ms(hang_ms);
        }
        if let Some(slow_ms) = self.slow_ms {
            mix = mix.slow_by_ms(slow_ms);
        }
        if let Some(seconds) = self.retry_after {
            mix = mix.retry_after_seconds(seconds);
        }
        Ok(mix)
    }
}

/// Serves until SIGINT or SIGTERM comes.
///
/// # Errors
///
/// When the arguments make no sense, the address is taken, or the truth log cannot be written.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let options = arguments.options()?;
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("the stub provider cannot listen on {}", arguments.listen))?;
    tracing::info!(address = %listener.local_addr()?, "the stub provider listens");
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let shutdown = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    Ok(serve(options, listener, shutdown).await?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn mix(typed: &[&str]) -> anyhow::Result<FaultMix> {
        Typed::try_parse_from([&["stub-provider"], typed].concat())?
            .arguments
            .faults
            .mix()
    }

    #[test]
    fn nothing_typed_is_an_honest_provider_on_its_usual_address() {
        let arguments = Typed::try_parse_from(["stub-provider"]).unwrap().arguments;
        assert_eq!(arguments.listen, SocketAddr::from(([127, 0, 0, 1], 8090)));
        let (typed, usual) = (arguments.options().unwrap(), Options::default());
        assert_eq!(format!("{typed:?}"), format!("{usual:?}"));
    }

    #[test]
    fn single_faults_change_a_ready_mix() {
        let typed = mix(&[
            "--faults",
            "harsh",
            "--fault",
            "slow=0",
            "--fault",
            "stored_error=0.01",
            "--slow-ms",
            "9",
        ])
        .unwrap();
        let meant = FaultMix::harsh()
            .with_rates(BTreeMap::from([
                (Fault::Slow, 0.0),
                (Fault::StoredError, 0.01),
            ]))
            .unwrap()
            .slow_by_ms(9);
        assert_eq!(typed, meant);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(
            mix(&["--fault", "slow"])
                .unwrap_err()
                .to_string()
                .contains("NAME=SHARE")
        );
        assert!(
            mix(&["--fault", "sloth=1"])
                .unwrap_err()
                .to_string()
                .contains("there is no fault sloth")
        );
        assert!(
            mix(&["--fault", "slow=much"])
                .unwrap_err()
                .to_string()
                .contains("much is no number")
        );
        assert_eq!(
            mix(&["--fault", "slow=2"]).unwrap_err().to_string(),
            "the rate of slow is 2, which is not within 0 and 1"
        );
    }
}
