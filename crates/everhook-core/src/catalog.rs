//! What every event would otherwise look up again: applications with their endpoints and matches, kept until they change.
//!
//! Used by the steps of the line. The store stays the judge: a publish carries the version of the configuration it was matched with, and is
//! matched again if that is no longer the newest. A change costs what it changed: an application that is not current is brought up to date by
//! reading the endpoints that changed since it was read (decision 0042).

mod applications;
mod by_type;
mod destination;
mod endpoint;
mod large_reads;
mod schedules;
mod schemas;
mod shapes;
mod shared_map;
mod view;

#[cfg(test)]
#[path = "catalog/tests.rs"]
mod tests;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::{
    applications::{Applications, Stale},
    large_reads::{LARGE_BYTES, LargeRead, LargeReads},
    schedules::Schedules,
    view::{Endpoints, SharedDefinitions},
};
pub use self::{
    destination::{CallbackDestination, CapabilityDestination, ChannelDestination, Destination, ProcessorDestination},
    endpoint::{ApplicationContext, EndpointDestination},
    schemas::Schemas,
    shapes::Shapes,
    view::ApplicationView,
};
use crate::{
    ids::{ApplicationId, OrganizationId, Ref, ScheduleVersion},
    model::{Application, EventTypeMark, Profile, RetrySchedule},
    ports::{ConfigCursor, ConfigPage, ConfigRead, ConfigurationReader, EventTypeStore, Ports, RetryScheduleStore, StoreError},
    reading::Reading,
    time::Timestamp,
};

/// What all applications may take in memory, in bytes, where nobody says otherwise: those of half a million ordinary endpoints.
pub const CATALOG_BYTES: usize = 512 << 20;

/// How often a read begins from the start because the organization's limits or the place where its requests are sent changed meanwhile.
const READS_FROM_START_MAX: usize = 10;

/// What the catalog reads.
pub struct CatalogPorts {
    /// Applications with their endpoints.
    pub configuration: Arc<dyn ConfigurationReader>,
    /// Versions of retry schedules.
    pub retry_schedules: Arc<dyn RetryScheduleStore>,
    /// Schemas of event types.
    pub event_types: Arc<dyn EventTypeStore>,
}

impl From<&Ports> for CatalogPorts {
    fn from(ports: &Ports) -> Self {
        let (configuration, retry_schedules) = (ports.configuration.clone(), ports.retry_schedules.clone());
        Self { configuration, retry_schedules, event_types: ports.event_types.clone() }
    }
}

/// A cache of the configuration, shaped for sending.
pub struct Catalog {
    ports: CatalogPorts,
    profile: Profile,
    applications: RwLock<Applications>,
    reading: Reading<ApplicationId, ApplicationView>,
    large_reads: LargeReads,
    schedules: Schedules,
    /// Compiled schemas.
    pub schemas: Schemas,
    /// Opened shapes of requests.
    pub shapes: Shapes,
}

impl Catalog {
    /// An empty catalog over these ports.
    pub fn new(ports: CatalogPorts, profile: Profile) -> Self {
        Self::within(CATALOG_BYTES, ports, profile)
    }

    /// What holds where organizations and endpoints have set no limits.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The same, whose applications may take so many bytes in memory.
    pub fn within(bytes_max: usize, ports: CatalogPorts, profile: Profile) -> Self {
        Self {
            ports,
            profile,
            applications: RwLock::new(Applications::within(bytes_max)),
            reading: Reading::default(),
            large_reads: LargeReads::default(),
            schedules: Schedules::default(),
            schemas: Schemas::default(),
            shapes: Shapes::default(),
        }
    }

    /// An application, if it need not be read.
    pub fn known(&self, id: ApplicationId) -> Option<Arc<ApplicationView>> {
        self.applications().current(id)
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
        let from = self.applications().read_from(id);
        // It may have been read while this waited for its turn.
        if from.is_current {
            return Ok(from.base);
        }
        let Some(view) = self.bring_up_to_date(id, from.base).await? else {
            self.applications_mut().remove(id);
            return Ok(None);
        };
        self.applications_mut().keep(&view, from.changes);
        Ok(Some(view))
    }

    /// Reads what changed since a view, or everything where there is none.
    async fn bring_up_to_date(
        &self,
        id: ApplicationId,
        mut base: Option<Arc<ApplicationView>>,
    ) -> Result<Option<Arc<ApplicationView>>, StoreError> {
        for _ in 0..READS_FROM_START_MAX {
            match self.read_pages(id, base.take()).await? {
                PagesRead::NotFound => return Ok(None),
                PagesRead::Outdated => {}
                PagesRead::All(view) => return Ok(Some(view)),
            }
        }
        Err(StoreError::Conflict)
    }

