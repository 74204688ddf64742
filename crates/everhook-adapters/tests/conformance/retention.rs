//! What retention promises: what is old and has ended goes with all that belongs to it, what something still needs stays whole, and steps are small.

use std::{sync::Arc, time::Duration};

use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{
        AuditEntry, BreakerConfig, CancelCause, Cursor, DeadLetterStatus, DeathCause, FailingRule, KeptBreaker, KeptStage, OperationKind,
        OperationStatus, PageRequest, Stage, Tally, minute_of,
    },
    policy::breaker::Breaker,
    ports::{
        AuditFilter, BreakerChange, CancelWaiting, Cleared, DeadLetterFilter, DeliveryFilter, EventAlias, EventFilter, EventStore, History,
        KeyOrigin, NewEvent, Place, Purge, Recorded, ReplayAnswer, ReplayItem, RetentionClass,
    },
    time::Timestamp,
};

use super::given::{Given, NOW, after, application, entry, failure, id, replay_of, settlement, success};

/// What ended before this may go; what the tests end by default did.
const HORIZON: Timestamp = Timestamp::from_secs(1_700_001_000);
/// An end that is too recent.
const RECENT: Timestamp = Timestamp::from_secs(1_700_002_000);

const ALL: PageRequest = PageRequest { limit: 100, cursor: Cursor::Newest };

/// How many steps of a test's pass are enough for anything: a pass that goes on without end should fail.
const STEPS_MAX: usize = 1_000;

/// An event with its deliveries, and how many attempts each has.
pub struct Traced {
    pub event: EventId,
    pub deliveries: Vec<(DeliveryId, usize)>,
}

impl Given {
    /// Goes through one kind of things; says how many went, and in how many steps.
    pub async fn purge_in_steps(&self, what: RetentionClass, before: Timestamp, limit: u32) -> (u32, usize) {
        let (mut from, mut removed) = (Place::default(), 0);
        for step in 1..=STEPS_MAX {
            let purged = self.store.purge(Purge { what, before, from, limit }).await.unwrap();
            removed += purged.removed;
            match purged.next {
                Some(next) => from = next,
                None => return (removed, step),
            }
        }
        panic!("the pass over {what:?} does not end");
    }

    pub async fn purge(&self, what: RetentionClass, before: Timestamp) -> u32 {
        self.purge_in_steps(what, before, 500).await.0
    }

    pub async fn ended(&self, delivery: DeliveryId, stage: Stage) {
        let attempt = if matches!(stage, Stage::Delivered { .. }) { success(1) } else { failure(1) };
        self.store.settle(Arc::new(vec![settlement(delivery, self.endpoint, attempt, stage)])).await.unwrap();
    }

    /// An event that was delivered at an instant.
    pub async fn delivered(&self, at: Timestamp) -> (EventId, DeliveryId) {
        let (event, delivery) = self.published().await;
        self.ended(delivery, Stage::Delivered { at }).await;
        (event, delivery)
    }

    /// Brings an event back; the new delivery waits.
    pub async fn brought_back(&self, event: EventId, of: DeliveryId) -> DeliveryId {
        let item = ReplayItem { of: Some(of), ..self.replay_item(event).await };
        let answers = self.replay(vec![item]).await;
        assert!(matches!(answers[..], [ReplayAnswer::Made { .. }]), "{answers:?}");
        item.delivery
    }

    pub async fn is_there(&self, event: EventId) -> bool {
        History::event(&*self.store, self.organization, event).await.unwrap().is_some()
    }

    /// That it is as it was: its data, and each delivery with its attempts.
    pub async fn assert_whole(&self, traced: &Traced, why: &str) {
        assert!(self.is_there(traced.event).await, "{why}");
        for (delivery, attempts) in &traced.deliveries {
            let found = self.store.delivery(self.organization, *delivery).await.unwrap();
            let (delivery, found) = found.unwrap_or_else(|| panic!("{why}: {delivery} is gone"));
            assert_eq!((delivery.event, found.len()), (traced.event, *attempts), "{why}");
        }
    }

