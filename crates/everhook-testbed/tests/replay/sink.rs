//! A receiver inside the test that remembers which deliveries brought which event, and when live events came.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::Value;

/// How long a live event may take before the test gives up.
const LIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// A running receiver.
pub struct Sink {
    /// Where it listens.
    pub address: SocketAddr,
    arrivals: Mutex<Arrivals>,
}

#[derive(Default)]
struct Arrivals {
    /// The deliveries that brought each event.
    replayed: BTreeMap<u64, BTreeSet<String>>,
    live: BTreeMap<u64, Instant>,
}

impl Sink {
    /// Listens on a free port until the test ends.
    pub async fn start() -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let sink = Arc::new(Self { address, arrivals: Mutex::default() });
        let app = Router::new().route("/{kind}", post(receive)).with_state(sink.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        sink
    }

    /// How many events came by at least so many deliveries.
    pub fn delivered(&self, deliveries: usize) -> u64 {
        let arrivals = self.lock();
        arrivals.replayed.values().filter(|of_event| of_event.len() >= deliveries).count() as u64
    }

    /// Every event came by exactly so many deliveries: a repeat after a kill is of the same delivery.
    pub fn assert_deliveries(&self, events: u64, deliveries: usize) {
        let arrivals = self.lock();
        assert_eq!(arrivals.replayed.len() as u64, events);
        for (number, of_event) in &arrivals.replayed {
            assert_eq!(of_event.len(), deliveries, "event {number} came by {of_event:?}");
        }
    }

    /// When a live event came first.
    pub async fn live_arrival(&self, number: u64) -> Instant {
        let deadline = Instant::now() + LIVE_TIMEOUT;
        loop {
            if let Some(at) = self.lock().live.get(&number) {
                return *at;
            }
            assert!(Instant::now() < deadline, "the live event {number} did not come");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().expect("no panic while it was held")
    }
}

async fn receive(State(sink): State<Arc<Sink>>, Path(kind): Path<String>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let at = Instant::now();
    let body: Value = serde_json::from_slice(&body).expect("deliveries are JSON");
    let number = body["data"]["number"].as_u64().expect("the data as it was published");
    let delivery = headers["x-webhook-delivery"].to_str().expect("an id").to_owned();
    let mut arrivals = sink.lock();
    if kind == "live" {
        arrivals.live.entry(number).or_insert(at);
    } else {
        arrivals.replayed.entry(number).or_default().insert(delivery);
    }
    StatusCode::OK
}
