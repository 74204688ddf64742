//! Endpoints, also under `/v1/webhooks` and `/v1/subscriptions`.

mod answer;
mod control;
mod flow;
mod health;
mod request;

use std::{num::NonZeroU32, sync::Arc};

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::EndpointId,
    manage::{Fault, endpoints},
    model::{Endpoint, EventTypePattern, Page},
    policy::labels::check_key,
    ports::EndpointFilter,
};
use http::StatusCode;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::request::RotationIn;
pub use self::{
    answer::{EndpointConfigOut, EndpointOut, SecretOut},
    control::BreakerOrderIn,
    health::{BacklogOut, BreakerStateOut, MONTH, StatsOut, StatsQuery, longest_range, millis, rounded},
    request::{EndpointIn, NewEndpointIn},
};
use super::{
    Api,
    access::{MayManage, MayRead},
    body::{JsonBody, OptionalJsonBody},
    deliveries,
    error::{ApiError, ChangeProblems, LimitProblems, ReadProblems},
    events::read_event_type,
    page::{List, RequestedPage},
    publish::Receipt,
    retries, run_to_completion,
    wire::{Named, NoParams, Params, json, read},
};

/// How many endpoints one page of a filtered list reads: about a quarter of a second.
const COMPARED_MAX: NonZeroU32 = NonZeroU32::new(20_000).expect("it is not zero");

/// The routes, without their prefix.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default()
        .routes(routes!(create, list))
        .routes(routes!(get, change, delete))
        .routes(routes!(deliveries::list_endpoint_deliveries))
        .routes(routes!(retries::retry_batch))
        .routes(routes!(retries::attempt_endpoint_now))
        .routes(routes!(retries::retry_endpoint_delivery))
        .routes(routes!(reveal))
        .routes(routes!(rotate))
        .routes(routes!(test))
        .routes(routes!(control::pause))
        .routes(routes!(control::resume))
        .routes(routes!(control::command_breaker))
        .routes(routes!(health::health))
        .routes(routes!(health::stats))
}

/// Which endpoints to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EndpointQuery {
    /// Of this application, by id or uid. Alias: `owner_id`.
    #[serde(alias = "owner_id")]
    application_id: Option<String>,
    /// Of this organization, by id or uid: the key's own, or any with an admin key.
    tenant_id: Option<String>,
    /// Enabled (`true`) or disabled (`false`) endpoints. Alias: `active`.
    #[serde(alias = "active", alias = "is_enabled")]
    #[param(value_type = Option<bool>)]
    enabled: Option<String>,
    /// That receive events of this type.
    event_type: Option<String>,
    /// That require this label: `region:eu`, or `region` for any value.
    label: Option<String>,
    /// The key of a label, optionally with `label_value`.
    label_key: Option<String>,
    /// Only with `label_key`.
    label_value: Option<String>,
    /// That use this retry schedule, by its id.
    retry_schedule_id: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

/// Creates an endpoint. The response includes its secret.
#[utoipa::path(
    post, path = "", tag = "endpoints", operation_id = "create_endpoint", request_body = NewEndpointIn, security(("api_key" = ["manage"])),
    responses((status = 201, description = "Created", body = EndpointOut), ChangeProblems, LimitProblems),
)]
async fn create(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<EndpointIn>,
) -> Result<Response, ApiError> {
    let caller = caller.within(&api, asked.tenant_id.as_deref()).await?;
    let mut new = asked.into_new()?;
    if caller.application.is_some() {
        let mut faults = Vec::new();
        let own = caller.application_in_body(&api, new.application.as_deref(), &mut faults).await?;
        if !faults.is_empty() {
            return Err(ApiError::invalid(faults));
        }
        new.application = own.map(|id| id.to_string());
    }
    let make = async move {
        let (endpoint, secret) = endpoints::create(&api.line, &api.targets, &caller.author(), new).await?;
        let mut out = EndpointOut::new(&api, endpoint, caller.scopes).await?;
        out.secret = Some(secret.expose().clone());
        Ok::<_, ApiError>(out)
    };
    Ok(json(StatusCode::CREATED, &run_to_completion(make).await??))
}

