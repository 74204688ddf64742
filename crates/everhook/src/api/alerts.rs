//! Alerts: the state of rules for their targets, and silencing.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{AlertStatusId, OrganizationId},
    manage::{Fault, alerts},
    model::{AlertStage, AlertStatus},
    ports::AlertFilter,
    time::Timestamp,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{MayManage, MayRead},
    body::{JsonBody, NoFields, OptionalJsonBody},
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, RequestedPage},
    run_to_completion,
    uids::Uids,
    wire::{Identified, NoParams, Params, json, read},
    words::{AlertComparisonWord, AlertMetricWord, AlertScopeWord, AlertSeverityWord, AlertStateWord, AlertUnitWord},
};
use crate::config::units::parse_duration;

/// The states of an alert.
pub const STATE_WORDS: [&str; 5] = ["ok", "pending", "firing", "silenced", "too_few_samples"];

/// How long ago counts in `fired_in_7_days`.
const WEEK: std::time::Duration = std::time::Duration::from_secs(7 * 86_400);

pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get)).routes(routes!(silence)).routes(routes!(unsilence))
}

/// One time that an alert fired.
#[derive(Serialize, ToSchema)]
pub struct AlertEpisodeOut {
    #[schema(format = DateTime)]
    fired_at: String,
    #[schema(format = DateTime, required = true)]
    resolved_at: Option<String>,
    /// The value that it began with.
    value: f64,
}

/// The state of an alert rule for one target that it watches.
#[derive(Serialize, ToSchema)]
pub struct AlertOut {
    #[schema(format = "uuid")]
    id: String,
    /// The name of the rule.
    rule: String,
    #[schema(value_type = AlertStateWord)]
    state: &'static str,
    /// Since when it is in this state, silence aside.
    #[schema(format = DateTime)]
    since: String,
    #[schema(value_type = AlertSeverityWord)]
    severity: &'static str,
    #[schema(value_type = AlertMetricWord)]
    metric: &'static str,
    #[schema(value_type = AlertScopeWord)]
    scope: &'static str,
    /// The endpoint, capability, application, source or organization that it is about.
    #[schema(format = "uuid")]
    target_id: String,
    #[schema(format = "uuid", required = true)]
    application_id: Option<String>,
    #[schema(required = true)]
    application_uid: Option<String>,
    /// The value, some minutes old at the most.
    value: f64,
    threshold: f64,
    #[schema(value_type = AlertComparisonWord)]
    comparison: &'static str,
    #[schema(value_type = AlertUnitWord)]
    unit: &'static str,
    /// When it was last reported while it fires.
    #[schema(format = DateTime, required = true)]
    reported_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    silenced_until: Option<String>,
    /// How many times it fired in the last seven days, as far back as its history is kept.
    fired_in_7_days: usize,
    /// The last 20 times that it fired, the newest first.
    history: Vec<AlertEpisodeOut>,
}

impl AlertOut {
    fn of(status: AlertStatus, uids: &Uids, now: Timestamp) -> Self {
        let is_silenced = status.is_silenced(now);
        let state = match status.stage {
            AlertStage::Firing if is_silenced => "silenced",
            stage => stage.as_str(),
        };
        let instant = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let episode = |episode: &everhook_core::model::AlertEpisode| AlertEpisodeOut {
            fired_at: episode.fired_at.to_string(),
            resolved_at: instant(episode.resolved_at),
            value: episode.value,
        };
        Self {
            id: status.id.to_string(),
            state,
            since: status.since.to_string(),
            severity: status.rule.severity.as_str(),
            metric: status.rule.metric.as_str(),
            scope: status.rule.scope.as_str(),
            target_id: status.target.to_string(),
            application_id: status.application.map(|application| application.to_string()),
            application_uid: status.application.and_then(|application| uids.application(application)),
            value: status.value,
            threshold: status.rule.threshold,
            comparison: status.rule.metric.comparison().as_str(),
            unit: status.rule.metric.unit().as_str(),
            reported_at: instant(status.reported_at),
            silenced_until: instant(status.silenced_until.filter(|_| is_silenced)),
            fired_in_7_days: status.episodes.iter().filter(|episode| episode.fired_at + WEEK > now).count(),
            history: status.episodes.iter().map(episode).collect(),
            rule: status.rule.name,
        }
    }
}

