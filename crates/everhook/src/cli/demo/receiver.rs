//! The receiver of `demo`: five endpoints with different manners, as they are met in the world.
//!
//! It verifies every request by the Standard Webhooks rules before anything else, as a receiver should, and reports each one to the
//! screen. It never answers from what it was sent, so that a person can read the answers off the manners below.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use everhook_core::signing::VerifyingKey;
use tokio::{net::TcpListener, sync::mpsc};

/// How one endpoint behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// Answers 200 at once.
    Steady,
    /// Fails one request in three: 500, 503, or no answer at all.
    Flaky,
    /// Answers 200 after most of a second.
    Slow,
    /// Answers 500, always.
    Broken,
    /// Answers 410: wants nothing any more.
    Gone,
}

impl Behavior {
    /// Its name in the URL and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Flaky => "flaky",
            Self::Slow => "slow",
            Self::Broken => "broken",
            Self::Gone => "gone",
        }
    }

    /// All of them, in the order of the screen.
    pub const ALL: [Self; 5] = [Self::Steady, Self::Flaky, Self::Slow, Self::Broken, Self::Gone];

    /// What the request with this number gets. A cycle instead of chance: the first minute of every demo shows the same.
    const fn reaction(self, request_number: u64) -> Reaction {
        match self {
            Self::Steady => Reaction::Answer(StatusCode::OK, Duration::ZERO),
            Self::Slow => Reaction::Answer(StatusCode::OK, Duration::from_millis(400 + 100 * (request_number % 4))),
            Self::Broken => Reaction::Answer(StatusCode::INTERNAL_SERVER_ERROR, Duration::ZERO),
            Self::Gone => Reaction::Answer(StatusCode::GONE, Duration::ZERO),
            Self::Flaky => match request_number % 9 {
                1 => Reaction::Answer(StatusCode::SERVICE_UNAVAILABLE, Duration::ZERO),
                4 => Reaction::Answer(StatusCode::INTERNAL_SERVER_ERROR, Duration::ZERO),
                7 => Reaction::Hang,
                _ => Reaction::Answer(StatusCode::OK, Duration::from_millis(20)),
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    Answer(StatusCode, Duration),
    Hang,
}

/// Longer than the time-out of any demo endpoint.
const HANG_FOR: Duration = Duration::from_secs(5);
/// How old a signature may be, as Standard Webhooks recommends.
const SIGNATURE_AGE_MAX_SECONDS: u64 = 300;

/// One request, as the screen shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Which endpoint it came to.
    pub endpoint: &'static str,
    /// What happened.
    pub event_type: String,
    /// Which try of the delivery it is, from 1.
    pub number: String,
    /// What it got.
    pub answer: Answer,
}

/// What a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A status.
    Status(StatusCode),
    /// Nothing, until the sender gives up.
    Nothing,
    /// 401: the signature is wrong, which must never happen.
    WrongSignature,
}

/// The running receiver.
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    keys: RwLock<HashMap<&'static str, VerifyingKey>>,
    requests: [AtomicU64; Behavior::ALL.len()],
    attempts: mpsc::Sender<Attempt>,
}

impl Receiver {
    /// Listens on a free port of 127.0.0.1 and reports each request to `attempts`.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(attempts: mpsc::Sender<Attempt>) -> anyhow::Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let receiver = Arc::new(Self { address: listener.local_addr()?, keys: RwLock::default(), requests: Default::default(), attempts });
        let app = Router::new().route("/{endpoint}", post(receive)).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(receiver)
    }

    /// From now on requests to this endpoint are verified with this key. Without one they get 503.
    pub fn verify_with(&self, endpoint: Behavior, key: VerifyingKey) {
        self.keys.write().unwrap_or_else(PoisonError::into_inner).insert(endpoint.name(), key);
    }

    fn key(&self, endpoint: Behavior) -> Option<VerifyingKey> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).get(endpoint.name()).cloned()
    }

    async fn react(&self, endpoint: Behavior, headers: &HeaderMap, body: &[u8]) -> StatusCode {
        let Some(key) = self.key(endpoint) else { return StatusCode::SERVICE_UNAVAILABLE };
        if !is_signed(&key, headers, body) {
            self.report(endpoint, headers, Answer::WrongSignature).await;
            return StatusCode::UNAUTHORIZED;
        }
        let request_number = self.requests[endpoint as usize].fetch_add(1, Ordering::Relaxed);
        match endpoint.reaction(request_number) {
            Reaction::Answer(status, after) => {
                tokio::time::sleep(after).await;
                self.report(endpoint, headers, Answer::Status(status)).await;
                status
            }
            Reaction::Hang => {
                // Told before: the sender hangs up first, and with its connection this function ends.
                self.report(endpoint, headers, Answer::Nothing).await;
                tokio::time::sleep(HANG_FOR).await;
                StatusCode::OK
            }
        }
    }

    async fn report(&self, endpoint: Behavior, headers: &HeaderMap, answer: Answer) {
        let text = |name: &str| header(headers, name).unwrap_or("?").to_owned();
        let attempt = Attempt { endpoint: endpoint.name(), event_type: text("x-webhook-event"), number: text("x-webhook-attempt"), answer };
        // Nobody reads any more once the demo has ended.
        let _ = self.attempts.send(attempt).await;
    }
}

async fn receive(State(receiver): State<Arc<Receiver>>, Path(name): Path<String>, headers: HeaderMap, body: Bytes) -> StatusCode {
    match Behavior::ALL.into_iter().find(|endpoint| endpoint.name() == name) {
        Some(endpoint) => receiver.react(endpoint, &headers, &body).await,
        None => StatusCode::NOT_FOUND,
    }
}

fn is_signed(key: &VerifyingKey, headers: &HeaderMap, body: &[u8]) -> bool {
    let verified = || {
        let seconds: i64 = header(headers, "webhook-timestamp")?.parse().ok()?;
        let is_fresh = jiff::Timestamp::now().as_second().abs_diff(seconds) <= SIGNATURE_AGE_MAX_SECONDS;
        let signature = header(headers, "webhook-signature")?;
        Some(is_fresh && key.verify(header(headers, "webhook-id")?, seconds, body, signature))
    };
    verified().unwrap_or(false)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_answers_by_its_manners() {
        let statuses = |endpoint: Behavior| {
            (0..9).map(move |number| match endpoint.reaction(number) {
                Reaction::Answer(status, _) => status.as_u16(),
                Reaction::Hang => 0,
            })
        };
        assert!(statuses(Behavior::Steady).all(|status| status == 200));
        assert!(statuses(Behavior::Slow).all(|status| status == 200));
        assert!(statuses(Behavior::Broken).all(|status| status == 500));
        assert!(statuses(Behavior::Gone).all(|status| status == 410));
        assert_eq!(statuses(Behavior::Flaky).filter(|status| *status != 200).collect::<Vec<_>>(), [503, 500, 0]);
    }

    #[test]
    fn a_request_without_a_right_and_fresh_signature_is_refused() {
        let key = VerifyingKey::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").expect("a secret");
        let mut headers = HeaderMap::new();
        assert!(!is_signed(&key, &headers, b"{}"));
        // The published example: right, but of 2022.
        let example = [
            ("webhook-id", "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk"),
            ("webhook-timestamp", "1649367553"),
            ("webhook-signature", "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="),
        ];
        for (name, value) in example {
            headers.insert(name, value.parse().expect("a header value"));
        }
        assert!(!is_signed(&key, &headers, br#"{"email":"test@example.com","username":"test_user"}"#));
    }
}
