//! Calls: what one organization's manifests, payloads, apps and contract tests may take from the server and from the calls of others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, extract::State, http::Uri};
use futures_util::future::join_all;
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use super::arena::{Arena, Bounds, LeftToEnd, Tenant};

/// The largest payload of a call, and the largest answer of an app.
const LARGEST: usize = 256 << 10;
/// What no attack of this file may make the server's memory grow by.
const GROWTH_MAX: u64 = 150 << 20;

fn bounds() -> Bounds {
    let usual = Bounds::of_this_run();
    Bounds { memory_growth_bytes: usual.memory_growth_bytes.min(GROWTH_MAX), ..usual }
}

/// An app that answers `/quick` well, and other paths as it was told to, or never.
struct App {
    url: String,
    state: Arc<AppState>,
}

struct AppState {
    /// What other paths are answered with, by how they end; `None` if never.
    answers: Vec<(&'static str, String)>,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
}

struct UnderWay(Arc<AppState>);

impl UnderWay {
    fn begin(state: Arc<AppState>) -> Self {
        let now = state.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        state.most_under_way.fetch_max(now, Ordering::Relaxed);
        Self(state)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl App {
    async fn start(answers: Vec<(&'static str, Value)>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let good = |data: Value| json!({ "success": true, "data": data }).to_string();
        let answers = answers.into_iter().map(|(path, data)| (path, good(data))).chain([("/quick", good(json!("quick")))]).collect();
        let state = Arc::new(AppState { answers, under_way: AtomicUsize::new(0), most_under_way: AtomicUsize::new(0) });
        let router = Router::new().fallback(answer).with_state(state.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, state }
    }

    fn most_under_way(&self) -> usize {
        self.state.most_under_way.load(Ordering::Relaxed)
    }

    fn under_way(&self) -> usize {
        self.state.under_way.load(Ordering::Relaxed)
    }
}

async fn answer(State(state): State<Arc<AppState>>, uri: Uri) -> String {
    let _under_way = UnderWay::begin(state.clone());
    match state.answers.iter().find(|(path, _)| uri.path() == *path) {
        Some((_, body)) => body.clone(),
        None => std::future::pending().await,
    }
}

impl Tenant {
    async fn put_manifest(&self, application: &str, base_url: &str, capabilities: Value) {
        let manifest = json!({ "base_url": base_url, "capabilities": capabilities });
        let path = format!("/v1/applications/{application}/manifest");
        self.connect().ask(Method::PUT, &path, Some(&manifest)).await.expect("the manifest is taken");
    }

    /// So many applications, `a0`, `a1`, …, with these capabilities: each has a limit of its own of requests to its app, which begins at 20.
    async fn applications(&self, count: usize, base_url: &str, capabilities: &Value) {
        for name in (0..count).map(|number| format!("a{number}")) {
            self.connect().ask(Method::POST, "/v1/applications", Some(&json!({ "name": name, "uid": name }))).await.expect("it is new");
            self.put_manifest(&name, base_url, capabilities.clone()).await;
        }
    }

    async fn call_batch(&self, body: String) -> (StatusCode, Vec<u8>) {
        self.call_batch_of("default", body).await
    }

    async fn call_batch_of(&self, application: &str, body: String) -> (StatusCode, Vec<u8>) {
        let path = format!("/v1/applications/{application}/call-batch");
        let answer = self.connect().send(Method::POST, &path, body).await.expect("an answer");
        (answer.status, answer.body.to_vec())
    }
}

/// `count` capabilities `c0`, `c1`, …, all alike.
fn alike(count: usize, capability: &Value) -> Value {
    (0..count).map(|n| (format!("c{n}"), capability.clone())).collect::<serde_json::Map<_, _>>().into()
}

/// A capability whose app never answers, and that nothing protects.
fn hanging() -> Value {
    json!({ "path": "/hangs", "timeout": 30_000, "max_concurrency": 500, "circuit_breaker": { "enabled": false } })
}

fn batch(calls: impl Iterator<Item = Value>) -> String {
    json!({ "calls": calls.collect::<Vec<_>>() }).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_made_for_random_picks_hold_nobody_up() {
    let arena = Arena::start([]).await;
    // Each step finds its list, and a text where it looks for the count.
    let pick = json!({ "type": "default", "random_pick": { "from": "/0".repeat(126), "count": "/0".repeat(127) } });
    let capability = json!({ "path": "/", "mode": "off", "fallback": vec![pick; 8] });
    arena.attacker.put_manifest("default", "http://127.0.0.1:9", alike(1, &capability)).await;
    let inner = "\"\",".repeat((LARGEST - 300) / 3);
    let payload = format!("{}{}\"\"{}", "[".repeat(127), inner, "]".repeat(127));
    let call = format!(r#"{{"capability":"c0","payload":{payload}}}"#);
    let body = format!(r#"{{"calls":[{}]}}"#, vec![call; 20].join(","));
    let watch = arena.watch().await;
    let clients = (0..3).map(|_| async {
        for _ in 0..2 {
            let (status, body) = arena.attacker.call_batch(body.clone()).await;
            // Some are refused for the memory of their bodies.
            assert!(status == StatusCode::OK || status == StatusCode::SERVICE_UNAVAILABLE, "{status} {}", String::from_utf8_lossy(&body));
        }
    });
    join_all(clients).await;
    watch.end_within("batches of 20 payloads of 256 KiB, each for 16 pointers of 127 levels", bounds()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadow_differences_stay_small_however_long_the_names_of_their_places_are() {
    let arena = Arena::start([]).await;
    let name = "n".repeat(LARGEST - 2_000);
    let members: serde_json::Map<_, _> = (0..20).map(|n| (n.to_string(), json!(n))).collect();
    let app = App::start(vec![("/app", json!({ &name: members })), ("/instead", json!({ &name: {} }))]).await;
    let instead = json!([{ "type": "default", "http": { "url": format!("{}/instead", app.url), "timeout_ms": 5_000 } }]);
    let shadow = json!({ "path": "/app", "mode": "shadow", "timeout": 10_000, "fallback": instead });
    arena.attacker.put_manifest("default", &app.url, alike(2, &shadow)).await;
    let watch = arena.watch().await;
    for round in 0..50 {
        let body = batch((0..2).map(|n| json!({ "capability": format!("c{n}"), "payload": round })));
        let (status, _) = arena.attacker.call_batch(body).await;
        assert_eq!(status, StatusCode::OK);
    }
    let listed = differences_once_there_are(&arena.attacker, 20).await;
    assert!(listed.len() < 500_000, "the list has {} bytes", listed.len());
    watch.end_within("100 shadow differences below names of 254 KB", bounds()).await;
}

/// The list of differences of the first capability, once it has so many.
async fn differences_once_there_are(tenant: &Tenant, count: usize) -> Vec<u8> {
    let begun = Instant::now();
    loop {
        let path = "/v1/applications/default/capabilities/c0/shadow";
        let answer = tenant.connect().send(Method::GET, path, "").await.expect("an answer");
        let listed: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let found = listed["data"].as_array().map_or(0, Vec::len);
        if found >= count {
            return answer.body.to_vec();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "only {found} differences");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadowed_call_does_not_keep_the_batch_that_it_came_in() {
    let arena = Arena::start([]).await;
    let app = App::start(Vec::new()).await;
    let mut shadow = hanging();
    shadow["mode"] = json!("shadow");
    arena.attacker.applications(5, &app.url, &alike(4, &shadow)).await;
    let watch = arena.watch().await;
    for number in 0..100 {
        let call = json!({ "capability": format!("c{}", number % 4), "payload": 1 });
        let body = format!("{{{}\"calls\":[{call}]}}", " ".repeat(5 << 20));
        let (status, body) = arena.attacker.call_batch_of(&format!("a{}", number % 5), body).await;
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
    }
    assert!(app.under_way() >= 50, "{} are under way", app.under_way());
    watch.end_within("100 shadowed calls under way, each from a batch of 5 MiB of blanks", bounds()).await;
    let (status, _) = arena.attacker.call_batch(format!("{{{}\"calls\":[]}}", " ".repeat(6 << 20))).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "a batch has no more than its calls may have");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_countless_tiny_calls_is_counted_and_not_kept() {
    let arena = Arena::start([]).await;
    let watch = arena.watch().await;
    let tiny = r#"{"capability":""},"#;
    let count = (5 << 20) / tiny.len();
    let body = format!("{{\"calls\":[{}]}}", tiny.repeat(count).trim_end_matches(','));
    let clients = (0..4).map(|_| async {
        let (status, body) = arena.attacker.call_batch(body.clone()).await;
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(status == StatusCode::UNPROCESSABLE_ENTITY && body.contains(&format!("and has {count}")), "{status} {body:.300}");
    });
    join_all(clients).await;
    let usual = bounds();
    // What is counted is as large as the bodies; kept, it would be five times as large.
    watch.end_within("batches of 290,000 calls", Bounds { memory_growth_bytes: usual.memory_growth_bytes.min(80 << 20), ..usual }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fallbacks_that_hang_have_the_places_of_calls_and_no_more() {
    let arena = Arena::start([]).await;
    let app = App::start(Vec::new()).await;
    let instead = json!([{ "type": "default", "http": { "url": format!("{}/hangs", app.url), "timeout_ms": 8_000 } }]);
    let capability = json!({ "path": "/", "mode": "off", "timeout": 9_000, "fallback": instead });
    arena.attacker.put_manifest("default", &app.url, alike(1, &capability)).await;
    let watch = arena.watch().await;
    let body = batch((0..20).map(|_| json!({ "capability": "c0", "payload": 1 })));
    let answers = join_all((0..40).map(|_| arena.attacker.call_batch(body.clone()))).await;
    assert!(answers.iter().all(|(status, _)| *status == StatusCode::OK));
    watch.end_within("800 fallbacks that hang", bounds()).await;
    assert!((20..=256).contains(&app.most_under_way()), "{} were under way at once", app.most_under_way());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_300_contract_tests_at_once_two_run() {
    let arena = Arena::start([]).await;
    let app = App::start(Vec::new()).await;
    let capability = json!({ "path": "/hangs", "timeout": 2_000 });
    arena.attacker.put_manifest("default", &app.url, alike(1, &capability)).await;
    let watch = arena.watch().await;
    let body = json!({ "capability": "c0", "payload": {}, "health_path": "/health" }).to_string();
    let tests = (0..300).map(|_| {
        let (attacker, body) = (&arena.attacker, body.clone());
        async move {
            let answer = attacker.connect().send(Method::POST, "/v1/applications/default/manifest/check", body).await;
            answer.expect("an answer").status
        }
    });
    let statuses = join_all(tests).await;
    watch.end_within("300 contract tests of an app that hangs", bounds()).await;
    let ran = statuses.iter().filter(|status| **status == StatusCode::OK).count();
    assert!((1..=10).contains(&ran) && app.most_under_way() <= 2, "{ran} ran, {} at once", app.most_under_way());
    assert_eq!(ran + statuses.iter().filter(|status| **status == StatusCode::TOO_MANY_REQUESTS).count(), 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_apps_of_two_organizations_hang_the_calls_of_a_third_go_through() {
    let mut arena = Arena::start([]).await;
    let app = App::start(Vec::new()).await;
    let accomplice = arena.tenant("accomplice").await;
    for tenant in [&arena.attacker, &accomplice] {
        tenant.applications(5, &app.url, &alike(20, &hanging())).await;
    }
    let quick = json!({ "path": "/quick", "timeout": 5_000 });
    arena.neighbor.put_manifest("default", &app.url, alike(1, &quick)).await;
    let watch = arena.watch().await;
    let body = batch((0..20).map(|n| json!({ "capability": format!("c{n}"), "payload": 1 })));
    let mut attack = tokio::task::JoinSet::new();
    for number in 0..50 {
        let (tenant, body) = ([&arena.attacker, &accomplice][number % 2].clone(), body.clone());
        // Some are answered, or cut off where the server is stopped.
        let (mut connection, path) = (tenant.connect(), format!("/v1/applications/a{}/call-batch", number / 2 % 5));
        attack.spawn(async move { while connection.send(Method::POST, &path, body.clone()).await.is_ok() {} });
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let held = app.under_way();
    assert!(held >= 100, "only {held} calls hang");
    let mut connection = arena.neighbor.connect();
    for _ in 0..50 {
        let answer = connection.ask(Method::POST, "/v1/applications/default/call/c0", Some(&json!({ "payload": 1 }))).await;
        let answer = answer.expect("the neighbor's call is answered");
        assert_eq!(answer["source"], "app", "{answer}");
    }
    watch.end_within("two organizations with 500 calls each to apps that hang", bounds()).await;
    arena.stop("two organizations with 500 calls each to apps that hang", LeftToEnd::Hanging).await;
    attack.abort_all();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_callbacks_go_is_not_for_the_caller_to_say() {
    let arena = Arena::start([]).await;
    let seen = Arc::new(std::sync::Mutex::new(String::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let kept = seen.clone();
    let router = Router::new().fallback(move |body: String| async move {
        *kept.lock().expect("no panic") = body;
        StatusCode::ACCEPTED
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    arena.attacker.put_manifest("default", &url, alike(1, &json!({ "path": "/", "async": true, "timeout": "1m" }))).await;
    let body = json!({ "payload": {} }).to_string();
    let request = format!(
        "POST /v1/applications/default/call/c0 HTTP/1.1\r\n{}: collector.example\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        header::HOST,
        arena.attacker.key,
        body.len()
    );
    let answer = super::arena::exchange(&arena.node.url(), &request).await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let begun = Instant::now();
    while seen.lock().expect("no panic").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the app was not asked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let asked: Value = serde_json::from_str(&seen.lock().expect("no panic")).expect("JSON");
    let callback_url = asked["callbackUrl"].as_str().expect("there is one");
    assert!(callback_url.starts_with(&format!("{}/api/v1/callbacks/c0/", arena.node.url())), "{callback_url}");
}
