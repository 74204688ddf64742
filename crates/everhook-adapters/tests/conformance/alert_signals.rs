//! What alert rules are measured from: everything that happened lately, page by page, and what is out of order now; nothing of applications `operational`.

use std::time::Duration;

use everhook_core::{
    ids::{ApplicationId, EndpointId, LaneId, Ref, SourceId},
    model::{
        AlertScope, AppCheckPlan, AppHealth, AppStatus, ApplicationKind, AuditEntry, DeathCause, DisabledReason, EndpointState,
        FailingChecks, FailingRule, KeptBreaker, KeptStage, ProcessorKind, SourceStatistics, SourceTally, Stage, Tally, minute_of,
    },
    ports::{BreakerChange, LaneMinute, ManifestChange, Signal, SignalPage, SignalPlace, WatchedLane},
    time::Timestamp,
};

use super::{
    given::{Given, NOW, after, entry, failure, settlement, success},
    manifests::{BOUNDS, manifest},
    sources::source,
};

/// Reads to the end, a row at a time.
macro_rules! all {
    ($given:ident.$read:ident($($argument:expr),*)) => {{
        let (mut rows, mut place): (Vec<_>, Option<SignalPlace>) = (Vec::new(), None);
        loop {
            let SignalPage { rows: mut read, next } = $given.store.$read($($argument,)* place, 1).await.unwrap();
            rows.append(&mut read);
            if next.is_none() {
                break rows;
            }
            place = next;
        }
    }};
}

impl Given {
    async fn attempt(&self, lane_id: impl Into<LaneId>, at: Timestamp) {
        let mut tally = Tally::new(lane_id.into(), minute_of(at));
        tally.add(&success(1), at);
        self.store.add(vec![tally], FailingRule::default()).await.unwrap();
    }

    /// Keeps a breaker that stands so.
    pub async fn break_circuit(&self, lane_id: impl Into<LaneId>, stage: KeptStage) {
        let change = BreakerChange {
            application: self.application,
            lane_id: lane_id.into(),
            revision: 1,
            kept: KeptBreaker { stage, since: NOW, failed_recoveries: 0 },
            transition: None,
            alerts: Vec::new(),
            entry: None,
        };
        self.store.keep(vec![change]).await.unwrap();
    }

    async fn operational(&self) -> ApplicationId {
        self.store.built_in_application(self.organization, ApplicationKind::Operational).await.unwrap().unwrap().id
    }
}

fn minutes(rows: &[LaneMinute]) -> Vec<(LaneId, WatchedLane, u64)> {
    rows.iter().map(|row| (row.lane_id, row.lane, row.minute.since(minute_of(NOW)).as_secs() / 60)).collect()
}

