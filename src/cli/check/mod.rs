//! Decides whether a configuration can work, before anything runs by it: what stands in it, the profiles, and with
//! `--connect` the cluster.

use std::io::stdout;
use std::path::Path;
use std::time::Duration;

use crate::adapters::kafka::client;
use crate::config::{Config, Faults};
use crate::pipeline::accounts::{AccountFault, Accounts};
use crate::telemetry::log;
use crate::telemetry::metrics::Metrics;

use super::exit::Exit;
use super::findings::Findings;

mod cluster;
mod credentials;
mod plans;

/// Say whether the configuration can work, and exit 78 if not.
///
/// With --connect the cluster is looked at too, and exit 69 says that it is not reached. Nothing is changed anywhere.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Look at the brokers, topics and group as well.
    #[arg(long)]
    connect: bool,
    /// How many seconds any one question to the cluster may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
    /// Write an array of objects instead of a table.
    #[arg(long)]
    json: bool,
}

/// Looks, and writes what it found.
///
/// # Errors
///
/// When it cannot be written. What is wrong with the configuration is no error but a finding.
pub fn run(file: Option<&Path>, arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut findings = Findings::default();
    match Config::load(file) {
        Ok(config) => {
            log::begin(&config.log)?;
            findings.fine("configuration", "every value is allowed");
            look_at_configuration(&config, &mut findings);
            look_at_providers(&config, &mut findings)?;
            if arguments.connect {
                let timeout = Duration::from_secs(arguments.timeout);
                cluster::look(&config, timeout, &mut findings)?;
            }
        }
        Err(faults) => note(&faults, &mut findings),
    }
    findings.write(arguments.json, &mut stdout().lock())?;
    Ok(findings.exit())
}

fn look_at_configuration(config: &Config, findings: &mut Findings) {
    if let Some(missing) = config.missing_to_run() {
        note(&missing, findings);
    }
    let record_max = config.intents.size_max;
    for (about, properties) in [
        ("kafka: consumer", client::consumer(&config.kafka)),
        (
            "kafka: producer",
            client::producer(&config.kafka, record_max),
        ),
    ] {
        match properties.create_native_config() {
            Ok(_) => findings.fine(about, "librdkafka takes the properties"),
            Err(error) => findings.fault(about, error),
        }
    }
}

/// Reads every profile as `run` would, its credentials included.
fn look_at_providers(config: &Config, findings: &mut Findings) -> anyhow::Result<()> {
    let names = config.providers.accounts.keys();
    let metrics = Metrics::new(names.map(|name| &**name), config.lanes.intents())?;
    let accounts = match Accounts::open(config, &metrics) {
        Ok(accounts) => accounts,
        Err(faults) => {
            for AccountFault { provider, problem } in faults {
                findings.fault(&format!("provider {provider}"), problem);
            }
            return Ok(());
        }
    };
    let (drain, retention) = (config.shutdown.drain, config.ledger.retention);
    for account in accounts.iter() {
        let about = format!("provider {}", account.name);
        if let Some(needs) = credentials::needs(&account.profile) {
            findings.fine(&about, needs);
        }
        if account.profile.request.shows_credentials() {
            let doubt =
                "says who sends in the clear, over http: whoever listens can send in our name";
            findings.warning(&about, doubt);
        }
        let lookup = account.profile.lookup.as_ref();
        let key = account.profile.key.as_ref();
        let uuid_version = key.and_then(|key| key.uuid_version);
        let plan = plans::look(&account.terms, lookup, uuid_version, drain, retention);
        for doubt in plan.doubts {
            findings.warning(&about, doubt);
        }
        if plan.is_sure {
            findings.fine(&about, plan.promise);
        } else {
            findings.warning(&about, plan.promise);
        }
    }
    Ok(())
}

fn note(faults: &Faults, findings: &mut Findings) {
    for fault in faults.iter() {
        let origin = fault.origin.as_ref();
        let found = match (fault.key.as_str(), origin) {
            ("", _) | (_, None) => fault.message.clone(),
            (_, Some(origin)) => format!("{} ({origin})", fault.message),
        };
        let about = match (fault.key.as_str(), origin) {
            ("", Some(origin)) => origin.to_string(),
            (key, _) => key.to_owned(),
        };
        findings.fault(&about, found);
    }
}
