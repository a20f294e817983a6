//! Decides what a profile says of asking the provider whether it took a message: the request, which item of the answer is
//! ours, and how much an absence proves. It judges no answer: that is `reconcile`.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::pointer::Pointer;
use super::request::{UrlShape, read_headers, read_url};
use super::rule::{StatusSet, When, read_pointer, read_when};
use super::section::{Section, join};
use super::template::{Compiler, Text};

/// How to ask a provider whether it took a message. It is a GET under the operation's credentials, and changes nothing.
#[derive(Debug)]
pub struct Lookup {
    /// What the answer's items are told apart by.
    pub proof: LookupProof,
    /// A message that was taken may stay invisible for so long after the request's last possible moment.
    pub delay: Duration,
    /// For so long after a send the provider can still find it; an absence proves nothing later.
    pub keeps: Duration,
    /// Which items are ours, and what they say.
    pub items: Items,
    /// The statuses that say that there is no such message.
    pub absent: Option<StatusSet>,
    /// What an answer means that meets a condition, in their order, before anything else is looked at.
    pub rules: Vec<LookupRule>,
    pub(in crate::domain) url: UrlShape,
    pub(in crate::domain) fixed_headers: HeaderMap,
    pub(in crate::domain) filled_headers: Vec<(HeaderName, Text)>,
}

/// What the items of an answer are told apart by, and so how much a find proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupProof {
    /// The idempotency key: one item at most, and it is ours.
    Key,
    /// The reference that the request carried. It is the key, unless the intent brought its own.
    Reference,
    /// Recipient and content: two equal intents look alike, so what the ledger already explains is counted out.
    Content,
}

/// Where the items of an answer are, and which of them are ours.
#[derive(Debug)]
pub struct Items {
    /// The list; absent if the document itself is the one item.
    pub list: Option<Pointer>,
    /// The most items that one answer holds: a full list may go on, and proves no absence.
    pub page: Option<u32>,
    /// The message's id in an item.
    pub id: Option<Pointer>,
    /// When an item was made: what is older than the first attempt is not ours.
    pub made_at: Option<(Pointer, MomentForm)>,
    /// What an item must say to be ours: the value at each place is the text.
    pub(in crate::domain) ours: Vec<(Pointer, Text)>,
}

/// How a moment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentForm {
    /// RFC 3339.
    Rfc3339,
    /// RFC 2822, as in mail.
    Rfc2822,
    /// Seconds since 1970.
    EpochSeconds,
    /// Milliseconds since 1970.
    EpochMilliseconds,
}

/// What an answer means that meets every condition.
#[derive(Debug)]
pub struct LookupRule {
    /// The conditions; all must hold.
    pub when: When,
    /// What it means.
    pub means: Told,
}

/// What a rule may say of a whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The message was taken.
    Present,
    /// The message was not taken.
    Absent,
    /// The provider cannot tell yet.
    NotYet,
    /// The answer proves nothing.
    Nothing,
}

impl Lookup {
    /// Whether a find may be another intent's message. `own_reference` tells that the intent brought its reference along.
    pub fn is_ambiguous(&self, own_reference: bool) -> bool {
        match self.proof {
            LookupProof::Key => false,
            LookupProof::Reference => own_reference,
            LookupProof::Content => true,
        }
    }
}

/// Reads `[lookup]`.
pub(super) fn read(section: Section<'_>, settings: &BTreeMap<String, String>) -> Option<Lookup> {
    let compiler = Compiler {
        faults: section.faults(),
        settings,
    };
    for key in ["proof", "url", "delay", "keeps"] {
        if !section.has(key) {
            section.missing(key);
        }
    }
    let proof = section.word(
        "proof",
        &[
            ("key", LookupProof::Key),
            ("reference", LookupProof::Reference),
            ("content", LookupProof::Content),
        ],
    );
    let url = section
        .text("url")
        .and_then(|url| read_url(&section, &compiler, url));
    let mut fixed_headers = HeaderMap::new();
    let mut filled_headers = Vec::new();
    if let Some(headers) = section.section("headers") {
        read_headers(headers, &compiler, &mut fixed_headers, &mut filled_headers);
    }
    if section.flag("consumes") == Some(true) {
        section.fault(
            "consumes",
            "a look-up that takes away what it reads would hide it from the next one; leave [lookup] out",
        );
    }
    let delay = section.span("delay");
    let keeps = section.span("keeps");
    if let (Some(delay), Some(keeps)) = (delay, keeps)
        && keeps <= delay
    {
        section.fault(
            "keeps",
            "is no longer than delay: nothing could ever be proved",
        );
    }
    let absent = section
        .value("absent")
        .and_then(|value| StatusSet::read(&section, "absent", value));
    let items = read_items(&section, &compiler, proof);
    let rules: Vec<_> = section
        .sections("rule")
        .into_iter()
        .filter_map(read_rule)
        .collect();
    if proof.is_some_and(|proof| proof != LookupProof::Key)
        && rules
            .iter()
            .any(|rule: &LookupRule| rule.means == Told::Present)
    {
        section.faults().add(
            section.path(),
            "a rule that means present needs the proof \"key\": it cannot tell whose message it is",
        );
    }
    let proves_absence = items.list.is_some()
        || absent.is_some()
        || rules.iter().any(|rule| rule.means == Told::Absent);
    if !proves_absence {
        section.faults().add(
            section.path(),
            "could never show an absence: expected items, absent, or a rule that means absent",
        );
    }
    section.close();
    Some(Lookup {
        proof: proof?,
        delay: delay?,
        keeps: keeps?,
        items,
        absent,
        rules,
        url: url?,
        fixed_headers,
        filled_headers,
    })
}

