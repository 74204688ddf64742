//! What health providers push, understood: pure, without the store or the network.
//!
//! [`map`] makes of one received item what is to be done about it. A processor calls it, writes the metrics for every profile of the user, and asks the
//! provider where the item only says that there is something to fetch. Nothing here trusts the item: what cannot be read is left out and named.

pub mod backfill;
pub mod callback;
mod details;
mod fetched;
mod garmin;
mod item;
pub mod limits;
mod mapped;
mod metrics;
mod samples;
mod strava;
mod texts;
pub mod tokens;
mod value;

pub use fetched::{map_fetched, read_permissions};
pub use mapped::{ActivityChange, Effect, GarminType, KeptRaw, Mapped, Missing, Unmappable, Why};
pub use strava::{activity as map_activity, is_activity_id};

use crate::model::health::Provider;

/// What one received item means.
///
/// The item is the body of one event of the provider's source: for Garmin an element of one of the envelope's arrays, for Strava the whole event.
///
/// # Errors
/// [`Unmappable`] if nothing can be made of it, now or later.
pub fn map(provider: Provider, event_type: &str, item: &[u8]) -> Result<Mapped, Unmappable> {
    match provider {
        Provider::Garmin => garmin::map(event_type, item),
        Provider::Strava => strava::map(item),
    }
}

#[cfg(test)]
mod tests;
