//! Endpoints that fail for days: who they are, and that each report about one is recorded once, whole, and only while it is true.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    ids::{EndpointId, Ref},
    model::{
        ApplicationKind, ClockReset, Cursor, DisabledReason, Endpoint, EndpointState, FailingClock, FailingRule, HEALTH_RECORDS_MAX,
        HealthRecord, HealthReportKind, PageRequest, Tally, minute_of,
    },
    ports::{Alert, AuditFilter, Disabling, EndpointUpdated, FailingEndpoint, FailingRequest, HealthReport},
    time::Timestamp,
};

use super::given::{Given, NOW, after, entry, event_type, failure, id, success};

/// The clock starts with the first failure.
const AT_ONCE: FailingRule = FailingRule { window: Duration::from_secs(60), spread: Duration::ZERO, failures_min: 1 };

impl Given {
    async fn fail(&self, endpoint: EndpointId, at: Timestamp) {
        let mut tally = Tally::new(endpoint.into(), minute_of(at));
        tally.add(&failure(1), at);
        self.store.add(vec![tally], AT_ONCE).await.unwrap();
    }

    async fn succeed(&self, endpoint: EndpointId, at: Timestamp) {
        let mut tally = Tally::new(endpoint.into(), minute_of(at));
        tally.add(&success(1), at);
        self.store.add(vec![tally], AT_ONCE).await.unwrap();
    }

    async fn clock(&self, endpoint: EndpointId) -> FailingClock {
        self.store.activities(vec![endpoint.into()]).await.unwrap()[0].clock
    }

    /// Those that fail since the instant or before, in order.
    async fn failing(&self, since: Timestamp, warned_since: Timestamp) -> Vec<EndpointId> {
        let request = FailingRequest { since, warned_since, after: None, limit: 100 };
        self.store.failing_endpoints(request).await.unwrap().into_iter().map(|found| found.endpoint).collect()
    }

    async fn recovered(&self) -> Vec<EndpointId> {
        self.store.recovered_endpoints(100).await.unwrap().into_iter().map(|found| found.endpoint).collect()
    }

    /// A report that follows from the clock as it stands.
    async fn report(&self, endpoint: EndpointId, kind: HealthReportKind, at: Timestamp) -> HealthReport {
        let seen = self.clock(endpoint).await;
        HealthReport {
            endpoint,
            application: self.application,
            seen,
            record: HealthRecord { kind, at, failing_since: seen.failing_since, failures: 7 },
            alert: Alert {
                id: id(),
                organization: self.organization,
                event_type: event_type("endpoint.warning"),
                data: Bytes::from_static(b"{}"),
            },
            disables: (kind == HealthReportKind::Disabled).then(|| Disabling { reason: DisabledReason::Failing, entry: entry() }),
        }
    }

    async fn endpoint_row(&self, endpoint: EndpointId) -> Endpoint {
        self.store.endpoint(self.organization, &Ref::Id(endpoint)).await.unwrap().unwrap()
    }

    async fn edit(&self, endpoint: EndpointId, edit: impl FnOnce(&mut Endpoint)) {
        let mut changed = self.endpoint_row(endpoint).await;
        let read_at = changed.updated_at;
        edit(&mut changed);
        changed.updated_at = read_at + Duration::from_secs(1);
        assert_eq!(self.store.update_endpoint(changed, read_at, entry()).await.unwrap(), EndpointUpdated::Updated);
    }

    async fn alerts(&self) -> usize {
        self.store.pending(100).await.unwrap().len()
    }
}

#[tokio::test]
async fn endpoints_that_fail_are_listed_by_how_long_they_do() {
    let given = Given::new().await;
    let (first, second, third) = (given.endpoint, given.another_endpoint().await, given.another_endpoint().await);
    given.fail(second, after(1)).await;
    given.fail(third, after(5)).await;
    given.fail(first, after(3)).await;
    let fine = given.another_endpoint().await;
    given.fail(fine, NOW).await;
    given.succeed(fine, after(1)).await;
    let given = given.reopened().await;
    assert_eq!(given.failing(after(9), NOW).await, [second, first, third]);
    assert_eq!(given.failing(after(3), NOW).await, [second, first], "those that fail since then, or since before");
    assert_eq!(given.failing(NOW, NOW).await, []);
    // Page by page, also where two fail since the same instant.
    given.fail(fine, after(3)).await;
    let (mut place, mut listed) = (None, Vec::new());
    loop {
        let request = FailingRequest { since: after(9), warned_since: NOW, after: place, limit: 1 };
        let page = given.store.failing_endpoints(request).await.unwrap();
        let Some(FailingEndpoint { endpoint, organization, activity }) = page.first().copied() else { break };
        assert_eq!((page.len(), organization), (1, given.organization));
        assert_eq!(activity, given.store.activities(vec![endpoint.into()]).await.unwrap()[0]);
        place = Some((activity.clock.failing_since.unwrap(), endpoint));
        listed.push(endpoint);
    }
    assert_eq!(listed, [second, first, fine, third]);
}

