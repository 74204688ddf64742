//! Where deliveries go: one type for every kind of destination. The lanes know none of this; the steps of the line ask here.

use std::{num::NonZeroU32, sync::Arc};

use super::{ApplicationContext, EndpointDestination};
use crate::{
    ids::{LaneId, ScheduleVersion},
    model::{
        Application, BreakerConfig, CapabilityLane, CapabilityName, Channel, Endpoint, EndpointState, LanePolicy, Ordering, OrderingMode,
        OrganizationLimits, RateLimit, SourceProcessor, callback_lane,
    },
};

/// How many notifications to one address or service may be under way at once. Those to services go one after the other.
const NOTIFICATIONS_AT_ONCE: u32 = 2;

/// How many notifications an address or a service gets in a minute at most; more wait.
const NOTIFICATIONS_A_MINUTE: NonZeroU32 = NonZeroU32::new(30).expect("30 is not zero");

/// How many events of one source are processed at once: each holds a connection of the store or of the provider for a moment. Those about one user follow
/// each other in any case.
const PROCESSED_AT_ONCE: u32 = 8;

/// How many jobs of one capability an app is asked at once: a tenth of what callers who wait may have.
const JOBS_AT_ONCE: u32 = 10;

/// How many callers of one application's jobs are told at once.
const CALLBACKS_AT_ONCE: u32 = 10;

/// The destination of a lane, with everything that sending there needs, prepared once. A copy is cheap.
#[derive(Clone)]
pub enum Destination {
    /// A URL.
    Endpoint(Arc<EndpointDestination>),
    /// People.
    Channel(Arc<ChannelDestination>),
    /// Built-in code.
    Processor(Arc<ProcessorDestination>),
    /// A function of an app.
    Capability(Arc<CapabilityDestination>),
    /// The callers of an app's jobs, each at its own URL.
    Callback(Arc<CallbackDestination>),
}

/// A capability with what asking its app takes.
pub struct CapabilityDestination {
    /// Its lane, and the schedule of its jobs.
    pub capability: CapabilityLane,
    /// What its lane goes by.
    pub lane: Arc<LanePolicy>,
    /// What the manifest calls it; `None` if that does not name it any more, and in a view, which does not know manifests.
    pub name: Option<CapabilityName>,
}

impl CapabilityDestination {
    /// Prepares a capability of this application. Its breaker is that of calls, tripped here by what jobs meet.
    pub(super) fn new(capability: CapabilityLane, of: &ApplicationContext, belongs_to: &Application) -> Self {
        let lane = LanePolicy {
            lane_id: capability.lane_id,
            application: belongs_to.id,
            organization: belongs_to.organization,
            pool: of.pool.clone(),
            config_version: of.config_version,
            max_concurrency: JOBS_AT_ONCE,
            operational: false,
            limits: of.effective_limits(),
            rate_limit: None,
            drain: None,
            breaker: BreakerConfig { half_open_max_calls: 1, ..BreakerConfig::consecutive() },
            paused: false,
        };
        Self { capability, lane: Arc::new(lane), name: None }
    }

    /// The same with the name that the manifest gives it.
    pub fn named(&self, name: Option<CapabilityName>) -> Self {
        Self { capability: self.capability, lane: self.lane.clone(), name }
    }
}

/// What telling the callers of an application's jobs takes.
pub struct CallbackDestination {
    /// The schedule by which it is tried again.
    pub retry_schedule: ScheduleVersion,
    /// What its lane goes by.
    pub lane: Arc<LanePolicy>,
}

impl CallbackDestination {
    /// Prepares the lane of an application. It has no circuit breaker: each job names its own URL, and what one caller's server does says nothing about
    /// another's.
    pub(super) fn new(retry_schedule: ScheduleVersion, of: &ApplicationContext, belongs_to: &Application) -> Self {
        let lane = LanePolicy {
            lane_id: callback_lane(belongs_to.id),
            application: belongs_to.id,
            organization: belongs_to.organization,
            pool: of.pool.clone(),
            config_version: of.config_version,
            max_concurrency: CALLBACKS_AT_ONCE,
            operational: false,
            limits: of.effective_limits(),
            rate_limit: None,
            drain: None,
            breaker: BreakerConfig { enabled: false, ..BreakerConfig::window() },
            paused: false,
        };
        Self { retry_schedule, lane: Arc::new(lane) }
    }
}

/// A source's processor with everything that handing events to it needs.
pub struct ProcessorDestination {
    /// The processor.
    pub processor: SourceProcessor,
    /// What its lane goes by.
    pub lane: Arc<LanePolicy>,
}

impl ProcessorDestination {
    /// Prepares the processor of a source of this application. It has no circuit breaker: what one user's event meets says nothing about another's, and
    /// limits of providers hold up the events that need the provider.
    pub(super) fn new(processor: SourceProcessor, of: &ApplicationContext, belongs_to: &Application) -> Self {
        let lane = LanePolicy {
            lane_id: processor.source.into(),
            application: belongs_to.id,
            organization: belongs_to.organization,
            pool: of.pool.clone(),
            config_version: of.config_version,
            max_concurrency: PROCESSED_AT_ONCE,
            operational: false,
            limits: of.effective_limits(),
            rate_limit: None,
            drain: None,
            breaker: BreakerConfig { enabled: false, ..BreakerConfig::window() },
            paused: false,
        };
        Self { processor, lane: Arc::new(lane) }
    }
}

