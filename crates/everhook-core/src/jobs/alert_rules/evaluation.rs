//! One evaluation of all rules: everything that is watched is measured, and what changes is kept and reported.

use rustc_hash::FxHashMap;
use uuid::Uuid;

use super::{
    rules::Rules,
    watched::{PAGE, Watched},
};
use crate::{
    ids::{AlertStatusId, OrganizationId},
    line::{
        Line,
        alert_subject::{Subject, name_of, owner_of},
        rule_alert::{AlertAbout, of_rule},
    },
    model::{AlertMetric, AlertRule, AlertScope, AlertStage, AlertStatus},
    policy::alerts::{AlertReport, AlertStep, Measured, is_broken, step},
    ports::{AlertChange, Signal, SignalPage, SignalPlace, StoreError},
    time::Timestamp,
};

/// How many alerts are read, and how many changes are written, at once.
const ALERTS_PAGE: u32 = 500;
const CHANGES_AT_ONCE: usize = 100;

/// How many alerts of one organization change in one evaluation. The others change in the next one: ten thousand endpoints that fail together are reported
/// within minutes, and hold up nobody else's alerts.
const CHANGES_OF_ORGANIZATION_MAX: u32 = 500;

/// Up to how many things are counted, where a rule compares a number: one more than a threshold may be.
const COUNT_MAX: u32 = 10_001;

/// Evaluates all rules. Says whether anything is to be reported.
pub async fn evaluate(line: &Line, watched: &mut Watched, now: Timestamp) -> Result<bool, StoreError> {
    watched.refresh(line, now).await?;
    let mut pass = Pass::begin(line, now).await?;
    pass.look_at_windows(watched);
    pass.look_at_signals().await?;
    pass.look_at_the_rest();
    pass.keep().await
}

/// An evaluation under way.
struct Pass<'a> {
    line: &'a Line,
    now: Timestamp,
    rules: Rules,
    /// What is not `ok`, until it was looked at, by what it is about.
    open: FxHashMap<Uuid, Vec<AlertStatus>>,
    steps: Vec<(AlertStep, Measured)>,
    changes: FxHashMap<OrganizationId, u32>,
}

impl<'a> Pass<'a> {
    async fn begin(line: &'a Line, now: Timestamp) -> Result<Self, StoreError> {
        let rules = Rules::read(line).await?;
        let mut open: FxHashMap<Uuid, Vec<AlertStatus>> = FxHashMap::default();
        let mut after = None;
        loop {
            let page = line.ports.alerts.open_alerts(after, ALERTS_PAGE).await?;
            let is_last = page.len() < ALERTS_PAGE as usize;
            after = page.last().map(|last| last.id).or(after);
            // Those about the server are evaluated by every node, directly.
            let page = page.into_iter().filter(|status| status.rule.scope != AlertScope::Server);
            page.for_each(|status| open.entry(status.target).or_default().push(status));
            if is_last {
                break;
            }
        }
        Ok(Self { line, now, rules, open, steps: Vec::new(), changes: FxHashMap::default() })
    }

    fn look_at_windows(&mut self, watched: &Watched) {
        let now = self.now;
        for (id, lane) in &watched.lanes {
            let Some(scope) = lane.lane.scope() else { continue };
            let subject = Subject { scope, target: *id.as_uuid(), organization: lane.organization, application: Some(lane.application) };
            self.look(&subject, AlertMetric::is_in_statistics, |rule| lane.measure(rule.metric, rule.window, now));
        }
        for (id, source) in &watched.sources {
            let (target, application) = (*id.as_uuid(), Some(source.application));
            let subject = Subject { scope: AlertScope::Source, target, organization: source.organization, application };
            self.look(&subject, AlertMetric::is_in_statistics, |rule| source.window.measure(rule.metric, rule.window, now));
        }
    }

    /// What is out of order now, and no matter of minutes.
    async fn look_at_signals(&mut self) -> Result<(), StoreError> {
        let signals = &self.line.ports.alert_signals;
        let circuits = all(|place| signals.open_circuits(place, PAGE)).await?;
        let depths = all(|place| signals.source_depths(COUNT_MAX, place, PAGE)).await?;
        let apps = all(|place| signals.failing_apps(place, PAGE)).await?;
        let dead_letters = all(|place| signals.dead_letter_counts(COUNT_MAX, place, PAGE)).await?;
        circuits.iter().for_each(|signal| self.look_at_signal(AlertMetric::CircuitOpen, signal));
        depths.iter().for_each(|signal| self.look_at_signal(AlertMetric::Depth, signal));
        apps.iter().for_each(|signal| self.look_at_signal(AlertMetric::FailedHealthChecks, signal));
        let mut of_organizations: FxHashMap<OrganizationId, u64> = FxHashMap::default();
        dead_letters.iter().for_each(|signal| *of_organizations.entry(signal.organization).or_default() += signal.value);
        for (organization, count) in of_organizations {
            let subject = Subject { scope: AlertScope::Organization, target: *organization.as_uuid(), organization, application: None };
            self.look(&subject, |metric| metric == AlertMetric::DeadLetters, |_| Measured::Value(count as f64));
        }
        Ok(())
    }

    fn look_at_signal(&mut self, metric: AlertMetric, signal: &Signal) {
        let Signal { target, scope, organization, application, value } = *signal;
        let subject = Subject { scope, target, organization, application: Some(application) };
        self.look(&subject, |other| other == metric, |_| Measured::Value(value as f64));
    }

