//! Measures how long `GET /v1/stats?window=7d` takes on the embedded store whose rollups stand for ten million attempts of the last seven days.
//!
//! `cargo run --release -p everhook --example statistics_window -- [attempts [endpoints]]`

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use anyhow::Context as _;
use everhook::{
    cli::client::{Connection, Server},
    config::ServeArgs,
    wiring::{self, Running},
};
use everhook_core::{
    ids::{EndpointId, LaneId, OrganizationId, Ref},
    model::{Breakdown, BreakdownTally, DEFAULT_ORGANIZATION_UID, EventType, FailingRule, FailureCategory, ScheduleName, Tally, minute_of},
    time::Timestamp,
};
use http::Method;
use serde_json::json;

/// How many attempts there were, and at how many endpoints, unless somebody says otherwise.
const ATTEMPTS: u64 = 10_000_000;
const ENDPOINTS: u64 = 20;

const MINUTE: Duration = Duration::from_secs(60);
const MINUTES: u64 = 7 * 24 * 60;
/// How many minutes are written at once.
const MINUTES_A_WRITE: u64 = 60;
/// One of so many attempts fails.
const FAILS: u64 = 50;
/// How often each question is asked.
const ASKED: usize = 200;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|number| number.parse().context("the arguments are numbers"));
    let attempts = arguments.next().transpose()?.unwrap_or(ATTEMPTS);
    let endpoints = arguments.next().transpose()?.unwrap_or(ENDPOINTS).max(1);
    let folder = tempfile::tempdir()?;
    let data = Some(folder.path().join("data").display().to_string());
    let loaded = ServeArgs { listen: Some("127.0.0.1:0".to_owned()), data, ..ServeArgs::default() }.load_from([])?;
    let running = wiring::start(&loaded.config).await?;
    let key = running.admin_key.clone().context("the first start makes an admin key")?;
    let mut connection = Connection::new(Server::new(&format!("http://{}", running.address).parse()?, Some(&key))?);
    let endpoints = create_endpoints(&mut connection, endpoints).await?;
    let begun = Instant::now();
    let counted = fill(&running, &endpoints, attempts).await?;
    println!("{counted} attempts at {} endpoints over 7 days were counted in {:.1} s", endpoints.len(), begun.elapsed().as_secs_f64());
    for query in
        ["", "&application_id=default", &format!("&endpoint_id={}", endpoints[0]), "&retry_schedule_id=standard", "&event_type=order.paid"]
    {
        measure(&mut connection, &format!("/v1/stats?window=7d{query}")).await?;
    }
    running.stop().await;
    Ok(())
}

async fn create_endpoints(connection: &mut Connection, count: u64) -> anyhow::Result<Vec<EndpointId>> {
    let mut endpoints = Vec::new();
    for n in 0..count {
        let endpoint = json!({ "url": format!("https://shop-{n}.example/hooks"), "event_types": ["order.paid"] });
        let created = connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await?;
        let id = created["id"].as_str().and_then(|id| id.parse().ok());
        endpoints.push(id.context("an endpoint has an id")?);
    }
    Ok(endpoints)
}

/// Counts attempts in every minute of the last seven days, as the engine would have. Says how many there were.
async fn fill(running: &Running, endpoints: &[EndpointId], attempts: u64) -> anyhow::Result<u64> {
    let line = &running.line;
    let now = line.ports.clock.now();
    let (organization, first) = (default_organization(running).await?, now - MINUTE * u32::try_from(MINUTES)?);
    let each = (attempts / MINUTES / endpoints.len() as u64).max(1);
    let mut counted = 0;
    for begin in (0..MINUTES).step_by(usize::try_from(MINUTES_A_WRITE)?) {
        let minutes = (begin..begin + MINUTES_A_WRITE).map(|minute| minute_of(first + MINUTE * u32::try_from(minute).unwrap_or(0)));
        let tallies: Vec<Tally> = minutes.flat_map(|minute| endpoints.iter().map(move |id| tally((*id).into(), minute, each))).collect();
        counted += tallies.iter().map(|tally| tally.statistics.total()).sum::<u64>();
        let parts = tallies.iter().flat_map(|tally| parts_of(organization, tally)).collect();
        line.ports.statistics.add(tallies, FailingRule::default()).await?;
        line.ports.statistics.add_breakdowns(parts).await?;
    }
    Ok(counted)
}

/// Attempts that took from one to a thousand milliseconds.
fn tally(lane_id: LaneId, minute: Timestamp, attempts: u64) -> Tally {
    let mut tally = Tally::new(lane_id, minute);
    for n in 0..attempts {
        let failure = n.is_multiple_of(FAILS).then_some(FailureCategory::ServerError);
        tally.count(failure, Duration::from_millis(1 + n * 37 % 1_000), minute + Duration::from_millis(n));
    }
    tally
}

fn parts_of(organization: OrganizationId, tally: &Tally) -> impl Iterator<Item = BreakdownTally> {
    let schedule = Breakdown::RetrySchedule(ScheduleName("standard".to_owned()));
    let event_type = EventType::parse("order.paid").map(Breakdown::EventType);
    let (minute, statistics) = (tally.minute, tally.statistics.clone());
    let part = move |of| BreakdownTally { organization, of, minute, statistics: statistics.clone() };
    event_type.into_iter().chain([schedule]).map(part)
}

async fn default_organization(running: &Running) -> anyhow::Result<OrganizationId> {
    let of = Ref::parse(DEFAULT_ORGANIZATION_UID).context("a uid")?;
    let found = running.line.ports.organizations.organization(&of).await?;
    Ok(found.context("the first start makes an organization")?.id)
}

/// Asks one question again and again, on one connection.
async fn measure(connection: &mut Connection, path: &str) -> anyhow::Result<()> {
    let mut took = Vec::new();
    let mut total = 0;
    for _ in 0..ASKED {
        let begun = Instant::now();
        let stats = connection.ask(Method::GET, path, None).await?;
        took.push(begun.elapsed());
        total = stats["total"].as_u64().context("the answer has a total")?;
    }
    took.sort_unstable();
    let millis = |at: usize| took[at].as_secs_f64() * 1e3;
    println!(
        "{path}: total {total}; median {:.2} ms, p99 {:.2} ms, slowest {:.2} ms",
        millis(ASKED / 2),
        millis(ASKED * 99 / 100),
        millis(ASKED - 1)
    );
    Ok(())
}
