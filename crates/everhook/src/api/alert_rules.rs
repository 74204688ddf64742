//! Alert rules: when something is reported, what an organization says instead of a default, and a try on the past.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::AlertRuleId,
    manage::{
        Change, Fault,
        alert_rules::{self, AlertRuleChange, DryRun, ListedRule, RuleReach},
    },
    model::{Page, Scope},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    access::{Caller, MayManage, MayRead},
    auto_replay::write_duration,
    body::JsonBody,
    error::{ApiError, ChangeProblems, ReadProblems},
    page::List,
    run_to_completion,
    wire::{Field, Named, NoParams, Object, json},
    words::{AlertComparisonWord, AlertMetricWord, AlertScopeWord, AlertSeverityWord, AlertUnitWord},
};
use crate::config::units::parse_duration;

pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(get, change, delete)).routes(routes!(dry_run))
}

/// Who gets an alert, beside the subscribers of the application `operational`.
#[derive(Serialize, ToSchema)]
pub struct AlertRecipientsOut {
    /// The owner of what the alert is about: the organization's administrators.
    pub owner: bool,
    /// The administrators of the server.
    pub admins: bool,
    /// Channels, by name.
    pub channels: Vec<String>,
}

/// An alert rule with its current settings.
#[derive(Serialize, ToSchema)]
pub struct AlertRuleOut {
    name: String,
    #[schema(value_type = AlertMetricWord)]
    metric: &'static str,
    #[schema(value_type = AlertScopeWord)]
    scope: &'static str,
    #[schema(value_type = AlertComparisonWord)]
    comparison: &'static str,
    /// What the metric is compared with, in `unit`.
    threshold: f64,
    #[schema(value_type = AlertUnitWord)]
    unit: &'static str,
    /// The time over which the metric is measured; null if it is measured at an instant.
    #[schema(required = true, example = "1h")]
    window: Option<String>,
    /// How long the value must be on the wrong side before the alert fires.
    #[serde(rename = "for")]
    #[schema(example = "5m")]
    pending_for: String,
    #[schema(value_type = AlertSeverityWord)]
    severity: &'static str,
    recipients: AlertRecipientsOut,
    enabled: bool,
    /// Whether this is a default rule.
    is_default: bool,
    /// Whether the organization wrote this rule, or changed this default rule.
    is_own: bool,
    #[schema(format = DateTime, required = true)]
    updated_at: Option<String>,
}

impl From<ListedRule> for AlertRuleOut {
    fn from(listed: ListedRule) -> Self {
        let ListedRule { rule, own, is_default } = listed;
        Self {
            metric: rule.metric.as_str(),
            scope: rule.scope.as_str(),
            comparison: rule.metric.comparison().as_str(),
            threshold: rule.threshold,
            unit: rule.metric.unit().as_str(),
            window: (!rule.window.is_zero()).then(|| write_duration(rule.window)),
            pending_for: if rule.pending_for.is_zero() { "0s".to_owned() } else { write_duration(rule.pending_for) },
            severity: rule.severity.as_str(),
            recipients: AlertRecipientsOut {
                owner: rule.recipients.owner,
                admins: rule.recipients.admins,
                channels: rule.recipients.channels,
            },
            enabled: rule.enabled,
            name: rule.name,
            is_default,
            is_own: own.is_some(),
            updated_at: own.map(|own| own.updated_at.to_string()),
        }
    }
}

/// Who gets an alert. An update needs only the changed fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertRecipientsIn {
    /// The owner of what the alert is about: the organization's administrators.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    owner: Field<bool>,
    /// The administrators of the server.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    admins: Field<bool>,
    /// Channels, by name: at most 10.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>)]
    channels: Field<Vec<String>>,
}

/// An alert rule. An update needs only the changed fields; null resets a field to its default.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "orders-p99", "metric": "p99", "scope": "endpoint", "threshold": 2000, "window": "5m", "for": "10m", "severity": "warning"}))]
pub struct AlertRuleIn {
    /// The name: 1 to 64 of a-z 0-9 _ - . and neither `dry-run` nor a UUID. Required at creation; cannot be changed.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "orders-p99")]
    name: Field<String>,
    /// What is measured. Required at creation; cannot be changed.
    #[serde(default)]
    #[schema(value_type = AlertMetricWord, required = false)]
    metric: Field<String>,
    /// What is watched: every one of the organization. Required at creation; cannot be changed.
    #[serde(default)]
    #[schema(value_type = AlertScopeWord, required = false)]
    scope: Field<String>,
    /// What the metric is compared with: a percentage, milliseconds or a count.
    #[serde(default)]
    #[schema(value_type = Option<f64>, example = 2000)]
    threshold: Field<f64>,
    /// The time over which the metric is measured, in whole minutes. 5m if absent.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "5m")]
    window: Field<String>,
    /// How long the value must be on the wrong side before the alert fires: at most 7d.
    #[serde(default, rename = "for")]
    #[schema(value_type = Option<String>, example = "10m")]
    pending_for: Field<String>,
    /// `warning` if absent.
    #[serde(default)]
    #[schema(value_type = Option<AlertSeverityWord>)]
    severity: Field<String>,
    /// The owner if absent.
    #[serde(default)]
    #[schema(value_type = Option<AlertRecipientsIn>)]
    recipients: Field<Object<AlertRecipientsIn>>,
    /// Whether the rule is evaluated. Disabling it ends its alerts.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    enabled: Field<bool>,
}

