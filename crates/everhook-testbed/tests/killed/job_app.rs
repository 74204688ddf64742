//! An app inside the test that takes jobs over and calls back until it is answered, and the callers' server that is told how jobs ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use everhook::cli::client::{Connection, Server};
use http::Method;
use serde_json::{Value, json};

use super::sink::{Arrival, Arrivals};

/// The pause before a callback that was not answered is sent again.
const PAUSE: Duration = Duration::from_millis(20);

/// What the app and the callers' server saw, by the number of the job.
#[derive(Default)]
pub struct Seen {
    /// The ids of the requests about a job: one, however often it was asked.
    pub request_ids: BTreeMap<u64, BTreeSet<String>>,
    /// The statuses that callbacks were answered with, one for each that was.
    pub callbacks: BTreeMap<u64, Vec<u16>>,
    /// What callers were told, under endpoint 0.
    pub told: Arrivals,
}

/// A running app.
pub struct JobApp {
    /// Where it listens.
    pub address: SocketAddr,
    server: Arc<Server>,
    seen: Mutex<Seen>,
    calling_back: AtomicUsize,
}

impl JobApp {
    /// Listens on a free port until the test ends, and calls this server back.
    pub async fn start(server: Arc<Server>) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let app = Arc::new(Self { address, server, seen: Mutex::default(), calling_back: AtomicUsize::new(0) });
        let routes = Router::new().route("/work", post(take_over)).route("/told", post(hear)).with_state(app.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        app
    }

    /// What was seen so far.
    pub fn look<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().expect("no panic while it was held"))
    }

    /// Whether every callback was answered.
    pub fn is_quiet(&self) -> bool {
        self.calling_back.load(Ordering::SeqCst) == 0
    }

    /// Calls back until that is answered, whatever becomes of the server meanwhile.
    async fn call_back(&self, number: u64, path: &str) {
        let mut connection = Connection::new(self.server.clone());
        if number % 4 == 1 {
            // Nobody waits for it: it may be lost, or come too late.
            connection.send(Method::POST, path, json!({ "progress": 50, "message": "half" }).to_string()).await.ok();
        }
        let done = json!({ "success": true, "result": { "number": number } }).to_string();
        let status = loop {
            match connection.send(Method::POST, path, done.clone()).await {
                Ok(answer) if answer.status != StatusCode::SERVICE_UNAVAILABLE => break answer.status.as_u16(),
                _ => tokio::time::sleep(PAUSE).await,
            }
        };
        self.look(|seen| seen.callbacks.entry(number).or_default().push(status));
        self.calling_back.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn take_over(State(app): State<Arc<JobApp>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let body: Value = serde_json::from_slice(&body).expect("payloads are JSON");
    let number = body["number"].as_u64().expect("the payload of the call");
    let url: url::Url = body["callbackUrl"].as_str().and_then(|url| url.parse().ok()).expect("there is a URL");
    let path = format!("{}?{}", url.path(), url.query().expect("it has a token"));
    let request_id = headers["x-request-id"].to_str().expect("an id").to_owned();
    app.look(|seen| seen.request_ids.entry(number).or_default().insert(request_id));
    app.calling_back.fetch_add(1, Ordering::SeqCst);
    let of_callback = app.clone();
    let calling_back = tokio::spawn(async move { of_callback.call_back(number, &path).await });
    if number.is_multiple_of(3) {
        // The callback is quicker than the answer.
        calling_back.await.ok();
    }
    StatusCode::ACCEPTED
}

async fn hear(State(app): State<Arc<JobApp>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let at = Instant::now();
    let told: Value = serde_json::from_slice(&body).expect("callers are told in JSON");
    assert_eq!((&told["status"], &told["jobId"]), (&json!("success"), &json!(headers["webhook-id"].to_str().expect("an id"))), "{told}");
    let number = told["details"]["result"]["number"].as_u64().expect("the result of the job");
    let webhook_id = told["jobId"].as_str().expect("an id").to_owned();
    app.look(|seen| seen.told.entry((0, number)).or_default().push(Arrival { at, webhook_id, was_accepted: true }));
    StatusCode::NO_CONTENT
}
