//! Rules about the server itself: the store, Redis, RabbitMQ, workers and what waits. Every node evaluates them by itself every five seconds, from what it
//! knows without asking anybody, and notifies the administrators directly: what is wrong with the store cannot go through it.
//!
//! Started beside the engine, which starts anew when the store comes back. What the store says of rules and of alerts of other nodes is read by `store_view` and
//! kept while the store is away. A report is recorded first where the store answers, so that of several nodes one sends it (`recording`); otherwise each node
//! sends it (`sending`) and records it afterwards.

mod recording;
mod sending;
mod store_view;

use std::{collections::VecDeque, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use uuid::Uuid;

use self::{
    recording::Recorded,
    sending::{Queues, ServerNotice},
    store_view::{StoreView, View},
};
use crate::{
    ids::{AlertStatusId, OrganizationId},
    line::{Line, rule_alert::of_server},
    model::{AlertRule, AlertSeverity, AlertStage, AlertStatus, EmailAddress, Secret, Target},
    policy::alerts::{
        AlertReport,
        server::{
            ServerFacts, ServerReport, advice,
            statuses::{Known, ServerStatuses},
        },
        words::summary,
    },
    time::Timestamp,
};

/// How often rules are evaluated.
pub const EVALUATED_EVERY: Duration = Duration::from_secs(5);

/// How many reports wait to be recorded, the newest: the store is away for long then, and the log has all of them.
const UNRECORDED_MAX: usize = 200;

/// How often the record of an alert that fires is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(5 * 60);

/// What the node knows of itself and of what it is connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeReading {
    /// The share of the slots for requests that is in use, in percent.
    pub workers_busy: f64,
    /// Whether there should be a Redis, and it is away.
    pub redis_is_away: bool,
    /// How many attempts in a row to connect to RabbitMQ failed.
    pub rabbitmq_failures: u32,
}

/// Reads that. Asked every five seconds; it must not wait for anything.
pub type ReadNode = Box<dyn Fn() -> NodeReading + Send + Sync>;

/// Whom the rules about the server are for.
#[derive(Clone, Debug)]
pub struct ServerAlertSettings {
    /// The organization `default`, whose rules they are.
    pub organization: OrganizationId,
    /// Its administrators, until they are read from the store.
    pub admin_emails: Vec<EmailAddress>,
    /// A URL that understands Slack's incoming webhooks.
    pub slack_url: Option<Secret<Target>>,
    /// The key of an integration of PagerDuty.
    pub pagerduty_key: Option<Secret<String>>,
}

/// Evaluates, sends and records for ever. Never panics.
pub async fn run(line: Arc<Line>, read_node: ReadNode, settings: ServerAlertSettings) {
    let view = StoreView::new(settings.organization, settings.admin_emails.clone());
    let (queues, sending) = sending::start(&line, &settings);
    let evaluator = Evaluator {
        line: &line,
        organization: settings.organization,
        read_node,
        view: &view,
        queues,
        statuses: ServerStatuses::default(),
        redis_away_since: None,
        unrecorded: VecDeque::new(),
        may_have_unpublished: false,
    };
    tokio::join!(view.keep_up(&line), evaluator.run(), sending);
}

/// Evaluates the rules of one node.
struct Evaluator<'a> {
    line: &'a Line,
    organization: OrganizationId,
    read_node: ReadNode,
    view: &'a StoreView,
    queues: Queues,
    statuses: ServerStatuses,
    redis_away_since: Option<Timestamp>,
    /// What was reported while the store was away, the oldest first.
    unrecorded: VecDeque<ServerReport>,
    may_have_unpublished: bool,
}