#[tokio::test]
async fn what_happened_lately_is_read_minute_by_minute_of_every_lane_but_operational_ones() {
    let given = Given::new().await;
    let (first, second) = (given.endpoint, given.another_endpoint().await);
    let telling = given.endpoint_of(given.operational().await).await;
    let (zero, one) = (minute_of(NOW), minute_of(NOW) + Duration::from_secs(60));
    given.attempt(second, one).await;
    given.attempt(first, zero).await;
    given.attempt(telling, zero).await;
    given.attempt(second, zero).await;
    let application = LaneId::from(given.application);
    let rows = all!(given.lane_minutes(zero));
    let mut found = minutes(&rows);
    found.sort();
    let mut expected = vec![
        (first.into(), WatchedLane::Endpoint, 0),
        (second.into(), WatchedLane::Endpoint, 0),
        (second.into(), WatchedLane::Endpoint, 1),
        (application, WatchedLane::Application, 0),
        (application, WatchedLane::Application, 1),
    ];
    expected.sort();
    assert_eq!(found, expected);
    assert!(rows.iter().all(|row| (row.organization, row.application) == (given.organization, given.application)));
    assert!(rows.is_sorted_by_key(|row| row.minute));
    let sum = rows.iter().find(|row| row.lane_id == application && row.minute == zero).unwrap();
    assert_eq!(sum.statistics, given.store.attempt_statistics(application, zero, one).await.unwrap());
    assert_eq!(minutes(&all!(given.lane_minutes(one))).len(), 2, "only minutes that begin then or later");
    // A minute is counted again: the newest row is what counts, once.
    given.attempt(second, one).await;
    let again = all!(given.lane_minutes(one));
    assert_eq!(again.iter().map(|row| row.statistics.total()).collect::<Vec<_>>(), [2, 2]);
    // One lane, minute by minute.
    let of_lane = given.store.minutes_of_lane(second.into(), zero, after(600)).await.unwrap();
    let of_lane: Vec<_> = of_lane.into_iter().map(|(at, statistics)| (at, statistics.total())).collect();
    assert_eq!(of_lane, [(zero, 1), (one, 2)]);
    assert_eq!(given.store.minutes_of_lane(second.into(), zero, one).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_came_in_at_sources_is_read_minute_by_minute() {
    let given = Given::new().await;
    let made = source(given.organization, given.application, "source");
    let id = made.id;
    given.store.create_source(made, 100, entry()).await.unwrap();
    let tally = |source: SourceId, minute| {
        let statistics = SourceStatistics { accepted: 3, ..SourceStatistics::default() };
        SourceTally { source, minute, statistics }
    };
    let (zero, one) = (minute_of(NOW), minute_of(NOW) + Duration::from_secs(60));
    let unknown = SourceId::from_uuid(super::given::id());
    let tallies = vec![tally(id, zero), tally(id, one), tally(unknown, zero)];
    given.store.add_source_tallies(tallies).await.unwrap();
    let rows = all!(given.source_minutes(zero));
    assert_eq!(rows.iter().map(|row| row.tally.clone()).collect::<Vec<_>>(), [tally(id, zero), tally(id, one)]);
    assert_eq!((rows[0].organization, rows[0].application, rows[0].source()), (given.organization, given.application, id));
    assert_eq!(all!(given.source_minutes(one)).len(), 1);
}

#[tokio::test]
async fn breakers_are_listed_that_are_open_by_themselves_at_lanes_that_are_in_use() {
    let given = Given::new().await;
    let until = after(60);
    let half_open = given.another_endpoint().await;
    let others = [given.another_endpoint().await, given.another_endpoint().await, given.another_endpoint().await];
    let (disabled, telling) = (given.another_endpoint().await, given.endpoint_of(given.operational().await).await);
    given.break_circuit(given.endpoint, KeptStage::Open { until }).await;
    given.break_circuit(half_open, KeptStage::HalfOpen).await;
    for (endpoint, stage) in
        others.into_iter().zip([KeptStage::Closed, KeptStage::ForcedOpen { until: None }, KeptStage::ForcedClosed { until: None }])
    {
        given.break_circuit(endpoint, stage).await;
    }
    given.break_circuit(disabled, KeptStage::Open { until }).await;
    given.break_circuit(telling, KeptStage::Open { until }).await;
    let mut changed = given.store.endpoint(given.organization, &Ref::Id(disabled)).await.unwrap().unwrap();
    let read_at = changed.updated_at;
    changed.state = EndpointState::Disabled { at: NOW, reason: DisabledReason::ByOwner };
    changed.updated_at = read_at + Duration::from_secs(1);
    given.store.update_endpoint(changed, read_at, entry()).await.unwrap();
    let signal = |endpoint: EndpointId| Signal {
        target: *endpoint.as_uuid(),
        scope: AlertScope::Endpoint,
        organization: given.organization,
        application: given.application,
        value: 1,
    };
    assert_eq!(all!(given.open_circuits()), [signal(given.endpoint), signal(half_open)]);
}

#[tokio::test]
async fn dead_letters_are_counted_by_application_up_to_a_limit() {
    let given = Given::new().await;
    let other = given.another_application().await;
    let (elsewhere, telling) = (given.endpoint_of(other).await, given.endpoint_of(given.operational().await).await);
    let mut dead = Vec::new();
    let operational = given.operational().await;
    for (application, endpoint, times) in [(given.application, given.endpoint, 3), (other, elsewhere, 1), (operational, telling, 2)] {
        for _ in 0..times {
            let event = given.event_of(application, &[endpoint]).await;
            let delivery = event.deliveries[0].id;
            given.record(event).await;
            let stage = Stage::Dead { at: after(7), cause: DeathCause::RetriesExhausted };
            given.store.settle(std::sync::Arc::new(vec![settlement(delivery, endpoint, failure(1), stage)])).await.unwrap();
            dead.push(delivery);
        }
    }
    let signal = |application: ApplicationId, value| Signal {
        target: *application.as_uuid(),
        scope: AlertScope::Application,
        organization: given.organization,
        application,
        value,
    };
    let mut expected = [signal(given.application, 3), signal(other, 1)];
    expected.sort_by_key(|signal| signal.target);
    assert_eq!(all!(given.dead_letter_counts(100)), expected);
    let capped: Vec<_> = all!(given.dead_letter_counts(2)).iter().map(|signal| signal.value).collect();
    assert_eq!(capped.iter().sum::<u64>(), 3);
    // What a person has dealt with does not count.
    given.store.discard(given.organization, dead[0], entry()).await.unwrap();
    assert_eq!(all!(given.dead_letter_counts(100)).iter().map(|signal| signal.value).sum::<u64>(), 3);
}

#[tokio::test]
async fn what_waits_for_processors_is_counted_up_to_a_limit() {
    let given = Given::new().await;
    assert!(all!(given.source_depths(10)).is_empty());
    let mut made = source(given.organization, given.application, "source");
    made.processor = Some(ProcessorKind::Health);
    let id = made.id;
    given.store.create_source(made, 100, entry()).await.unwrap();
    assert!(all!(given.source_depths(10)).is_empty(), "nothing waits there");
    // An endpoint's id stands for the lane's.
    let lane = EndpointId::from_uuid(*id.as_uuid());
    for _ in 0..3 {
        let event = given.event(&[lane]).await;
        given.record(event).await;
    }
    let expected = Signal {
        target: *id.as_uuid(),
        scope: AlertScope::Source,
        organization: given.organization,
        application: given.application,
        value: 3,
    };
    assert_eq!(all!(given.source_depths(10)), [expected]);
    assert_eq!(all!(given.source_depths(2)), [Signal { value: 2, ..expected }]);
}

#[tokio::test]
async fn apps_are_listed_whose_last_health_check_failed() {
    let given = Given::new().await;
    let entry = AuditEntry { organization: given.organization, ..entry() };
    let check = AppCheckPlan { url: "https://app.example/health".to_owned(), first_at: NOW };
    let read = given.read_application().await;
    given
        .store
        .put_manifest(
            ManifestChange { read, manifest: manifest(given.organization, given.application, 1) },
            Vec::new(),
            Some(check),
            Vec::new(),
            BOUNDS,
            entry,
        )
        .await
        .unwrap();
    let found = |failures: u32| AppHealth {
        status: if failures > 0 { AppStatus::Unhealthy } else { AppStatus::Healthy },
        checked_at: after(7),
        took: Duration::from_millis(5),
        failing: (failures > 0).then_some(FailingChecks { count: failures, since: NOW }),
        detail: "timeout".to_owned(),
        checks: None,
    };
    assert!(all!(given.failing_apps()).is_empty(), "it was never checked");
    given.store.keep_app_health(given.application, found(4), Vec::new()).await.unwrap();
    let expected = Signal {
        target: *given.application.as_uuid(),
        scope: AlertScope::Application,
        organization: given.organization,
        application: given.application,
        value: 4,
    };
    assert_eq!(all!(given.failing_apps()), [expected]);
    given.store.keep_app_health(given.application, found(0), Vec::new()).await.unwrap();
    assert!(all!(given.failing_apps()).is_empty());
}