fn read_items(section: &Section<'_>, compiler: &Compiler<'_>, proof: Option<LookupProof>) -> Items {
    let pointer = |key: &str| {
        let text = section.text(key)?;
        read_pointer(section, key, text)
    };
    let list = pointer("items");
    let page = section.number("page", 1..=100_000);
    match (section.has("items"), section.has("page")) {
        (true, false) => section.fault("page", "is required beside items"),
        (false, true) => section.fault("page", "means nothing without items"),
        (true, true) | (false, false) => {}
    }
    let id = pointer("id");
    let ours = section
        .section("ours")
        .map(|ours| read_ours(ours, compiler))
        .unwrap_or_default();
    let made_at = section.section("made_at").and_then(read_made_at);
    if proof == Some(LookupProof::Content) {
        let wanted = [
            ("items", "a search by content finds a list"),
            ("id", "what the ledger explains is told by its message id"),
            ("ours", "which items are ours must be told by what they say"),
            (
                "made_at",
                "an older message with the same content is not ours",
            ),
        ];
        for (key, why) in wanted {
            if !section.has(key) {
                section.fault(key, format!("is required for this proof: {why}"));
            }
        }
    }
    Items {
        list,
        page,
        id,
        made_at,
        ours,
    }
}

fn read_ours(section: Section<'_>, compiler: &Compiler<'_>) -> Vec<(Pointer, Text)> {
    let mut ours = Vec::new();
    for (place, value) in section.every() {
        let Some(source) = value.as_str() else {
            section.fault(place, "expected text");
            continue;
        };
        if let Some(pointer) = read_pointer(&section, place, place) {
            let text = compiler.text(&join(section.path(), place), source);
            ours.push((pointer, text));
        }
    }
    section.close();
    ours
}

fn read_made_at(section: Section<'_>) -> Option<(Pointer, MomentForm)> {
    let pointer = section
        .text("at")
        .and_then(|text| read_pointer(&section, "at", text));
    let form = section.word(
        "as",
        &[
            ("rfc3339", MomentForm::Rfc3339),
            ("rfc2822", MomentForm::Rfc2822),
            ("epoch_seconds", MomentForm::EpochSeconds),
            ("epoch_milliseconds", MomentForm::EpochMilliseconds),
        ],
    );
    for key in ["at", "as"] {
        if !section.has(key) {
            section.missing(key);
        }
    }
    section.close();
    pointer.zip(form)
}

fn read_rule(section: Section<'_>) -> Option<LookupRule> {
    let when = match section.section("when") {
        Some(when) => {
            for key in ["replay", "first_attempt"] {
                if when.has(key) {
                    when.fault(key, "means nothing in a look-up");
                }
            }
            Some(read_when(when, true))
        }
        None => {
            if !section.has("when") {
                section.missing("when");
            }
            None
        }
    };
    let means = section.word(
        "means",
        &[
            ("present", Told::Present),
            ("absent", Told::Absent),
            ("not_yet", Told::NotYet),
            ("nothing", Told::Nothing),
        ],
    );
    if !section.has("means") {
        section.missing("means");
    }
    section.close();
    Some(LookupRule {
        when: when?,
        means: means?,
    })
}

#[cfg(test)]
mod tests {
    use crate::domain::profile::tests::parsed;

    fn faults(section: &str) -> Vec<String> {
        match parsed(section) {
            Ok(_) => Vec::new(),
            Err(faults) => faults.iter().map(ToString::to_string).collect(),
        }
    }

    const LEAST: &str = r#"
[lookup]
proof = "key"
url = "https://fixture.example/messages/{{ key }}"
delay = "30s"
keeps = "7d"
absent = 404
"#;

    #[test]
    fn the_least_look_up_asks_for_one_document() {
        let profile = parsed(LEAST).unwrap();
        let lookup = profile.lookup.unwrap();
        assert!(lookup.items.list.is_none() && lookup.rules.is_empty());
        assert!(!lookup.is_ambiguous(true));
    }

    #[test]
    fn what_could_prove_nothing_or_too_much_is_refused_with_its_place() {
        let refused = |from: &str, to: &str| faults(&LEAST.replace(from, to)).join("\n");
        let mut told = String::new();
        for (from, to) in [
            ("absent = 404", ""),
            ("keeps = \"7d\"", "keeps = \"30s\""),
            ("absent = 404", "absent = 404\nconsumes = true"),
            ("absent = 404", "items = \"/messages\""),
            ("absent = 404", "absent = 404\npage = 5"),
            (
                "absent = 404",
                "absent = 404\nmade_at = { at = \"created\" }",
            ),
            (
                "absent = 404",
                "rule = [{ means = \"absent\" }, { when = { status = 200, replay = true }, means = \"gone\" }]",
            ),
            ("fixture.example", "elsewhere.example"),
            ("\"key\"", "\"content\""),
            (
                "\"key\"\n",
                "\"reference\"\nrule = [{ when = { status = 303 }, means = \"present\" }]\n",
            ),
        ] {
            told.push_str(&refused(from, to));
            told.push_str("\n\n");
        }
        insta::assert_snapshot!(told);
    }

    #[test]
    fn only_a_key_tells_two_equal_intents_apart_and_a_reference_that_is_not_upstreams() {
        let ambiguous = |proof: &str| {
            let text = LEAST.replace("\"key\"", proof);
            let lookup = parsed(&text).unwrap().lookup.unwrap();
            (lookup.is_ambiguous(false), lookup.is_ambiguous(true))
        };
        assert_eq!(ambiguous("\"key\""), (false, false));
        assert_eq!(ambiguous("\"reference\""), (false, true));
    }
}