    /// That nothing is left of it, wherever one looks.
    pub async fn assert_gone(&self, traced: &Traced, why: &str) {
        assert!(!self.is_there(traced.event).await, "{why}");
        assert_eq!(EventStore::event(&*self.store, traced.event).await.unwrap(), None, "{why}");
        for (delivery, _) in &traced.deliveries {
            assert!(self.store.delivery(self.organization, *delivery).await.unwrap().is_none(), "{why}: {delivery} is there");
        }
        let filter = DeliveryFilter { event: Some(traced.event), ..DeliveryFilter::default() };
        assert_eq!(self.store.deliveries(self.organization, filter, ALL).await.unwrap().rows, [], "{why}");
        let item = self.replay_item(traced.event).await;
        assert!(matches!(self.replay(vec![item]).await[..], [ReplayAnswer::NotFound]), "{why}");
    }

    /// Delivers an event to one of two endpoints long ago, and to the other at an instant, if at all; says what is left once old attempts have gone.
    pub async fn assert_attempts_by_sibling(&self, last: Option<Timestamp>, attempts: usize, why: &str, before: Timestamp) {
        let other = self.another_endpoint().await;
        let new = self.event(&[self.endpoint, other]).await;
        let (event, first, second) = (new.event.id, new.deliveries[0].id, new.deliveries[1].id);
        self.record(new).await;
        self.ended(first, Stage::Delivered { at: NOW }).await;
        if let Some(at) = last {
            self.store.settle(Arc::new(vec![settlement(second, other, success(1), Stage::Delivered { at })])).await.unwrap();
        }
        self.purge(RetentionClass::Attempts, before).await;
        let second = (second, if last.is_some() { attempts } else { 0 });
        self.assert_whole(&Traced { event, deliveries: vec![(first, attempts), second] }, why).await;
    }

    /// Events in every state that matters, each with whether it may go if what ended at `recent` may not.
    pub async fn of_every_kind(&self, recent: Timestamp) -> Vec<(&'static str, Traced, bool)> {
        let mut made = self.that_go().await;
        made.extend(self.that_stay(recent).await);
        made
    }

    async fn that_go(&self) -> Vec<(&'static str, Traced, bool)> {
        let mut made = Vec::new();
        let mut push =
            |name, event, deliveries: &[(DeliveryId, usize)]| made.push((name, Traced { event, deliveries: deliveries.into() }, true));
        let (event, delivery) = self.delivered(NOW).await;
        push("delivered long ago", event, &[(delivery, 1)]);
        let new = self.event(&[]).await;
        let event = new.event.id;
        self.record(new).await;
        push("wanted by nobody", event, &[]);
        let (event, delivery) = self.delivered(NOW).await;
        let again = self.brought_back(event, delivery).await;
        self.ended(again, Stage::Delivered { at: after(100) }).await;
        push("done again, long ago", event, &[(delivery, 1), (again, 1)]);
        let (event, delivery) = self.delivered(NOW).await;
        self.erase(event).await;
        push("erased long ago", event, &[(delivery, 1)]);
        made
    }

    async fn that_stay(&self, recent: Timestamp) -> Vec<(&'static str, Traced, bool)> {
        let mut made = Vec::new();
        let mut push =
            |name, event, deliveries: &[(DeliveryId, usize)]| made.push((name, Traced { event, deliveries: deliveries.into() }, false));
        let (event, delivery) = self.published().await;
        push("waiting", event, &[(delivery, 0)]);
        let (event, delivery) = self.published().await;
        self.ended(delivery, Stage::Waiting { due_at: after(5) }).await;
        push("waiting for its next attempt", event, &[(delivery, 1)]);
        let (event, delivery) = self.delivered(recent).await;
        push("delivered lately", event, &[(delivery, 1)]);
        let new = self.event(&[self.endpoint, self.another_endpoint().await]).await;
        let (event, first, second) = (new.event.id, new.deliveries[0].id, new.deliveries[1].id);
        self.record(new).await;
        self.ended(first, Stage::Delivered { at: NOW }).await;
        push("delivered to one of two", event, &[(first, 1), (second, 0)]);
        let (event, delivery) = self.published_dead().await;
        push("dead", event, &[(delivery, 1)]);
        let (event, delivery) = self.published_dead().await;
        self.store.discard(self.organization, delivery, entry()).await.unwrap();
        push("discarded", event, &[(delivery, 1)]);
        let (event, delivery) = self.delivered(NOW).await;
        let again = self.brought_back(event, delivery).await;
        push("being done again", event, &[(delivery, 1), (again, 0)]);
        let (event, delivery) = self.delivered(NOW).await;
        let again = self.brought_back(event, delivery).await;
        self.ended(again, Stage::Delivered { at: recent }).await;
        push("done again lately", event, &[(delivery, 1), (again, 1)]);
        let (event, delivery) = self.delivered(NOW).await;
        self.running(OperationKind::Replay, &[(event, delivery)]).await;
        push("on the list of a replay", event, &[(delivery, 1)]);
        let (event, delivery) = self.delivered(NOW).await;
        self.erasing(&[event]).await;
        push("on the list of an erasure", event, &[(delivery, 1)]);
        made
    }
}

