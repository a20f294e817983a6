//! Every profile under config/providers/ can be read, says where its facts come from, and is named after its vendor; and the
//! page that tells what each means for those who send is in step with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sendonce::domain::profile::{
    Auth, KeyRule, LookupProof, Place, Profile, ReplayMark, Scope, Stores, Test, WindowStart,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/providers")
}

/// Every profile's text, by its name.
fn texts() -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            texts.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    texts
}

fn parsed(name: &str, text: &str) -> Profile {
    Profile::parse(text).unwrap_or_else(|faults| panic!("{name}: {faults:#?}"))
}

#[test]
fn every_shipped_profile_can_be_read_and_gives_its_sources() {
    let mut operations = BTreeSet::new();
    for (name, text) in texts() {
        let profile = parsed(&name, &text);
        assert!(
            name.starts_with(&*profile.vendor),
            "{name} is named after its vendor"
        );
        assert!(
            text.starts_with("# "),
            "{name} begins with what it is and who says so"
        );
        assert!(
            text.contains("read 2") || text.contains("expired on"),
            "{name} dates its sources"
        );
        let tested = include_str!("../../src/domain/profile/tests.rs");
        assert!(
            tested.contains(&format!("    \"{name}\",\n")),
            "{name} is in the list of profiles that are tested"
        );
        let operation = (profile.vendor.clone(), profile.operation.clone());
        assert!(
            operations.insert(operation),
            "{name} describes an operation of its own"
        );
    }
    assert!(operations.len() >= 30);
}

