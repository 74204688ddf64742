//! How breakers stand outlives the process, and nobody overwrites what they have not seen.

use everhook_core::{
    ids::{EndpointId, OrganizationId},
    model::{AuditEntry, BreakerConfig, BreakerState, Cursor, KeptBreaker, KeptStage, PageRequest},
    policy::breaker::{Breaker, Transition},
    ports::{Alert, AuditFilter, BreakerChange, BreakerKept, BreakerRow, OpenPeriod},
};

use super::given::{Given, NOW, after, entry, event_type, id};

fn change(given: &Given, revision: i64, kept: KeptBreaker, transition: Option<Transition>) -> BreakerChange {
    BreakerChange {
        application: given.application,
        lane_id: given.endpoint.into(),
        revision,
        kept,
        transition,
        alerts: Vec::new(),
        entry: None,
    }
}

fn kept(stage: KeptStage) -> KeptBreaker {
    KeptBreaker { stage, since: NOW, failed_recoveries: 3 }
}

#[tokio::test]
async fn every_stage_is_read_back_after_a_restart() {
    let until = Some(after(60));
    let stages = [
        KeptStage::Open { until: after(30) },
        KeptStage::HalfOpen,
        KeptStage::ForcedOpen { until },
        KeptStage::ForcedOpen { until: None },
        KeptStage::ForcedClosed { until },
        KeptStage::ForcedClosed { until: None },
        KeptStage::Closed,
    ];
    let mut given = Given::new().await;
    assert_eq!(given.store.breaker(given.endpoint.into()).await.unwrap(), None);
    for (revision, stage) in (1..).zip(stages) {
        let answers = given.store.keep(vec![change(&given, revision, kept(stage), None)]).await.unwrap();
        assert_eq!(answers, [BreakerKept::Kept]);
        given = given.reopened().await;
        let row = BreakerRow { lane_id: given.endpoint.into(), revision, kept: kept(stage) };
        assert_eq!(given.store.breakers().await.unwrap(), [row]);
        assert_eq!(given.store.breaker(given.endpoint.into()).await.unwrap(), Some(row));
    }
}

#[tokio::test]
async fn a_change_that_knows_an_older_revision_is_refused_and_told_what_stands() {
    let given = Given::new().await;
    let open = kept(KeptStage::Open { until: after(30) });
    given.store.keep(vec![change(&given, 1, open, None)]).await.unwrap();
    let stands = BreakerRow { lane_id: given.endpoint.into(), revision: 1, kept: open };
    let late = change(&given, 1, kept(KeptStage::Closed), None);
    assert_eq!(given.store.keep(vec![late]).await.unwrap(), [BreakerKept::Outdated(stands)]);
    let unknown = change(&given, 9, kept(KeptStage::Closed), None);
    assert_eq!(given.store.keep(vec![unknown]).await.unwrap(), [BreakerKept::Outdated(stands)]);
}

