//! What is kept of jobs: who may answer, and the first answer to a delivery that has not ended.

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{
        CallBackoff, CapabilityLane, CapabilityName, JOB_TOKENS_MAX, JobAnswer, JobAttempt, JobLane, JobOutcome, JobProgress, JobRecord,
        RetrySchedule,
    },
    policy::presets,
    ports::{Effect as _, Erased, Erasure, JobAnswered, JobProgressed},
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
async fn progress_is_kept_while_the_job_is_open_and_not_more_often_than_asked() {
    let given = Given::of_kind("capability").await;
    let made = given.published().await;
    let progress = |percent, secs, message: Option<&str>| JobProgress { percent, message: message.map(str::to_owned), at: after(secs) };
    let note = |(job, delivery), progress, last| given.store.note_job_progress(job, delivery, progress, after(last));
    assert_eq!(note(made, progress(1, 1, None), 1).await.unwrap(), JobProgressed::Ended, "nobody was asked");
    given.store.begin_job_attempt(attempt(&given, made, 1)).await.unwrap();
    let first = progress(0, 2, Some("ü\"\\ begun"));
    assert_eq!(note(made, first.clone(), 1).await.unwrap(), JobProgressed::Noted);
    assert_eq!(
        note((made.0, DeliveryId::from_uuid(id())), progress(1, 3, None), 9).await.unwrap(),
        JobProgressed::Ended,
        "another delivery"
    );
    assert_eq!(note(made, progress(1, 3, None), 1).await.unwrap(), JobProgressed::TooSoon(first.clone()));
    assert_eq!(given.store.job(made.0).await.unwrap().unwrap().progress, Some(first));
    let last = progress(100, 4, None);
    assert_eq!(note(made, last.clone(), 2).await.unwrap(), JobProgressed::Noted);
    // What was said last stays beside the answer, in the attempt that finds it as well; nothing is said after it.
    assert_eq!(given.store.answer_job(made.0, made.1, answer(JobOutcome::Retry, 1)).await.unwrap(), JobAnswered::Kept);
    assert_eq!(note(made, progress(5, 9, None), 8).await.unwrap(), JobProgressed::Ended);
    assert_eq!(given.store.begin_job_attempt(attempt(&given, made, 2)).await.unwrap().progress, Some(last.clone()));
    assert_eq!(given.store.job(made.0).await.unwrap().unwrap().progress, Some(last));
    // Asked again, the app begins again.
    given.store.begin_job_attempt(attempt(&given, made, 3)).await.unwrap();
    assert_eq!(given.store.job(made.0).await.unwrap().unwrap().progress, None);
    let ended = given.published().await;
    given.store.begin_job_attempt(attempt(&given, ended, 1)).await.unwrap();
    assert_eq!(note(ended, progress(7, 2, None), 1).await.unwrap(), JobProgressed::Noted);
    assert_eq!(given.settle_one(settlement(ended.1, given.endpoint, success(1), DELIVERED)).await, Told::Recorded);
    assert_eq!(note(ended, progress(8, 9, None), 8).await.unwrap(), JobProgressed::Ended);
}

#[tokio::test]
async fn a_contract_test_takes_one_answer_without_a_delivery_and_goes_when_it_is_over() {
    let given = Given::of_kind("capability").await;
    let test = EventId::from_uuid(id());
    let named = (test, DeliveryId::from_uuid(*test.as_uuid()));
    assert!(given.store.begin_job_attempt(attempt(&given, named, 1)).await.unwrap().is_contract_test());
    assert_eq!(given.store.answer_job(named.0, named.1, answer(JobOutcome::Completed, 1)).await.unwrap(), JobAnswered::Kept);
    let second = given.store.answer_job(named.0, named.1, answer(JobOutcome::Failed, 2)).await.unwrap();
    assert_eq!(second, JobAnswered::Before(answer(JobOutcome::Completed, 1)));
    let job = given.begun_job().await;
    for id in [test, job.0] {
        given.store.end_contract_test(id).await.unwrap();
    }
    assert_eq!(given.store.job(test).await.unwrap(), None);
    assert!(given.store.job(job.0).await.unwrap().is_some_and(|job| !job.is_contract_test()), "it is none");
}

#[tokio::test]
async fn the_lanes_of_capabilities_are_among_the_definitions_with_their_schedules() {
    let given = Given::new().await;
    let names = ["b", "a"].map(|name| CapabilityName::parse(name).unwrap());
    let schedules = [presets::job_retried(Default::default(), 7, CallBackoff::Linear), presets::relay()];
    let lanes = |schedules: [RetrySchedule; 2]| -> Vec<JobLane> {
        names.iter().zip(schedules).map(|(name, schedule)| JobLane { lane_id: name.lane(given.application), schedule }).collect()
    };
    let before = given.store.definitions(given.organization).await.unwrap();
    assert_eq!(before.capabilities, []);
    let mut version = before.version;
    // Put again with other schedules, the same lanes have these.
    for (n, schedules) in [(1, schedules.clone()), (2, schedules.clone()), (3, [presets::job(), presets::relay()])] {
        let asked = lanes(schedules);
        let kept = manifest(given.organization, given.application, n);
        let put = given
            .store
            .put_manifest(
                everhook_core::ports::ManifestChange { read: given.read_application().await, manifest: kept },
                asked.clone(),
                None,
                Vec::new(),
                super::manifests::BOUNDS,
                entry(),
            )
            .await
            .unwrap();
        assert!(put.took_place());
        let found = given.store.definitions(given.organization).await.unwrap();
        assert!(found.version > version, "publishers match again");
        version = found.version;
        let mut expected = Vec::new();
        for JobLane { lane_id, schedule } in asked {
            let retry_schedule = given.store.schedule_version(&schedule).await.unwrap();
            expected.push(CapabilityLane { lane_id, application: given.application, retry_schedule });
        }
        expected.sort_by_key(|lane| *lane.lane_id.as_uuid());
        assert_eq!(found.capabilities, expected);
    }
}
