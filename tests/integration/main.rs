//! The product over real sockets: one binary, so that it is linked once. Its rooms:
//!
//! - `on_kafka`: suites against Apache Kafka, left out unless `SENDONCE_TEST_KAFKA=1`;
//! - `through_toxiproxy`: suites over connections that fail, left out unless `SENDONCE_TEST_TOXIPROXY=1`;
//! - `traced`: what the system calls show, left out where there is no strace;
//! - `kafka_cluster`, `toxiproxy`: start and end what those suites talk to, through the scripts under `tests/`;
//! - `command_line`: what is typed, as the binary answers it, with librdkafka's embedded cluster;
//! - `kafka_view`: what any broker holds; `ledger_view`: what a worker's ledger holds;
//! - `rehearsals`: `demo` and `bench` in small;
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
mod http;
mod kafka_cluster;
mod kafka_view;
mod ledger_view;
mod on_embedded;
mod on_kafka;
mod product;
mod rehearsals;
mod shipped_profiles;
mod stub;
mod through_toxiproxy;
mod toxiproxy;
mod traced;
mod waiting;
