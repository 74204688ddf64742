use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use uuid::Uuid;

use super::*;
use crate::{
    inbound::KeyAnswer,
    model::{Cut, FailureCategory, PhaseTimes, Report},
    time::Timestamp,
};

struct Hanging;

#[async_trait]
impl Transport for Hanging {
    async fn send(&self, _: OutgoingRequest) -> Report {
        std::future::pending().await
    }
}

struct Still;

#[async_trait]
impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000)
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(1_000)
    }

    async fn sleep_until(&self, _: Timestamp) {}
}

fn organization(n: u128) -> OrganizationId {
    OrganizationId::from_uuid(Uuid::from_u128(n))
}

fn request(n: u32) -> KeyRequest {
    KeyRequest { url: format!("https://keys.example/{n}"), answer: KeyAnswer::Certificate }
}

#[test]
fn an_organization_whose_key_servers_hang_takes_two_places_and_others_have_theirs() {
    let keys = Arc::new(ProviderKeys::new(Arc::new(Hanging), Arc::new(Still)));
    let requests: Vec<KeyRequest> = (0..5).map(request).collect();
    let mut begun = Vec::new();
    for request in &requests[..2] {
        let mut get = Box::pin(keys.get(organization(1), request));
        assert!((&mut get).now_or_never().is_none(), "it is being fetched");
        begun.push(get);
    }
    let third = keys.get(organization(1), &requests[2]).now_or_never();
    assert!(matches!(third, Some(Err(NotFetched(_)))), "it is refused at once");
    assert!(keys.get(organization(2), &requests[3]).now_or_never().is_none(), "another organization has places of its own");
    // Whoever gives up leaves its place.
    drop(begun);
    assert!(keys.get(organization(1), &requests[4]).now_or_never().is_none());
    assert!(keys.lock().fetching.is_empty());
}

#[test]
fn an_organization_with_many_keys_drops_its_own_and_past_the_whole_whoever_has_most_does() {
    let (mut shared, at) = (Shared::default(), Duration::from_secs);
    shared.keep(organization(1), request(0), (), at(0));
    for n in 1..1_000 {
        shared.keep(organization(2), request(n), (), at(u64::from(n)));
    }
    assert_eq!(shared.0.len(), 1 + KEYS_OF_ORGANIZATION_MAX);
    for n in 1_000..3_000 {
        shared.keep(organization(u128::from(n % 20 + 3)), request(n), (), at(u64::from(n)));
    }
    assert_eq!(shared.0.len(), KEYS_MAX);
    assert!(shared.get(&request(0), at(9_000)).is_some() && shared.get(&request(2_999), at(9_000)).is_some());
}

/// A server of keys, as the script says, that remembers what it was asked.
#[derive(Default)]
struct Scripted {
    is_away: std::sync::atomic::AtomicBool,
    asked: Mutex<Vec<String>>,
}

impl Scripted {
    fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("no test panicked here").len()
    }
}

#[async_trait]
impl Transport for Scripted {
    async fn send(&self, request: OutgoingRequest) -> Report {
        assert_eq!(request.method, OutgoingMethod::Get);
        self.asked.lock().expect("no test panicked here").push(request.target.written.clone());
        let sent = if self.is_away.load(Ordering::Relaxed) {
            Sent::Failed { category: FailureCategory::Network, error: "connection refused".to_owned(), response: None }
        } else {
            let body_sample = Bytes::from_static(br#"{"keys":[]}"#);
            let status = if request.target.written.ends_with("/gone") { 404 } else { 200 };
            Sent::Answered(Response { status, headers: Vec::new(), body_sample, cut: Cut::default(), retry_after: None })
        };
        Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() }
    }
}

/// A clock that goes when it is told to.
#[derive(Default)]
struct Hands(AtomicU64);

impl Hands {
    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_secs(), Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000)
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(1_000 + self.0.load(Ordering::Relaxed))
    }

    async fn sleep_until(&self, _: Timestamp) {}
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Keys of one organization, their server, and the clock.
struct Given {
    keys: Arc<ProviderKeys>,
    server: Arc<Scripted>,
    clock: Arc<Hands>,
    request: KeyRequest,
}

impl Given {
    fn new() -> Self {
        let (server, clock) = (Arc::<Scripted>::default(), Arc::<Hands>::default());
        let keys = Arc::new(ProviderKeys::new(server.clone(), clock.clone()));
        let request = KeyRequest { url: "https://keys.example/set".to_owned(), answer: KeyAnswer::KeySet };
        Self { keys, server, clock, request }
    }

