//! What each key refuses, as one reviewed table.

use std::fmt::Write;

use super::read;

/// One layer each: what stands in the file.
const CASES: &[&str] = &[
    // The shape.
    "kafka = 5",
    "[kafak]",
    "[kafka]\nbroker = \"a:1\"",
    "[kafka.topic]\nname = \"a\"",
    "kafka.properties = \"a\"",
    "[kafka]\nspan_max = \"many\"",
    // [kafka]
    "[kafka]\nbrokers = \"\"",
    "[kafka]\nbrokers = \"a:1,,b:1\"",
    "[kafka]\nbrokers = 9092",
    "[kafka]\ngroup = \"\"",
    "[kafka]\ntopic = \"\"",
    "[kafka]\ntopic = \"..\"",
    "[kafka]\ntopic = \"intents/eu\"",
    "[kafka]\ndead_letter_topic = \"send-intents\"",
    "[kafka]\ndead_letter_topic = \"a b\"",
    "[kafka]\nweight = 0",
    "[kafka]\ngroup_instance_id = \"a b\"",
    "[kafka]\nordering = \"strict\"",
    "[kafka]\ncreate_topics = \"yes\"",
    "[kafka]\npartitions = 0",
    "[kafka]\nreplication_factor = -1",
    "[kafka]\nspan_max = 1000001",
    "[kafka]\ncommit_interval = \"10ms\"",
    "[kafka]\ncommit_interval = 1000",
    "[kafka]\ndead_letter_headers = \"none\"",
    "[kafka]\nstall_after = \"1s\"",
    // [lane.NAME]
    "[lane.bulk]",
    "[lane]\nbulk = \"bulk\"",
    "[lane.bulk]\ntopic = \"bulk\"\nwait = 1",
    "[lane.bulk]\ntopic = \"bulk\"\nweight = 1001",
    "[lane.\"a b\"]\ntopic = \"bulk\"",
    "[lane.bulk]\ntopic = \"send-intents\"",
    "[lane.bulk]\ntopic = \"send-intents.dlq\"",
    "[lane.bulk]\ntopic = \"bulk\"\ndead_letter_topic = \"send-intents.dlq\"",
    "[lane.bulk]\ntopic = \"bulk\"\ndead_letter_topic = \"bulk\"",
    "[lane.a]\ntopic = \"bulk\"\n[lane.b]\ntopic = \"bulk\"",
    "[intents]\nopen_max = 1\n[lane.bulk]\ntopic = \"bulk\"",
    // [kafka.oauth]
    "[kafka.oauth]\ntoken_url = \"ftp://h/\"",
    "[kafka.oauth]\ntoken_url = \"https://h/\"",
    "[kafka.oauth]\nclient_secret = \"env:NONE\"",
    "[kafka]\ncreate_topics = true\n[kafka.oauth]\ntoken_url = \"https://h/\"\nclient_id = \"a\"\nclient_secret = \"env:LONG\"\n[kafka.properties]\nsasl.mechanism = \"OAUTHBEARER\"",
    "[kafka.properties]\nsasl.mechanism = \"OAUTHBEARER\"",
    // [intents]
    "[intents]\nsize_max = 999",
    "[intents]\nheaders_max = 0",
    "[intents]\nheaders_size_max = 1",
    "[intents]\ndepth_max = 101",
    "[intents]\nmax_age = \"7d\"",
    "[intents]\nmax_age = \"tomorrow\"",
    "[intents]\nopen_max = 0",
    "[intents]\ndefault_region = \"gb\"",
    "[intents]\ndefault_region = \"GBR\"",
    "[intents.recipients]\nsms = \"number\"",
    "[intents.recipients]\nfax = 1",
    // [keys]
    "[keys]\nnamespace = \"\"",
    "[keys]\nnamespace = \"a b\"",
    "[keys]\nsecrets = 1",
    "[keys]\nsecrets = [1]",
    "[[keys.secrets]]\nfrom = 2026-01-01T00:00:00Z",
    "[[keys.secrets]]\nfrom = 2026-01-01\nsecret = \"env:LONG\"",
    "[[keys.secrets]]\nfrom = 2026-01-01T00:00:00Z\nsecret = \"\"",
    "[[keys.secrets]]\nfrom = 2026-01-01T00:00:00Z\nsecret = \"literal\"",
    "[[keys.secrets]]\nfrom = 2026-01-01T00:00:00Z\nsecret = \"env:SHORT\"",
    "[[keys.secrets]]\nfrom = 2026-01-01T00:00:00Z\nsecret = \"env:LONG\"\nuntil = 1",
    "[[keys.secrets]]\nfrom = 2026-01-01T00:00:00Z\nsecret = \"env:LONG\"\n[[keys.secrets]]\nfrom = 2026-01-01T00:00:00Z\nsecret = \"env:LONG\"",
    // [ledger]
    "[ledger]\ndirectory = \"\"",
    "[ledger]\nretention = \"24h\"",
    "[ledger]\nretention = \"10s\"",
    "[ledger]\ngenerations = 1",
    "[ledger]\ncache_mib = 1",
    "[ledger]\nbatch_max = 0",
    // [rejections]
    "[rejections]\nshare_percent = 101",
    "[rejections]\noutcomes = 0",
    // [retry]
    "[retry]\nbudget = 0",
    "[retry]\nbase = \"0s\"",
    "[retry]\nbase = \"2m\"",
    "[retry]\ncap = \"2d\"",
    "[retry]\nwait_max = \"31d\"",
    "[retry]\nin_progress_max = 0",
    "[retry]\nin_progress_wait = \"1ms\"",
    "[retry]\nprobe_interval = \"-1s\"",
    "[provider.a]\nrate_per_second = -1",
    "[provider.a]\nburst = \"many\"",
    // [breaker]
    "[breaker]\nanswers = 0",
    "[breaker]\nwindow = \"10ms\"",
    "[breaker]\nshare_percent = 101",
    "[breaker]\nin_row = 0",
    "[breaker]\nfirst_probe = \"0s\"",
    // Who sends what.
    "[dispatch]\nconcurrency = 0",
    "[routes]\nsms = \"\"",
    "[routes]\nsms = \"../captifi\"",
    "[providers]\ndirectory = 1",
    "[provider]\na = 1",
    "[provider.A]",
    "[provider.a]\nprofile = \"../b\"",
    "[provider.a]\nbase_url = \"h:80\"",
    "[provider.a]\nbase_url = \"https://u@h/\"",
    "[provider.a]\nbase_url = \"https://h/?q\"",
    "[provider.a]\nconcurrency = 4097",
    "[provider.a]\nrate = 1",
    // The service.
    "[shutdown]\ndrain = \"11m\"",
    "[admin]\nlisten = \"9464\"",
    "[admin]\nlisten = \"localhost:9464\"",
    "[log]\nformat = \"xml\"",
    "[log]\nlevel = \"loud\"",
    "[log]\nlevel = \"info,sendonce=loud\"",
];

