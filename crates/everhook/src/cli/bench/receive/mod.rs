//! `bench --receive`: what receiving webhooks costs, on a throw-away server with the embedded store.
//!
//! Each step has sources, endpoints and an application of its own. In the end the server is killed, started again on its folder, and every event that was
//! answered with a success must be there.

mod pushes;
mod report;
mod verifying;

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::{Context as _, bail, ensure};
use http::{HeaderName, HeaderValue, Method};
use indicatif::ProgressBar;
use serde_json::{Value, json};

pub use self::pushes::PushTarget;
use self::{
    pushes::{ATHLETES, Provider, SECRET, SUBSCRIPTION},
    report::{Durable, Pushes, Report, Target},
};
use super::{
    BenchArgs, Place,
    children::{ServerProcess, SinkProcess},
    load::PublishPath,
    measure_limit, procs, progress_bar,
    report::{Outcome, Percentiles},
    say,
    scenarios::{Bench, Subject},
};
use crate::cli::{client::Connection, scratch::ScratchFolder};

/// How many sources share the pushes at full speed: a source takes at most a million requests a minute from one address.
const SOURCES: u32 = 8;
const RATE_LIMIT_PER_MINUTE: u32 = 1_000_000;
/// How many endpoints never answer, and as many that always fail.
const DEAD_ENDPOINTS: u32 = 5;
const PACED_PER_SECOND: f64 = 200.0;
const BATCH_ITEMS: u64 = 1_000;

/// What is aimed at.
const SHARE_OF_LIMIT: f64 = 0.5;
const ANSWER_P99_MS: f64 = 5.0;
const BATCH_MAX_MS: f64 = 50.0;

/// How many requests each step makes.
struct Sizes {
    pushes: u64,
    paced: u64,
    batches: u64,
    handshakes: u64,
}

impl Sizes {
    fn of(args: &BenchArgs) -> Self {
        let (pushes, paced, batches, handshakes) = if args.quick { (10_000, 1_000, 5, 500) } else { (50_000, 6_000, 30, 5_000) };
        // Fewer events make every step smaller; more make only the steps at full speed larger.
        let at_most = |count: u64| args.events.map_or(count, |events| events.min(count));
        Self { pushes: args.events.unwrap_or(pushes), paced: at_most(paced), batches: at_most(batches), handshakes: at_most(handshakes) }
    }
}

/// Measures and prints.
///
/// # Errors
/// When the server cannot be started, refuses something, or has lost something that it accepted.
pub(super) async fn run(args: &BenchArgs, place: &Place) -> anyhow::Result<()> {
    let Place::Folder { parent, .. } = place else { bail!("receiving is measured on a server of its own") };
    say(args, &place.text(args));
    let folder = ScratchFolder::make(parent, "bench")?;
    let report = measure(args, folder.path()).await?;
    match args.json {
        true => anstream::println!("{}", report.to_json()),
        false => say(args, &report.to_text()),
    }
    let Durable { accepted, found } = report.durable;
    ensure!(accepted == found, "{accepted} events were accepted, and the store has {found}");
    Ok(())
}

async fn measure(args: &BenchArgs, folder: &Path) -> anyhow::Result<Report> {
    let (sink, sizes) = (SinkProcess::start()?, Sizes::of(args));
    let (bench, bar) = (bench(args, &sink), progress_bar());
    let limit = measure_limit(args, &bench, &bar).await?;
    // Nobody answers there: the processor of Strava's events waits for nothing.
    let dead_api = format!("{}hang", sink.url);
    let settings = [("EVERHOOK_STRAVA_API_URL", dead_api.as_str()), ("EVERHOOK_ALLOW_HTTP", "true")];
    let server = ServerProcess::start_with(folder, None, &settings).await?;
    let mut receiving = Receiving::new(&server, bench, bar);
    let pushes = receiving.measure_all(&sizes).await?;
    let peak_memory_mb = procs::memory(server.pid()).map(|memory| memory.peak_mb);
    let sources = std::mem::take(&mut receiving.sources);
    receiving.bar.finish_and_clear();
    drop(receiving);
    server.kill();
    let again = ServerProcess::start_with(folder, None, &settings).await?;
    let durable = count_events(&again, &sources).await?;
    again.kill();
    let verifying_us = verifying::microseconds_for_10_kib()?;
    Ok(Report { limit_per_second: limit.delivered_per_second, pushes, verifying_us, peak_memory_mb, durable })
}

