//! Operations and retries by hand where nodes share a store: neither a node that comes late nor one that has not heard of a change yet spoils them.

use std::num::NonZeroU32;

use everhook_core::{
    ids::{EventId, OperationId},
    line::recall::{NotResendable, RecallError, Retry},
    manage::{
        deliveries,
        operations::{self, Pace, ReplayInput},
    },
    model::{DeadLetterSelection, DisabledReason, EndpointState, Operation, OperationKind, OperationStatus, Wanted},
    ports::Clock,
};
use everhook_testbed::{Answer, Receiver, cluster::Cluster, mins, secs, world::BEGINNING};

/// The node that does the duties.
const DUTIFUL: usize = 0;

/// Everything that was published to the world's application.
fn everything(cluster: &Cluster, wanted: Wanted) -> ReplayInput {
    let application = cluster.application;
    ReplayInput { application, from: BEGINNING, to: None, event_types: Vec::new(), endpoints: Vec::new(), wanted }
}

async fn look(cluster: &Cluster, id: OperationId) -> Operation {
    cluster.line().ports.operations.operation(cluster.organization, id).await.expect("the store answers").expect("it is there")
}

fn counts(operation: &Operation) -> (u64, u64, u64, u64) {
    (operation.total, operation.done, operation.failed, operation.skipped)
}

async fn disable(cluster: &Cluster, receiver: &Receiver) {
    cluster.set_state(receiver, EndpointState::Disabled { at: cluster.clock.now(), reason: DisabledReason::ByOwner }).await;
}

/// An endpoint that was enabled at another node a moment ago, so that the dutiful one does not know it yet; with an event that died before it was
/// disabled, and one that was published meanwhile.
async fn just_enabled() -> (Cluster, Receiver, [EventId; 2]) {
    let mut cluster = Cluster::of(2).await;
    let receiver = cluster.endpoint().answering_in_turn([Answer::Status(500)]).retrying_after([]).create().await;
    let dead = cluster.event("order.paid").publish().await.event;
    cluster.pass(secs(1)).await;
    disable(&cluster, &receiver).await;
    let missed = cluster.event("order.paid").publish().await.event;
    cluster.pass(secs(2)).await;
    let view = cluster.node(DUTIFUL).line.catalog.application(cluster.application).await.expect("the store answers");
    assert!(view.expect("the world's application").enabled(receiver.id.into()).is_none());
    cluster.set_state(&receiver, EndpointState::Enabled).await;
    (cluster, receiver, [dead, missed])
}

#[tokio::test]
async fn a_recovery_reaches_an_endpoint_that_was_enabled_at_another_node_a_moment_ago() {
    let (mut cluster, _, [dead, missed]) = just_enabled().await;
    let input = everything(&cluster, Wanted::Missed);
    let line = cluster.node(DUTIFUL).line.clone();
    let id = operations::replay(&line, &cluster.author(), OperationKind::Recover, input, Pace::default()).await.expect("it begins");
    cluster.pass(secs(5)).await;
    assert_eq!(counts(&look(&cluster, id).await), (2, 2, 0, 0));
    assert_eq!(cluster.stages(dead).await, ["dead: retries_exhausted", "delivered"]);
    assert_eq!(cluster.stages(missed).await, ["delivered"]);
}

#[tokio::test]
async fn dead_letters_come_back_to_an_endpoint_that_was_enabled_at_another_node_a_moment_ago() {
    let (mut cluster, receiver, [dead, _]) = just_enabled().await;
    let line = cluster.node(DUTIFUL).line.clone();
    let all = DeadLetterSelection::default();
    let id = operations::retry_dead_letters(&line, &cluster.author(), all, Pace::default()).await.expect("it begins");
    cluster.pass(secs(5)).await;
    assert_eq!(counts(&look(&cluster, id).await), (1, 1, 0, 0));
    assert_eq!(cluster.stages(dead).await, ["dead: retries_exhausted", "delivered"]);
    // Those of one that stays disabled are counted as failed, and the operation ends.
    cluster.network.script(&receiver.url, [], Answer::Status(500));
    cluster.event("order.paid").publish().await;
    cluster.pass(secs(1)).await;
    disable(&cluster, &receiver).await;
    let id = operations::retry_dead_letters(&line, &cluster.author(), DeadLetterSelection::default(), Pace::default()).await;
    cluster.pass(secs(5)).await;
    let operation = look(&cluster, id.expect("it begins")).await;
    assert_eq!((operation.status, counts(&operation)), (OperationStatus::Finished, (1, 0, 1, 0)));
}

#[tokio::test]
async fn a_retry_by_hand_is_not_refused_because_of_what_a_node_remembers() {
    let (mut cluster, receiver, [dead, _]) = just_enabled().await;
    let line = cluster.node(DUTIFUL).line.clone();
    let retry = Retry { delivery: cluster.deliveries_of(dead).await[0].id, endpoint: None, priority: None };
    let recalled = deliveries::retry(&line, &cluster.author(), retry).await.expect("it is enabled").recalled;
    assert_eq!((recalled.made.len(), recalled.skipped.len()), (1, 0));
    cluster.pass(secs(1)).await;
    assert_eq!(cluster.stages(dead).await, ["dead: retries_exhausted", "delivered"]);
    // One that is disabled at another node is refused at once, too.
    disable(&cluster, &receiver).await;
    let refused = deliveries::retry(&line, &cluster.author(), retry).await;
    assert!(matches!(refused, Err(RecallError::Refused(NotResendable::EndpointClosed))), "{refused:?}");
}

#[tokio::test]
async fn a_node_that_lost_its_duty_while_it_selected_changes_nothing_when_it_comes_back() {
    let mut cluster = Cluster::of(2).await;
    cluster.endpoint().create().await;
    let mut events = Vec::new();
    for _ in 0..40 {
        events.push(cluster.event("order.paid").publish().await.event);
    }
    cluster.pass(secs(2)).await;
    // Given a node that loses the store when it has begun to select, and another that goes on in its place.
    cluster.node(DUTIFUL).member.pause();
    let pace = Pace { rate: NonZeroU32::new(4), ..Pace::default() };
    let input = everything(&cluster, Wanted::Any);
    let id = operations::replay(cluster.line(), &cluster.author(), OperationKind::Replay, input, pace).await.expect("it begins");
    cluster.pass(secs(9)).await;
    let operation = look(&cluster, id).await;
    assert_eq!((operation.status, operation.total), (OperationStatus::Running, 40));
    assert!((4..36).contains(&operation.done), "{operation:?}");
    // When the first one's step comes through, then it adds nothing to what is worked off.
    cluster.node(DUTIFUL).member.resume();
    cluster.pass(mins(1)).await;
    let operation = look(&cluster, id).await;
    assert_eq!((operation.status, counts(&operation)), (OperationStatus::Finished, (40, 40, 0, 0)));
    for event in &events {
        assert_eq!(cluster.stages(*event).await, ["delivered"; 2], "each is done again once");
    }
    cluster.assert_promises(&events).await;
}
