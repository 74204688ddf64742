//! Puts the parts together, the only place of the binary that knows all of them, and takes them apart in the right order.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use everhook_adapters::{archive::FolderArchive, smtp::SmtpNotifier, spool::SqliteSpool};
#[cfg(feature = "amqp")]
use everhook_adapters::{
    by_scheme::ByScheme,
    rabbitmq::{AmqpSource, AmqpTransport, HintSettings, RabbitHints, SourceSettings},
};
use everhook_adapters::{
    http::{HttpSettings, HttpTransport},
    otlp::{OtlpExporter, OtlpSettings, Resource},
};
use everhook_core::{
    calls::CALLERS_NOTED_EVERY,
    engine::{Engine, EngineSettings},
    ids::{OrganizationId, Ref},
    lanes,
    line::{Line, LineSettings},
    manage::{api_keys, organizations},
    model::{Duty, Secret},
    nodes::follow::follow,
    ports::{Archive, ChangeCursor, Clock as _, Notifier, Ports, Roles, Spans, StoreError, Transport, Vault},
    sources::ACTIVITY_WRITTEN_EVERY,
    spool::forward::forward,
    time::Timestamp,
};
use tokio::task::JoinHandle;
#[cfg(feature = "amqp")]
use uuid::Uuid;

#[cfg(feature = "amqp")]
use crate::api::QueueIntake;
use crate::{
    announce,
    api::{self, Api},
    config::{Config, EmailConfig, TracesConfig},
    counters,
    descriptors::Shares,
    metrics::Exposition,
    sealing,
    server::{ConnectionLimits, Server},
    server_alerts::{self, NodeSignals},
    span_log::SpanLog,
    store::Store,
    waiting,
};

/// How long requests under way, in and out, may take to end when the server stops.
pub const STOP_GRACE: Duration = Duration::from_secs(30);

/// How long answers with metrics may take to end when the server stops.
const METRICS_STOP_GRACE: Duration = Duration::from_secs(1);

/// How long a collector has to take the last spans when the server stops.
const SPANS_STOP_GRACE: Duration = Duration::from_secs(2);

/// How many may ask for metrics at an address of their own at once, and how many more for health checks, which are not served there.
const METRICS_CONNECTIONS: usize = 8;
const METRICS_RESERVE: usize = 1;

/// How often what is too old is forgotten, and how many idempotency keys in one go.
const CLEAN_EVERY: Duration = Duration::from_secs(60);
const FORGET_BATCH: u32 = 1_000;

/// How often the first steps are taken again because another node took them at the same moment.
const FIRST_STEPS_TRIES_MAX: u32 = 5;

/// How often it is written when keys were last used.
const KEY_USES_EVERY: Duration = Duration::from_secs(60);

/// A server that runs.
pub struct Running {
    /// Where it takes requests.
    pub address: SocketAddr,
    /// The admin key, if one was made at this start: this is the only time it can be shown.
    pub admin_key: Option<String>,
    /// The line that it publishes to.
    pub line: Arc<Line>,
    server: Server,
    /// Where metrics are served to everybody who reaches it, if that is set up.
    metrics_server: Option<Server>,
    /// Sends spans, if somebody collects them.
    exporter: Option<Arc<OtlpExporter>>,
    engine: Engine,
    store: Store,
    api: Arc<Api>,
    tasks: [JoinHandle<()>; 8],
    /// Watches the server itself. Not a part of the engine, which starts anew when the store comes back.
    server_alerts: JoinHandle<()>,
    spool: Option<Arc<SqliteSpool>>,
    #[cfg(feature = "amqp")]
    amqp_source: Option<AmqpSource>,
    #[cfg(feature = "amqp")]
    amqp_hints: Option<Arc<RabbitHints>>,
}

/// Starts a server.
///
/// # Errors
/// Says what is in the way: the address, the data folder, the sealing key.
pub async fn start(config: &Config) -> anyhow::Result<Running> {
    let shares = shares(config);
    start_at(&bind(config, shares).await?, config, shares, || {}).await
}

/// The open files of this process, shared out for what is set up.
pub fn shares(config: &Config) -> Shares {
    #[cfg(feature = "amqp")]
    let broker_connections = if config.targets.allow_amqp { everhook_adapters::rabbitmq::LINKS_MAX } else { 0 };
    #[cfg(not(feature = "amqp"))]
    let broker_connections = 0;
    Shares::of_this_process(config.concurrency, broker_connections)
}

