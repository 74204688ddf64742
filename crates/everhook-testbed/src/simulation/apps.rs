//! An organization that calls an app. Some calls must be answered in time, whatever the app does, if need be by an answer of before; others are jobs that the
//! app takes and calls back about, sometimes with its progress, sometimes twice, sometimes with another result, sometimes never; and others become a job, or
//! wait for a person, if the app fails.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::{
    calls::{Found, answered::AnswerSource, call::CallRequest},
    ids::{ApplicationId, ApprovalId, EventId, OrganizationId, Ref},
    line::Line,
    manage::{
        jobs::{self, CallbackFor, CallbackRefusal, Called},
        manifests,
    },
    model::Author,
    ports::{Clock, StoreError},
    time::Timestamp,
};
use serde_json::json;
use tokio::task::JoinHandle;

use super::{
    Simulation,
    log::{CallNo, Entry, Happening, Log, Result as JobResult, Taken},
    oracle::{StoredJob, Violation},
    population::target_rules,
};

/// Where the app is.
pub(super) const APP: &str = "https://app.example";
/// Where this server is, as the app is told.
const SERVER: &str = "https://hooks.example";
/// What is called: answered at once, whatever happens; if need be by what is kept; done later; done later if the app fails; decided by a person if it does.
const AT_ONCE: &str = "sum";
pub(super) const KEPT: &str = "look";
const LATER: &str = "report";
const QUEUED: &str = "message";
const MANUAL: &str = "join";
/// Where the answers are given that are kept.
pub(super) const KEPT_PATH: &str = "/look";
/// How many questions there are whose answers are kept.
const QUESTIONS: u64 = 3;
/// Among how many of the newest requests of jobs the app chooses one to call back about.
const CHOICE: usize = 10;

/// Who calls, and what is under way.
pub(super) struct Caller {
    pub(super) organization: OrganizationId,
    application: ApplicationId,
    calls: usize,
    under_way: Vec<JoinHandle<()>>,
}

/// A request about a job that the app has got.
#[derive(Clone, Debug)]
pub(super) struct AskedJob {
    pub(super) job: EventId,
    token: String,
}

impl AskedJob {
    /// What a request's body says; `None` if it is not about a job.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let body: serde_json::Value = serde_json::from_slice(body).ok()?;
        let url = body["callbackUrl"].as_str()?;
        let (job, token) = url.rsplit_once('/')?.1.split_once("?token=")?;
        Some(Self { job: job.parse().ok()?, token: token.to_owned() })
    }
}

impl Simulation {
    /// Makes the organization and its application's manifest. Nothing goes wrong yet.
    pub(super) async fn settle_caller(&mut self) {
        let calling = self.settle_neighbor("Calling").await;
        let manifest = json!({ "base_url": APP, "health_path": null, "capabilities": {
            AT_ONCE: { "path": "/sum", "timeout": "1s", "fallback": [{ "type": "default", "static": 0 }] },
            KEPT: { "path": KEPT_PATH, "timeout": "1s", "fallback": [{ "type": "cache", "ttl": "5m" }, { "type": "error" }] },
            LATER: { "path": "/report", "async": true, "timeout": "10m", "retry": { "max_attempts": 4, "backoff": "linear" } },
            QUEUED: { "path": "/message", "timeout": "1s", "fallback": [{ "type": "queue" }] },
            MANUAL: { "path": "/join", "timeout": "1s", "fallback": [{ "type": "manual" }] },
        } });
        let (by, of) = (Author::server(calling.organization), Ref::Id(calling.application));
        manifests::put(self.world.line(), &by, &of, manifest.to_string(), &target_rules()).await.expect("the manifest is good");
        let (organization, application) = (calling.organization, calling.application);
        self.caller = Some(Caller { organization, application, calls: 0, under_way: Vec::new() });
    }

    /// Somebody calls the app, or the app calls back.
    pub(super) async fn let_the_caller_act(&mut self) -> Result<(), Violation> {
        match self.dice.below(14) {
            0..2 => self.call(AT_ONCE),
            2..5 => self.call(LATER),
            5..7 => self.call(KEPT),
            7 => self.call(QUEUED),
            8 => self.call(MANUAL),
            9 => self.report_progress_of_some().await,
            10 => self.let_a_person_decide().await,
            _ => self.call_back_about_some().await,
        }
        if self.disk.is_off() { self.come_back().await } else { Ok(()) }
    }

    /// The app calls back about everything that it was asked.
    pub(super) async fn let_the_app_finish(&mut self) {
        for asked in self.receivers.asked_jobs() {
            let result = JobResult::usual(asked.job);
            self.call_back(&asked, result).await;
        }
    }

    /// Callers go away with the process.
    pub(super) fn drop_callers(&mut self) {
        if let Some(caller) = &mut self.caller {
            caller.under_way.drain(..).for_each(|call| call.abort());
        }
    }

    /// What became of the jobs that anybody knows of.
    pub(super) async fn read_jobs(&self) -> Result<Vec<(EventId, StoredJob)>, StoreError> {
        let Some(caller) = &self.caller else { return Ok(Vec::new()) };
        let known = self.log.read(|entries| {
            let job = |entry: &Entry| match entry.what {
                Happening::CallQueued(_, job) | Happening::AppAsked(job) => Some(job),
                _ => None,
            };
            entries.iter().filter_map(job).collect::<BTreeSet<_>>()
        });
        let mut found = Vec::new();
        for id in known {
            if let Some(job) = jobs::get(self.world.line(), caller.organization, id).await? {
                let result = job.result.as_deref().and_then(|result| serde_json::from_slice(result).ok());
                let progress = job.progress.map(|progress| progress.percent);
                found.push((id, StoredJob { status: job.status, result, progress }));
            }
        }
        Ok(found)
    }

