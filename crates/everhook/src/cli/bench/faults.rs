//! `bench --calls`: 200 callers at once against an app with each of the faults that apps have, and that its recovery is noticed.
//!
//! The limit of concurrency begins at twenty for each app, of which one capability leaves some to others, and shrinks with each timeout: who is over it is
//! answered at once, and does not wait. So that all 200 wait, there are as many applications as that takes, and each fault has a capability of its own.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use http::Method;
use serde_json::json;

use super::{
    calls::{Finding, Target, is_from_app},
    fault_app::{Behavior, FaultApp, LATE},
    report::Percentiles,
};
use crate::cli::client::{Connection, Server};

/// How many applications there are, and how many callers each has.
const APPLICATIONS: u32 = 20;
const CALLERS_OF_ONE: u32 = 10;
/// How long a call may take, and what beyond that.
const TIMEOUT: Duration = Duration::from_millis(500);
const SLACK_MS: f64 = 50.0;
/// How long until the app's recovery is seen, at most.
const RECOVERY_MAX: Duration = Duration::from_secs(5);

/// Measures each fault.
///
/// # Errors
/// If an answer is from the wrong step, or names the wrong reason; or if the app's recovery is not noticed.
pub async fn measure(server: &Arc<Server>) -> anyhow::Result<Vec<Finding>> {
    let mut app = FaultApp::start().await?;
    set_up(server, &app).await?;
    let mut findings = Vec::new();
    for fault in Behavior::FAULTS {
        app.set(fault).await?;
        let mut micros = wave(server, fault).await.with_context(|| format!("the app's fault is `{}`", fault.as_str()))?;
        app.set(Behavior::Good).await?;
        let recovered_after = recover(server, fault).await?;
        micros.sort_unstable();
        let ms = Percentiles::of_micros(micros);
        findings.push(Finding {
            name: name_of(fault),
            value: ms.p99,
            unit: "ms",
            target: Target::AtMost(TIMEOUT.as_secs_f64() * 1e3 + SLACK_MS),
            note: format!(
                "{} callers, p50 {:.1} ms, max {:.1}; the app's next answer is used after {} ms",
                APPLICATIONS * CALLERS_OF_ONE,
                ms.p50,
                ms.max,
                recovered_after.as_millis()
            ),
        });
        // What is waited for after its deadline keeps its place until then.
        tokio::time::sleep(LATE.max(TIMEOUT)).await;
    }
    Ok(findings)
}

const fn name_of(fault: Behavior) -> &'static str {
    match fault {
        Behavior::Good => "app is well, p99",
        Behavior::Hangs => "app hangs, p99",
        Behavior::Drips => "app drips, p99",
        Behavior::Resets => "app resets connections, p99",
        Behavior::Fails => "app answers 500, p99",
        Behavior::Garbage => "app answers garbage, p99",
        Behavior::Late => "app answers late, p99",
        Behavior::TooMuch => "app answers too much, p99",
        Behavior::Closed => "app is not there, p99",
    }
}

async fn set_up(server: &Arc<Server>, app: &FaultApp) -> anyhow::Result<()> {
    let capability = json!({
        "path": "/", "timeout": TIMEOUT.as_millis() as u64, "max_concurrency": 500,
        "circuit_breaker": {"enabled": false}, "fallback": [{"type": "default", "static": {"ok": false}}],
    });
    let capabilities: serde_json::Map<_, _> = Behavior::FAULTS.iter().map(|fault| (capability_of(*fault), capability.clone())).collect();
    let manifest = json!({"base_url": format!("http://{}", app.address), "capabilities": capabilities});
    let mut connection = Connection::new(server.clone());
    for n in 0..APPLICATIONS {
        let uid = application(n);
        let made = json!({"name": uid, "uid": uid});
        // A server that was measured before has them.
        let _ = connection.ask(Method::POST, "/v1/applications", Some(&made)).await;
        let path = format!("/v1/applications/{uid}/manifest");
        connection.ask(Method::PUT, &path, Some(&manifest)).await.context("the manifest is refused")?;
        // What is read of it at the first call is no part of what is measured.
        for fault in Behavior::FAULTS {
            ask(&mut connection, &path_of(n, fault)).await?;
        }
    }
    Ok(())
}

fn application(n: u32) -> String {
    format!("bench-fault-{n}")
}

fn capability_of(fault: Behavior) -> String {
    format!("fault-{}", fault.as_str())
}

fn path_of(n: u32, fault: Behavior) -> String {
    format!("/v1/applications/{}/call/{}", application(n), capability_of(fault))
}

async fn ask(connection: &mut Connection, path: &str) -> anyhow::Result<Vec<u8>> {
    let answer = connection.send(Method::POST, path, &br#"{"payload":{"q":1}}"#[..]).await?;
    ensure!(answer.status.is_success(), "{path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
    Ok(answer.body.to_vec())
}

/// All callers at once. How long each waited, in microseconds.
async fn wave(server: &Arc<Server>, fault: Behavior) -> anyhow::Result<Vec<u32>> {
    let mut callers = Vec::new();
    for n in (0..APPLICATIONS).flat_map(|n| std::iter::repeat_n(n, CALLERS_OF_ONE as usize)) {
        let mut connection = Connection::new(server.clone());
        connection.open().await?;
        callers.push(async move {
            let asked_at = Instant::now();
            let answer = ask(&mut connection, &path_of(n, fault)).await?;
            let took = u32::try_from(asked_at.elapsed().as_micros()).unwrap_or(u32::MAX);
            check(&answer, fault)?;
            anyhow::Ok(took)
        });
    }
    futures_util::future::try_join_all(callers).await
}

/// The answer is from the fallback, and says why.
fn check(answer: &[u8], fault: Behavior) -> anyhow::Result<()> {
    let answer: serde_json::Value = serde_json::from_slice(answer)?;
    let reason = answer["warning"].as_str().unwrap_or_default();
    let reason = reason.split(':').next().unwrap_or_default();
    ensure!(
        answer["source"] == "default" && reason == fault.reason(),
        "answered from `{}` because of `{reason}`, instead of from `default` because of `{}`",
        answer["source"].as_str().unwrap_or_default(),
        fault.reason()
    );
    Ok(())
}

/// The app is well again: how long until its answers are used in every application.
async fn recover(server: &Arc<Server>, fault: Behavior) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let mut connection = Connection::new(server.clone());
    for n in 0..APPLICATIONS {
        while !is_from_app(&ask(&mut connection, &path_of(n, fault)).await?) {
            if begun.elapsed() > RECOVERY_MAX {
                bail!("the app works again after `{}`, and its answers are not used", fault.as_str());
            }
        }
    }
    Ok(begun.elapsed())
}
