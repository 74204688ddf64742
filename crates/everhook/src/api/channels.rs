//! Channels: where notifications are sent, and the notifications that were sent.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Path, State},
    response::Response,
};
use everhook_core::{
    manage::{
        channels::{self, ChannelChange},
        notifications::{self, Notification},
    },
    model::{Channel, NoticeSeverity, Report, Secret, Sent, Stage},
    ports::StoreError,
};
use http::{StatusCode, request::Parts};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{MayManage, MayRead},
    body::{JsonBody, NoFields, OptionalJsonBody},
    deliveries::read_status,
    error::{ApiError, ChangeProblems, ReadProblems, RetryProblems},
    page::{List, RequestedPage},
    run_to_completion,
    wire::{Field, NoParams, Params, json, read},
};
use crate::api::words::{ChannelKindWord, DeliveryStatusFilter, DeliveryStatusWord, EndReason, FailureCategoryWord, NoticeSeverityWord};

/// The routes.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default()
        .routes(routes!(create, list))
        .routes(routes!(get, change, delete))
        .routes(routes!(test))
        .routes(routes!(list_notifications))
}

/// A place to which notifications are sent.
#[derive(Serialize, ToSchema)]
pub struct ChannelOut {
    #[schema(format = "uuid")]
    id: String,
    /// What it is addressed by: the name, or the address of an `email` channel.
    name: String,
    /// `email` channels follow from `admin_emails` of the organization.
    #[schema(value_type = ChannelKindWord)]
    kind: &'static str,
    /// Where it leads: the address, or the host of the URL. The rest of the URL, and a routing key, are secret.
    target: String,
    /// The types of operational events that it gets.
    event_types: Vec<String>,
    /// Events that are less serious are left out; null if none are.
    #[schema(required = true, value_type = Option<NoticeSeverityWord>)]
    min_severity: Option<&'static str>,
    enabled: bool,
    /// Null for `email`.
    #[schema(format = DateTime, required = true)]
    created_at: Option<String>,
    /// Null for `email`.
    #[schema(format = DateTime, required = true)]
    updated_at: Option<String>,
}

/// A channel with what signs its requests.
#[derive(Serialize, ToSchema)]
pub struct NewChannelOut {
    #[serde(flatten)]
    channel: ChannelOut,
    /// What signs the requests of a `webhook`, as those to endpoints are signed. It is shown only in this response. Null for other kinds.
    #[schema(required = true)]
    secret: Option<String>,
}

impl ChannelOut {
    fn new(channel: &Channel, target: String) -> Self {
        let service = channel.service();
        let event_types = match service {
            Some(service) => service.event_types.iter().map(ToString::to_string).collect(),
            None => everhook_core::policy::notice::routing::EMAILED_TYPES.map(str::to_owned).to_vec(),
        };
        Self {
            id: channel.id.to_string(),
            name: channel.name().to_owned(),
            kind: channel.kind(),
            target,
            event_types,
            min_severity: service.and_then(|service| service.min_severity).map(NoticeSeverity::as_str),
            enabled: service.is_none_or(|service| service.enabled),
            created_at: service.map(|service| service.created_at.to_string()),
            updated_at: service.map(|service| service.updated_at.to_string()),
        }
    }

    fn read(api: &Api, channel: &Channel) -> Result<Self, StoreError> {
        Ok(Self::new(channel, channels::shown_target(&api.line, channel)?))
    }
}

/// A channel. An update needs only the changed fields; null resets a field to its default.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "ops", "kind": "slack", "url": "https://hooks.slack.com/services/T000/B000/XXXX"}))]
pub struct ChannelIn {
    /// Unique in the organization: 1 to 64 of A-Z a-z 0-9 _ - and not a UUID. Required at creation.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "ops")]
    name: Field<String>,
    /// `slack`, `pagerduty`, `teams` or `webhook`. Required at creation, and only there.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "slack")]
    kind: Field<String>,
    /// The URL of the service, which is secret. Required at creation for all kinds but `pagerduty`.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "https://hooks.slack.com/services/T000/B000/XXXX")]
    url: Field<String>,
    /// The integration key of PagerDuty (Events API, version 2): 32 letters and digits. Required at creation for `pagerduty`.
    #[serde(default)]
    #[schema(value_type = String, required = false)]
    routing_key: Field<String>,
    /// The secret that signs the requests of a `webhook`: `whsec_` and base64, or 16 to 128 characters. Generated if absent.
    #[serde(default)]
    #[schema(value_type = String, required = false)]
    secret: Field<String>,
    /// The types of operational events that it gets, 1 to 50; patterns such as `endpoint.*` and `*` are allowed. If absent, every type that calls for action.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 50, example = json!(["alert.*", "endpoint.disabled"]))]
    event_types: Field<Vec<String>>,
    /// Leaves out events below this severity; if absent, none are left out.
    #[serde(default)]
    #[schema(value_type = Option<NoticeSeverityWord>)]
    min_severity: Field<String>,
    /// Whether it gets any; true if absent. What waits for a channel that is disabled is cancelled.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    enabled: Field<bool>,
}

