//! What organizations may use: rates, budgets shared by nodes, limits of manual actions, and the work that schemas and filters may take.

mod bucket_table;
pub mod budgets;
pub mod evaluations;
pub mod inbound_rates;
pub mod on_demand_limit;
pub mod rates;
pub mod retry_limit;

use crate::model::{OrganizationLimits, Profile};

/// The limits that apply to an organization: its own, else those of the server, else those that everybody has.
pub fn effective(own: OrganizationLimits, profile: Profile) -> OrganizationLimits {
    OrganizationLimits {
        deliveries_per_minute: own.deliveries_per_minute.or(profile.deliveries_per_minute.map(std::num::NonZeroU32::get)),
        manual_retries_per_minute: Some(retry_limit::per_minute(own).get()),
        ..own
    }
}
