//! The layers, the faults, and that the default file is the defaults.

use std::ffi::OsString;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

mod refused;

fn environment(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .collect()
}

fn read(file: &str, variables: &[(&str, &str)]) -> Result<Config, Faults> {
    Config::from_sources(&Sources {
        file: Some((PathBuf::from("sendonce.toml"), file.to_owned())),
        environment: environment(variables),
    })
}

/// The file with its `#key` lines taken in.
fn with_examples(text: &str) -> String {
    text.lines()
        .map(|line| match line.strip_prefix('#') {
            Some(example) if example.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => {
                example
            }
            Some(_) | None => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_default_file_is_the_defaults() {
    insta::assert_debug_snapshot!(Config::from_sources(&Sources::default()).unwrap());
}

#[test]
fn commands_without_a_configuration_log_as_the_default_file_says() {
    let config = Config::from_sources(&Sources::default()).unwrap();
    assert_eq!(config.log, service::LogConfig::default());
}

#[test]
fn the_default_file_alone_cannot_run_and_says_what_is_missing() {
    let config = Config::from_sources(&Sources::default()).unwrap();
    insta::assert_snapshot!(config.missing_to_run().unwrap(), @r"
    keys.secrets: at least one is needed: keys cannot be made without a secret
    routes: at least one route or [provider.NAME] is needed: nothing could be sent
    ");
}

#[test]
fn what_the_default_file_shows_as_examples_can_be_used() {
    let config = read(
        &with_examples(DEFAULTS),
        &[
            ("KAFKA_PASSWORD", "s3cret"),
            ("SENDONCE_KEY_SECRET", "0123456789abcdef"),
        ],
    )
    .unwrap();
    assert_eq!(config.missing_to_run(), None);
    assert_eq!(config.kafka.properties.get("sasl.password"), Some("s3cret"));
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("s3cret") && !shown.contains("0123456789abcdef"),
        "{shown}"
    );
}

#[test]
fn the_example_files_parse_and_can_run() {
    let variables = [("SENDONCE_KEY_SECRET", "0123456789abcdef")];
    let example = include_str!("../../../config/sendonce.example.toml");
    let config = read(example, &variables).unwrap();
    assert_eq!(config.missing_to_run(), None);
    assert_eq!(
        config.providers.routes.get("sms").map(AsRef::as_ref),
        Some("generic")
    );
}

#[test]
fn the_environment_lies_above_the_file_and_the_file_above_the_defaults() {
    let config = read(
        "[kafka]\ngroup = \"from-file\"\ntopic = \"from-file\"",
        &[("SENDONCE__KAFKA__TOPIC", "from-env"), ("UNRELATED", "x")],
    )
    .unwrap();
    assert_eq!(config.kafka.group, "from-file");
    assert_eq!(config.lanes.first.topics.intents, "from-env");
    assert_eq!(config.lanes.first.topics.dead_letters, "from-env.dlq");
    assert_eq!(config.kafka.span_max, 10_000);
}

#[test]
fn the_environment_is_read_as_toml_where_it_is_toml_and_as_text_where_text_is_wanted() {
    let config = read(
        "",
        &[
            ("SENDONCE__KAFKA__TOPIC", "17"),
            ("SENDONCE__KAFKA__GROUP", "\"quoted\""),
            ("SENDONCE__KAFKA__SPAN_MAX", "17"),
            ("SENDONCE__KAFKA__CREATE_TOPICS", "true"),
            ("SENDONCE__KAFKA__PROPERTIES__SECURITY_PROTOCOL", "ssl"),
            ("SENDONCE__KAFKA__PROPERTIES__LOG_LEVEL", "5"),
            ("SENDONCE__ROUTES__SMS", "captifi"),
            (
                "SENDONCE__PROVIDER__CAPTIFI__BASE_URL",
                "http://127.0.0.1:1/",
            ),
            ("SENDONCE__RETRY__BASE", "40ms"),
            (
                "SENDONCE__KEYS__SECRETS",
                "[{ from = 2026-01-01T00:00:00Z, secret = \"env:S\" }]",
            ),
            ("S", "0123456789abcdef"),
        ],
    )
    .unwrap();
    assert_eq!(config.lanes.first.topics.intents, "17");
    assert_eq!(config.kafka.group, "quoted");
    assert_eq!(config.kafka.span_max, 17);
    assert!(config.kafka.create_topics);
    assert_eq!(
        config.kafka.properties.get("security.protocol"),
        Some("ssl")
    );
    assert_eq!(config.kafka.properties.get("log_level"), Some("5"));
    assert_eq!(config.retry.base, std::time::Duration::from_millis(40));
    let captifi = &config.providers.accounts["captifi"];
    assert_eq!(
        captifi.base_url.as_ref().unwrap().as_str(),
        "http://127.0.0.1:1/"
    );
    assert_eq!(config.missing_to_run(), None);
}

#[test]
fn a_routed_name_without_a_section_is_the_profile_of_that_name() {
    let config = read(
        "[routes]\nsms = \"one\"\nemail = \"two\"\n[provider.two]\nprofile = \"generic\"\nconcurrency = 0",
        &[],
    )
    .unwrap();
    assert_eq!(&*config.providers.accounts["one"].profile, "one");
    assert_eq!(&*config.providers.accounts["two"].profile, "generic");
    assert_eq!(config.providers.accounts["two"].concurrency, None);
}

#[test]
fn further_topics_are_lanes_beside_that_of_kafka_and_their_dead_letters_are_named_after_them() {
    let config = read(
        "[kafka]\nweight = 10\n[lane.news]\ntopic = \"news\"\n[lane.bulk]\ntopic = \"bulk\"\ndead_letter_topic = \"bad\"",
        &[("SENDONCE__LANE__NEWS__WEIGHT", "2")],
    )
    .unwrap();
    let lanes: Vec<_> = config
        .lanes
        .iter()
        .map(|lane| {
            let topics = &lane.topics;
            (&*topics.intents, &*topics.dead_letters, lane.weight.get())
        })
        .collect();
    let told = [
        ("send-intents", "send-intents.dlq", 10),
        ("bulk", "bad", 1),
        ("news", "news.dlq", 2),
    ];
    assert_eq!(lanes, told);
    let news = config.lanes.named("news").unwrap();
    assert_eq!(news.topics.intents, "news");
    assert_eq!(config.lanes.named("kafka"), None);
}

#[test]
fn there_are_at_most_sixteen_lanes() {
    let of = |count: usize| -> String {
        let lane = |n: usize| format!("[lane.l{n}]\ntopic = \"t{n}\"\n");
        (0..count).map(lane).collect()
    };
    assert_eq!(read(&of(15), &[]).unwrap().lanes.iter().count(), 16);
    let faults = read(&of(16), &[]).unwrap_err().to_string();
    assert!(faults.contains("there can be 16 lanes"), "{faults}");
    let crowded = format!("[intents]\nopen_max = 15\n{}", of(15));
    let faults = read(&crowded, &[]).unwrap_err().to_string();
    assert!(faults.contains("intents.open_max"), "{faults}");
}

#[test]
fn properties_are_written_with_quotes_or_without_and_mean_the_same() {
    let quoted = read(
        "[kafka.properties]\n\"retry.backoff.ms\" = 7\n\"client.id\" = \"a\"",
        &[],
    )
    .unwrap();
    let bare = read(
        "[kafka.properties]\nretry.backoff.ms = 7\nclient.id = \"a\"",
        &[],
    )
    .unwrap();
    assert_eq!(quoted, bare);
    assert_eq!(
        bare.kafka.properties.iter().collect::<Vec<_>>(),
        [("client.id", "a"), ("retry.backoff.ms", "7")]
    );
}

#[test]
fn every_fault_is_told_at_once_with_its_key_and_its_layer() {
    let faults = read(
        "[kafka]\nspan_max = 0\ntopic = \"a b\"\n[retry]\nbase = \"5s\"\n[ledger]\nretention = \"1h\"\n[shutdown]\ngrace = 1",
        &[
            ("SENDONCE__RETRY__CAP", "1s"),
            ("SENDONCE__ADMIN__LISTEN", "everywhere"),
            ("SENDONCE__DISPATCH__CONCURENCY", "3"),
        ],
    )
    .unwrap_err();
    insta::assert_snapshot!(faults);
}

#[test]
fn the_place_of_a_syntax_error_is_told_without_the_line_itself() {
    let faults = read("[kafka]\nbrokers = \"a:1\"\nsecret = hunter2\n", &[])
        .unwrap_err()
        .to_string();
    assert!(
        faults.contains("sendonce.toml: line 3, column 10"),
        "{faults}"
    );
    assert!(!faults.contains("hunter2"), "{faults}");
}

#[test]
fn p53_no_message_repeats_what_may_be_a_secret() {
    let faults = read(
        "[kafka.properties]\nsasl.password = \"hunter2\"\n[kafka.oauth]\nclient_secret = \"hunter2\"\ntoken_url = \"https://u:hunter2@h/\"\n\
         [[keys.secrets]]\nfrom = \"hunter2\"\nsecret = \"hunter2\"\n[provider.a]\nbase_url = \"https://h/?token=hunter2\"\n\
         [ledger]\ngenerations = \"hunter2\"",
        &[("SENDONCE__KEYS__NAMESPACE", "hunter2 !")],
    )
    .unwrap_err();
    assert!(faults.iter().count() >= 7, "{faults}");
    assert!(!faults.to_string().contains("hunter2"), "{faults}");
}

#[test]
fn a_file_that_is_not_there_is_a_fault_with_its_path() {
    let faults = Config::load(Some(Path::new("/nowhere/sendonce.toml"))).unwrap_err();
    assert!(
        faults
            .to_string()
            .starts_with("/nowhere/sendonce.toml: cannot be read"),
        "{faults}"
    );
}

/// Any value that TOML can hold.
fn value() -> impl Strategy<Value = toml::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(toml::Value::Boolean),
        any::<i64>().prop_map(toml::Value::Integer),
        any::<f64>().prop_map(toml::Value::Float),
        ".{0,12}".prop_map(toml::Value::String),
        Just(toml::Value::Datetime("1979-05-27".parse().unwrap())),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(toml::Value::Array),
            prop::collection::btree_map("[a-z._]{1,8}", inner, 0..4)
                .prop_map(|map| toml::Value::Table(map.into_iter().collect())),
        ]
    })
}

