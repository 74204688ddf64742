//! An organization's limits as JSON: only those that hold are in it.

use std::num::NonZeroU32;

use everhook_core::model::OrganizationLimits;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct LimitsJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries_per_minute: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events_per_minute: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoints: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applications: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manual_retries_per_minute: Option<NonZeroU32>,
}

/// Writes limits.
pub(super) fn write(limits: &OrganizationLimits) -> String {
    let OrganizationLimits { deliveries_per_minute, events_per_minute, concurrency, endpoints, applications, manual_retries_per_minute } =
        *limits;
    let json = LimitsJson { deliveries_per_minute, events_per_minute, concurrency, endpoints, applications, manual_retries_per_minute };
    serde_json::to_string(&json).expect("numbers are JSON")
}

/// Reads limits; `None` if they were not written here.
pub(super) fn read(json: String) -> Option<OrganizationLimits> {
    let LimitsJson { deliveries_per_minute, events_per_minute, concurrency, endpoints, applications, manual_retries_per_minute } =
        serde_json::from_str(&json).ok()?;
    Some(OrganizationLimits { deliveries_per_minute, events_per_minute, concurrency, endpoints, applications, manual_retries_per_minute })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let some = OrganizationLimits { concurrency: NonZeroU32::new(7), ..OrganizationLimits::default() };
        assert_eq!(write(&some), r#"{"concurrency":7}"#);
        for limits in [some, OrganizationLimits::default()] {
            assert_eq!(read(write(&limits)), Some(limits));
        }
    }
}
