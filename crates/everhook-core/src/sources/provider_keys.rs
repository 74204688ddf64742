//! Keys that stand on providers' servers: fetched when a request needs one, remembered for the next, by one fetch at a time for each.
//!
//! Where a key cannot be fetched, nobody can say whose a request is: the provider is asked to send it again.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use tokio::sync::Semaphore;
use url::Url;

use crate::{
    ids::OrganizationId,
    inbound::{FetchedKey, KeyRequest},
    model::{Response, Sent, Target},
    ports::{Clock, OutgoingMethod, OutgoingRequest, Transport},
    reading::Reading,
};

/// After so long a key is fetched again; the old one is good for as long again while that fails.
const REFRESHED_AFTER: Duration = Duration::from_secs(12 * 3600);
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);
/// A set of keys that did not verify a request may have changed. Requests that nobody signed must not have it fetched more often than this.
const DOUBTED_AFTER: Duration = Duration::from_secs(60);
/// For how long nobody asks again after a fetch failed.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How long a fetch may take: providers wait some seconds for their answer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(4);
/// How many keys are fetched at once. Where it is a request that says which, strangers choose them.
const FETCHES_MAX: usize = 8;
/// How many keys are remembered. Past it all are dropped and fetched again.
const KEYS_MAX: usize = 1_000;

/// A key, and since when it is known.
#[derive(Debug)]
pub struct KnownKey {
    /// The key.
    pub key: FetchedKey,
    fetched_at: Duration,
}

/// A key could not be fetched. Says why, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFetched(pub String);

/// A cache of providers' keys.
pub struct ProviderKeys {
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    known: Mutex<Remembered>,
    reading: Reading<KeyRequest, KnownKey>,
    fetches: Semaphore,
}

#[derive(Default)]
struct Remembered {
    keys: FxHashMap<KeyRequest, Arc<KnownKey>>,
    failures: FxHashMap<KeyRequest, (Duration, NotFetched)>,
}

impl ProviderKeys {
    pub(super) fn new(transport: Arc<dyn Transport>, clock: Arc<dyn Clock>) -> Self {
        Self { transport, clock, known: Mutex::default(), reading: Reading::default(), fetches: Semaphore::new(FETCHES_MAX) }
    }

    /// The key that a request needs.
    ///
    /// # Errors
    /// [`NotFetched`] if it is not known and cannot be fetched.
    pub async fn get(&self, organization: OrganizationId, request: &KeyRequest) -> Result<Arc<KnownKey>, NotFetched> {
        self.get_not_older_than(REFRESHED_AFTER, organization, request).await
    }

    /// The key once more, if the one that did not verify a request may be out of date; `None` if it is not.
    ///
    /// # Errors
    /// [`NotFetched`] if it cannot be fetched.
    pub async fn get_again(
        &self,
        doubted: &KnownKey,
        organization: OrganizationId,
        request: &KeyRequest,
    ) -> Result<Option<Arc<KnownKey>>, NotFetched> {
        if self.clock.uptime().saturating_sub(doubted.fetched_at) < DOUBTED_AFTER {
            return Ok(None);
        }
        let key = self.get_not_older_than(DOUBTED_AFTER, organization, request).await?;
        Ok((key.fetched_at > doubted.fetched_at).then_some(key))
    }

    /// Requests a URL that confirms a subscription.
    ///
    /// # Errors
    /// [`NotFetched`] if it does not answer with a success.
    pub async fn visit(&self, organization: OrganizationId, url: &str) -> Result<(), NotFetched> {
        self.request(organization, url).await.map(drop)
    }

    async fn get_not_older_than(
        &self,
        age: Duration,
        organization: OrganizationId,
        request: &KeyRequest,
    ) -> Result<Arc<KnownKey>, NotFetched> {
        if let Some(key) = self.find(request, age) {
            return Ok(key);
        }
        let fetched = self.reading.read(request.clone(), async {
            match self.find(request, age) {
                // It may have been fetched while this waited for its turn.
                Some(key) => Ok(Some(key)),
                None => self.fetch(organization, request).await.map(Some),
            }
        });
        match fetched.await {
            Ok(key) => key.ok_or_else(|| NotFetched("the key is not there".to_owned())),
            Err(error) => self.find(request, KEPT_FOR).ok_or(error),
        }
    }

    fn find(&self, request: &KeyRequest, age: Duration) -> Option<Arc<KnownKey>> {
        let now = self.clock.uptime();
        self.lock().keys.get(request).filter(|known| now.saturating_sub(known.fetched_at) < age).cloned()
    }

    async fn fetch(&self, organization: OrganizationId, request: &KeyRequest) -> Result<Arc<KnownKey>, NotFetched> {
        let began_at = self.clock.uptime();
        if let Some((failed_at, why)) = self.lock().failures.get(request)
            && began_at.saturating_sub(*failed_at) < ASKED_AGAIN_AFTER
        {
            return Err(why.clone());
        }
        let _place = self.fetches.try_acquire().map_err(|_| NotFetched("too many keys are being fetched".to_owned()))?;
        let answer = self.request(organization, &request.url).await;
        let parsed = answer.and_then(|answer| FetchedKey::parse(request, &answer.body_sample).map_err(NotFetched));
        let mut known = self.lock();
        match parsed {
            Ok(key) => {
                let key = Arc::new(KnownKey { key, fetched_at: began_at });
                known.failures.remove(request);
                keep(&mut known.keys, request.clone(), key.clone());
                Ok(key)
            }
            Err(why) => {
                keep(&mut known.failures, request.clone(), (began_at, why.clone()));
                Err(why)
            }
        }
    }

    async fn request(&self, organization: OrganizationId, url: &str) -> Result<Response, NotFetched> {
        let parsed = Url::parse(url).map_err(|_| NotFetched(format!("{url} is no URL")))?;
        let target = Arc::new(Target { written: url.to_owned(), url: parsed });
        let (method, timeout) = (OutgoingMethod::Get, FETCH_TIMEOUT);
        let request = OutgoingRequest { organization, method, target, headers: Vec::new(), body: Bytes::new(), timeout };
        match self.transport.send(request).await.sent {
            Sent::Answered(response) if (200..300).contains(&response.status) && !response.cut.body => Ok(response),
            Sent::Answered(response) => Err(NotFetched(format!("{url} answered {}", response.status))),
            Sent::Failed { error, .. } | Sent::Refused { error, .. } | Sent::OutOfResources { error } => Err(NotFetched(error)),
            Sent::Parked { .. } => Err(NotFetched(format!("{url} did not answer"))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep<V>(known: &mut FxHashMap<KeyRequest, V>, request: KeyRequest, value: V) {
    if known.len() >= KEYS_MAX {
        known.clear();
    }
    known.insert(request, value);
}
