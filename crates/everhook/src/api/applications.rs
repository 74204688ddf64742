//! Applications: integrations inside an organization.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{ApplicationId, Ref},
    manage::applications::{self, ApplicationChange},
    model::{Application, ApplicationKind, Page},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    access::{MayManage, MayRead},
    body::JsonBody,
    creation::{Creates, New},
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, PageQuery},
    run_to_completion,
    wire::{Field, Named, NoParams, Params, json},
};
use crate::api::words::ApplicationKindWord;

/// One integration inside an organization.
#[derive(Serialize, ToSchema)]
pub struct ApplicationOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(required = true)]
    uid: Option<String>,
    name: String,
    /// `default` is used where a request names none; `operational` has Everhook's own events; others are `custom`.
    #[schema(value_type = ApplicationKindWord)]
    kind: &'static str,
    /// Whether only defined event types can be published to it.
    strict_event_types: bool,
    /// Gets the alerts about it, unless its manifest names an owner; null if the administrators of the organization do.
    #[schema(required = true, format = Email)]
    owner_email: Option<String>,
    /// What the paths of its capabilities are appended to, unless its manifest has a `base_url`.
    #[schema(required = true)]
    base_url: Option<String>,
    /// Where the health of its app is checked, behind the base URL, unless its manifest has a `health_path`; null if it is not.
    #[schema(required = true)]
    health_path: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<Application> for ApplicationOut {
    fn from(application: Application) -> Self {
        Self {
            id: application.id.to_string(),
            uid: application.uid.map(|uid| uid.to_string()),
            name: application.name,
            kind: match application.kind {
                ApplicationKind::Default => "default",
                ApplicationKind::Operational => "operational",
                ApplicationKind::Custom => "custom",
            },
            strict_event_types: application.strict_event_types,
            owner_email: application.owner_email.map(|email| email.to_string()),
            base_url: application.base_url,
            health_path: application.health_path,
            created_at: application.created_at.to_string(),
        }
    }
}

/// An application. An update needs only the changed fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "Billing", "uid": "billing", "owner_email": "billing@example.com", "base_url": "https://billing.example.com"}))]
pub struct ApplicationIn {
    /// A name for people, unique in the organization. Required at creation.
    #[serde(default)]
    #[schema(value_type = String, required = false)]
    name: Field<String>,
    /// Can replace the id in paths.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    uid: Field<String>,
    /// Whether only defined event types can be published to it; others return 422.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    strict_event_types: Field<bool>,
    /// Gets the alerts about it, unless its manifest names an owner. Null: the administrators of the organization do.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Email, max_length = 254)]
    owner_email: Field<String>,
    /// What the paths of its capabilities are appended to, unless its manifest has a `base_url`.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 1_000)]
    base_url: Field<String>,
    /// Where the health of its app is checked, behind the base URL, unless its manifest has a `health_path`. `/health` if absent at creation; null: it is not
    /// checked.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 1_024)]
    health_path: Field<String>,
}

/// The same, where it creates one.
pub type NewApplicationIn = New<ApplicationIn>;

impl Creates for ApplicationIn {
    const REQUIRED: &'static [&'static str] = &["name"];
}

impl From<ApplicationIn> for ApplicationChange {
    fn from(asked: ApplicationIn) -> Self {
        Self {
            name: asked.name.0,
            uid: asked.uid.0,
            strict_event_types: asked.strict_event_types.0,
            owner_email: asked.owner_email.0,
            base_url: asked.base_url.0,
            health_path: asked.health_path.0,
        }
    }
}

/// Creates an application.
#[utoipa::path(
    post, path = "/v1/applications", tag = "applications", operation_id = "create_application", request_body = NewApplicationIn,
    security(("api_key" = ["manage"])),
    responses((status = 201, description = "Created", body = ApplicationOut), ChangeProblems),
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<ApplicationIn>,
) -> Result<Response, ApiError> {
    let made =
        run_to_completion(async move { applications::create(&api.line, &api.targets, &caller.author(), asked.into()).await }).await??;
    Ok(json(StatusCode::CREATED, &ApplicationOut::from(made)))
}

/// A page of them.
pub type ApplicationList = List<ApplicationOut>;

/// Lists the organization's applications, newest first. A key of one application sees that one.
#[utoipa::path(
    get, path = "/v1/applications", tag = "applications", operation_id = "list_applications", params(PageQuery),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of applications", body = ApplicationList), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, Params(query): Params<PageQuery>) -> Result<Response, ApiError> {
    if let Some(own) = caller.application {
        query.read()?;
        let found = api.line.ports.applications.application(caller.organization, &Ref::Id(own)).await?;
        let rows = found.map(ApplicationOut::from).into_iter().collect();
        return Ok(json(StatusCode::OK, &List::from(Page { rows, next: None, prev: None })));
    }
    let page = query.read()?.fetch(|page| api.line.ports.applications.applications(caller.organization, page)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(ApplicationOut::from))))
}

/// Returns an application.
#[utoipa::path(
    get, path = "/v1/applications/{id}", tag = "applications", operation_id = "get_application",
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The application", body = ApplicationOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
) -> Result<Response, ApiError> {
    let found = api.line.ports.applications.application(caller.organization, &of).await?;
    let application = found.ok_or_else(|| ApiError::not_found("application"))?;
    Ok(json(StatusCode::OK, &ApplicationOut::from(application)))
}

/// Deletes an application with its endpoints. Nothing can be published to it from now on, and API keys that reach it alone are revoked. Its endpoints are
/// deleted in the background: their waiting deliveries are cancelled, and history is kept until retention removes it. `default` and `operational` are deleted
/// with their organization only.
#[utoipa::path(
    delete, path = "/v1/applications/{id}", tag = "applications", operation_id = "delete_application",
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Deleted"), ChangeProblems),
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
) -> Result<StatusCode, ApiError> {
    let delete = async move {
        let keys = applications::delete(&api.line, &caller.author(), &of).await?;
        keys.into_iter().for_each(|key| api.keys.forget(key));
        Ok::<_, ApiError>(StatusCode::NO_CONTENT)
    };
    run_to_completion(delete).await?
}

/// Updates the fields that are sent.
#[utoipa::path(
    method(put, patch), path = "/v1/applications/{id}", tag = "applications", operation_id = "change_application", request_body = ApplicationIn,
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Changed", body = ApplicationOut), ChangeProblems),
)]
pub async fn change(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
    JsonBody(asked): JsonBody<ApplicationIn>,
) -> Result<Response, ApiError> {
    let change = async move { applications::change(&api.line, &api.targets, &caller.author(), &of, asked.into()).await };
    let changed = run_to_completion(change).await??;
    Ok(json(StatusCode::OK, &ApplicationOut::from(changed)))
}
