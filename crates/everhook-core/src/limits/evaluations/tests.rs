//! Whose turn it is, who waits too long, and what a request may use.

use std::sync::mpsc;

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    limits::evaluations::*,
    policy::work::{INLINE_UNITS_MAX, SCHEMA_UNITS_MAX},
    time::Timestamp,
};

/// A clock on which every wait is over at once, or none ever is.
enum TestClock {
    None,
    Endless,
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(100)
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn sleep_until(&self, _at: Timestamp) {
        if matches!(self, Self::Endless) {
            std::future::pending().await
        }
    }
}

fn organization(n: u128) -> OrganizationId {
    OrganizationId::from_uuid(Uuid::from_u128(n))
}

#[tokio::test]
async fn an_organization_has_one_thread_at_a_time_and_leaves_the_others_to_others() {
    let evaluations = Arc::new(Evaluations::new(Arc::new(TestClock::Endless), EvaluationThreads::Beside(2)));
    let (release, held) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let run = |of: u128, held: Option<mpsc::Receiver<()>>| {
        let (evaluations, begin) = (evaluations.clone(), begin.clone());
        tokio::spawn(async move {
            let work = move || {
                begin.send(of).unwrap();
                if let Some(held) = held {
                    held.recv().unwrap();
                }
            };
            evaluations.run(organization(of), EVALUATION_TIMEOUT, work).await
        })
    };
    let first = run(1, Some(held));
    while begun.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    let second = run(1, None);
    run(2, None).await.unwrap().unwrap();
    assert_eq!(begun.try_iter().collect::<Vec<_>>(), [2]);
    release.send(()).unwrap();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(begun.try_iter().collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn who_would_wait_too_long_is_told() {
    let evaluations = Evaluations::new(Arc::new(TestClock::None), EvaluationThreads::Beside(1));
    let _taken = acquire(evaluations.turn(organization(1), Origin::Request)).await;
    assert_eq!(evaluations.run(organization(1), EVALUATION_TIMEOUT, || 1).await, Err(Busy));
}

#[tokio::test]
async fn events_have_a_bound_each_and_a_request_has_one_for_all_of_an_organization() {
    let evaluations = Evaluations::new(Arc::new(TestClock::Endless), EvaluationThreads::Inline);
    let mut work = RequestWork::new();
    let mut evaluate = async |of: u128, units: u64| {
        let spend = move |_: Option<&Value>, budget: &mut WorkBudget| budget.take(units).map_err(|_| None);
        let mut data = EventData { bytes: Bytes::from_static(b"1"), parsed: None };
        work.evaluate(&evaluations, organization(of), &mut data, SCHEMA_UNITS_MAX, spend).await
    };
    assert_eq!(evaluate(1, INLINE_UNITS_MAX).await, Ok(()));
    assert_eq!(evaluate(1, SCHEMA_UNITS_MAX + 1).await, Err(NotEvaluated::TooCostly(None)));
    for _ in 0..2 {
        assert_eq!(evaluate(1, SCHEMA_UNITS_MAX).await, Ok(()));
    }
    // What is left is less than an event may use: the request is at fault.
    assert_eq!(evaluate(1, SCHEMA_UNITS_MAX).await, Err(NotEvaluated::RequestTooCostly));
    assert_eq!(evaluate(1, 1).await, Err(NotEvaluated::RequestTooCostly));
    assert_eq!(evaluate(2, SCHEMA_UNITS_MAX).await, Ok(()));
}

#[tokio::test]
async fn what_was_accepted_before_does_not_wait_for_publishers_and_is_told_if_it_would_wait_too_long() {
    let evaluations = Evaluations::new(Arc::new(TestClock::Endless), EvaluationThreads::Beside(2));
    let spend = |_: Option<&Value>, budget: &mut WorkBudget| budget.take(INLINE_UNITS_MAX + 1).map_err(|_| None);
    let mut data = EventData { bytes: Bytes::from_static(b"1"), parsed: None };
    let _of_publishers = acquire(evaluations.turn(organization(1), Origin::Request)).await;
    let mut work = RequestWork::of_accepted(EVALUATION_TIMEOUT);
    assert_eq!(work.evaluate(&evaluations, organization(1), &mut data, SCHEMA_UNITS_MAX, spend).await, Ok(()));
    let evaluations = Evaluations { clock: Arc::new(TestClock::None), ..evaluations };
    let _of_another_batch = acquire(evaluations.turn(organization(1), Origin::Spool)).await;
    assert_eq!(work.evaluate(&evaluations, organization(1), &mut data, SCHEMA_UNITS_MAX, spend).await, Err(NotEvaluated::Busy));
}
