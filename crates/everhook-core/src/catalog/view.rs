//! One application at one version of its configuration. A view never changes: a change of one endpoint makes the next view, which shares everything
//! else with the one before.

use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxHashMap;

use super::{
    ApplicationContext, CallbackDestination, CapabilityDestination, ChannelDestination, Destination, EndpointDestination,
    ProcessorDestination, by_type::EndpointsByType, shared_map::SharedMap,
};
use crate::{
    ids::{ApplicationId, EndpointId, LaneId, ScheduleId, ScheduleVersion, SourceId},
    model::{
        Application, ApplicationKind, CapabilityLane, Channel, Endpoint, EndpointState, EventType, EventTypeMark, OrganizationLimits,
        PoolAssignment, Profile, SourceProcessor, callback_lane,
    },
    policy::notice::routing,
    ports::{ConfigPage, ConfigVersion, Definitions, StoreError},
};

/// How many event types of one application have their matches kept. Publishers choose type names, so it must be bounded.
const MATCHED_TYPES_MAX: usize = 1_000;

/// How many matches are kept for each endpoint of an application, so that they take a share of what its endpoints take anyway.
const MATCHES_AN_ENDPOINT: usize = 24;

/// How many matches are kept in any case: dozens of types, of few endpoints that want them all.
const MATCHES_MIN: usize = 512;

/// How many endpoints are prepared before others have their turn on this thread: less than a millisecond of parsing filters.
const PREPARED_AT_ONCE: usize = 64;

/// What an application without endpoints takes in memory, in bytes, with the matches of some types.
const VIEW_BYTES: usize = 8 * 1024;

/// What an event type takes beside its name, which is there twice.
const EVENT_TYPE_BYTES: usize = 256;

/// What a retry schedule takes here.
const SCHEDULE_BYTES: usize = 64;

/// What the processor of a source takes here, in bytes, with what its lane goes by.
const PROCESSOR_BYTES: usize = 512;

/// What a capability takes here, in bytes, with what its lane goes by.
const CAPABILITY_BYTES: usize = 512;

/// What a channel takes here, in bytes, with what its lane goes by and the event types that it wants.
const CHANNEL_BYTES: usize = 2 * 1024;

/// One application at one version of its configuration.
pub struct ApplicationView {
    /// The application.
    pub application: Application,
    /// The version that a publish must name.
    pub config_version: i64,
    /// What its organization may use.
    pub limits: OrganizationLimits,
    /// From where the requests of its lanes are sent.
    pub pool: PoolAssignment,
    pub(super) version: ConfigVersion,
    pub(super) definitions: Arc<SharedDefinitions>,
    endpoints: Endpoints,
    /// The organization's channels, if this is its application `operational`. Few.
    channels: Vec<Arc<ChannelDestination>>,
    /// The processors of its sources.
    processors: FxHashMap<SourceId, Arc<ProcessorDestination>>,
    /// The lanes of its capabilities.
    capabilities: FxHashMap<LaneId, Arc<CapabilityDestination>>,
    /// Where the callers of its jobs are told, if it has a manifest.
    callbacks: Option<Arc<CallbackDestination>>,
    matches: RwLock<Matches>,
}

/// The endpoints of an application. A copy is cheap.
#[derive(Clone, Default)]
pub(super) struct Endpoints {
    destinations: SharedMap<EndpointId, Arc<EndpointDestination>>,
    by_type: EndpointsByType,
    /// How many bytes they take in memory, about.
    bytes: usize,
}

/// What all applications of an organization share, by name.
#[derive(Default)]
pub(super) struct SharedDefinitions {
    pub(super) version: i64,
    event_types: FxHashMap<EventType, EventTypeMark>,
    schedules: FxHashMap<ScheduleId, ScheduleVersion>,
    channels: Vec<Channel>,
    processors: FxHashMap<ApplicationId, Vec<SourceProcessor>>,
    capabilities: FxHashMap<ApplicationId, Vec<CapabilityLane>>,
}

/// Which destinations want which types.
#[derive(Default)]
struct Matches {
    of_types: FxHashMap<EventType, Arc<[Destination]>>,
    /// How many there are of all types together.
    count: usize,
}

impl ApplicationView {
    /// The application of the last page that was read, with all endpoints.
    pub(super) fn new(last: ConfigPage, endpoints: Endpoints, definitions: Arc<SharedDefinitions>, profile: Profile) -> Self {
        Self {
            channels: open_channels(&last, &definitions, profile),
            processors: open_processors(&last, &definitions, profile),
            capabilities: open_capabilities(&last, &definitions, profile),
            callbacks: open_callbacks(&last, &definitions, profile),
            application: last.application,
            config_version: last.version.total(),
            limits: last.limits,
            pool: last.pool,
            version: last.version,
            definitions,
            endpoints,
            matches: RwLock::default(),
        }
    }

