//! What owners set, as they know it, and the ways in which they change it. The log tells of it, and the oracle goes by it.

use everhook_core::model::OrderingMode;

/// What its owner knows of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether it gets events.
    pub status: EndpointStatus,
    /// How many requests it takes at once.
    pub max_concurrency: u32,
    /// Which of its deliveries go one after the other.
    pub ordering: OrderingMode,
    /// How many requests may start a minute.
    pub rate_limit: Option<Rate>,
    /// Whether what is made for it waits.
    pub paused: bool,
}

/// Whether an endpoint gets events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointStatus {
    /// It does.
    Open,
    /// It does not.
    Disabled,
    /// It never will again.
    Deleted,
}

/// So many requests a minute, and how many of them at once after a quiet time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// A minute, in the long run.
    pub requests: u32,
    /// At once.
    pub burst: u32,
}

/// What all endpoints of an organization share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many requests may start a minute.
    pub rate: Option<Rate>,
    /// How many may be under way at once.
    pub concurrency: Option<u32>,
}

/// A change of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It gets no more events.
    Disable,
    /// It gets events again.
    Enable,
    /// It is gone for good.
    Delete,
    /// It takes so many requests at once.
    Limit(u32),
    /// It has another secret.
    RotateSecret,
    /// What is made for it waits.
    Pause,
    /// What waits is sent, at once or so many a second.
    Resume(Option<u32>),
    /// Its deliveries keep this order.
    Order(OrderingMode),
    /// It gets so many requests a minute.
    Rate(Option<Rate>),
    /// Somebody overrules its breaker.
    Breaker(Order),
}

/// What is asked of a breaker, for some seconds or until it is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Closed, and all is forgotten.
    Reset,
    /// Nothing is sent.
    ForceOpen(Option<u64>),
    /// Failures are ignored.
    ForceClose(Option<u64>),
}

impl Settings {
    /// The same, with this change made.
    pub fn with(mut self, change: Change) -> Self {
        match change {
            Change::Disable => self.status = EndpointStatus::Disabled,
            Change::Enable => self.status = EndpointStatus::Open,
            Change::Delete => self.status = EndpointStatus::Deleted,
            Change::Limit(limit) => self.max_concurrency = limit,
            Change::Pause => self.paused = true,
            Change::Resume(_) => self.paused = false,
            Change::Order(ordering) => self.ordering = ordering,
            Change::Rate(rate_limit) => self.rate_limit = rate_limit,
            Change::RotateSecret | Change::Breaker(_) => {}
        }
        self
    }
}