fn bench<'a>(args: &BenchArgs, sink: &'a SinkProcess) -> Bench<'a> {
    Bench { sink, connections: args.connections, data_bytes: args.size, max_concurrency: None }
}

/// A source, and how many events it accepted.
struct Filled {
    id: String,
    accepted: u64,
}

/// A server that receives, and who posts to it.
struct Receiving<'a> {
    process: &'a ServerProcess,
    /// As its administrator.
    admin: Connection,
    bench: Bench<'a>,
    bar: ProgressBar,
    sources: Vec<Filled>,
}

impl<'a> Receiving<'a> {
    fn new(process: &'a ServerProcess, bench: Bench<'a>, bar: ProgressBar) -> Self {
        Self { process, admin: Connection::new(process.server.clone()), bench, bar, sources: Vec::new() }
    }

    async fn measure_all(&mut self, sizes: &Sizes) -> anyhow::Result<Vec<Pushes>> {
        // First, while nothing is left to deliver.
        let mut measured = self.handshakes(sizes.handshakes).await?;
        measured.push(self.full_speed("stored", "GitHub pushes, stored", sizes.pushes, 0).await?);
        measured.push(self.full_speed("forwarded", "GitHub pushes, 1 endpoint", sizes.pushes, 1).await?);
        measured.push(self.batches(sizes.batches).await?);
        // Last, because what it leaves behind is tried again until the end.
        measured.push(self.dead_destinations(sizes.paced).await?);
        Ok(measured)
    }

    /// Pushes as fast as they are answered.
    async fn full_speed(&mut self, name: &'static str, title: &'static str, count: u64, endpoints: u32) -> anyhow::Result<Pushes> {
        let application = self.application(name).await?;
        for number in 0..endpoints {
            self.endpoint(&application, &format!("e/{number}")).await?;
        }
        let mut targets = Vec::new();
        for number in 0..SOURCES {
            let more = json!({"name": format!("{name}-{number}"), "kind": "github", "forward": endpoints > 0});
            targets.push(self.source(&application, Provider::GitHub, more).await?);
        }
        let outcome = self.push(title, targets, count, endpoints, None).await?;
        Ok(described(name, title, &outcome, count, Some(Target::ShareOfLimit(SHARE_OF_LIMIT)).filter(|_| endpoints == 0)))
    }

    /// Batches, one after the other, with an endpoint that gets every item.
    async fn batches(&mut self, count: u64) -> anyhow::Result<Pushes> {
        let (name, title) = ("batch", "Meta batches of 1,000 items");
        let application = self.application(name).await?;
        self.endpoint(&application, "well/batch").await?;
        let target = self
            .source(&application, Provider::Meta { items: BATCH_ITEMS }, json!({"name": name, "kind": "meta", "verify_token": "v"}))
            .await?;
        let connections = std::mem::replace(&mut self.bench.connections, 1);
        let outcome = self.push(title, vec![target], count, 0, None).await;
        self.bench.connections = connections;
        Ok(described(name, title, &outcome?, count, Some(Target::MaxMs(BATCH_MAX_MS))))
    }

