//! Builds the service and runs it: intake, workers, committer, shutdown. The committer alone commits.

mod account_terms;
pub mod accounts;
mod asking_again;
pub mod committer;
pub mod depth;
pub mod explained;
pub mod free_space;
pub mod intake;
pub mod leaving;
pub mod ledger_log;
pub mod lobby;
pub mod occupancy;
pub mod order;
pub mod owning;
pub mod places;
pub mod recipients;
pub mod rejections;
pub mod service;
pub mod tenure;
pub mod tenures;
pub mod tokens;
pub mod topics;
pub mod upkeep;
pub mod work_threads;
pub mod worker;
