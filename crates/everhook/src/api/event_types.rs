//! Event types: what data of a type must be, and which types are out of use.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::EventTypeId,
    manage::{
        Change,
        event_types::{self, EventTypeChange},
    },
    model::EventTypeDefinition,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    access::{MayManage, MayRead},
    body::{JsonBody, check_depth},
    creation::{Creates, New},
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, RequestedPage},
    run_to_completion,
    wire::{Field, Named, NoParams, Params, json, read},
};

/// A defined event type.
#[derive(Serialize, ToSchema)]
pub struct EventTypeOut {
    #[schema(format = "uuid")]
    id: String,
    name: String,
    #[schema(required = true)]
    description: Option<String>,
    /// The JSON Schema of `data`, byte for byte.
    #[schema(value_type = Option<Object>, required = true)]
    schema: Option<Box<RawValue>>,
    /// An example of `data`, byte for byte.
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    example: Option<Box<RawValue>>,
    archived: bool,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl From<EventTypeDefinition> for EventTypeOut {
    fn from(definition: EventTypeDefinition) -> Self {
        let raw = |text: Option<String>| text.and_then(|text| RawValue::from_string(text).ok());
        Self {
            id: definition.id.to_string(),
            name: definition.name.as_str().to_owned(),
            description: definition.description,
            schema: raw(definition.schema),
            example: raw(definition.example),
            archived: definition.archived,
            created_at: definition.created_at.to_string(),
            updated_at: definition.updated_at.to_string(),
        }
    }
}

/// The definition of an event type, as exported and imported.
#[derive(Serialize, ToSchema)]
pub struct EventTypeConfigOut {
    name: String,
    #[schema(required = true)]
    description: Option<String>,
    #[schema(value_type = Option<Object>, required = true)]
    schema: Option<Box<RawValue>>,
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    example: Option<Box<RawValue>>,
    archived: bool,
}

impl From<EventTypeDefinition> for EventTypeConfigOut {
    fn from(definition: EventTypeDefinition) -> Self {
        let EventTypeOut { name, description, schema, example, archived, .. } = definition.into();
        Self { name, description, schema, example, archived }
    }
}

/// An event type. An update needs only the changed fields; null resets a field to its default.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "order.paid", "description": "An order was paid", "schema": {"type": "object", "required": ["order"]}, "example": {"order": 4711}}))]
pub struct EventTypeIn {
    /// The type: 1 to 128 of A-Z a-z 0-9 _ . : - and not a UUID. Required at creation; cannot be changed.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "order.paid")]
    name: Field<String>,
    /// A description for people: at most 4,096 characters.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    description: Field<String>,
    /// A JSON Schema (draft 2020-12) for `data`, at most 64 KiB. References must be internal and not circular.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    schema: Field<Box<RawValue>>,
    /// An example of `data` that is valid against the schema, at most 64 KiB. Null removes it.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    example: Field<Box<RawValue>>,
    /// Whether publishing this type is refused.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    archived: Field<bool>,
}

/// The same, where it creates one.
pub type NewEventTypeIn = New<EventTypeIn>;

impl Creates for EventTypeIn {
    const REQUIRED: &'static [&'static str] = &["name"];
}

impl TryFrom<EventTypeIn> for EventTypeChange {
    type Error = ApiError;

    fn try_from(asked: EventTypeIn) -> Result<Self, ApiError> {
        for json in [&asked.schema.0, &asked.example.0] {
            if let Change::Set(json) = json {
                check_depth(json.get())?;
            }
        }
        Ok(Self {
            name: asked.name.0,
            description: asked.description.0,
            schema: asked.schema.map(|json| json.get().to_owned()),
            example: asked.example.map(|json| json.get().to_owned()),
            archived: asked.archived.0,
        })
    }
}

/// Which event types to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventTypeQuery {
    /// Archived (`true`) or not archived (`false`) types.
    #[param(value_type = Option<bool>)]
    archived: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

/// Defines an event type for all applications of the organization.
#[utoipa::path(
    post, path = "/v1/event-types", tag = "event types", operation_id = "create_event_type", request_body = NewEventTypeIn,
    security(("api_key" = ["manage"])),
    responses((status = 201, description = "Created", body = EventTypeOut), ChangeProblems),
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<EventTypeIn>,
) -> Result<Response, ApiError> {
    let asked = EventTypeChange::try_from(asked)?;
    let made = run_to_completion(async move { event_types::create(&api.line, &caller.author(), asked).await }).await??;
    Ok(json(StatusCode::CREATED, &EventTypeOut::from(made)))
}

/// A page of them.
pub type EventTypeList = List<EventTypeOut>;

/// Lists the organization's event types, newest first.
#[utoipa::path(
    get, path = "/v1/event-types", tag = "event types", operation_id = "list_event_types", params(EventTypeQuery),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of event types", body = EventTypeList), ReadProblems),
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<EventTypeQuery>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let archived = read(query.archived.as_deref(), "archived", &mut faults, |text| {
        text.parse::<bool>().map_err(|_| "must be true or false".to_owned())
    });
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let size = |row: &EventTypeDefinition| [&row.schema, &row.example, &row.description].into_iter().flatten().map(String::len).sum();
    let page = page.fetch_large(|page| api.line.ports.event_types.event_types(caller.organization, archived, page), size).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(EventTypeOut::from))))
}

/// Returns an event type.
#[utoipa::path(
    get, path = "/v1/event-types/{id}", tag = "event types", operation_id = "get_event_type",
    params(("id" = String, Path, description = "The event type's id or name")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The event type", body = EventTypeOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Named(of): Named<EventTypeId>,
) -> Result<Response, ApiError> {
    let found = event_types::find(&api.line, caller.organization, &of).await?;
    Ok(json(StatusCode::OK, &EventTypeOut::from(found)))
}

/// Updates the fields that are sent, for events published from now on.
#[utoipa::path(
    method(put, patch), path = "/v1/event-types/{id}", tag = "event types", operation_id = "change_event_type", request_body = EventTypeIn,
    params(("id" = String, Path, description = "The event type's id or name")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Changed", body = EventTypeOut), ChangeProblems),
)]
pub async fn change(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EventTypeId>,
    JsonBody(asked): JsonBody<EventTypeIn>,
) -> Result<Response, ApiError> {
    let asked = EventTypeChange::try_from(asked)?;
    let change = async move { event_types::change(&api.line, &caller.author(), &of, asked).await };
    Ok(json(StatusCode::OK, &EventTypeOut::from(run_to_completion(change).await??)))
}

/// Deletes the definition of an event type. Published events are kept.
#[utoipa::path(
    delete, path = "/v1/event-types/{id}", tag = "event types", operation_id = "delete_event_type",
    params(("id" = String, Path, description = "The event type's id or name")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Deleted"), ChangeProblems),
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EventTypeId>,
) -> Result<StatusCode, ApiError> {
    run_to_completion(async move { event_types::delete(&api.line, &caller.author(), &of).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}
