//! `bench --calls --svg`: what callers see while an app hangs for some seconds: with nothing between, with a wrapper as many write one, and with Everhook.
//!
//! All three at the same time, against the same app, with as many callers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http::Method;
use serde_json::json;

use super::{
    calls::is_from_app,
    fault_app::{Behavior, FaultApp},
    report::Percentiles,
};
use crate::cli::client::{Connection, Server};

/// How long a caller may wait.
pub const TIMEOUT: Duration = Duration::from_millis(500);
/// From one call of each kind to the next.
const EVERY: Duration = Duration::from_millis(50);
/// After how many failures in a row a breaker opens, and for how long.
pub const BREAKER_FAILURES: u32 = 5;
pub const BREAKER_SLEEP: Duration = Duration::from_secs(1);
/// What the wrapper waits before it tries once more.
const RETRY_DELAY: Duration = Duration::from_millis(50);
const CALL: &str = "/v1/applications/bench-picture/call/ask";

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Nothing,
    Wrapper,
    Everhook,
}

impl Caller {
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Wrapper, Self::Everhook];
}

/// Who answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    App,
    Fallback,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub caller: Caller,
    /// When it began, from the beginning of the run.
    pub at: Duration,
    pub took: Duration,
    pub source: Source,
}

/// What was recorded.
pub struct Picture {
    pub samples: Vec<Sample>,
    /// When the app began to hang, and when it was back.
    pub fault: (Duration, Duration),
    pub ends_at: Duration,
}

impl Picture {
    /// How long the calls of one kind took that began while the app hung.
    pub fn during_fault(&self, caller: Caller) -> Percentiles {
        let of_it = self.samples.iter().filter(|sample| sample.caller == caller && (self.fault.0..self.fault.1).contains(&sample.at));
        Percentiles::of_micros(of_it.map(|sample| u32::try_from(sample.took.as_micros()).unwrap_or(u32::MAX)).collect())
    }

    /// How many of them waited longer than callers may.
    pub fn too_late(&self, caller: Caller) -> usize {
        let limit = TIMEOUT + Duration::from_millis(50);
        self.samples.iter().filter(|sample| sample.caller == caller && sample.took > limit).count()
    }

    /// The same in words.
    pub fn text(&self) -> String {
        let line = |caller: Caller| {
            let ms = self.during_fault(caller);
            format!("{caller:?}: p50 {:.1} ms, p99 {:.1}, max {:.1}; {} calls took too long", ms.p50, ms.p99, ms.max, self.too_late(caller))
        };
        format!("while the app hangs\n{}", Caller::ALL.map(line).join("\n"))
    }
}

/// Records a run.
///
/// # Errors
/// If the app cannot be started or a call has no answer.
pub async fn record(server: &Arc<Server>, is_quick: bool) -> anyhow::Result<Picture> {
    let mut app = FaultApp::start().await?;
    set_up(server, &app).await?;
    let seconds = |full: u64| Duration::from_secs(if is_quick { full.div_ceil(3) } else { full });
    let (fault, ends_at) = ((seconds(3), seconds(9)), seconds(14));
    let direct = Server::new(&format!("http://{}", app.address).parse()?, None)?;
    let callers = Arc::new(Callers { direct, everhook: server.clone(), wrapper: Mutex::default() });
    let (begun, mut calls) = (Instant::now(), tokio::task::JoinSet::new());
    let mut next = Duration::ZERO;
    let mut behavior = Behavior::Good;
    while next < ends_at {
        tokio::time::sleep_until((begun + next).into()).await;
        let wanted = if (fault.0..fault.1).contains(&next) { Behavior::Hangs } else { Behavior::Good };
        if wanted != behavior {
            app.set(wanted).await?;
            behavior = wanted;
        }
        for caller in Caller::ALL {
            let callers = callers.clone();
            calls.spawn(async move {
                let asked_at = Instant::now();
                let source = callers.call(caller).await?;
                anyhow::Ok(Sample { caller, at: asked_at.duration_since(begun), took: asked_at.elapsed(), source })
            });
        }
        next += EVERY;
    }
    let mut samples = Vec::new();
    while let Some(ended) = calls.join_next().await {
        samples.push(ended.context("a caller panicked")??);
    }
    samples.sort_by_key(|sample| sample.at);
    Ok(Picture { samples, fault, ends_at })
}

async fn set_up(server: &Arc<Server>, app: &FaultApp) -> anyhow::Result<()> {
    let mut connection = Connection::new(server.clone());
    let made = json!({"name": "bench-picture", "uid": "bench-picture"});
    // A server that was measured before has it.
    let _ = connection.ask(Method::POST, "/v1/applications", Some(&made)).await;
    let breaker =
        json!({"failure_threshold": BREAKER_FAILURES, "sleep_window_ms": BREAKER_SLEEP.as_millis() as u64, "success_threshold": 1});
    let ask = json!({"path": "/", "timeout": TIMEOUT.as_millis() as u64, "circuit_breaker": breaker, "fallback": [{"type": "default", "static": {"ok": false}}]});
    let manifest = json!({"base_url": format!("http://{}", app.address), "capabilities": {"ask": ask}});
    connection.ask(Method::PUT, "/v1/applications/bench-picture/manifest", Some(&manifest)).await.context("the manifest is refused")?;
    connection.send(Method::POST, CALL, &br#"{"payload":1}"#[..]).await?;
    Ok(())
}

struct Callers {
    direct: Arc<Server>,
    everhook: Arc<Server>,
    wrapper: Mutex<LocalBreaker>,
}

impl Callers {
    async fn call(&self, caller: Caller) -> anyhow::Result<Source> {
        match caller {
            Caller::Nothing => self.direct().await.map(|()| Source::App),
            Caller::Wrapper => Ok(self.wrapped().await),
            Caller::Everhook => {
                let answer = Connection::new(self.everhook.clone()).send(Method::POST, CALL, &br#"{"payload":1}"#[..]).await?;
                Ok(if is_from_app(&answer.body) { Source::App } else { Source::Fallback })
            }
        }
    }

    async fn direct(&self) -> anyhow::Result<()> {
        Connection::new(self.direct.clone()).send(Method::POST, "/", &br#"1"#[..]).await.map(|_| ())
    }

    /// A timeout, a retry and a breaker in memory, as in a few dozen lines around an HTTP client. Each try has the whole timeout, and all who find the breaker
    /// half-open probe the app.
    async fn wrapped(&self) -> Source {
        let breaker = || self.wrapper.lock().unwrap_or_else(PoisonError::into_inner);
        for attempt in 0..2 {
            if breaker().is_open() {
                return Source::Fallback;
            }
            if attempt > 0 {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            let is_good = matches!(tokio::time::timeout(TIMEOUT, self.direct()).await, Ok(Ok(())));
            breaker().note(is_good);
            if is_good {
                return Source::App;
            }
        }
        Source::Fallback
    }
}

/// The breaker of the wrapper.
#[derive(Default)]
struct LocalBreaker {
    failures: u32,
    open_until: Option<Instant>,
}

impl LocalBreaker {
    fn is_open(&self) -> bool {
        self.open_until.is_some_and(|until| Instant::now() < until)
    }

    fn note(&mut self, is_good: bool) {
        self.failures = if is_good { 0 } else { self.failures + 1 };
        self.open_until = (self.failures >= BREAKER_FAILURES).then(|| Instant::now() + BREAKER_SLEEP);
    }
}
