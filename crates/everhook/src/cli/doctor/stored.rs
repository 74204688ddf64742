//! How much is kept: as the server says it, or as the store itself does where no server runs.

use std::path::Path;

use everhook_adapters::sqlite::{DATABASE_FILE, stored_at_rest};
use everhook_core::{
    ports::{Retention as _, Stored},
    time::Timestamp,
};
use serde_json::{Value, json};

use super::{
    growth,
    report::{Check, Report, StoredReport},
    server::{Found, now},
    services, store_name,
};
use crate::config::Config;

pub(super) async fn examine(config: &Config, found: Option<&Found>, since: Option<&Path>, report: &mut Report) {
    let storage = match found {
        Some(found) => found.storage.clone(),
        None => match at_rest(config).await {
            Ok(stored) => stored.map(|stored| as_json(&stored)),
            Err(why) => {
                return report.add(Check::warning(
                    "stored data",
                    why,
                    "start the server, and run this command with its URL and an admin key",
                ));
            }
        },
    };
    let Some(storage) = storage else { return };
    let place = if found.is_some() { "the store of the server".to_owned() } else { store_name(config) };
    let oldest = storage["oldest_event_at"].as_str().and_then(Timestamp::parse_rfc3339);
    let oldest_event_seconds = oldest.map(|oldest| now().since(oldest).as_secs());
    let growth = since.and_then(|file| match growth::since(file, &storage, now()) {
        Ok(growth) => Some(growth),
        Err(why) => {
            let advice = "name a file that `everhook doctor --json` printed";
            report.add(Check::warning("growth", format!("cannot use {}: {why}", file.display()), advice));
            None
        }
    });
    report.set_stored(StoredReport { place, storage, oldest_event_seconds, growth });
}

/// What the store keeps while no server answers; `None` if there is none yet.
async fn at_rest(config: &Config) -> Result<Option<Stored>, String> {
    if config.database.is_some() {
        let store = services::open(config).await.map_err(|error| format!("{error:#}"))?;
        return store.stored().await.map(Some).map_err(|error| format!("{:#}", anyhow::Error::from(error)));
    }
    if !config.data.join(DATABASE_FILE).exists() {
        return Ok(None);
    }
    stored_at_rest(&config.data).map(Some).map_err(|error| format!("{:#}", anyhow::Error::from(error)))
}

/// As the server would say it, without what only it knows.
fn as_json(stored: &Stored) -> Value {
    let table = |table: &everhook_core::ports::StoredTable| json!({ "name": table.name, "rows": table.rows.number(), "rows_are": table.rows.as_str(), "bytes": table.bytes });
    let shown = |at: Option<Timestamp>| at.map(|at| at.to_string());
    json!({
        "bytes": stored.bytes,
        "free_bytes": stored.free_bytes,
        "tables": stored.tables.iter().map(table).collect::<Vec<_>>(),
        "oldest_event_at": shown(stored.oldest_event_at),
        "oldest_dead_letter_at": shown(stored.oldest_dead_letter_at),
    })
}
