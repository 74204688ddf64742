//! What every event would otherwise look up again: applications with their endpoints, opened keys and matches, kept until they change.
//!
//! Used by the steps of the line. The store stays the judge: a publish carries the version of the configuration it was matched with, and is
//! matched again if that is no longer the newest.

use std::{
    num::NonZeroU32,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use rustc_hash::FxHashMap;

use crate::{
    ids::{ApplicationId, EndpointId, EventTypeId, OrganizationId, Ref, ScheduleVersion},
    model::{
        Application, ApplicationKind, Endpoint, EndpointState, EventType, EventTypeMark, LanePolicy, OrganizationLimits, Post, Profile,
        RetrySchedule, Revision,
    },
    policy::{filter::Filter, matching, schema::Schema},
    ports::{ApplicationRow, Directory, StoreError, Vault},
    shape::Shape,
    time::Timestamp,
};

/// How many applications are kept. Past it all are dropped and read again: rare, and simpler than an order of use.
const APPLICATIONS_MAX: usize = 10_000;

/// How many event types of one application have their matches kept. Publishers choose type names, so it must be bounded.
const MATCHED_TYPES_MAX: usize = 1_000;

/// How many event types have their compiled schema kept. Past it all are dropped and compiled again.
const SCHEMAS_MAX: usize = 1_000;

/// A cache of the directory, shaped for sending.
pub struct Catalog {
    directory: Arc<dyn Directory>,
    vault: Arc<dyn Vault>,
    profile: Profile,
    applications: RwLock<FxHashMap<ApplicationId, Arc<ApplicationView>>>,
    schedules: RwLock<FxHashMap<ScheduleVersion, Arc<RetrySchedule>>>,
    /// With the instant of the definition that each was compiled from.
    schemas: RwLock<FxHashMap<EventTypeId, (Timestamp, Arc<Schema>)>>,
    /// Counts the changes, so that a read that began before one is not kept after it.
    changes: AtomicU64,
}

impl Catalog {
    /// An empty catalog over the directory.
    pub fn new(directory: Arc<dyn Directory>, vault: Arc<dyn Vault>, profile: Profile) -> Self {
        Self {
            directory,
            vault,
            profile,
            applications: RwLock::default(),
            schedules: RwLock::default(),
            schemas: RwLock::default(),
            changes: AtomicU64::new(0),
        }
    }

    /// An application, if it need not be read.
    pub fn known(&self, id: ApplicationId) -> Option<Arc<ApplicationView>> {
        self.applications.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// An application as it stands; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if it had to be read and could not be.
    pub async fn application(&self, id: ApplicationId) -> Result<Option<Arc<ApplicationView>>, StoreError> {
        if let Some(view) = self.known(id) {
            return Ok(Some(view));
        }
        let changes_before = self.changes.load(Ordering::Acquire);
        let Some(row) = self.directory.application_row(id).await? else { return Ok(None) };
        let view = Arc::new(ApplicationView::new(row, &*self.vault, self.profile)?);
        let mut applications = self.applications.write().unwrap_or_else(PoisonError::into_inner);
        if self.changes.load(Ordering::Acquire) == changes_before {
            if applications.len() >= APPLICATIONS_MAX {
                applications.clear();
            }
            applications.insert(id, view.clone());
        }
        Ok(Some(view))
    }

    /// Drops what is known of an application. Called after every change to it or to one of its endpoints.
    pub fn forget(&self, id: ApplicationId) {
        let mut applications = self.applications.write().unwrap_or_else(PoisonError::into_inner);
        self.changes.fetch_add(1, Ordering::AcqRel);
        applications.remove(&id);
    }

    /// Drops what is known of all applications of an organization. Called after a change to the organization.
    pub fn forget_organization(&self, id: OrganizationId) {
        let mut applications = self.applications.write().unwrap_or_else(PoisonError::into_inner);
        self.changes.fetch_add(1, Ordering::AcqRel);
        applications.retain(|_, view| view.application.organization != id);
    }

    /// Drops what is known of all applications. Called after a change that many of them can share, which is rare.
    pub fn forget_all(&self) {
        let mut applications = self.applications.write().unwrap_or_else(PoisonError::into_inner);
        self.changes.fetch_add(1, Ordering::AcqRel);
        applications.clear();
    }

    /// A schedule version. Versions never change, so that what was read once holds for ever.
    ///
    /// # Errors
    /// [`StoreError`] if it had to be read and could not be, or is missing.
    pub async fn schedule(&self, version: ScheduleVersion) -> Result<Arc<RetrySchedule>, StoreError> {
        if let Some(schedule) = self.schedules.read().unwrap_or_else(PoisonError::into_inner).get(&version) {
            return Ok(schedule.clone());
        }
        let found = self.directory.schedule(version).await?;
        let schedule = Arc::new(found.ok_or_else(|| StoreError::corrupt(format!("retry schedule version {} is missing", version.0)))?);
        self.schedules.write().unwrap_or_else(PoisonError::into_inner).insert(version, schedule.clone());
        Ok(schedule)
    }
}

impl Catalog {
    /// The schema that data of a type must fit, compiled once for each definition. `None` if it has none any more.
    ///
    /// # Errors
    /// [`StoreError`] if it had to be read and could not be, or does not compile.
    pub async fn schema(&self, of: &Application, mark: &EventTypeMark) -> Result<Option<Arc<Schema>>, StoreError> {
        let known = self.schemas.read().unwrap_or_else(PoisonError::into_inner).get(&mark.id).cloned();
        if let Some((compiled_from, schema)) = known
            && compiled_from >= mark.updated_at
        {
            return Ok(Some(schema));
        }
        let found = self.directory.event_type(of.organization, &Ref::Id(mark.id)).await?;
        let Some((updated_at, text)) = found.and_then(|found| Some((found.updated_at, found.schema?))) else { return Ok(None) };
        let schema = Arc::new(Schema::compile(&text).map_err(StoreError::corrupt)?);
        let mut schemas = self.schemas.write().unwrap_or_else(PoisonError::into_inner);
        if schemas.len() >= SCHEMAS_MAX {
            schemas.clear();
        }
        schemas.insert(mark.id, (updated_at, schema.clone()));
        Ok(Some(schema))
    }
}

/// One application at one version of its configuration.
pub struct ApplicationView {
    /// The application.
    pub application: Application,
    /// The version that a publish must name.
    pub config_version: i64,
    /// What its organization may use.
    pub limits: OrganizationLimits,
    /// From where the requests of its lanes are sent.
    pub post: Post,
    destinations: FxHashMap<EndpointId, Arc<Destination>>,
    event_types: FxHashMap<EventType, EventTypeMark>,
    matches: RwLock<FxHashMap<EventType, Arc<[Arc<Destination>]>>>,
}

impl ApplicationView {
    fn new(row: ApplicationRow, vault: &dyn Vault, profile: Profile) -> Result<Self, StoreError> {
        let (kind, post) = (row.application.kind, row.post.clone());
        let of = Belonging { kind, config_version: row.config_version, limits: row.limits, post, profile };
        let prepare = |endpoint: Endpoint| Ok((endpoint.id, Arc::new(Destination::new(endpoint, &of, vault)?)));
        let destinations = row.endpoints.into_iter().map(prepare);
        Ok(Self {
            application: row.application,
            config_version: row.config_version,
            limits: row.limits,
            post: row.post,
            destinations: destinations.collect::<Result<_, StoreError>>()?,
            event_types: row.event_types.into_iter().map(|mark| (mark.name.clone(), mark)).collect(),
            matches: RwLock::default(),
        })
    }

    /// What the organization said about a type of events; `None` if nothing.
    pub fn event_type(&self, name: &EventType) -> Option<&EventTypeMark> {
        self.event_types.get(name)
    }

    /// How many endpoints it has.
    pub fn endpoint_count(&self) -> usize {
        self.destinations.len()
    }

    /// One of its endpoints, ready to be sent to. `None` once it is deleted.
    pub fn destination(&self, id: EndpointId) -> Option<&Arc<Destination>> {
        self.destinations.get(&id)
    }

    /// One of its endpoints, if it gets events now.
    pub fn enabled(&self, id: EndpointId) -> Option<&Arc<Destination>> {
        self.destinations.get(&id).filter(|destination| destination.endpoint.state == EndpointState::Enabled)
    }

    /// The enabled endpoints that want events of this type, in the order of their making.
    pub fn matching(&self, event_type: &EventType) -> Arc<[Arc<Destination>]> {
        if let Some(known) = self.matches.read().unwrap_or_else(PoisonError::into_inner).get(event_type) {
            return known.clone();
        }
        let wants = |destination: &&Arc<Destination>| {
            destination.endpoint.state == EndpointState::Enabled && matching::wants(&destination.endpoint.event_types, event_type)
        };
        let mut found: Vec<_> = self.destinations.values().filter(wants).cloned().collect();
        found.sort_by_key(|destination| destination.endpoint.id);
        let found: Arc<[_]> = found.into();
        let mut matches = self.matches.write().unwrap_or_else(PoisonError::into_inner);
        if matches.len() >= MATCHED_TYPES_MAX {
            matches.clear();
        }
        matches.insert(event_type.clone(), found.clone());
        found
    }
}

/// An endpoint with everything that sending to it needs, prepared once.
pub struct Destination {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// What shapes its requests, opened.
    pub shape: Shape,
    /// What its lane goes by.
    pub lane: Arc<LanePolicy>,
    /// What an event's data must say for it, parsed.
    pub filter: Option<Filter>,
    /// Whether it gets Everhook's own events: its deliveries raise none themselves.
    pub operational: bool,
}

/// The application that an endpoint belongs to, as far as sending must know it.
#[derive(Clone, Debug)]
pub struct Belonging {
    /// What it is for.
    pub kind: ApplicationKind,
    /// The version of its configuration that the endpoint was read from.
    pub config_version: i64,
    /// What its organization may use.
    pub limits: OrganizationLimits,
    /// From where the requests of its lanes are sent.
    pub post: Post,
    /// What holds where nobody set a limit.
    pub profile: Profile,
}

impl Destination {
    /// Prepares an endpoint for sending.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if its secret does not open or its filter cannot be read.
    pub fn new(endpoint: Endpoint, of: &Belonging, vault: &dyn Vault) -> Result<Self, StoreError> {
        let shape = Shape::open(endpoint.id, Revision::of(&endpoint), vault)?;
        let operational = of.kind == ApplicationKind::Operational;
        let filter = endpoint.filter.as_deref().map(Filter::parse).transpose().map_err(StoreError::corrupt)?;
        let lane = Arc::new(lane_policy(&endpoint, of));
        Ok(Self { filter, shape, lane, operational, endpoint })
    }
}

fn lane_policy(endpoint: &Endpoint, of: &Belonging) -> LanePolicy {
    LanePolicy {
        endpoint: endpoint.id,
        application: endpoint.application,
        organization: endpoint.organization,
        post: of.post.clone(),
        config_version: of.config_version,
        max_concurrency: endpoint.max_concurrency,
        operational: of.kind == ApplicationKind::Operational,
        limits: OrganizationLimits {
            deliveries_per_minute: of.limits.deliveries_per_minute.or(of.profile.deliveries_per_minute.map(NonZeroU32::get)),
            ..of.limits
        },
        rate_limit: endpoint.rate_limit.or(of.profile.rate_limit),
        drain: endpoint.drain,
        breaker: endpoint.breaker,
        paused: endpoint.paused_at.is_some(),
    }
}
