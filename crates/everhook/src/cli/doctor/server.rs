//! A server that runs: whether it answers and takes events, whether its clock and this machine's agree, and what it says about its store and archive.

use std::{net::IpAddr, sync::Arc, time::Duration};

use everhook_core::time::Timestamp;
use http::{Method, StatusCode};
use serde_json::Value;
use url::Url;

use super::{
    DoctorArgs,
    report::{Check, Report},
};
use crate::{
    cli::client::{Answer, Connection, Server},
    config::Config,
};

/// How long a server may take to answer: a person waits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How far clocks may be apart before it is a warning. `Date` has whole seconds.
const CLOCKS_AGREE_WITHIN: Duration = Duration::from_secs(2);
/// How far before receivers refuse what is sent: the tolerance of Standard Webhooks.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(300);

/// A server that answers.
pub(super) struct Found {
    pub(super) server: Arc<Server>,
    pub(super) url: Url,
    /// The response of `GET /v1/storage`, if the key permits it.
    pub(super) storage: Option<Value>,
    /// The id of its sealing key, if the key permits it.
    pub(super) seal_key_id: Option<String>,
    pub(super) has_key: bool,
}

/// Checks the server; `None` if none answers.
pub(super) async fn examine(args: &DoctorArgs, config: &Config, report: &mut Report) -> Option<Found> {
    let url = args.url.clone().unwrap_or_else(|| own_url(config));
    let key = args.key.clone().or_else(|| config.admin_key.as_ref().map(|key| key.expose().clone()));
    let server = match Server::new(&url, key.as_deref()) {
        Ok(server) => server,
        Err(error) => {
            report.add(Check::problem("server", format!("{error:#}"), "correct --url and --key"));
            return None;
        }
    };
    let mut connection = Connection::new(server.clone());
    let ready = match ask(&mut connection, "/readyz").await {
        Ok(answer) => answer,
        Err(why) => {
            report.add(unreachable(args, &url, &why));
            return None;
        }
    };
    report.add(readiness(&url, &ready));
    report.add(clock(&ready, now()));
    let has_key = key.is_some();
    let storage = look(&mut connection, "/v1/storage", has_key, report).await;
    report.add(store(&url, storage.as_ref(), &ready));
    if let Some(archive) = storage.as_ref().map(|storage| &storage["archive"]).filter(|archive| !archive.is_null()) {
        report.add(server_archive(archive));
    }
    let sealing = if storage.is_some() { json_of(&mut connection, "/v1/sealing").await } else { None };
    let seal_key_id = sealing.as_ref().and_then(|sealing| sealing["key_id"].as_str()).map(str::to_owned);
    Some(Found { server, url, storage, seal_key_id, has_key })
}

/// Where the configuration says that the server listens. One that listens everywhere listens here.
fn own_url(config: &Config) -> Url {
    let mut listen = config.listen;
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen.ip() {
            IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{listen}").parse().expect("an address and a port make a URL")
}

async fn ask(connection: &mut Connection, path: &str) -> Result<Answer, String> {
    match tokio::time::timeout(ANSWER_TIMEOUT, connection.send(Method::GET, path, "")).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err(format!("no response within {} s", ANSWER_TIMEOUT.as_secs())),
    }
}

async fn json_of(connection: &mut Connection, path: &str) -> Option<Value> {
    ask(connection, path).await.ok()?.into_json().ok()
}

/// Reads what only admins may read.
async fn look(connection: &mut Connection, path: &str, has_key: bool, report: &mut Report) -> Option<Value> {
    if !has_key {
        report.add(Check::skipped("api key", "not given: set --key or EVERHOOK_KEY to an admin key for the checks that need one"));
        return None;
    }
    match ask(connection, path).await.map_err(anyhow::Error::msg).and_then(Answer::into_json) {
        Ok(storage) => {
            report.add(Check::ok("api key", "has the scope `admin`"));
            Some(storage)
        }
        Err(error) => {
            report.add(Check::warning("api key", format!("{error:#}"), "use a key with the scope `admin`"));
            None
        }
    }
}

/// A server that was named with `--url` must answer; one at the default address may just not have been started.
fn unreachable(args: &DoctorArgs, url: &Url, why: &str) -> Check {
    let finding = format!("{}: {why}", shown(url));
    match args.url {
        Some(_) => Check::problem("server", finding, "start it, or correct --url"),
        None => Check::warning("server", finding, "start it, or set --url; checks that need a server are skipped"),
    }
}

