//! The product over real sockets: one binary, so that it is linked once. Its rooms:
//!
//! - `on_kafka`: suites against Apache Kafka, left out unless `SENDONCE_TEST_KAFKA=1`;
//! - `through_toxiproxy`: suites over connections that fail, left out unless `SENDONCE_TEST_TOXIPROXY=1`;
//! - `outage_in_real_time`: three minutes without a provider, left out unless `SENDONCE_TEST_OUTAGE=1`;
//! - `traced`: what the system calls show, left out where there is no strace;
//! - `kafka_cluster`, `toxiproxy`: start and end what those suites talk to, through the scripts under `tests/`;
//! - `command_line`: what is typed, as the binary answers it, with librdkafka's embedded cluster;
//! - `rehearsals`: `demo` and `bench` in small;
//! - `on_embedded`: the product on the broker embedded in librdkafka, against providers that fail as real ones did;
//! - `protocol_model`: the protocol of the ledger topic, explored whole for small bounds; it needs no socket;
//! - `product`, `worker`: the real binary with its home; `stub`, `scripted`: the providers that it sends to;
//! - `standing`: what must hold in every case;
//! - `dead_letters`, `kafka_view`: what the brokers hold; `ledger_view`: what a worker's ledger holds;
//! - `shipped_profiles`: the profiles under config/providers/;
//! - `waiting`: waits for other processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::missing_panics_doc
)]

mod command_line;
mod dead_letters;
mod http;
mod kafka_cluster;
mod kafka_view;
mod ledger_view;
mod on_embedded;
mod on_kafka;
mod outage_in_real_time;
mod product;
mod protocol_model;
mod rehearsals;
mod scripted;
mod shipped_profiles;
mod standing;
mod stub;
mod through_toxiproxy;
mod toxiproxy;
mod traced;
mod two_lanes;
mod waiting;
mod worker;
