//! How each resource is shown in the audit log: the fields that users know, under the names that they use. Used by the use cases beside.
//!
//! What signs, what a key is, and the values of headers are compared and never written.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::endpoints::rule_name;
use crate::{
    ids::{AuditEntryId, EndpointId, ScheduleId, Uid},
    line::Line,
    model::{
        ApiKey, Application, AuditAction, AuditEntry, AuditNote, Author, Backoff, BreakerConfig, Dedupe, DedupeBy, EmailAddress, Endpoint,
        EndpointState, EventTypeDefinition, EventTypePattern, Jitter, NoticeSeverity, Operation, Organization, OrganizationSchedule,
        ProcessorKind, RateLimit, RetrySchedule, Scope, SealedSecret, Selection, ServiceChannel, Source, SourceRateLimit, SourceResponse,
        Strategy, TripRule,
    },
    policy::{
        audit::{Facts, MASK},
        presets,
    },
    ports::StoreError,
    time::{Timestamp, millis},
};

/// A line for the log, made now.
pub(super) fn entry(line: &Line, by: &Author, action: AuditAction, resource: &Uuid, note: AuditNote) -> AuditEntry {
    let at = line.ports.clock.now();
    let id = AuditEntryId::from_uuid(line.ports.entropy.uuid(at));
    AuditEntry { id, organization: by.organization, at, actor: by.actor.clone(), action, resource: *resource, note }
}

pub(super) fn of_organization(organization: &Organization) -> Facts {
    let limits = organization.limits;
    let limits = json!({
        "deliveries_per_minute": limits.deliveries_per_minute,
        "events_per_minute": limits.events_per_minute,
        "concurrency": limits.concurrency,
        "endpoints": limits.endpoints,
        "applications": limits.applications,
        "manual_retries_per_minute": limits.manual_retries_per_minute,
    });
    Facts::default()
        .plain("name", &*organization.name)
        .plain("uid", uid(organization.uid.as_ref()))
        .plain("limits", limits)
        .plain("worker_pool", organization.worker_pool.as_str())
        .plain("admin_emails", organization.admin_emails.iter().map(ToString::to_string).collect::<Vec<_>>())
}

pub(super) fn of_application(application: &Application) -> Facts {
    Facts::default()
        .plain("name", &*application.name)
        .plain("uid", uid(application.uid.as_ref()))
        .plain("strict_event_types", application.strict_event_types)
        .plain("owner_email", application.owner_email.as_ref().map(EmailAddress::as_str))
        .plain("base_url", application.base_url.as_deref())
        .plain("health_path", application.health_path.as_deref())
}

/// The schedule is shown by its name, or by its numbers if they are the endpoint's own.
pub(super) async fn of_endpoint(line: &Line, endpoint: &Endpoint) -> Result<Facts, StoreError> {
    let schedule = line.catalog.schedule(endpoint.organization, endpoint.retry_schedule).await?;
    let is_named = endpoint.follows.is_some() || presets::id(&schedule.name.0).is_some();
    let schedule = if is_named { json!(schedule.name.0) } else { policy(&schedule) };
    Ok(of_settings(endpoint)
        .plain("retry_schedule", schedule)
        .plain("retry_schedule_id", endpoint.follows.as_ref().map(ScheduleId::to_string)))
}

fn of_settings(endpoint: &Endpoint) -> Facts {
    let event_types: Vec<_> = endpoint.event_types.iter().map(ToString::to_string).collect();
    let (enabled, disabled_reason) = match endpoint.state {
        EndpointState::Enabled => (true, None),
        EndpointState::Disabled { reason, .. } => (false, Some(reason.as_str())),
        EndpointState::Deleted { .. } => (false, None),
    };
    let previous = endpoint.secrets.previous.as_ref();
    let facts = Facts::default()
        .plain("application_id", endpoint.application.to_string())
        .plain("uid", uid(endpoint.uid.as_ref()))
        .plain("name", endpoint.name.clone())
        .plain("description", endpoint.description.clone())
        .plain("url", &*endpoint.target.written)
        .plain("verify_url", endpoint.verify_url)
        .plain("event_types", event_types)
        .plain("labels", json!(endpoint.labels))
        .plain("filter", written(endpoint.filter.as_deref()))
        .plain("metadata", written(endpoint.metadata.as_deref()))
        .masked("headers", headers(endpoint, |value| value), headers(endpoint, |_| MASK))
        .masked("secret", BASE64_STANDARD.encode(&endpoint.secrets.current.0), MASK)
        .plain("previous_secret_expires_at", previous.map(|(_, until)| until.to_string()));
    facts
        .plain("signature_style", endpoint.signature_style.as_str())
        .plain("payload_style", endpoint.payload_style.as_str())
        .plain("timeout_ms", endpoint.timeout.map(millis))
        .plain("timeout_growth_factor", endpoint.timeout_growth_factor)
        .plain("max_concurrency", endpoint.max_concurrency)
        .plain("ordering", endpoint.ordering.mode.as_str())
        .plain("rate_limit", rate_limit(endpoint.rate_limit))
        .plain("circuit_breaker", breaker(&endpoint.breaker))
        .plain("paused", endpoint.paused_at.is_some())
        .plain("drain_per_second", endpoint.drain.map(|limit| limit.requests.get()))
        .plain("enabled", enabled)
        .plain("disabled_reason", disabled_reason)
}

