//! The providers' accounts: where requests go, on what terms, and whether they may go now.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::adapters::clock::{BootMoment, Clock};
use crate::adapters::ledger::{Ledger, LedgerError};
use crate::adapters::provider::ProviderClient;
use crate::config::Config;
use crate::config::providers::ProviderConfig;
use crate::config::secret::References;
use crate::domain::account_gate::{AccountAnswer, AccountGate, Share};
use crate::domain::attempt::{Classified, Verdict};
use crate::domain::breaker::{BreakerState, Change, Refusal, Signal, Ticket};
use crate::domain::classify::Answer;
use crate::domain::dispatch::Terms;
use crate::domain::idempotency_key::ProfileHash;
use crate::domain::intent::Intent;
use crate::domain::profile::{self, Binding, Profile};
use crate::domain::rejection_limit::Outcome;
use crate::domain::time::Timestamp;
use crate::telemetry::metrics::{Metrics, ProviderMetrics};
use crate::telemetry::troubles::Troubles;

use super::account_terms::{rate_limit, rules, terms, with_profile};
use super::asking_again::asking_again;
use super::explained::Explained;
use super::places::{Place, Places, Precedence, ReadOrder};
use super::recipients::{RecipientTurn, Recipients};
use super::rejections::{Leave, Rejections};

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
    /// The terms on which first attempts are made; what has begun keeps the terms of the version that began it.
    pub terms: Terms,
    /// Requests in flight at once. Each account has its own, so that a slow provider starves no other.
    pub requests: Arc<Places>,
    /// Sends requests.
    pub client: ProviderClient,
    /// What is counted of it.
    pub metrics: ProviderMetrics,
    gate: Mutex<AccountGate>,
    /// When the gate's time began.
    opened: BootMoment,
    /// Who stands at the gate: one at a time.
    head: Arc<Places>,
    /// Something has changed for the one at the gate.
    changed: Notify,
    /// Holds back what goes to recipients that are to be left alone.
    pub recipients: Recipients,
    /// Holds templates back that are rejected too often, if that is asked for.
    pub rejections: Option<Rejections>,
    /// Message ids that the ledger explains; kept only once a look-up needs them.
    pub explained: Explained,
    /// What was not accepted lately.
    pub troubles: Mutex<Troubles>,
    /// Profiles that rendered what is still open, by hash.
    pub versions: Mutex<HashMap<ProfileHash, Arc<Profile>>>,
}

/// Leave to start one attempt, with its place among the requests in flight.
pub struct Pass {
    account: Arc<Account>,
    ticket: Option<Ticket>,
    place: Option<Place>,
    /// That of its template, where templates are held back.
    leave: Option<Leave>,
    /// That of its recipient, where that one has waited.
    _turn: Option<RecipientTurn>,
}

/// Why an account cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("provider {provider}: {problem}")]
pub struct AccountFault {
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// What is wrong, with its place.
    pub problem: String,
}

/// Why an earlier version of a profile cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VersionFault {
    /// The ledger cannot be read now.
    #[error(transparent)]
    Unreadable(#[from] LedgerError),
    /// The ledger does not have it.
    #[error("the ledger has no profile {0}")]
    Gone(ProfileHash),
    /// It does not fit this build or this installation: a setting has no value any more, say.
    #[error("profile {hash}: {problem}")]
    Unfit {
        /// Which.
        hash: ProfileHash,
        /// What is wrong with it, with its place.
        problem: String,
    },
}

impl Accounts {
    /// Reads every profile that is configured, resolves its secrets and makes its client. Tells all faults at once.
    pub fn open(config: &Config, metrics: &Metrics) -> Result<Self, Vec<AccountFault>> {
        let mut faults = Vec::new();
        let mut by_name = BTreeMap::new();
        for (name, provider) in &config.providers.accounts {
            match Account::open(config, name, provider, metrics.provider(name)) {
                Ok(account) => {
                    by_name.insert(Arc::clone(name), Arc::new(account));
                }
                Err(problems) => faults.extend(problems.into_iter().map(|problem| AccountFault {
                    provider: Arc::clone(name),
                    problem,
                })),
            }
        }
        let routes = config.providers.routes.clone();
        if faults.is_empty() {
            Ok(Self { by_name, routes })
        } else {
            Err(faults)
        }
    }

