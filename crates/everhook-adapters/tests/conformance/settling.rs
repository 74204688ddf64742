//! Settling: what becomes of a delivery and of its dead letter, and what else follows from an outcome.

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, OrganizationId, Ref},
    model::{
        CancelCause, DeadLetter, DeadLetterStatus, DeathCause, DisabledReason, EndpointState, FailureCategory, LaneKind, Priority,
        ShardSet, Stage,
    },
    ports::{Alert, AlertCondition, ReplayAnswer, ReplayItem, Settlement, SettlementAlert},
};

use super::{
    delivery_queue::{DELIVERED, Told, dead, waiting},
    given::{Given, NOW, after, disabling, event_type, failure, id, replay_of, settlement, success},
};

#[tokio::test]
async fn a_settled_delivery_no_longer_waits() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    assert_eq!(given.settle_one(settlement(delivery, given.endpoint, success(1), DELIVERED)).await, Told::Recorded);
    assert_eq!(given.stage(delivery).await, DELIVERED);
    assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap(), []);
}

#[tokio::test]
async fn a_failed_delivery_waits_for_its_next_attempt() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    given.settle_one(settlement(delivery, given.endpoint, failure(1), waiting(after(5)))).await;
    assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap()[0].next_due_at, after(5));
    let read = given.due(given.endpoint, after(5), 10, 0).await;
    assert_eq!((read.rows[0].delivery, read.rows[0].attempts, read.rows[0].due_at), (delivery, 1, after(5)));
}

#[tokio::test]
async fn an_attempt_is_recorded_only_if_it_is_the_deliverys_next() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    let retry = settlement(delivery, given.endpoint, failure(1), waiting(after(5)));
    let skipped = settlement(delivery, given.endpoint, failure(3), waiting(after(9)));
    let done = settlement(delivery, given.endpoint, success(2), DELIVERED);
    let unknown = settlement(DeliveryId::from_uuid(id()), given.endpoint, success(1), DELIVERED);
    let batch = vec![retry.clone(), retry, skipped, done.clone(), done, unknown];
    let answers = given.settle(batch).await;
    use Told::{Recorded, Stale};
    assert_eq!(answers, [Recorded, Stale, Stale, Recorded, Stale, Stale]);
    let (_, attempts) = given.store.delivery(given.organization, delivery).await.unwrap().unwrap();
    assert_eq!(attempts, [failure(1), success(2)]);
}

#[tokio::test]
async fn nothing_follows_from_a_stale_settlement() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    given.cancel(10).await;
    let mut late = settlement(delivery, given.endpoint, failure(1), dead(NOW));
    late.disables = Some(disabling());
    late.alerts = vec![always(alert(given.organization))];
    let version = given.config_version().await;
    assert_eq!(given.settle_one(late).await, Told::Stale);
    assert_eq!(given.store.dead_letter(given.organization, delivery).await.unwrap(), None);
    assert_eq!(given.store.pending(10).await.unwrap(), []);
    assert_eq!(given.config_version().await, version);
}

#[tokio::test]
async fn a_delivery_that_gives_up_leaves_a_dead_letter() {
    let given = Given::new().await;
    let (event, delivery) = given.published().await;
    given.settle_one(settlement(delivery, given.endpoint, failure(1), waiting(NOW))).await;
    given.settle_one(settlement(delivery, given.endpoint, failure(2), dead(after(9)))).await;
    let expected = DeadLetter {
        id: delivery,
        organization: given.organization,
        application: given.application,
        event,
        event_type: event_type("user.created"),
        lane_id: given.endpoint.into(),
        kind: LaneKind::Endpoint,
        target: "https://shop.example/hooks".to_owned(),
        last_delivery: delivery,
        status: DeadLetterStatus::Dead,
        cause: DeathCause::RetriesExhausted,
        failure_category: FailureCategory::ServerError,
        last_error: "attempt 2 was answered 503".to_owned(),
        attempts: 2,
        failures: 1,
        first_failure_at: after(9),
        last_failure_at: after(9),
        requeued_at: None,
    };
    assert_eq!(given.dead_letter(delivery).await, expected);
}

