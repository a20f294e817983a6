//! The product over real sockets: one binary, so that it is linked once. Its rooms:
//!
//! - `on_kafka`: suites against Apache Kafka, left out unless `SENDONCE_TEST_KAFKA=1`;
//! - `kafka_cluster`: starts and ends the brokers that those suites talk to.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc
)]

mod kafka_cluster;
mod on_kafka;
mod waiting;