/// A page of them.
pub type EndpointList = List<EndpointOut>;

/// Lists the organization's endpoints, newest first. The values of custom headers are shown to keys with the scope `manage`; others see
/// `***`. A page of a filtered list compares up to 20,000 endpoints with the filter, and may have fewer rows than `limit`: the list ends where
/// `next_cursor` is null.
#[utoipa::path(
    get, path = "", tag = "endpoints", operation_id = "list_endpoints", params(EndpointQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of endpoints", body = EndpointList), ReadProblems),
)]
async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, Params(query): Params<EndpointQuery>) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let enabled =
        read(query.enabled.as_deref(), "enabled", &mut faults, |text| text.parse::<bool>().map_err(|_| "must be true or false".to_owned()));
    let event_type = read(query.event_type.as_deref(), "event_type", &mut faults, read_event_type);
    let follows = read(query.retry_schedule_id.as_deref(), "retry_schedule_id", &mut faults, |text| {
        text.parse().map_err(|_| "must be a UUID".to_owned())
    });
    let label = read_label(&query, &mut faults);
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let caller = caller.within(&api, query.tenant_id.as_deref()).await?;
    let application = api.filter_application(&caller, query.application_id.as_deref()).await?;
    let is_compared = enabled.is_some() || event_type.is_some() || follows.is_some() || label.is_some();
    let compared_max = is_compared.then_some(COMPARED_MAX);
    let filter = EndpointFilter { application, enabled, event_type, follows, label, compared_max };
    let list = |page| api.line.ports.endpoints.endpoints(caller.organization, filter.clone(), page);
    let found = page.fetch_large(list, size).await?;
    let Page { rows, next, prev } = found;
    let out = EndpointOut::all(&api, rows, caller.scopes).await?;
    Ok(json(StatusCode::OK, &List::from(Page { rows: out, next, prev })))
}

/// About how many bytes an endpoint takes, in memory and in an answer: whatever its owner may write as long as they like.
pub fn size(endpoint: &Endpoint) -> usize {
    let texts = [&endpoint.name, &endpoint.description, &endpoint.filter, &endpoint.metadata].into_iter().flatten();
    let texts: usize = texts.map(String::len).sum();
    let pairs = endpoint.headers.iter().map(|(name, value)| (name, value)).chain(&endpoint.labels);
    let pairs: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
    let event_types: usize = endpoint.event_types.iter().map(pattern_size).sum();
    endpoint.target.written.len() + texts + pairs + event_types
}

fn pattern_size(pattern: &EventTypePattern) -> usize {
    match pattern {
        EventTypePattern::Any => 1,
        EventTypePattern::Family(prefix) => prefix.len() + 1,
        EventTypePattern::Exact(event_type) => event_type.as_str().len(),
    }
}

/// The label that a list is narrowed to. A name has no colon, so that the first one ends it.
fn read_label(query: &EndpointQuery, faults: &mut Vec<Fault>) -> Option<(String, Option<String>)> {
    let (field, key, value) = match (&query.label, &query.label_key, &query.label_value) {
        (None, None, None) => return None,
        (Some(label), None, None) => match label.split_once(':') {
            Some((key, value)) => ("label", key, Some(value.to_owned())),
            None => ("label", label.as_str(), None),
        },
        (None, Some(key), value) => ("label_key", key.as_str(), value.clone()),
        (None, None, Some(_)) => {
            faults.push(Fault::new("label_value", "requires `label_key`"));
            return None;
        }
        (Some(_), ..) => {
            faults.push(Fault::new("label", "cannot be combined with `label_key` and `label_value`"));
            return None;
        }
    };
    match check_key(key) {
        Ok(()) => Some((key.to_owned(), value)),
        Err(reason) => {
            faults.push(Fault::new(field, reason));
            None
        }
    }
}

/// Returns an endpoint. The values of its custom headers are shown to keys with the scope `manage`; others see `***`.
#[utoipa::path(
    get, path = "/{id}", tag = "endpoints", operation_id = "get_endpoint",
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The endpoint", body = EndpointOut), ReadProblems),
)]
async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Named(of): Named<EndpointId>,
) -> Result<Response, ApiError> {
    let endpoint = endpoints::find(&api.line, caller.organization, &of).await?;
    Ok(json(StatusCode::OK, &EndpointOut::new(&api, endpoint, caller.scopes).await?))
}

