//! When a rule would have fired last week: its minutes are read from statistics and judged as they would have been. Nothing is written or reported.

use std::time::Duration;

use rustc_hash::FxHashMap;
use uuid::Uuid;

use crate::{
    ids::{AlertStatusId, ApplicationId, EndpointId, LaneId, OrganizationId, Ref, SourceId},
    line::{
        Line,
        alert_subject::{Subject, name_of, timeout_of},
    },
    manage::{Fault, Refusal},
    model::{AlertRule, AlertScope, AlertStage, AlertStatus, Cursor, PageRequest},
    policy::alerts::{
        dry_run::{Fired, replay},
        windows::{LaneWindow, SourceWindow, minute_number},
    },
    ports::{EndpointFilter, StoreError},
    time::Timestamp,
};

/// How far back it goes.
pub const DRY_RUN_DAYS: u64 = 7;
const PERIOD: Duration = Duration::from_secs(DRY_RUN_DAYS * 86_400);

/// How many things are examined where none is named, the newest first. Each has 10,080 minutes at the most.
pub const DRY_RUN_TARGETS_MAX: usize = 20;
const PAGE: PageRequest = PageRequest { limit: DRY_RUN_TARGETS_MAX as u32, cursor: Cursor::Newest };

const MINUTE: Duration = Duration::from_secs(60);

/// What a rule would have reported.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// From when on.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
    /// The targets that were examined.
    pub targets: Vec<DryRunTarget>,
    /// Whether that was everything that the rule watches.
    pub is_complete: bool,
}

/// What a rule would have reported about one thing.
#[derive(Clone, Debug)]
pub struct DryRunTarget {
    /// Which.
    pub target: Uuid,
    /// What people call it.
    pub name: Option<String>,
    /// When it would have fired.
    pub fired: Fired,
}

/// Judges the last week by a rule: at the thing that is named, or at the newest ones of its scope.
///
/// # Errors
/// [`Refusal::Invalid`] if the rule measures what statistics do not have, or the thing is not there.
pub async fn dry_run(line: &Line, organization: OrganizationId, rule: &AlertRule, target: Option<Uuid>) -> Result<DryRun, Refusal> {
    if !rule.metric.is_in_statistics() {
        let words = "is not kept in statistics: only rates, percentiles and counts over a window can be tried on the past";
        return Err(Refusal::Invalid(vec![Fault::new("metric", words)]));
    }
    let to = line.ports.clock.now();
    let from = to - PERIOD;
    let (mut subjects, mut is_complete) = subjects(line, organization, rule.scope, target).await?;
    if let Some(target) = target {
        subjects.retain(|subject| subject.target == target);
        is_complete = true;
        if subjects.is_empty() {
            let words = format!("is not the id of a {} of this organization", rule.scope.as_str());
            return Err(Refusal::Invalid(vec![Fault::new("target_id", words)]));
        }
    }
    let mut targets = Vec::with_capacity(subjects.len());
    for subject in subjects {
        let fired = judge(line, &subject, rule, from, to).await?;
        targets.push(DryRunTarget { target: subject.target, name: name_of(line, &subject).await?, fired });
    }
    Ok(DryRun { from, to, targets, is_complete })
}

/// The things that a rule watches, as many as are examined, and whether these are all.
async fn subjects(
    line: &Line,
    organization: OrganizationId,
    scope: AlertScope,
    target: Option<Uuid>,
) -> Result<(Vec<Subject>, bool), StoreError> {
    let subject = |target: Uuid, application: ApplicationId| Subject { scope, target, organization, application: Some(application) };
    let ports = &line.ports;
    match (scope, target) {
        (AlertScope::Endpoint, Some(id)) => {
            let found = ports.endpoints.endpoint(organization, &Ref::Id(EndpointId::from_uuid(id))).await?;
            Ok((found.map(|endpoint| subject(id, endpoint.application)).into_iter().collect(), true))
        }
        (AlertScope::Endpoint, None) => {
            let page = ports.endpoints.endpoints(organization, EndpointFilter::default(), PAGE).await?;
            let is_all = page.next.is_none();
            Ok((page.rows.iter().map(|endpoint| subject(*endpoint.id.as_uuid(), endpoint.application)).collect(), is_all))
        }
        (AlertScope::Source, Some(id)) => {
            let found = ports.sources.source(organization, &Ref::Id(SourceId::from_uuid(id))).await?;
            Ok((found.map(|source| subject(id, source.application)).into_iter().collect(), true))
        }
        (AlertScope::Source, None) => {
            let page = ports.sources.sources(organization, None, PAGE).await?;
            let is_all = page.next.is_none();
            Ok((page.rows.iter().map(|source| subject(*source.id.as_uuid(), source.application)).collect(), is_all))
        }
        (AlertScope::Application, Some(id)) => {
            let found = ports.applications.application(organization, &Ref::Id(ApplicationId::from_uuid(id))).await?;
            Ok((found.map(|application| subject(id, application.id)).into_iter().collect(), true))
        }
        (AlertScope::Application, None) => {
            let page = ports.applications.applications(organization, PAGE).await?;
            let is_all = page.next.is_none();
            Ok((page.rows.iter().map(|application| subject(*application.id.as_uuid(), application.id)).collect(), is_all))
        }
        (AlertScope::Capability, _) => capabilities(line, organization, target).await,
        (AlertScope::Organization | AlertScope::Server, _) => Ok((Vec::new(), true)),
    }
}

