//! What `demo` does to its server: makes the endpoints, publishes sample events, and looks for dead letters.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use anyhow::Context as _;
use everhook_core::signing::VerifyingKey;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::receiver::{Behavior, Receiver};
use crate::cli::client::{Connection, Refusal, Server};

/// The endpoints by the ids that the server gave them.
pub type EndpointNames = HashMap<String, &'static str>;

/// How many dead letters are asked for at a time: far more than appear between two looks.
const DEAD_LETTERS_PAGE: usize = 50;
/// How many dead letters are remembered as shown; several pages, so that none is shown twice.
const SHOWN_MAX: usize = 1_000;

/// The settings of an endpoint: what it wants, and how patient the sender should be with it.
fn settings(endpoint: Behavior, receiver: SocketAddr) -> Value {
    let name = endpoint.name();
    let mut settings = json!({"name": format!("demo {name}"), "url": format!("http://{receiver}/{name}")});
    let specific = match endpoint {
        Behavior::Steady => json!({"event_types": ["order.*"]}),
        Behavior::Flaky => json!({
            "event_types": ["order.*", "user.*"], "timeout_ms": 1_000,
            "retry_config": {"max_attempts": 5, "base_delay_ms": 1_000, "max_delay_ms": 10_000},
        }),
        Behavior::Slow => json!({"event_types": ["user.*"], "timeout_ms": 5_000}),
        // Two tries a second apart: dead letters appear within seconds.
        Behavior::Broken => json!({
            "event_types": ["invoice.*"],
            "retry_config": {"max_attempts": 2, "base_delay_ms": 1_000, "max_delay_ms": 1_000},
        }),
        Behavior::Gone => json!({"event_types": ["legacy.*"]}),
    };
    let fields = specific.as_object().expect("written above as an object").clone();
    settings.as_object_mut().expect("written above as an object").extend(fields);
    settings
}

/// Makes the demo's endpoints, or points those of an earlier demo in the same folder to this receiver.
///
/// # Errors
/// When the server refuses one.
pub async fn make_endpoints(server: &Arc<Server>, receiver: &Receiver) -> anyhow::Result<EndpointNames> {
    let mut connection = Connection::new(server.clone());
    let mut names = EndpointNames::new();
    for endpoint in Behavior::ALL {
        let id = make_endpoint(&mut connection, endpoint, receiver).await.with_context(|| format!("the endpoint `{}`", endpoint.name()))?;
        names.insert(id, endpoint.name());
    }
    Ok(names)
}

async fn make_endpoint(connection: &mut Connection, endpoint: Behavior, receiver: &Receiver) -> anyhow::Result<String> {
    let uid = format!("demo-{}", endpoint.name());
    let settings = settings(endpoint, receiver.address);
    let with = |name: &str, value: Value| {
        let mut settings = settings.clone();
        settings[name] = value;
        settings
    };
    // An earlier demo's endpoint may have been disabled by its 410.
    let changed = connection.ask(Method::PUT, &format!("/v1/endpoints/{uid}"), Some(&with("enabled", json!(true)))).await;
    let made = match changed {
        Err(refused) if is_not_found(&refused) => connection.ask(Method::POST, "/v1/endpoints", Some(&with("uid", json!(uid)))).await?,
        changed => changed?,
    };
    let id = made["id"].as_str().context("the server returned an endpoint without an id")?.to_owned();
    let secret = connection.ask(Method::GET, &format!("/v1/endpoints/{id}/secret"), None).await?;
    let secret = secret["secret"].as_str().context("the server returned no secret")?;
    receiver.verify_with(endpoint, VerifyingKey::parse(secret).context("the server's secret")?);
    Ok(id)
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == StatusCode::NOT_FOUND)
}

/// The types of the sample events, in turns. One in ten is for the endpoint that is gone, and then reaches nobody.
const TYPES: [&str; 10] = [
    "order.created",
    "user.created",
    "invoice.overdue",
    "order.paid",
    "legacy.export",
    "user.updated",
    "order.shipped",
    "invoice.overdue",
    "order.refunded",
    "user.deleted",
];

/// The sample event with this number.
pub fn sample(number: u64) -> Value {
    let event_type = TYPES[usize::try_from(number % TYPES.len() as u64).expect("below 10")];
    let data = match event_type.split_once('.').map_or("", |(family, _)| family) {
        "order" => json!({"order_id": 1_000 + number, "total": "49.90", "currency": "EUR"}),
        "user" => json!({"user_id": 500 + number, "email": format!("user{number}@example.com")}),
        "invoice" => json!({"invoice_id": format!("INV-{number:05}"), "days_overdue": number % 30}),
        _ => json!({"number": number}),
    };
    json!({"type": event_type, "data": data, "source": "demo"})
}

/// Finds dead letters that were not shown yet.
pub struct DeadLetters {
    connection: Connection,
    shown: VecDeque<String>,
}

impl DeadLetters {
    /// Takes what is dead already, from an earlier demo in the same folder, as shown.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn watch(server: &Arc<Server>) -> anyhow::Result<Self> {
        let mut watch = Self { connection: Connection::new(server.clone()), shown: VecDeque::new() };
        watch.fresh().await?;
        Ok(watch)
    }

    /// Those that appeared since the last look, the oldest first.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn fresh(&mut self) -> anyhow::Result<Vec<Value>> {
        let page = self.connection.ask(Method::GET, &format!("/v1/dlq?limit={DEAD_LETTERS_PAGE}"), None).await?;
        let letters = page["data"].as_array().cloned().unwrap_or_default();
        let mut fresh: Vec<Value> = letters.into_iter().filter(|letter| !self.was_shown(letter)).collect();
        fresh.sort_by(|one, other| one["last_failure_at"].as_str().cmp(&other["last_failure_at"].as_str()));
        for letter in &fresh {
            self.shown.push_back(letter["id"].to_string());
        }
        self.shown.drain(..self.shown.len().saturating_sub(SHOWN_MAX));
        Ok(fresh)
    }

    fn was_shown(&self, letter: &Value) -> bool {
        let id = letter["id"].to_string();
        self.shown.iter().any(|shown| *shown == id)
    }

    /// Whether every delivery has ended.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn is_all_settled(&mut self) -> anyhow::Result<bool> {
        let open = self.connection.ask(Method::GET, "/v1/deliveries?status=pending&limit=1", None).await?;
        Ok(open["data"].as_array().is_none_or(Vec::is_empty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_events_reach_every_endpoint_within_five() {
        let types: Vec<String> = (0..5).map(|number| sample(number)["type"].as_str().expect("a type").to_owned()).collect();
        for family in ["order.", "user.", "invoice.", "legacy."] {
            assert!(types.iter().any(|event_type| event_type.starts_with(family)), "{family}");
        }
    }
}
