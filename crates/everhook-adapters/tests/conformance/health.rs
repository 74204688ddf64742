//! Health data: connections and their tokens, and metrics that are one row however often they are written.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    ids::{HealthConnectionId, HealthMetricId, LaneId, Ref},
    model::{
        CancelCause, OrderingKey, OrderingMode, Page, PageRequest, Placement, ProcessorKind, SealedSecret, Source, Stage, WaitsFor,
        health::{
            Connection, ExternalUserId, KeptRate, Metric, MetricDraft, MetricType, Permissions, ProfileId, Provider, ProviderRate,
            RateWindow, RecordId, SealedTokens, Vo2maxSport,
        },
    },
    policy::presets,
    ports::{
        Alert, CancelWaiting, Connected, ConnectionFilter, EndedRefresh, HealthUser, MetricFilter, MetricWrite, MetricsWritten,
        OrphanedLane, RecordOf, RefreshOutcome, RetentionClass, TimeRange, Updated,
    },
    time::Timestamp,
};
use uuid::Uuid;

use super::{
    delivery_queue::DELIVERED,
    directory::ALL,
    given::{Given, NOW, after, entry, event_type, id, settlement, success},
    sources::source,
};

fn profile(text: &str) -> ProfileId {
    ProfileId::parse(text).unwrap()
}