/// Updates the fields that are sent.
#[utoipa::path(
    method(put, patch), path = "/{id}", tag = "endpoints", operation_id = "change_endpoint", request_body = EndpointIn,
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Changed", body = EndpointOut), ChangeProblems, LimitProblems),
)]
async fn change(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
    JsonBody(asked): JsonBody<EndpointIn>,
) -> Result<Response, ApiError> {
    let caller = caller.within(&api, asked.tenant_id.as_deref()).await?;
    // Whether it exists comes first: a stranger's id is not found, whatever else is wrong with the request.
    let found = endpoints::find(&api.line, caller.organization, &of).await?;
    let asked = asked.into_change()?;
    let change = async move {
        let endpoint = endpoints::change(&api.line, &api.targets, &caller.author(), found, asked).await?;
        EndpointOut::new(&api, endpoint, caller.scopes).await
    };
    Ok(json(StatusCode::OK, &run_to_completion(change).await??))
}

/// Deletes an endpoint. Its waiting deliveries are cancelled; its history is kept.
#[utoipa::path(
    delete, path = "/{id}", tag = "endpoints", operation_id = "delete_endpoint",
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Deleted"), ChangeProblems),
)]
async fn delete(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
) -> Result<StatusCode, ApiError> {
    run_to_completion(async move { endpoints::delete(&api.line, &caller.author(), &of).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the secret that signs an endpoint's requests.
#[utoipa::path(
    get, path = "/{id}/secret", tag = "endpoints", operation_id = "get_endpoint_secret",
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "The secret", body = SecretOut), ReadProblems),
)]
async fn reveal(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
) -> Result<Response, ApiError> {
    let revealed = endpoints::reveal(&api.line, caller.organization, &of).await?;
    Ok(json(StatusCode::OK, &SecretOut::from(revealed)))
}

/// Rotates an endpoint's secret. The old and the new secret both sign until the grace period ends; until then it cannot be rotated again.
#[utoipa::path(
    post, path = "/{id}/secret/rotate", tag = "endpoints", operation_id = "rotate_endpoint_secret", request_body = Option<RotationIn>,
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Rotated", body = SecretOut), ChangeProblems),
)]
async fn rotate(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
    OptionalJsonBody(asked): OptionalJsonBody<RotationIn>,
) -> Result<Response, ApiError> {
    let rotation = asked.into_rotation()?;
    let rotate = async move { endpoints::rotate_secret(&api.line, &caller.author(), &of, rotation).await };
    Ok(json(StatusCode::OK, &SecretOut::from(run_to_completion(rotate).await??)))
}

/// The test event.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"type": "order.paid"}))]
struct TestIn {
    /// The event type; its definition's `example` is the data if it has one. Archived and undefined types are sent, too. `endpoint.test` if absent.
    #[serde(rename = "type", alias = "event_type")]
    event_type: Option<String>,
}

/// Sends a test event to this endpoint only, whatever its event types: of the type `endpoint.test`, or of the type given.
#[utoipa::path(
    post, path = "/{id}/test", tag = "endpoints", operation_id = "test_endpoint", request_body = Option<TestIn>,
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 202, description = "Published", body = Receipt), ChangeProblems, LimitProblems),
)]
async fn test(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
    OptionalJsonBody(asked): OptionalJsonBody<TestIn>,
) -> Result<Response, ApiError> {
    endpoints::find(&api.line, caller.organization, &of).await?;
    let mut faults = Vec::new();
    let event_type = read(asked.event_type.as_deref(), "type", &mut faults, read_event_type);
    if !faults.is_empty() {
        return Err(ApiError::invalid(faults));
    }
    let published = run_to_completion(async move { endpoints::test(&api.line, caller.organization, &of, event_type).await }).await??;
    Ok(json(StatusCode::ACCEPTED, &Receipt::from(published)))
}
