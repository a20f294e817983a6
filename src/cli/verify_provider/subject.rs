//! Decides what is verified: one provider's account, and the requests that are made of what its operator wants sent. Keys are
//! new at every run, and the intent's id, reference and key of its own are replaced by them, so that a run meets no earlier one.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use toml::Table;
use url::Url;

use crate::config::providers::ProviderConfig;
use crate::config::{Config, Fault, Faults};
use crate::domain::idempotency_key::IdempotencyKey;
use crate::domain::intent::decode::{Decoded, IntakeRules, RecordView, decode};
use crate::domain::intent::{EventId, Intent};
use crate::domain::profile::Profile;
use crate::domain::render::{RenderFault, RenderedLookup, RenderedRequest, render, render_lookup};
use crate::domain::time::Timestamp;
use crate::pipeline::accounts::{Account, Accounts};
use crate::telemetry::metrics::Metrics;

use super::super::exit::UsageError;

/// What is verified.
pub struct Subject {
    /// The account.
    pub account: Arc<Account>,
    /// Its requests a second, as configured or else as its profile says; `None` is any number.
    pub rate: Option<NonZeroU32>,
    /// What is sent.
    pub intent: Intent,
    /// Something else for the same recipient; absent if nothing changes the body.
    pub other: Option<Intent>,
    /// What its author says the provider refuses or fails at.
    pub failing: Option<Intent>,
}

/// What is to be sent, as it was typed.
pub struct Typed<'a> {
    /// An intent's fields. Their recipient is not looked at.
    pub fields: Map<String, Value>,
    /// Whom it is for.
    pub to: &'a str,
    /// The channel, if it is named.
    pub channel: Option<&'a str>,
    /// Content that makes another body, if it is named.
    pub other_content: Option<Map<String, Value>>,
    /// The fields of the intent that fails. Its recipient is `to` if it has none.
    pub failing: Option<Map<String, Value>>,
}

impl Subject {
    /// Reads the profile and what is to be sent.
    ///
    /// # Errors
    ///
    /// A provider that is not there, a profile that cannot be used, and an intent that is none or does not fill the profile's
    /// request.
    pub fn open(
        config: &Config,
        profile: &str,
        base_url: Option<Url>,
        typed: Typed<'_>,
    ) -> anyhow::Result<Self> {
        let (account, rate) = open_account(config, profile, base_url)?;
        let rules = config.intents.rules();
        let route = config.providers.routes.iter();
        let channel = typed.channel.map(str::to_owned).or_else(|| {
            let mut routed = route.filter(|(_, provider)| **provider == account.name);
            routed.next().map(|(channel, _)| channel.to_string())
        });
        let channel = channel.as_deref();
        let intent = read_intent(typed.fields, Some(typed.to), channel, &rules, "the intent")?;
        let failing = typed.failing.map(|fields| {
            let to = (!fields.contains_key("to")).then_some(typed.to);
            read_intent(fields, to, channel, &rules, "the failing intent")
        });
        let other = match typed.other_content {
            Some(content) => Some(Intent {
                content,
                ..intent.clone()
            }),
            None => with_another_body(&account.profile, &intent),
        };
        let subject = Self {
            account,
            rate,
            intent,
            other,
            failing: failing.transpose()?,
        };
        // Every request is made of these: what cannot be rendered is known before anything is sent.
        let key = IdempotencyKey::derived(uuid::Uuid::nil());
        let others = subject.other.iter().chain(&subject.failing);
        for intent in others.chain([&subject.intent]) {
            subject
                .request(intent, &key, Timestamp::EPOCH)
                .map_err(unfit)?;
        }
        Ok(subject)
    }

    /// The request for `intent` under `key`, which is first used at `first_attempt`.
    ///
    /// # Errors
    ///
    /// As [`render`].
    pub fn request(
        &self,
        intent: &Intent,
        key: &IdempotencyKey,
        first_attempt: Timestamp,
    ) -> Result<RenderedRequest, RenderFault> {
        let request = render(&self.account.profile, &under(intent, key), key)?;
        Ok(request.dated(first_attempt).into_owned())
    }

    /// The same request by a variant of the profile.
    ///
    /// # Errors
    ///
    /// As [`render`].
    pub fn request_by(
        &self,
        variant: &Profile,
        key: &IdempotencyKey,
        first_attempt: Timestamp,
    ) -> Result<RenderedRequest, RenderFault> {
        let request = render(variant, &under(&self.intent, key), key)?;
        Ok(request.dated(first_attempt).into_owned())
    }

