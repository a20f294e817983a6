//! The `sendonce` binary.

fn main() {}
