//! The HTTP API: one file a resource. A handler parses, runs one use case and renders; it decides nothing.
//!
//! `access` says who asks, `body`, `wire` and `page` read requests, `error` writes problems. Routes and the OpenAPI document come from the same place.

mod access;
mod alert_rules;
mod alerts;
mod api_keys;
mod app_health;
mod applications;
mod approvals;
mod attempts;
mod audit_log;
mod auto_replay;
mod batches;
mod body;
mod calls;
mod channels;
mod creation;
mod dead_letters;
mod deliveries;
mod docs;
mod endpoints;
mod erasing;
mod error;
mod event_types;
mod events;
mod health;
mod ingress;
mod jobs;
mod manifests;
pub mod metrics;
mod misread;
mod operational;
mod operations;
mod organizations;
mod page;
mod problem_pages;
mod publish;
mod query;
mod reach;
mod reads;
mod replays;
mod retries;
mod run_to_completion;
mod schedules;
mod sealing;
mod sent;
mod sources;
mod stats;
mod status;
mod storage;
mod transfer;
mod uids;
mod why;
mod wire;
mod words;

pub(crate) use self::publish::BESIDE_DATA_BYTES;
#[cfg(feature = "amqp")]
pub use self::publish::queue::QueueIntake;
use self::run_to_completion::run_to_completion;
use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use axum::{
    Router,
    response::{IntoResponse as _, Response},
};
use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId, Ref},
    line::Line,
    manage,
    model::Scope,
    nodes::follow::StaleKeys,
    policy::target::TargetRules,
    ports::{FullDisk, StoreError},
    repeated_failure::RepeatedFailure,
};
use http::{Method, Uri};
use rustc_hash::FxHashMap;
use utoipa_axum::{router::OpenApiRouter, routes};

pub use self::reads::Turn;
use self::{
    access::{Caller, ChangeRates, KeyCache},
    error::{ApiError, ProblemKind},
    reads::{Reads, Transfers},
};
use crate::{
    disk_space::DiskSpace,
    memory::{MemoryBudget, MemoryLimits, NoRoom},
};

/// How many organizations' default applications are remembered. Past it all are dropped and read again.
const DEFAULT_APPLICATIONS_MAX: usize = 10_000;

/// How many bytes of request bodies may be held at once, by all and by one organization. With what is made of it while it is read and stored, a batch takes
/// between four and five times its size.
const BODY_BYTES_TOTAL: usize = 48 << 20;
const BODY_BYTES_ORGANIZATION: usize = 24 << 20;

/// The largest batch fits, whatever its size was set to.
fn body_limits(batch_bytes_max: usize) -> MemoryLimits {
    let organization = BODY_BYTES_ORGANIZATION.max(batch_bytes_max);
    let total = BODY_BYTES_TOTAL.max(organization * 2);
    MemoryLimits { total, organization, kept_for_small: total / 4 }
}

/// What the handlers work with.
pub struct Api {
    line: Arc<Line>,
    targets: TargetRules,
    default_organization: OrganizationId,
    /// What the URLs of this server begin with, as others see them; what each client calls it by if absent.
    public_url: Option<String>,
    /// What the URLs of callbacks begin with, as apps see them. Never a value that a caller sends: a caller could have the results of others sent to itself.
    callbacks_url: String,
    payload_bytes_max: usize,
    batch_bytes_max: usize,
    /// The memory of request bodies.
    bodies: Arc<MemoryBudget>,
    /// Reads of each organization come a few at a time.
    reads: Reads,
    /// Whose turn it is to search, which takes seconds where other reads take milliseconds.
    searches: Reads,
    /// Imports and exports come one after the other: each may hold a whole application.
    transfers: Transfers,
    keys: KeyCache,
    changes: ChangeRates,
    default_applications: RwLock<FxHashMap<OrganizationId, ApplicationId>>,
    /// The store failed for good.
    broken: AtomicBool,
    /// The last publish could not be written.
    publishing_fails: AtomicBool,
    /// The disk that events are written to by this node, if it writes any.
    disk: Option<DiskSpace>,
    /// The disk of the database server, as the log hears of it, and since when its time is counted.
    server_disk: (Instant, Mutex<RepeatedFailure>),
    /// The readiness check that is under way: requests that come meanwhile wait for the same one.
    readiness: Mutex<Option<status::Looking>>,
}