    fn call(&mut self, capability: &'static str) {
        let line = self.world.line().clone();
        let (clock, log) = (self.world.clock.clone(), self.log.clone());
        let Some(caller) = &mut self.caller else { return };
        caller.under_way.retain(|call| !call.is_finished());
        let (call, organization, application) = (CallNo(caller.calls), caller.organization, caller.application);
        let cache_key = (capability == KEPT).then(|| format!("question-{}", self.dice.below(QUESTIONS)));
        caller.calls += 1;
        log.note(Happening::CallBegan(call, capability));
        caller.under_way.push(tokio::spawn(async move {
            let ended = ask(&line, (organization, application), capability, cache_key, clock.now()).await;
            note(&log, call, ended);
        }));
    }

    /// One of the newest requests about jobs.
    fn some_asked_job(&mut self) -> Option<AskedJob> {
        let asked = self.receivers.asked_jobs();
        let newest = &asked[asked.len().saturating_sub(CHOICE)..];
        if newest.is_empty() { None } else { Some(newest[self.dice.below(newest.len() as u64) as usize].clone()) }
    }

    async fn report_progress_of_some(&mut self) {
        let Some(chosen) = self.some_asked_job() else { return };
        let percent = u8::try_from(self.dice.below(101)).expect("it is at most 100");
        let body = Bytes::from(format!(r#"{{"progress":{percent}}}"#));
        let taken = taken(answer(self.world.line(), &chosen, &body).await);
        self.log.note(Happening::ProgressReported(chosen.job, percent, taken));
    }

    async fn call_back_about_some(&mut self) {
        let Some(chosen) = self.some_asked_job() else { return };
        let result = match self.dice.below(8) {
            0 => JobResult::Failed,
            1 => JobResult::Done(self.dice.below(1_000)),
            _ => JobResult::usual(chosen.job),
        };
        self.call_back(&chosen, result).await;
    }

    async fn call_back(&self, asked: &AskedJob, result: JobResult) {
        let line = self.world.line().clone();
        let taken = taken(answer(&line, asked, &result.body()).await);
        self.log.note(Happening::CalledBack(asked.job, result, taken));
    }
}

/// What a caller hears.
enum Heard {
    Answer(AnswerSource),
    Job(EventId),
    Pending(ApprovalId),
    Nothing,
}

async fn ask(
    line: &Arc<Line>,
    (organization, application): (OrganizationId, ApplicationId),
    capability: &str,
    cache_key: Option<String>,
    arrived_at: Timestamp,
) -> Heard {
    let Ok(Found::Capability(capability)) = line.calls.find(organization, &Ref::Id(application), capability).await else {
        return Heard::Nothing;
    };
    let payload = Bytes::from_static(b"{}");
    let request = CallRequest { payload, cache_key, timeout: None, trace: None, callback_url: None, arrived_at, charge: None };
    match jobs::call(line, &capability, request, SERVER).await {
        Ok(Called::Queued(queued)) => Heard::Job(queued.job),
        Ok(Called::Answered(answer)) => answer.result.map_or(Heard::Nothing, |answer| Heard::Answer(answer.source)),
        Ok(Called::Pending(pending)) => Heard::Pending(pending.approval),
        Err(_) => Heard::Nothing,
    }
}

fn note(log: &Log, call: CallNo, heard: Heard) {
    log.note(match heard {
        Heard::Answer(source) => Happening::CallAnswered(call, source.as_str()),
        Heard::Job(job) => Happening::CallQueued(call, job),
        Heard::Pending(approval) => Happening::CallPending(call, approval),
        Heard::Nothing => Happening::CallRefused(call),
    });
}

fn taken(answered: Result<(), CallbackRefusal>) -> Taken {
    match answered {
        Ok(()) => Taken::Yes,
        Err(CallbackRefusal::Store(_) | CallbackRefusal::Busy) => Taken::Perhaps,
        Err(CallbackRefusal::NotFound) => Taken::Unknown,
        Err(CallbackRefusal::Ended | CallbackRefusal::Invalid(_) | CallbackRefusal::TooSoon { .. }) => Taken::No,
    }
}

async fn answer(line: &Line, asked: &AskedJob, body: &Bytes) -> Result<(), CallbackRefusal> {
    let record = jobs::find_answerable(line, CallbackFor { capability: LATER, job: asked.job, token: &asked.token }).await?;
    jobs::call_back(line, &record, body).await
}

impl JobResult {
    /// What the app makes of a job, unless it changes its mind.
    fn usual(job: EventId) -> Self {
        Self::Done(u64::from(job.as_uuid().as_bytes()[15]) + 1_000)
    }

    fn body(self) -> Bytes {
        Bytes::from(match self {
            Self::Done(number) => format!(r#"{{"success":true,"result":{number}}}"#),
            Self::Failed => r#"{"success":false,"error":{"code":"BAD"}}"#.to_owned(),
        })
    }
}

/// How long a caller of [`AT_ONCE`] waits, and what an answer may take beyond that.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_millis(1_050);