#[tokio::test]
async fn what_is_old_and_ended_goes_whole_and_what_is_needed_stays_whole() {
    for limit in [3, 500] {
        let given = Given::new().await;
        let made = given.of_every_kind(RECENT).await;
        given.purge_in_steps(RetentionClass::Events, HORIZON, limit).await;
        let given = given.reopened().await;
        for (name, traced, goes) in &made {
            match goes {
                true => given.assert_gone(traced, name).await,
                false => given.assert_whole(traced, name).await,
            }
        }
        let listed = given.store.events(given.organization, EventFilter::default(), ALL).await.unwrap().rows.len();
        assert_eq!(listed, made.iter().filter(|(_, _, goes)| !goes).count());
    }
}

#[tokio::test]
async fn what_stayed_can_be_sent_retried_and_erased_and_goes_when_its_time_has_come() {
    let given = Given::new().await;
    let (waiting, delivery) = given.published().await;
    let (dead, letter) = given.published_dead().await;
    given.purge(RetentionClass::Events, HORIZON).await;
    let read = given.due(given.endpoint, HORIZON, 10, 1 << 20).await;
    assert_eq!(read.rows.iter().map(|due| (due.event, due.loaded.is_some())).collect::<Vec<_>>(), [(waiting, true)]);
    given.ended(delivery, Stage::Delivered { at: RECENT }).await;
    let again = given.brought_back(dead, letter).await;
    let delivered = settlement(again, given.endpoint, success(1), Stage::Delivered { at: RECENT });
    given.store.settle(Arc::new(vec![replay_of(letter, delivered)])).await.unwrap();
    assert_eq!(given.dead_letter(letter).await.status, DeadLetterStatus::Resolved);
    let (waits, _) = given.published().await;
    given.purge(RetentionClass::Events, HORIZON).await;
    given.erase(waits).await;
    assert!(given.store.is_erased(waits).await.unwrap());
    // All three ended after the first horizon; the next one is past that.
    let later = RECENT + Duration::from_secs(1);
    given.purge(RetentionClass::DeadLetters, later).await;
    given.purge(RetentionClass::Events, later).await;
    assert_eq!(given.store.events(given.organization, EventFilter::default(), ALL).await.unwrap().rows, []);
    assert_eq!(given.store.deliveries(given.organization, DeliveryFilter::default(), ALL).await.unwrap().rows, []);
}

#[tokio::test]
async fn an_idempotency_key_goes_with_its_event() {
    let given = Given::new().await;
    let given_key = |mut new: NewEvent| {
        new.event.idempotency_key = "order-1".to_owned();
        new.key = KeyOrigin::Given { valid_since: NOW };
        new
    };
    let new = given_key(given.event(&[]).await);
    given.record(new).await;
    given.purge(RetentionClass::Events, HORIZON).await;
    let again = given_key(given.event(&[]).await);
    let told = given.record_all(vec![again]).await.remove(0);
    assert!(matches!(told, Recorded::Accepted { .. }), "{told:?}");
}

