//! How many requests a provider has had from us, and how many it takes.

/// What is known of a provider's limits, for all nodes and organizations together: they ask with one client id.
///
/// Windows are those of the wall clock in UTC: a quarter of an hour begins at :00, :15, :30 and :45, a day at midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderRate {
    /// The requests of a quarter of an hour.
    pub quarter: RateWindow,
    /// The requests of a day.
    pub day: RateWindow,
}

/// The same as a store keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRate {
    /// What is known.
    pub rate: ProviderRate,
    /// Raised by each change.
    pub revision: i64,
}

/// One window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateWindow {
    /// Which one: whole windows since the epoch.
    pub number: i64,
    /// How many requests it has had.
    pub used: u32,
    /// How many it may have; at least one. It holds for later windows, too, until the provider says otherwise.
    pub limit: u32,
}
