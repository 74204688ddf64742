//! A call as clients write it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::{
    calls::call::{CACHE_KEY_BYTES_MAX, CallRequest, PayloadCharge},
    manage::Fault,
    model::TraceParent,
    policy::target::{self, TargetRules},
    time::Timestamp,
};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    api::{body::check_depth, error::ApiError, publish::present},
    memory::Charge,
};

/// The longest timeout that a caller may ask for, in milliseconds. What is longer than the manifest's is cut to that.
const TIMEOUT_MS_MAX: u64 = 600_000;

/// A call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"payload": {"roomId": "room_1", "participants": ["a", "b"], "prizes": [1]}, "cache_key": "room_1"}))]
pub struct CallIn<'a> {
    /// The request payload for the app: any JSON value, passed on byte for byte. Required.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = serde_json::Value, required = true)]
    pub payload: Option<&'a RawValue>,
    /// The key under which answers are cached; concurrent calls with the same key become one. At most 512 bytes.
    #[serde(default)]
    pub cache_key: Option<String>,
    /// How long you wait, in milliseconds: at least 50. The manifest's timeout holds if that is shorter.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 600_000)]
    pub timeout_ms: Option<i64>,
    /// If the call becomes a job: where its end is posted to, as `{jobId, source, status, message, error?, details}`, signed with the application's secret.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "uri", example = "https://platform.example.com/jobs/done")]
    pub callback_url: Option<String>,
}

impl CallIn<'_> {
    /// As a request. Its payload is a copy, which takes its part of the body's charge along: the body need not be kept for it, although the payload may be
    /// needed for longer than the caller waits.
    pub fn into_request(
        self,
        charge: &mut Charge,
        payload_bytes_max: usize,
        header_timeout: Option<Duration>,
        trace: Option<TraceParent>,
        arrived_at: Timestamp,
        targets: &TargetRules,
    ) -> Result<CallRequest, ApiError> {
        let mut faults = Vec::new();
        if self.payload.is_none() {
            faults.push(Fault::new("payload", "is required"));
        }
        if let Some(key) = self.cache_key.as_ref().filter(|key| key.is_empty() || key.len() > CACHE_KEY_BYTES_MAX) {
            faults.push(Fault::new("cache_key", format!("must have 1 to {CACHE_KEY_BYTES_MAX} bytes, and has {}", key.len())));
        }
        let timeout = match self.timeout_ms {
            None => header_timeout,
            Some(millis) => {
                let millis = u64::try_from(millis).ok().filter(|millis| (1..=TIMEOUT_MS_MAX).contains(millis));
                if millis.is_none() {
                    faults.push(Fault::new("timeout_ms", format!("must be 1 to {TIMEOUT_MS_MAX}")));
                }
                millis.map(Duration::from_millis)
            }
        };
        let https = TargetRules { allow_amqp: false, ..targets.clone() };
        if let Some(fault) = self.callback_url.as_deref().and_then(|url| target::check(url, &https).err()) {
            faults.push(Fault::new("callback_url", fault.to_string()));
        }
        let Some(payload) = self.payload.filter(|_| faults.is_empty()) else { return Err(ApiError::invalid(faults)) };
        let text = payload.get();
        if text.len() > payload_bytes_max {
            return Err(ApiError::too_large(format!("`payload` may have at most {payload_bytes_max} bytes, and has {}", text.len())));
        }
        check_depth(text)?;
        let payload = Bytes::copy_from_slice(text.as_bytes());
        let charge: Option<PayloadCharge> = Some(Arc::new(charge.split(payload.len())));
        Ok(CallRequest { payload, charge, cache_key: self.cache_key, timeout, trace, callback_url: self.callback_url, arrived_at })
    }
}

/// How long a caller waits, as a header says.
pub fn caller_timeout(headers: &HeaderMap) -> Result<Option<Duration>, ApiError> {
    let Some(value) = headers.get("x-timeout-ms") else { return Ok(None) };
    let millis = value.to_str().ok().and_then(|text| text.trim().parse().ok()).filter(|millis| (1..=TIMEOUT_MS_MAX).contains(millis));
    match millis {
        Some(millis) => Ok(Some(Duration::from_millis(millis))),
        None => Err(ApiError::bad_request(format!("the header X-Timeout-Ms must be 1 to {TIMEOUT_MS_MAX}"))),
    }
}

/// The trace of a caller. What is not one is left out, as the W3C asks.
pub fn trace_of(headers: &HeaderMap) -> Option<TraceParent> {
    TraceParent::parse(headers.get("traceparent")?.to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use everhook_core::{ids::OrganizationId, policy::address::AddressRules};

    use super::*;
    use crate::memory::{MemoryBudget, MemoryLimits};

    #[test]
    fn a_payload_counts_by_itself_and_does_not_keep_its_body_in_memory() {
        let body = format!("{{\"payload\": [1]{}}}", " ".repeat(1_000));
        let budget = MemoryBudget::new(MemoryLimits { total: body.len(), organization: body.len(), kept_for_small: 0 });
        let new_charge = || Charge::new(budget.clone(), OrganizationId::from_uuid(uuid::Uuid::nil()));
        let mut charge = new_charge();
        charge.grow(body.len()).unwrap();
        let asked: CallIn<'_> = serde_json::from_str(&body).unwrap();
        let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
        let request = asked.into_request(&mut charge, 100, None, None, Timestamp::EPOCH, &rules).unwrap();
        assert!(&*request.payload == b"[1]" && !body.as_bytes().as_ptr_range().contains(&request.payload.as_ptr()));
        drop(charge);
        assert_eq!((new_charge().would_fit(body.len() - 3), new_charge().would_fit(body.len() - 2).is_err()), (Ok(()), true));
        drop(request);
        assert_eq!(new_charge().would_fit(body.len()), Ok(()));
    }
}
