//! What an endpoint's lane goes by.

use crate::{
    ids::{ApplicationId, LaneId, OrganizationId},
    model::{BreakerConfig, OrganizationLimits, PoolAssignment, RateLimit},
};

/// Everything of an endpoint that decides when a request to it may start. Made when the endpoint is read, and shared with each delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct LanePolicy {
    /// Which lane.
    pub lane_id: LaneId,
    /// The application of the endpoint.
    pub application: ApplicationId,
    /// Whose lane it is.
    pub organization: OrganizationId,
    /// From where its requests are sent.
    pub pool: PoolAssignment,
    /// The version of the application's configuration that it was read from: of two policies, the one with the higher holds.
    pub config_version: i64,
    /// How many requests the endpoint takes at once.
    pub max_concurrency: u32,
    /// Whether it gets Everhook's own events, which no limit of the organization holds up.
    pub operational: bool,
    /// What it shares with the organization's other lanes.
    pub limits: OrganizationLimits,
    /// How many requests may start in a time.
    pub rate_limit: Option<RateLimit>,
    /// How fast what gathered during a pause is sent.
    pub drain: Option<RateLimit>,
    /// When it is left alone because it fails.
    pub breaker: BreakerConfig,
    /// Whether nothing is sent to it for now.
    pub paused: bool,
}
