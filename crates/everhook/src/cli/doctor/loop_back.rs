//! A delivery from the server to a receiver of this command's own: published, signed, sent and verified like any other.
//!
//! It is made in an application of its own, which is deleted afterwards in any case. A server that allows no private networks refuses such an endpoint,
//! and the check is skipped.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use bytes::Bytes;
use everhook_core::signing::VerifyingKey;
use http::Method;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::{
    report::Check,
    server::{Found, now},
};
use crate::cli::client::{Connection, Refusal};

const NAME: &str = "delivery";
/// How long the event may take: a person waits, and a server that is not overloaded takes milliseconds.
const ARRIVES_WITHIN: Duration = Duration::from_secs(15);
/// What the server sends meanwhile is one event, perhaps twice.
const REQUESTS_MAX: usize = 4;
/// How old a signature may be, as Standard Webhooks recommends.
const SIGNATURE_AGE_MAX_SECONDS: u64 = 300;
/// The type of the event.
const EVENT_TYPE: &str = "everhook.doctor";

/// A request that came.
struct Request {
    headers: HeaderMap,
    body: Bytes,
}

pub(super) async fn check(found: &Found) -> Check {
    if !found.has_key {
        return Check::skipped(NAME, "needs an API key");
    }
    let mut connection = Connection::new(found.server.clone());
    let application = match connection.ask(Method::POST, "/v1/applications", Some(&json!({ "name": "everhook doctor" }))).await {
        Ok(application) => application["id"].as_str().unwrap_or_default().to_owned(),
        Err(error) => return Check::skipped(NAME, format!("cannot create an application for it: {error:#}")),
    };
    let tried = deliver(found, &mut connection, &application).await;
    let deleted = connection.ask(Method::DELETE, &format!("/v1/applications/{application}"), None).await;
    match (tried, deleted) {
        (Ok(check), Ok(_)) => check,
        (Ok(_), Err(error)) => {
            Check::warning(NAME, format!("cannot delete the application {application} of the test: {error:#}"), "delete it")
        }
        (Err(error), _) => Check::problem(NAME, format!("{error:#}"), "see the log of the server"),
    }
}

async fn deliver(found: &Found, connection: &mut Connection, application: &str) -> anyhow::Result<Check> {
    let (address, mut requests) = receive(found).await.context("cannot listen for the test event")?;
    let endpoint = json!({
        "application_id": application, "url": format!("http://{address}/"), "event_types": [EVENT_TYPE], "retry_config": { "max_attempts": 1 },
    });
    let endpoint = match connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await {
        Ok(endpoint) => endpoint,
        Err(error) if error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == StatusCode::UNPROCESSABLE_ENTITY) => {
            return Ok(Check::skipped(NAME, format!("the server does not send to this machine: {error:#}")));
        }
        Err(error) => return Err(error),
    };
    let secret = connection.ask(Method::GET, &format!("/v1/endpoints/{}/secret", text(&endpoint, "id")), None).await?;
    let began = std::time::Instant::now();
    let event = json!({ "application_id": application, "type": EVENT_TYPE, "data": { "sent_by": "everhook doctor" } });
    let event = connection.ask(Method::POST, "/v1/events", Some(&event)).await.context("cannot publish the test event")?;
    let Ok(Some(request)) = tokio::time::timeout(ARRIVES_WITHIN, requests.recv()).await else {
        return Ok(not_arrived(connection, text(&event, "id"), address).await);
    };
    let took = began.elapsed();
    verify(&request, text(&secret, "secret")).context("a test event arrived, but its signature is wrong")?;
    Ok(Check::ok(NAME, format!("an event arrived, signed, {} ms after it was published", took.as_millis())))
}

/// A receiver at the address of this machine that the server is reached from.
async fn receive(found: &Found) -> anyhow::Result<(SocketAddr, mpsc::Receiver<Request>)> {
    let host = found.url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = found.url.port_or_known_default().unwrap_or_default();
    let own = TcpStream::connect((host, port)).await?.local_addr()?.ip();
    let listener = TcpListener::bind((own, 0)).await?;
    let address = listener.local_addr()?;
    let (sender, requests) = mpsc::channel(REQUESTS_MAX);
    let take = |State(sender): State<mpsc::Sender<Request>>, headers: HeaderMap, body: Bytes| async move {
        let _ = sender.try_send(Request { headers, body });
        StatusCode::NO_CONTENT
    };
    let router = Router::new().route("/", post(take)).with_state(sender);
    // It ends with this command.
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((address, requests))
}

/// What the server reports about an event that did not arrive.
async fn not_arrived(connection: &mut Connection, event: &str, address: SocketAddr) -> Check {
    let deliveries = connection.ask(Method::GET, &format!("/v1/events/{event}/deliveries"), None).await.unwrap_or_default();
    let delivery = &deliveries["data"][0];
    let why = delivery["last_error"].as_str().map_or_else(
        || format!("the delivery is `{}`", delivery["status"].as_str().unwrap_or("unknown")),
        |error| format!("the server reports: {error}"),
    );
    Check::problem(
        NAME,
        format!("no event arrived at {address} within {} s; {why}", ARRIVES_WITHIN.as_secs()),
        "check that the server can connect to this machine, and that a node with the role `worker` is running",
    )
}

fn verify(request: &Request, secret: &str) -> anyhow::Result<()> {
    let header =
        |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).with_context(|| format!("`{name}` is missing"));
    let (id, timestamp, signature) = (header("webhook-id")?, header("webhook-timestamp")?, header("webhook-signature")?);
    let signed_at: i64 = timestamp.parse().context("`webhook-timestamp` is not a number")?;
    anyhow::ensure!(now().as_secs().abs_diff(signed_at) <= SIGNATURE_AGE_MAX_SECONDS, "it is too old, or in the future: see the clocks");
    let key = VerifyingKey::parse(secret)?;
    anyhow::ensure!(key.verify(id, signed_at, &request.body, signature), "it was not made with the endpoint's secret");
    Ok(())
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
