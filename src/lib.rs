//! `sendonce`: the Kafka consumer that sends each message once.
//!
//! The folders form a line, and each imports only from those to its left:
//! `domain` → `config` → `telemetry` → `adapters` → `pipeline` → `cli` → `main.rs`.
//! `stub_provider` imports nothing of ours, so that it cannot share our mistakes.

pub mod adapters;
pub mod cli;
pub mod config;
pub mod domain;
pub mod pipeline;
pub mod stub_provider;
pub mod telemetry;