    /// Keeps the profiles in the ledger, so that what is open can be rendered again after a deploy.
    pub async fn keep_profiles(&self, ledger: &dyn Ledger) -> Result<(), LedgerError> {
        for account in self.by_name.values() {
            ledger
                .keep_profile(account.profile_hash, account.profile.canonical().into())
                .await?;
        }
        Ok(())
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

    /// So many of all partitions are assigned to this instance: its share of every account's rate. With none it starts
    /// nothing, and keeps the share that it had.
    pub fn share(&self, assigned: usize, of: usize) {
        if let Some(share) = Share::new(assigned, of) {
            for account in self.by_name.values() {
                account.with_gate(|gate, now| gate.share(share, now));
                account.changed.notify_one();
            }
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.by_name.values()
    }
}

impl Account {
    fn open(
        config: &Config,
        name: &Arc<str>,
        provider: &ProviderConfig,
        metrics: ProviderMetrics,
    ) -> Result<Self, Vec<String>> {
        let path = config
            .providers
            .directory
            .join(format!("{}.toml", provider.profile));
        let one = |problem: String| vec![problem];
        let lines = |faults: Vec<profile::Fault>| -> Vec<String> {
            faults
                .iter()
                .map(|fault| format!("{}: {fault}", path.display()))
                .collect()
        };
        let text = std::fs::read_to_string(&path)
            .map_err(|error| one(format!("{} cannot be read: {error}", path.display())))?;
        let profile = Profile::parse(&text).map_err(lines)?;
        let settings = resolved(&profile).map_err(one)?;
        let binding = Binding {
            settings,
            base_url: provider.base_url.clone(),
        };
        let profile = Arc::new(profile.bind(binding).map_err(lines)?);
        let client = ProviderClient::new(&profile).map_err(|error| one(error.to_string()))?;
        let own = profile
            .limits
            .concurrency
            .and_then(|limit| usize::try_from(limit).ok());
        let concurrency = provider
            .concurrency
            .or(own)
            .unwrap_or(usize::MAX)
            .min(config.dispatch.concurrency);
        metrics.circuit(BreakerState::Closed);
        let interval = config.retry.probe_interval;
        let rejections = config.rejections.rules(interval);
        let weights = config.lanes.weights();
        Ok(Self {
            name: Arc::clone(name),
            profile_hash: profile.hash(),
            terms: terms(config, &profile),
            requests: Places::new(concurrency, &weights),
            client,
            recipients: Recipients::default(),
            rejections: rejections
                .map(|rules| Rejections::new(name, rules, &weights, metrics.clone())),
            metrics,
            gate: Mutex::new(AccountGate::new(
                rules(config),
                rate_limit(provider, &profile),
            )),
            opened: BootMoment::now(),
            head: Places::new(1, &weights),
            changed: Notify::new(),
            explained: Explained::default(),
            troubles: Mutex::default(),
            versions: Mutex::default(),
            profile,
        })
    }

    /// The terms of one version of the profile.
    pub fn terms_of(&self, profile: &Profile) -> Terms {
        with_profile(profile, &self.terms)
    }

    /// Waits for leave to start one attempt: until the account may be asked and has a place for a request. Nobody holds a
    /// place while he waits for the account.
    ///
    /// Lanes take turns, and within a lane who was read first goes first; while the circuit is not closed, `precedence` goes
    /// before that. What an outage has hit is so no longer behind what came since, once the outage is over.
    pub async fn admit(self: &Arc<Self>, order: ReadOrder, precedence: Precedence) -> Pass {
        if precedence.outages() > 0 {
            self.with_gate(|gate, _| gate.was_down());
        }
        if let Some(pass) = self.walk_in(order).await {
            return pass;
        }
        let _head = self.head.take_ranked(order, precedence.rank()).await;
        loop {
            let changed = self.changed.notified();
            let place = self.requests.take(order).await;
            match self.ask(place) {
                Ok(pass) => return pass,
                // Whoever has a ticket gives it back by its answer, or by being dropped.
                Err(refusal) => asking_again(refusal, self.moment(), changed).await,
            }
        }
    }

    /// Leave without standing at the gate; `None` if somebody stands there, or the account may not be asked now.
    async fn walk_in(self: &Arc<Self>, order: ReadOrder) -> Option<Pass> {
        if self.head.is_full() {
            return None;
        }
        let place = self.requests.take(order).await;
        // Whoever has come to the gate meanwhile may have been read before.
        if self.head.is_full() {
            return None;
        }
        self.ask(place).ok()
    }

    /// Asks the gate for one who has a place, and loses it if he is refused.
    fn ask(self: &Arc<Self>, place: Place) -> Result<Pass, Refusal> {
        let ticket = self.with_gate(|gate, now| gate.ask(now))?;
        Ok(Pass {
            account: Arc::clone(self),
            ticket: Some(ticket),
            place: Some(place),
            leave: None,
            _turn: None,
        })
    }

    /// Takes note of a verdict. Tells what was not accepted since the last telling, at most once a minute.
    pub fn trouble(
        &self,
        verdict: Verdict,
        detail: &'static str,
        now: Timestamp,
    ) -> Option<String> {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.note(verdict, detail, now)
    }

    /// The profile of this hash: the one in force, or an earlier one that the ledger keeps.
    pub fn version(
        &self,
        hash: ProfileHash,
        ledger: &dyn Ledger,
    ) -> Result<Arc<Profile>, VersionFault> {
        if hash == self.profile_hash {
            return Ok(Arc::clone(&self.profile));
        }
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(profile) = versions.get(&hash) {
            return Ok(Arc::clone(profile));
        }
        let text = ledger.profile(hash)?.ok_or(VersionFault::Gone(hash))?;
        let references = References::of_process();
        let resolve = |text: &str| {
            let value = References::is_reference(text).then(|| references.resolve(text).ok())??;
            Some(value.expose().to_owned())
        };
        let profile = self.profile.earlier_with(&text, resolve);
        let profile = profile.map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let problem = faults.join("; ");
            VersionFault::Unfit { hash, problem }
        })?;
        let profile = Arc::new(profile);
        versions.insert(hash, Arc::clone(&profile));
        Ok(profile)
    }

