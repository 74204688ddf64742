//! Connections: which profile a provider's user is.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::HealthConnectionId,
    manage::{
        Fault,
        health::{self, NewConnection},
    },
    model::{
        Secret,
        health::{Connection, EXTERNAL_USER_ID_RULE, ExternalUserId, PROFILE_ID_RULE, ProfileId, Provider},
    },
    ports::ConnectionFilter,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::{
    Api,
    access::{MayManage, MayRead},
    body::JsonBody,
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, RequestedPage},
    run_to_completion,
    wire::{Identified, NoParams, Params, json, read, read_time},
};
use crate::api::words::HealthProviderWord;

/// That a provider's user is a profile. Tokens are not included.
#[derive(Serialize, ToSchema)]
pub struct HealthConnectionOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(value_type = HealthProviderWord)]
    provider: &'static str,
    /// The user, by the provider's name.
    external_user_id: String,
    profile_id: String,
    /// Whether the user is connected. False after the user withdrew at the provider.
    is_connected: bool,
    /// Since when the provider no longer renews the tokens; null while it does. Create the connection again with new tokens.
    #[schema(format = DateTime, required = true)]
    reauthorization_needed_since: Option<String>,
    /// Whether an access token is stored.
    has_access_token: bool,
    /// Whether a refresh token is stored.
    has_refresh_token: bool,
    /// When the access token expires.
    #[schema(format = DateTime, required = true)]
    expires_at: Option<String>,
    /// What the user lets the provider pass on; null if unknown.
    #[schema(required = true)]
    permissions: Option<Vec<String>>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl From<Connection> for HealthConnectionOut {
    fn from(connection: Connection) -> Self {
        let tokens = connection.tokens.as_ref();
        Self {
            id: connection.id.to_string(),
            provider: connection.provider.as_str(),
            external_user_id: connection.external_user.to_string(),
            profile_id: connection.profile.to_string(),
            is_connected: connection.is_connected,
            reauthorization_needed_since: connection.reauthorization_needed_since.map(|at| at.to_string()),
            has_access_token: tokens.is_some(),
            has_refresh_token: tokens.is_some_and(|tokens| tokens.refresh.is_some()),
            expires_at: tokens.and_then(|tokens| tokens.expires_at).map(|at| at.to_string()),
            permissions: connection.permissions.as_ref().map(|names| names.iter().map(str::to_owned).collect()),
            created_at: connection.created_at.to_string(),
            updated_at: connection.updated_at.to_string(),
        }
    }
}

/// A connection.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"provider": "garmin", "external_user_id": "d3315b1072421d0dd7c8f6b8e1de4df8", "profile_id": "8c1f7c2e"}))]
pub struct HealthConnectionIn {
    #[schema(value_type = HealthProviderWord, required = true)]
    provider: Option<String>,
    /// The user, by the provider's name: `userId` of Garmin, the athlete's id of Strava. 1 to 256 bytes.
    #[schema(required = true)]
    external_user_id: Option<String>,
    /// Your name for whose data it is: 1 to 128 bytes.
    #[schema(required = true)]
    profile_id: Option<String>,
    /// What authorizes requests to the provider for this user. Stored encrypted.
    access_token: Option<String>,
    /// What gets the next access token. Stored encrypted.
    refresh_token: Option<String>,
    /// When the access token expires: RFC 3339.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// What the user lets the provider pass on, by the provider's names: at most 64.
    #[schema(max_items = 64)]
    permissions: Option<Vec<String>>,
}

/// Which connections to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HealthConnectionQuery {
    /// Of this provider.
    #[param(value_type = Option<HealthProviderWord>)]
    provider: Option<String>,
    /// Of this user of the provider.
    external_user_id: Option<String>,
    /// Of this profile.
    profile_id: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

impl HealthConnectionQuery {
    fn read(&self, faults: &mut Vec<Fault>) -> ConnectionFilter {
        let names = || Provider::ALL.map(Provider::as_str).join(", ");
        ConnectionFilter {
            provider: read(self.provider.as_deref(), "provider", faults, |text| {
                Provider::parse(text).ok_or_else(|| format!("must be one of {}", names()))
            }),
            external_user: read(self.external_user_id.as_deref(), "external_user_id", faults, |text| {
                ExternalUserId::parse(text).ok_or_else(|| EXTERNAL_USER_ID_RULE.to_owned())
            }),
            profile: read(self.profile_id.as_deref(), "profile_id", faults, |text| {
                ProfileId::parse(text).ok_or_else(|| PROFILE_ID_RULE.to_owned())
            }),
        }
    }
}

/// Connects a provider's user with a profile. If both are already connected, the connection is replaced with these tokens and permissions.
/// Events that wait for this user are processed.
#[utoipa::path(
    post, path = "/v1/health/connections", tag = "health", operation_id = "create_health_connection", request_body = HealthConnectionIn,
    security(("api_key" = ["manage"])),
    responses((status = 201, description = "Connected", body = HealthConnectionOut), ChangeProblems),
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<HealthConnectionIn>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let expires_at = read(asked.expires_at.as_deref(), "expires_at", &mut faults, read_time);
    if !faults.is_empty() {
        return Err(ApiError::invalid(faults));
    }
    let new = NewConnection {
        provider: asked.provider,
        external_user_id: asked.external_user_id,
        profile_id: asked.profile_id,
        access_token: asked.access_token.map(Secret::new),
        refresh_token: asked.refresh_token.map(Secret::new),
        expires_at,
        permissions: asked.permissions,
    };
    let connect = async move { health::connect(&api.line, &caller.author(), new).await };
    Ok(json(StatusCode::CREATED, &HealthConnectionOut::from(run_to_completion(connect).await??)))
}

/// A page of them.
pub type HealthConnectionList = List<HealthConnectionOut>;

/// Lists the organization's connections, newest first.
#[utoipa::path(
    get, path = "/v1/health/connections", tag = "health", operation_id = "list_health_connections", params(HealthConnectionQuery),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of connections", body = HealthConnectionList), ReadProblems),
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<HealthConnectionQuery>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let filter = query.read(&mut faults);
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let connections = &api.line.ports.health_connections;
    let page = page.fetch(|page| connections.connections(caller.organization, filter.clone(), page)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(HealthConnectionOut::from))))
}

/// Returns a connection.
#[utoipa::path(
    get, path = "/v1/health/connections/{id}", tag = "health", operation_id = "get_health_connection",
    params(("id" = String, Path, description = "The connection's id")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The connection", body = HealthConnectionOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<HealthConnectionId>,
) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, &HealthConnectionOut::from(health::find(&api.line, caller.organization, id).await?)))
}

/// Deletes a connection and its tokens. Metrics are kept. Events about the user then wait for another connection.
#[utoipa::path(
    delete, path = "/v1/health/connections/{id}", tag = "health", operation_id = "delete_health_connection",
    params(("id" = String, Path, description = "The connection's id")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Deleted"), ChangeProblems),
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(id): Identified<HealthConnectionId>,
) -> Result<StatusCode, ApiError> {
    run_to_completion(async move { health::delete(&api.line, &caller.author(), id).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}
