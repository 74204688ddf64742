//! What one organization may use.

use std::num::NonZeroU32;

/// The limits of an organization, over all its applications. One that is absent does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrganizationLimits {
    /// How many requests may start a minute; what is over it waits.
    pub deliveries_per_minute: Option<NonZeroU32>,
    /// How many events may be published a minute; what is over it is refused.
    pub events_per_minute: Option<NonZeroU32>,
    /// How many requests may be under way at once.
    pub concurrency: Option<NonZeroU32>,
    /// How many endpoints it may have.
    pub endpoints: Option<NonZeroU32>,
    /// How many applications it may have, the built-in ones not counted.
    pub applications: Option<NonZeroU32>,
    /// How many deliveries may be retried by hand a minute.
    pub manual_retries_per_minute: Option<NonZeroU32>,
}
