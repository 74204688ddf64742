//! Keys that stand on providers' servers: fetched when a request needs one, remembered for the next, by one fetch at a time for each.
//!
//! Where a key cannot be fetched, nobody can say whose a request is: the provider is asked to send it again.
//!
//! A key that is half way to its end is fetched again beside the request that uses it, so that no provider waits for that, and a server that is away for
//! hours is not noticed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::Semaphore;
use url::Url;

use crate::{
    ids::OrganizationId,
    inbound::{FetchedKey, KeyRequest},
    model::{Response, Sent, Target},
    ports::{Clock, OutgoingMethod, OutgoingRequest, Transport},
    reading::Reading,
};

/// After so long a key is fetched again at its next use; the old one is good for as long again while that fails.
const REFRESHED_AFTER: Duration = Duration::from_secs(12 * 3600);
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);
/// A set of keys that did not verify a request may have changed. Requests that nobody signed must not have it fetched more often than this, whether that
/// succeeds or fails.
const DOUBTED_AFTER: Duration = Duration::from_secs(60);
/// For how long nobody asks again after a fetch failed.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How long a fetch may take: providers wait some seconds for their answer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(4);
/// How many keys are fetched at once, in all and for one organization. Where it is a request that says which, strangers choose them; and a server that
/// hangs keeps its place for as long as a fetch may take.
const FETCHES_MAX: usize = 32;
const FETCHES_OF_ORGANIZATION_MAX: usize = 2;
/// How many keys are remembered, in all and of those that one organization had fetched. Past it the one that was not used for the longest time goes: of the
/// organization, or of the one that has most.
const KEYS_MAX: usize = 1_000;
const KEYS_OF_ORGANIZATION_MAX: usize = KEYS_MAX / 4;

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
    keys: Shared<Arc<KnownKey>>,
    failures: Shared<(Duration, NotFetched)>,
    /// How many keys are being fetched for whom.
    fetching: FxHashMap<OrganizationId, usize>,
    /// Those that are being fetched again beside the requests that use them.
    refreshing: FxHashSet<KeyRequest>,
}

/// Things by keys, of which organizations have their shares.
struct Shared<V>(FxHashMap<KeyRequest, Entry<V>>);

struct Entry<V> {
    value: V,
    organization: OrganizationId,
    used_at: Duration,
}

impl<V> Default for Shared<V> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<V: Clone> Shared<V> {
    fn get(&mut self, request: &KeyRequest, now: Duration) -> Option<V> {
        let entry = self.0.get_mut(request)?;
        entry.used_at = now;
        Some(entry.value.clone())
    }

    fn keep(&mut self, organization: OrganizationId, request: KeyRequest, value: V, now: Duration) {
        self.0.insert(request, Entry { value, organization, used_at: now });
        let mut counts: FxHashMap<OrganizationId, usize> = FxHashMap::default();
        for entry in self.0.values() {
            *counts.entry(entry.organization).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|(_, count)| **count).map(|(most, _)| *most);
        let from = if counts[&organization] > KEYS_OF_ORGANIZATION_MAX { Some(organization) } else { most };
        if self.0.len() > KEYS_MAX || counts[&organization] > KEYS_OF_ORGANIZATION_MAX {
            let of_it = self.0.iter().filter(|(_, entry)| Some(entry.organization) == from);
            let oldest = of_it.min_by_key(|(_, entry)| entry.used_at).map(|(request, _)| request.clone());
            oldest.iter().for_each(|request| drop(self.0.remove(request)));
        }
    }
}

/// A place among the fetches of an organization, until it is dropped.
struct Place<'a> {
    keys: &'a ProviderKeys,
    organization: OrganizationId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut known = self.keys.lock();
        let Some(count) = known.fetching.get_mut(&self.organization) else { return };
        *count -= 1;
        if *count == 0 {
            known.fetching.remove(&self.organization);
        }
    }
}

/// A key that is being fetched again, until it is dropped.
struct Refreshing {
    keys: Arc<ProviderKeys>,
    request: KeyRequest,
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        self.keys.lock().refreshing.remove(&self.request);
    }
}

impl ProviderKeys {
    pub(super) fn new(transport: Arc<dyn Transport>, clock: Arc<dyn Clock>) -> Self {
        Self { transport, clock, known: Mutex::default(), reading: Reading::default(), fetches: Semaphore::new(FETCHES_MAX) }
    }

    /// The key that a request needs.
    ///
    /// # Errors
    /// [`NotFetched`] if it is not known and cannot be fetched.
    pub async fn get(self: &Arc<Self>, organization: OrganizationId, request: &KeyRequest) -> Result<Arc<KnownKey>, NotFetched> {
        let Some(key) = self.find(request, KEPT_FOR) else { return self.fetch_in_turn(KEPT_FOR, organization, request).await };
        if self.clock.uptime().saturating_sub(key.fetched_at) >= REFRESHED_AFTER {
            self.refresh_beside(organization, request);
        }
        Ok(key)
    }