/// Which alerts to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AlertQuery {
    /// Alerts in this state.
    #[param(value_type = Option<AlertStateWord>)]
    state: Option<String>,
    /// Alerts of the rule with this name.
    rule: Option<String>,
    /// Alerts about this endpoint, capability, application, source or organization.
    target_id: Option<String>,
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
pub type AlertList = List<AlertOut>;

/// Lists alerts: those that are not `ok`, and those that were not in the last 30 days. Newest first.
#[utoipa::path(
    get, path = "/v1/alerts", tag = "alerts", operation_id = "list_alerts", params(AlertQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of alerts", body = AlertList), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, Params(query): Params<AlertQuery>) -> Result<Response, ApiError> {
    let now = api.line.ports.clock.now();
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let state = read(query.state.as_deref(), "state", &mut faults, |text| match text {
        "silenced" => Ok((AlertStage::Firing, Some((now, true)))),
        "firing" => Ok((AlertStage::Firing, Some((now, false)))),
        text => AlertStage::parse(text).map(|stage| (stage, None)).ok_or_else(|| format!("must be one of {}", STATE_WORDS.join(", "))),
    });
    let target =
        read(query.target_id.as_deref(), "target_id", &mut faults, |text| text.parse::<Uuid>().map_err(|_| "must be a UUID".to_owned()));
    let rule = read(query.rule.as_deref(), "rule", &mut faults, |text| match everhook_core::ids::Uid::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("must be the name of an alert rule".to_owned()),
    });
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let (stage, silenced) = state.map_or((None, None), |(stage, silenced)| (Some(stage), silenced));
    let filter = AlertFilter { stage, silenced, rule, target };
    let page = page.fetch(|page| api.line.ports.alerts.alerts(caller.organization, filter.clone(), page)).await?;
    let uids = Uids::of_applications(&api, caller.organization, page.rows.iter().filter_map(|status| status.application)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(|status| AlertOut::of(status, &uids, now)))))
}

/// Returns an alert.
#[utoipa::path(
    get, path = "/v1/alerts/{id}", tag = "alerts", operation_id = "get_alert",
    params(("id" = String, Path, description = "The alert's id")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The alert", body = AlertOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<AlertStatusId>,
) -> Result<Response, ApiError> {
    let found = alerts::find(&api.line, caller.organization, id).await?;
    shown(&api, caller.organization, found).await
}

/// For how long an alert is silenced.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"for": "2h"}))]
pub struct SilenceIn {
    /// From 1m to 30d.
    #[serde(rename = "for")]
    #[schema(example = "2h")]
    length: String,
}

/// Silences an alert: it is neither reported nor repeated for that time. If it was reported before, its resolution still is.
#[utoipa::path(
    post, path = "/v1/alerts/{id}/silence", tag = "alerts", operation_id = "silence_alert", request_body = SilenceIn,
    params(("id" = String, Path, description = "The alert's id")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Silenced", body = AlertOut), ChangeProblems),
)]
pub async fn silence(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(id): Identified<AlertStatusId>,
    JsonBody(asked): JsonBody<SilenceIn>,
) -> Result<Response, ApiError> {
    let length = parse_duration(&asked.length).map_err(|reason| ApiError::invalid(vec![Fault::new("for", reason)]))?;
    let (line, author) = (api.line.clone(), caller.author());
    let silenced = run_to_completion(async move { alerts::silence(&line, &author, id, length).await }).await??;
    shown(&api, caller.organization, silenced).await
}

/// Ends the silence of an alert. If it still fires, it is reported.
#[utoipa::path(
    post, path = "/v1/alerts/{id}/unsilence", tag = "alerts", operation_id = "unsilence_alert",
    params(("id" = String, Path, description = "The alert's id")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "No longer silenced", body = AlertOut), ChangeProblems),
)]
pub async fn unsilence(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(id): Identified<AlertStatusId>,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    let (line, author) = (api.line.clone(), caller.author());
    let status = run_to_completion(async move { alerts::unsilence(&line, &author, id).await }).await??;
    shown(&api, caller.organization, status).await
}

async fn shown(api: &Api, organization: OrganizationId, status: AlertStatus) -> Result<Response, ApiError> {
    let uids = Uids::of_applications(api, organization, status.application).await?;
    Ok(json(StatusCode::OK, &AlertOut::of(status, &uids, api.line.ports.clock.now())))
}