#[tokio::test]
async fn an_opening_begins_a_period_that_the_closing_ends_and_both_are_told() {
    let given = Given::new().await;
    let mut breaker = Breaker::new(BreakerConfig::window(), NOW);
    let opened = breaker.force_open(None, after(10));
    let alert = |named: &str| Alert { id: id(), organization: given.organization, event_type: event_type(named), data: b"{}"[..].into() };
    let mut opening = change(&given, 1, breaker.keep(), Some(opened));
    opening.alerts.push(alert("circuit.opened"));
    given.store.keep(vec![opening]).await.unwrap();
    let open = OpenPeriod { opened_at: after(10), closed_at: None };
    assert_eq!(given.store.open_periods(given.endpoint.into(), NOW, 10).await.unwrap(), [open]);
    let closed = breaker.reset(after(70));
    assert_eq!((closed.from, closed.to), (BreakerState::Open, BreakerState::Closed));
    given.store.keep(vec![change(&given, 2, breaker.keep(), Some(closed))]).await.unwrap();
    let whole = OpenPeriod { closed_at: Some(after(70)), ..open };
    assert_eq!(given.store.open_periods(given.endpoint.into(), NOW, 10).await.unwrap(), [whole]);
    assert_eq!(given.store.open_periods(given.endpoint.into(), after(71), 10).await.unwrap(), [], "it was over by then");
    assert_eq!(given.store.pending(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn each_change_stands_alone_and_only_what_is_kept_is_told_and_entered() {
    let given = Given::new().await;
    let (other, open) = (given.another_endpoint().await, kept(KeptStage::Open { until: after(30) }));
    given.store.keep(vec![change(&given, 1, open, None)]).await.unwrap();
    let stands = BreakerRow { lane_id: given.endpoint.into(), revision: 1, kept: open };
    let log = OrganizationId::from_uuid(id());
    let told = |change: BreakerChange| {
        let alert = Alert { id: id(), organization: given.organization, event_type: event_type("circuit.opened"), data: b"{}"[..].into() };
        BreakerChange { alerts: vec![alert], entry: Some(AuditEntry { organization: log, ..entry() }), ..change }
    };
    let late = told(change(&given, 1, kept(KeptStage::Closed), None));
    let fresh = told(BreakerChange { lane_id: other.into(), ..change(&given, 1, open, None) });
    let (entry, alert) = (fresh.entry.clone().unwrap(), fresh.alerts[0].clone());
    assert_eq!(given.store.keep(vec![late, fresh]).await.unwrap(), [BreakerKept::Outdated(stands), BreakerKept::Kept]);
    let mut all = given.store.breakers().await.unwrap();
    all.sort_by_key(|row| row.lane_id);
    assert_eq!(all, [stands, BreakerRow { lane_id: other.into(), ..stands }]);
    assert_eq!(given.store.pending(10).await.unwrap(), [alert]);
    let page = PageRequest { limit: 10, cursor: Cursor::Newest };
    assert_eq!(given.store.audit_log(log, AuditFilter::default(), page).await.unwrap().rows, [entry]);
}

#[tokio::test]
async fn periods_are_of_one_endpoint_since_an_instant_the_oldest_first() {
    let given = Given::new().await;
    let mut breaker = Breaker::new(BreakerConfig::window(), NOW);
    let (mut periods, mut revision) = (Vec::new(), 0);
    for begin in [10, 30, 50] {
        for transition in [breaker.force_open(None, after(begin)), breaker.reset(after(begin + 10))] {
            revision += 1;
            let answer = given.store.keep(vec![change(&given, revision, breaker.keep(), Some(transition))]).await.unwrap();
            assert_eq!(answer, [BreakerKept::Kept]);
        }
        periods.push(OpenPeriod { opened_at: after(begin), closed_at: Some(after(begin + 10)) });
    }
    let read = async |endpoint: EndpointId, since, limit| given.store.open_periods(endpoint.into(), since, limit).await.unwrap();
    assert_eq!(read(given.endpoint, NOW, 10).await, periods);
    assert_eq!(read(given.endpoint, NOW, 2).await, periods[..2]);
    assert_eq!(read(given.endpoint, after(25), 10).await, periods[1..]);
    assert_eq!(read(given.endpoint, after(35), 1).await, periods[1..2]);
    assert_eq!(read(given.another_endpoint().await, NOW, 10).await, []);
}

#[tokio::test]
async fn what_follows_from_an_outdated_change_is_outdated_too() {
    let given = Given::new().await;
    let forced = kept(KeptStage::ForcedOpen { until: None });
    given.store.keep(vec![change(&given, 1, forced, None)]).await.unwrap();
    let stands = BreakerRow { lane_id: given.endpoint.into(), revision: 1, kept: forced };
    // Two decisions of somebody who knew of none: the second would fit the revision by chance.
    let late = vec![change(&given, 1, kept(KeptStage::HalfOpen), None), change(&given, 2, kept(KeptStage::Closed), None)];
    assert_eq!(given.store.keep(late).await.unwrap(), [BreakerKept::Outdated(stands), BreakerKept::Outdated(stands)]);
}
