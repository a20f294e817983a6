//! The ledger topic: appends to it, and reads it from any place to its end. What a record in it means, `domain::ledger_log`
//! decides.

mod appender;
mod encoding;
mod reader;

pub use appender::LedgerAppender;
pub use encoding::Unreadable;
pub use reader::{LedgerReader, Told};
