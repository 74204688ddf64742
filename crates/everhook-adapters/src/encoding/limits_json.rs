//! An organization's limits as JSON: what is not limited is absent.

use everhook_core::model::OrganizationLimits;
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitsJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries_per_minute: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events_per_minute: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoints: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applications: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manual_retries_per_minute: Option<u32>,
}

/// Writes limits.
pub(crate) fn write(limits: OrganizationLimits) -> String {
    let OrganizationLimits { deliveries_per_minute, events_per_minute, concurrency, endpoints, applications, manual_retries_per_minute } =
        limits;
    let json = LimitsJson { deliveries_per_minute, events_per_minute, concurrency, endpoints, applications, manual_retries_per_minute };
    serde_json::to_string(&json).expect("a struct of numbers is JSON")
}

/// Reads what [`write`] wrote; `None` if it is not that.
pub(crate) fn read(text: &str) -> Option<OrganizationLimits> {
    let LimitsJson { deliveries_per_minute, events_per_minute, concurrency, endpoints, applications, manual_retries_per_minute } =
        serde_json::from_str(text).ok()?;
    Some(OrganizationLimits { deliveries_per_minute, events_per_minute, concurrency, endpoints, applications, manual_retries_per_minute })
}