impl From<ChannelIn> for ChannelChange {
    fn from(asked: ChannelIn) -> Self {
        Self {
            name: asked.name.0,
            kind: asked.kind.0,
            url: asked.url.map(Secret::new),
            routing_key: asked.routing_key.map(Secret::new),
            secret: asked.secret.map(Secret::new),
            event_types: asked.event_types.0,
            min_severity: asked.min_severity.0,
            enabled: asked.enabled.0,
        }
    }
}

/// The result of a test notification.
#[derive(Serialize, ToSchema)]
pub struct ChannelTestOut {
    /// Whether the service accepted it.
    delivered: bool,
    /// What it answered: an HTTP status, or a reply code of the mail server. Null if there was no answer.
    #[schema(required = true)]
    status: Option<u16>,
    /// The first KiB of the answer; null if there was none.
    #[schema(required = true)]
    response: Option<String>,
    /// Null if it was delivered.
    #[schema(required = true, value_type = Option<FailureCategoryWord>)]
    failure_category: Option<&'static str>,
    /// Null if it was delivered.
    #[schema(required = true)]
    error: Option<String>,
    duration_ms: u64,
}

impl ChannelTestOut {
    fn new(report: Report) -> Self {
        let duration_ms = u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX);
        let (response, failure) = match report.sent {
            Sent::Answered(response) if (200..300).contains(&response.status) => (Some(response), None),
            Sent::Answered(response) => {
                let error = format!("the answer has the status {}", response.status);
                (Some(response), Some(("server_error", error)))
            }
            Sent::Failed { category, error, response } | Sent::Refused { category, error, response } => {
                (response, Some((category.as_str(), error)))
            }
            Sent::Parked { response, .. } => (response, Some(("network", "there is no answer".to_owned()))),
            Sent::OutOfResources { .. } => (None, Some(("network", "Everhook has no free connection at the moment: try again".to_owned()))),
        };
        Self {
            delivered: failure.is_none(),
            status: response.as_ref().map(|response| response.status),
            response: response.map(|response| String::from_utf8_lossy(&response.body_sample).into_owned()),
            failure_category: failure.as_ref().map(|(category, _)| *category),
            error: failure.map(|(_, error)| error),
            duration_ms,
        }
    }
}

/// Creates a channel of a service. Its URL or key is not shown again.
#[utoipa::path(
    post, path = "/v1/channels", tag = "channels", operation_id = "create_channel", request_body = ChannelIn,
    security(("api_key" = ["manage"])),
    responses((status = 201, description = "Created", body = NewChannelOut), ChangeProblems),
)]
async fn create(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<ChannelIn>,
) -> Result<Response, ApiError> {
    let make = async move {
        let (channel, secret) = channels::create(&api.line, &api.targets, &caller.author(), asked.into()).await?;
        let secret = secret.map(|secret| secret.expose().clone());
        Ok::<_, ApiError>(NewChannelOut { channel: ChannelOut::read(&api, &channel)?, secret })
    };
    Ok(json(StatusCode::CREATED, &run_to_completion(make).await??))
}

/// All channels of an organization.
#[derive(Serialize, ToSchema)]
pub struct ChannelList {
    /// At most 40.
    data: Vec<ChannelOut>,
}

/// Lists all channels of the organization: those of its `admin_emails`, then those of services, by name.
#[utoipa::path(
    get, path = "/v1/channels", tag = "channels", operation_id = "list_channels", security(("api_key" = ["read"])),
    responses((status = 200, description = "The channels", body = ChannelList), ReadProblems),
)]
async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, _query: NoParams) -> Result<Response, ApiError> {
    let found = channels::list(&api.line, caller.organization).await?;
    let data = found.iter().map(|(channel, target)| ChannelOut::new(channel, target.clone())).collect();
    Ok(json(StatusCode::OK, &ChannelList { data }))
}

/// Returns a channel.
#[utoipa::path(
    get, path = "/v1/channels/{id}", tag = "channels", operation_id = "get_channel",
    params(("id" = String, Path, description = "The channel's name, e-mail address or id")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The channel", body = ChannelOut), ReadProblems),
)]
async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    NamedChannel(name): NamedChannel,
) -> Result<Response, ApiError> {
    let channel = channels::find(&api.line, caller.organization, &name).await?;
    Ok(json(StatusCode::OK, &ChannelOut::read(&api, &channel)?))
}

