//! What needs a real Kafka.

mod brokers;
mod tokens;
