//! What is kept of jobs: who may answer, and the first answer to a delivery that has not ended.

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{CapabilityLane, CapabilityName, JOB_TOKENS_MAX, JobAnswer, JobAttempt, JobOutcome, JobRecord},
    policy::presets,
    ports::{Effect as _, Erased, Erasure, JobAnswered},
};

use super::{
    delivery_queue::{DELIVERED, Told},
    given::{Given, after, entry, id, settlement, success},
    manifests::manifest,
};

fn attempt(given: &Given, (job, delivery): (EventId, DeliveryId), number: u32) -> JobAttempt {
    JobAttempt {
        job,
        organization: given.organization,
        application: given.application,
        lane_id: given.endpoint.into(),
        delivery,
        number,
        token: [u8::try_from(number).unwrap(); 32],
        at: after(u64::from(number)),
    }
}

fn answer(outcome: JobOutcome, n: u8) -> JobAnswer {
    JobAnswer { outcome, data: Bytes::from(vec![n, 0, 255]), hash: [n; 32], at: after(9), found_by: None }
}

impl Given {
    /// A job whose app is being asked, and its delivery.
    pub async fn begun_job(&self) -> (EventId, DeliveryId) {
        let made = self.published().await;
        self.store.begin_job_attempt(attempt(self, made, 1)).await.unwrap();
        made
    }
}

#[tokio::test]
async fn an_attempt_is_kept_with_its_token_and_finds_what_was_answered() {
    let given = Given::of_kind("capability").await;
    let made = given.published().await;
    assert_eq!(given.store.job(made.0).await.unwrap(), None);
    let first = given.store.begin_job_attempt(attempt(&given, made, 1)).await.unwrap();
    assert_eq!(first, JobRecord::begin(None, &attempt(&given, made, 1)));
    let given = given.reopened().await;
    assert_eq!(given.store.job(made.0).await.unwrap().as_ref(), Some(&first));
    assert_eq!(given.store.answer_job(made.0, made.1, answer(JobOutcome::Retry, 1)).await.unwrap(), JobAnswered::Kept);
    let found = given.store.begin_job_attempt(attempt(&given, made, 2)).await.unwrap();
    let expected = JobAnswer { found_by: Some(2), ..answer(JobOutcome::Retry, 1) };
    assert_eq!((found.answer.as_ref(), found.tokens.len()), (Some(&expected), 1));
    assert_eq!(given.store.job(made.0).await.unwrap().as_ref(), Some(&found));
    for number in 3..=12 {
        assert_eq!(given.store.begin_job_attempt(attempt(&given, made, number)).await.unwrap().answer, None, "another attempt asks again");
    }
    let tokens = given.store.job(made.0).await.unwrap().unwrap().tokens;
    assert_eq!((tokens.len(), tokens.last()), (JOB_TOKENS_MAX, Some(&[12; 32])));
}

#[tokio::test]
async fn the_first_answer_to_an_open_delivery_stands() {
    let given = Given::of_kind("capability").await;
    let made = given.published().await;
    let (one, two) = (answer(JobOutcome::Completed, 1), answer(JobOutcome::Failed, 2));
    assert_eq!(given.store.answer_job(made.0, made.1, one.clone()).await.unwrap(), JobAnswered::Ended, "nobody was asked");
    given.store.begin_job_attempt(attempt(&given, made, 1)).await.unwrap();
    let other = DeliveryId::from_uuid(id());
    assert_eq!(given.store.answer_job(made.0, other, one.clone()).await.unwrap(), JobAnswered::Ended, "another delivery");
    assert_eq!(given.store.answer_job(made.0, made.1, one.clone()).await.unwrap(), JobAnswered::Kept);
    for again in [one.clone(), two.clone()] {
        assert_eq!(given.store.answer_job(made.0, made.1, again).await.unwrap(), JobAnswered::Before(one.clone()));
    }
    // One that has ended takes none any more.
    let ended = given.published().await;
    given.store.begin_job_attempt(attempt(&given, ended, 1)).await.unwrap();
    assert_eq!(given.settle_one(settlement(ended.1, given.endpoint, success(1), DELIVERED)).await, Told::Recorded);
    assert_eq!(given.store.answer_job(ended.0, ended.1, two).await.unwrap(), JobAnswered::Ended);
    assert_eq!(given.store.job(ended.0).await.unwrap().unwrap().answer, None);
}

#[tokio::test]
async fn what_is_kept_of_a_job_goes_with_its_event_and_when_it_is_old() {
    let given = Given::of_kind("capability").await;
    let mut jobs = Vec::new();
    for _ in 0..4 {
        let made = given.published().await;
        given.store.begin_job_attempt(attempt(&given, made, 1)).await.unwrap();
        given.store.answer_job(made.0, made.1, answer(JobOutcome::Completed, 1)).await.unwrap();
        jobs.push(made);
    }
    let erasure = Erasure { organization: given.organization, event: jobs[0].0, at: after(20), entry: entry() };
    assert!(matches!(given.store.erase(erasure).await.unwrap(), Erased::Erased(_)));
    assert_eq!(given.store.job(jobs[0].0).await.unwrap(), None);
    assert_eq!(given.store.forget_jobs(after(1), 10).await.unwrap(), 0, "they were begun then");
    assert_eq!(given.store.forget_jobs(after(2), 2).await.unwrap(), 2);
    assert_eq!(given.store.forget_jobs(after(2), 2).await.unwrap(), 1);
}

#[tokio::test]
async fn the_lanes_of_capabilities_are_among_the_definitions_with_the_schedule_of_jobs() {
    let given = Given::new().await;
    let names = ["b", "a"].map(|name| CapabilityName::parse(name).unwrap());
    let lanes: Vec<_> = names.iter().map(|name| name.lane(given.application)).collect();
    let before = given.store.definitions(given.organization).await.unwrap();
    assert_eq!(before.capabilities, []);
    assert!(
        given
            .store
            .put_manifest(
                given.read_application().await,
                manifest(given.organization, given.application, 1),
                super::manifests::in_lanes(lanes.clone()),
                None,
                super::manifests::BOUNDS,
                entry()
            )
            .await
            .unwrap()
            .took_place()
    );
    let after_it = given.store.definitions(given.organization).await.unwrap();
    assert!(after_it.version > before.version, "publishers match again");
    let retry_schedule = given.store.schedule_version(&presets::job()).await.unwrap();
    let mut expected: Vec<_> =
        lanes.into_iter().map(|lane_id| CapabilityLane { lane_id, application: given.application, retry_schedule }).collect();
    expected.sort_by_key(|lane| *lane.lane_id.as_uuid());
    assert_eq!(after_it.capabilities, expected);
}
