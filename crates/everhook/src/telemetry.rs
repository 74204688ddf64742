//! The log: to standard error, as text for people or JSON for programs. Never payloads, secrets or keys.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, filter::filter_fn, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::config::LogFormat;

/// What is logged if nothing is said. The pool of connections tells of each one that breaks; what follows from that is told once, by whoever needed it.
const DEFAULT_FILTER: &str = "info,deadpool.postgres=off";

/// Starts the log. `EVERHOOK_LOG`, or else `RUST_LOG`, says what is logged. A second call changes nothing.
pub fn start(format: LogFormat) {
    let said = std::env::var("EVERHOOK_LOG").or_else(|_| std::env::var("RUST_LOG"));
    let filter = EnvFilter::builder().parse_lossy(said.as_deref().unwrap_or(DEFAULT_FILTER));
    let registry = tracing_subscriber::registry().with(filter).with(filter_fn(|about| is_ours_to_tell(about.target())));
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    // It fails only if a log was started before, as tests in one process do.
    let _ = match format {
        LogFormat::Text => registry.with(layer).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
}

/// Whether a part of the program may write to the log. The AMQP library logs whole messages that a broker returned, and as errors what
/// Everhook handles and tells in its own words; no setting turns that on.
fn is_ours_to_tell(target: &str) -> bool {
    target.split("::").next() != Some("lapin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_break_are_not_told_one_by_one_unless_somebody_asks() {
        let filter = EnvFilter::builder().parse(DEFAULT_FILTER).unwrap();
        assert_eq!(filter.to_string(), "deadpool.postgres=off,info");
    }

    #[test]
    fn a_library_that_would_log_payloads_is_kept_silent() {
        assert!(!is_ours_to_tell("lapin::returned_messages") && !is_ours_to_tell("lapin"));
        assert!(is_ours_to_tell("everhook::wiring") && is_ours_to_tell("lapin_like"));
    }
}
