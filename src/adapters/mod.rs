//! Touches the world: Kafka, the disk, providers over HTTP, the clock. Siblings do not import one another.

pub mod admin;
pub mod clock;
pub mod kafka;
pub mod ledger;
pub mod provider;
