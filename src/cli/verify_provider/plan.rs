//! Decides what a verification will send, before it sends anything: how many requests and messages each check takes, and what
//! they may cost. Nothing here sends.

use std::io::{self, Write};

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;

use crate::domain::profile::{KeyRule, Place};
use crate::domain::render::RenderedRequest;

use super::key_limits::Limit;
use super::subject::Subject;
use super::{asking, at_once, cut};

/// What one check takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The check.
    pub check: &'static str,
    /// Requests that send, repeats while the provider is busy not counted.
    pub sends: u32,
    /// Messages that follow from them if the provider keeps its word.
    pub messages: u32,
}

/// What a verification takes.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The profile, by vendor and operation.
    pub profile: String,
    /// The request, as far as it tells nothing of the recipient.
    pub request: String,
    /// The checks that send.
    pub steps: Vec<Step>,
    /// The most requests that send.
    pub sends: u32,
    /// Messages if the provider keeps its word, at most.
    pub messages: u32,
    /// Messages if it keeps none: one a request.
    pub messages_max: u32,
    /// What those may cost, in the unit of the price.
    pub cost_max: Option<String>,
}

/// The price of one message, in millionths of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price(u64);

impl std::str::FromStr for Price {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "expected a number with at most six decimals, like 0.0079";
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || decimals.len() > 6 || !digits(whole) || !digits(decimals) {
            return Err(WRONG);
        }
        let micros: u64 = format!("{whole}{decimals:0<6}")
            .parse()
            .map_err(|_| WRONG)?;
        Ok(Self(micros))
    }
}

impl Price {
    /// What so many messages cost.
    pub fn times(self, messages: u32) -> String {
        let micros = u128::from(self.0) * u128::from(messages);
        let decimals = format!("{:06}", micros % 1_000_000);
        let decimals = decimals.trim_end_matches('0');
        match decimals {
            "" => format!("{}", micros / 1_000_000),
            decimals => format!("{}.{decimals}", micros / 1_000_000),
        }
    }
}

impl Plan {
    /// What verifying `subject` takes, with so many samples of latency.
    pub fn of(
        subject: &Subject,
        request: &RenderedRequest,
        samples: u32,
        price: Option<Price>,
    ) -> Self {
        let profile = &subject.account.profile;
        let steps = steps(profile.key.as_ref(), subject, samples);
        let sum = |count: fn(&Step) -> u32| steps.iter().map(count).sum();
        let sends = sum(|step| step.sends);
        let place = match profile.key.as_ref().map(|key| key.places.as_slice()) {
            None => "without a key".to_owned(),
            Some(places) => format!("with its key in {}", described(places)),
        };
        Self {
            profile: format!("{} {}", profile.vendor, profile.operation),
            request: format!(
                "{} to {}, {} bytes, {place}",
                request.method,
                request.url.origin().ascii_serialization(),
                request.body.len()
            ),
            sends,
            messages: sum(|step| step.messages),
            messages_max: sends,
            cost_max: price.map(|price| price.times(sends)),
            steps,
        }
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// When `out` takes no more.
    pub fn write(&self, json: bool, out: &mut impl Write) -> io::Result<()> {
        if json {
            serde_json::to_writer_pretty(&mut *out, self)?;
            return writeln!(out);
        }
        writeln!(out, "{}: {}\n", self.profile, self.request)?;
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_header(["Check", "Sends", "Messages"]);
        for step in &self.steps {
            table.add_row([
                step.check.to_owned(),
                step.sends.to_string(),
                step.messages.to_string(),
            ]);
        }
        writeln!(out, "{}\n", table.trim_fmt())?;
        writeln!(
            out,
            "{} sends at most: {} messages if the provider keeps its word, {} if it does not. Repeats while it is busy or failing \
             (at most {} of each) and look-ups come on top.",
            self.sends,
            self.messages,
            self.messages_max,
            asking::TRIES - 1
        )?;
        match &self.cost_max {
            Some(cost) => writeln!(out, "They may cost {cost}.")?,
            None => writeln!(
                out,
                "They may cost as many times what one message costs there; --price tells the sum."
            )?,
        }
        writeln!(
            out,
            "This is a rehearsal: nothing was sent. --execute sends."
        )
    }
}

fn steps(key: Option<&KeyRule>, subject: &Subject, samples: u32) -> Vec<Step> {
    let step = |check, sends, messages| Step {
        check,
        sends,
        messages,
    };
    let mut steps = vec![step("first_send", 1, 1)];
    if let Some(rule) = key {
        steps.push(step("replay", 1, 0));
        if subject.other.is_some() {
            steps.push(step("other_body", 1, 0));
        }
        steps.push(step("at_once", at_once::COUNT + 1, 1));
        let tries = u32::try_from(cut::PAUSES.len()).unwrap_or(u32::MAX);
        steps.push(step("cut_connection", tries * 2, tries));
        steps.push(step("missing_key", 1, 1));
        for limit in Limit::ALL {
            // The characters do not matter here, only how many keys there are.
            if let Ok(keys) = limit.probes(rule, "0") {
                let keys = u32::try_from(keys.len()).unwrap_or(u32::MAX);
                steps.push(step(limit.name(), keys, keys));
            }
        }
        if subject.failing.is_some() {
            steps.push(step("stores", 2, 0));
        }
        steps.push(step("forgetting", 1, 0));
    }
    if samples > 0 {
        steps.push(step("latency", samples, samples));
    }
    steps
}

fn described(places: &[Place]) -> String {
    let places: Vec<_> = places
        .iter()
        .map(|place| match place {
            Place::Header(name) => format!("the header {name}"),
            Place::Body(_) => "the body".to_owned(),
            Place::Query(name) => format!("the query parameter {name}"),
        })
        .collect();
    places.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_multiplied_without_rounding() {
        let price = |text: &str| text.parse::<Price>();
        assert_eq!(price("0.0079").unwrap().times(31), "0.2449");
        assert_eq!(price("2").unwrap().times(3), "6");
        assert_eq!(price("0.000001").unwrap().times(1), "0.000001");
        assert_eq!(price("0.5").unwrap().times(2), "1");
        for wrong in ["", ".5", "-1", "1,5", "0.0000001", "1e3"] {
            assert!(price(wrong).is_err(), "{wrong}");
        }
    }
}