/// Properties of librdkafka that would break a promise, or cannot work.
const PROPERTIES: &[&str] = &[
    "enable.auto.commit = true",
    "enable.auto.commit = \"True\"",
    "auto.commit.enable = 1",
    "auto.commit.interval.ms = 1000",
    "enable.auto.offset.store = true",
    "auto.offset.reset = \"latest\"",
    "auto.offset.reset = \"largest\"",
    "auto.offset.reset = \"end\"",
    "auto.offset.reset = \"error\"",
    "offset.store.method = \"none\"",
    "offset.store.path = \"/tmp\"",
    "bootstrap.servers = \"a:1\"",
    "group.id = \"a\"",
    "group.instance.id = \"a\"",
    "partition.assignment.strategy = \"range\"",
    "partition.assignment.strategy = \"range,cooperative-sticky\"",
    "group.protocol = \"new\"",
    "group.protocol = \"consumer\"\nsession.timeout.ms = 1",
    "group.remote.assignor = \"range\"",
    "isolation.level = \"read_uncommitted\"",
    "enable.partition.eof = true",
    "topic.blacklist = \"send.*\"",
    "topic.metadata.refresh.interval.ms = -1",
    "allow.auto.create.topics = true",
    "enable.idempotence = false",
    "acks = 1",
    "acks = \"leader\"",
    "request.required.acks = 0",
    "max.in.flight = 6",
    "retries = 0",
    "message.timeout.ms = 0",
    "message.max.bytes = 1000000",
    "queuing.strategy = \"lifo\"",
    "transactional.id = \"a\"",
    "enable.gapless.guarantee = true",
    "delivery.report.only.error = true",
    "partitioner = \"consistent_random\"",
    "enable.ssl.certificate.verification = false",
    "plugin.library.paths = \"x.so\"",
    "api.version.request = false",
    "broker.version.fallback = \"0.9.0\"",
    "internal.termination.signal = 15",
    "log.queue = true",
    "sasl.oauthbearer.method = \"oidc\"",
    "sasl.password = \"literal\"",
    "ssl.key.pem = \"literal\"",
    "sasl.username = \"env:NONE\"",
    "client.id = 1.5",
    "client.id = [\"a\"]",
];

#[test]
fn each_kind_of_mistake_is_refused_at_its_key() {
    insta::assert_snapshot!(table(CASES.iter().map(|case| (*case).to_owned())));
}

#[test]
fn properties_that_would_break_a_promise_are_refused_with_the_reason() {
    insta::assert_snapshot!(table(
        PROPERTIES
            .iter()
            .map(|case| format!("[kafka.properties]\n{case}"))
    ));
}

#[test]
fn properties_that_keep_every_promise_are_taken() {
    for property in [
        "enable.auto.commit = false",
        "auto.offset.reset = \"earliest\"",
        "enable.idempotence = true",
        "acks = \"all\"",
        "acks = -1",
        "partition.assignment.strategy = \"cooperative-sticky\"",
        "group.protocol = \"consumer\"\ngroup.remote.assignor = \"uniform\"",
        "isolation.level = \"read_committed\"",
        "max.in.flight.requests.per.connection = 5",
        "client.id = \"a\"\nclient.rack = \"b\"\ndebug = \"cgrp\"",
        "session.timeout.ms = 30000\nmax.poll.interval.ms = 120000",
        "statistics.interval.ms = 5000",
        "message.max.bytes = 1048576",
        "ssl.endpoint.identification.algorithm = \"none\"",
    ] {
        let read = read(&format!("[kafka.properties]\n{property}"), &[]);
        assert!(read.is_ok(), "{property}: {}", read.unwrap_err());
    }
}

fn table(cases: impl Iterator<Item = String>) -> String {
    let mut table = String::new();
    for case in cases {
        let faults =
            read(&case, &[("SHORT", "abc"), ("LONG", "0123456789abcdef")]).expect_err(&case);
        writeln!(
            table,
            "{}\n    {}\n",
            case.replace('\n', " ⏎ "),
            faults.to_string().replace('\n', "\n    ")
        )
        .unwrap();
    }
    table
}
