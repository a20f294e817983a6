//! Decides which request meets which fault. It does not know how a fault is carried out, and throws no dice of its own:
//! the draw follows from the seed, the key and the number of the request, so that a run can be repeated.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// One way in which a provider fails its client. The set is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Closes with a reset once the head has come, the body unread: nothing is accepted.
    ResetBeforeReading,
    /// Accepts, then says nothing until the client goes or the hang is over.
    AcceptThenHang,
    /// Accepts, then resets the connection.
    AcceptThenReset,
    /// Answers 500 and has not accepted.
    ErrorBeforeAccepting,
    /// Answers 500 although it has accepted; a repeat gets the acceptance.
    ErrorAfterAccepting,
    /// Answers 500 although it has accepted, and keeps that 500 as the key's answer.
    StoredError,
    /// Answers 429 with Retry-After in seconds, and has not accepted.
    ThrottledSeconds,
    /// Answers 429 with Retry-After as an HTTP date, and has not accepted.
    ThrottledDate,
    /// Accepts, and answers late; the key is in progress meanwhile.
    Slow,
    /// Accepts, and closes in the middle of its answer.
    TruncatedBody,
    /// Accepts, and a gateway in front answers 502 with a page of HTML.
    HtmlGatewayError,
}

impl Fault {
    /// Every fault, in the order of the enum.
    pub const ALL: [Self; 11] = [
        Self::ResetBeforeReading,
        Self::AcceptThenHang,
        Self::AcceptThenReset,
        Self::ErrorBeforeAccepting,
        Self::ErrorAfterAccepting,
        Self::StoredError,
        Self::ThrottledSeconds,
        Self::ThrottledDate,
        Self::Slow,
        Self::TruncatedBody,
        Self::HtmlGatewayError,
    ];

    /// The name in settings, statistics and the truth log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ResetBeforeReading => "reset_before_reading",
            Self::AcceptThenHang => "accept_then_hang",
            Self::AcceptThenReset => "accept_then_reset",
            Self::ErrorBeforeAccepting => "error_before_accepting",
            Self::ErrorAfterAccepting => "error_after_accepting",
            Self::StoredError => "stored_error",
            Self::ThrottledSeconds => "throttled_seconds",
            Self::ThrottledDate => "throttled_date",
            Self::Slow => "slow",
            Self::TruncatedBody => "truncated_body",
            Self::HtmlGatewayError => "html_gateway_error",
        }
    }

    /// The fault of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which requests of a key may meet a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Only its first request.
    First,
    /// Every request.
    #[default]
    Any,
}

/// How often each fault strikes, and its measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TypedMix")]
pub struct FaultMix {
    rates: BTreeMap<Fault, f64>,
    scope: Scope,
    per_key_max: Option<u32>,
    hang_ms: u64,
    slow_ms: u64,
    retry_after_seconds: u64,
}

impl FaultMix {
    /// The same mix with these shares of requests changed.
    ///
    /// # Errors
    ///
    /// When a rate is not within 0 and 1, or all together are above 1.
    pub fn with_rates(mut self, rates: BTreeMap<Fault, f64>) -> Result<Self, BadMix> {
        self.rates.extend(rates);
        self.checked()
    }

    /// About one request in ten fails: a provider on a bad day.
    pub fn bad_day() -> Self {
        Self {
            rates: Fault::ALL.into_iter().zip(BAD_DAY).collect(),
            per_key_max: Some(4),
            slow_ms: 1_500,
            retry_after_seconds: 1,
            ..Self::default()
        }
    }

    /// About every second request fails, most of them after the message was accepted.
    ///
    /// One key meets at most four faults, so that a client that repeats eight times reaches its answer for certain, and a
    /// kill or two of the client are within the budget too. [`Fault::StoredError`] has no share: it ends as an outcome
    /// that nobody can know, whatever the client does.
    pub fn harsh() -> Self {
        Self {
            rates: Fault::ALL.into_iter().zip(HARSH).collect(),
            per_key_max: Some(4),
            slow_ms: 1_500,
            retry_after_seconds: 1,
            ..Self::default()
        }
    }

