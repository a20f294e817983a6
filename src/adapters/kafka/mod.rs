//! Speaks to Kafka: reads as a member of the group, commits what it is told to, produces dead letters, looks at topics.
//! It decides neither what is committed nor what is set aside.
//!
//! Split partition queues are avoided (wake-ups were lost after a rebalance in rust-rdkafka #638 and #665), and so are
//! commits that report through a callback, which may never come.

pub mod client;
pub mod consumer;
pub mod dead_letters;
mod headers;
pub mod ledger_topic;
pub mod oauth;
pub mod publisher;
pub mod sides;
pub mod speaker;
pub mod survey;
pub mod topics;