impl Evaluator<'_> {
    async fn run(mut self) {
        let clock = self.line.ports.clock.clone();
        loop {
            clock.sleep_until(clock.now() + EVALUATED_EVERY).await;
            if AssertUnwindSafe(self.evaluate()).catch_unwind().await.is_err() {
                tracing::error!("panic while evaluating alert rules about the server; they are evaluated again");
            }
        }
    }

    async fn evaluate(&mut self) {
        let (now, view) = (self.line.ports.clock.now(), self.view.now());
        let facts = self.facts(&view, now);
        let (entropy, organization) = (&self.line.ports.entropy, self.organization);
        let known = Known { rules: &view.rules, records: &view.records };
        let reports = self.statuses.evaluate(known, &facts, now, |rule| blank(entropy.uuid(now), organization, rule, now));
        self.record_the_rest(&view).await;
        for report in reports {
            self.report(report, &view).await;
        }
        self.renew(&view, now).await;
        if self.may_have_unpublished && view.answers() {
            self.may_have_unpublished = !recording::publish(self.line).await;
        }
    }

    fn facts(&mut self, view: &View, now: Timestamp) -> ServerFacts {
        let reading = (self.read_node)();
        self.redis_away_since = reading.redis_is_away.then(|| self.redis_away_since.unwrap_or(now));
        ServerFacts {
            waiting: view.waiting,
            workers_busy: reading.workers_busy,
            redis_away_since: self.redis_away_since,
            database_away_since: view.away_since,
            database_failures: view.failures,
            rabbitmq_failures: reading.rabbitmq_failures,
        }
    }

    /// Notifies people of it, unless another node has done or will do so.
    async fn report(&mut self, report: ServerReport, view: &View) {
        let rule = report.status.rule.name.clone();
        if report.report != AlertReport::Fired && self.statuses.is_followed(&rule, &view.records, report.at) {
            return;
        }
        let is_next = self.unrecorded.iter().all(|other| other.status.rule.name != rule);
        let recorded = if view.answers() && is_next {
            let recorded = recording::record(self.line, &report, self.is_sent(&report, view)).await;
            self.note(&report, recorded)
        } else {
            Recorded::NotKnown
        };
        match recorded {
            Recorded::ByAnother => return,
            Recorded::Now => {}
            Recorded::NotKnown => self.keep_for_later(report.clone()),
        }
        log(&report);
        if is_for_admins(&report) {
            let alert = of_server(self.line, &report, true);
            self.queues.put(ServerNotice { alert, at: report.at, admins: view.admin_emails.clone() });
        }
    }

    /// Whether a report reaches people without the store.
    fn is_sent(&self, report: &ServerReport, view: &View) -> bool {
        is_for_admins(report) && self.queues.reach_somebody(&view.admin_emails)
    }

    fn note(&mut self, report: &ServerReport, recorded: Recorded) -> Recorded {
        if report.report == AlertReport::Fired && recorded != Recorded::NotKnown {
            self.statuses.note_begin(&report.status.rule.name, recorded == Recorded::Now);
        }
        // What failed may have been written all the same.
        self.may_have_unpublished |= recorded != Recorded::ByAnother;
        recorded
    }

    fn keep_for_later(&mut self, report: ServerReport) {
        if self.unrecorded.len() == UNRECORDED_MAX {
            self.unrecorded.pop_front();
        }
        self.unrecorded.push_back(report);
    }

    /// Records what was sent while the store was away.
    async fn record_the_rest(&mut self, view: &View) {
        while view.answers()
            && let Some(report) = self.unrecorded.front().cloned()
        {
            let recorded = recording::record_again(self.line, &report, self.is_sent(&report, view)).await;
            if self.note(&report, recorded) == Recorded::NotKnown {
                return;
            }
            self.unrecorded.pop_front();
        }
    }

    /// Renews the records of what still fires.
    async fn renew(&self, view: &View, now: Timestamp) {
        for status in self.statuses.reported().filter(|_| view.answers()) {
            let record = view.records.iter().find(|record| record.rule.name == status.rule.name);
            let Some(record) = record.filter(|record| record.stage == AlertStage::Firing) else { continue };
            let is_ours = !self.statuses.is_followed(&status.rule.name, &view.records, now);
            if is_ours && now.since(record.updated_at) >= RENEWED_EVERY {
                recording::renew(self.line, record, status.value, now).await;
            }
        }
    }
}

fn is_for_admins(report: &ServerReport) -> bool {
    let recipients = &report.status.rule.recipients;
    recipients.admins || recipients.owner
}

/// A rule of which nothing is known. What it is about has no id: the organization `default` stands for the server.
fn blank(id: Uuid, organization: OrganizationId, rule: &AlertRule, now: Timestamp) -> AlertStatus {
    AlertStatus {
        id: AlertStatusId::from_uuid(id),
        organization,
        rule: rule.clone(),
        target: *organization.as_uuid(),
        application: None,
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

/// The log is the channel that is always there.
fn log(report: &ServerReport) {
    let (rule, value) = (&report.status.rule, report.status.value);
    let (words, advice) = (summary(rule, None, value, report.report), advice(rule.metric));
    let name = rule.name.as_str();
    match (report.report, rule.severity) {
        (AlertReport::Resolved, _) => tracing::info!(rule = name, value, "alert resolved: {words}"),
        (_, AlertSeverity::Critical) => tracing::error!(rule = name, value, "alert: {words} {advice}"),
        (_, AlertSeverity::Warning) => tracing::warn!(rule = name, value, "alert: {words} {advice}"),
    }
}