    /// The look-up of the intent under `key`.
    ///
    /// # Errors
    ///
    /// As [`render_lookup`].
    pub fn look_up(&self, key: &IdempotencyKey) -> Result<RenderedLookup<'_>, RenderFault> {
        render_lookup(&self.account.profile, &under(&self.intent, key), key)
    }

    /// The profile without its key, which sends requests that have lost it. `None` if it cannot do without.
    pub fn without_key(&self) -> Option<Profile> {
        self.variant(|table| {
            // Rules may ask for a replay, which means nothing without a key. They are for reading answers only.
            table.remove("key");
            table.remove("rule");
        })
    }

    /// The profile with a key that is sent as it is, whatever its length and characters.
    pub fn with_any_key(&self) -> Option<Profile> {
        self.variant(|table| {
            if let Some(key) = table.get_mut("key").and_then(toml::Value::as_table_mut) {
                key.insert("form".to_owned(), "as_is".into());
                key.insert("max_len".to_owned(), 65_535.into());
                key.remove("punctuation");
            }
        })
    }

    fn variant(&self, change: impl FnOnce(&mut Table)) -> Option<Profile> {
        let profile = &self.account.profile;
        let mut table: Table = profile.canonical().parse().ok()?;
        change(&mut table);
        profile.earlier(&toml::to_string(&table).ok()?).ok()
    }
}

/// What is said of an intent that the profile cannot render. Names the place, never content.
pub fn unfit(fault: RenderFault) -> UsageError {
    UsageError(format!(
        "the intent does not fill the profile's request: {fault}"
    ))
}

/// The intent as it is sent under `key`: its id is the key.
fn under(intent: &Intent, key: &IdempotencyKey) -> Intent {
    Intent {
        event_id: EventId(key.as_str().into()),
        ..intent.clone()
    }
}

/// A provider of the configuration, a profile of its folder, or a file.
fn open_account(
    config: &Config,
    profile: &str,
    base_url: Option<Url>,
) -> anyhow::Result<(Arc<Account>, Option<NonZeroU32>)> {
    let mut config = config.clone();
    let path = Path::new(profile);
    let is_path = path
        .extension()
        .is_some_and(|extension| extension == "toml");
    let (name, mut provider) = match config.providers.accounts.get(profile) {
        Some(provider) if !is_path => (profile.to_owned(), provider.clone()),
        Some(_) | None => {
            let mut stem = profile.to_owned();
            if is_path {
                let named = path.file_stem().and_then(std::ffi::OsStr::to_str);
                stem = named.unwrap_or_default().to_owned();
                config.providers.directory = path.parent().unwrap_or(Path::new("")).to_owned();
            }
            let provider = ProviderConfig {
                profile: stem.as_str().into(),
                base_url: None,
                concurrency: None,
                rate_per_second: None,
                burst: None,
            };
            (stem, provider)
        }
    };
    if base_url.is_some() {
        provider.base_url = base_url;
    }
    let file = config
        .providers
        .directory
        .join(format!("{}.toml", provider.profile));
    if !file.exists() {
        let problem = format!(
            "there is no provider {profile} in the configuration, and no file {}",
            file.display()
        );
        return Err(UsageError(problem).into());
    }
    let configured = provider.rate_per_second;
    config.providers.routes.clear();
    config.providers.accounts = BTreeMap::from([(Arc::from(name.as_str()), provider)]);
    let metrics = Metrics::new([name.as_str()], [])?;
    let accounts = Accounts::open(&config, &metrics).map_err(|faults| {
        let faults: Vec<_> = faults
            .into_iter()
            .map(|fault| Fault {
                key: format!("provider {}", fault.provider),
                origin: None,
                message: fault.problem,
            })
            .collect();
        Faults::from(faults)
    })?;
    let account = accounts
        .of(&name)
        .ok_or_else(|| anyhow::anyhow!("the account {name} was opened and is not there"))?;
    let documented = account.profile.limits.rate_per_second;
    let rate = configured.or(documented.and_then(NonZeroU32::new));
    Ok((account, rate))
}

/// Reads an intent as `run` would. What makes two runs alike is left out.
fn read_intent(
    mut fields: Map<String, Value>,
    to: Option<&str>,
    channel: Option<&str>,
    rules: &IntakeRules,
    whose: &str,
) -> Result<Intent, UsageError> {
    for own in ["id", "reference", "idempotency_key", "expires_at"] {
        fields.remove(own);
    }
    fields.insert("id".to_owned(), "verify-provider".into());
    if let Some(to) = to {
        fields.insert("to".to_owned(), to.into());
    }
    if let Some(channel) = channel {
        fields.insert("channel".to_owned(), channel.into());
    }
    if !fields.contains_key("channel") && !fields.contains_key("provider") {
        fields.insert("provider".to_owned(), "verify-provider".into());
    }
    let value = Value::Object(fields).to_string();
    let record = RecordView {
        value: Some(value.as_bytes()),
        headers: &[],
        headers_unreadable: 0,
    };
    match decode(&record, rules) {
        Decoded::Intent(intent) => Ok(*intent),
        Decoded::Ignored(reason) => Err(UsageError(format!(
            "{whose} asks for nothing ({})",
            reason.name()
        ))),
        Decoded::Refused(refusal) => {
            let fault = refusal.fault;
            let problem = format!("{whose} is none: {} ({})", fault.detail.name(), fault.place);
            Err(UsageError(problem))
        }
    }
}

