//! The `sendonce` binary.

fn main() -> anyhow::Result<std::process::ExitCode> {
    sendonce::cli::run()
}