/// What the URLs of callbacks begin with: the public URL, or else the address that the server listens at. One that listens at all addresses of its machine is
/// reached from that machine.
fn callbacks_url(public_url: Option<&str>, mut address: SocketAddr) -> String {
    if let Some(url) = public_url {
        return url.trim_end_matches('/').to_owned();
    }
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    format!("http://{address}")
}

/// What the API uses.
pub struct ApiSettings {
    /// Which URLs endpoints may have.
    pub targets: TargetRules,
    /// Where admins act unless they name another organization.
    pub default_organization: OrganizationId,
    /// What the URLs of this server begin with, as others see them.
    pub public_url: Option<String>,
    /// Where this server listens.
    pub address: SocketAddr,
    /// The largest `data` of an event, in bytes.
    pub payload_bytes_max: usize,
    /// The largest body of a batch, in bytes.
    pub batch_bytes_max: usize,
    /// The folder that events are written to by this node, if it writes any.
    pub folder: Option<PathBuf>,
}

impl Api {
    /// The API over a line.
    pub fn new(line: Arc<Line>, settings: ApiSettings) -> Self {
        let ApiSettings { targets, default_organization, public_url, address, payload_bytes_max, batch_bytes_max, folder } = settings;
        let callbacks_url = callbacks_url(public_url.as_deref(), address);
        let disk = folder.map(|folder| DiskSpace::of(folder, payload_bytes_max));
        let (keys, default_applications) = (KeyCache::default(), RwLock::default());
        let (broken, publishing_fails) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            line,
            targets,
            default_organization,
            public_url,
            callbacks_url,
            payload_bytes_max,
            batch_bytes_max,
            bodies: MemoryBudget::new(body_limits(batch_bytes_max)),
            reads: Reads::default(),
            searches: Reads::of_searches(),
            transfers: Transfers::default(),
            keys,
            changes: ChangeRates::default(),
            default_applications,
            broken,
            publishing_fails,
            disk,
            server_disk: (Instant::now(), Mutex::new(RepeatedFailure::reported_at_once())),
            readiness: Mutex::default(),
        }
    }

    /// Remembers that the store is broken for good: the server is no longer ready.
    pub fn set_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Writes when keys were last used, as far as that is news.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be reached: it is written the next time.
    pub async fn write_key_uses(&self) -> Result<(), StoreError> {
        self.keys.write_uses(&*self.line.ports.api_keys).await
    }

    /// Drops what is remembered of API keys that another node may have revoked.
    pub fn forget_keys(&self, stale: StaleKeys) {
        self.keys.forget_stale(stale);
    }

    /// Remembers whether the last publish could be written.
    fn set_publishing(&self, works: bool) {
        // Read first: on the hot path it hardly ever changes, and a write would take the line of memory from the other threads.
        if self.publishing_fails.load(Ordering::Relaxed) == works {
            self.publishing_fails.store(!works, Ordering::Relaxed);
        }
    }

    /// Remembers which disk was full, so that it is logged once, and is checked again once something could be written.
    async fn note_full_disk(&self, error: Option<&StoreError>) {
        match (&self.disk, error.map(StoreError::full_disk)) {
            (Some(disk), Some(Some(FullDisk::Data))) => disk.was_full(),
            (_, Some(Some(FullDisk::DatabaseServer))) => self.log_server_full(),
            (Some(disk), None) if disk.is_full() => _ = disk.has_room().await,
            _ => {}
        }
    }

    fn log_server_full(&self) {
        let (since, repeated_failure) = &self.server_disk;
        if repeated_failure.lock().unwrap_or_else(PoisonError::into_inner).failed(since.elapsed()).is_some() {
            tracing::error!("no space left on the disk of the database server; events are refused until space is freed");
        }
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// The application that is meant where none is named. It never changes, so that it is read once.
    async fn default_application(&self, organization: OrganizationId) -> Result<Option<ApplicationId>, ApiError> {
        if let Some(id) = self.default_applications.read().unwrap_or_else(PoisonError::into_inner).get(&organization) {
            return Ok(Some(*id));
        }
        let found = self.line.publishers.default_application(organization).await;
        let Some(application) = found.map_err(|error| ApiError::of_look_up("application", error))? else { return Ok(None) };
        let mut known = self.default_applications.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= DEFAULT_APPLICATIONS_MAX {
            known.clear();
        }
        known.insert(organization, application);
        Ok(Some(application))
    }

    /// The organization that an operator or a queue names, by id or uid.
    async fn organization_named(&self, name: &str) -> Result<Option<OrganizationId>, StoreError> {
        let Some(of) = Ref::parse(name) else { return Ok(None) };
        Ok(self.line.ports.organizations.organization(&of).await?.map(|organization| organization.id))
    }

    /// The application that a list is narrowed to: the one that is named, or the only one that the key reaches.
    async fn filter_application(&self, caller: &Caller, named: Option<&str>) -> Result<Option<ApplicationId>, ApiError> {
        let Some(name) = named else { return Ok(caller.application) };
        let found = manage::applications::find_named(&self.line, caller.organization, name).await?;
        let reached = found.map(|application| application.id).filter(|id| caller.reaches(*id));
        reached.map(Some).ok_or_else(|| ApiError::not_found("application"))
    }

    /// The organization that a path names: the caller's own, or any for an admin. Another's is not found.
    async fn organization_of(&self, caller: &Caller, of: &Ref<OrganizationId>) -> Result<OrganizationId, ApiError> {
        let found = self.line.publishers.organization(of).await.map_err(|error| ApiError::of_look_up("organization", error))?;
        let mine = |id: &OrganizationId| *id == caller.organization || caller.scopes.allow(Scope::Admin);
        found.filter(mine).ok_or_else(|| ApiError::not_found("organization"))
    }

    /// The endpoint whose history is asked for; a deleted one too, by its id.
    async fn find_endpoint(&self, caller: &Caller, of: &Ref<EndpointId>) -> Result<EndpointId, ApiError> {
        let found = self.line.ports.endpoints.endpoint(caller.organization, of).await?;
        let reached = found.filter(|endpoint| caller.reaches(endpoint.application));
        reached.map(|endpoint| endpoint.id).ok_or_else(|| ApiError::not_found("endpoint"))
    }
}

