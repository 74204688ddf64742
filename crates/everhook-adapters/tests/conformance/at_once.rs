//! What holds when many ask at the same time: one of them wins, and the others are told so.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use everhook_core::{
    ids::{DeliveryId, EventId, Uid},
    model::{DeadLetterStatus, DeathCause, FailingRule, KeptBreaker, KeptStage, OrderingMode, Placement, Stage, Tally, minute_of},
    ports::{
        BreakerChange, BreakerKept, Created, KeyOrigin, KeyReused, NewEvent, Recorded, Replay, ReplayAnswer, ReplayBy, ReplayItem,
        Replayed, Settled,
    },
};

use super::{
    given::{Given, NOW, after, application, entry, failure, id, organization, settlement, success},
    store::Store,
};

/// How many ask at once.
const TASKS: usize = 50;

/// Asks from many tasks at once, each with its own question, and returns the answers in the order of the questions.
async fn all_at_once<Q, A, F>(given: &Given, questions: Vec<Q>, ask: impl Fn(Arc<dyn Store>, Q) -> F) -> Vec<A>
where
    F: Future<Output = A> + Send + 'static,
    A: Send + 'static,
{
    let asked: Vec<_> = questions.into_iter().map(|question| tokio::spawn(ask(Arc::clone(&given.store), question))).collect();
    let mut answers = Vec::new();
    for task in asked {
        answers.push(task.await.unwrap());
    }
    answers
}

async fn record_at_once(given: &Given, events: Vec<NewEvent>) -> Vec<Recorded> {
    all_at_once(given, events, |store, new| async move { store.record(vec![new]).await.remove(0).unwrap() }).await
}