/// The intent with the first text of its content lengthened that changes the request; `None` if none does.
fn with_another_body(profile: &Profile, intent: &Intent) -> Option<Intent> {
    let key = IdempotencyKey::derived(uuid::Uuid::nil());
    let fingerprint = |intent: &Intent| {
        let request = render(profile, intent, &key).ok()?;
        Some(request.fingerprint)
    };
    let whole = Value::Object(intent.content.clone());
    let before = fingerprint(intent);
    let mut pointers = Vec::new();
    texts(&whole, &mut String::new(), &mut pointers);
    pointers.into_iter().find_map(|pointer| {
        let mut content = whole.clone();
        let text = content.pointer_mut(&pointer)?;
        *text = format!("{} (2)", text.as_str()?).into();
        let Value::Object(content) = content else {
            return None;
        };
        let other = Intent {
            content,
            ..intent.clone()
        };
        let after = fingerprint(&other);
        (after.is_some() && after != before).then_some(other)
    })
}

/// The places of all texts in `value`, in document order.
fn texts(value: &Value, at: &mut String, found: &mut Vec<String>) {
    let len = at.len();
    match value {
        Value::String(_) => found.push(at.clone()),
        Value::Object(members) => {
            for (name, member) in members {
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                texts(member, at, found);
                at.truncate(len);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                at.push_str(&format!("/{index}"));
                texts(item, at, found);
                at.truncate(len);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Sources;

    const PROFILE: &str = "config/providers/generic.toml";

    fn open(content: Value, failing: Option<Value>) -> anyhow::Result<Subject> {
        let object = |value: Value| value.as_object().unwrap().clone();
        let config = Config::from_sources(&Sources::default()).unwrap();
        let typed = Typed {
            fields: object(
                json!({"id": 7, "to": "+12025550199", "reference": "r", "content": content}),
            ),
            to: "+1 202 555 0143",
            channel: Some("sms"),
            other_content: None,
            failing: failing.map(object),
        };
        Subject::open(&config, PROFILE, None, typed)
    }

    fn body(request: &RenderedRequest) -> Value {
        serde_json::from_slice(&request.body).unwrap()
    }

    #[test]
    fn what_is_sent_is_the_typed_content_to_the_typed_recipient_under_a_key_of_the_run() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let subject = open(json!({"text": "hello"}), None).unwrap();
        let key = IdempotencyKey::from_upstream("k-1").unwrap();
        let request = subject
            .request(&subject.intent, &key, Timestamp::EPOCH)
            .unwrap();
        assert_eq!(
            body(&request),
            json!({"to": "+12025550143", "reference": "k-1", "content": {"text": "hello"}})
        );
        assert_eq!(request.headers["idempotency-key"], "k-1");
    }

    #[test]
    fn another_body_is_made_of_the_first_text_that_changes_it() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let subject = open(json!({"n": 1, "list": ["a"], "text": "hello"}), None).unwrap();
        let other = subject.other.unwrap();
        assert_eq!(
            Value::Object(other.content),
            json!({"n": 1, "list": ["a (2)"], "text": "hello"})
        );
        assert!(open(json!({"n": 1}), None).unwrap().other.is_none());
    }

    #[test]
    fn the_failing_intent_may_have_a_recipient_of_its_own() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let failing = |fields| {
            let subject = open(json!({}), Some(fields)).unwrap();
            subject.failing.unwrap().recipient.expose().to_owned()
        };
        assert_eq!(failing(json!({"to": "+12025550100"})), "+12025550100");
        assert_eq!(failing(json!({"content": {}})), "+12025550143");
    }

    #[test]
    fn a_request_can_lose_its_key_and_a_key_can_be_sent_as_it_is() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let subject = open(json!({"text": "hello"}), None).unwrap();
        let long = "x".repeat(255);
        let key = IdempotencyKey::from_upstream(&long).unwrap();
        let lost = subject.without_key().unwrap();
        let request = subject.request_by(&lost, &key, Timestamp::EPOCH).unwrap();
        assert!(request.headers.get("idempotency-key").is_none());
        let any = subject.with_any_key().unwrap();
        let request = subject.request_by(&any, &key, Timestamp::EPOCH).unwrap();
        assert_eq!(request.headers["idempotency-key"], long);
    }

    #[test]
    fn what_cannot_be_sent_is_told_before_anything_is() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Config::from_sources(&Sources::default()).unwrap();
        let typed = |to| Typed {
            fields: Map::new(),
            to,
            channel: Some("sms"),
            other_content: None,
            failing: None,
        };
        let told = |profile: &str, to| {
            let opened = Subject::open(&config, profile, None, typed(to));
            opened.err().unwrap().to_string()
        };
        assert_eq!(
            told(PROFILE, "call me"),
            "the intent is none: bad_recipient (/to: it holds a character that is not allowed)"
        );
        assert_eq!(
            told("nobody", "+12025550143"),
            "there is no provider nobody in the configuration, and no file config/providers/nobody.toml"
        );
    }
}
