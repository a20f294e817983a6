//! Decides which providers there are and what goes to which. It does not know what a profile says.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use super::section::Section;

/// `[routes]`, `[providers]` and every `[provider.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidersConfig {
    /// Where the profiles lie.
    pub directory: PathBuf,
    /// The provider of each channel. Each is among `accounts`.
    pub routes: BTreeMap<Arc<str>, Arc<str>>,
    /// Every provider that a route or a section names. May be empty: `Config::missing_to_run` tells.
    pub accounts: BTreeMap<Arc<str>, ProviderConfig>,
}

/// `[provider.NAME]`: one account with one vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderConfig {
    /// The profile's name; its file is `directory`/`profile`.toml.
    pub profile: Arc<str>,
    /// In place of the scheme, host and port of the profile's address; http or https, without user, query and fragment.
    pub base_url: Option<Url>,
    /// Requests in flight to it; `None` leaves it to the profile. Never above `dispatch.concurrency`.
    pub concurrency: Option<usize>,
    /// Requests a second, over all instances; `None` leaves it to the profile.
    pub rate_per_second: Option<NonZeroU32>,
    /// Requests at once after a quiet time; `None` leaves it to whoever says the rate.
    pub burst: Option<NonZeroU32>,
}

impl ProvidersConfig {
    pub(super) fn read(root: &mut Section<'_>) -> Option<Self> {
        let directory = root.section("providers", |section| {
            section.text_that("directory", "a directory's path", |text| !text.is_empty())
        });
        let routes = root.section("routes", read_routes);
        let accounts = root.section("provider", read_accounts);
        let (routes, mut accounts) = (routes?, accounts?);
        for provider in routes.values() {
            accounts
                .entry(Arc::clone(provider))
                .or_insert_with(|| ProviderConfig {
                    profile: Arc::clone(provider),
                    base_url: None,
                    concurrency: None,
                    rate_per_second: None,
                    burst: None,
                });
        }
        Some(Self {
            directory: directory?.into(),
            routes,
            accounts,
        })
    }
}

fn read_routes(section: &mut Section<'_>) -> Option<BTreeMap<Arc<str>, Arc<str>>> {
    let routes: Vec<_> = section
        .names()
        .into_iter()
        .map(|channel| {
            let provider = section.text_that(&channel, NAME, is_name);
            provider.map(|provider| (Arc::from(channel), Arc::from(provider)))
        })
        .collect();
    routes.into_iter().collect()
}

fn read_accounts(section: &mut Section<'_>) -> Option<BTreeMap<Arc<str>, ProviderConfig>> {
    let accounts: Vec<_> = section
        .names()
        .into_iter()
        .map(|name| {
            if !is_name(&name) {
                section.fault(&name, &format!("a provider's name must be {NAME}"));
            }
            let account = section.section(&name, |section| read_account(section, &name));
            account.map(|account| (Arc::from(name), account))
        })
        .collect();
    accounts.into_iter().collect()
}

fn read_account(section: &mut Section<'_>, name: &str) -> Option<ProviderConfig> {
    let given = section.names();
    let has = |key: &str| given.iter().any(|given| given == key);
    let profile = if has("profile") {
        section.text_that("profile", &format!("\"\", or {NAME}"), |text| {
            text.is_empty() || is_name(text)
        })
    } else {
        Some(String::new())
    };
    let base_url = if has("base_url") {
        read_base_url(section)
    } else {
        Some(None)
    };
    let concurrency = if has("concurrency") {
        section.number("concurrency", 0..=4_096)
    } else {
        Some(0)
    };
    let mut limit = |key: &str| {
        if has(key) {
            section.number(key, 0..=1_000_000)
        } else {
            Some(0)
        }
    };
    let rate_per_second: Option<u32> = limit("rate_per_second");
    let burst: Option<u32> = limit("burst");
    Some(ProviderConfig {
        profile: profile.map(|profile| {
            if profile.is_empty() {
                name.into()
            } else {
                profile.into()
            }
        })?,
        base_url: base_url?,
        concurrency: concurrency.map(|most| (most != 0).then_some(most))?,
        rate_per_second: rate_per_second.map(NonZeroU32::new)?,
        burst: burst.map(NonZeroU32::new)?,
    })
}

fn read_base_url(section: &mut Section<'_>) -> Option<Option<Url>> {
    let text = section.text("base_url")?;
    if text.is_empty() {
        return Some(None);
    }
    match plain_url(&text) {
        Some(url) => Some(Some(url)),
        None => section.refuse("base_url", PLAIN_URL),
    }
}

/// What `plain_url` takes, for messages. What was given is not shown: a credential may stand in it.
pub(super) const PLAIN_URL: &str =
    "must be an http or https address without user, password, query and fragment";

/// Reads an address that can carry no credential.
pub(super) fn plain_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    plain.then_some(url)
}

/// What `is_name` takes, for messages.
pub(super) const NAME: &str = "1 to 64 characters of a-z 0-9 _ -, the first a letter or a figure";

/// Whether `text` can be the name of a provider or a lane.
pub(super) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
}