/// The capabilities of the newest applications, or the one that is named.
async fn capabilities(line: &Line, organization: OrganizationId, target: Option<Uuid>) -> Result<(Vec<Subject>, bool), StoreError> {
    let page = line.ports.applications.applications(organization, PAGE).await?;
    let mut found: Vec<Subject> = Vec::new();
    for application in &page.rows {
        let Some(app) = line.calls.app(organization, &Ref::Id(application.id)).await? else { continue };
        let lanes = app.capabilities.values().map(|capability| *capability.lane_id.as_uuid());
        let lanes = lanes.filter(|lane| target.is_none_or(|target| target == *lane));
        found.extend(lanes.map(|target| Subject {
            scope: AlertScope::Capability,
            target,
            organization,
            application: Some(application.id),
        }));
    }
    // Maps have no order.
    found.sort_by_key(|subject| subject.target);
    let is_all = page.next.is_none() && found.len() <= DRY_RUN_TARGETS_MAX;
    found.truncate(DRY_RUN_TARGETS_MAX);
    Ok((found, is_all))
}

async fn judge(line: &Line, subject: &Subject, rule: &AlertRule, from: Timestamp, to: Timestamp) -> Result<Fired, StoreError> {
    // What happened before its first window counts in that.
    let read_from = from - rule.window;
    let blank = blank(subject, rule, from);
    if subject.scope == AlertScope::Source {
        let minutes = line.ports.statistics.source_statistics(SourceId::from_uuid(subject.target), read_from, to, MINUTE).await?;
        let mut window = SourceWindow::default();
        let mut minutes: FxHashMap<u32, _> = minutes.into_iter().map(|minute| (minute_number(minute.minute), minute.statistics)).collect();
        for number in minute_number(read_from)..minute_number(from) {
            minutes.remove(&number).into_iter().for_each(|statistics| window.put(number, &statistics));
        }
        return Ok(replay(&blank, from, to, |number, at| {
            minutes.remove(&number).into_iter().for_each(|statistics| window.put(number, &statistics));
            window.forget_old(at);
            window.measure(rule.metric, rule.window, at)
        }));
    }
    let timeout = timeout_of(line, subject).await?;
    let minutes = line.ports.alert_signals.minutes_of_lane(LaneId::from_uuid(subject.target), read_from, to).await?;
    let mut window = LaneWindow::default();
    let mut minutes: FxHashMap<u32, _> = minutes.into_iter().map(|(at, statistics)| (minute_number(at), statistics)).collect();
    for number in minute_number(read_from)..minute_number(from) {
        minutes.remove(&number).into_iter().for_each(|statistics| window.put(number, &statistics));
    }
    Ok(replay(&blank, from, to, |number, at| {
        minutes.remove(&number).into_iter().for_each(|statistics| window.put(number, &statistics));
        window.forget_old(at);
        window.measure(rule.metric, rule.window, timeout, at)
    }))
}

fn blank(subject: &Subject, rule: &AlertRule, now: Timestamp) -> AlertStatus {
    AlertStatus {
        id: AlertStatusId::from_uuid(Uuid::nil()),
        organization: subject.organization,
        // It is asked what would have been, had it been evaluated.
        rule: AlertRule { enabled: true, ..rule.clone() },
        target: subject.target,
        application: subject.application,
        stage: AlertStage::Ok,
        since: now,
        value: 0.0,
        updated_at: now,
        reported_at: None,
        silenced_until: None,
        episodes: Vec::new(),
        revision: 0,
    }
}
