//! The rules about calls and jobs: each has a short log that breaks it.

use everhook_core::model::{DeathCause, JobStatus, LaneKind, Stage};

use super::{
    tests::{Story, event, expect},
    *,
};
use crate::{
    simulation::log::{CallNo, Result as JobResult, Taken},
    world::BEGINNING,
};

const CALL: CallNo = CallNo(0);
const SEVEN: JobResult = JobResult::Done(7);

impl Story {
    fn calls(&mut self, second: u64) -> &mut Self {
        self.then(second, Happening::CallBegan(CALL, "report"))
    }

    fn called_back(&mut self, second: u64, result: JobResult, taken: Taken) -> &mut Self {
        self.then(second, Happening::CalledBack(event(), result, taken))
    }

    /// The delivery of a job to its app.
    fn asked(&mut self, stage: Stage) -> &mut Self {
        self.stores_delivery(1, stage, 1);
        let mut delivery = self.stored.deliveries.pop().expect("it was just made");
        delivery.kind = LaneKind::Capability;
        self.stored.asked.push(delivery);
        self
    }

    fn job(&mut self, status: JobStatus, result: Option<u64>) -> &mut Self {
        self.stored.jobs.insert(event(), StoredJob { status, result, progress: None });
        self
    }
}

#[test]
fn a_caller_hears_in_time() {
    const RULE: Option<&str> = Some("every caller is answered in time");
    expect(ALWAYS, None, |story| {
        story.calls(1).then(2, Happening::CallAnswered(CALL, "app"));
    });
    expect(ALWAYS, None, |story| {
        story.calls(1).then(2, Happening::Died("killed".to_owned())).then(9, Happening::Started);
    });
    expect(ALWAYS, RULE, |story| {
        story.calls(1).then(3, Happening::CallAnswered(CALL, "default"));
    });
    expect(ALWAYS, RULE, |story| {
        story.calls(1).then(9, Happening::Started);
    });
}

#[test]
fn a_queued_call_is_one_job() {
    const RULE: Option<&str> = Some("every queued call is one job");
    let queued = |story: &mut Story| _ = story.calls(1).then(1, Happening::CallQueued(CALL, event()));
    expect(ALWAYS, None, |story| {
        queued(story);
        story.stores_event(event(), "key").asked(Stage::Waiting { due_at: BEGINNING });
    });
    expect(ALWAYS, RULE, queued);
    expect(ALWAYS, RULE, |story| {
        queued(story);
        story.stores_event(event(), "key");
    });
}

#[test]
fn the_first_callback_counts_and_ends_the_job() {
    expect(ALWAYS, None, |story| {
        story.called_back(1, SEVEN, Taken::Yes).called_back(2, JobResult::Failed, Taken::No).called_back(3, SEVEN, Taken::Yes);
    });
    expect(ALWAYS, Some("of several callbacks the first counts"), |story| {
        story.called_back(1, SEVEN, Taken::Yes).called_back(2, JobResult::Done(8), Taken::Yes);
    });
    expect(ALWAYS, Some("no app is asked to do what it has done"), |story| {
        story.called_back(1, SEVEN, Taken::Yes).then(9, Happening::AppAsked(event()));
    });
    expect(ALWAYS, Some("whoever was asked may answer"), |story| {
        story.then(1, Happening::AppAsked(event())).called_back(2, SEVEN, Taken::Unknown);
    });
}

#[test]
fn a_job_ends_as_its_app_said() {
    const RULE: Option<&str> = Some("every job has ended as its app said");
    let answered = |status, result| {
        move |story: &mut Story| {
            story.called_back(1, SEVEN, Taken::Yes).job(status, result);
        }
    };
    expect(AT_THE_END, None, answered(JobStatus::Completed, Some(7)));
    for (status, result) in [(JobStatus::Completed, Some(8)), (JobStatus::Failed, None), (JobStatus::Sent, None), (JobStatus::Dead, None)] {
        expect(AT_THE_END, RULE, answered(status, result));
    }
}

#[test]
fn a_dead_job_is_told() {
    expect(AT_THE_END, Some("every dead job is told once"), |story| {
        story.asked(Stage::Dead { at: BEGINNING, cause: DeathCause::RetriesExhausted });
    });
}
