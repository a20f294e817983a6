//! What needs a real Kafka.

mod beginnings;
mod brokers;
mod kills;
mod lanes;
mod lost_disks;
mod membership;
mod place;
mod setting_aside;
mod shutdown;
mod tokens;
