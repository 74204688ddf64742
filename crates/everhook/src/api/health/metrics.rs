//! What was measured.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    manage::Fault,
    model::health::{Metric, MetricType, PROFILE_ID_RULE, ProfileId},
    ports::{MetricFilter, TimeRange},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::super::{
    Api,
    access::MayRead,
    error::{ApiError, ReadProblems},
    page::{List, RequestedPage},
    wire::{Params, json, read, read_time},
};
use crate::api::words::{HealthProviderWord, MetricTypeWord};

/// One measurement of a profile.
#[derive(Serialize, ToSchema)]
pub struct HealthMetricOut {
    #[schema(format = "uuid")]
    id: String,
    profile_id: String,
    /// The provider.
    #[schema(value_type = HealthProviderWord)]
    source: &'static str,
    #[schema(value_type = MetricTypeWord)]
    metric_type: &'static str,
    /// The value, in `unit`; null if nothing was measured.
    #[schema(required = true)]
    value_num: Option<f64>,
    /// What else was measured: a JSON object.
    #[schema(value_type = Option<Object>, required = true)]
    value_text: Option<Box<RawValue>>,
    #[schema(example = "steps")]
    unit: &'static str,
    #[schema(format = DateTime)]
    start_time: String,
    #[schema(format = DateTime)]
    end_time: String,
    /// The provider's id of the record.
    #[schema(required = true)]
    provider_record_id: Option<String>,
    /// What finds the row where the provider gave no id.
    dedupe_hash: String,
    /// What the provider sent.
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    raw_payload_json: Option<Box<RawValue>>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl From<Metric> for HealthMetricOut {
    fn from(metric: Metric) -> Self {
        let measured = metric.measured;
        let raw = |text: String| RawValue::from_string(text).ok();
        Self {
            id: metric.id.to_string(),
            profile_id: metric.profile.to_string(),
            source: metric.provider.as_str(),
            metric_type: measured.metric_type.as_str(),
            value_num: measured.value,
            value_text: measured.details.and_then(raw),
            unit: measured.metric_type.unit().as_str(),
            start_time: measured.start.to_string(),
            end_time: measured.end.to_string(),
            provider_record_id: measured.record_id.map(|id| id.to_string()),
            dedupe_hash: metric.dedupe_hash.to_string(),
            raw_payload_json: measured.raw.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()).and_then(raw),
            created_at: metric.created_at.to_string(),
            updated_at: metric.updated_at.to_string(),
        }
    }
}

/// Which metrics to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HealthMetricQuery {
    /// Of this profile.
    profile_id: Option<String>,
    /// Of this type.
    #[param(value_type = Option<MetricTypeWord>)]
    metric_type: Option<String>,
    /// That began at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// That began before this time: RFC 3339 or a date.
    to: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

impl HealthMetricQuery {
    fn read(&self, faults: &mut Vec<Fault>) -> MetricFilter {
        let names = || MetricType::ALL.map(MetricType::as_str).join(", ");
        MetricFilter {
            profile: read(self.profile_id.as_deref(), "profile_id", faults, |text| {
                ProfileId::parse(text).ok_or_else(|| PROFILE_ID_RULE.to_owned())
            }),
            metric_type: read(self.metric_type.as_deref(), "metric_type", faults, |text| {
                MetricType::parse(text).ok_or_else(|| format!("must be one of {}", names()))
            }),
            started: TimeRange {
                from: read(self.from.as_deref(), "from", faults, read_time),
                to: read(self.to.as_deref(), "to", faults, read_time),
            },
        }
    }
}

/// A page of them.
pub type HealthMetricList = List<HealthMetricOut>;

/// About how many bytes a metric takes in an answer.
fn size(metric: &Metric) -> usize {
    let measured = &metric.measured;
    512 + measured.details.as_ref().map_or(0, String::len) + measured.raw.as_ref().map_or(0, |raw| raw.len())
}

/// Lists the measurements of a profile, newest first, in the order in which they were first stored.
#[utoipa::path(
    get, path = "/v1/health/metrics", tag = "health", operation_id = "list_health_metrics", params(HealthMetricQuery),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of metrics", body = HealthMetricList), ReadProblems),
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<HealthMetricQuery>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let filter = query.read(&mut faults);
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let metrics = &api.line.ports.health_metrics;
    let page = page.fetch_large(|page| metrics.metrics(caller.organization, filter.clone(), page), size).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(HealthMetricOut::from))))
}
