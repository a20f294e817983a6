//! What needs a real Kafka.

mod brokers;
mod kills;
mod tokens;
