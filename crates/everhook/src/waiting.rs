//! A node that starts while its database is away. If its spool knows publishers from before, it takes their events and answers everything else
//! with 503, and asks for the database every second; `wiring` then goes on with the start.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use everhook_adapters::{
    postgres::OpenError,
    spool::{SqliteSpool, Takeover},
};
use everhook_core::{
    gates::CALLS_IN_FLIGHT_MAX,
    ids::{OrganizationId, Ref, Uid},
    lanes,
    limits::evaluations::EvaluationThreads,
    line::{Line, LineSettings},
    model::DEFAULT_ORGANIZATION_UID,
    ports::{PublisherCache as _, Transport},
    repeated_failure::RepeatedFailure,
};

use crate::{
    api::{self, Api, ApiSettings},
    config::Config,
    sealing,
    server::Server,
    store::Store,
};

/// How often the database is asked for.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The most threads that evaluate schemas and filters: what they hold in memory is bounded by it, too.
const EVALUATION_THREADS_MAX: usize = 4;

/// Opens the store, however long that takes, and meanwhile takes events; `listens` is called when that begins.
///
/// # Errors
/// If the store is there and cannot be used, or is not the one that the spool is of; or if it is away, and the spool knows nobody who could publish.
/// A store that begins to refuse this node while it takes events already is waited for, because what it takes is safe here.
pub async fn open_store(
    config: &Config,
    node: &str,
    spool: Option<&Arc<SqliteSpool>>,
    server: &Server,
    transport: &Arc<dyn Transport>,
    listens: impl Fn(),
) -> anyhow::Result<Store> {
    // Each is told by itself: a refusal in the middle of an outage needs a person at once.
    let (began, mut absence, mut refusal) = (Instant::now(), RepeatedFailure::reported_at_once(), RepeatedFailure::reported_at_once());
    loop {
        let error = match Store::open(config, node).await {
            Ok(store) => {
                if let Some(spool) = spool {
                    let takeover = if server.is_open() { Takeover::Never } else { Takeover::IfEmpty };
                    store.bind(spool, takeover).await?;
                }
                return Ok(store);
            }
            Err(error) => error,
        };
        let is_open = server.is_open();
        let is_refusal = match error.downcast_ref() {
            Some(OpenError::Away(_)) => false,
            Some(OpenError::Refused(_)) if is_open => true,
            _ => return Err(error),
        };
        if !is_open {
            let Some(spool) = spool else { return Err(error) };
            let Some(organization) = who_is_known(spool) else {
                anyhow::bail!("{error:#} (this node's spool knows no publishers yet, so it cannot accept events meanwhile)");
            };
            let api = events_only(config, (node, server.address), spool, organization, transport).await?;
            listens();
            server.open(api::events_only(Arc::new(api)));
        }
        let repeated_failure = if is_refusal { &mut refusal } else { &mut absence };
        if repeated_failure.failed(began.elapsed()).is_some() {
            tell(&error, is_refusal);
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn tell(error: &anyhow::Error, is_refusal: bool) {
    let meanwhile = "events are accepted into the spool and other requests are refused";
    if is_refusal {
        tracing::error!("{error:#}: {meanwhile} until the cause is corrected");
    } else {
        tracing::warn!("{error:#}: {meanwhile} until the database is available");
    }
}

/// The default organization, if the spool knows it and anybody's key.
fn who_is_known(spool: &SqliteSpool) -> Option<OrganizationId> {
    let uid = Uid::parse(DEFAULT_ORGANIZATION_UID).expect("`default` is a well-formed uid");
    spool.organization(&Ref::Uid(uid)).filter(|_| !spool.api_keys().is_empty())
}

/// An API over a store that is away: of use for publishing alone. No engine runs behind it.
async fn events_only(
    config: &Config,
    (node, address): (&str, SocketAddr),
    spool: &Arc<SqliteSpool>,
    default_organization: OrganizationId,
    transport: &Arc<dyn Transport>,
) -> anyhow::Result<Api> {
    let vault = sealing::given_vault(config)?;
    sealing::check_spool(spool, &vault).await?;
    let ports = Store::absent_ports(config, spool.clone(), transport.clone(), Arc::new(vault))?;
    let (wake_up, _) = lanes::hints();
    let line = Arc::new(Line::new(ports, wake_up, line_settings(config, node)));
    Ok(Api::new(line, api_settings(config, default_organization, address)))
}

/// What the line of this configuration is told.
pub fn line_settings(config: &Config, node: &str) -> LineSettings {
    LineSettings {
        node: node.to_owned(),
        idempotency_window: config.idempotency_window,
        profile: config.profile,
        catalog_bytes_max: config.catalog_bytes_max,
        retention: config.retention,
        endpoint_health: config.endpoint_health.clone(),
        evaluation_threads: EvaluationThreads::Beside(evaluation_threads()),
        seal_payloads: config.seal_payloads,
        manifest_defaults: config.manifest_defaults,
        health_providers: config.health_providers.clone(),
        health_checks: config.health_checks,
        alert_interval: config.alert_interval,
        calls_in_flight_max: CALLS_IN_FLIGHT_MAX,
        notifications: config.notifications.clone(),
    }
}

/// On how many threads schemas and filters are evaluated that are not quick: half of the processors, so that the others serve everybody else.
fn evaluation_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| (count.get() / 2).clamp(1, EVALUATION_THREADS_MAX))
}

/// What the API of this configuration is made of.
pub fn api_settings(config: &Config, default_organization: OrganizationId, address: SocketAddr) -> ApiSettings {
    ApiSettings {
        targets: config.targets.clone(),
        default_organization,
        public_url: config.public_url.clone(),
        address,
        payload_bytes_max: config.payload_bytes_max,
        batch_bytes_max: config.batch_bytes_max,
        folder: match (&config.database, &config.spool) {
            (None, _) => Some(config.data.clone()),
            (Some(_), spool) => spool.as_ref().map(|spool| spool.folder.clone()),
        },
    }
}
