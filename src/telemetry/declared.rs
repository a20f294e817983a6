//! Every metric: its name, what it counts, in which unit, its labels and the reason of its buckets. `dashboards/METRICS.md` is
//! written from here. Names and labels only ever get more; a change to one breaks dashboards and alerts.
//!
//! Longer than 500 lines: each metric is declared in full, and all in one place.

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    /// Its name. Counters end in `_total`; the unit comes last but for that.
    pub name: &'static str,
    /// What it counts or shows, for those who have never read the code.
    pub help: &'static str,
    /// In what.
    pub unit: &'static str,
    /// By what it is told apart.
    pub labels: &'static [Label],
    /// How it moves.
    pub kind: Kind,
}

/// One label of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Which values it can have: always a bounded set.
    pub values: &'static str,
}

/// How a metric moves.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Only up, from zero at each start.
    Counter,
    /// Up and down.
    Gauge,
    /// Counts by size.
    Histogram {
        /// The upper bounds, without infinity.
        buckets: &'static [f64],
        /// Why these.
        because: &'static str,
    },
}

const PROVIDER: Label = Label {
    name: "provider",
    values: "the configured providers, and `other` for one that is configured no more",
};
const DEAD_LETTER_REASON: Label = Label {
    name: "reason",
    values: "the reasons of dead letters",
};
const TOPIC: Label = Label {
    name: "topic",
    values: "`kafka.topic`, and that of each `[lane.NAME]`",
};
const PARTITION: Label = Label {
    name: "partition",
    values: "the partitions that are assigned to this instance; gone when they are",
};

/// See `help`.
pub const RECORDS: Declared = Declared {
    name: "sendonce_records_total",
    help: "Records read from the topics of intents, those that came again included.",
    unit: "records",
    labels: &[],
    kind: Kind::Counter,
};

/// See `help`.
pub const IGNORED: Declared = Declared {
    name: "sendonce_ignored_total",
    help: "Records that ask for nothing to be sent: tombstones, deletions and heartbeats of the outbox.",
    unit: "records",
    labels: &[Label {
        name: "reason",
        values: "tombstone, deletion, heartbeat",
    }],
    kind: Kind::Counter,
};

/// See `help`.
pub const OUTCOMES: Declared = Declared {
    name: "sendonce_outcomes_total",
    help: "Intents that reached their end at a provider or after trying to. What never became an intent of a provider is in sendonce_dead_letters_total alone.",
    unit: "intents",
    labels: &[
        PROVIDER,
        Label {
            name: "outcome",
            values: "accepted, dead_lettered",
        },
    ],
    kind: Kind::Counter,
};

/// See `help`.
pub const ATTEMPTS: Declared = Declared {
    name: "sendonce_attempts_total",
    help: "Attempts by what their answer means.",
    unit: "attempts",
    labels: &[
        PROVIDER,
        Label {
            name: "verdict",
            values: "the verdicts",
        },
    ],
    kind: Kind::Counter,
};

/// See `help`.
pub const UNMATCHED_ANSWERS: Declared = Declared {
    name: "sendonce_unmatched_answers_total",
    help: "Answers that no rule of the profile and no status default caught; they count as unknown. A profile to be mended.",
    unit: "answers",
    labels: &[PROVIDER],
    kind: Kind::Counter,
};

/// See `help`.
pub const LOOKUPS: Declared = Declared {
    name: "sendonce_lookups_total",
    help: "Look-ups of unknown outcomes, by what they proved.",
    unit: "lookups",
    labels: &[
        PROVIDER,
        Label {
            name: "finding",
            values: "present, absent, not_yet, nothing",
        },
    ],
    kind: Kind::Counter,
};

/// See `help`.
pub const MESSAGE_IDS_ABSENT: Declared = Declared {
    name: "sendonce_message_ids_absent_total",
    help: "Accepted intents for which the provider gave no message id: they cannot be traced at the provider.",
    unit: "intents",
    labels: &[PROVIDER],
    kind: Kind::Counter,
};

/// See `help`.
pub const PROVIDER_CIRCUIT: Declared = Declared {
    name: "sendonce_provider_circuit",
    help: "1 at the state of the provider's circuit, else 0. Open: it counts as down, and nothing is sent but a probe from time to time. Half-open: that it is back is being found out.",
    unit: "0 or 1",
    labels: &[
        PROVIDER,
        Label {
            name: "state",
            values: "closed, open, half_open",
        },
    ],
    kind: Kind::Gauge,
};

