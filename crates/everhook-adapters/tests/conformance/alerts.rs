//! Alert rules of organizations, and how they stand: written once, changed by who saw how they stood, listed, silenced, forgotten.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    ids::{AlertRuleId, AlertStatusId, ApplicationId},
    model::{
        ALERT_RULES_MAX, AlertEpisode, AlertRecipients, AlertRule, AlertStage, AlertStatus, AuditEntry, Cursor, OrganizationAlertRule,
        PageRequest,
    },
    policy::alerts::defaults::DEFAULT_RULES,
    ports::{Alert, AlertChange, AlertFilter, AlertRulePut, AuditFilter},
    time::Timestamp,
};
use uuid::Uuid;

use super::given::{Given, NOW, after, entry, event_type, id, organization};

pub(super) fn rule(name: &str) -> AlertRule {
    let recipients = AlertRecipients { owner: false, admins: true, channels: vec!["ops".to_owned(), "ü\"".to_owned()] };
    AlertRule { name: name.to_owned(), threshold: 99.95, recipients, enabled: false, ..DEFAULT_RULES[0].rule() }
}

pub(super) fn own(given: &Given, name: &str) -> OrganizationAlertRule {
    OrganizationAlertRule {
        id: AlertRuleId::from_uuid(id()),
        organization: given.organization,
        rule: rule(name),
        created_at: NOW,
        updated_at: after(1),
    }
}

pub(super) fn status(given: &Given, name: &str, stage: AlertStage) -> AlertStatus {
    AlertStatus {
        id: AlertStatusId::from_uuid(id()),
        organization: given.organization,
        rule: rule(name),
        target: id(),
        application: Some(given.application),
        stage,
        since: after(2),
        value: 82.125,
        updated_at: after(3),
        reported_at: matches!(stage, AlertStage::Firing | AlertStage::TooFewSamples).then(|| after(4)),
        silenced_until: Some(after(5)),
        episodes: vec![
            AlertEpisode { fired_at: after(2), resolved_at: None, value: 82.125 },
            AlertEpisode { fired_at: NOW, resolved_at: Some(after(1)), value: 0.5 },
        ],
        revision: 0,
    }
}

impl Given {
    fn audited(&self) -> AuditEntry {
        AuditEntry { organization: self.organization, ..entry() }
    }

    async fn put_rule(&self, own: &OrganizationAlertRule, read_at: Option<Timestamp>) -> AlertRulePut {
        self.store.put_alert_rule(own.clone(), read_at, ALERT_RULES_MAX, self.audited()).await.unwrap()
    }

    /// One rule and one alert, each with everything that they can have.
    pub async fn alert(&self) {
        assert_eq!(self.put_rule(&own(self, "mine"), None).await, AlertRulePut::Put);
        assert!(self.save(&status(self, "mine", AlertStage::Firing)).await);
    }

    fn told(&self) -> Alert {
        Alert { id: id(), organization: self.organization, event_type: event_type("alert.fired"), data: Bytes::from_static(b"{}") }
    }

    /// Keeps an alert as it stands, and says what is kept then.
    pub(super) async fn save(&self, status: &AlertStatus) -> bool {
        let change = AlertChange { status: status.clone(), alert: None };
        self.store.save_alerts(vec![change]).await.unwrap()[0]
    }

    async fn kept(&self, status: &AlertStatus) -> Option<AlertStatus> {
        self.store.alert(self.organization, status.id).await.unwrap()
    }

    async fn open(&self) -> Vec<AlertStatusId> {
        self.store.open_alerts(None, 100).await.unwrap().into_iter().map(|status| status.id).collect()
    }

    async fn alerts_listed(&self, filter: AlertFilter) -> Vec<AlertStatusId> {
        let page = PageRequest { limit: 100, cursor: Cursor::Newest };
        self.store.alerts(self.organization, filter, page).await.unwrap().rows.into_iter().map(|status| status.id).collect()
    }

    async fn audit_count(&self) -> usize {
        let page = PageRequest { limit: 100, cursor: Cursor::Newest };
        self.store.audit_log(self.organization, AuditFilter::default(), page).await.unwrap().rows.len()
    }
}