pub(super) fn of_event_type(definition: &EventTypeDefinition) -> Facts {
    Facts::default()
        .plain("name", definition.name.as_str())
        .plain("description", definition.description.clone())
        .plain("schema", written(definition.schema.as_deref()))
        .plain("example", written(definition.example.as_deref()))
        .plain("archived", definition.archived)
}

pub(super) fn of_schedule(schedule: &OrganizationSchedule) -> Facts {
    let policy = &schedule.policy;
    let (strategy, intervals) = delays(&policy.strategy);
    Facts::default()
        .plain("name", &*policy.name.0)
        .plain("strategy", strategy)
        .plain("intervals", intervals)
        .plain("max_attempts", policy.max_attempts)
        .plain("jitter", jitter(policy.jitter))
        .plain("give_up_on", policy.give_up_on.clone())
        .plain("timeout_ms", policy.timeout.map(millis))
}

pub(super) fn of_source(source: &Source) -> Facts {
    let encode = |sealed: &SealedSecret| BASE64_STANDARD.encode(&sealed.0);
    let secrets: Vec<_> = source.secrets.iter().map(encode).collect();
    let masks = vec![MASK; secrets.len()];
    let facts = Facts::default()
        .plain("application_id", source.application.to_string())
        .plain("name", source.name.as_str())
        .plain("kind", &*source.kind)
        .plain("recipe", json!(source.recipe))
        .masked("secrets", secrets, masks)
        .masked("verify_token", source.verify_token.as_ref().map(encode), source.verify_token.as_ref().map(|_| MASK))
        .plain("subscription_id", source.subscription_id.clone())
        .plain("app_id", source.app_id.clone())
        .plain("audience", source.audience.clone())
        .plain("public_url", source.public_url.clone())
        .plain("tolerance_ms", source.tolerance.map(millis))
        .plain("ip_allowlist", source.ip_allowlist.iter().map(ToString::to_string).collect::<Vec<_>>());
    facts
        .plain("rate_limit", {
            let SourceRateLimit { per_ip_per_minute, per_user_per_minute } = source.rate_limit;
            json!({ "per_ip_per_minute": per_ip_per_minute, "per_user_per_minute": per_user_per_minute })
        })
        .plain("dedupe", source.dedupe.as_ref().map(dedupe))
        .plain("forward", source.forward)
        .plain("processor", source.processor.map(ProcessorKind::as_str))
        .plain("forward_headers", source.forward_headers.clone())
        .plain("keep_headers", source.keep_headers.clone())
        .plain(
            "response",
            source.response.as_ref().map(
                |SourceResponse { status, content_type, body }| json!({ "status": status, "content_type": content_type, "body": body }),
            ),
        )
        .plain("paused", source.paused.map(|pause| pause.mode.as_str()))
        .plain("awaiting_handshake_until", source.awaiting_handshake_until.map(|at: Timestamp| at.to_string()))
}

pub(super) fn of_channel(channel: &ServiceChannel) -> Facts {
    Facts::default()
        .plain("name", channel.name.as_str())
        .plain("kind", channel.kind.as_str())
        .masked("credentials", BASE64_STANDARD.encode(&channel.credentials.0), MASK)
        .plain("event_types", channel.event_types.iter().map(ToString::to_string).collect::<Vec<_>>())
        .plain("min_severity", channel.min_severity.map(NoticeSeverity::as_str))
        .plain("enabled", channel.enabled)
}

fn dedupe(dedupe: &Dedupe) -> Value {
    let mut shown = json!({ "by": dedupe.by.as_str(), "window_ms": millis(dedupe.window) });
    match &dedupe.by {
        DedupeBy::Header(name) => shown["header"] = json!(name),
        DedupeBy::Pointer(pointer) => shown["pointer"] = json!(pointer),
        DedupeBy::Id | DedupeBy::Body => {}
    }
    shown
}

pub(super) fn of_api_key(key: &ApiKey) -> Facts {
    let scopes: Vec<_> = key.scopes.iter().map(Scope::as_str).collect();
    Facts::default()
        .plain("name", &*key.name)
        .plain("scopes", scopes)
        .plain("application_id", key.application.map(|id| id.to_string()))
        .plain("expires_at", key.expires_at.map(|at: Timestamp| at.to_string()))
        .masked("key", MASK, MASK)
}