    /// The same mix for a changed scope.
    pub fn within(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same mix with at most so many faults for one key; `None` for no limit.
    pub fn at_most_per_key(self, per_key_max: Option<u32>) -> Self {
        Self {
            per_key_max,
            ..self
        }
    }

    /// The same mix with another hang.
    pub fn hanging_ms(self, hang_ms: u64) -> Self {
        Self { hang_ms, ..self }
    }

    /// The same mix with another time to a late answer.
    pub fn slow_by_ms(self, slow_ms: u64) -> Self {
        Self { slow_ms, ..self }
    }

    /// The same mix with another wait in its 429 answers.
    pub fn retry_after_seconds(self, retry_after_seconds: u64) -> Self {
        Self {
            retry_after_seconds,
            ..self
        }
    }

    /// How long an accepted request stays without an answer before the connection is closed.
    pub fn hang(&self) -> Duration {
        Duration::from_millis(self.hang_ms)
    }

    /// How late a slow answer is.
    pub fn slow(&self) -> Duration {
        Duration::from_millis(self.slow_ms)
    }

    /// The wait that a 429 names.
    pub fn retry_after(&self) -> Duration {
        Duration::from_secs(self.retry_after_seconds)
    }

    /// The fault of a request, if it meets one. `number` counts the key's requests, or all requests where there is no key,
    /// from 1; `met` is how many faults the key has met.
    pub fn draw(&self, seed: u64, key: Option<&str>, number: u64, met: u32) -> Option<Fault> {
        let spared = (self.scope == Scope::First && key.is_some() && number > 1)
            || self.per_key_max.is_some_and(|max| met >= max);
        if spared || self.rates.is_empty() {
            return None;
        }
        self.at(fraction(seed, key, number))
    }

    fn checked(self) -> Result<Self, BadMix> {
        if let Some((fault, rate)) = self
            .rates
            .iter()
            .find(|(_, rate)| !(0.0..=1.0).contains(*rate))
        {
            return Err(BadMix::Rate {
                fault: *fault,
                rate: *rate,
            });
        }
        let sum: f64 = self.rates.values().sum();
        // Eleven decimal fractions that make 1 may exceed it by their rounding.
        if sum > 1.0 + 1e-9 {
            return Err(BadMix::Sum { sum });
        }
        Ok(self)
    }

    /// The fault at a point of the unit interval, which the rates divide in the order of the enum.
    fn at(&self, point: f64) -> Option<Fault> {
        let mut upper = 0.0;
        self.rates.iter().find_map(|(fault, rate)| {
            upper += rate;
            (point < upper).then_some(*fault)
        })
    }
}

impl Default for FaultMix {
    /// No faults.
    fn default() -> Self {
        Self {
            rates: BTreeMap::new(),
            scope: Scope::Any,
            per_key_max: None,
            hang_ms: 60_000,
            slow_ms: 2_000,
            retry_after_seconds: 1,
        }
    }
}

/// Why a mix makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadMix {
    /// A rate is not within 0 and 1.
    #[error("the rate of {fault} is {rate}, which is not within 0 and 1")]
    Rate {
        /// The fault whose rate it is.
        fault: Fault,
        /// The rate as it was given.
        rate: f64,
    },
    /// The rates exceed 1 together.
    #[error("the rates add up to {sum}, which is more than 1")]
    Sum {
        /// Their sum.
        sum: f64,
    },
}

/// Shares of a bad day, in the order of [`Fault::ALL`].
const BAD_DAY: [f64; 11] = [
    0.01, 0.01, 0.01, 0.01, 0.01, 0.0, 0.01, 0.01, 0.01, 0.01, 0.01,
];
/// Shares of a harsh day, in the order of [`Fault::ALL`]: 47 % in all.
const HARSH: [f64; 11] = [
    0.06, 0.06, 0.08, 0.05, 0.05, 0.0, 0.03, 0.02, 0.04, 0.04, 0.04,
];

/// A mix as it was typed.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TypedMix {
    rates: BTreeMap<Fault, f64>,
    scope: Scope,
    per_key_max: Option<u32>,
    hang_ms: u64,
    slow_ms: u64,
    retry_after_seconds: u64,
}

impl Default for TypedMix {
    fn default() -> Self {
        let FaultMix {
            rates,
            scope,
            per_key_max,
            hang_ms,
            slow_ms,
            retry_after_seconds,
        } = FaultMix::default();
        Self {
            rates,
            scope,
            per_key_max,
            hang_ms,
            slow_ms,
            retry_after_seconds,
        }
    }
}

impl TryFrom<TypedMix> for FaultMix {
    type Error = BadMix;

    fn try_from(typed: TypedMix) -> Result<Self, BadMix> {
        let TypedMix {
            rates,
            scope,
            per_key_max,
            hang_ms,
            slow_ms,
            retry_after_seconds,
        } = typed;
        Self {
            rates,
            scope,
            per_key_max,
            hang_ms,
            slow_ms,
            retry_after_seconds,
        }
        .checked()
    }
}