    /// The gate's own time, by a clock that does not step.
    fn moment(&self) -> Timestamp {
        Timestamp::EPOCH.plus(self.opened.elapsed())
    }

    fn with_gate<T>(&self, act: impl FnOnce(&mut AccountGate, Timestamp) -> T) -> T {
        let now = self.moment();
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let before = gate.state();
        let done = act(&mut gate, now);
        let state = gate.state();
        if state != before {
            self.head.heed_ranks(state != BreakerState::Closed);
            self.metrics.circuit(state);
        }
        done
    }

    fn tell(&self, change: Change) {
        match change {
            Change::Opened(cause) => {
                self.metrics.circuit_opened(cause);
                tracing::warn!(
                    provider = %self.name, %cause,
                    "the provider counts as down: intents wait, and one probe at a time finds out when it is back"
                );
            }
            Change::Recovering => tracing::info!(
                provider = %self.name,
                "a probe went well: more are let through"
            ),
            Change::FellBack(cause) => {
                self.metrics.circuit_opened(cause);
                tracing::warn!(provider = %self.name, %cause, "the provider is down again");
            }
            Change::Closed => tracing::info!(provider = %self.name, "the provider is back"),
        }
    }
}

impl Pass {
    /// Takes note of what its attempt came to for its template, and gives the place for a request back, before the answer is
    /// recorded. In this order: whoever gets the place may be of the same template.
    pub fn leave_place(&mut self, verdict: Verdict, clock: &Clock) {
        if let Some(leave) = self.leave.take() {
            leave.ended(Outcome::of(verdict), clock.jitter());
        }
        self.place = None;
    }

    /// With what the intent's template and recipient have given, to be kept until it is known what becomes of the intent.
    pub fn with(mut self, leave: Option<Leave>, turn: Option<RecipientTurn>) -> Self {
        (self.leave, self._turn) = (leave, turn);
        self
    }

    /// Takes note that no request could be made of the intent.
    pub fn not_rendered(mut self, clock: &Clock) {
        if let Some(leave) = self.leave.take() {
            leave.ended(Outcome::Rejected, clock.jitter());
        }
    }

    /// Takes note of what its attempt came to for the account as a whole. Returns whether the attempt is not to be held
    /// against its intent, because the provider as a whole is failing.
    pub fn answered(self, answer: &Answer, classified: &Classified, clock: &Clock) -> bool {
        let told = AccountAnswer {
            signal: Signal::of(answer, classified),
            wait: classified.wait,
        };
        self.note(told, clock)
    }

    /// Takes note of a look-up's answer. Returns whether it is not to be held against its intent: it has failed as the
    /// provider as a whole does, and that was found out by others or by its not being reached.
    pub fn looked_up(self, answer: &Answer, clock: &Clock) -> bool {
        let told = AccountAnswer {
            signal: Signal::of_lookup(answer),
            wait: None,
        };
        let failed = match answer {
            Answer::NotSent(_) | Answer::Lost(_) => true,
            Answer::Response(response) => response.status >= 500,
        };
        let account = Arc::clone(&self.account);
        self.note(told, clock);
        failed && account.with_gate(|gate, _| gate.state()) != BreakerState::Closed
    }

    fn note(mut self, told: AccountAnswer, clock: &Clock) -> bool {
        let Some(ticket) = self.ticket.take() else {
            return false;
        };
        let jitter = clock.jitter();
        let noted = self
            .account
            .with_gate(|gate, now| gate.answered(ticket, told, now, jitter));
        self.account.changed.notify_one();
        if let Some(change) = noted.change {
            self.account.tell(change);
        }
        noted.spares
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.account.with_gate(|gate, _| gate.unused(ticket));
            self.account.changed.notify_one();
        }
    }
}

/// The profile's settings that are references, read.
fn resolved(profile: &Profile) -> Result<BTreeMap<String, String>, String> {
    let references = References::of_process();
    let mut settings = BTreeMap::new();
    for (name, text) in profile.settings() {
        if References::is_reference(text) {
            let value = references
                .resolve(text)
                .map_err(|unresolved| format!("settings.{name}: {unresolved}"))?;
            settings.insert(name.clone(), value.expose().to_owned());
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests;