/// Makes the address ours, for as many connections as this process may have.
///
/// # Errors
/// If the address cannot be had.
pub async fn bind(config: &Config, shares: Shares) -> anyhow::Result<Server> {
    let trusted_proxies = config.trusted_proxies.clone();
    Server::bind(config.listen, ConnectionLimits { connections: shares.connections, reserve: shares.reserve, trusted_proxies }).await
}

/// As [`start`], at an address that is ours already. If the database is away, requests are taken long before the start is complete: `listens` is called
/// just before the first of them.
///
/// # Errors
/// As [`start`].
pub async fn start_at(server: &Server, config: &Config, shares: Shares, listens: impl Fn()) -> anyhow::Result<Running> {
    let node = node(server.address);
    announce::tell(config, &node);
    let transport = transport(config, shares)?;
    let spool = open_spool(config, &node).await?;
    let store = waiting::open_store(config, &node, spool.as_ref(), server, &transport, listens).await?;
    announce::warn_of_unused_folder(config, &store).await;
    let exporter = exporter(config, &node)?;
    let spans = exporter.clone().map(|exporter| Arc::new(SpanLog(exporter)) as Arc<dyn Spans>);
    let ports = Ports { notifier: notifier(config)?, spans, ..open_ports(config, &store, spool.clone(), transport).await? };
    let ports = Ports { archive: archive(config, &ports.vault), ..ports };
    #[cfg(feature = "amqp")]
    let (ports, amqp_hints) = hint_by_amqp(config, &store, ports).await?;
    let (wake_up, hints) = lanes::hints();
    let settings = LineSettings { calls_in_flight_max: shares.calls, ..waiting::line_settings(config, &node) };
    let line = Arc::new(Line::new(ports, wake_up, settings));
    // Before anything is remembered that another node could change.
    let seen = line.ports.changes.newest().await.context("cannot read the store")?;
    let (organization, admin_key) = take_first_steps(config, &line).await.context("cannot prepare the store")?;
    store.refuse_half_moved().await?;

    let roles = Roles { worker: config.roles.worker, scheduler: config.roles.scheduler };
    let engine = Engine::start(line.clone(), hints, EngineSettings { concurrency: shares.concurrency, roles });
    let api = Arc::new(Api::new(line.clone(), waiting::api_settings(config, organization, server.address)));
    let exposition = Arc::new(Exposition::new(line.clone(), engine.statuses(), server.admission(), shares, config.pool.to_string()));
    let metrics_server = serve_metrics(config, &exposition).await?;
    let router = if config.roles.api { api::router(api.clone()) } else { api::probes(api.clone()) };
    server.open(router.merge(api::metrics::for_admins(api.clone(), exposition.clone())));
    let tasks = start_tasks(&store, &line, &api, seen, exposition);
    #[cfg(feature = "amqp")]
    let amqp_source = start_amqp_source(config, &api)?;
    let signals = NodeSignals {
        line: line.clone(),
        engine: engine.statuses(),
        concurrency: shares.concurrency,
        #[cfg(feature = "amqp")]
        amqp_source: amqp_source.as_ref().map(AmqpSource::failed_reconnects),
    };
    let server_alerts = server_alerts::start(config, organization, signals);
    Ok(Running {
        address: server.address,
        admin_key,
        line,
        server: server.clone(),
        metrics_server,
        exporter,
        engine,
        store,
        api,
        tasks,
        server_alerts,
        spool,
        #[cfg(feature = "amqp")]
        amqp_source,
        #[cfg(feature = "amqp")]
        amqp_hints,
    })
}