async fn events(given: &Given) -> Vec<NewEvent> {
    let mut events = Vec::new();
    for _ in 0..TASKS {
        events.push(given.event(&[given.endpoint]).await);
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_events_with_one_key_one_is_accepted_and_the_others_are_told_which() {
    let given = Given::new().await;
    let mut events = events(&given).await;
    for new in &mut events {
        new.event.idempotency_key = "order-1".to_owned();
        new.key = KeyOrigin::Given { valid_since: NOW - Duration::from_secs(60) };
    }
    let ids: Vec<EventId> = events.iter().map(|new| new.event.id).collect();
    let answers = record_at_once(&given, events).await;
    let accepted: Vec<usize> = (0..TASKS).filter(|n| matches!(answers[*n], Recorded::Accepted { .. })).collect();
    let [winner] = accepted[..] else { panic!("{} were accepted", accepted.len()) };
    let duplicate = Recorded::Duplicate { event: ids[winner], deliveries: 1, sequence_number: 1 };
    assert_eq!(answers.iter().filter(|answer| **answer == duplicate).count(), TASKS - 1, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_different_events_with_one_key_one_is_accepted_and_none_is_taken_for_it() {
    let given = Given::new().await;
    let mut events = events(&given).await;
    for (n, new) in events.iter_mut().enumerate() {
        new.event.idempotency_key = "order-1".to_owned();
        new.event.data = format!("{{\"n\":{n}}}").into();
        new.key = KeyOrigin::Given { valid_since: NOW - Duration::from_secs(60) };
    }
    let ids: Vec<EventId> = events.iter().map(|new| new.event.id).collect();
    let answers = record_at_once(&given, events).await;
    let accepted: Vec<usize> = (0..TASKS).filter(|n| matches!(answers[*n], Recorded::Accepted { .. })).collect();
    let [winner] = accepted[..] else { panic!("{} were accepted", accepted.len()) };
    let refused = Recorded::KeyReused(KeyReused { original: ids[winner], is_erased: false });
    assert_eq!(answers.iter().filter(|answer| **answer == refused).count(), TASKS - 1, "{answers:?}");
    let listed = given.store.deliveries(given.organization, Default::default(), super::history::ALL).await.unwrap();
    assert_eq!(listed.rows.len(), 1, "only one made a delivery");
}

#[tokio::test(flavor = "multi_thread")]
async fn sequence_numbers_of_one_application_have_neither_twins_nor_gaps() {
    let given = Given::new().await;
    let answers = record_at_once(&given, events(&given).await).await;
    let numbers: BTreeSet<i64> = answers
        .iter()
        .map(|answer| match answer {
            Recorded::Accepted { sequence_number, .. } => *sequence_number,
            other => panic!("it was not accepted: {other:?}"),
        })
        .collect();
    assert_eq!(numbers, (1..=TASKS as i64).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_strict_lane_one_of_many_waits_and_the_others_follow_it_in_the_order_of_their_events() {
    let given = Given::new().await;
    let mut events = events(&given).await;
    for new in &mut events {
        new.deliveries[0].placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };
    }
    let deliveries: Vec<DeliveryId> = events.iter().map(|new| new.deliveries[0].id).collect();
    let answers = record_at_once(&given, events).await;
    let mut in_order = Vec::new();
    for (delivery, answer) in deliveries.into_iter().zip(answers) {
        let Recorded::Accepted { sequence_number, held } = answer else { panic!("it was not accepted: {answer:?}") };
        in_order.push((sequence_number, delivery, held == [delivery]));
    }
    in_order.sort();
    assert!(in_order.iter().map(|(_, _, is_held)| *is_held).eq((0..TASKS).map(|n| n > 0)), "only the first waits");
    for n in 0..TASKS {
        let mut ended = settlement(in_order[n].1, given.endpoint, success(1), Stage::Delivered { at: NOW });
        ended.ordered = true;
        let Settled::Recorded { freed } = given.store.settle(Arc::new(vec![ended])).await.unwrap().remove(0) else { panic!("it waited") };
        assert_eq!(freed.map(|freed| freed.due.delivery), in_order.get(n + 1).map(|next| next.1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_attempt_is_recorded_once_however_many_settle_it() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    let stages = (0..TASKS as u64).map(|n| Stage::Waiting { due_at: after(n) }).collect();
    let endpoint = given.endpoint;
    let answers = all_at_once(&given, stages, move |store, stage| async move {
        store.settle(Arc::new(vec![settlement(delivery, endpoint, failure(1), stage)])).await.unwrap().remove(0)
    })
    .await;
    let recorded: Vec<usize> = (0..TASKS).filter(|n| matches!(answers[*n], Settled::Recorded { .. })).collect();
    let [winner] = recorded[..] else { panic!("{} were recorded", recorded.len()) };
    let (found, attempts) = given.store.delivery(given.organization, delivery).await.unwrap().unwrap();
    assert_eq!((found.stage, found.attempts, attempts.len()), (Stage::Waiting { due_at: after(winner as u64) }, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_comes_back_once_however_many_ask_for_it() {
    let given = Given::new().await;
    let (event, of) = given.published().await;
    let dead = Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted };
    given.store.settle(Arc::new(vec![settlement(of, given.endpoint, failure(1), dead)])).await.unwrap();
    let template = ReplayItem { of: Some(of), only_dead: true, ..given.replay_item(event).await };
    let items = (0..TASKS).map(|_| ReplayItem { delivery: DeliveryId::from_uuid(id()), ..template }).collect();
    let organization = given.organization;
    let answers = all_at_once(&given, items, move |store, item: ReplayItem| async move {
        let replay = Replay { organization, by: ReplayBy::Hand, items: vec![item], at: after(60) };
        let Replayed::Answered(mut answers) = store.replay(replay).await.unwrap() else { panic!("nothing was changed") };
        answers.remove(0)
    })
    .await;
    let made = answers.iter().filter(|answer| matches!(answer, ReplayAnswer::Made { .. })).count();
    let refused = answers.iter().filter(|answer| matches!(answer, ReplayAnswer::NotDead(DeadLetterStatus::Retrying))).count();
    assert_eq!((made, refused), (1, TASKS - 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_changes_to_one_revision_of_a_breaker_one_is_kept() {
    let given = Given::new().await;
    let change = |n: usize| BreakerChange {
        application: given.application,
        lane_id: given.endpoint.into(),
        revision: 1,
        kept: KeptBreaker { stage: KeptStage::Open { until: after(n as u64) }, since: NOW, failed_recoveries: 0 },
        transition: None,
        alerts: Vec::new(),
        entry: None,
    };
    let answers =
        all_at_once(
            &given,
            (0..TASKS).map(change).collect(),
            |store, change| async move { store.keep(vec![change]).await.unwrap().remove(0) },
        )
        .await;
    let stands = given.store.breaker(given.endpoint.into()).await.unwrap().unwrap();
    for (n, answer) in answers.iter().enumerate() {
        let expected = if change(n).kept == stands.kept { BreakerKept::Kept } else { BreakerKept::Outdated(stands) };
        assert_eq!(*answer, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tallies_that_are_added_at_once_all_count() {
    let given = Given::new().await;
    let endpoint = given.endpoint;
    let tally = |n: usize| {
        let mut tally = Tally::new(endpoint.into(), minute_of(NOW));
        tally.add(&if n.is_multiple_of(2) { success(1) } else { failure(1) }, NOW);
        tally
    };
    all_at_once(&given, (0..TASKS).map(tally).collect(), |store, tally| async move {
        store.add(vec![tally], FailingRule::default()).await.unwrap();
    })
    .await;
    let statistics = given.store.attempt_statistics(endpoint.into(), NOW, after(60)).await.unwrap();
    assert_eq!((statistics.total(), statistics.successes), (TASKS as u64, TASKS as u64 / 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_many_want_is_given_once() {
    let given = Given::new().await;
    let uid = Uid::parse("acme").unwrap();
    let organizations = (0..TASKS).map(|_| {
        let mut new = organization();
        new.organization.uid = Some(uid.clone());
        new
    });
    let answers =
        all_at_once(&given, organizations.collect(), |store, new| async move { store.create_organization(new, entry()).await.unwrap() })
            .await;
    assert_eq!(count(&answers, Created::Created), 1);
    assert_eq!(count(&answers, Created::UidTaken), TASKS - 1);
    let applications = (0..TASKS).map(|_| {
        let mut application = application(given.organization);
        application.name = "shop".to_owned();
        application
    });
    let answers = all_at_once(&given, applications.collect(), |store, application| async move {
        store.create_application(application, entry()).await.unwrap()
    })
    .await;
    assert_eq!(count(&answers, Created::Created), 1);
    assert_eq!(count(&answers, Created::NameTaken), TASKS - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_however_many_are_made_at_once() {
    let given = Given::new().await;
    let of = everhook_core::ids::Ref::Id(given.organization);
    let read = given.store.organization(&of).await.unwrap().unwrap();
    let mut limited = read.clone();
    limited.limits.endpoints = Some(5);
    given.store.update_organization(read, limited, entry()).await.unwrap();
    // One is there already.
    let endpoints = (0..TASKS).map(|_| super::given::endpoint(given.organization, given.application)).collect();
    let answers =
        all_at_once(&given, endpoints, |store, endpoint| async move { store.create_endpoint(endpoint, entry()).await.unwrap() }).await;
    assert_eq!((count(&answers, Created::Created), count(&answers, Created::TooMany)), (4, TASKS - 4));
}

fn count(answers: &[Created], answer: Created) -> usize {
    answers.iter().filter(|found| **found == answer).count()
}
