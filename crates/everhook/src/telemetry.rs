//! The log: to standard error, as text for people or JSON for programs. Never payloads, secrets or keys.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::config::LogFormat;

/// What is logged if nothing is said.
const DEFAULT_FILTER: &str = "info";

/// Starts the log. `EVERHOOK_LOG`, or else `RUST_LOG`, says what is logged. A second call changes nothing.
pub fn start(format: LogFormat) {
    let said = std::env::var("EVERHOOK_LOG").or_else(|_| std::env::var("RUST_LOG"));
    let filter = EnvFilter::builder().parse_lossy(said.as_deref().unwrap_or(DEFAULT_FILTER));
    let registry = tracing_subscriber::registry().with(filter);
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    // It fails only if a log was started before, as tests in one process do.
    let _ = match format {
        LogFormat::Text => registry.with(layer).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
}
