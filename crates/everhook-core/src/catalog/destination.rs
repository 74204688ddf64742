//! An endpoint as deliveries are made for it and sent to it.

use std::{
    num::NonZeroU32,
    sync::{Arc, OnceLock},
};

use crate::{
    model::{
        ApplicationKind, Endpoint, EndpointState, EventTypePattern, LanePolicy, OrganizationLimits, PoolAssignment, Profile, Revision,
    },
    policy::filter::Filter,
    ports::{ConfigPage, StoreError, Vault},
    shape::Shape,
};

/// How many event type patterns of an endpoint take as much memory as the endpoint itself.
const PATTERNS_AN_ENTRY: usize = 16;

/// An endpoint with everything that sending to it needs, prepared once.
pub struct EndpointDestination {
    /// The endpoint, without its filter, metadata and description.
    pub endpoint: Endpoint,
    /// What its lane goes by.
    pub lane: Arc<LanePolicy>,
    /// What an event's data must say for it, parsed.
    pub filter: Option<Filter>,
    /// Whether it gets Everhook's own events: its deliveries raise none themselves.
    pub operational: bool,
    /// What shapes its requests, opened for the first of them: most endpoints of a large application get none for a long time.
    shape: OnceLock<Shape>,
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
    pub post: PoolAssignment,
    /// What holds where nobody set a limit.
    pub profile: Profile,
}

impl Belonging {
    /// What a page of an application's configuration says of it.
    pub(super) fn of(page: &ConfigPage, profile: Profile) -> Self {
        Self {
            kind: page.application.kind,
            config_version: page.version.total(),
            limits: page.limits,
            post: page.post.clone(),
            profile,
        }
    }
}

impl EndpointDestination {
    /// Prepares an endpoint for sending.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if its filter cannot be read.
    pub fn new(endpoint: Endpoint, of: &Belonging) -> Result<Self, StoreError> {
        let operational = of.kind == ApplicationKind::Operational;
        let filter = endpoint.filter.as_deref().map(Filter::parse).transpose().map_err(StoreError::corrupt)?;
        let lane = Arc::new(lane_policy(&endpoint, of));
        // Sending does not need these, and they are what an endpoint has much of.
        let endpoint = Endpoint { filter: None, metadata: None, description: None, ..endpoint };
        Ok(Self { endpoint, lane, filter, operational, shape: OnceLock::new() })
    }

    /// What shapes its requests.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if its secret does not open.
    pub fn shape(&self, vault: &dyn Vault) -> Result<&Shape, StoreError> {
        if let Some(shape) = self.shape.get() {
            return Ok(shape);
        }
        let opened = Shape::open(self.endpoint.id, Revision::of(&self.endpoint), vault)?;
        Ok(self.shape.get_or_init(|| opened))
    }

    /// The patterns that it gets events by now: none while it is disabled.
    pub(super) fn patterns(&self) -> &[EventTypePattern] {
        match self.endpoint.state {
            EndpointState::Enabled => &self.endpoint.event_types,
            EndpointState::Disabled { .. } | EndpointState::Deleted { .. } => &[],
        }
    }

    /// How much of what the catalog may keep it takes.
    pub(super) fn entries(&self) -> usize {
        1 + self.endpoint.event_types.len() / PATTERNS_AN_ENTRY
    }
}

fn lane_policy(endpoint: &Endpoint, of: &Belonging) -> LanePolicy {
    LanePolicy {
        lane_id: endpoint.id.into(),
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