/// What a node answers that takes no requests: whether it lives, and whether it is ready.
pub fn probes(api: Arc<Api>) -> Router {
    let (router, _) = OpenApiRouter::<Arc<Api>>::new().routes(routes!(status::healthz)).routes(routes!(status::readyz)).split_for_parts();
    router.fallback(no_such_role).method_not_allowed_fallback(no_such_method).with_state(api)
}

/// What a node answers that has started without its database: it takes events, and everything else must wait.
pub fn events_only(api: Arc<Api>) -> Router {
    let publishing = OpenApiRouter::<Arc<Api>>::new().routes(routes!(publish::publish_event)).routes(routes!(publish::publish_batch));
    let (router, _) = publishing.routes(routes!(status::healthz)).routes(routes!(status::readyz)).split_for_parts();
    router.merge(ingress::routes()).fallback(not_yet).method_not_allowed_fallback(not_yet).with_state(api)
}

/// Every route of the server.
pub fn router(api: Arc<Api>) -> Router {
    let (router, mut document) = documented().split_for_parts();
    docs::name_patches(&mut document);
    router
        .merge(aliases())
        .merge(ingress::routes())
        .merge(jobs::door())
        .merge(docs::routes(document))
        .merge(problem_pages::routes())
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .with_state(api)
}