impl TryFrom<AlertRuleIn> for AlertRuleChange {
    type Error = ApiError;

    fn try_from(asked: AlertRuleIn) -> Result<Self, ApiError> {
        let mut faults = Vec::new();
        let window = length(asked.window, "window", &mut faults);
        let pending_for = length(asked.pending_for, "for", &mut faults);
        let (owner, admins, channels) = match asked.recipients.0 {
            Change::Keep => (Change::Keep, Change::Keep, Change::Keep),
            Change::Clear => (Change::Clear, Change::Clear, Change::Clear),
            Change::Set(Object(recipients)) => (recipients.owner.0, recipients.admins.0, recipients.channels.0),
        };
        if !faults.is_empty() {
            return Err(ApiError::invalid(faults));
        }
        Ok(Self {
            name: asked.name.0,
            metric: asked.metric.0,
            scope: asked.scope.0,
            threshold: asked.threshold.0,
            window,
            pending_for,
            severity: asked.severity.0,
            owner,
            admins,
            channels,
            enabled: asked.enabled.0,
        })
    }
}

fn length(field: Field<String>, name: &'static str, faults: &mut Vec<Fault>) -> Change<Duration> {
    match field.0 {
        Change::Keep => Change::Keep,
        Change::Clear => Change::Clear,
        Change::Set(text) => match parse_duration(&text) {
            Ok(length) => Change::Set(length),
            Err(reason) => {
                faults.push(Fault::new(name, reason));
                Change::Keep
            }
        },
    }
}

/// The rules about the server are there for its administrators, in the organization `default`.
fn reach(api: &Api, caller: &Caller) -> RuleReach {
    let is_admin = caller.scopes.allow(Scope::Admin) && caller.application.is_none();
    if is_admin && caller.organization == api.default_organization { RuleReach::Server } else { RuleReach::Organization }
}

/// Creates an alert rule of the organization.
#[utoipa::path(
    post, path = "/v1/alert-rules", tag = "alerts", operation_id = "create_alert_rule", request_body = AlertRuleIn,
    security(("api_key" = ["manage"])),
    responses((status = 201, description = "Created", body = AlertRuleOut), ChangeProblems),
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<AlertRuleIn>,
) -> Result<Response, ApiError> {
    let asked = AlertRuleChange::try_from(asked)?;
    let made = run_to_completion(async move { alert_rules::create(&api.line, &caller.author(), asked).await }).await??;
    Ok(json(StatusCode::CREATED, &AlertRuleOut::from(made)))
}

/// The rules in force.
pub type AlertRuleList = List<AlertRuleOut>;

/// Lists the alert rules in force: the default rules, as the organization changed them, then its own by name. All are on one page. The rules about the
/// server are among them for the scope `admin`, in the organization `default`.
#[utoipa::path(
    get, path = "/v1/alert-rules", tag = "alerts", operation_id = "list_alert_rules", security(("api_key" = ["read"])),
    responses((status = 200, description = "The alert rules", body = AlertRuleList), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, _query: NoParams) -> Result<Response, ApiError> {
    let rows = alert_rules::list(&api.line, caller.organization, reach(&api, &caller)).await?.into_iter().map(AlertRuleOut::from).collect();
    Ok(json(StatusCode::OK, &List::from(Page { rows, next: None, prev: None })))
}

/// Returns an alert rule.
#[utoipa::path(
    get, path = "/v1/alert-rules/{id}", tag = "alerts", operation_id = "get_alert_rule",
    params(("id" = String, Path, description = "The alert rule's name")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The alert rule", body = AlertRuleOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Named(of): Named<AlertRuleId>,
) -> Result<Response, ApiError> {
    let found = alert_rules::find(&api.line, caller.organization, reach(&api, &caller), &of).await?;
    Ok(json(StatusCode::OK, &AlertRuleOut::from(found)))
}

/// Updates the fields that are sent. A default rule is changed for this organization alone.
#[utoipa::path(
    method(put, patch), path = "/v1/alert-rules/{id}", tag = "alerts", operation_id = "change_alert_rule", request_body = AlertRuleIn,
    params(("id" = String, Path, description = "The alert rule's name")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Changed", body = AlertRuleOut), ChangeProblems),
)]
pub async fn change(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<AlertRuleId>,
    JsonBody(asked): JsonBody<AlertRuleIn>,
) -> Result<Response, ApiError> {
    let asked = AlertRuleChange::try_from(asked)?;
    let reach = reach(&api, &caller);
    let change = async move { alert_rules::change(&api.line, &caller.author(), reach, &of, asked).await };
    Ok(json(StatusCode::OK, &AlertRuleOut::from(run_to_completion(change).await??)))
}

