//! Doing again: what is made, what is refused, and in which order.

use std::sync::Arc;

use everhook_core::{
    ids::{DeliveryId, EventId, ScheduleVersion},
    model::{CancelCause, DeadLetterStatus, DeathCause, OrderingMode, Placement, Priority, Stage},
    ports::{CancelWaiting, Replay, ReplayAnswer, ReplayBy, ReplayItem, Replayed},
};

use super::given::{Given, NOW, after, failure, id, settlement, success};

const STRICT: Placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };

impl Given {
    async fn settled(&self, delivery: DeliveryId, stage: Stage) {
        let attempt = if matches!(stage, Stage::Delivered { .. }) { success(1) } else { failure(1) };
        self.store.settle(Arc::new(vec![settlement(delivery, self.endpoint, attempt, stage)])).await.unwrap();
    }
}

fn name(answer: &ReplayAnswer) -> &'static str {
    match answer {
        ReplayAnswer::Made { due: Some(_), .. } => "waits",
        ReplayAnswer::Made { due: None, .. } => "held",
        ReplayAnswer::Open => "open",
        ReplayAnswer::NotDead(_) => "not dead",
        ReplayAnswer::NotFound => "not found",
        ReplayAnswer::Erased => "erased",
        ReplayAnswer::DoneBefore => "done before",
    }
}

#[tokio::test]
async fn whatever_has_ended_can_be_done_again_and_what_is_open_cannot() {
    let given = Given::new().await;
    let ends = [
        Some(Stage::Delivered { at: NOW }),
        Some(Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted }),
        Some(Stage::Cancelled { at: NOW, cause: CancelCause::EndpointDisabled }),
        None,
    ];
    let mut told = Vec::new();
    for end in ends {
        let (event, of) = given.published().await;
        if let Some(stage) = end {
            given.settled(of, stage).await;
        }
        let item = ReplayItem { of: Some(of), priority: Some(Priority::High), ..given.replay_item(event).await };
        let again = ReplayItem { delivery: DeliveryId::from_uuid(id()), ..item };
        let answers = given.replay(vec![item, again]).await;
        told.push((name(&answers[0]), name(&answers[1])));
        let Some((made, _)) = given.store.delivery(given.organization, item.delivery).await.unwrap() else { continue };
        assert_eq!((made.replay_of, made.priority, made.attempts), (Some(of), Priority::High, 0));
    }
    assert_eq!(told, [("waits", "open"), ("waits", "open"), ("waits", "open"), ("open", "open")]);
}

#[tokio::test]
async fn a_dead_delivery_that_is_done_again_is_retried_through_its_dead_letter() {
    let given = Given::new().await;
    let (event, first) = given.published().await;
    let dead = Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted };
    given.settled(first, dead.clone()).await;
    let status = async || given.store.dead_letter(given.organization, first).await.unwrap().unwrap().status;
    // The second does the first again and dies, the third does the second again and is delivered: there is one dead letter.
    let second = ReplayItem { of: Some(first), ..given.replay_item(event).await };
    given.replay(vec![second]).await;
    assert_eq!(status().await, DeadLetterStatus::Retrying);
    given.settled(second.delivery, dead).await;
    assert_eq!(status().await, DeadLetterStatus::Dead);
    let third = ReplayItem { of: Some(second.delivery), ..given.replay_item(event).await };
    given.replay(vec![third]).await;
    let mut delivered = settlement(third.delivery, given.endpoint, success(1), Stage::Delivered { at: NOW });
    delivered.replay_of = Some(second.delivery);
    given.store.settle(Arc::new(vec![delivered])).await.unwrap();
    assert_eq!(status().await, DeadLetterStatus::Resolved);
}

#[tokio::test]
async fn what_is_made_again_keeps_what_was_asked_for() {
    let given = Given::new().await;
    let (event, of) = given.published().await;
    given.settled(of, Stage::Delivered { at: NOW }).await;
    let item = ReplayItem { of: Some(of), retry_schedule: ScheduleVersion(11), ..given.replay_item(event).await };
    let answers = given.replay(vec![item]).await;
    let [ReplayAnswer::Made { due: Some(due), priority: Priority::Normal }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((due.delivery, due.event, due.due_at), (item.delivery, event, after(60)));
    let (made, attempts) = given.store.delivery(given.organization, item.delivery).await.unwrap().unwrap();
    assert_eq!((made.retry_schedule, made.stage), (ScheduleVersion(11), Stage::Waiting { due_at: after(60) }));
    assert_eq!((made.created_at, made.replay_of, made.operation, attempts), (after(60), Some(of), None, vec![]));
    // One that does none again, because the endpoint never got the event.
    let other = given.another_endpoint().await;
    let new = ReplayItem { lane_id: other.into(), ..given.replay_item(event).await };
    assert_eq!(given.replay(vec![new]).await.iter().map(name).collect::<Vec<_>>(), ["waits"]);
    assert_eq!(given.store.delivery(given.organization, new.delivery).await.unwrap().unwrap().0.replay_of, None);
}

#[tokio::test]
async fn nothing_is_made_again_if_the_configuration_of_one_of_them_has_changed() {
    let given = Given::new().await;
    let (fresh, of_fresh) = given.published().await;
    let (stale, of_stale) = given.published().await;
    for of in [of_fresh, of_stale] {
        given.settled(of, Stage::Delivered { at: NOW }).await;
    }
    let version = given.config_version().await;
    let item = ReplayItem { of: Some(of_fresh), ..given.replay_item(fresh).await };
    let outdated = ReplayItem { of: Some(of_stale), config_version: version - 1, ..given.replay_item(stale).await };
    let items = vec![item, outdated];
    let replay = Replay { organization: given.organization, by: ReplayBy::Hand, items, at: after(60) };
    let told = given.store.replay(replay).await.unwrap();
    let Replayed::ConfigChanged(applications) = told else { panic!("{told:?}") };
    assert_eq!(applications, [given.application]);
    for made in [item.delivery, outdated.delivery] {
        assert_eq!(given.store.delivery(given.organization, made).await.unwrap(), None);
    }
}

#[tokio::test]
async fn several_join_the_tail_of_a_strict_lane_in_the_order_of_their_events() {
    let given = Given::new().await;
    let mut events: Vec<(EventId, DeliveryId)> = Vec::new();
    for _ in 0..3 {
        events.push(given.published().await);
    }
    let cancel =
        CancelWaiting { lane_id: given.endpoint.into(), made_until: after(1), cause: CancelCause::EndpointDisabled, at: NOW, limit: 10 };
    given.store.cancel_waiting(cancel).await.unwrap();
    let mut items = Vec::new();
    // Asked for in the wrong order.
    for (event, of) in events.iter().rev() {
        items.push(ReplayItem { of: Some(*of), placement: STRICT, ..given.replay_item(*event).await });
    }
    let answers = given.replay(items.clone()).await;
    assert_eq!(answers.iter().map(name).collect::<Vec<_>>(), ["held", "held", "waits"]);
    for (item, next) in [(items[2], Some(items[1])), (items[1], Some(items[0])), (items[0], None)] {
        let mut ended = settlement(item.delivery, given.endpoint, success(1), Stage::Delivered { at: NOW });
        ended.ordered = true;
        let settled = given.store.settle(Arc::new(vec![ended])).await.unwrap().remove(0);
        let everhook_core::ports::Settled::Recorded { freed } = settled else { panic!("it waited") };
        assert_eq!(freed.map(|freed| freed.due.delivery), next.map(|next| next.delivery));
    }
}
