//! The `sendonce` binary.

fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    sendonce::cli::run()
}
