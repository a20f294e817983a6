//! The real binary on the embedded broker: what `cargo test` alone can show.

mod credentials;
mod deploys;
mod dispatching;
mod disputing;
mod following;
mod foreign_bytes;
mod kafka_input;
mod keys;
mod lanes;
mod ledger_directory;
mod looking_up;
mod main_job;
mod new_vendor;
mod outages;
mod outcomes;
mod panicking;
mod privacy;
mod push_tokens;
mod rejections;
mod segments;
mod set_aside;
mod shapes;
mod tenures;
mod transport;
mod verdicts;