#[tokio::test]
async fn an_alias_goes_with_its_event() {
    let given = Given::new().await;
    let (goes, stays) = (given.event(&[]).await, given.published().await.0);
    let (event, aliases) = (goes.event.id, [id(), id(), id()].map(EventId::from_uuid));
    given.record(goes.clone()).await;
    let alias = |(alias, event)| EventAlias { alias, event };
    given.store.alias(aliases.into_iter().zip([event, event, stays]).map(alias).collect()).await.unwrap();
    given.purge(RetentionClass::Events, HORIZON).await;
    assert!(!given.is_there(event).await && given.is_there(stays).await);
    // An event under the same id would be found by whatever alias was left.
    given.record(goes).await;
    let mut shown = Vec::new();
    for alias in aliases {
        shown.push(History::event(&*given.store, given.organization, alias).await.unwrap().map(|(summary, _)| summary.id));
    }
    assert_eq!(shown, [None, None, Some(stays)]);
}

#[tokio::test]
async fn a_pass_that_was_cut_off_is_begun_again_and_finds_the_rest() {
    let given = Given::new().await;
    let mut events = Vec::new();
    for _ in 0..20 {
        events.push(given.delivered(NOW).await.0);
    }
    // Steps of few rows until one has removed something, then the process dies.
    let mut from = Place::default();
    loop {
        let purged = given.store.purge(Purge { what: RetentionClass::Events, before: HORIZON, from, limit: 12 }).await.unwrap();
        if purged.removed > 0 {
            break;
        }
        from = purged.next.expect("something is old");
    }
    let given = given.reopened().await;
    let mut left = 0;
    for event in &events {
        left += usize::from(given.is_there(*event).await);
    }
    assert!((1..20).contains(&left), "{left} are left after steps of twelve rows");
    assert_eq!(given.purge(RetentionClass::Events, HORIZON).await as usize, left);
}

#[tokio::test]
async fn an_event_with_many_deliveries_goes_whole_in_as_many_steps_as_it_takes() {
    let given = Given::new().await;
    let new = given.event(&vec![given.endpoint; 200]).await;
    let traced = Traced { event: new.event.id, deliveries: new.deliveries.iter().map(|delivery| (delivery.id, 1)).collect() };
    given.record(new).await;
    let made_until = after(1);
    let cancel = CancelWaiting { lane_id: given.endpoint.into(), made_until, cause: CancelCause::EndpointDisabled, at: NOW, limit: 1_000 };
    given.store.cancel_waiting(cancel).await.unwrap();
    let (removed, _) = given.purge_in_steps(RetentionClass::Events, HORIZON, 50).await;
    assert_eq!(removed, 1);
    given.assert_gone(&traced, "many deliveries").await;
}

#[tokio::test]
async fn attempts_may_go_before_their_events() {
    let given = Given::new().await;
    let (old, first) = given.delivered(NOW).await;
    let (recent, second) = given.delivered(RECENT).await;
    let (dead, third) = given.published_dead().await;
    given.purge(RetentionClass::Attempts, HORIZON).await;
    for (event, delivery, attempts) in [(old, first, 0), (recent, second, 1), (dead, third, 1)] {
        given.assert_whole(&Traced { event, deliveries: vec![(delivery, attempts)] }, "attempts").await;
    }
}

#[tokio::test]
async fn attempts_stay_while_another_delivery_of_their_event_is_open_or_ended_lately() {
    for (last, attempts, why) in [(None, 1, "open"), (Some(RECENT), 1, "ended lately"), (Some(NOW), 0, "ended long ago")] {
        let given = Given::new().await;
        given.assert_attempts_by_sibling(last, attempts, why, HORIZON).await;
    }
}

