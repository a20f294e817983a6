//! Decides the limits of what is read. It does not know how an intent is decoded: that is `domain::intent::decode`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::intent::decode::IntakeRules;
use crate::domain::intent::recipient::{RecipientKind, Region};

use super::section::Section;

/// `[intents]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentsConfig {
    /// Bytes of a record's value, at most.
    pub size_max: usize,
    /// Headers of a record, at most.
    pub headers_max: usize,
    /// Bytes of all its headers' names and values, at most.
    pub headers_size_max: usize,
    /// Levels of nesting in its JSON, at most.
    pub depth_max: usize,
    /// How recipients are, by channel or by a provider that an intent names. A name that is not in here is opaque.
    pub recipients: BTreeMap<Arc<str>, RecipientKind>,
    /// An unknown intent older than this is not sent. Always below `ledger.retention`.
    pub max_age: Duration,
    /// Intents open at once, at most.
    pub open_max: usize,
}

impl IntentsConfig {
    /// The rules by which records are read.
    pub fn rules(&self) -> IntakeRules {
        IntakeRules {
            size_max: self.size_max,
            headers_max: self.headers_max,
            headers_size_max: self.headers_size_max,
            depth_max: self.depth_max,
            recipients: self.recipients.clone(),
        }
    }

    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let size_max = section.number("size_max", 1_000..=10_000_000);
        let headers_max = section.number("headers_max", 1..=1_000);
        let headers_size_max = section.number("headers_size_max", 1_000..=1_000_000);
        let depth_max = section.number("depth_max", 1..=100);
        let max_age = section.span(
            "max_age",
            Duration::from_mins(1)..=Duration::from_hours(365 * 24),
        );
        let open_max = section.number("open_max", 1..=1_000_000);
        let region = read_region(section);
        let recipients = section.section("recipients", |section| {
            read_recipients(section, region.flatten())
        });
        region?;
        Some(Self {
            size_max: size_max?,
            headers_max: headers_max?,
            headers_size_max: headers_size_max?,
            depth_max: depth_max?,
            recipients: recipients?,
            max_age: max_age?,
            open_max: open_max?,
        })
    }
}

fn read_region(section: &mut Section<'_>) -> Option<Option<Region>> {
    let letters = section.text("default_region")?;
    match Region::new(&letters) {
        Some(region) => Some(Some(region)),
        None if letters.is_empty() => Some(None),
        None => section.refuse(
            "default_region",
            "must be a region of ISO 3166 in two capital letters, like \"GB\", or \"\" for none",
        ),
    }
}

fn read_recipients(
    section: &mut Section<'_>,
    default_region: Option<Region>,
) -> Option<BTreeMap<Arc<str>, RecipientKind>> {
    let phone = |short_codes| RecipientKind::Phone {
        default_region,
        short_codes,
    };
    let kinds = [
        ("phone", phone(false)),
        ("phone-or-short-code", phone(true)),
        ("email", RecipientKind::Email),
        ("url", RecipientKind::Url),
        ("opaque", RecipientKind::Opaque),
    ];
    let recipients: Vec<_> = section
        .names()
        .into_iter()
        .map(|name| Some((name.as_str().into(), section.choice(&name, &kinds)?)))
        .collect();
    recipients.into_iter().collect()
}
