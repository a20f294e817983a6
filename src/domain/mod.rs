//! Decides, and does nothing: no I/O, no clock, no dice, no logging. Time and chance arrive as arguments, and what is
//! to be done leaves as a value.

pub mod account_gate;
pub mod attempt;
pub mod breaker;
pub mod classify;
pub mod dead_letter;
pub mod dispatch;
pub mod idempotency_key;
pub mod intent;
pub mod key_ring;
pub mod lanes;
pub mod ledger_entry;
pub mod ledger_log;
mod length_prefixed;
pub mod offset_tracker;
pub mod position;
pub mod profile;
pub mod recipient_waits;
pub mod reconcile;
pub mod record;
pub mod rejection_limit;
pub mod render;
pub mod retry;
pub mod retry_after;
pub mod segments;
pub mod signing;
pub mod time;
pub mod token;