fn readiness(url: &Url, ready: &Answer) -> Check {
    let shown = shown(url);
    let body: Value = serde_json::from_slice(&ready.body).unwrap_or_default();
    match (ready.status, body["status"].as_str()) {
        (StatusCode::OK, Some("ok")) => Check::ok("server", format!("{shown} is ready")),
        (StatusCode::OK, Some("degraded")) => Check::warning(
            "server",
            format!("{shown} accepts events, but is degraded: {body}"),
            "the database is unavailable, or the clock of the node is wrong: see its log",
        ),
        (StatusCode::OK, _) => Check::problem("server", format!("{shown} is not an Everhook server"), "correct --url"),
        (status, _) => Check::problem(
            "server",
            format!("{shown} does not accept events: {}", body["detail"].as_str().unwrap_or(status.as_str())),
            "see its log",
        ),
    }
}

/// The server's own check of its store, which `/readyz` runs.
fn store(url: &Url, storage: Option<&Value>, ready: &Answer) -> Check {
    match storage {
        Some(_) => Check::ok("store", "the server can read it"),
        None if ready.status.is_success() => Check::ok("store", "the server reports that it is available"),
        None => Check::problem("store", format!("{} cannot use it", shown(url)), "see the log of the server"),
    }
}

fn server_archive(archive: &Value) -> Check {
    let folder = archive["folder"].as_str().unwrap_or_default();
    match (archive["failing_since"].as_str(), archive["last_error"].as_str()) {
        (Some(since), error) => Check::problem(
            "archiving",
            format!("the server cannot write to {folder} since {since}: {}", error.unwrap_or("unknown")),
            "free space there, or unset `archive`; until then, expired data that would be archived is kept",
        ),
        (None, _) => match archive["written_at"].as_str() {
            Some(at) => Check::ok("archiving", format!("the server last wrote to {folder} at {at}")),
            None => Check::ok("archiving", format!("to {folder}; nothing has been written since the server started")),
        },
    }
}

fn clock(answer: &Answer, now: Timestamp) -> Check {
    let date = answer.date.as_deref().and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let Some(date) = date else {
        return Check::skipped("clock", "the response has no `Date`");
    };
    let theirs = Timestamp::from_micros(date.timestamp().as_microsecond());
    let apart = now.since(theirs).max(theirs.since(now));
    if apart <= CLOCKS_AGREE_WITHIN {
        return Check::ok("clock", "agrees with the server's clock");
    }
    let finding = format!("the clocks of the server and this machine are {} s apart", apart.as_secs());
    let advice = "synchronize both with NTP: signatures carry the time, and receivers refuse requests that are too old or too new";
    if apart >= CLOCKS_APART_MAX { Check::problem("clock", finding, advice) } else { Check::warning("clock", finding, advice) }
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
}

/// The URL without a password that it may have.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{super::report::Verdict, *};

    fn answer(status: u16, date: Option<&str>, body: &str) -> Answer {
        Answer { status: StatusCode::from_u16(status).unwrap(), date: date.map(str::to_owned), body: body.to_owned().into() }
    }

    #[test]
    fn clocks_that_are_apart_are_found() {
        let now = Timestamp::from_secs(1_700_000_000);
        let table = [
            (Some("Tue, 14 Nov 2023 22:13:20 GMT"), Verdict::Ok),
            (Some("Tue, 14 Nov 2023 22:13:22 GMT"), Verdict::Ok),
            (Some("Tue, 14 Nov 2023 22:13:50 GMT"), Verdict::Warning),
            (Some("Tue, 14 Nov 2023 22:12:50 GMT"), Verdict::Warning),
            (Some("Tue, 14 Nov 2023 22:23:20 GMT"), Verdict::Problem),
            (Some("yesterday"), Verdict::Skipped),
            (None, Verdict::Skipped),
        ];
        for (date, expected) in table {
            assert_eq!(clock(&answer(200, date, ""), now).verdict, expected, "{date:?}");
        }
    }

    #[test]
    fn what_a_server_says_of_itself_is_judged() {
        let url: Url = "http://user:secret@localhost:1/".parse().unwrap();
        let table = [
            (200, r#"{"status":"ok"}"#, Verdict::Ok),
            (200, r#"{"status":"degraded"}"#, Verdict::Warning),
            (200, "<html>", Verdict::Problem),
            (503, r#"{"detail":"no space left on the data disk"}"#, Verdict::Problem),
        ];
        for (status, body, expected) in table {
            let check = readiness(&url, &answer(status, None, body));
            assert_eq!(check.verdict, expected, "{body}");
            assert!(!format!("{check:?}").contains("secret"));
        }
    }
}
