//! An application's configuration as the catalog reads it: all of it, or only what changed since a version that is known. In pages, so that an
//! application with a hundred thousand endpoints is never in memory twice.

use std::collections::BTreeMap;

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{ApplicationId, EndpointId, OrganizationId, ScheduleId, ScheduleVersion},
    model::{
        Application, CapabilityLane, Channel, Endpoint, EndpointState, EventTypeMark, OrganizationLimits, PoolAssignment, SourceProcessor,
    },
    ports::StoreError,
};

/// How many endpoints a page has at most: some milliseconds of reading and a megabyte or two, while a reader of a whole application has many pages.
pub const CONFIG_PAGE_ENDPOINTS: usize = 1_000;

/// How many bytes of configuration a page has, about: a page ends behind the endpoint that reaches it.
pub const CONFIG_PAGE_BYTES: i64 = 4 << 20;

/// How many bytes the endpoints of an application may have together ([`CONFIG_ENDPOINT_BYTES`] and all their texts): every node that sends for it keeps
/// them in memory. Room for some two hundred thousand ordinary ones.
pub const APPLICATION_CONFIG_BYTES_MAX: i64 = 128 << 20;

/// What an endpoint counts beside its texts.
pub const CONFIG_ENDPOINT_BYTES: i64 = 512;

/// Reads the configuration that publishing and sending go by. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached.
#[async_trait]
pub trait ConfigurationReader: Send + Sync {
    /// Reads a page of an application's configuration: what changed after the cursor. For the catalog.
    async fn configuration(&self, id: ApplicationId, after: ConfigCursor) -> Result<ConfigRead, StoreError>;

    /// Reads what an organization defines for all its applications, as one snapshot. For the catalog.
    async fn definitions(&self, organization: OrganizationId) -> Result<Definitions, StoreError>;

    /// Reads an application with all its endpoints and the version of that configuration, page by page. For tests and tools: it holds all of it in
    /// memory.
    async fn application_row(&self, id: ApplicationId) -> Result<Option<ApplicationRow>, StoreError> {
        let (mut endpoints, mut cursor) = (BTreeMap::new(), ConfigCursor::START);
        loop {
            let page = match self.configuration(id, cursor).await? {
                ConfigRead::NotFound => return Ok(None),
                ConfigRead::Outdated => {
                    (endpoints, cursor) = (BTreeMap::new(), ConfigCursor::START);
                    continue;
                }
                ConfigRead::Page(page) => *page,
            };
            for endpoint in page.endpoints {
                match endpoint.state {
                    EndpointState::Deleted { .. } => drop(endpoints.remove(&endpoint.id)),
                    _ => drop(endpoints.insert(endpoint.id, endpoint)),
                }
            }
            if let Some(next) = page.next {
                cursor = next;
                continue;
            }
            let definitions = self.definitions(page.application.organization).await?;
            return Ok(Some(ApplicationRow {
                application: page.application,
                config_version: page.version.total(),
                limits: page.limits,
                pool: page.pool,
                endpoints: endpoints.into_values().collect(),
                event_types: definitions.event_types,
            }));
        }
    }
}

/// The version of an application's configuration. Both numbers only rise, so that two versions are equal if their totals are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigVersion {
    /// Rises with every change to the application or one of its endpoints.
    pub application: i64,
    /// Rises with every change to the organization, or to what its applications share: event types and retry schedules.
    pub organization: i64,
}

impl ConfigVersion {
    /// The one number that a publish names, and the store compares.
    pub const fn total(self) -> i64 {
        self.application + self.organization
    }
}

/// How far a reader of an application's configuration has got.
///
/// Endpoints are read in the order of the versions at which they last changed. One that changes while others are read moves to the end and is read once
/// more, so that the pages together are as good as one snapshot: that of the last page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigCursor {
    /// The application's version at which the reader knew everything; `None` if it knows nothing yet. Endpoints that were deleted later are included.
    pub since: Option<i64>,
    /// Endpoints that changed at this version or before it are known,
    pub version: i64,
    /// those of this very version up to this one.
    pub endpoint: EndpointId,
}

impl ConfigCursor {
    /// Of a reader that knows nothing.
    pub const START: Self = Self { since: None, version: 0, endpoint: EndpointId::from_uuid(Uuid::nil()) };

    /// Of a reader that knows everything at a version.
    pub const fn after(known: ConfigVersion) -> Self {
        Self { since: Some(known.application), version: known.application, endpoint: EndpointId::from_uuid(Uuid::max()) }
    }

    /// Where to continue after a page of this version whose last endpoint changed at `version`.
    #[must_use]
    pub fn next(self, page: ConfigVersion, version: i64, endpoint: EndpointId) -> Self {
        Self { since: self.since.or(Some(page.application)), version, endpoint }
    }
}

/// What came of reading an application's configuration.
#[derive(Clone, Debug)]
pub enum ConfigRead {
    /// There is no such application.
    NotFound,
    /// Rows of endpoints that were deleted since were removed for good: read it from the start.
    Outdated,
    /// Some of it.
    Page(Box<ConfigPage>),
}

/// Some of an application's configuration, as one snapshot.
#[derive(Clone, Debug)]
pub struct ConfigPage {
    /// The application.
    pub application: Application,
    /// The version of this snapshot.
    pub version: ConfigVersion,
    /// What its organization may use.
    pub limits: OrganizationLimits,
    /// Whether the asking node's pool sends for it.
    pub pool: PoolAssignment,
    /// Endpoints that changed after the cursor, in that order, the disabled included; the deleted only if they may be known to the reader.
    pub endpoints: Vec<Endpoint>,
    /// Where to continue; `None` if everything at this version is known now.
    pub next: Option<ConfigCursor>,
}

/// What an organization defines for all its applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definitions {
    /// The organization's version ([`ConfigVersion::organization`]) that they were read at.
    pub version: i64,
    /// The types that it defined.
    pub event_types: Vec<EventTypeMark>,
    /// The versions of its retry schedules that are in force.
    pub schedules: Vec<(ScheduleId, ScheduleVersion)>,
    /// Who is notified of what happens in its application `operational`, beside the endpoints there.
    pub channels: Vec<Channel>,
    /// The processors of its sources, in the order of their ids.
    pub processors: Vec<SourceProcessor>,
    /// The lanes of the capabilities of its applications, in the order of their ids; also those that a manifest does not name any more.
    pub capabilities: Vec<CapabilityLane>,
}

/// An application and its endpoints, at one version of their configuration.
#[derive(Clone, Debug)]
pub struct ApplicationRow {
    /// The application.
    pub application: Application,
    /// Rises with every change to the application, one of its endpoints, or what it shares with others.
    pub config_version: i64,
    /// What its organization may use.
    pub limits: OrganizationLimits,
    /// Whether the asking node's pool sends for it.
    pub pool: PoolAssignment,
    /// All its endpoints, the disabled included, the deleted not.
    pub endpoints: Vec<Endpoint>,
    /// The types that its organization defined.
    pub event_types: Vec<EventTypeMark>,
}