    /// The endpoints, to be changed in a copy.
    pub(super) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// How many bytes it takes in memory, about. What all applications of the organization share is not in it.
    pub(super) fn bytes(&self) -> usize {
        let channels = self.channels.len() * CHANNEL_BYTES;
        VIEW_BYTES + channels + self.endpoints.bytes + self.processors.len() * PROCESSOR_BYTES + self.capabilities.len() * CAPABILITY_BYTES
    }

    /// What the organization said about a type of events; `None` if nothing.
    pub fn event_type(&self, name: &EventType) -> Option<&EventTypeMark> {
        self.definitions.event_types.get(name)
    }

    /// The version of the retry schedule that new deliveries for one of its destinations keep.
    pub fn retry_schedule(&self, destination: &Destination) -> ScheduleVersion {
        match destination {
            Destination::Endpoint(to) => self.retry_schedule_of(&to.endpoint),
            Destination::Channel(to) => to.channel.retry_schedule,
            Destination::Processor(to) => to.processor.retry_schedule,
            Destination::Capability(to) => to.capability.retry_schedule,
            Destination::Callback(to) => to.retry_schedule,
        }
    }

    /// The same for an endpoint.
    pub fn retry_schedule_of(&self, endpoint: &Endpoint) -> ScheduleVersion {
        let followed = endpoint.follows.and_then(|schedule| self.definitions.schedules.get(&schedule));
        followed.copied().unwrap_or(endpoint.retry_schedule)
    }

    /// How many endpoints it has.
    pub fn endpoint_count(&self) -> usize {
        self.endpoints.destinations.len()
    }

    /// The destination of a lane, ready to be sent to. `None` once it is deleted.
    pub fn destination(&self, id: LaneId) -> Option<Destination> {
        if let Some(endpoint) = self.endpoints.destinations.get(&id.endpoint()) {
            return Some(Destination::Endpoint(endpoint.clone()));
        }
        if let Some(processor) = self.processor(SourceId::from_uuid(*id.as_uuid())) {
            return Some(processor);
        }
        if let Some(capability) = self.capabilities.get(&id) {
            return Some(Destination::Capability(capability.clone()));
        }
        if let Some(callbacks) = self.callbacks.as_ref().filter(|to| to.lane.lane_id == id) {
            return Some(Destination::Callback(callbacks.clone()));
        }
        self.channels.iter().find(|to| to.lane.lane_id == id).cloned().map(Destination::Channel)
    }

    /// The processor of one of its sources, if that has one.
    pub fn processor(&self, source: SourceId) -> Option<Destination> {
        self.processors.get(&source).cloned().map(Destination::Processor)
    }

    /// The destination of a lane, if it gets events now.
    pub fn enabled(&self, id: LaneId) -> Option<Destination> {
        self.destination(id).filter(|destination| destination.state() == EndpointState::Enabled)
    }

    fn matches_max(&self) -> usize {
        ((self.endpoint_count() + self.channels.len()) * MATCHES_AN_ENDPOINT).max(MATCHES_MIN)
    }

    /// The destinations that want events of this type: enabled endpoints in the order of their creation, then channels.
    pub fn matching(&self, event_type: &EventType) -> Arc<[Destination]> {
        if let Some(known) = self.matches.read().unwrap_or_else(PoisonError::into_inner).of_types.get(event_type) {
            return known.clone();
        }
        let endpoints = self.endpoints.by_type.wanting(event_type, &self.endpoints.destinations);
        let channels = self.channels.iter().filter(|to| routing::may_get(&to.channel, event_type));
        let found: Arc<[Destination]> =
            endpoints.into_iter().map(Destination::Endpoint).chain(channels.cloned().map(Destination::Channel)).collect();
        let mut matches = self.matches.write().unwrap_or_else(PoisonError::into_inner);
        if matches.of_types.len() >= MATCHED_TYPES_MAX || matches.count + found.len() > self.matches_max() {
            *matches = Matches::default();
        }
        if matches.of_types.insert(event_type.clone(), found.clone()).is_none() {
            matches.count += found.len();
        }
        found
    }
}