/// A channel with everything that sending to it needs.
pub struct ChannelDestination {
    /// The channel.
    pub channel: Channel,
    /// What its lane goes by.
    pub lane: Arc<LanePolicy>,
}

impl ChannelDestination {
    /// Prepares a channel of an organization's application `operational`. A circuit breaker would only add to the waiting: its retry schedule has the pace
    /// of a mail server's.
    pub(super) fn new(channel: Channel, of: &ApplicationContext, belongs_to: &Application) -> Self {
        let lane = LanePolicy {
            lane_id: channel.id.into(),
            application: belongs_to.id,
            organization: belongs_to.organization,
            pool: of.pool.clone(),
            config_version: of.config_version,
            max_concurrency: NOTIFICATIONS_AT_ONCE,
            operational: true,
            limits: of.effective_limits(),
            rate_limit: Some(RateLimit::per_minute(NOTIFICATIONS_A_MINUTE, Some(NOTIFICATIONS_A_MINUTE))),
            drain: None,
            breaker: BreakerConfig { enabled: false, ..BreakerConfig::window() },
            paused: false,
        };
        Self { channel, lane: Arc::new(lane) }
    }
}

impl Destination {
    /// What its lane goes by.
    pub fn lane(&self) -> &Arc<LanePolicy> {
        match self {
            Self::Endpoint(to) => to.lane(),
            Self::Channel(to) => &to.lane,
            Self::Processor(to) => &to.lane,
            Self::Capability(to) => &to.lane,
            Self::Callback(to) => &to.lane,
        }
    }

    /// Whether its events are those that somebody published or a provider sent: not Everhook's own, nor jobs and their ends.
    pub fn gets_published_events(&self) -> bool {
        matches!(self, Self::Endpoint(_) | Self::Processor(_)) && !self.lane().operational
    }

    /// Its lane.
    pub fn lane_id(&self) -> LaneId {
        match self {
            Self::Endpoint(to) => to.endpoint.id.into(),
            Self::Channel(to) => to.channel.id.into(),
            Self::Processor(to) => to.processor.source.into(),
            Self::Capability(to) => to.capability.lane_id,
            Self::Callback(to) => to.lane.lane_id,
        }
    }

    /// Whether nothing is sent to it for now.
    pub fn is_paused(&self) -> bool {
        self.endpoint().is_some_and(|endpoint| endpoint.paused_at.is_some())
    }

    /// Whether this node's pool sends for it.
    pub fn is_sent_from_here(&self) -> bool {
        match self {
            Self::Endpoint(to) => to.is_sent_from_here(),
            Self::Channel(to) => to.lane.pool.is_here,
            Self::Processor(to) => to.lane.pool.is_here,
            Self::Capability(to) => to.lane.pool.is_here,
            Self::Callback(to) => to.lane.pool.is_here,
        }
    }

    /// What its organization may use.
    pub fn limits(&self) -> OrganizationLimits {
        match self {
            Self::Endpoint(to) => to.limits(),
            Self::Channel(to) => to.lane.limits,
            Self::Processor(to) => to.lane.limits,
            Self::Capability(to) => to.lane.limits,
            Self::Callback(to) => to.lane.limits,
        }
    }

    /// The endpoint, if it is one.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Endpoint(to) => Some(&to.endpoint),
            Self::Channel(_) | Self::Processor(_) | Self::Capability(_) | Self::Callback(_) => None,
        }
    }

    /// Whether it gets deliveries. A processor or capability that does not is no longer part of its application.
    pub fn state(&self) -> EndpointState {
        match self {
            Self::Endpoint(to) => to.endpoint.state,
            Self::Channel(to) => to.channel.state(),
            Self::Processor(_) | Self::Capability(_) | Self::Callback(_) => EndpointState::Enabled,
        }
    }

    /// In which order its deliveries go out.
    pub fn ordering(&self) -> Ordering {
        match self {
            Self::Endpoint(to) => to.endpoint.ordering,
            // The end of something must not arrive before its beginning, or an incident would stay open.
            Self::Channel(to) if to.channel.service().is_some() => Ordering { mode: OrderingMode::Strict, barrier: None },
            Self::Channel(_) | Self::Capability(_) | Self::Callback(_) => Ordering::default(),
            // What is said about one user is processed in the order in which it was received.
            Self::Processor(_) => Ordering { mode: OrderingMode::PerKey, barrier: None },
        }
    }

    /// Whether it gets Everhook's own events: its deliveries raise none themselves.
    pub fn is_operational(&self) -> bool {
        match self {
            Self::Endpoint(to) => to.operational,
            Self::Channel(_) => true,
            Self::Processor(_) | Self::Capability(_) | Self::Callback(_) => false,
        }
    }

    /// Where it leads, for people: a URL, an address or the name of a processor or capability.
    pub fn target(&self) -> &str {
        match self {
            Self::Endpoint(to) => &to.endpoint.target.written,
            Self::Channel(to) => to.channel.name(),
            Self::Processor(to) => to.processor.kind.as_str(),
            Self::Capability(to) => to.name.as_ref().map_or("a capability that the manifest does not have", CapabilityName::as_str),
            // The URL itself may hold what only the caller should know.
            Self::Callback(_) => "callback_url",
        }
    }
}