/// A metric of a day.
pub fn draft(metric_type: MetricType, day: i64, value: f64) -> MetricDraft {
    let start = Timestamp::from_secs(1_700_000_000 + day * 86_400);
    MetricDraft {
        metric_type,
        sport: None,
        start,
        end: start + Duration::from_secs(86_399),
        value: Some(value),
        details: Some(r#"{"a":1}"#.to_owned()),
        record_id: None,
        raw: Some(Bytes::from(format!(r#"{{"steps":{value},"pad":"{}"}}"#, "x".repeat(4_000)))),
    }
}

/// A metric of a day.
pub fn draft_of_day(day: i64) -> MetricDraft {
    draft(MetricType::Steps, day, 1.0)
}

fn recorded(record: &str, draft: MetricDraft) -> MetricDraft {
    MetricDraft { record_id: RecordId::of(record), ..draft }
}

const fn written(inserted: u32, updated: u32, unchanged: u32) -> Option<MetricsWritten> {
    Some(MetricsWritten { inserted, updated, unchanged })
}

impl Given {
    pub fn health_user(&self, name: &str) -> HealthUser {
        HealthUser { organization: self.organization, provider: Provider::Garmin, external_user: ExternalUserId::parse(name).unwrap() }
    }

    /// A connection with something in every field.
    pub fn new_connection(&self, user: &str, of: &str) -> Connection {
        let tokens =
            SealedTokens { access: SealedSecret(vec![1, 0, 255]), refresh: Some(SealedSecret(vec![2])), expires_at: Some(after(60)) };
        Connection {
            id: HealthConnectionId::from_uuid(id()),
            organization: self.organization,
            provider: Provider::Garmin,
            external_user: ExternalUserId::parse(user).unwrap(),
            profile: profile(of),
            tokens: Some(tokens),
            permissions: Some(Permissions::of(["HEALTH_EXPORT"])),
            is_connected: true,
            reauthorization_needed_since: None,
            created_at: NOW,
            updated_at: NOW,
        }
    }

    /// How many there are, up to three.
    async fn connected(&self) -> u32 {
        self.store.connections_count(self.organization, 3).await.unwrap()
    }

    /// Makes it.
    pub async fn connect(&self, connection: &Connection) -> Connection {
        match self.store.connect(connection.clone(), 3, entry()).await.unwrap() {
            Connected::Kept(kept) => *kept,
            Connected::TooMany => panic!("there is room for it"),
        }
    }

    /// Writes metrics through connections.
    pub async fn write_metrics(&self, through: &[&Connection], drafts: Vec<MetricDraft>, at: Timestamp) -> Option<MetricsWritten> {
        let connections: Vec<_> = through.iter().map(|connection| (connection.id, connection.profile.clone())).collect();
        let new_ids = (0..connections.len() * drafts.len()).map(|_| HealthMetricId::from_uuid(id())).collect();
        let write = MetricWrite { organization: self.organization, provider: Provider::Garmin, connections, drafts, new_ids, at };
        self.store.write_metrics(write).await.unwrap()
    }

    async fn metrics(&self, filter: MetricFilter) -> Vec<Metric> {
        self.store.metrics(self.organization, filter, ALL).await.unwrap().rows
    }

    async fn metrics_of(&self, of: &str) -> Vec<Metric> {
        self.metrics(MetricFilter { profile: Some(profile(of)), ..MetricFilter::default() }).await
    }
}

#[tokio::test]
async fn a_connection_is_kept_as_it_was_made_and_begun_anew_under_its_id() {
    let given = Given::new().await;
    let first = given.new_connection("u1", "p1");
    assert_eq!(given.connected().await, 0);
    assert_eq!(given.connect(&first).await, first);
    assert_eq!(given.connected().await, 1);
    assert_eq!(given.store.connection(given.organization, first.id).await.unwrap(), Some(first.clone()));
    let anew = Connection { tokens: None, permissions: None, updated_at: after(5), ..given.new_connection("u1", "p1") };
    let kept = given.connect(&anew).await;
    assert_eq!(kept, Connection { id: first.id, ..anew });
    let second = given.connect(&given.new_connection("u1", "p2")).await;
    given.connect(&given.new_connection("u1", "p3")).await;
    let too_many = given.store.connect(given.new_connection("u1", "p4"), 3, entry()).await.unwrap();
    assert_eq!(too_many, Connected::TooMany);
    let given = given.reopened().await;
    let of_user = given.store.connections_of(given.health_user("u1")).await.unwrap();
    assert_eq!(of_user.iter().map(|connection| connection.profile.as_str()).collect::<Vec<_>>(), ["p1", "p2", "p3"]);
    assert_eq!(of_user[0], kept);
    assert!(given.store.connections_of(given.health_user("u2")).await.unwrap().is_empty());
    let of_profile = ConnectionFilter { profile: Some(profile("p2")), provider: Some(Provider::Garmin), ..ConnectionFilter::default() };
    let Page { rows, .. } = given.store.connections(given.organization, of_profile, ALL).await.unwrap();
    assert_eq!(rows, std::slice::from_ref(&second));
    let strava = ConnectionFilter { provider: Some(Provider::Strava), ..ConnectionFilter::default() };
    assert!(given.store.connections(given.organization, strava, ALL).await.unwrap().rows.is_empty());
    assert!(given.store.delete_connection(given.organization, second.id, entry()).await.unwrap());
    assert!(!given.store.delete_connection(given.organization, second.id, entry()).await.unwrap());
    assert_eq!(given.store.connection(given.organization, second.id).await.unwrap(), None);
}

#[tokio::test]
async fn who_withdraws_loses_the_tokens_and_it_is_told_once() {
    let given = Given::new().await;
    let connection = given.connect(&given.new_connection("u1", "p1")).await;
    let alert = || Alert {
        id: id(),
        organization: given.organization,
        event_type: event_type("connection.deregistered"),
        data: Bytes::from_static(b"{}"),
    };
    let told = async || given.store.pending(10).await.unwrap().len();
    let before = told().await;
    assert_eq!(given.store.deregister(given.health_user("nobody"), after(1), alert()).await.unwrap(), 0);
    assert_eq!(given.store.deregister(given.health_user("u1"), after(1), alert()).await.unwrap(), 1);
    assert_eq!(given.store.deregister(given.health_user("u1"), after(2), alert()).await.unwrap(), 0);
    assert_eq!(told().await, before + 1);
    let ended = given.store.connection(given.organization, connection.id).await.unwrap().unwrap();
    assert_eq!((ended.is_connected, ended.tokens, ended.updated_at), (false, None, after(1)));
    given.store.keep_permissions(given.health_user("u1"), Permissions::of(["X"]), after(3)).await.unwrap();
    let changed = given.store.connection(given.organization, connection.id).await.unwrap().unwrap();
    assert_eq!(changed.permissions, Some(Permissions::of(["X"])));
    // Nothing is written for one who is not connected.
    assert_eq!(given.write_metrics(&[&connection], vec![draft(MetricType::Steps, 1, 1.0)], after(4)).await, None);
}

#[tokio::test]
async fn a_user_whose_tokens_are_not_renewed_any_more_has_to_connect_again() {
    let given = Given::new().await;
    let (one, other) = (given.connect(&given.new_connection("u1", "p1")).await, given.connect(&given.new_connection("u2", "p1")).await);
    let (user, by) = (given.health_user("u1"), Uuid::from_u128(1));
    let since = async |id| given.store.connection(given.organization, id).await.unwrap().unwrap().reauthorization_needed_since;
    let end = async |outcome, at: u64| {
        given.store.begin_refresh(user.clone(), by, after(at), after(at + 30)).await.unwrap().expect("nobody has the right");
        given.store.end_refresh(EndedRefresh { user: user.clone(), by, outcome, at: after(at) }).await.unwrap()
    };
    assert!(!end(RefreshOutcome::Refused, 1).await);
    assert!(!end(RefreshOutcome::Refused, 2).await);
    assert_eq!((since(one.id).await, since(other.id).await), (Some(after(1)), None), "since the first time, and nobody else");
    let new = SealedTokens { access: SealedSecret(vec![9]), refresh: None, expires_at: None };
    assert!(end(RefreshOutcome::Renewed(vec![(one.id, new)]), 3).await);
    assert_eq!(since(one.id).await, None);
    assert!(!end(RefreshOutcome::Refused, 4).await);
    given.connect(&given.new_connection("u1", "p1")).await;
    assert_eq!(since(one.id).await, None, "connected anew");
}

#[tokio::test]
async fn what_is_known_of_a_providers_limits_is_kept_by_who_read_it_last() {
    let given = Given::new().await;
    let window = |number: i64, used: u32, limit: u32| RateWindow { number, used, limit };
    let rate = |used: u32| ProviderRate { quarter: window(1, used, 100), day: window(2, 3 * used, 1_000) };
    assert_eq!(given.store.provider_rate(Provider::Strava).await.unwrap(), None);
    let keep =
        async |provider, used, revision| given.store.keep_provider_rate(provider, KeptRate { rate: rate(used), revision }).await.unwrap();
    assert!(keep(Provider::Strava, 1, 0).await);
    assert!(!keep(Provider::Strava, 7, 0).await, "somebody was faster");
    assert!(keep(Provider::Strava, 2, 1).await);
    assert!(!keep(Provider::Strava, 7, 1).await);
    assert!(keep(Provider::Garmin, 9, 0).await, "each provider has its own");
    let given = given.reopened().await;
    assert_eq!(given.store.provider_rate(Provider::Strava).await.unwrap(), Some(KeptRate { rate: rate(2), revision: 2 }));
    assert_eq!(given.store.provider_rate(Provider::Garmin).await.unwrap(), Some(KeptRate { rate: rate(9), revision: 1 }));
}

#[tokio::test]
async fn one_at_a_time_refreshes_the_tokens_of_a_user_and_a_right_that_is_over_goes_to_the_next() {
    let given = Given::new().await;
    let (one, two) = (given.connect(&given.new_connection("u1", "p1")).await, given.connect(&given.new_connection("u1", "p2")).await);
    let (user, first, second) = (given.health_user("u1"), Uuid::from_u128(1), Uuid::from_u128(2));
    let begin = async |by, at, until| given.store.begin_refresh(user.clone(), by, after(at), after(until)).await.unwrap();
    let new = SealedTokens { access: SealedSecret(vec![9]), refresh: Some(SealedSecret(vec![8])), expires_at: None };
    let end = async |by, tokens: Vec<_>| {
        let outcome = if tokens.is_empty() { RefreshOutcome::NotRenewed } else { RefreshOutcome::Renewed(tokens) };
        given.store.end_refresh(EndedRefresh { user: user.clone(), by, outcome, at: after(9) }).await.unwrap()
    };
    assert_eq!(given.store.begin_refresh(given.health_user("nobody"), first, after(0), after(9)).await.unwrap(), None);
    assert_eq!(begin(first, 0, 30).await.unwrap().len(), 2);
    assert_eq!(begin(second, 10, 40).await, None, "somebody has the right");
    assert!(begin(second, 30, 60).await.is_some(), "the first is over");
    assert!(!end(first, vec![(one.id, new.clone())]).await, "too late");
    assert!(end(second, vec![(one.id, new.clone()), (two.id, new.clone())]).await);
    for connection in [&one, &two] {
        let kept = given.store.connection(given.organization, connection.id).await.unwrap().unwrap();
        assert_eq!(kept.tokens, Some(new.clone()));
    }
    // A right that is given back without tokens changes none.
    assert!(begin(first, 70, 90).await.is_some());
    assert!(!end(first, Vec::new()).await);
    assert!(begin(second, 71, 90).await.is_some());
    // Whoever connects anew meanwhile has the last word.
    given.connect(&given.new_connection("u1", "p1")).await;
    assert!(!end(second, vec![(one.id, new.clone())]).await);
    let kept = given.store.connection(given.organization, one.id).await.unwrap().unwrap();
    assert_eq!(kept.tokens, given.new_connection("u1", "p1").tokens);
}

#[tokio::test]
async fn the_same_metrics_twice_change_nothing_and_corrected_ones_are_updated() {
    let given = Given::new().await;
    let (one, two) = (given.connect(&given.new_connection("u1", "p1")).await, given.connect(&given.new_connection("u1", "p2")).await);
    let steps = recorded("summary-1", draft(MetricType::Steps, 1, 100.0));
    let sleep = draft(MetricType::Sleep, 1, 7.5);
    let both = vec![steps.clone(), sleep.clone()];
    assert_eq!(given.write_metrics(&[&one, &two], both.clone(), after(1)).await, written(4, 0, 0));
    assert_eq!(given.write_metrics(&[&one, &two], both, after(2)).await, written(0, 0, 4));
    let kept = given.metrics_of("p1").await;
    assert_eq!(kept.len(), 2);
    let row = kept.iter().find(|metric| metric.measured.metric_type == MetricType::Steps).unwrap().clone();
    assert_eq!((&row.measured, row.created_at, row.updated_at), (&steps, after(1), after(1)));
    assert_eq!(row.dedupe_hash, steps.dedupe_hash(&profile("p1"), Provider::Garmin));
    // A correction has the record of the first, whatever else is different; without a record, the span says which it is.
    let corrected = MetricDraft { end: steps.end + Duration::from_secs(60), value: None, details: None, raw: None, ..steps.clone() };
    let slept = MetricDraft { value: Some(8.0), ..sleep };
    assert_eq!(given.write_metrics(&[&one], vec![corrected.clone(), slept], after(3)).await, written(0, 2, 0));
    let kept = given.metrics_of("p1").await;
    let found = kept.iter().find(|metric| metric.id == row.id).unwrap();
    assert_eq!((&found.measured, found.created_at, found.updated_at), (&corrected, after(1), after(3)));
    assert_eq!((kept.len(), given.metrics_of("p2").await.len()), (2, 2));
    // A row without a record is the same as one that comes with one.
    assert_eq!(given.write_metrics(&[&two], vec![recorded("night-1", draft(MetricType::Sleep, 1, 7.5))], after(4)).await, written(0, 1, 0));
    // A record that moves to the span of another takes its place.
    let moved = recorded("summary-1", draft(MetricType::Steps, 2, 5.0));
    given.write_metrics(&[&two], vec![recorded("summary-2", draft(MetricType::Steps, 2, 4.0))], after(5)).await;
    assert_eq!(given.metrics_of("p2").await.len(), 3);
    assert_eq!(given.write_metrics(&[&two], vec![moved], after(6)).await, written(0, 1, 0));
    assert_eq!(given.metrics_of("p2").await.len(), 2);
}

#[tokio::test]
async fn metrics_are_listed_by_profile_type_and_start_and_deleted_by_record() {
    let given = Given::new().await;
    let one = given.connect(&given.new_connection("u1", "p1")).await;
    let cycling = MetricDraft { sport: Some(Vo2maxSport::Cycling), ..recorded("m#cycling", draft(MetricType::Vo2max, 3, 51.5)) };
    let drafts = vec![recorded("a", draft(MetricType::Steps, 1, 1.0)), recorded("b", draft(MetricType::Steps, 2, 2.0)), cycling.clone()];
    given.write_metrics(&[&one], drafts, after(1)).await;
    let count = async |filter| given.metrics(filter).await.len();
    assert_eq!(count(MetricFilter { metric_type: Some(MetricType::Steps), ..MetricFilter::default() }).await, 2);
    let from = |day: i64| Some(Timestamp::from_secs(1_700_000_000 + day * 86_400));
    let days = |first, last| MetricFilter { started: TimeRange { from: from(first), to: from(last) }, ..MetricFilter::default() };
    assert_eq!((count(days(1, 2)).await, count(days(2, 4)).await, count(days(4, 9)).await), (1, 2, 0));
    let vo2max = given.metrics(MetricFilter { metric_type: Some(MetricType::Vo2max), ..MetricFilter::default() }).await;
    assert_eq!(vo2max[0].measured, cycling);
    let first = PageRequest { limit: 2, ..ALL };
    let page = given.store.metrics(given.organization, MetricFilter::default(), first).await.unwrap();
    let rest = PageRequest { limit: 2, cursor: page.next.unwrap() };
    assert_eq!((page.rows.len(), given.store.metrics(given.organization, MetricFilter::default(), rest).await.unwrap().rows.len()), (2, 1));
    let of = |record: &str| RecordOf {
        organization: given.organization,
        provider: Provider::Garmin,
        profiles: vec![profile("p1"), profile("p9")],
        record: RecordId::of(record).unwrap(),
    };
    assert_eq!(given.store.delete_record(of("a")).await.unwrap(), 1);
    assert_eq!(given.store.delete_record(of("a")).await.unwrap(), 0);
    assert_eq!(given.metrics_of("p1").await.len(), 2);
}

#[tokio::test]
async fn a_profile_is_erased_in_steps_and_alone() {
    let given = Given::new().await;
    let (one, two) = (given.connect(&given.new_connection("u1", "p1")).await, given.connect(&given.new_connection("u1", "p2")).await);
    let drafts = (0..5).map(|day| draft(MetricType::Steps, day, 1.0)).collect();
    given.write_metrics(&[&one, &two], drafts, after(1)).await;
    let erase = async || given.store.erase_metrics(given.organization, profile("p1"), 3).await.unwrap();
    assert_eq!((erase().await, erase().await, erase().await), (3, 2, 0));
    assert_eq!(given.store.erase_connections(given.organization, profile("p1"), entry()).await.unwrap().connections, 1);
    assert_eq!((given.metrics_of("p1").await.len(), given.metrics_of("p2").await.len()), (0, 5));
    assert_eq!(given.store.connections_of(given.health_user("u1")).await.unwrap(), [two]);
    assert_eq!(given.write_metrics(&[&one], vec![draft(MetricType::Steps, 1, 1.0)], after(2)).await, None, "it is gone");
}

#[tokio::test]
async fn metrics_go_by_when_they_were_received_and_not_by_what_time_they_are_about() {
    let given = Given::new().await;
    let one = given.connect(&given.new_connection("u1", "p1")).await;
    // About days of the past and of the future; the ids say when they were received.
    let drafts = [-3_000, -1, 0, 1, 3_000].map(|day| draft(MetricType::Steps, day, 1.0)).to_vec();
    given.write_metrics(&[&one], drafts.clone(), after(1)).await;
    given.write_metrics(&[&one], vec![draft(MetricType::Steps, 1, 2.0)], after(900)).await;
    assert_eq!(given.purge(RetentionClass::HealthMetrics, NOW - Duration::from_secs(1)).await, 0);
    assert_eq!(given.metrics_of("p1").await.len(), 5);
    let (removed, steps) = given.purge_in_steps(RetentionClass::HealthMetrics, after(1_000), 2).await;
    assert_eq!((removed, given.metrics_of("p1").await.len()), (5, 0));
    assert!(steps > 2, "two in each step: {steps}");
    assert_eq!(given.store.connections_of(given.health_user("u1")).await.unwrap().len(), 1, "the connection stays");
    assert_eq!(given.write_metrics(&[&one], drafts, after(2_000)).await, written(5, 0, 0), "what is pushed again is new");
}

#[tokio::test]
async fn the_processor_of_a_source_has_a_lane_for_as_long_as_anything_names_it() {
    let given = Given::new().await;
    let processors = async || given.store.definitions(given.organization).await.unwrap().processors;
    let plain = Source { kind: "garmin".to_owned(), ..source(given.organization, given.application, "watch") };
    given.store.create_source(plain.clone(), 9, entry()).await.unwrap();
    assert!(processors().await.is_empty());
    let version = given.config_version().await;
    let processed = Source { processor: Some(ProcessorKind::Health), updated_at: after(1), ..plain.clone() };
    assert_eq!(given.store.update_source(processed.clone(), plain.updated_at, entry()).await.unwrap(), Updated::Updated);
    assert!(given.config_version().await > version, "publishers match again");
    assert_eq!(given.store.source(given.organization, &Ref::Id(plain.id)).await.unwrap(), Some(processed.clone()));
    let ingest = given.store.schedule_version(&presets::ingest()).await.unwrap();
    let found = processors().await;
    assert_eq!((found.len(), found[0].source, found[0].application), (1, plain.id, given.application));
    assert_eq!((found[0].kind, found[0].source_kind.as_str(), found[0].retry_schedule), (ProcessorKind::Health, "garmin", ingest));
    // Deliveries to it are like any others.
    let lane_id = LaneId::from(plain.id);
    let mut new = given.event(&[given.endpoint]).await;
    new.deliveries[0].lane_id = lane_id;
    let delivery = new.deliveries[0].id;
    given.record(new).await;
    let version = given.config_version().await;
    assert!(given.store.delete_source(given.organization, plain.id, entry()).await.unwrap());
    assert!(processors().await.is_empty() && given.config_version().await > version);
    let mut settled = settlement(delivery, given.endpoint, success(1), DELIVERED);
    settled.lane_id = lane_id;
    given.store.settle(std::sync::Arc::new(vec![settled])).await.unwrap();
    assert!(matches!(given.stage(delivery).await, Stage::Delivered { .. }));
}

#[tokio::test]
async fn the_lane_of_a_removed_processor_is_found_for_as_long_as_anything_is_open_in_it() {
    let given = Given::new().await;
    let orphaned = async || given.store.orphaned_lanes(10).await.unwrap();
    let mut expected = Vec::new();
    for (name, is_kept) in [("kept", true), ("deleted", false), ("changed", false)] {
        let processor = Some(ProcessorKind::Health);
        let new = Source { kind: "garmin".to_owned(), processor, ..source(given.organization, given.application, name) };
        given.store.create_source(new.clone(), 9, entry()).await.unwrap();
        let lane_id = LaneId::from(new.id);
        // One that is parked, and one that is held behind it.
        for number in 0..2 {
            let mut event = given.event(&[given.endpoint]).await;
            event.event.ordering_key = OrderingKey::parse("user");
            event.deliveries[0].lane_id = lane_id;
            event.deliveries[0].placement = Placement { mode: OrderingMode::PerKey, behind_barrier: false };
            if number == 0 {
                event.parked = WaitsFor::parse("connection:garmin:nobody");
            }
            given.record(event).await;
        }
        assert_eq!(orphaned().await, expected, "{name} has its processor");
        match name {
            "deleted" => assert!(given.store.delete_source(given.organization, new.id, entry()).await.unwrap()),
            "changed" => {
                let without = Source { processor: None, updated_at: after(1), ..new.clone() };
                assert_eq!(given.store.update_source(without, new.updated_at, entry()).await.unwrap(), Updated::Updated);
            }
            _ => {}
        }
        if !is_kept {
            expected.push(OrphanedLane { organization: given.organization, application: given.application, lane_id });
        }
        assert_eq!(orphaned().await, expected, "{name}");
    }
    assert_eq!(given.store.orphaned_lanes(1).await.unwrap(), expected[..1]);
    let cause = CancelCause::DestinationDeleted;
    let cancel = CancelWaiting { lane_id: expected[0].lane_id, made_until: after(99), cause, at: after(99), limit: 10 };
    assert_eq!(given.store.cancel_waiting(cancel).await.unwrap(), 2);
    assert_eq!(orphaned().await, expected[1..]);
}