    /// Pushes at a steady rate while no endpoint answers and the processor cannot do anything.
    async fn dead_destinations(&mut self, count: u64) -> anyhow::Result<Pushes> {
        let (name, title) = ("dead_destinations", "200/s, all destinations dead");
        let application = self.application(name).await?;
        for number in 0..DEAD_ENDPOINTS {
            self.endpoint(&application, &format!("hang/{number}")).await?;
            self.endpoint(&application, &format!("fail/{number}")).await?;
        }
        for athlete in 0..ATHLETES {
            let connection = json!({
                "provider": "strava", "external_user_id": athlete.to_string(), "profile_id": format!("bench {athlete}"), "access_token": "bench",
                "refresh_token": "bench", "expires_at": "2099-01-01T00:00:00Z",
            });
            self.admin.ask(Method::POST, "/v1/health/connections", Some(&connection)).await.context("cannot connect an athlete")?;
        }
        let github = self.source(&application, Provider::GitHub, json!({"name": "dead-github", "kind": "github"})).await?;
        let strava = json!({"name": "dead-strava", "kind": "strava", "subscription_id": SUBSCRIPTION, "processor": "health"});
        let strava = self.source(&application, Provider::Strava, strava).await?;
        let outcome = self.push(title, vec![github, strava], count, 0, Some(PACED_PER_SECOND)).await?;
        Ok(described(name, title, &outcome, count, Some(Target::P99Ms(ANSWER_P99_MS))))
    }

    async fn handshakes(&mut self, count: u64) -> anyhow::Result<Vec<Pushes>> {
        let application = self.application("handshakes").await?;
        let strava = json!({"name": "handshake-strava", "kind": "strava", "verify_token": "v"});
        let strava = self.source(&application, Provider::Strava, strava).await?;
        let slack = self.source(&application, Provider::GitHub, json!({"name": "handshake-slack", "kind": "slack"})).await?;
        let get = (Method::GET, format!("{}?hub.mode=subscribe&hub.verify_token=v&hub.challenge=bench", strava.path), "");
        let body = r#"{"type":"url_verification","token":"t","challenge":"bench"}"#;
        let strava = self.shake_hands("handshake_get", "Strava handshakes", get, count).await?;
        Ok(vec![strava, self.shake_hands("handshake_post", "Slack handshakes", (Method::POST, slack.path, body), count).await?])
    }

