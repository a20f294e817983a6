//! Says what happens inside: metrics, readiness and the log. It decides nothing that the service does.
//!
//! Every metric is declared in [`declared`]; names and labels are a promise to dashboards and alerts. No label ever holds
//! what a record or a provider says: only members of closed sets, names from the configuration, topics and partitions.

pub mod declared;
pub mod duplicate_window;
pub mod log;
pub mod metrics;
pub mod status;
pub mod troubles;