/// A point within 0 and 1 (excluded) that follows from its arguments alone.
fn fraction(seed: u64, key: Option<&str>, number: u64) -> f64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_be_bytes());
    hash.update(number.to_be_bytes());
    hash.update(key.unwrap_or_default());
    let digest: [u8; 32] = hash.finalize().into();
    let word = digest
        .iter()
        .take(8)
        .fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
    // 53 bits are what a double holds exactly.
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(fault: Fault, rate: f64) -> FaultMix {
        FaultMix::default()
            .with_rates(BTreeMap::from([(fault, rate)]))
            .unwrap()
    }

    #[test]
    fn the_same_seed_key_and_number_meet_the_same_fault() {
        let mix = FaultMix::harsh();
        let course = |seed: u64| {
            (1..=200)
                .map(|number| mix.draw(seed, Some("k"), number, 0))
                .collect::<Vec<_>>()
        };
        assert_eq!(course(7), course(7));
        assert_ne!(course(7), course(8));
    }

    #[test]
    fn the_shares_of_many_keys_are_the_rates() {
        let mix = FaultMix::harsh();
        let mut met: BTreeMap<Fault, u32> = BTreeMap::new();
        for key in 0..100_000 {
            if let Some(fault) = mix.draw(1, Some(&format!("key-{key}")), 1, 0) {
                *met.entry(fault).or_default() += 1;
            }
        }
        for (fault, rate) in &mix.rates {
            let share = f64::from(met.get(fault).copied().unwrap_or_default()) / 100_000.0;
            assert!(
                (share - rate).abs() < 0.005,
                "{fault}: {share} instead of {rate}"
            );
        }
    }

    #[test]
    fn the_unit_interval_is_divided_in_the_order_of_the_enum() {
        let mix = FaultMix::default()
            .with_rates(BTreeMap::from([
                (Fault::Slow, 0.5),
                (Fault::AcceptThenHang, 0.25),
            ]))
            .unwrap();
        assert_eq!(mix.at(0.0), Some(Fault::AcceptThenHang));
        assert_eq!(mix.at(0.25), Some(Fault::Slow));
        assert_eq!(mix.at(0.75), None);
    }

    #[test]
    fn a_scope_of_first_spares_every_later_request_of_a_key() {
        let mix = only(Fault::Slow, 1.0).within(Scope::First);
        assert_eq!(mix.draw(0, Some("k"), 1, 0), Some(Fault::Slow));
        assert_eq!(mix.draw(0, Some("k"), 2, 0), None);
    }

    #[test]
    fn a_key_that_has_met_its_limit_is_spared() {
        let mix = only(Fault::Slow, 1.0).at_most_per_key(Some(2));
        assert_eq!(mix.draw(0, Some("k"), 9, 1), Some(Fault::Slow));
        assert_eq!(mix.draw(0, Some("k"), 9, 2), None);
    }

    #[test]
    fn the_presets_hold_to_their_word() {
        let sum = |rates: [f64; 11]| rates.iter().sum::<f64>();
        assert!((sum(BAD_DAY) - 0.10).abs() < 1e-9);
        assert!((sum(HARSH) - 0.47).abs() < 1e-9);
        assert_eq!(FaultMix::harsh().rates.get(&Fault::StoredError), Some(&0.0));
    }

    #[test]
    fn a_mix_is_read_as_it_is_written() {
        let written = serde_json::to_string(&FaultMix::harsh()).unwrap();
        assert_eq!(
            serde_json::from_str::<FaultMix>(&written).unwrap(),
            FaultMix::harsh()
        );
    }

    #[test]
    fn rates_outside_their_range_are_refused_by_name() {
        let refusal = |text: &str| {
            serde_json::from_str::<FaultMix>(text)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refusal(r#"{"rates":{"slow":1.5}}"#),
            "the rate of slow is 1.5, which is not within 0 and 1"
        );
        assert_eq!(
            refusal(r#"{"rates":{"slow":0.6,"stored_error":0.6}}"#),
            "the rates add up to 1.2, which is more than 1"
        );
        assert!(refusal(r#"{"rates":{"nosuch":0.6}}"#).contains("unknown variant `nosuch`"));
    }

    #[test]
    fn every_fault_is_found_by_its_name() {
        for fault in Fault::ALL {
            assert_eq!(Fault::named(fault.name()), Some(fault));
            assert_eq!(
                serde_json::to_string(&fault).unwrap(),
                format!("\"{fault}\"")
            );
        }
    }
}