/// The path of every key in the default file, and of the sections.
fn key_paths() -> Vec<String> {
    fn below(above: &str, table: &toml::Table, paths: &mut Vec<String>) {
        for (name, value) in table {
            let path = format!("{above}{name}");
            if let toml::Value::Table(table) = value {
                below(&format!("{path}."), table, paths);
            }
            paths.push(path);
        }
    }
    let mut paths = Vec::new();
    below("", &with_examples(DEFAULTS).parse().unwrap(), &mut paths);
    paths
}

proptest! {
    #[test]
    fn no_text_panics(text in "[\\PC\n]{0,200}", name in "[A-Z_]{0,20}", value in ".{0,20}") {
        let _ = read(&text, &[(&format!("SENDONCE__{name}"), &value)]);
    }

    #[test]
    fn any_value_at_any_key_is_taken_or_refused_at_that_key(
        path in prop::sample::select(key_paths()),
        value in value(),
    ) {
        let mut table = toml::Table::new();
        let mut names: Vec<&str> = path.split('.').collect();
        let last = names.pop().unwrap();
        let mut place = &mut table;
        for name in names {
            place = place
                .entry(name)
                .or_insert_with(|| toml::Value::Table(toml::Table::new()))
                .as_table_mut()
                .unwrap();
        }
        place.insert(last.to_owned(), value);
        if let Err(faults) = read(&table.to_string(), &[]) {
            // A value may make another key of its own section wrong or needed; the others are named.
            let section = path.rsplit_once('.').map_or("", |(section, _)| section);
            for fault in faults.iter() {
                let related = ["intents.max_age", "retry.cap", "sasl.mechanism"];
                prop_assert!(
                    fault.key.starts_with(&path)
                        || (!section.is_empty() && fault.key.starts_with(&format!("{section}.")))
                        || related.iter().any(|key| fault.key.contains(key)),
                    "{path}: {fault}"
                );
            }
        }
    }
}