/// Updates the fields that are sent, for notifications from now on. Channels of the kind `email` follow from `admin_emails` of the organization.
#[utoipa::path(
    method(put, patch), path = "/v1/channels/{id}", tag = "channels", operation_id = "change_channel", request_body = ChannelIn,
    params(("id" = String, Path, description = "The channel's name or id")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Changed", body = ChannelOut), ChangeProblems),
)]
async fn change(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    NamedChannel(name): NamedChannel,
    JsonBody(asked): JsonBody<ChannelIn>,
) -> Result<Response, ApiError> {
    let change = async move {
        let channel = channels::change(&api.line, &api.targets, &caller.author(), &name, asked.into()).await?;
        Ok::<_, ApiError>(ChannelOut::read(&api, &channel)?)
    };
    Ok(json(StatusCode::OK, &run_to_completion(change).await??))
}

/// Deletes a channel of a service. What still waits for it is cancelled.
#[utoipa::path(
    delete, path = "/v1/channels/{id}", tag = "channels", operation_id = "delete_channel",
    params(("id" = String, Path, description = "The channel's name or id")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Deleted"), ChangeProblems),
)]
async fn delete(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    NamedChannel(name): NamedChannel,
) -> Result<StatusCode, ApiError> {
    run_to_completion(async move { channels::delete(&api.line, &caller.author(), &name).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a test notification through a channel, also a disabled one, and returns the response of the service. It is neither retried nor listed.
/// At PagerDuty, the incident is resolved at once.
#[utoipa::path(
    post, path = "/v1/channels/{id}/test", tag = "channels", operation_id = "test_channel",
    params(("id" = String, Path, description = "The channel's name, e-mail address or id")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "The result of the test", body = ChannelTestOut), RetryProblems),
)]
async fn test(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    NamedChannel(name): NamedChannel,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    let report = channels::test(&api.line, caller.organization, &name).await?;
    Ok(json(StatusCode::OK, &ChannelTestOut::new(report)))
}

/// A notification that was sent, or is to be sent.
#[derive(Serialize, ToSchema)]
pub struct NotificationOut {
    /// `GET /v1/deliveries/{id}` shows its attempts.
    #[schema(format = "uuid")]
    delivery_id: String,
    /// The channel's name, or its e-mail address.
    channel: String,
    #[schema(value_type = ChannelKindWord)]
    kind: &'static str,
    #[schema(format = "uuid")]
    event_id: String,
    event_type: String,
    #[schema(value_type = DeliveryStatusWord)]
    status: &'static str,
    /// Why it is dead or cancelled.
    #[schema(value_type = Option<EndReason>, required = true)]
    reason: Option<&'static str>,
    attempt_count: u32,
    #[schema(required = true)]
    last_error: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    /// When it is attempted next; null if it has ended, or waits behind another.
    #[schema(format = DateTime, required = true)]
    next_attempt_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    ended_at: Option<String>,
}

impl From<Notification> for NotificationOut {
    fn from(Notification { channel, delivery }: Notification) -> Self {
        let (next_attempt_at, ended_at, reason) = match delivery.stage {
            Stage::Waiting { due_at } => (Some(due_at), None, None),
            Stage::Held | Stage::Parked(_) => (None, None, None),
            Stage::Delivered { at } => (None, Some(at), None),
            Stage::Dead { at, cause } => (None, Some(at), Some(cause.as_str())),
            Stage::Cancelled { at, cause } => (None, Some(at), Some(cause.as_str())),
        };
        Self {
            delivery_id: delivery.id.to_string(),
            channel: channel.name().to_owned(),
            kind: channel.kind(),
            event_id: delivery.event.to_string(),
            event_type: delivery.event_type.as_str().to_owned(),
            status: delivery.stage.as_str(),
            reason,
            attempt_count: delivery.attempts,
            last_error: delivery.last_error,
            created_at: delivery.created_at.to_string(),
            next_attempt_at: next_attempt_at.map(|at| at.to_string()),
            ended_at: ended_at.map(|at| at.to_string()),
        }
    }
}

/// Which notifications to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NotificationQuery {
    /// Of this channel: its name, or its e-mail address.
    channel: Option<String>,
    /// As of deliveries.
    #[param(value_type = Option<DeliveryStatusFilter>)]
    status: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

/// A page of them.
pub type NotificationList = List<NotificationOut>;

/// Lists notifications, newest first: the deliveries of the organization's channels. Those of deleted channels are only listed with the deliveries.
#[utoipa::path(
    get, path = "/v1/notifications", tag = "channels", operation_id = "list_notifications", params(NotificationQuery),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of notifications", body = NotificationList), ReadProblems),
)]
async fn list_notifications(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<NotificationQuery>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let status = read(query.status.as_deref(), "status", &mut faults, read_status);
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let organization = caller.organization;
    let channels = notifications::channels(&api.line, organization, query.channel.as_deref()).await?;
    let page = page.fetch(|page| notifications::list(&api.line, organization, &channels, status, page)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(NotificationOut::from))))
}

/// The name, address or id of a channel, in a path.
pub struct NamedChannel(String);

impl FromRequestParts<Arc<Api>> for NamedChannel {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let segment = Path::<String>::from_request_parts(parts, api).await;
        segment.map(|Path(name)| Self(name)).map_err(|_| ApiError::not_found("channel"))
    }
}
