//! What every event would otherwise look up again: applications with their endpoints, opened keys and matches, kept until they change.
//!
//! Used by the steps of the line. The store stays the judge: a publish carries the version of the configuration it was matched with, and is
//! matched again if that is no longer the newest.

mod by_type;
mod reading;
mod schemas;

use std::{
    collections::VecDeque,
    num::NonZeroU32,
    sync::{Arc, PoisonError, RwLock},
};

use rustc_hash::FxHashMap;

pub use self::schemas::Schemas;
use self::{by_type::EndpointsByType, reading::Reading};
use crate::{
    ids::{ApplicationId, EndpointId, OrganizationId, Ref, ScheduleVersion},
    model::{
        Application, ApplicationKind, Endpoint, EndpointState, EventType, EventTypeMark, LanePolicy, OrganizationLimits, Post, Profile,
        RetrySchedule, Revision,
    },
    policy::filter::Filter,
    ports::{ApplicationRow, Directory, StoreError, Vault},
    shape::Shape,
    time::Timestamp,
};

/// How many applications are kept. Past it those of the organizations that have most are dropped, and read again when they are needed.
const APPLICATIONS_MAX: usize = 10_000;

/// How many endpoints these have together: a tenant may make as many as it likes, and each takes a few kilobytes here.
const ENDPOINTS_MAX: usize = 1_000_000;

/// How many event types of one application have their matches kept. Publishers choose type names, so it must be bounded.
const MATCHED_TYPES_MAX: usize = 1_000;

/// How many matches are kept for each endpoint of an application, so that they take a share of what its endpoints take anyway.
const MATCHES_AN_ENDPOINT: usize = 64;

/// How many endpoints are prepared before others have their turn on this thread: less than a millisecond of opening secrets and parsing filters.
const PREPARED_AT_ONCE: usize = 64;

/// How many versions of retry schedules are kept: a tenant makes one with each change of a schedule, of 2 KiB at most. Past it all are dropped.
const SCHEDULES_MAX: usize = 10_000;

/// How many changes are remembered to tell whether one of them concerns what was read meanwhile: a second of many busy organizations.
const RECENT_CHANGES_MAX: usize = 1_000;

/// A cache of the directory, shaped for sending.
pub struct Catalog {
    directory: Arc<dyn Directory>,
    vault: Arc<dyn Vault>,
    profile: Profile,
    applications: RwLock<Applications>,
    reading: Reading,
    schedules: RwLock<FxHashMap<ScheduleVersion, Arc<RetrySchedule>>>,
    /// Compiled schemas.
    pub schemas: Schemas,
}

/// The applications that need not be read.
#[derive(Default)]
struct Applications {
    known: FxHashMap<ApplicationId, Arc<ApplicationView>>,
    /// How many endpoints they have together.
    endpoints: usize,
    /// How many changes there were.
    changes: u64,
    /// The newest of them. A read that began before one which concerns it is not kept after it; others' changes do not keep it from being kept, or
    /// one tenant that changes something all the time would have everybody's applications read for every event.
    recent: VecDeque<Stale>,
}

/// What a change concerns.
#[derive(Clone, Copy)]
enum Stale {
    Application(ApplicationId),
    Organization(OrganizationId),
    All,
}

impl Stale {
    fn concerns(self, application: ApplicationId, organization: OrganizationId) -> bool {
        match self {
            Self::Application(changed) => changed == application,
            Self::Organization(changed) => changed == organization,
            Self::All => true,
        }
    }
}

impl Applications {
    /// Keeps what was read, unless it may have been changed since there were so many changes.
    fn keep(&mut self, view: &Arc<ApplicationView>, changes_before: u64) {
        let (id, organization) = (view.application.id, view.application.organization);
        let since = usize::try_from(self.changes - changes_before).unwrap_or(usize::MAX);
        if since > self.recent.len() || self.recent.iter().rev().take(since).any(|stale| stale.concerns(id, organization)) {
            return;
        }
        if self.known.len() >= APPLICATIONS_MAX || self.endpoints + view.endpoint_count() > ENDPOINTS_MAX {
            self.make_room();
        }
        self.endpoints += view.endpoint_count();
        if let Some(before) = self.known.insert(id, view.clone()) {
            self.endpoints -= before.endpoint_count();
        }
    }