/// See `help`.
pub const PROVIDER_CIRCUIT_OPENED: Declared = Declared {
    name: "sendonce_provider_circuit_opened_total",
    help: "How often the provider's circuit has opened, by the failure that made it. Probes that fail do not count.",
    unit: "openings",
    labels: &[
        PROVIDER,
        Label {
            name: "reason",
            values: "dns, connect, tls, timeout, broken, server_error, misconfigured, account_hold, token",
        },
    ],
    kind: Kind::Counter,
};

/// See `help`.
pub const TEMPLATES_PAUSED: Declared = Declared {
    name: "sendonce_templates_paused",
    help: "Templates that the provider rejects too often: their other intents wait until one is accepted. The log names them.",
    unit: "templates",
    labels: &[PROVIDER],
    kind: Kind::Gauge,
};

/// See `help`.
pub const TEMPLATE_PAUSES: Declared = Declared {
    name: "sendonce_template_pauses_total",
    help: "How often a template was paused because the provider rejected it too often.",
    unit: "pauses",
    labels: &[PROVIDER],
    kind: Kind::Counter,
};

/// See `help`.
pub const SUPPRESSED: Declared = Declared {
    name: "sendonce_suppressed_total",
    help: "Records that came again and were not sent again: settled before (ledger), or settled while this one waited (in_flight).",
    unit: "records",
    labels: &[Label {
        name: "reason",
        values: "ledger, in_flight",
    }],
    kind: Kind::Counter,
};

/// See `help`.
pub const PROVIDER_REPLAYS: Declared = Declared {
    name: "sendonce_provider_replays_total",
    help: "Answers that the provider gave from its memory of the key: retries that would have been duplicates without it.",
    unit: "answers",
    labels: &[PROVIDER],
    kind: Kind::Counter,
};

/// See `help`.
pub const SUSPECTED_DUPLICATES: Declared = Declared {
    name: "sendonce_suspected_duplicates_total",
    help: "First attempts whose key the provider already knew: a lost ledger, or another user of the key namespace.",
    unit: "intents",
    labels: &[PROVIDER],
    kind: Kind::Counter,
};

/// See `help`.
pub const DUPLICATE_RATE: Declared = Declared {
    name: "sendonce_duplicate_rate",
    help: "Share of the last five minutes' ends of intents (outcomes and suppressed records) that were suppressed, had replayed answers, or are suspected duplicates. 0 when idle.",
    unit: "share, 0 to 1",
    labels: &[Label {
        name: "kind",
        values: "suppressed, replayed, suspected",
    }],
    kind: Kind::Gauge,
};

/// See `help`.
pub const DEAD_LETTERS: Declared = Declared {
    name: "sendonce_dead_letters_total",
    help: "Dead letters that the broker acknowledged.",
    unit: "dead letters",
    labels: &[DEAD_LETTER_REASON],
    kind: Kind::Counter,
};

/// See `help`.
pub const DEAD_LETTER_DEPTH: Declared = Declared {
    name: "sendonce_dead_letter_depth",
    help: "Dead letters of this instance's ledger that nobody has redriven, discarded or resolved; where the ledger is replicated, those of the partitions that it owns.",
    unit: "dead letters",
    labels: &[DEAD_LETTER_REASON],
    kind: Kind::Gauge,
};

/// See `help`.
pub const UNKNOWN_OPEN: Declared = Declared {
    name: "sendonce_unknown_open",
    help: "Intents of which nobody knows whether they went out, those dead-lettered as outcome_unknown included.",
    unit: "intents",
    labels: &[],
    kind: Kind::Gauge,
};

/// See `help`.
pub const OPEN_INTENTS: Declared = Declared {
    name: "sendonce_open_intents",
    help: "Records that have been read and have not reached their end.",
    unit: "intents",
    labels: &[TOPIC],
    kind: Kind::Gauge,
};

/// See `help`.
pub const OLDEST_OPEN: Declared = Declared {
    name: "sendonce_oldest_open_seconds",
    help: "Age of the oldest open record, by its timestamp. 0 when nothing is open.",
    unit: "seconds",
    labels: &[TOPIC],
    kind: Kind::Gauge,
};