impl Running {
    /// Stops: takes no more requests, lets those under way end, hands back the rest. At once when idle.
    pub async fn stop(self) {
        #[cfg(feature = "amqp")]
        let consuming = async {
            if let Some(source) = self.amqp_source {
                source.stop(STOP_GRACE).await;
            }
        };
        #[cfg(not(feature = "amqp"))]
        let consuming = async {};
        tokio::join!(consuming, self.server.stop(STOP_GRACE), self.engine.stop(STOP_GRACE));
        #[cfg(feature = "amqp")]
        if let Some(hints) = &self.amqp_hints {
            hints.stop().await;
        }
        if let Some(exporter) = &self.exporter {
            exporter.stop(SPANS_STOP_GRACE).await;
        }
        if let Some(server) = &self.metrics_server {
            server.stop(METRICS_STOP_GRACE).await;
        }
        note_key_uses(&self.api).await;
        note_source_activity(&self.line).await;
        note_call_records(&self.line).await;
        // All hold the store, which gives its folder free when the last one lets go.
        for task in self.tasks.into_iter().chain([self.server_alerts]) {
            task.abort();
            let _ = task.await;
        }
    }

    /// Returns once the store has failed for good: stop the process, a restart recovers.
    pub async fn broken(&self) {
        let spool_broken = async {
            match &self.spool {
                Some(spool) => spool.broken().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.store.broken() => {}
            () = spool_broken => {}
        }
    }
}

/// What the line works with: the store, prepared, and what is set up beside it.
async fn open_ports(
    config: &Config,
    store: &Store,
    spool: Option<Arc<SqliteSpool>>,
    transport: Arc<dyn Transport>,
) -> anyhow::Result<Ports> {
    let clock = store.clock().await.context("cannot read the store")?;
    store.tidy(clock.now()).await.context("cannot prepare the store")?;
    let vault = open_vault(config, store, spool.as_deref()).await?;
    let ports = store.ports(spool, transport, vault, clock);
    counters::with_redis(config, store, ports).await
}

/// Starts what runs beside requests and lanes, in the order in which it is ended.
fn start_tasks(store: &Store, line: &Arc<Line>, api: &Arc<Api>, seen: ChangeCursor, exposition: Arc<Exposition>) -> [JoinHandle<()>; 8] {
    let forget_keys = {
        let api = api.clone();
        move |stale| api.forget_keys(stale)
    };
    [
        tokio::spawn(forward(line.clone())),
        tokio::spawn(follow(line.clone(), seen, forget_keys)),
        tokio::spawn(clean_up(store.clone(), line.clone())),
        tokio::spawn(write_key_uses(api.clone())),
        tokio::spawn(write_source_activity(line.clone())),
        tokio::spawn(note_callers(line.clone())),
        tokio::spawn(watch(store.clone(), api.clone())),
        tokio::spawn(async move { exposition.ask().await }),
    ]
}

/// Where spans go, if somebody collects them.
fn exporter(config: &Config, node: &str) -> anyhow::Result<Option<Arc<OtlpExporter>>> {
    let Some(TracesConfig { target, headers, sampler }) = config.traces.clone() else { return Ok(None) };
    let resource = Resource { service: "everhook".to_owned(), node: node.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    Ok(Some(Arc::new(OtlpExporter::start(OtlpSettings { target, headers, sampler, resource })?)))
}

/// Serves metrics at an address of their own, if one is set up.
async fn serve_metrics(config: &Config, exposition: &Arc<Exposition>) -> anyhow::Result<Option<Server>> {
    let Some(address) = config.metrics_listen else { return Ok(None) };
    let limits = ConnectionLimits { connections: METRICS_CONNECTIONS, reserve: METRICS_RESERVE, trusted_proxies: Vec::new() };
    let server = Server::bind(address, limits).await.context("cannot serve metrics at `metrics_listen`")?;
    server.open(api::metrics::for_everybody(exposition.clone()));
    tracing::info!(address = %server.address, "metrics are served at http://{}/metrics", server.address);
    Ok(Some(server))
}

/// Opens the spool of a node that has one. If that fails and the database cannot be used either, the error names both.
async fn open_spool(config: &Config, node: &str) -> anyhow::Result<Option<Arc<SqliteSpool>>> {
    let spool = match Store::open_spool(config) {
        Ok(spool) => return Ok(spool),
        Err(error) => error,
    };
    match Store::open(config, node).await {
        Ok(_) => Err(spool),
        Err(store) => anyhow::bail!("neither the database nor the spool can be used:\n  - {store:#}\n  - {spool:#}"),
    }
}

/// The vault comes after the store: opening that has locked the folder in which the key may be made.
async fn open_vault(config: &Config, store: &Store, spool: Option<&SqliteSpool>) -> anyhow::Result<Arc<dyn Vault>> {
    let vault = match store {
        Store::Embedded(store) => sealing::open_vault(config, store).await?,
        Store::Shared(store) => sealing::open_shared_vault(config, store).await?,
    };
    if let Some(spool) = spool {
        sealing::check_spool(spool, &vault).await?;
    }
    Ok(Arc::new(vault))
}

/// Web servers, and message brokers where they are allowed.
fn transport(config: &Config, shares: Shares) -> anyhow::Result<Arc<dyn Transport>> {
    let mut settings = HttpSettings::new(config.targets.addresses.clone());
    settings.idle_total_max = shares.kept;
    let web = Arc::new(HttpTransport::new(settings)?);
    #[cfg(feature = "amqp")]
    if config.targets.allow_amqp {
        let brokers = Arc::new(AmqpTransport::new(config.targets.addresses.clone())?);
        return Ok(Arc::new(ByScheme { web, brokers }));
    }
    Ok(web)
}

/// The mail server, if one is set up.
fn notifier(config: &Config) -> anyhow::Result<Option<Arc<dyn Notifier>>> {
    let Some(EmailConfig { server, from }) = config.email.clone() else { return Ok(None) };
    Ok(Some(Arc::new(SmtpNotifier::new(server, from, Vec::new())?)))
}

/// The archive, if one is set up.
fn archive(config: &Config, vault: &Arc<dyn Vault>) -> Option<Arc<dyn Archive>> {
    let folder = config.archive.clone()?;
    Some(Arc::new(FolderArchive::new(folder, vault.clone())))
}

/// Begins to take events from a queue, if one is set up.
#[cfg(feature = "amqp")]
fn start_amqp_source(config: &Config, api: &Arc<Api>) -> anyhow::Result<Option<AmqpSource>> {
    let Some(source) = &config.amqp_source else { return Ok(None) };
    let settings = SourceSettings::new(&source.url, &source.queue)?;
    Ok(Some(AmqpSource::start(settings, Arc::new(QueueIntake::new(api.clone(), source.clone())))?))
}

/// Lets nodes hint each other through a broker, if one is set up; what hinted them before takes over when the broker is away.
#[cfg(feature = "amqp")]
async fn hint_by_amqp(config: &Config, store: &Store, ports: Ports) -> anyhow::Result<(Ports, Option<Arc<RabbitHints>>)> {
    let Some(url) = &config.amqp_hints else { return Ok((ports, None)) };
    let Some(installation) = store.installation().await? else { return Ok((ports, None)) };
    let settings = HintSettings::new(url, &installation.simple().to_string(), config.pool.clone(), Uuid::now_v7())?;
    let hints = Arc::new(RabbitHints::start(settings, ports.remote_hints)?);
    Ok((Ports { remote_hints: hints.clone(), ..ports }, Some(hints)))
}

/// Nodes that start together on an empty database take the same steps: whoever comes second looks again.
async fn take_first_steps(config: &Config, line: &Line) -> anyhow::Result<(OrganizationId, Option<String>)> {
    let mut tries = 0;
    loop {
        match first_steps(config, line).await {
            Err(error) if tries < FIRST_STEPS_TRIES_MAX && matches!(error.downcast_ref(), Some(StoreError::Conflict)) => tries += 1,
            taken => return taken,
        }
    }
}

/// Sees to it that there is an organization, and a key to begin with.
async fn first_steps(config: &Config, line: &Line) -> anyhow::Result<(OrganizationId, Option<String>)> {
    let organization = organizations::ensure_default(line, config.admin_emails.as_deref()).await?.id;
    // Read once more for the spool to remember them: a start without the database begins with these.
    let _ = line.publishers.organization(&Ref::Id(organization)).await;
    let _ = line.publishers.default_application(organization).await;
    let made = match &config.admin_key {
        Some(key) if api_keys::ensure_admin(line, organization, key).await? => None,
        Some(_) => anyhow::bail!("the configured admin key already exists with fewer scopes, or has expired: set another"),
        None => api_keys::first_admin(line, organization).await?,
    };
    Ok((organization, made.as_ref().map(Secret::expose).cloned()))
}

/// How this process calls itself in attempts: the machine's name where it is known, and the port.
fn node(address: SocketAddr) -> String {
    let name = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let name = if name.trim().is_empty() { "everhook" } else { name.trim() };
    format!("{name}:{}", address.port())
}

async fn watch(store: Store, api: Arc<Api>) {
    store.broken().await;
    api.set_broken();
}

async fn write_key_uses(api: Arc<Api>) {
    loop {
        tokio::time::sleep(KEY_USES_EVERY).await;
        note_key_uses(&api).await;
    }
}

/// Nothing but a date in a list depends on it, so that a failure is told and no more.
async fn note_key_uses(api: &Api) {
    if let Err(error) = api.write_key_uses().await {
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot write the last use of API keys");
    }
}

async fn write_source_activity(line: Arc<Line>) {
    loop {
        tokio::time::sleep(ACTIVITY_WRITTEN_EVERY).await;
        note_source_activity(&line).await;
    }
}

/// Nothing but what a source shows depends on it. While the store is away, whoever needs it tells.
async fn note_source_activity(line: &Line) {
    let activity = line.sources.activity.write(&*line.ports.sources).await;
    if let Err(error) = activity.and(line.sources.tallies.write(&*line.ports.statistics).await) {
        tracing::debug!(error = &error as &dyn std::error::Error, "cannot write what happened at sources; it is tried again in a second");
    }
}

async fn note_callers(line: Arc<Line>) {
    loop {
        tokio::time::sleep(CALLERS_NOTED_EVERY).await;
        if let Err(error) = line.calls.note_callers().await {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "cannot tell other nodes which capabilities have calls here");
        }
    }
}

/// What the engine has not written before it ended. No answer depends on it: what cannot be written is lost.
async fn note_call_records(line: &Line) {
    if let Err(error) = line.calls.records.write(&line.calls, &*line.ports.statistics).await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "cannot write answers and statistics of calls; those of the last second are lost"
        );
    }
}

