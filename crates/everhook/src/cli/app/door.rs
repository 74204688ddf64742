//! Where `everhook app check` listens for the callbacks of the app that it tests, and answers them as a server does.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use async_trait::async_trait;
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use everhook_core::{
    calls::contract::{CallbackAddress, CallbackDoor, Heard},
    policy::calls::{contract::CallbackSeen, job::Callback},
    ports::StoreError,
};
use serde_json::json;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle, time::timeout};
use url::Url;
use uuid::Uuid;

/// The largest callback: as large as a server takes.
const CALLBACK_BYTES_MAX: usize = 256 * 1024;

/// A listener for callbacks. It ends with this.
pub struct ListeningDoor {
    /// What its URLs begin with.
    base: String,
    heard: Arc<HeardSoFar>,
    listening: JoinHandle<()>,
}

/// What came, by address.
#[derive(Default)]
struct HeardSoFar {
    addresses: Mutex<BTreeMap<Uuid, Address>>,
    came: Notify,
}

struct Address {
    opened_at: Instant,
    /// The first callback, and its bytes.
    first: Option<(Bytes, Heard)>,
}

impl ListeningDoor {
    /// Listens there.
    ///
    /// # Errors
    /// When that is not possible.
    pub async fn open(listen: SocketAddr, url: Option<&Url>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen for callbacks at {listen}"))?;
        let base = match url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{}", listener.local_addr()?),
        };
        let heard = Arc::new(HeardSoFar::default());
        let routes = Router::new().route("/callbacks/{id}", post(hear)).layer(DefaultBodyLimit::max(CALLBACK_BYTES_MAX));
        let routes = routes.with_state(heard.clone());
        let listening = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "callbacks are not heard any more");
            }
        });
        Ok(Self { base, heard, listening })
    }
}

impl Drop for ListeningDoor {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

#[async_trait]
impl CallbackDoor for ListeningDoor {
    async fn open(&self) -> Result<CallbackAddress, StoreError> {
        let id = Uuid::now_v7();
        self.heard.with(|addresses| addresses.insert(id, Address { opened_at: Instant::now(), first: None }));
        Ok(CallbackAddress { id, url: format!("{}/callbacks/{id}", self.base) })
    }

    async fn wait(&self, address: &CallbackAddress, at_most: Duration) -> Result<Option<Heard>, StoreError> {
        let first = || self.heard.with(|addresses| addresses.get(&address.id)?.first.as_ref().map(|(_, heard)| heard.clone()));
        let coming = async {
            loop {
                // Asked for before looking, so that none that comes meanwhile is missed.
                let came = self.heard.came.notified();
                if let Some(heard) = first() {
                    return heard;
                }
                came.await;
            }
        };
        Ok(timeout(at_most, coming).await.ok())
    }

    async fn close(&self, address: CallbackAddress) {
        self.heard.with(|addresses| addresses.remove(&address.id));
    }
}

impl HeardSoFar {
    fn with<T>(&self, look: impl FnOnce(&mut BTreeMap<Uuid, Address>) -> T) -> T {
        look(&mut self.addresses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a callback is answered with: a status, and why it was refused.
    fn take(&self, id: Uuid, body: Bytes) -> (StatusCode, String) {
        let read = Callback::read(&body);
        self.with(|addresses| {
            let Some(address) = addresses.get_mut(&id) else { return (StatusCode::NOT_FOUND, "no job has this id".to_owned()) };
            let seen = match read {
                Ok(Callback::Progress { .. }) => return (StatusCode::OK, String::new()),
                Ok(Callback::End { outcome, data }) => CallbackSeen::Ended { outcome, data },
                Err(reason) => CallbackSeen::Refused(reason),
            };
            if address.first.as_ref().is_some_and(|(before, _)| *before != body) {
                return (StatusCode::CONFLICT, "another result was reported before".to_owned());
            }
            let answer = match &seen {
                CallbackSeen::Ended { .. } => (StatusCode::OK, String::new()),
                CallbackSeen::Refused(reason) => (StatusCode::UNPROCESSABLE_ENTITY, reason.clone()),
            };
            if address.first.is_none() {
                address.first = Some((body, Heard { seen, after: address.opened_at.elapsed() }));
                self.came.notify_waiters();
            }
            answer
        })
    }
}

async fn hear(State(heard): State<Arc<HeardSoFar>>, Path(id): Path<String>, body: Bytes) -> Response {
    // What is no id is nobody's.
    let (status, detail) = heard.take(id.parse().unwrap_or_default(), body);
    if status == StatusCode::OK {
        return Json(json!({ "received": true })).into_response();
    }
    let problem = json!({ "status": status.as_u16(), "title": status.canonical_reason(), "detail": detail });
    (status, [("content-type", "application/problem+json")], problem.to_string()).into_response()
}