    async fn read_pages(&self, id: ApplicationId, base: Option<Arc<ApplicationView>>) -> Result<PagesRead, StoreError> {
        let mut endpoints = base.as_ref().map_or_else(Endpoints::default, |base| base.endpoints().clone());
        let first = base.as_ref().map_or(ConfigCursor::START, |base| ConfigCursor::after(base.version));
        let mut shared = base.as_ref().map(|base| (base.limits, base.pool.clone()));
        let mut growth = Growth::new(self, endpoints.bytes());
        let mut read = self.ports.configuration.configuration(id, first).await?;
        loop {
            let mut page = match read {
                ConfigRead::NotFound => return Ok(PagesRead::NotFound),
                ConfigRead::Outdated => return Ok(PagesRead::Outdated),
                ConfigRead::Page(page) => *page,
            };
            // The lanes of all endpoints go by these, those that were not read again, too.
            let of_page = (page.limits, page.pool.clone());
            if *shared.get_or_insert_with(|| of_page.clone()) != of_page || base.as_ref().is_some_and(|base| is_older(&page, base)) {
                return Ok(PagesRead::Outdated);
            }
            let Some(next) = page.next else {
                endpoints.apply(&mut page, self.profile).await?;
                return self.finish(page, endpoints, base).await.map(PagesRead::All);
            };
            // The next page is read while this one is prepared.
            let (following, applied) =
                tokio::join!(self.ports.configuration.configuration(id, next), endpoints.apply(&mut page, self.profile));
            applied?;
            growth.to(endpoints.bytes(), page.application.organization).await?;
            read = following?;
        }
    }

    async fn finish(
        &self,
        last: ConfigPage,
        endpoints: Endpoints,
        base: Option<Arc<ApplicationView>>,
    ) -> Result<Arc<ApplicationView>, StoreError> {
        // Whoever marked it as changed was early or late. The view keeps its matches.
        if let Some(base) = base.filter(|base| base.version == last.version) {
            return Ok(base);
        }
        let organization = last.application.organization;
        let known = self.applications().definitions(organization, last.version.organization);
        let definitions = match known {
            Some(known) => known,
            None => Arc::new(SharedDefinitions::new(self.ports.configuration.definitions(organization).await?)),
        };
        Ok(Arc::new(ApplicationView::new(last, endpoints, definitions, self.profile)))
    }

    /// Notes that an application or one of its endpoints changed: what changed since is read when it is needed next. Called after every change.
    pub fn forget(&self, id: ApplicationId) {
        self.applications_mut().note(Stale::Application(id));
    }

    /// The same for all applications of an organization. Called after a change to the organization, or to what its applications share.
    pub fn forget_organization(&self, id: OrganizationId) {
        self.applications_mut().note(Stale::Organization(id));
    }

    /// Drops what is known of all applications. Called where nobody can say which of them changed, which is rare.
    pub fn forget_all(&self) {
        self.applications_mut().note(Stale::All);
        self.shapes.clear();
    }

    /// A schedule version, for something of this organization.
    ///
    /// # Errors
    /// [`StoreError`] if it had to be read and could not be, or is missing.
    pub async fn schedule(&self, organization: OrganizationId, version: ScheduleVersion) -> Result<Arc<RetrySchedule>, StoreError> {
        if let Some(schedule) = self.schedules.get(version) {
            return Ok(schedule);
        }
        let found = self.ports.retry_schedules.schedule(version).await?;
        let schedule = Arc::new(found.ok_or_else(|| StoreError::corrupt(format!("retry schedule version {} is missing", version.0)))?);
        self.schedules.keep(organization, version, schedule.clone());
        Ok(schedule)
    }

    /// The text of the schema that data of a type must fit, and the instant of the definition that has it. `None` if it has none any more.
    ///
    /// # Errors
    /// [`StoreError`] if it could not be read.
    pub async fn schema_text(&self, of: &Application, mark: &EventTypeMark) -> Result<Option<(Timestamp, String)>, StoreError> {
        let found = self.ports.event_types.event_type(of.organization, &Ref::Id(mark.id)).await?;
        Ok(found.and_then(|found| Some((found.updated_at, found.schema?))))
    }

    fn applications(&self) -> RwLockReadGuard<'_, Applications> {
        self.applications.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn applications_mut(&self) -> RwLockWriteGuard<'_, Applications> {
        self.applications.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An application that is being read, and how much of what the catalog may keep it takes so far.
struct Growth<'a> {
    catalog: &'a Catalog,
    bytes_before: usize,
    counted: usize,
    turn: Option<LargeRead>,
}

impl<'a> Growth<'a> {
    /// Beginning with endpoints of so many bytes, which are known and counted already.
    fn new(catalog: &'a Catalog, bytes_before: usize) -> Self {
        Self { catalog, bytes_before, counted: 0, turn: None }
    }

    /// It has grown to so many bytes: room is made for them before more is read.
    async fn to(&mut self, bytes: usize, organization: OrganizationId) -> Result<(), StoreError> {
        let grown = bytes.saturating_sub(self.bytes_before);
        if grown > LARGE_BYTES && self.turn.is_none() {
            self.turn = Some(self.catalog.large_reads.turn(organization).await?);
        }
        self.catalog.applications_mut().count_growth(organization, self.counted, grown);
        self.counted = grown;
        Ok(())
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        self.catalog.applications_mut().end_growth(self.counted);
    }
}

/// What came of reading an application page by page.
enum PagesRead {
    NotFound,
    /// What was known cannot be brought up to date: everything must be read.
    Outdated,
    All(Arc<ApplicationView>),
}

/// Whether the store went back in time, as one that was restored from a backup does: then versions mean something else than they did.
fn is_older(page: &ConfigPage, base: &ApplicationView) -> bool {
    page.version.application < base.version.application || page.version.organization < base.version.organization
}