    /// Drops the applications of those organizations that have most in here, until an eighth is free: what a tenant has much of pushes out its own.
    fn make_room(&mut self) {
        let mut held: FxHashMap<OrganizationId, usize> = FxHashMap::default();
        for view in self.known.values() {
            *held.entry(view.application.organization).or_default() += 1 + view.endpoint_count();
        }
        let mut held: Vec<_> = held.into_iter().map(|(organization, held)| (held, organization)).collect();
        held.sort_unstable();
        while let Some((_, organization)) = held.pop() {
            self.drop_organization(organization);
            if self.known.len() <= APPLICATIONS_MAX / 8 * 7 && self.endpoints <= ENDPOINTS_MAX / 8 * 7 {
                return;
            }
        }
    }

    fn drop_organization(&mut self, organization: OrganizationId) {
        self.known.retain(|_, view| view.application.organization != organization);
        self.endpoints = self.known.values().map(|view| view.endpoint_count()).sum();
    }

    fn forget(&mut self, stale: Stale) {
        self.changes += 1;
        if self.recent.len() >= RECENT_CHANGES_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(stale);
        match stale {
            // By far the most frequent: not by looking through all of them.
            Stale::Application(id) => self.endpoints -= self.known.remove(&id).map_or(0, |view| view.endpoint_count()),
            Stale::Organization(id) => self.drop_organization(id),
            Stale::All => {
                self.known.clear();
                self.endpoints = 0;
            }
        }
    }
}

impl Catalog {
    /// An empty catalog over the directory.
    pub fn new(directory: Arc<dyn Directory>, vault: Arc<dyn Vault>, profile: Profile) -> Self {
        Self {
            directory,
            vault,
            profile,
            applications: RwLock::default(),
            reading: Reading::default(),
            schedules: RwLock::default(),
            schemas: Schemas::default(),
        }
    }

    /// An application, if it need not be read.
    pub fn known(&self, id: ApplicationId) -> Option<Arc<ApplicationView>> {
        self.applications.read().unwrap_or_else(PoisonError::into_inner).known.get(&id).cloned()
    }

    /// An application as it stands; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if it had to be read and could not be.
    pub async fn application(&self, id: ApplicationId) -> Result<Option<Arc<ApplicationView>>, StoreError> {
        if let Some(view) = self.known(id) {
            return Ok(Some(view));
        }
        // On the heap, because it is rare: publishers carry the room for it with every event.
        Box::pin(self.reading.read(id, self.read(id))).await
    }

    async fn read(&self, id: ApplicationId) -> Result<Option<Arc<ApplicationView>>, StoreError> {
        // It may have been read while this waited for its turn.
        if let Some(view) = self.known(id) {
            return Ok(Some(view));
        }
        let changes_before = self.applications.read().unwrap_or_else(PoisonError::into_inner).changes;
        let Some(row) = self.directory.application_row(id).await? else { return Ok(None) };
        let view = Arc::new(ApplicationView::new(row, &*self.vault, self.profile).await?);
        self.applications.write().unwrap_or_else(PoisonError::into_inner).keep(&view, changes_before);
        Ok(Some(view))
    }

    /// Drops what is known of an application. Called after every change to it or to one of its endpoints.
    pub fn forget(&self, id: ApplicationId) {
        self.forget_stale(Stale::Application(id));
    }

    /// Drops what is known of all applications of an organization. Called after a change to the organization, or to what its applications share.
    pub fn forget_organization(&self, id: OrganizationId) {
        self.forget_stale(Stale::Organization(id));
    }

    /// Drops what is known of all applications. Called where nobody can say which of them changed, which is rare.
    pub fn forget_all(&self) {
        self.forget_stale(Stale::All);
    }

    fn forget_stale(&self, stale: Stale) {
        self.applications.write().unwrap_or_else(PoisonError::into_inner).forget(stale);
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
        let mut schedules = self.schedules.write().unwrap_or_else(PoisonError::into_inner);
        if schedules.len() >= SCHEDULES_MAX {
            schedules.clear();
        }
        schedules.insert(version, schedule.clone());
        Ok(schedule)
    }
}