#[tokio::test]
async fn a_dead_letter_that_is_recalled_waits_again_with_fresh_attempts() {
    let given = Given::new().await;
    let dead_letter = given.died().await;
    let ReplayAnswer::Made { due, priority } = given.recall(dead_letter).await else { panic!("it is dead") };
    let due = due.expect("it waits");
    let told = given.dead_letter(dead_letter).await;
    assert_eq!((told.status, told.requeued_at, told.last_delivery), (DeadLetterStatus::Retrying, Some(after(60)), due.delivery));
    assert_eq!((priority, due.attempts, due.due_at, due.replay_of), (Priority::Normal, 0, after(60), Some(dead_letter)));
    let read = given.due(given.endpoint, after(60), 10, 0).await;
    assert_eq!(format!("{:?}", read.rows), format!("{:?}", [due]));
}

#[tokio::test]
async fn only_a_dead_letter_of_the_organization_that_is_dead_can_be_recalled() {
    let given = Given::new().await;
    let (dead_letter, _) = given.recalled().await;
    assert!(matches!(given.recall(dead_letter).await, ReplayAnswer::NotDead(DeadLetterStatus::Retrying)));
    assert!(matches!(given.recall(DeliveryId::from_uuid(id())).await, ReplayAnswer::NotFound));
    let (event, _) = given.published().await;
    let never_dead = ReplayItem { only_dead: true, ..given.replay_item(event).await };
    assert!(matches!(given.replay(vec![never_dead]).await[..], [ReplayAnswer::NotFound]));
    let item = given.replay_item(given.dead_letter(dead_letter).await.event).await;
    let stranger = Given { organization: OrganizationId::from_uuid(id()), ..given };
    assert!(matches!(stranger.replay(vec![item]).await[..], [ReplayAnswer::NotFound]));
}

#[tokio::test]
async fn a_dead_letter_is_resolved_by_the_delivery_that_brought_it_back() {
    let given = Given::new().await;
    let (dead_letter, delivery) = given.recalled().await;
    given.settle_one(replay_of(dead_letter, settlement(delivery, given.endpoint, failure(1), waiting(NOW)))).await;
    assert_eq!(given.dead_letter(dead_letter).await.status, DeadLetterStatus::Retrying);
    given.settle_one(replay_of(dead_letter, settlement(delivery, given.endpoint, success(2), DELIVERED))).await;
    let resolved = given.dead_letter(dead_letter).await;
    assert_eq!((resolved.status, resolved.attempts, resolved.failures), (DeadLetterStatus::Resolved, 3, 1));
}

#[tokio::test]
async fn a_dead_letter_that_fails_again_stays_one_dead_letter() {
    let given = Given::new().await;
    let (dead_letter, delivery) = given.recalled().await;
    given.settle_one(replay_of(dead_letter, settlement(delivery, given.endpoint, failure(1), dead(after(99))))).await;
    let again = given.dead_letter(dead_letter).await;
    assert_eq!((again.status, again.attempts, again.failures), (DeadLetterStatus::Dead, 2, 2));
    assert_eq!((again.first_failure_at, again.last_failure_at), (NOW, after(99)));
    assert_eq!(again.last_delivery, delivery);
    assert_eq!(given.store.dead_letter(given.organization, delivery).await.unwrap(), None);
}

#[tokio::test]
async fn a_dead_letter_whose_retry_is_cancelled_is_dead_again() {
    let given = Given::new().await;
    let (swept, _) = given.recalled().await;
    given.cancel(10).await;
    let (settled, delivery) = given.recalled().await;
    let stage = Stage::Cancelled { at: NOW, cause: CancelCause::EndpointDisabled };
    given.settle_one(replay_of(settled, settlement(delivery, given.endpoint, failure(1), stage))).await;
    for (dead_letter, attempts) in [(swept, 1), (settled, 2)] {
        let found = given.dead_letter(dead_letter).await;
        assert_eq!((found.status, found.attempts, found.failures), (DeadLetterStatus::Dead, attempts, 1));
    }
}

