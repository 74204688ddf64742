//! An endpoint as deliveries are made for it and sent to it.

use std::{
    mem::size_of,
    num::NonZeroU32,
    sync::{Arc, OnceLock},
};

use crate::{
    model::{
        ApplicationKind, Endpoint, EndpointState, EventTypePattern, LanePolicy, OrganizationLimits, PoolAssignment, Profile, SealedSecrets,
    },
    policy::filter::Filter,
    ports::{ConfigPage, StoreError},
};

/// What an endpoint takes in the maps of its application and in what is remembered of matches, in bytes.
const ENTRY_BYTES: usize = 256;

/// What a text, a list or a key in an index takes beside its bytes: its length, and what the allocator rounds up.
const ALLOCATED_BYTES: usize = 32;

/// An endpoint with everything that making and sending deliveries needs. A hundred thousand of them are kept: what can be made when it is needed is
/// not in here.
pub struct EndpointDestination {
    /// The endpoint, without its filter, metadata and description.
    pub endpoint: Endpoint,
    /// What an event's data must say for it, parsed.
    pub filter: Option<Box<Filter>>,
    /// Whether it gets Everhook's own events: its deliveries raise none themselves.
    pub operational: bool,
    /// The application that it belongs to.
    of: Arc<ApplicationContext>,
    /// What its lane goes by, made for the first delivery: most endpoints of a large application get none for a long time.
    lane: OnceLock<Arc<LanePolicy>>,
}

/// The application that an endpoint belongs to, as far as sending must know it. Shared by all endpoints that were read together.
#[derive(Clone, Debug)]
pub struct ApplicationContext {
    /// What it is for.
    pub kind: ApplicationKind,
    /// The version of its configuration that the endpoint was read from.
    pub config_version: i64,
    /// What its organization may use.
    pub limits: OrganizationLimits,
    /// From where the requests of its lanes are sent.
    pub pool: PoolAssignment,
    /// What holds where nobody set a limit.
    pub profile: Profile,
}

impl ApplicationContext {
    /// What a page of an application's configuration says of it.
    pub(super) fn of(page: &ConfigPage, profile: Profile) -> Self {
        Self { kind: page.application.kind, config_version: page.version.total(), limits: page.limits, pool: page.pool.clone(), profile }
    }

    /// What its organization may use: what was set for it, else what the profile says. Every lane brings the same, whatever it leads to: lanes share what
    /// the last one that was opened brought.
    pub(super) fn effective_limits(&self) -> OrganizationLimits {
        OrganizationLimits {
            deliveries_per_minute: self.limits.deliveries_per_minute.or(self.profile.deliveries_per_minute.map(NonZeroU32::get)),
            ..self.limits
        }
    }
}

impl EndpointDestination {
    /// Prepares an endpoint for sending.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if its filter cannot be read.
    pub fn new(endpoint: Endpoint, of: &Arc<ApplicationContext>) -> Result<Self, StoreError> {
        let operational = of.kind == ApplicationKind::Operational;
        let filter = endpoint.filter.as_deref().map(Filter::parse).transpose().map_err(StoreError::corrupt)?.map(Box::new);
        Ok(Self { endpoint: without_excess(endpoint), filter, operational, of: Arc::clone(of), lane: OnceLock::new() })
    }

    /// What its lane goes by.
    pub fn lane(&self) -> &Arc<LanePolicy> {
        self.lane.get_or_init(|| Arc::new(lane_policy(&self.endpoint, &self.of)))
    }

    /// What its organization may use.
    pub fn limits(&self) -> OrganizationLimits {
        self.of.effective_limits()
    }

    /// Whether this node's pool sends for it.
    pub fn is_sent_from_here(&self) -> bool {
        self.of.pool.is_here
    }

    /// The patterns that it gets events by now: none while it is disabled.
    pub(super) fn patterns(&self) -> &[EventTypePattern] {
        match self.endpoint.state {
            EndpointState::Enabled => &self.endpoint.event_types,
            EndpointState::Disabled { .. } | EndpointState::Deleted { .. } => &[],
        }
    }

    /// How many bytes it takes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let Endpoint { uid, name, target, event_types, labels, secrets, headers, .. } = &self.endpoint;
        let text = |text: &str| ALLOCATED_BYTES + text.len();
        let pair = |(name, value): (&String, &String)| size_of::<[String; 2]>() + text(name) + text(value);
        size_of::<Self>()
            + ENTRY_BYTES
            + uid.as_ref().map_or(0, |uid| text(uid.as_str()))
            + name.as_deref().map_or(0, text)
            + text(&target.written)
            + text(target.url.as_str())
            + event_types.iter().map(pattern_bytes).sum::<usize>()
            + labels.iter().map(pair).sum::<usize>()
            + secrets_bytes(secrets)
            + headers.iter().map(|(name, value)| pair((name, value))).sum::<usize>()
            + self.filter.as_ref().map_or(0, |filter| filter.memory_bytes())
    }
}

/// A pattern, and the endpoint's entry under it in the index by event type.
fn pattern_bytes(pattern: &EventTypePattern) -> usize {
    let text = match pattern {
        EventTypePattern::Any => 0,
        EventTypePattern::Family(prefix) => prefix.len(),
        EventTypePattern::Exact(event_type) => event_type.as_str().len(),
    };
    size_of::<EventTypePattern>() + 2 * ALLOCATED_BYTES + text
}

fn secrets_bytes(secrets: &SealedSecrets) -> usize {
    let previous = secrets.previous.as_ref().map_or(0, |(secret, _)| ALLOCATED_BYTES + secret.0.len());
    ALLOCATED_BYTES + secrets.current.0.len() + previous
}

/// The endpoint without what sending does not need, which is what an endpoint may have much of, and without room that its lists do not use.
fn without_excess(endpoint: Endpoint) -> Endpoint {
    let mut endpoint = Endpoint { filter: None, metadata: None, description: None, ..endpoint };
    endpoint.event_types.shrink_to_fit();
    endpoint.headers.shrink_to_fit();
    endpoint
}

fn lane_policy(endpoint: &Endpoint, of: &ApplicationContext) -> LanePolicy {
    LanePolicy {
        lane_id: endpoint.id.into(),
        application: endpoint.application,
        organization: endpoint.organization,
        pool: of.pool.clone(),
        config_version: of.config_version,
        max_concurrency: endpoint.max_concurrency,
        operational: of.kind == ApplicationKind::Operational,
        limits: of.effective_limits(),
        rate_limit: endpoint.rate_limit.or(of.profile.rate_limit),
        drain: endpoint.drain,
        breaker: endpoint.breaker,
        paused: endpoint.paused_at.is_some(),
    }
}