#[tokio::test]
async fn endpoints_that_are_paused_disabled_deleted_or_operational_are_not_listed() {
    let given = Given::new().await;
    let operational = given.store.built_in_application(given.organization, ApplicationKind::Operational).await.unwrap().unwrap();
    let [paused, disabled, deleted] = [given.another_endpoint().await, given.another_endpoint().await, given.another_endpoint().await];
    let telling = given.endpoint_of(operational.id).await;
    for endpoint in [given.endpoint, paused, disabled, deleted, telling] {
        given.fail(endpoint, NOW).await;
    }
    given.edit(paused, |endpoint| endpoint.paused_at = Some(after(1))).await;
    given.edit(disabled, |endpoint| endpoint.state = EndpointState::Disabled { at: after(1), reason: DisabledReason::ByOwner }).await;
    given.edit(deleted, |endpoint| endpoint.state = EndpointState::Deleted { at: after(1) }).await;
    assert_eq!(given.failing(after(9), NOW).await, [given.endpoint]);
    // The same holds for those that work again; who paused or disabled one is still told.
    for endpoint in [given.endpoint, paused, disabled, deleted, telling] {
        given.store.forget_failures(endpoint.into(), ClockReset::AfterTrouble).await.unwrap();
        given.succeed(endpoint, after(2)).await;
    }
    let mut recovered = given.recovered().await;
    recovered.sort();
    let mut expected = [given.endpoint, paused, disabled];
    expected.sort();
    assert_eq!(recovered, expected);
}

#[tokio::test]
async fn a_warning_is_recorded_once_with_its_alert_and_its_history() {
    let given = Given::new().await;
    given.fail(given.endpoint, NOW).await;
    let report = given.report(given.endpoint, HealthReportKind::Warned, after(10)).await;
    assert!(given.store.report_health(report.clone()).await.unwrap());
    // Another node saw the same.
    let second = HealthReport { alert: Alert { id: id(), ..report.alert.clone() }, ..report.clone() };
    assert!(!given.store.report_health(second).await.unwrap());
    let given = given.reopened().await;
    assert_eq!(given.store.pending(10).await.unwrap(), [report.alert]);
    assert_eq!(given.store.health_history(given.endpoint).await.unwrap(), [report.record]);
    let clock = given.clock(given.endpoint).await;
    assert_eq!((clock.failing_since, clock.warned_at, clock.owes_recovery), (Some(NOW), Some(after(10)), true));
    // It is listed again when it fails for so long that more is due.
    assert_eq!(given.failing(after(20), NOW - Duration::from_secs(1)).await, []);
    assert_eq!(given.failing(after(20), NOW).await, [given.endpoint]);
    // What fails later does not lose what was reported.
    given.fail(given.endpoint, after(30)).await;
    assert_eq!(given.clock(given.endpoint).await.warned_at, Some(after(10)));
    assert_eq!(given.store.health_history(given.endpoint).await.unwrap().len(), 1);
    let nobody = EndpointId::from_uuid(id());
    assert_eq!(given.store.health_history(nobody).await.unwrap(), []);
}

