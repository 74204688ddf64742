//! The rules about kept answers, progress and decisions: each has a short log that breaks it.

use everhook_core::{ids::ApprovalId, model::JobStatus};

use super::{
    tests::{Story, event, expect},
    *,
};
use crate::simulation::{
    apps::KEPT,
    log::{CallNo, Decision, Result as JobResult, Taken},
};

const CALL: CallNo = CallNo(0);

fn approval() -> ApprovalId {
    ApprovalId::from_uuid(*event().as_uuid())
}

#[test]
fn an_answer_is_kept_that_the_app_gave() {
    const RULE: Option<&str> = Some("only what the app has answered is kept");
    let answered =
        |story: &mut Story, source| _ = story.then(1, Happening::CallBegan(CALL, KEPT)).then(1, Happening::CallAnswered(CALL, source));
    expect(ALWAYS, None, |story| answered(story.then(1, Happening::AppAnswered), "cache"));
    expect(ALWAYS, RULE, |story| answered(story, "cache"));
    expect(ALWAYS, RULE, |story| answered(story, "default"));
}

#[test]
fn progress_is_reported_by_the_app_before_the_end() {
    let progress = |story: &mut Story, taken| _ = story.then(2, Happening::ProgressReported(event(), 40, taken));
    let done = |story: &mut Story| _ = story.then(1, Happening::CalledBack(event(), JobResult::Done(7), Taken::Yes));
    expect(ALWAYS, None, |story| {
        done(story);
        progress(story, Taken::No);
    });
    expect(ALWAYS, Some("no progress is taken of a job that its app has ended"), |story| {
        done(story);
        progress(story, Taken::Yes);
    });
    let shows = |story: &mut Story, percent| {
        story.stored.jobs.insert(event(), StoredJob { status: JobStatus::Dead, result: None, progress: Some(percent) });
    };
    expect(AT_THE_END, None, |story| {
        progress(story, Taken::Perhaps);
        shows(story, 40);
    });
    for taken in [Taken::Yes, Taken::No] {
        expect(AT_THE_END, Some("a job shows the progress that its app reported"), |story| {
            progress(story, taken);
            shows(story, if taken == Taken::Yes { 41 } else { 40 });
        });
    }
}

#[test]
fn a_call_that_waits_is_decided_once() {
    const RULE: Option<&str> = Some("every call that waits is decided once, and what is approved is one job");
    let decided = |story: &mut Story, decision| _ = story.then(2, Happening::PersonDecided(approval(), decision, Taken::Yes));
    expect(ALWAYS, None, |story| {
        decided(story, Decision::Answer(1));
        decided(story, Decision::Answer(1));
    });
    expect(ALWAYS, Some("of several decisions the first counts"), |story| {
        decided(story, Decision::Answer(1));
        decided(story, Decision::Answer(2));
    });
    let waits = |story: &mut Story, stored| {
        story.then(1, Happening::CallPending(CALL, approval()));
        story.stored.approvals.insert(approval(), stored);
    };
    let nothing = StoredApproval { decision: None, job: None };
    expect(AT_THE_END, None, |story| waits(story, nothing));
    expect(AT_THE_END, None, |story| {
        waits(story, StoredApproval { decision: Some(Decision::Reject), ..nothing });
        decided(story, Decision::Reject);
    });
    expect(AT_THE_END, RULE, |story| {
        waits(story, nothing);
        decided(story, Decision::Reject);
    });
    expect(AT_THE_END, RULE, |story| waits(story, StoredApproval { decision: Some(Decision::Queue), job: Some(event()) }));
    expect(AT_THE_END, RULE, |story| {
        story.then(1, Happening::CallPending(CALL, approval()));
    });
}