/// The routes that the OpenAPI document describes.
fn documented() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::with_openapi(docs::base())
        .routes(routes!(publish::publish_event, events::list))
        .routes(routes!(publish::publish_batch))
        .routes(routes!(events::get))
        .routes(routes!(events::list_deliveries))
        .routes(routes!(why::explain))
        .routes(routes!(deliveries::list))
        .routes(routes!(retries::retry_event))
        .routes(routes!(deliveries::get))
        .routes(routes!(sent::get))
        .routes(routes!(retries::retry_delivery))
        .routes(routes!(retries::cancel_delivery))
        .nest("/v1/dlq", dead_letters::routes())
        .routes(routes!(operations::list))
        .routes(routes!(operations::get, operations::cancel))
        .routes(routes!(replays::recover))
        .routes(routes!(replays::replay))
        .routes(routes!(erasing::erase_event))
        .routes(routes!(erasing::erase_by_label))
        .routes(routes!(erasing::erase_application))
        .nest("/v1/endpoints", endpoints::routes())
        .merge(sources::routes())
        .merge(health::routes())
        .merge(channels::routes())
        .routes(routes!(schedules::create, schedules::list))
        .routes(routes!(schedules::get, schedules::change, schedules::delete))
        .routes(routes!(schedules::assign))
        .routes(routes!(schedules::create_in_organization, schedules::list_of_organization))
        .routes(routes!(operational::list))
        .routes(routes!(event_types::create, event_types::list))
        .routes(routes!(event_types::get, event_types::change, event_types::delete))
        .routes(routes!(applications::create, applications::list))
        .routes(routes!(applications::get, applications::change, applications::delete))
        .merge(manifests::routes())
        .merge(app_health::routes())
        .merge(calls::routes())
        .routes(routes!(stats::get))
        .merge(jobs::routes())
        .merge(approvals::routes())
        .routes(routes!(transfer::export))
        .routes(routes!(transfer::import))
        .routes(routes!(api_keys::create, api_keys::list))
        .routes(routes!(api_keys::get, api_keys::revoke))
        .merge(alert_rules::routes())
        .merge(alerts::routes())
        .routes(routes!(audit_log::list))
        .routes(routes!(organizations::create, organizations::list))
        .routes(routes!(organizations::get, organizations::change, organizations::delete))
        .routes(routes!(storage::get))
        .routes(routes!(sealing::get))
        .routes(routes!(sealing::cancel))
        .routes(routes!(sealing::resume))
        .routes(routes!(status::root))
        .routes(routes!(status::healthz))
        .routes(routes!(status::readyz))
}

/// Other names of the same routes, which clients of other platforms know. The document leaves them out: docs/guide.md lists them.
fn aliases() -> Router<Arc<Api>> {
    let aliases = OpenApiRouter::<Arc<Api>>::new()
        .nest("/v1/webhooks", endpoints::routes())
        .nest("/v1/subscriptions", endpoints::routes())
        .nest("/v1/dead-letters", dead_letters::routes().merge(dead_letters::aliases()))
        .nest("/v1/dlq", dead_letters::aliases())
        .routes(routes!(retries::retry_message))
        .routes(routes!(dead_letters::requeue));
    aliases.split_for_parts().0
}

/// What is answered on a connection that is one too many.
pub fn too_many_connections() -> Response {
    ApiError::unavailable("too many connections: try again").into_response()
}

/// What is answered instead of a large answer while there is no memory for it.
pub fn too_many_answers(no_room: NoRoom) -> Response {
    ApiError::unread_answers(no_room).into_response()
}

/// What is answered where we failed.
pub fn internal_error() -> Response {
    ApiError::internal().into_response()
}

async fn not_yet() -> ApiError {
    ApiError::unavailable("the database is unavailable: this node only accepts events until it is back")
}

async fn no_such_role(uri: Uri) -> ApiError {
    let words = "this node does not have the role `api` and serves only /healthz and /readyz";
    ApiError::new(ProblemKind::RouteNotFound, format!("not found: {}: {words}", uri.path()))
}

async fn no_such_route(uri: Uri) -> ApiError {
    ApiError::new(ProblemKind::RouteNotFound, format!("not found: {}", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(ProblemKind::MethodNotAllowed, format!("{} does not support {method}; see the header Allow", uri.path()))
}