#[tokio::test]
async fn dead_letters_go_by_their_last_failure_unless_they_are_being_retried() {
    let given = Given::new().await;
    let (old_event, old) = given.published_dead().await;
    let (retried_event, retried) = given.published_dead().await;
    given.brought_back(retried_event, retried).await;
    let (recent_event, recent) = given.published().await;
    given.ended(recent, Stage::Dead { at: RECENT, cause: DeathCause::RetriesExhausted }).await;
    assert_eq!(given.purge_in_steps(RetentionClass::DeadLetters, HORIZON, 1).await.0, 1);
    let listed = given.store.dead_letters(given.organization, DeadLetterFilter::default(), ALL).await.unwrap().rows;
    assert_eq!(listed.iter().map(|letter| letter.id).collect::<Vec<_>>(), [recent, retried]);
    given.purge(RetentionClass::Events, HORIZON).await;
    given.assert_gone(&Traced { event: old_event, deliveries: vec![(old, 1)] }, "expired").await;
    for event in [retried_event, recent_event] {
        assert!(given.is_there(event).await);
    }
}

#[tokio::test]
async fn statistics_and_open_periods_go_by_their_time() {
    let given = Given::new().await;
    let other = given.another_endpoint().await;
    for endpoint in [given.endpoint, other] {
        for minute in 0..5_u64 {
            let at = minute_of(NOW) + Duration::from_secs(minute * 60);
            let mut tally = Tally::new(endpoint.into(), at);
            tally.add(&success(1), at);
            given.store.add(vec![tally], FailingRule::default()).await.unwrap();
        }
    }
    let before = minute_of(NOW) + Duration::from_secs(180);
    // Three minutes of two endpoints, of their application and of their organization.
    assert_eq!(given.purge_in_steps(RetentionClass::Rollups, before, 2).await.0, 12);
    let statistics = given.store.attempt_statistics(given.endpoint.into(), NOW - Duration::from_secs(60), after(600)).await.unwrap();
    assert_eq!(statistics.total(), 2);
    let mut breaker = Breaker::new(BreakerConfig::window(), NOW);
    let transitions =
        [breaker.force_open(None, after(10)), breaker.force_close(None, after(20)), breaker.force_open(None, after(30))].map(Some);
    for (revision, transition) in (1..).zip(transitions) {
        let kept = KeptBreaker { stage: KeptStage::Closed, since: NOW, failed_recoveries: 0 };
        let (application, endpoint) = (given.application, given.endpoint);
        let change = BreakerChange { application, lane_id: endpoint.into(), revision, kept, transition, alerts: Vec::new(), entry: None };
        given.store.keep(vec![change]).await.unwrap();
    }
    assert_eq!(given.purge(RetentionClass::OpenPeriods, HORIZON).await, 1);
    let left = given.store.open_periods(given.endpoint.into(), NOW, 10).await.unwrap();
    assert_eq!(left.iter().map(|period| (period.opened_at, period.closed_at)).collect::<Vec<_>>(), [(after(30), None)]);
}

#[tokio::test]
async fn operations_that_have_ended_and_entries_of_the_audit_log_go_by_their_time() {
    let given = Given::new().await;
    let ended = given.begun(OperationKind::Replay).await;
    given.end(ended, OperationStatus::Cancelled).await;
    assert_eq!(given.store.clear(ended, 10).await.unwrap(), Cleared::All);
    let clearing = given.begun(OperationKind::Replay).await;
    given.end(clearing, OperationStatus::Cancelled).await;
    let open = given.begun(OperationKind::Replay).await;
    assert_eq!(given.purge_in_steps(RetentionClass::Operations, HORIZON, 1).await.0, 1);
    let listed = given.store.operations(given.organization, None, ALL).await.unwrap().rows;
    assert_eq!(listed.iter().map(|operation| operation.id).collect::<Vec<_>>(), [open, clearing]);
    let telling = AuditEntry { organization: given.organization, ..entry() };
    given.store.create_application(application(given.organization), telling).await.unwrap();
    for (before, left) in [(NOW - Duration::from_secs(1), 1), (HORIZON, 0)] {
        given.purge(RetentionClass::AuditLog, before).await;
        let entries = given.store.audit_log(given.organization, AuditFilter::default(), ALL).await.unwrap().rows;
        assert_eq!(entries.len(), left);
    }
}

/// The tests' ids are of about their present: a day's worth of them is one day's.
#[test]
fn ids_of_the_tests_are_older_than_the_horizon() {
    let made = id().as_u128() >> 80;
    assert!(made < u128::try_from(HORIZON.as_micros() / 1_000).unwrap());
}