    /// Makes one handshake after the other, and reads each answer.
    async fn shake_hands(
        &self,
        name: &'static str,
        title: &'static str,
        (method, path, body): (Method, String, &'static str),
        count: u64,
    ) -> anyhow::Result<Pushes> {
        let mut connection = Connection::new(self.process.server.without_key());
        connection.open().await?;
        let (cpu_before, began_at) = (procs::cpu_seconds(self.process.pid()), Instant::now());
        let mut answer_us = Vec::new();
        for _ in 0..count {
            let asked_at = Instant::now();
            let headers = slack_headers(body);
            let answer = connection.send_with(method.clone(), &path, &headers, body).await?;
            answer_us.push(u32::try_from(asked_at.elapsed().as_micros()).unwrap_or(u32::MAX));
            let is_echo = answer.body.windows(5).any(|part| part == b"bench");
            ensure!(answer.status.is_success() && is_echo, "{title}: answered {}", answer.status);
        }
        let took = began_at.elapsed().as_secs_f64();
        let cpu = cpu_before.zip(procs::cpu_seconds(self.process.pid())).map(|(before, now)| now - before);
        Ok(Pushes {
            name,
            title,
            accepted_per_second: count as f64 / took.max(f64::MIN_POSITIVE),
            answer_ms: Percentiles::of_micros(answer_us),
            server_cpu_us: cpu.map(|seconds| seconds * 1e6 / count as f64),
            target: Some(Target::P99Ms(ANSWER_P99_MS)),
        })
    }

    /// Pushes through the sources, remembers what each accepted, and fails if anything was refused, lost or delivered twice.
    async fn push(
        &mut self,
        title: &'static str,
        targets: Vec<PushTarget>,
        count: u64,
        endpoints: u32,
        rate: Option<f64>,
    ) -> anyhow::Result<Outcome> {
        self.bar.reset();
        self.bar.set_message(title);
        let first = self.sources.len() - targets.len();
        for (place, target) in (0_u64..).zip(&targets) {
            // They take turns, so that each gets its share, and the first ones one more.
            let pushes = count / targets.len() as u64 + u64::from(place < count % targets.len() as u64);
            self.sources[first + usize::try_from(place).unwrap_or(0)].accepted = pushes * target.provider.events_a_push();
        }
        let provider = self.process.server.without_key();
        let subject = Subject { server: &provider, pid: Some(self.process.pid()) };
        let outcome = self.bench.measure(PublishPath::Sources(targets), count, endpoints, rate, &subject, &self.bar).await?;
        let proof = &outcome.proof;
        ensure!(proof.holds(), "{title}: {proof:?}");
        Ok(outcome)
    }

    async fn application(&mut self, name: &str) -> anyhow::Result<String> {
        id_of(
            &self
                .admin
                .ask(Method::POST, "/v1/applications", Some(&json!({"name": name})))
                .await
                .context("cannot create an application")?,
        )
    }

    async fn endpoint(&mut self, application: &str, path: &str) -> anyhow::Result<()> {
        let endpoint = json!({"url": format!("{}{path}", self.bench.sink.url), "event_types": ["*"], "application_id": application, "payload_style": "raw"});
        self.admin.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.context("cannot create an endpoint")?;
        Ok(())
    }

    async fn source(&mut self, application: &str, provider: Provider, mut source: Value) -> anyhow::Result<PushTarget> {
        source["application_id"] = json!(application);
        source["rate_limit"] = json!({"per_ip_per_minute": RATE_LIMIT_PER_MINUTE});
        if source["kind"] != "strava" {
            source["secrets"] = json!([SECRET]);
        }
        let made = self.admin.ask(Method::POST, "/v1/sources", Some(&source)).await.context("cannot create a source")?;
        let id = id_of(&made)?;
        let path = format!("/in/{id}");
        self.sources.push(Filled { id, accepted: 0 });
        Ok(PushTarget { path, provider })
    }
}

/// Slack signs its handshakes as well; what is signed too much is passed over by the others.
fn slack_headers(body: &str) -> Vec<(HeaderName, HeaderValue)> {
    let seconds = super::marker::now_ns() / 1_000_000_000;
    let signature = format!("v0={}", pushes::signature_hex(format!("v0:{seconds}:{body}").as_bytes()));
    let signature = HeaderValue::try_from(signature).expect("hexadecimal digits");
    vec![
        (HeaderName::from_static("x-slack-request-timestamp"), HeaderValue::from(seconds)),
        (HeaderName::from_static("x-slack-signature"), signature),
    ]
}

fn described(name: &'static str, title: &'static str, outcome: &Outcome, count: u64, target: Option<Target>) -> Pushes {
    let Outcome { accepted_per_second, answer_ms, server_cpu_seconds, .. } = *outcome;
    let server_cpu_us = server_cpu_seconds.map(|seconds| seconds * 1e6 / count.max(1) as f64);
    Pushes { name, title, accepted_per_second, answer_ms, server_cpu_us, target }
}

fn id_of(made: &Value) -> anyhow::Result<String> {
    Ok(made["id"].as_str().context("the server returned something without an id")?.to_owned())
}

/// Reads every event of every source, page by page.
async fn count_events(server: &ServerProcess, sources: &[Filled]) -> anyhow::Result<Durable> {
    let mut connection = Connection::new(Arc::clone(&server.server));
    let mut durable = Durable::default();
    for source in sources {
        durable.accepted += source.accepted;
        let mut cursor = String::new();
        let found_before = durable.found;
        loop {
            let path = format!("/v1/sources/{}/events?limit=250{cursor}", source.id);
            let page = connection.ask(Method::GET, &path, None).await.context("cannot read the events of a source")?;
            durable.found += page["data"].as_array().map_or(0, Vec::len) as u64;
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let found = durable.found - found_before;
        ensure!(found == source.accepted, "a source accepted {} events, and the store has {found} after a kill", source.accepted);
    }
    Ok(durable)
}
