//! API keys: made (and shown once), listed without their text, revoked.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::ApiKeyId,
    manage::{
        Fault,
        api_keys::{self, NewApiKey},
    },
    model::{ApiKey, Scope},
    time::Timestamp,
};
use http::StatusCode;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    access::{MayManage, MayRead},
    body::JsonBody,
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, PageQuery},
    run_to_completion,
    uids::Uids,
    wire::{Identified, NoParams, Params, json},
};
use crate::api::words::ScopeWord;

/// An API key.
#[derive(Serialize, ToSchema)]
pub struct ApiKeyOut {
    #[schema(format = "uuid")]
    id: String,
    /// The key itself. Shown only at creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The first characters of the key, to identify it.
    #[schema(example = "eh_ab12")]
    prefix: String,
    name: String,
    /// The only application that it reaches; null if it reaches all of the organization's.
    #[schema(format = "uuid", required = true)]
    application_id: Option<String>,
    #[schema(required = true)]
    application_uid: Option<String>,
    #[schema(value_type = Vec<ScopeWord>)]
    scopes: Vec<&'static str>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime, required = true)]
    expires_at: Option<String>,
    /// When it was last used, accurate to a minute; null if never.
    #[schema(format = DateTime, required = true)]
    last_used_at: Option<String>,
}

impl ApiKeyOut {
    fn new(key: ApiKey, uids: &Uids) -> Self {
        Self {
            application_uid: key.application.and_then(|id| uids.application(id)),
            id: key.id.to_string(),
            key: None,
            prefix: key.prefix,
            name: key.name,
            application_id: key.application.map(|id| id.to_string()),
            scopes: key.scopes.iter().map(Scope::as_str).collect(),
            created_at: key.created_at.to_string(),
            expires_at: key.expires_at.map(|at| at.to_string()),
            last_used_at: key.last_used_at.map(|at| at.to_string()),
        }
    }
}

/// The API key to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "Publisher", "scopes": ["publish"], "expires_at": "2099-12-31T00:00:00Z"}))]
pub struct ApiKeyIn {
    /// A name for people.
    #[schema(value_type = String, required = true)]
    name: Option<String>,
    /// Some of `publish`, `read`, `manage`, `admin`.
    #[schema(value_type = Vec<ScopeWord>, required = true)]
    scopes: Option<Vec<String>>,
    /// The only application that it reaches, by id or uid; all of the organization's if absent. Not for the scope `admin`.
    application_id: Option<String>,
    /// When it expires, in RFC 3339; never if absent.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// Creates an API key. The response is the only place that shows the key. With `application_id` it reaches that application alone: others are not found, and
/// what concerns the whole organization is refused.
#[utoipa::path(
    post, path = "/v1/api-keys", tag = "api keys", operation_id = "create_api_key", request_body = ApiKeyIn,
    security(("api_key" = ["manage"])),
    responses((status = 201, description = "Created", body = ApiKeyOut), ChangeProblems),
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<ApiKeyIn>,
) -> Result<Response, ApiError> {
    let expires_at = match asked.expires_at.as_deref().map(Timestamp::parse_rfc3339) {
        Some(None) => return Err(ApiError::invalid(vec![Fault::new("expires_at", "must be RFC 3339, as in 2026-01-31T12:00:00Z")])),
        Some(at) => at,
        None => None,
    };
    let new = NewApiKey { name: asked.name, scopes: asked.scopes.unwrap_or_default(), application: asked.application_id, expires_at };
    let make = async move {
        let (key, text) = api_keys::create(&api.line, &caller.author(), caller.scopes, new).await?;
        let uids = Uids::of_applications(&api, caller.organization, key.application).await?;
        Ok::<_, ApiError>(ApiKeyOut { key: Some(text.expose().clone()), ..ApiKeyOut::new(key, &uids) })
    };
    Ok(json(StatusCode::CREATED, &run_to_completion(make).await??))
}

/// A page of them.
pub type ApiKeyList = List<ApiKeyOut>;

/// Lists the organization's API keys, newest first. The keys themselves are not shown.
#[utoipa::path(
    get, path = "/v1/api-keys", tag = "api keys", operation_id = "list_api_keys", params(PageQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of keys", body = ApiKeyList), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, Params(query): Params<PageQuery>) -> Result<Response, ApiError> {
    let page = query.read()?.fetch(|page| api.line.ports.api_keys.api_keys(caller.organization, page)).await?;
    let uses = api.keys.last_uses();
    let uids = Uids::of_applications(&api, caller.organization, page.rows.iter().filter_map(|key| key.application)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(|key| ApiKeyOut::new(with_use(key, &uses), &uids)))))
}

/// Returns an API key. The key itself is not shown.
#[utoipa::path(
    get, path = "/v1/api-keys/{id}", tag = "api keys", operation_id = "get_api_key",
    params(("id" = String, Path, description = "The key's id")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The key", body = ApiKeyOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<ApiKeyId>,
) -> Result<Response, ApiError> {
    let key = api_keys::find(&api.line, caller.organization, id).await?;
    let uids = Uids::of_applications(&api, caller.organization, key.application).await?;
    Ok(json(StatusCode::OK, &ApiKeyOut::new(with_use(key, &api.keys.last_uses()), &uids)))
}

/// The key with its last use, which may be newer than what is written.
fn with_use(key: ApiKey, uses: &FxHashMap<ApiKeyId, Timestamp>) -> ApiKey {
    let last_used_at = key.last_used_at.max(uses.get(&key.id).copied());
    ApiKey { last_used_at, ..key }
}

/// Revokes an API key. It is refused from the next request on. Only an admin key can revoke an admin key.
#[utoipa::path(
    delete, path = "/v1/api-keys/{id}", tag = "api keys", operation_id = "revoke_api_key",
    params(("id" = String, Path, description = "The key's id")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Revoked"), ChangeProblems),
)]
pub async fn revoke(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(id): Identified<ApiKeyId>,
) -> Result<StatusCode, ApiError> {
    let revoke = async move {
        api_keys::revoke(&api.line, &caller.author(), caller.scopes, id).await?;
        api.keys.forget(id);
        Ok::<_, ApiError>(StatusCode::NO_CONTENT)
    };
    run_to_completion(revoke).await?
}
