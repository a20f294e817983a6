//! Builds the service and runs it: intake, workers, committer, shutdown. The committer alone commits.

pub mod order;
pub mod tenure;
