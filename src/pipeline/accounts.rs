//! The providers' accounts: where requests go, on what terms, and whether they may go now.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use crate::adapters::ledger::Ledger;
use crate::adapters::provider::ProviderClient;
use crate::domain::account_gate::{AccountGate, Passage};
use crate::domain::attempt::Classified;
use crate::domain::dispatch::Terms;
use crate::domain::idempotency_key::ProfileHash;
use crate::domain::intent::Intent;
use crate::domain::profile::Profile;
use crate::domain::time::Timestamp;
use crate::telemetry::metrics::ProviderMetrics;

/// All accounts, and which one an intent goes to.
pub struct Accounts {
    by_name: BTreeMap<Arc<str>, Arc<Account>>,
    routes: BTreeMap<Arc<str>, Arc<str>>,
}

/// One provider's account.
pub struct Account {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// The profile that is in force.
    pub profile: Arc<Profile>,
    /// That profile's hash.
    pub profile_hash: ProfileHash,
    /// The terms on which attempts are made.
    pub terms: Terms,
    /// Requests in flight at once. Each account has its own, so that a slow provider starves no other.
    pub requests: Arc<Semaphore>,
    /// Sends requests.
    pub client: ProviderClient,
    /// What is counted of it.
    pub metrics: ProviderMetrics,
    /// Whether it may be asked.
    pub gate: Mutex<AccountGate>,
    /// Profiles that rendered what is still open, by hash.
    pub versions: Mutex<HashMap<ProfileHash, Arc<Profile>>>,
}

impl Accounts {
    /// These accounts, and channels routed to them by name.
    pub fn new(accounts: Vec<Account>, routes: BTreeMap<Arc<str>, Arc<str>>) -> Self {
        let by_name =
            accounts.into_iter().map(|account| (Arc::clone(&account.name), Arc::new(account)));
        Self { by_name: by_name.collect(), routes }
    }

    /// The account of this name.
    pub fn of(&self, name: &str) -> Option<Arc<Account>> {
        self.by_name.get(name).cloned()
    }

    /// Where this intent goes: to the provider it names, else to its channel's.
    pub fn route(&self, intent: &Intent) -> Option<Arc<Account>> {
        match (&intent.provider, &intent.channel) {
            (Some(provider), _) => self.of(provider),
            (None, Some(channel)) => self.of(self.routes.get(channel)?),
            (None, None) => None,
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.by_name.values()
    }
}

impl Account {
    /// Whether an attempt may start now.
    pub fn ask(&self, now: Timestamp) -> Passage {
        let span = self.terms.request_span + self.terms.transport_bound;
        self.gate().ask(now, span)
    }

    /// Takes note of an answer for the account as a whole.
    pub fn answered(&self, classified: &Classified, now: Timestamp) {
        let interval = self.terms.pace.probe_interval;
        self.gate().answered(classified.verdict, classified.wait, now, interval);
    }

    /// The profile of this hash: the one in force, or an earlier one that the ledger keeps.
    pub fn version(&self, hash: ProfileHash, ledger: &dyn Ledger) -> Result<Arc<Profile>, String> {
        if hash == self.profile_hash {
            return Ok(Arc::clone(&self.profile));
        }
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(profile) = versions.get(&hash) {
            return Ok(Arc::clone(profile));
        }
        let text = ledger.profile(hash).map_err(|error| error.to_string())?;
        let text = text.ok_or_else(|| format!("profile {hash} is not in the ledger"))?;
        let profile = Profile::parse(&text)
            .map_err(|_| format!("profile {hash} of the ledger can no longer be read"))?;
        let profile = Arc::new(profile);
        versions.insert(hash, Arc::clone(&profile));
        Ok(profile)
    }

    fn gate(&self) -> MutexGuard<'_, AccountGate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