/// What an operation is about, under the names of the requests that begin one.
pub(super) fn of_operation(operation: &Operation, selection: &Selection) -> Facts {
    let texts = |values: &[EventTypePattern]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
    let endpoints = |values: &[EndpointId]| values.iter().map(EndpointId::to_string).collect::<Vec<_>>();
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let facts = Facts::default().plain("kind", operation.kind.as_str());
    let facts = match selection {
        Selection::DeadLetters(letters) => facts
            .plain("application_id", letters.application.map(|id| id.to_string()))
            .plain("endpoint_ids", endpoints(&letters.endpoints))
            .plain("event_types", texts(&letters.event_types))
            .plain("failure_categories", letters.categories.iter().map(|category| category.as_str()).collect::<Vec<_>>())
            .plain("from", time(letters.from))
            .plain("to", time(letters.to)),
        Selection::Events(events) => facts
            .plain("application_id", events.application.to_string())
            .plain("endpoint_ids", endpoints(&events.endpoints))
            .plain("event_types", texts(&events.event_types))
            .plain("wanted", events.wanted.as_str())
            .plain("from", events.from.to_string())
            .plain("to", events.to.to_string()),
        Selection::Erasure(events) => facts
            .plain("organization_id", events.deleted_organization.map(|id| id.to_string()))
            .plain("application_id", events.application.map(|id| id.to_string()))
            .plain("label", events.label.as_ref().map(|(key, value)| json!({ "key": key, "value": value })))
            .plain("from", time(events.from))
            .plain("to", events.to.to_string()),
        Selection::Waiting(endpoint) => facts.plain("endpoint_ids", endpoints(&[*endpoint])),
        Selection::Backfill(backfill) => facts
            .plain("connection_id", backfill.connection.to_string())
            .plain("data_types", backfill.types.iter().map(|data| data.as_str()).collect::<Vec<_>>())
            .plain("from", backfill.from.to_string())
            .plain("to", backfill.to.to_string()),
    };
    facts.plain("requests_per_second", operation.rate.map(|rate| rate.get())).plain("start_at", time(operation.start_at))
}

fn uid(uid: Option<&Uid>) -> Option<String> {
    uid.map(ToString::to_string)
}

/// JSON that its owner wrote.
fn written(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)))
}

fn headers<'a>(endpoint: &'a Endpoint, shown: impl Fn(&'a str) -> &'a str) -> Value {
    endpoint.headers.iter().map(|(name, value)| (name.clone(), json!(shown(value)))).collect::<Map<_, _>>().into()
}

fn rate_limit(limit: Option<RateLimit>) -> Value {
    limit.map_or(Value::Null, |limit| json!({ "requests_per_minute": limit.requests.get(), "burst": limit.burst.get() }))
}

fn breaker(config: &BreakerConfig) -> Value {
    let mut shown = json!({
        "enabled": config.enabled,
        "rule": rule_name(&config.rule),
        "sleep_window_ms": millis(config.sleep),
        "sleep_max_ms": millis(config.sleep_max),
        "half_open_max_calls": config.half_open_max_calls,
    });
    match config.rule {
        TripRule::Window { error_threshold_percentage, minimum_throughput, window, half_open_success_threshold } => {
            shown["error_threshold_percentage"] = json!(error_threshold_percentage);
            shown["minimum_throughput"] = json!(minimum_throughput);
            shown["window_size_ms"] = json!(millis(window));
            shown["half_open_success_threshold"] = json!(half_open_success_threshold);
        }
        TripRule::Consecutive { failure_threshold, success_threshold } => {
            shown["failure_threshold"] = json!(failure_threshold);
            shown["success_threshold"] = json!(success_threshold);
        }
    }
    shown
}

fn policy(schedule: &RetrySchedule) -> Value {
    let (strategy, intervals) = delays(&schedule.strategy);
    json!({
        "strategy": strategy,
        "intervals": intervals,
        "max_attempts": schedule.max_attempts,
        "jitter": jitter(schedule.jitter),
        "give_up_on": schedule.give_up_on,
        "timeout_ms": schedule.timeout.map(millis),
    })
}

fn delays(strategy: &Strategy) -> (&'static str, Value) {
    let listed = |delays: &[Duration]| json!(delays.iter().map(Duration::as_secs_f64).collect::<Vec<_>>());
    let shown = |backoff: &Backoff| match backoff {
        Backoff::Intervals(delays) => listed(delays),
        Backoff::Growing { base, multiplier, max } => {
            json!({ "base_ms": millis(*base), "multiplier": multiplier, "max_ms": millis(*max) })
        }
    };
    match strategy {
        Strategy::Exponential(backoff) => ("exponential", shown(backoff)),
        Strategy::Linear(backoff) => ("linear", shown(backoff)),
        Strategy::Custom(delays) => ("custom", listed(delays)),
    }
}

fn jitter(jitter: Jitter) -> Value {
    match jitter {
        Jitter::Share(share) => json!(share),
        Jitter::Later(most) => json!({ "later_ms": millis(most) }),
    }
}
