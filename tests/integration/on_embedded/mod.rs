//! The real binary on the embedded broker: what `cargo test` alone can show.

mod main_job;