#[tokio::test]
async fn nodes_that_report_the_same_at_once_record_it_once() {
    let given = Given::new().await;
    given.fail(given.endpoint, NOW).await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let report = given.report(given.endpoint, HealthReportKind::Disabled, after(10)).await;
        let store = given.store.clone();
        tasks.push(tokio::spawn(async move { store.report_health(report).await.unwrap() }));
    }
    let mut recorded = 0;
    for task in tasks {
        recorded += usize::from(task.await.unwrap());
    }
    assert_eq!((recorded, given.alerts().await), (1, 1));
    assert_eq!(given.store.health_history(given.endpoint).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_disabled_says_why_and_begins_anew() {
    let given = Given::new().await;
    let other = given.another_endpoint().await;
    given.fail(given.endpoint, NOW).await;
    let version = given.config_version().await;
    let report = given.report(given.endpoint, HealthReportKind::Disabled, after(10)).await;
    assert!(given.store.report_health(report.clone()).await.unwrap());
    let disabled = given.endpoint_row(given.endpoint).await;
    assert_eq!(disabled.state, EndpointState::Disabled { at: after(10), reason: DisabledReason::Failing });
    assert!(disabled.updated_at > NOW, "an owner's change that was based on the enabled endpoint must be refused");
    assert_eq!(given.config_version().await, version + 1, "publishers must match again");
    assert_eq!(given.endpoint_row(other).await.state, EndpointState::Enabled);
    let entry = report.disables.unwrap().entry;
    let page = PageRequest { limit: 10, cursor: Cursor::Newest };
    let audited = given.store.audit_log(entry.organization, AuditFilter::default(), page).await.unwrap().rows;
    assert_eq!(audited, [entry]);
    assert_eq!(given.clock(given.endpoint).await, FailingClock { owes_recovery: true, ..FailingClock::default() });
}

#[tokio::test]
async fn what_is_not_true_any_more_is_not_reported() {
    let given = Given::new().await;
    given.fail(given.endpoint, NOW).await;
    let seen = given.report(given.endpoint, HealthReportKind::Disabled, after(10)).await;
    // It succeeded, and failed again since.
    given.succeed(given.endpoint, after(2)).await;
    given.fail(given.endpoint, after(3)).await;
    assert!(!given.store.report_health(seen).await.unwrap());
    // Its owner was faster.
    given.edit(given.endpoint, |endpoint| endpoint.paused_at = Some(after(4))).await;
    let version = given.config_version().await;
    let before = given.clock(given.endpoint).await;
    let paused = given.report(given.endpoint, HealthReportKind::Disabled, after(10)).await;
    assert!(!given.store.report_health(paused).await.unwrap());
    assert_eq!((given.clock(given.endpoint).await, given.config_version().await), (before, version), "nothing was changed");
    assert_eq!((given.alerts().await, given.store.health_history(given.endpoint).await.unwrap()), (0, Vec::new()));
    assert_eq!(given.endpoint_row(given.endpoint).await.state, EndpointState::Enabled);
}

#[tokio::test]
async fn a_recovery_is_listed_until_it_is_reported() {
    let given = Given::new().await;
    given.fail(given.endpoint, NOW).await;
    let warning = given.report(given.endpoint, HealthReportKind::Warned, after(10)).await;
    assert!(given.store.report_health(warning).await.unwrap());
    assert_eq!(given.recovered().await, []);
    given.succeed(given.endpoint, after(20)).await;
    // What fails afterwards does not hide it.
    given.fail(given.endpoint, after(21)).await;
    let given = given.reopened().await;
    assert_eq!(given.recovered().await, [given.endpoint]);
    let recovery = given.report(given.endpoint, HealthReportKind::Recovered, after(30)).await;
    assert_eq!(recovery.seen.recovered_at, Some(after(20)));
    assert!(given.store.report_health(recovery.clone()).await.unwrap());
    assert!(!given.store.report_health(recovery).await.unwrap());
    assert_eq!(given.recovered().await, []);
    let kinds: Vec<_> = given.store.health_history(given.endpoint).await.unwrap().iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [HealthReportKind::Recovered, HealthReportKind::Warned], "the newest first");
    assert_eq!(given.clock(given.endpoint).await.failing_since, Some(after(21)));
}

#[tokio::test]
async fn the_history_keeps_the_newest_reports() {
    let given = Given::new().await;
    let rounds = HEALTH_RECORDS_MAX as u64 + 5;
    for round in 0..rounds {
        let at = after(round * 100);
        given.fail(given.endpoint, at).await;
        let warning = given.report(given.endpoint, HealthReportKind::Warned, at + Duration::from_secs(1)).await;
        assert!(given.store.report_health(warning).await.unwrap());
        given.succeed(given.endpoint, at + Duration::from_secs(2)).await;
    }
    let history = given.store.health_history(given.endpoint).await.unwrap();
    assert_eq!(history.len(), HEALTH_RECORDS_MAX);
    let expected: Vec<_> = (5..rounds).rev().map(|round| after(round * 100 + 1)).collect();
    assert_eq!(history.iter().map(|record| record.at).collect::<Vec<_>>(), expected);
}