/// Forgets idempotency keys that are past their window, sees to what the store itself needs, and tells of pools without workers, while that is this
/// node's duty.
async fn clean_up(store: Store, line: Arc<Line>) {
    loop {
        tokio::time::sleep(CLEAN_EVERY).await;
        if let Err(error) = line.calls.trim_answers().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot remove cached answers of calls that exceed the limit; it is tried again"
            );
        }
        if !line.held_lease.does(Duty::ForgetKeys) {
            continue;
        }
        if let Err(error) = clean_up_once(&store, &line).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "periodic cleanup failed; it is tried again in a minute");
        }
    }
}

/// In small steps, between which events are written.
async fn clean_up_once(store: &Store, line: &Line) -> Result<(), StoreError> {
    let now = line.ports.clock.now();
    while store.forget_keys(now - line.idempotency_window, FORGET_BATCH).await? == FORGET_BATCH {}
    store.tidy(now).await?;
    // Draws are evidence of who won: they are kept as long as dead letters are.
    let draws_before = line.retention.dead_letters.map_or(Timestamp::EPOCH, |kept| now - kept);
    line.calls.clean_up(now, draws_before).await?;
    forget_jobs(line, now).await?;
    forget_approvals(line, now).await?;
    warn_of_pools(store).await
}

/// What is kept of jobs beside their events goes when neither an event nor a dead letter can be that old any more.
async fn forget_jobs(line: &Line, now: Timestamp) -> Result<(), StoreError> {
    let (Some(events), Some(dead_letters)) = (line.retention.events, line.retention.dead_letters) else { return Ok(()) };
    let before = now - events.max(dead_letters);
    while line.ports.jobs.forget_jobs(before, FORGET_BATCH).await? == FORGET_BATCH {}
    Ok(())
}

/// What people have decided about calls is kept as long as events are.
async fn forget_approvals(line: &Line, now: Timestamp) -> Result<(), StoreError> {
    let Some(events) = line.retention.events else { return Ok(()) };
    while line.ports.approvals.forget_approvals(now - events, FORGET_BATCH).await? == FORGET_BATCH {}
    Ok(())
}

/// Says which worker pools have organizations and no worker: nothing is lost, and nothing is sent.
async fn warn_of_pools(store: &Store) -> Result<(), StoreError> {
    for pool in store.pools_without_workers().await? {
        tracing::warn!(
            pool,
            "no node sends for the worker pool `{pool}`; the deliveries of its organizations wait. Start a node with `--pool {pool}`, or correct `worker_pool`"
        );
    }
    Ok(())
}