/// Deletes an alert rule of the organization, or resets a changed default rule to its defaults.
#[utoipa::path(
    delete, path = "/v1/alert-rules/{id}", tag = "alerts", operation_id = "delete_alert_rule",
    params(("id" = String, Path, description = "The alert rule's name")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Deleted"), ChangeProblems),
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<AlertRuleId>,
) -> Result<StatusCode, ApiError> {
    let reach = reach(&api, &caller);
    run_to_completion(async move { alert_rules::delete(&api.line, &caller.author(), reach, &of).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// What to try on the past: a rule in force, or one that is not written yet.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "endpoint_success_rate_drop"}))]
pub struct DryRunIn {
    /// The name of a rule in force. Cannot be combined with `rule`.
    #[serde(default)]
    #[schema(example = "endpoint_success_rate_drop")]
    name: Option<String>,
    /// A rule, as at creation.
    #[serde(default)]
    #[schema(value_type = Option<AlertRuleIn>)]
    rule: Option<Object<AlertRuleIn>>,
    /// The id of the endpoint, capability, application or source to evaluate; the newest 20 if absent.
    #[serde(default)]
    #[schema(format = "uuid")]
    target_id: Option<String>,
}

/// What an alert rule would have reported about one thing.
#[derive(Serialize, ToSchema)]
pub struct DryRunTargetOut {
    #[schema(format = "uuid")]
    target_id: String,
    #[schema(required = true)]
    target_name: Option<String>,
    /// How many times the alert would have fired.
    fired: u32,
    /// When: the first 100 times.
    fired_at: Vec<String>,
}

/// What an alert rule would have reported in the last seven days.
#[derive(Serialize, ToSchema)]
pub struct DryRunOut {
    #[schema(format = DateTime)]
    from: String,
    #[schema(format = DateTime)]
    to: String,
    /// How many times the alert would have fired, in all.
    fired: u32,
    /// Whether every target of the rule was evaluated.
    is_complete: bool,
    /// The targets that were evaluated.
    targets: Vec<DryRunTargetOut>,
}

impl From<DryRun> for DryRunOut {
    fn from(run: DryRun) -> Self {
        let target = |target: everhook_core::manage::alert_rules::DryRunTarget| DryRunTargetOut {
            target_id: target.target.to_string(),
            target_name: target.name,
            fired: target.fired.count,
            fired_at: target.fired.at.iter().map(ToString::to_string).collect(),
        };
        Self {
            from: run.from.to_string(),
            to: run.to.to_string(),
            fired: run.targets.iter().map(|target| target.fired.count).sum(),
            is_complete: run.is_complete,
            targets: run.targets.into_iter().map(target).collect(),
        }
    }
}

/// Tries an alert rule on the last seven days and returns when it would have fired. Nothing is written or sent.
#[utoipa::path(
    post, path = "/v1/alert-rules/dry-run", tag = "alerts", operation_id = "dry_run_alert_rule", request_body = DryRunIn,
    security(("api_key" = ["read"])),
    responses((status = 200, description = "What the rule would have reported", body = DryRunOut), ChangeProblems),
)]
pub async fn dry_run(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    JsonBody(asked): JsonBody<DryRunIn>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let target = asked.target_id.as_deref().and_then(|text| match text.parse::<Uuid>() {
        Ok(target) => Some(target),
        Err(_) => {
            faults.push(Fault::new("target_id", "must be a UUID"));
            None
        }
    });
    if asked.name.is_some() == asked.rule.is_some() {
        faults.push(Fault::new("rule", "must be given, or `name`, and not both"));
    }
    if !faults.is_empty() {
        return Err(ApiError::invalid(faults));
    }
    let rule = match (asked.rule, asked.name) {
        (Some(Object(rule)), _) => alert_rules::tried(AlertRuleChange::try_from(rule)?)?,
        (None, name) => {
            let not_found = || ApiError::not_found("alert rule");
            let of = name.as_deref().and_then(everhook_core::ids::Ref::parse).ok_or_else(not_found)?;
            alert_rules::find(&api.line, caller.organization, reach(&api, &caller), &of).await?.rule
        }
    };
    // It reads as much as an export.
    let busy = || ApiError::unavailable("too many imports, exports and dry runs are under way: try again");
    let _turn = api.transfers.turn(caller.organization).await.ok_or_else(busy)?;
    let run = alert_rules::dry_run(&api.line, caller.organization, &rule, target).await?;
    Ok(json(StatusCode::OK, &DryRunOut::from(run)))
}