impl Endpoints {
    /// Takes over the endpoints of a page.
    pub(super) async fn apply(&mut self, page: &mut ConfigPage, profile: Profile) -> Result<(), StoreError> {
        let of = Arc::new(ApplicationContext::of(page, profile));
        for (index, endpoint) in std::mem::take(&mut page.endpoints).into_iter().enumerate() {
            self.replace(endpoint, &of)?;
            if (index + 1).is_multiple_of(PREPARED_AT_ONCE) {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// How many bytes they take in memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn replace(&mut self, endpoint: Endpoint, of: &Arc<ApplicationContext>) -> Result<(), StoreError> {
        let id = endpoint.id;
        let after = match endpoint.state {
            EndpointState::Deleted { .. } => None,
            EndpointState::Enabled | EndpointState::Disabled { .. } => Some(Arc::new(EndpointDestination::new(endpoint, of)?)),
        };
        let before = match &after {
            Some(after) => self.destinations.insert(id, after.clone()),
            None => self.destinations.remove(&id),
        };
        self.by_type.replace(before.as_deref(), after.as_deref());
        self.bytes += after.map_or(0, |after| after.bytes());
        self.bytes -= before.map_or(0, |before| before.bytes());
        Ok(())
    }
}

/// The channels of an organization, prepared for its application `operational`.
fn open_channels(page: &ConfigPage, definitions: &SharedDefinitions, profile: Profile) -> Vec<Arc<ChannelDestination>> {
    if page.application.kind != ApplicationKind::Operational {
        return Vec::new();
    }
    let of = ApplicationContext::of(page, profile);
    let open = |channel: &Channel| Arc::new(ChannelDestination::new(channel.clone(), &of, &page.application));
    definitions.channels.iter().map(open).collect()
}

/// The processors of an application's sources, prepared.
fn open_processors(page: &ConfigPage, definitions: &SharedDefinitions, profile: Profile) -> FxHashMap<SourceId, Arc<ProcessorDestination>> {
    let Some(processors) = definitions.processors.get(&page.application.id) else { return FxHashMap::default() };
    let of = ApplicationContext::of(page, profile);
    let open =
        |processor: &SourceProcessor| (processor.source, Arc::new(ProcessorDestination::new(processor.clone(), &of, &page.application)));
    processors.iter().map(open).collect()
}

/// The capabilities of an application, prepared.
fn open_capabilities(
    page: &ConfigPage,
    definitions: &SharedDefinitions,
    profile: Profile,
) -> FxHashMap<LaneId, Arc<CapabilityDestination>> {
    let Some(capabilities) = definitions.capabilities.get(&page.application.id) else { return FxHashMap::default() };
    let of = ApplicationContext::of(page, profile);
    let open =
        |capability: &CapabilityLane| (capability.lane_id, Arc::new(CapabilityDestination::new(*capability, &of, &page.application)));
    let callbacks = callback_lane(page.application.id);
    capabilities.iter().filter(|capability| capability.lane_id != callbacks).map(open).collect()
}

/// Where the callers of an application's jobs are told, prepared.
fn open_callbacks(page: &ConfigPage, definitions: &SharedDefinitions, profile: Profile) -> Option<Arc<CallbackDestination>> {
    let callbacks = callback_lane(page.application.id);
    let lane = definitions.capabilities.get(&page.application.id)?.iter().find(|lane| lane.lane_id == callbacks)?;
    let of = ApplicationContext::of(page, profile);
    Some(Arc::new(CallbackDestination::new(lane.retry_schedule, &of, &page.application)))
}

impl SharedDefinitions {
    /// Definitions, to be found by their names.
    pub(super) fn new(read: Definitions) -> Self {
        let mut processors: FxHashMap<ApplicationId, Vec<SourceProcessor>> = FxHashMap::default();
        read.processors.into_iter().for_each(|processor| processors.entry(processor.application).or_default().push(processor));
        let mut capabilities: FxHashMap<ApplicationId, Vec<CapabilityLane>> = FxHashMap::default();
        read.capabilities.into_iter().for_each(|capability| capabilities.entry(capability.application).or_default().push(capability));
        Self {
            version: read.version,
            event_types: read.event_types.into_iter().map(|mark| (mark.name.clone(), mark)).collect(),
            schedules: read.schedules.into_iter().collect(),
            channels: read.channels,
            processors,
            capabilities,
        }
    }

    /// How many bytes they take in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.event_types.keys().map(|name| 2 * name.as_str().len()).sum();
        let processors: usize = self.processors.values().map(Vec::len).sum();
        let capabilities: usize = self.capabilities.values().map(Vec::len).sum();
        let processors = processors * PROCESSOR_BYTES + capabilities * CAPABILITY_BYTES;
        let processors = processors + self.channels.len() * CHANNEL_BYTES;
        names + self.event_types.len() * EVENT_TYPE_BYTES + self.schedules.len() * SCHEDULE_BYTES + processors
    }
}