    /// The key once more, if the one that did not verify a request may be out of date; `None` if it is not.
    ///
    /// # Errors
    /// [`NotFetched`] if it cannot be fetched, or could not within the last minute: nobody can say then whose the request is.
    pub async fn get_again(
        &self,
        doubted: &KnownKey,
        organization: OrganizationId,
        request: &KeyRequest,
    ) -> Result<Option<Arc<KnownKey>>, NotFetched> {
        let now = self.clock.uptime();
        if now.saturating_sub(doubted.fetched_at) < DOUBTED_AFTER {
            return Ok(None);
        }
        if let Some(why) = self.failure_within(DOUBTED_AFTER, request, now) {
            return Err(why);
        }
        let key = self.fetch_in_turn(DOUBTED_AFTER, organization, request).await?;
        Ok((key.fetched_at > doubted.fetched_at).then_some(key))
    }

    /// Requests a URL that confirms a subscription.
    ///
    /// # Errors
    /// [`NotFetched`] if it does not answer with a success.
    pub async fn visit(&self, organization: OrganizationId, url: &str) -> Result<(), NotFetched> {
        self.request(organization, url).await.map(drop)
    }

    /// Fetches a key again while its requests go on with the one that is known. A failure is remembered, and costs nothing more.
    fn refresh_beside(self: &Arc<Self>, organization: OrganizationId, request: &KeyRequest) {
        let is_failing = self.failure_within(DOUBTED_AFTER, request, self.clock.uptime()).is_some();
        if is_failing || !self.lock().refreshing.insert(request.clone()) {
            return;
        }
        let refreshing = Refreshing { keys: self.clone(), request: request.clone() };
        tokio::spawn(async move {
            let Refreshing { keys, request } = &refreshing;
            if let Err(NotFetched(why)) = keys.fetch_in_turn(REFRESHED_AFTER, organization, request).await {
                tracing::warn!("cannot refresh a provider's key; the one that is known is used: {why}");
            }
        });
    }

    /// Fetches a key, unless somebody fetched it within the time given while this waited for its turn.
    async fn fetch_in_turn(&self, age: Duration, organization: OrganizationId, request: &KeyRequest) -> Result<Arc<KnownKey>, NotFetched> {
        let fetched = self.reading.read(request.clone(), async {
            match self.find(request, age) {
                Some(key) => Ok(Some(key)),
                None => self.fetch(organization, request).await.map(Some),
            }
        });
        fetched.await?.ok_or_else(|| NotFetched("the key is not there".to_owned()))
    }

    /// Why a fetch failed, if one did so lately.
    fn failure_within(&self, time: Duration, request: &KeyRequest, now: Duration) -> Option<NotFetched> {
        let failure = self.lock().failures.get(request, now);
        failure.filter(|(failed_at, _)| now.saturating_sub(*failed_at) < time).map(|(_, why)| why)
    }

    fn find(&self, request: &KeyRequest, age: Duration) -> Option<Arc<KnownKey>> {
        let now = self.clock.uptime();
        self.lock().keys.get(request, now).filter(|known| now.saturating_sub(known.fetched_at) < age)
    }

    /// Takes a place for a fetch, if the organization may have another one.
    fn take_place(&self, organization: OrganizationId) -> Option<Place<'_>> {
        let mut known = self.lock();
        let count = known.fetching.entry(organization).or_default();
        if *count >= FETCHES_OF_ORGANIZATION_MAX {
            return None;
        }
        *count += 1;
        Some(Place { keys: self, organization })
    }

    async fn fetch(&self, organization: OrganizationId, request: &KeyRequest) -> Result<Arc<KnownKey>, NotFetched> {
        let began_at = self.clock.uptime();
        if let Some(why) = self.failure_within(ASKED_AGAIN_AFTER, request, began_at) {
            return Err(why);
        }
        let too_many = || NotFetched("too many keys are being fetched".to_owned());
        let _share = self.take_place(organization).ok_or_else(too_many)?;
        let _place = self.fetches.try_acquire().map_err(|_| too_many())?;
        let answer = self.request(organization, &request.url).await;
        let parsed = answer.and_then(|answer| FetchedKey::parse(request, &answer.body_sample).map_err(NotFetched));
        let mut known = self.lock();
        match parsed {
            Ok(key) => {
                let key = Arc::new(KnownKey { key, fetched_at: began_at });
                known.failures.0.remove(request);
                known.keys.keep(organization, request.clone(), key.clone(), began_at);
                Ok(key)
            }
            Err(why) => {
                known.failures.keep(organization, request.clone(), (began_at, why.clone()), began_at);
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

#[cfg(test)]
#[path = "provider_keys_tests.rs"]
mod tests;
