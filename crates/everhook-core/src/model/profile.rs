//! What holds where nobody set a limit.

use std::num::NonZeroU32;

use crate::model::RateLimit;

/// The limits of endpoints and organizations that have none of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// How many requests may start to one endpoint in a time.
    pub rate_limit: Option<RateLimit>,
    /// How many may start for one organization in a minute.
    pub deliveries_per_minute: Option<NonZeroU32>,
}

impl Profile {
    /// No limits but those that are set: for a server of one's own.
    pub const fn plain() -> Self {
        Self { rate_limit: None, deliveries_per_minute: None }
    }

    /// 100 a minute and 20 at once to an endpoint, 1,000 a minute for an organization: for a server that strangers share.
    pub fn hosted() -> Self {
        let rate_limit = NonZeroU32::new(100).map(|requests| RateLimit::per_minute(requests, NonZeroU32::new(20)));
        Self { rate_limit, deliveries_per_minute: NonZeroU32::new(1_000) }
    }
}
