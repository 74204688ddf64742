//! `everhook serve`: runs the server until it is told to stop, or its store breaks.

use std::cell::Cell;

use super::stop_signal::StopSignal;
use crate::{config::ServeArgs, telemetry, wiring};

/// Runs the server.
///
/// # Errors
/// Says why it could not start, or that its store broke.
pub async fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let config = args.load()?.config;
    telemetry::start(config.log_format);
    let mut stop = StopSignal::listen()?;
    let shares = wiring::shares(&config);
    let server = wiring::bind(&config, shares).await?;
    let is_told = Cell::new(false);
    let listens = || {
        if !is_told.replace(true) {
            anstream::println!("Everhook listens on http://{}", server.address);
        }
    };
    // A start without the database may take as long as that is away.
    let running = tokio::select! {
        running = wiring::start_at(&server, &config, shares, listens) => running?,
        () = stop.received() => {
            tracing::info!("shutting down before the start was complete; requests in progress may finish");
            server.stop(wiring::STOP_GRACE).await;
            return Ok(());
        }
    };
    listens();
    if let Some(key) = &running.admin_key {
        anstream::println!("Admin key, shown only now: {key}");
    }
    tokio::select! {
        () = stop.received() => {}
        () = running.broken() => {
            anyhow::bail!("the store failed to write to disk and has stopped: see the log, then start again");
        }
    }
    tracing::info!("shutting down; requests in progress may finish");
    running.stop().await;
    Ok(())
}