    /// Measures one thing by all its rules about some metrics.
    fn look(&mut self, subject: &Subject, covers: impl Fn(AlertMetric) -> bool, measure: impl Fn(&AlertRule) -> Measured) {
        for rule in self.rules.of(subject.organization).iter() {
            if rule.scope != subject.scope || !covers(rule.metric) {
                continue;
            }
            let (kept, measured) = (self.take_open(subject.target, &rule.name), measure(rule));
            match kept {
                Some(status) => self.note(Some(rule), &status, measured),
                None if is_broken(rule, measured) => {
                    let blank = self.blank(subject, rule);
                    self.note(Some(rule), &blank, measured);
                }
                None => {}
            }
        }
    }

    /// What was open and was not seen: nothing happened there, or it is in order.
    fn look_at_the_rest(&mut self) {
        let rest: Vec<_> = self.open.drain().flat_map(|(_, statuses)| statuses).collect();
        for status in rest {
            let rules = self.rules.of(status.organization);
            let rule = rules.iter().find(|rule| rule.name == status.rule.name && rule.scope == status.rule.scope);
            let measured = match rule {
                Some(rule) if rule.metric.needs_samples() => Measured::TooFewSamples,
                _ => Measured::Value(0.0),
            };
            self.note(rule, &status, measured);
        }
    }

    fn take_open(&mut self, target: Uuid, rule: &str) -> Option<AlertStatus> {
        let of_target = self.open.get_mut(&target)?;
        let place = of_target.iter().position(|status| status.rule.name == rule)?;
        Some(of_target.swap_remove(place))
    }

    fn note(&mut self, rule: Option<&AlertRule>, status: &AlertStatus, measured: Measured) {
        let Some(next) = step(rule, status, measured, self.now) else { return };
        let changes = self.changes.entry(status.organization).or_default();
        *changes += 1;
        if *changes <= CHANGES_OF_ORGANIZATION_MAX {
            self.steps.push((next, measured));
        }
    }

    fn blank(&self, subject: &Subject, rule: &AlertRule) -> AlertStatus {
        AlertStatus {
            // Given when it is written.
            id: AlertStatusId::from_uuid(Uuid::nil()),
            organization: subject.organization,
            rule: rule.clone(),
            target: subject.target,
            application: subject.application,
            stage: AlertStage::Ok,
            since: self.now,
            value: 0.0,
            updated_at: self.now,
            reported_at: None,
            silenced_until: None,
            episodes: Vec::new(),
            revision: 0,
        }
    }

    /// Writes what changed, with what is reported of it. Says whether anything is.
    async fn keep(mut self) -> Result<bool, StoreError> {
        let mut is_reported = false;
        let (mut changes, mut steps) = (Vec::new(), std::mem::take(&mut self.steps));
        // Maps have no order, and ids are given in this one.
        steps.sort_by(|(a, _), (b, _)| (a.status.target, &a.status.rule.name).cmp(&(b.status.target, &b.status.rule.name)));
        for (next, measured) in steps {
            let Some(next) = self.as_kept(next, measured).await? else { continue };
            let Some(change) = self.change(next).await? else { continue };
            is_reported |= change.alert.is_some();
            changes.push(change);
            if changes.len() == CHANGES_AT_ONCE {
                self.line.ports.alerts.save_alerts(std::mem::take(&mut changes)).await?;
            }
        }
        if !changes.is_empty() {
            self.line.ports.alerts.save_alerts(changes).await?;
        }
        Ok(is_reported)
    }

    /// One that begins may have a history: what is kept of it is gone on with. `None` if another node began it meanwhile.
    async fn as_kept(&self, mut next: AlertStep, measured: Measured) -> Result<Option<AlertStep>, StoreError> {
        if next.status.revision > 0 {
            return Ok(Some(next));
        }
        let AlertStatus { organization, rule, target, .. } = &next.status;
        let kept = self.line.ports.alerts.alert_at(*organization, &rule.name, *target).await?;
        Ok(match kept {
            None => {
                next.status.id = AlertStatusId::from_uuid(self.line.ports.entropy.uuid(self.now));
                Some(next)
            }
            Some(kept) if kept.stage == AlertStage::Ok => step(Some(rule), &kept, measured, self.now),
            Some(_) => None,
        })
    }

    /// `None` if what would begin to fire is not there any more: nobody looks after an endpoint that is disabled.
    async fn change(&self, next: AlertStep) -> Result<Option<AlertChange>, StoreError> {
        let AlertStep { status, report } = next;
        let Some(report) = report else { return Ok(Some(AlertChange { status, alert: None })) };
        let subject =
            Subject { scope: status.rule.scope, target: status.target, organization: status.organization, application: status.application };
        let name = name_of(self.line, &subject).await?;
        if name.is_none() && report == AlertReport::Fired {
            return Ok(None);
        }
        let owner = if status.rule.recipients.owner { owner_of(self.line, &subject).await? } else { None };
        let alert = of_rule(self.line, &status, &AlertAbout { name, owner }, report, self.now);
        Ok(Some(AlertChange { status, alert: Some(alert) }))
    }
}

/// Reads page by page.
async fn all<T, F: Future<Output = Result<SignalPage<T>, StoreError>>>(
    read: impl Fn(Option<SignalPlace>) -> F,
) -> Result<Vec<T>, StoreError> {
    let (mut rows, mut place) = (Vec::new(), None);
    loop {
        let mut page = read(place).await?;
        rows.append(&mut page.rows);
        if page.next.is_none() {
            return Ok(rows);
        }
        place = page.next;
    }
}