/// See `help`.
pub const UNCOMMITTED_SPAN: Declared = Declared {
    name: "sendonce_uncommitted_span",
    help: "Records from the first open one of a partition to the last one read. At kafka.span_max the partition pauses.",
    unit: "records",
    labels: &[TOPIC, PARTITION],
    kind: Kind::Gauge,
};

/// See `help`.
pub const CONSUMER_LAG: Declared = Declared {
    name: "sendonce_consumer_lag",
    help: "Records of a partition behind the last one that was committed.",
    unit: "records",
    labels: &[TOPIC, PARTITION],
    kind: Kind::Gauge,
};

/// See `help`.
pub const ATTEMPT_DURATION: Declared = Declared {
    name: "sendonce_attempt_duration_seconds",
    help: "From an attempt's durable start to its answer, or to the end of the wait for one.",
    unit: "seconds",
    labels: &[PROVIDER],
    kind: Kind::Histogram {
        buckets: &[
            0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 40.0,
        ],
        because: "From a provider in the same rack to the default end of a request (5 s to connect and 30 s to be answered).",
    },
};

/// See `help`.
pub const SEND_LATENCY: Declared = Declared {
    name: "sendonce_send_latency_seconds",
    help: "From a record's timestamp to its acceptance by the provider: what a person who waits for a code feels.",
    unit: "seconds",
    labels: &[PROVIDER, TOPIC],
    kind: Kind::Histogram {
        buckets: &[
            0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
            3600.0, 14_400.0, 86_400.0,
        ],
        because: "From at once to intents.max_age (a day): within seconds a code is in time, within minutes a backlog shows, beyond lies an outage.",
    },
};

/// See `help`.
pub const LEDGER_FLUSH: Declared = Declared {
    name: "sendonce_ledger_flush_seconds",
    help: "One group commit of the ledger: write, flush and fdatasync. Every attempt waits for one.",
    unit: "seconds",
    labels: &[],
    kind: Kind::Histogram {
        buckets: &[
            0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
            5.0,
        ],
        because: "From a local NVMe (a tenth of a millisecond) over a network volume (some milliseconds) to a disk in trouble.",
    },
};

/// See `help`.
pub const LEDGER_ENTRIES: Declared = Declared {
    name: "sendonce_ledger_entries",
    help: "Stories in the ledger, each counted once for each generation that holds a version of it.",
    unit: "entries",
    labels: &[],
    kind: Kind::Gauge,
};

/// See `help`.
pub const LEDGER_BYTES: Declared = Declared {
    name: "sendonce_ledger_bytes",
    help: "The ledger's size on disk.",
    unit: "bytes",
    labels: &[],
    kind: Kind::Gauge,
};

/// See `help`.
pub const LEDGER_DISK_FREE: Declared = Declared {
    name: "sendonce_ledger_disk_free_bytes",
    help: "What is left for us on the ledger's file system. At none, nothing is sent until there is room again.",
    unit: "bytes",
    labels: &[],
    kind: Kind::Gauge,
};

/// See `help`.
pub const COMMITS: Declared = Declared {
    name: "sendonce_commits_total",
    help: "Commits of positions: taken (ok), too late because the group had moved on (stale), or failed and tried again (failed).",
    unit: "commits",
    labels: &[Label {
        name: "result",
        values: "ok, stale, failed",
    }],
    kind: Kind::Counter,
};

/// See `help`.
pub const REBALANCES: Declared = Declared {
    name: "sendonce_rebalances_total",
    help: "Changes of this instance's partitions.",
    unit: "rebalances",
    labels: &[Label {
        name: "kind",
        values: "assigned, revoked, lost",
    }],
    kind: Kind::Counter,
};

/// See `help`.
pub const CONSUMER_STALLED: Declared = Declared {
    name: "sendonce_consumer_stalled",
    help: "1 while records wait and this instance has not moved for kafka.stall_after, else 0.",
    unit: "0 or 1",
    labels: &[],
    kind: Kind::Gauge,
};

/// See `help`.
pub const PANICS: Declared = Declared {
    name: "sendonce_panics_total",
    help: "Panics while working on a record; each costs one attempt, and the work begins again from the ledger. A bug to be reported.",
    unit: "panics",
    labels: &[],
    kind: Kind::Counter,
};

