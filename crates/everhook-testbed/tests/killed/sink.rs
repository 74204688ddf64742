//! A receiver inside the test that remembers every request, and answers as its manners say.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Instant,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::Value;

/// How the sink answers.
#[derive(Clone, Copy)]
pub enum Behavior {
    /// 200, always.
    Steady,
    /// Every seventh event is refused for ever, every third of the others once.
    Flaky,
}

impl Behavior {
    /// Whether a flaky sink never takes this event.
    pub const fn is_refused_for_ever(number: u64) -> bool {
        number.is_multiple_of(7)
    }

    const fn answer(self, number: u64, arrivals_before: usize) -> StatusCode {
        match self {
            Self::Flaky if Self::is_refused_for_ever(number) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Flaky if number.is_multiple_of(3) && arrivals_before == 0 => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When it was read.
    pub at: Instant,
    /// The event that it says it is.
    pub webhook_id: String,
    /// Whether it was answered with 200.
    pub was_accepted: bool,
}

/// Requests by endpoint and event number, in the order of arrival.
pub type Arrivals = BTreeMap<(u32, u64), Vec<Arrival>>;

/// A running receiver.
pub struct Sink {
    /// Where it listens.
    pub address: SocketAddr,
    manners: Behavior,
    arrivals: Mutex<Arrivals>,
}

impl Sink {
    /// Listens on a free port until the test ends.
    pub async fn start(manners: Behavior) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let sink = Arc::new(Self { address, manners, arrivals: Mutex::default() });
        let app = Router::new().route("/e/{endpoint}", post(receive)).with_state(sink.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        sink
    }

    /// Everything that arrived so far.
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals.lock().expect("no panic while it was held").clone()
    }

    /// How many (event, endpoint) were answered with 200 at least once.
    pub fn accepted(&self) -> usize {
        let arrivals = self.arrivals.lock().expect("no panic while it was held");
        arrivals.values().filter(|of_event| of_event.iter().any(|arrival| arrival.was_accepted)).count()
    }
}

async fn receive(State(sink): State<Arc<Sink>>, Path(endpoint): Path<u32>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let at = Instant::now();
    let body: Value = serde_json::from_slice(&body).expect("deliveries are JSON");
    let number = body["data"]["number"].as_u64().expect("the data as it was published");
    let webhook_id = headers["webhook-id"].to_str().expect("an id").to_owned();
    let mut arrivals = sink.arrivals.lock().expect("no panic while it was held");
    let of_event = arrivals.entry((endpoint, number)).or_default();
    let status = sink.manners.answer(number, of_event.len());
    of_event.push(Arrival { at, webhook_id, was_accepted: status == StatusCode::OK });
    status
}
