//! What operational events say: the schemas of their types, which are the same for everybody.

use axum::response::Response;
use everhook_core::policy::operational::{OPERATIONAL_TYPES, OperationalType};
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    access::MayRead,
    error::{ApiError, ReadProblems},
    wire::{NoParams, json},
};

/// A type of operational events.
#[derive(Serialize, ToSchema)]
pub struct OperationalTypeOut {
    #[schema(example = "endpoint.disabled")]
    name: &'static str,
    /// When one is published.
    description: &'static str,
    /// The JSON Schema of its data. Fields may be added.
    #[schema(value_type = Object)]
    schema: Value,
}

/// All types of operational events.
#[derive(Serialize, ToSchema)]
pub struct OperationalTypeList {
    data: Vec<OperationalTypeOut>,
}

impl From<&OperationalType> for OperationalTypeOut {
    fn from(known: &OperationalType) -> Self {
        Self { name: known.name, description: known.description, schema: known.schema() }
    }
}

/// Lists the types of events that Everhook publishes in the application `operational`, with the schema of each.
#[utoipa::path(
    get, path = "/v1/operational-event-types", tag = "event types", operation_id = "list_operational_event_types",
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The types", body = OperationalTypeList), ReadProblems),
)]
pub async fn list(_caller: MayRead, _query: NoParams) -> Result<Response, ApiError> {
    let data = OPERATIONAL_TYPES.iter().map(OperationalTypeOut::from).collect();
    Ok(json(StatusCode::OK, &OperationalTypeList { data }))
}