#[tokio::test]
async fn a_rule_is_written_once_changed_by_who_read_it_last_and_deleted_by_its_name() {
    let given = Given::new().await;
    let before = given.audit_count().await;
    let mine = own(&given, "mine");
    assert_eq!(given.put_rule(&mine, None).await, AlertRulePut::Put);
    assert_eq!(given.put_rule(&own(&given, "mine"), None).await, AlertRulePut::Changed, "the name is taken");
    let given = given.reopened().await;
    assert_eq!(given.store.alert_rules(given.organization).await.unwrap(), std::slice::from_ref(&mine));
    let changed = OrganizationAlertRule {
        rule: AlertRule { threshold: 5.0, enabled: true, window: Duration::from_secs(120), ..mine.rule.clone() },
        updated_at: after(9),
        ..mine.clone()
    };
    assert_eq!(given.put_rule(&changed, Some(after(8))).await, AlertRulePut::Changed, "somebody else changed it");
    assert_eq!(given.put_rule(&changed, Some(mine.updated_at)).await, AlertRulePut::Put);
    let other = own(&given, "another");
    assert_eq!(given.put_rule(&other, None).await, AlertRulePut::Put);
    assert_eq!(given.store.alert_rules(given.organization).await.unwrap(), [other.clone(), changed.clone()], "by name");
    // Every organization's, page by page.
    assert_eq!(given.store.alert_rules_after(None, 1).await.unwrap(), std::slice::from_ref(&changed));
    assert_eq!(given.store.alert_rules_after(Some(changed.id), 10).await.unwrap(), std::slice::from_ref(&other));
    let stranger = organization();
    let stranger_id = stranger.organization.id;
    given.store.create_organization(stranger, entry()).await.unwrap();
    assert!(!given.store.delete_alert_rule(stranger_id, "mine", AuditEntry { organization: stranger_id, ..entry() }).await.unwrap());
    assert!(given.store.delete_alert_rule(given.organization, "mine", given.audited()).await.unwrap());
    assert!(!given.store.delete_alert_rule(given.organization, "mine", given.audited()).await.unwrap());
    assert_eq!(given.store.alert_rules(given.organization).await.unwrap(), [other]);
    assert_eq!(given.audit_count().await - before, 4, "each change that took place");
}

#[tokio::test]
async fn an_organization_has_as_many_rules_as_it_may() {
    let given = Given::new().await;
    for n in 0..3 {
        let put = given.store.put_alert_rule(own(&given, &format!("rule-{n}")), None, 2, given.audited()).await.unwrap();
        assert_eq!(put, if n < 2 { AlertRulePut::Put } else { AlertRulePut::TooMany });
    }
}

#[tokio::test]
async fn an_alert_is_read_back_as_it_was_kept() {
    let mut given = Given::new().await;
    for stage in AlertStage::ALL {
        let bare = AlertStatus {
            application: None::<ApplicationId>,
            reported_at: None,
            silenced_until: None,
            episodes: Vec::new(),
            ..status(&given, "bare", stage)
        };
        for kept in [status(&given, "full", stage), bare] {
            assert!(given.save(&kept).await);
            given = given.reopened().await;
            let expected = AlertStatus { revision: 1, ..kept.clone() };
            assert_eq!(given.kept(&kept).await, Some(expected.clone()));
            let at = given.store.alert_at(given.organization, &kept.rule.name, kept.target).await.unwrap();
            assert_eq!(at, Some(expected));
        }
    }
    let stranger = organization();
    let stranger_id = stranger.organization.id;
    given.store.create_organization(stranger, entry()).await.unwrap();
    let kept = status(&given, "mine", AlertStage::Firing);
    assert!(given.save(&kept).await);
    assert_eq!(given.store.alert(stranger_id, kept.id).await.unwrap(), None);
    assert_eq!(given.store.alert_at(stranger_id, "mine", kept.target).await.unwrap(), None);
    assert_eq!(given.store.alert_at(given.organization, "mine", Uuid::nil()).await.unwrap(), None);
}

#[tokio::test]
async fn of_several_changes_of_one_alert_the_first_is_kept_and_reported() {
    let given = Given::new().await;
    let first = status(&given, "mine", AlertStage::Firing);
    let second = AlertStatus { id: AlertStatusId::from_uuid(id()), ..first.clone() };
    let changes =
        vec![AlertChange { status: first.clone(), alert: Some(given.told()) }, AlertChange { status: second, alert: Some(given.told()) }];
    assert_eq!(given.store.save_alerts(changes.clone()).await.unwrap(), [true, false]);
    assert_eq!(given.store.pending(10).await.unwrap(), [changes[0].alert.clone().unwrap()]);
    // Two nodes that saw the same, and decided the same.
    let resolved = AlertStatus { stage: AlertStage::Ok, reported_at: None, since: after(20), revision: 1, ..first.clone() };
    let change = || AlertChange { status: resolved.clone(), alert: Some(given.told()) };
    assert_eq!(given.store.save_alerts(vec![change()]).await.unwrap(), [true]);
    assert_eq!(given.store.save_alerts(vec![change()]).await.unwrap(), [false]);
    assert_eq!(given.store.pending(10).await.unwrap().len(), 2);
    assert_eq!(given.kept(&first).await, Some(AlertStatus { revision: 2, ..resolved.clone() }));
    // Of which there is nothing to tell is deleted.
    let empty = AlertStatus { episodes: Vec::new(), silenced_until: None, revision: 1, ..resolved };
    assert!(!given.save(&empty).await, "it was changed meanwhile");
    assert!(given.save(&AlertStatus { revision: 2, ..empty }).await);
    assert_eq!(given.kept(&first).await, None);
}