    /// The key, which must be there without waiting for anything that takes time.
    async fn get(&self) -> Result<Arc<KnownKey>, NotFetched> {
        let got = self.keys.get(organization(1), &self.request).await;
        // What was begun beside it ends.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        got
    }

    async fn get_again(&self, doubted: &KnownKey) -> Result<Option<Arc<KnownKey>>, NotFetched> {
        self.keys.get_again(doubted, organization(1), &self.request).await
    }
}

#[tokio::test]
async fn a_key_is_fetched_once_and_again_at_half_its_life_beside_the_request_that_uses_it() {
    let given = Given::new();
    let first = given.get().await.expect("it is fetched");
    given.clock.pass(12 * HOUR - MINUTE);
    let same = given.get().await.expect("it is known");
    assert_eq!((same.fetched_at, given.server.asked()), (first.fetched_at, 1));
    given.clock.pass(MINUTE);
    // Several requests at half time: each has the known one at once, and one fetch follows.
    let begun: Vec<_> = (0..3).map(|_| given.keys.get(organization(1), &given.request).now_or_never()).collect();
    assert!(begun.iter().all(|got| matches!(got, Some(Ok(key)) if key.fetched_at == first.fetched_at)), "nobody waits");
    let newer = given.get().await.and(given.get().await).expect("it is known");
    assert_eq!((newer.fetched_at, given.server.asked()), (first.fetched_at + 12 * HOUR, 2));
    assert!(given.keys.lock().refreshing.is_empty());
}

#[tokio::test]
async fn the_known_key_is_used_while_its_server_is_away_until_its_life_is_over() {
    let given = Given::new();
    let first = given.get().await.expect("it is fetched");
    given.server.set_away(true);
    given.clock.pass(12 * HOUR);
    for _ in 0..20 {
        assert_eq!(given.get().await.expect("it is known").fetched_at, first.fetched_at);
    }
    assert_eq!(given.server.asked(), 2, "one fetch failed, and nobody asks again within a minute");
    given.clock.pass(12 * HOUR - MINUTE);
    assert_eq!(given.get().await.expect("it is known").fetched_at, first.fetched_at);
    given.clock.pass(MINUTE);
    assert_eq!(given.get().await.expect_err("it is too old"), NotFetched("connection refused".to_owned()));
    // Once the server is back, the next request has a key.
    given.server.set_away(false);
    given.clock.pass(ASKED_AGAIN_AFTER);
    assert!(given.get().await.is_ok());
}

#[tokio::test]
async fn a_key_that_verifies_nothing_is_fetched_again_once_a_minute_at_most() {
    let given = Given::new();
    let first = given.get().await.expect("it is fetched");
    given.clock.pass(MINUTE - Duration::from_secs(1));
    assert!(matches!(given.get_again(&first).await, Ok(None)), "it was fetched a moment ago");
    given.clock.pass(Duration::from_secs(1));
    let second = given.get_again(&first).await.expect("it is fetched").expect("it is newer");
    for _ in 0..20 {
        assert!(matches!(given.get_again(&second).await, Ok(None)));
        given.clock.pass(Duration::from_secs(2));
    }
    assert_eq!(given.server.asked(), 2);
    // While the server is away nobody can say whose a request is, and it is not asked more often.
    given.server.set_away(true);
    given.clock.pass(MINUTE);
    for _ in 0..20 {
        assert!(given.get_again(&second).await.is_err());
        given.clock.pass(Duration::from_secs(2));
    }
    assert_eq!(given.server.asked(), 3);
    // What the known key verifies is accepted meanwhile.
    assert!(given.get().await.is_ok());
}

#[tokio::test]
async fn a_visit_requests_the_url_and_fails_unless_it_is_answered_with_a_success() {
    let given = Given::new();
    let visit = async |url: &str| given.keys.visit(organization(1), url).await;
    visit("https://sns.example/confirm?token=t").await.expect("it is confirmed");
    assert_eq!(*given.server.asked.lock().unwrap(), ["https://sns.example/confirm?token=t"]);
    assert_eq!(visit("https://sns.example/gone").await, Err(NotFetched("https://sns.example/gone answered 404".to_owned())));
    assert!(visit("no URL").await.is_err());
    given.server.set_away(true);
    assert_eq!(visit("https://sns.example/").await, Err(NotFetched("connection refused".to_owned())));
}