#[test]
fn the_page_of_promises_is_in_step_with_the_profiles() {
    let path = folder().join("README.md");
    if std::env::var_os("UPDATE_PROVIDERS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, page(), "UPDATE_PROVIDERS=1 writes it anew");
}

const INTRODUCTION: &str = "\
# What sendonce promises at each provider

Written from the profiles in this folder by a test (`UPDATE_PROVIDERS=1 cargo test --test integration shipped_profiles`): change
a profile, not this page. Every profile has its sources and their dates. `documented` means read and never seen at work: prove a
provider with a test account before you rely on it. Where no document speaks, the careful reading counts, and the profile says so.
";

const KEYED: &str = "
## With a native key

An outcome that nobody knows is repeated under the same key, with identical bytes, until it is known: **at most one accepted send
per key**, whatever crashes, as far as the provider keeps its word. No attempt starts later than *repeats until* after the first
one: then the provider may have forgotten the key, and an unknown outcome is a dead letter `outcome_unknown`. Whatever is in
*bound to* must not change while an outcome is unknown: another account, region or endpoint knows no key of the first.
";

const KEYLESS: &str = "
## Without a native key

A repeat is a second message there. What was surely not sent, and what was throttled, is sent again; **an unknown outcome (a
timeout, a reset, a 5xx) is never repeated**. Where there is a look-up the provider is asked first, and only an absence that proves
something lets it be sent again; otherwise it is a dead letter `outcome_unknown`, for somebody to find out.
";

const ADDING: &str = "
## Adding a vendor

1. Copy [provider-example.toml](../provider-example.toml), which has every field, to `VENDOR.toml` here, and write the source of each fact
   and the day you read it beside it. Where no document speaks, take the reading that sends less, and say so.
2. Write answers in the form that is documented to `src/domain/classify/tests/answers/VENDOR.toml`: at least one for every rule and
   every mark of a replay. Add the name to the lists in `src/domain/profile/tests.rs` and `src/domain/classify/tests/recorded.rs`.
3. Review the two snapshots that change: what each status means without a readable body, and the request that is rendered.
4. `sendonce check` says what the profile promises; write this page anew.
";

fn page() -> String {
    let profiles: Vec<(String, Profile)> = texts()
        .into_iter()
        .map(|(name, text)| {
            let profile = parsed(&name, &text);
            (name, profile)
        })
        .collect();
    let mut page = INTRODUCTION.to_owned();
    page.push_str(KEYED);
    page.push_str(
        "\n| Profile | Key in | Window | Repeats until | Bound to | A replay shows by | Stored under the key | Look-up | Credentials | What to know |\n",
    );
    page.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (name, profile) in &profiles {
        if let Some(key) = &profile.key {
            let cells = [
                linked(name, profile),
                places(key),
                window(key),
                span(key.window.length.saturating_sub(key.window.margin)),
                scope(key),
                replay(key),
                stores(key).to_owned(),
                lookup(profile),
                credentials(profile),
                to_know(key),
            ];
            writeln!(page, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    page.push_str(KEYLESS);
    page.push_str("\n| Profile | Look-up | Credentials | Facts |\n| --- | --- | --- | --- |\n");
    for (name, profile) in profiles.iter().filter(|(_, profile)| profile.key.is_none()) {
        let facts = match profile.verified.observed {
            true => "observed",
            false => "documented",
        };
        writeln!(
            page,
            "| {} | {} | {} | {facts} {} |",
            linked(name, profile),
            lookup(profile),
            credentials(profile),
            profile.verified.on
        )
        .unwrap();
    }
    page.push_str(ADDING);
    page
}

fn linked(name: &str, profile: &Profile) -> String {
    let seen = match profile.verified.observed {
        true => ", observed",
        false => "",
    };
    format!("[{name}]({name}.toml): {}{seen}", profile.operation)
}

fn places(key: &KeyRule) -> String {
    let places: Vec<_> = key
        .places
        .iter()
        .map(|place| match place {
            Place::Header(name) => format!("header `{name}`"),
            Place::Body(pointer) => {
                let names = pointer.names().unwrap_or_default();
                format!("body `/{}`", names.join("/"))
            }
            Place::Query(name) => format!("query `{name}`"),
        })
        .collect();
    format!("{}, up to {}", places.join(" and "), key.max_len)
}

fn window(key: &KeyRule) -> String {
    let source = match key.window.documented {
        true => "documented",
        false => "assumed",
    };
    let starts = match key.window.starts {
        WindowStart::FirstAttempt => "",
        WindowStart::Completion => ", from the first answer on",
        WindowStart::Scheduled => ", from the scheduled time on",
    };
    format!("{}, {source}{starts}", span(key.window.length))
}

fn scope(key: &KeyRule) -> String {
    let words: Vec<_> = key
        .scope
        .iter()
        .map(|scope| match scope {
            Scope::Account => "account",
            Scope::Credential => "credential",
            Scope::Environment => "environment",
            Scope::Region => "region",
            Scope::Endpoint => "endpoint",
        })
        .collect();
    or_unknown(words.join(", "))
}

fn replay(key: &KeyRule) -> String {
    let said = |test: &Test| match test {
        Test::Equals(value) => format!(" `{value}`"),
        Test::OneOf(_)
        | Test::Present
        | Test::Absent
        | Test::Empty
        | Test::Matches(_)
        | Test::Every(_) => String::new(),
    };
    let marks: Vec<_> = key
        .replay
        .iter()
        .map(|mark| match mark {
            ReplayMark::Header(name, test) => format!("header `{name}`{}", said(test)),
            ReplayMark::Body(_, test) => format!("a field of the body{}", said(test)),
            ReplayMark::Status(set) => {
                let statuses: Vec<_> = (100..=999)
                    .filter(|status| set.contains(*status))
                    .map(|status| status.to_string())
                    .collect();
                format!("status {}", statuses.join(", "))
            }
        })
        .collect();
    match marks.is_empty() {
        true => "nothing".to_owned(),
        false => marks.join(", or "),
    }
}

fn stores(key: &KeyRule) -> &'static str {
    match key.stores {
        None => "not known",
        Some(Stores::All) => "every answer",
        Some(Stores::Success) => "successes",
        Some(Stores::SuccessAndClientErrors) => "successes and 4xx",
        Some(Stores::Burns) => "a failure burns the key",
    }
}

/// What follows from the profile for those who send.
fn to_know(key: &KeyRule) -> String {
    let mut notes = Vec::new();
    if !key.window.documented {
        notes.push("the promise holds as far as the window was assumed rightly".to_owned());
    }
    if key.window.length < Duration::from_secs(3_600) {
        notes.push("a wait of minutes uses the window up".to_owned());
    }
    match key.stores {
        Some(Stores::All) => {
            notes.push("a stored error ends the series when it comes again".to_owned())
        }
        Some(Stores::Burns) => notes.push("after a failure an operator decides".to_owned()),
        Some(Stores::Success | Stores::SuccessAndClientErrors) | None => {}
    }
    if let Some(lapse) = key.lock_lapses {
        notes.push(format!(
            "if its server dies in the middle of a request, a repeat after {} may run again",
            span(lapse)
        ));
    }
    match key.compares_body {
        Some(true) | None => {}
        Some(false) => notes.push("another body under the key is not noticed there".to_owned()),
    }
    notes.join("; ")
}

fn lookup(profile: &Profile) -> String {
    let Some(lookup) = &profile.lookup else {
        return "none".to_owned();
    };
    let proof = match lookup.proof {
        LookupProof::Key => "key",
        LookupProof::Reference => "reference",
        LookupProof::Content => "content",
    };
    format!(
        "by {proof}, after {}, for {}",
        span(lookup.delay),
        span(lookup.keeps)
    )
}

/// How its requests say who sends them.
fn credentials(profile: &Profile) -> String {
    match &profile.request.auth {
        Auth::None => "none".to_owned(),
        Auth::Bearer { .. } => "bearer token".to_owned(),
        Auth::Basic { .. } => "name and password".to_owned(),
        Auth::Header { name, .. } => format!("header `{name}`"),
        Auth::Query { .. } => "parameters of the query".to_owned(),
        Auth::Hmac(_) => "MAC of each request".to_owned(),
        Auth::AwsSigV4(_) => "AWS Signature Version 4".to_owned(),
        Auth::Jwt(jwt) => format!("JWT, {}", jwt.key.algorithm.name()),
        Auth::ClientCredentials(_) => "OAuth 2.0, client credentials".to_owned(),
        Auth::ClientAssertion(client) => format!(
            "OAuth 2.0, client assertion, {}",
            client.key.algorithm.name()
        ),
        Auth::JwtBearer(_) => "OAuth 2.0, service account".to_owned(),
    }
}

fn or_unknown(text: String) -> String {
    match text.is_empty() {
        true => "not known".to_owned(),
        false => text,
    }
}

/// A span in its two largest units.
fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (unit, name) in units {
        if left >= unit {
            parts.push(format!("{} {name}", left / unit));
            left %= unit;
        }
    }
    parts.truncate(2);
    parts.join(" ")
}
