//! The `sendonce` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    sendonce::cli::run()
}
