//! Sources: where webhooks of other providers come in.

mod answer;
mod control;
mod events;
mod kinds;
mod request;
mod stats;

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{ids::SourceId, manage::sources, model::Source};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{answer::SourceOut, request::into_new};
pub use self::{
    answer::{SourceConfigOut, UrlBase},
    request::{NewSourceIn, SourceIn},
};
use super::{
    Api,
    access::{MayManage, MayRead},
    body::JsonBody,
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, RequestedPage},
    run_to_completion,
    uids::Uids,
    wire::{Named, NoParams, Params, json},
};

/// The routes.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default()
        .routes(routes!(create, list))
        .routes(routes!(get, change, delete))
        .routes(routes!(reveal))
        .routes(routes!(events::list))
        .routes(routes!(stats::stats))
        .routes(routes!(control::pause))
        .routes(routes!(control::resume))
        .routes(routes!(control::await_handshake))
        .routes(routes!(kinds::list))
        .routes(routes!(kinds::get))
}

/// Which sources to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SourceQuery {
    /// Of this application, by id or uid.
    application_id: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

/// The secrets of a source.
#[derive(Serialize, ToSchema)]
pub struct SourceSecretsOut {
    /// The secrets that the provider signs with, the newest first. A key that was received in a handshake is the first.
    secrets: Vec<String>,
    /// The token that the provider sends in its handshake.
    #[schema(required = true)]
    verify_token: Option<String>,
}

/// Creates a source. The response includes the URL to enter at the provider.
#[utoipa::path(
    post, path = "/v1/sources", tag = "sources", operation_id = "create_source", request_body = NewSourceIn,
    security(("api_key" = ["manage"])),
    responses((status = 201, description = "Created", body = SourceOut), ChangeProblems),
)]
async fn create(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    base: UrlBase,
    JsonBody(asked): JsonBody<SourceIn>,
) -> Result<Response, ApiError> {
    let mut new = into_new(asked)?;
    if caller.application.is_some() {
        let mut faults = Vec::new();
        let own = caller.application_in_body(&api, new.application.as_deref(), &mut faults).await?;
        if !faults.is_empty() {
            return Err(ApiError::invalid(faults));
        }
        new.application = own.map(|id| id.to_string());
    }
    let make = async move {
        let made = sources::create(&api.line, &caller.author(), new).await?;
        SourceOut::read(&api, &base, made).await
    };
    Ok(json(StatusCode::CREATED, &run_to_completion(make).await??))
}

/// A page of them.
pub type SourceList = List<SourceOut>;

/// Lists the organization's sources, newest first. Their secrets are not included.
#[utoipa::path(
    get, path = "/v1/sources", tag = "sources", operation_id = "list_sources", params(SourceQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of sources", body = SourceList), ReadProblems),
)]
async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<SourceQuery>,
    base: UrlBase,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let application = api.filter_application(&caller, query.application_id.as_deref()).await?;
    let page = page.fetch_large(|page| api.line.ports.sources.sources(caller.organization, application, page), size).await?;
    let ids: Vec<SourceId> = page.rows.iter().map(|source| source.id).collect();
    let mut activity = sources::activity(&api.line, &ids).await?.into_iter();
    let now = api.line.ports.clock.now();
    let uids = Uids::of_applications(&api, caller.organization, page.rows.iter().map(|source| source.application)).await?;
    let rows = page.map(|source| {
        let application_uid = uids.application(source.application);
        SourceOut::new(&api, &base, source, activity.next().unwrap_or_default(), now).of(application_uid)
    });
    Ok(json(StatusCode::OK, &List::from(rows)))
}

/// About how many bytes a source takes in an answer.
pub fn size(source: &Source) -> usize {
    let recipe = source.recipe.values().map(String::len).sum::<usize>();
    // The last ten refusals are about as much again as everything else.
    2_560 + recipe + source.ip_allowlist.len() * 48 + source.response.as_ref().map_or(0, |response| response.body.len())
}

/// Returns a source with its latest activity. Its secrets are not included.
#[utoipa::path(
    get, path = "/v1/sources/{id}", tag = "sources", operation_id = "get_source",
    params(("id" = String, Path, description = "The source's id or name")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The source", body = SourceOut), ReadProblems),
)]
async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    base: UrlBase,
    Named(of): Named<SourceId>,
) -> Result<Response, ApiError> {
    let found = sources::find(&api.line, caller.organization, &of).await?;
    Ok(json(StatusCode::OK, &SourceOut::read(&api, &base, found).await?))
}

/// Updates the fields that are sent, for requests from now on. `secrets`, `recipe`, `rate_limit`, `dedupe` and `response` are replaced as a whole.
#[utoipa::path(
    method(put, patch), path = "/v1/sources/{id}", tag = "sources", operation_id = "change_source", request_body = SourceIn,
    params(("id" = String, Path, description = "The source's id or name")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Changed", body = SourceOut), ChangeProblems),
)]
async fn change(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    base: UrlBase,
    Named(of): Named<SourceId>,
    JsonBody(asked): JsonBody<SourceIn>,
) -> Result<Response, ApiError> {
    // Whether it exists comes first: a stranger's id is not found, whatever else is wrong with the request.
    sources::find(&api.line, caller.organization, &of).await?;
    let asked = request::into_change(asked)?;
    let change = async move {
        let changed = sources::change(&api.line, &caller.author(), &of, asked).await?;
        SourceOut::read(&api, &base, changed).await
    };
    Ok(json(StatusCode::OK, &run_to_completion(change).await??))
}

/// Deletes a source. Requests to its URL are answered with 404 from then on. Received events are kept, and those held by a pause are delivered.
#[utoipa::path(
    delete, path = "/v1/sources/{id}", tag = "sources", operation_id = "delete_source",
    params(("id" = String, Path, description = "The source's id or name")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Deleted"), ChangeProblems),
)]
async fn delete(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<SourceId>,
) -> Result<StatusCode, ApiError> {
    run_to_completion(async move { sources::delete(&api.line, &caller.author(), &of).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the secrets of a source.
#[utoipa::path(
    get, path = "/v1/sources/{id}/secrets", tag = "sources", operation_id = "get_source_secrets",
    params(("id" = String, Path, description = "The source's id or name")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "The secrets", body = SourceSecretsOut), ReadProblems),
)]
async fn reveal(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<SourceId>,
) -> Result<Response, ApiError> {
    let revealed = sources::reveal(&api.line, caller.organization, &of).await?;
    let out = SourceSecretsOut {
        secrets: revealed.secrets.iter().map(|secret| secret.expose().clone()).collect(),
        verify_token: revealed.verify_token.map(|token| token.expose().clone()),
    };
    Ok(json(StatusCode::OK, &out))
}