impl Catalog {
    /// The text of the schema that data of a type must fit, and the instant of the definition that has it. `None` if it has none any more.
    ///
    /// # Errors
    /// [`StoreError`] if it could not be read.
    pub async fn schema_text(&self, of: &Application, mark: &EventTypeMark) -> Result<Option<(Timestamp, String)>, StoreError> {
        let found = self.directory.event_type(of.organization, &Ref::Id(mark.id)).await?;
        Ok(found.and_then(|found| Some((found.updated_at, found.schema?))))
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
    by_type: EndpointsByType,
    event_types: FxHashMap<EventType, EventTypeMark>,
    matches: RwLock<Matches>,
}

/// Which endpoints want which types.
#[derive(Default)]
struct Matches {
    of_types: FxHashMap<EventType, Arc<[Arc<Destination>]>>,
    /// How many there are of all types together.
    count: usize,
}

impl ApplicationView {
    async fn new(row: ApplicationRow, vault: &dyn Vault, profile: Profile) -> Result<Self, StoreError> {
        let (kind, post) = (row.application.kind, row.post.clone());
        let of = Belonging { kind, config_version: row.config_version, limits: row.limits, post, profile };
        let mut destinations = FxHashMap::default();
        for endpoint in row.endpoints {
            destinations.insert(endpoint.id, Arc::new(Destination::new(endpoint, &of, vault)?));
            if destinations.len().is_multiple_of(PREPARED_AT_ONCE) {
                tokio::task::yield_now().await;
            }
        }
        Ok(Self {
            application: row.application,
            config_version: row.config_version,
            limits: row.limits,
            post: row.post,
            by_type: EndpointsByType::new(destinations.values()),
            destinations,
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
        if let Some(known) = self.matches.read().unwrap_or_else(PoisonError::into_inner).of_types.get(event_type) {
            return known.clone();
        }
        let found = self.by_type.wanting(event_type);
        let mut matches = self.matches.write().unwrap_or_else(PoisonError::into_inner);
        if matches.of_types.len() >= MATCHED_TYPES_MAX || matches.count + found.len() > self.destinations.len() * MATCHES_AN_ENDPOINT {
            *matches = Matches::default();
        }
        if matches.of_types.insert(event_type.clone(), found.clone()).is_none() {
            matches.count += found.len();
        }
        found
    }
}

/// An endpoint with everything that sending to it needs, prepared once.
pub struct Destination {
    /// The endpoint, without its headers, filter, metadata and description.
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
        // Sending needs the opened and the parsed ones alone, and these are what an endpoint has much of.
        let endpoint = Endpoint { headers: Vec::new(), filter: None, metadata: None, description: None, ..endpoint };
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn view(application: u128, organization: u128) -> Arc<ApplicationView> {
        Arc::new(ApplicationView {
            application: Application {
                id: ApplicationId::from_uuid(Uuid::from_u128(application)),
                organization: OrganizationId::from_uuid(Uuid::from_u128(organization)),
                uid: None,
                name: "shop".to_owned(),
                kind: ApplicationKind::Custom,
                strict_event_types: false,
                created_at: Timestamp::from_secs(1),
            },
            config_version: 1,
            limits: OrganizationLimits::default(),
            post: Post::only(),
            destinations: FxHashMap::default(),
            by_type: EndpointsByType::default(),
            event_types: FxHashMap::default(),
            matches: RwLock::default(),
        })
    }

    #[test]
    fn a_read_is_kept_unless_a_change_meanwhile_concerns_it() {
        let read = view(1, 7);
        let (mine, other) = (read.application.id, view(2, 8).application.id);
        let (my_organization, other_organization) = (read.application.organization, view(2, 8).application.organization);
        let table = [
            (vec![], true),
            (vec![Stale::Application(other), Stale::Organization(other_organization)], true),
            (vec![Stale::Application(mine)], false),
            (vec![Stale::Organization(my_organization), Stale::Application(other)], false),
            (vec![Stale::All], false),
            // More than is remembered: one of them may have concerned it.
            (vec![Stale::Application(other); RECENT_CHANGES_MAX + 1], false),
        ];
        for (meanwhile, is_kept) in table {
            let mut applications = Applications::default();
            applications.forget(Stale::All);
            let before = applications.changes;
            let count = meanwhile.len();
            meanwhile.into_iter().for_each(|stale| applications.forget(stale));
            applications.keep(&read, before);
            assert_eq!(applications.known.contains_key(&mine), is_kept, "after {count} changes");
        }
    }

    #[test]
    fn an_organization_with_much_pushes_out_its_own_and_nobody_elses() {
        let mut applications = Applications::default();
        applications.keep(&view(1, 1), 0);
        for n in 0..APPLICATIONS_MAX as u128 {
            applications.keep(&view(1_000 + n, 7), 0);
        }
        assert!(applications.known.contains_key(&view(1, 1).application.id));
        assert!(applications.known.len() <= APPLICATIONS_MAX);
    }

    #[test]
    fn a_change_drops_what_it_concerns_and_nothing_else() {
        let all = [view(1, 7), view(2, 7), view(3, 8)];
        let left = |stale: Stale| {
            let mut applications = Applications::default();
            all.iter().for_each(|view| applications.keep(view, 0));
            applications.forget(stale);
            applications.known.len()
        };
        let first = &all[0].application;
        assert_eq!([Stale::Application(first.id), Stale::Organization(first.organization), Stale::All].map(left), [2, 1, 0]);
    }
}