#[tokio::test]
async fn a_settlement_can_disable_its_endpoint_which_is_a_new_configuration() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    let version = given.config_version().await;
    let gone = Stage::Dead { at: after(7), cause: DeathCause::Gone };
    let disabling = Settlement { disables: Some(disabling()), ..settlement(delivery, given.endpoint, failure(1), gone) };
    given.settle_one(disabling).await;
    let endpoint = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
    assert_eq!(endpoint.state, EndpointState::Disabled { at: after(7), reason: DisabledReason::Gone });
    assert!(endpoint.updated_at > NOW, "an owner's change that was based on the enabled endpoint must be refused");
    assert_eq!(given.config_version().await, version + 1);
}

#[tokio::test]
async fn an_endpoint_that_has_moved_is_not_disabled_by_what_its_old_address_answered() {
    let given = Given::new().await;
    let gone = Stage::Dead { at: after(7), cause: DeathCause::Gone };
    let (exhausted, disabled) = (alert(given.organization), disabled_alert(given.organization));
    for (url, disables) in [("https://old.example/hooks", false), ("https://shop.example/hooks", true)] {
        let (_, delivery) = given.published().await;
        let before = (given.config_version().await, given.store.pending(10).await.unwrap().len());
        let disabled = Alert { id: id(), ..disabled.clone() };
        let alerts = vec![
            always(Alert { id: id(), ..exhausted.clone() }),
            SettlementAlert { alert: disabled, condition: AlertCondition::IfDisabledByThis },
        ];
        let settlement = settlement(delivery, given.endpoint, failure(1), gone.clone());
        let settlement = Settlement { target: url.to_owned(), disables: Some(disabling()), alerts, ..settlement };
        assert_eq!(given.settle_one(settlement).await, Told::Recorded);
        let endpoint = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
        assert_eq!(endpoint.state != EndpointState::Enabled, disables, "{url}");
        // Nobody is told of what did not happen.
        let after = (given.config_version().await, given.store.pending(10).await.unwrap().len());
        assert_eq!(after, (before.0 + i64::from(disables), before.1 + 1 + usize::from(disables)), "{url}");
    }
}

#[tokio::test]
async fn an_alert_is_told_by_its_condition_whatever_its_type_is_called() {
    let given = Given::new().await;
    let named = |name| Alert { event_type: event_type(name), ..alert(given.organization) };
    let told = |name, condition| SettlementAlert { alert: named(name), condition };
    let (_, delivery) = given.published().await;
    let alerts = vec![
        told("endpoint.disabled", AlertCondition::Always),
        told("dlq.replay_failed", AlertCondition::Always),
        told("message.attempt.exhausted", AlertCondition::IfDisabledByThis),
        told("message.attempt.exhausted", AlertCondition::IfAutomaticReplay),
    ];
    let expected: Vec<_> = alerts[..2].iter().map(|told| told.alert.clone()).collect();
    given.settle_one(Settlement { alerts, ..settlement(delivery, given.endpoint, failure(1), dead(NOW)) }).await;
    assert_eq!(given.store.pending(10).await.unwrap(), expected);
}

#[tokio::test]
async fn alerts_wait_until_they_are_told() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    let alerts = vec![alert(given.organization), alert(given.organization)];
    let telling =
        Settlement { alerts: alerts.iter().cloned().map(always).collect(), ..settlement(delivery, given.endpoint, failure(1), dead(NOW)) };
    given.settle_one(telling).await;
    let given = given.reopened().await;
    assert_eq!(given.store.pending(10).await.unwrap(), alerts);
    assert_eq!(given.store.pending(1).await.unwrap(), alerts[..1]);
    given.store.done(vec![alerts[0].id]).await.unwrap();
    assert_eq!(given.store.pending(10).await.unwrap(), alerts[1..]);
}

fn alert(organization: OrganizationId) -> Alert {
    let event_type = event_type("message.attempt.exhausted");
    Alert { id: id(), organization, event_type, data: Bytes::from_static(b"{}") }
}

fn disabled_alert(organization: OrganizationId) -> Alert {
    Alert { event_type: event_type("endpoint.disabled"), ..alert(organization) }
}

fn always(alert: Alert) -> SettlementAlert {
    SettlementAlert { alert, condition: AlertCondition::Always }
}