#[tokio::test]
async fn alerts_that_are_not_over_are_listed_page_by_page() {
    let given = Given::new().await;
    let mut open = Vec::new();
    for stage in AlertStage::ALL {
        let kept = status(&given, stage.as_str(), stage);
        assert!(given.save(&kept).await);
        if stage != AlertStage::Ok {
            open.push(kept.id);
        }
    }
    assert_eq!(given.open().await, open);
    let page = given.store.open_alerts(None, 2).await.unwrap();
    assert_eq!(page.iter().map(|status| status.id).collect::<Vec<_>>(), open[..2]);
    let rest = given.store.open_alerts(Some(page[1].id), 2).await.unwrap();
    assert_eq!(rest.iter().map(|status| status.id).collect::<Vec<_>>(), open[2..]);
}

#[tokio::test]
async fn alerts_are_listed_newest_first_by_state_rule_and_target() {
    let given = Given::new().await;
    let firing = status(&given, "a", AlertStage::Firing);
    let silenced = AlertStatus { silenced_until: Some(after(100)), ..status(&given, "a", AlertStage::Firing) };
    let over = AlertStatus { silenced_until: None, ..status(&given, "b", AlertStage::Ok) };
    for kept in [&firing, &silenced, &over] {
        assert!(given.save(kept).await);
    }
    let filter = AlertFilter::default;
    assert_eq!(given.alerts_listed(filter()).await, [over.id, silenced.id, firing.id]);
    assert_eq!(given.alerts_listed(AlertFilter { stage: Some(AlertStage::Ok), ..filter() }).await, [over.id]);
    let is = |silenced| AlertFilter { stage: Some(AlertStage::Firing), silenced: Some((after(50), silenced)), ..filter() };
    assert_eq!(given.alerts_listed(is(true)).await, [silenced.id]);
    assert_eq!(given.alerts_listed(is(false)).await, [firing.id]);
    assert_eq!(given.alerts_listed(AlertFilter { rule: Some("a".to_owned()), ..filter() }).await, [silenced.id, firing.id]);
    assert_eq!(given.alerts_listed(AlertFilter { target: Some(over.target), ..filter() }).await, [over.id]);
    let page = PageRequest { limit: 1, cursor: Cursor::Newest };
    let first = given.store.alerts(given.organization, filter(), page).await.unwrap();
    assert_eq!((first.rows.len(), first.rows[0].id, first.next.is_some()), (1, over.id, true));
}

#[tokio::test]
async fn silence_is_a_change_that_an_evaluation_must_have_seen() {
    let given = Given::new().await;
    let kept = status(&given, "mine", AlertStage::Firing);
    assert!(given.save(&kept).await);
    let before = given.audit_count().await;
    assert!(given.store.silence_alert(given.organization, kept.id, Some(after(500)), given.audited()).await.unwrap());
    assert_eq!(given.kept(&kept).await.unwrap().silenced_until, Some(after(500)));
    assert!(!given.save(&AlertStatus { revision: 1, value: 1.0, ..kept.clone() }).await);
    assert!(given.store.silence_alert(given.organization, kept.id, None, given.audited()).await.unwrap());
    let last = given.kept(&kept).await.unwrap();
    assert_eq!((last.silenced_until, last.revision), (None, 3));
    let unknown = AlertStatusId::from_uuid(id());
    assert!(!given.store.silence_alert(given.organization, unknown, None, given.audited()).await.unwrap());
    assert_eq!(given.audit_count().await - before, 2);
}

#[tokio::test]
async fn alerts_that_have_been_over_for_long_are_forgotten_a_few_at_a_time() {
    let given = Given::new().await;
    let mut over = Vec::new();
    for n in 0..3 {
        let kept = AlertStatus { since: after(n), ..status(&given, &format!("over-{n}"), AlertStage::Ok) };
        assert!(given.save(&kept).await);
        over.push(kept);
    }
    let open = AlertStatus { since: NOW, ..status(&given, "open", AlertStage::Firing) };
    assert!(given.save(&open).await);
    assert_eq!(given.store.forget_alerts(after(2), 1).await.unwrap(), 1);
    assert_eq!(given.store.forget_alerts(after(2), 10).await.unwrap(), 1);
    assert_eq!(given.store.forget_alerts(after(2), 10).await.unwrap(), 0);
    assert_eq!(given.alerts_listed(AlertFilter::default()).await, [open.id, over[2].id]);
}

#[tokio::test]
async fn a_rule_and_an_alert_are_kept_beside_each_other() {
    let given = Given::new().await;
    given.alert().await;
    let rules = given.store.alert_rules(given.organization).await.unwrap();
    assert_eq!((rules.len(), given.open().await.len()), (1, 1));
}