/// See `help`.
pub const LEDGER_TOPIC_FOREIGN: Declared = Declared {
    name: "sendonce_ledger_topic_foreign_total",
    help: "Records in the ledger topic that are none of ours, passed over. Nobody else should write there.",
    unit: "records",
    labels: &[],
    kind: Kind::Counter,
};

/// See `help`.
pub const BUILD: Declared = Declared {
    name: "sendonce_build_info",
    help: "Always 1; its label says which version runs.",
    unit: "1",
    labels: &[Label {
        name: "version",
        values: "this build's version",
    }],
    kind: Kind::Gauge,
};

/// All of them, in the order in which they are best read.
pub const ALL: &[Declared] = &[
    RECORDS,
    IGNORED,
    OUTCOMES,
    ATTEMPTS,
    UNMATCHED_ANSWERS,
    LOOKUPS,
    MESSAGE_IDS_ABSENT,
    PROVIDER_CIRCUIT,
    PROVIDER_CIRCUIT_OPENED,
    TEMPLATES_PAUSED,
    TEMPLATE_PAUSES,
    SUPPRESSED,
    PROVIDER_REPLAYS,
    SUSPECTED_DUPLICATES,
    DUPLICATE_RATE,
    DEAD_LETTERS,
    DEAD_LETTER_DEPTH,
    UNKNOWN_OPEN,
    OPEN_INTENTS,
    OLDEST_OPEN,
    UNCOMMITTED_SPAN,
    CONSUMER_LAG,
    ATTEMPT_DURATION,
    SEND_LATENCY,
    LEDGER_FLUSH,
    LEDGER_ENTRIES,
    LEDGER_BYTES,
    LEDGER_DISK_FREE,
    COMMITS,
    REBALANCES,
    CONSUMER_STALLED,
    PANICS,
    LEDGER_TOPIC_FOREIGN,
    BUILD,
];

/// The declarations as a page of Markdown: `dashboards/METRICS.md`.
pub fn markdown() -> String {
    use std::fmt::Write as _;

    let mut page = String::from(
        "# Metrics\n\nWritten from `src/telemetry/declared.rs`; a test keeps the two in step \
         (`UPDATE_METRICS=1 cargo test --lib telemetry::declared` writes this page anew).\n\n\
         | Metric | Kind | Unit | Labels | What it tells |\n| --- | --- | --- | --- | --- |\n",
    );
    let mut buckets = String::from("\n## Why these buckets\n\n");
    for metric in ALL {
        let labels: Vec<String> = metric
            .labels
            .iter()
            .map(|label| format!("`{}`: {}", label.name, label.values))
            .collect();
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram { because, .. } => {
                // Writing to a string cannot fail.
                let _ = writeln!(buckets, "- `{}`: {because}", metric.name);
                "histogram"
            }
        };
        let _ = writeln!(
            page,
            "| `{}` | {kind} | {} | {} | {} |",
            metric.name,
            metric.unit,
            labels.join("; "),
            metric.help
        );
    }
    page + &buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_help_follow_the_conventions_of_prometheus() {
        for Declared {
            name,
            help,
            labels,
            kind,
            ..
        } in ALL
        {
            let snake = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(name.starts_with("sendonce_") && snake(name), "{name}");
            let counter = matches!(kind, Kind::Counter);
            assert_eq!(name.ends_with("_total"), counter, "{name}");
            for reserved in ["_count", "_sum", "_bucket"] {
                assert!(!name.ends_with(reserved), "{name}");
            }
            for unit in ["millis", "_ms", "minutes", "_mib", "percent"] {
                assert!(!name.contains(unit), "{name}: base units only");
            }
            assert!(help.ends_with('.') && !help.contains('|'), "{name}: {help}");
            assert!(
                labels
                    .iter()
                    .all(|label| snake(label.name) && label.name != "le"),
                "{name}"
            );
            if let Kind::Histogram { buckets, because } = kind {
                assert!(
                    buckets.is_sorted() && buckets.iter().all(|bound| *bound > 0.0),
                    "{name}"
                );
                assert!(name.ends_with("_seconds") && !because.is_empty(), "{name}");
            }
        }
        let mut names: Vec<_> = ALL.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn the_page_of_metrics_is_in_step_with_the_declarations() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/dashboards/METRICS.md");
        if std::env::var_os("UPDATE_METRICS").is_some() {
            std::fs::write(path, markdown()).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(path).unwrap_or_default(),
            markdown()
        );
    }
}
