//! Who is asking, and what they may do. A handler names the scope it needs by the extractor it takes, so that forgetting one does not compile.

use std::{
    num::NonZeroU32,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use axum::extract::FromRequestParts;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, OrganizationId, Ref},
    manage::api_keys,
    model::{Actor, ApiKey, ApiKeyHash, Author, RateLimit, Scope, Scopes},
    nodes::follow::StaleKeys,
    policy::bucket::Bucket,
    ports::{ApiKeyStore, StoreError},
    pruned::Pruned,
    spool::publishers::LookUpError,
    time::Timestamp,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use rustc_hash::FxHashMap;
use tokio::sync::Semaphore;

use super::{
    Api,
    error::{ApiError, ProblemKind},
    reach,
    wire::Named,
};
use crate::server::RequestContext;

/// How many keys are kept. Past it all are dropped and read again: rare, and simpler than an order of use.
const KEYS_MAX: usize = 10_000;

/// How many keys that are not kept are looked up at once; more wait. Guesses come without end, and the store's readers are also the deliveries'.
const LOOK_UPS_MAX: usize = 32;

/// The longest key that is hashed: longer ones are not ours.
const KEY_BYTES_MAX: usize = 128;

/// A use that follows another by less is not noticed: a second.
const USE_NOTICED_MICROS: i64 = 1_000_000;

/// How many uses are written in one go, so that no event waits long for its own write.
const USES_WRITTEN_MAX: usize = 500;

/// Names the organization that an admin acts in.
const ORGANIZATION_HEADER: HeaderName = HeaderName::from_static("x-organization");

/// Somebody whose key is good.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The organization that they act in.
    pub organization: OrganizationId,
    /// The only application that their key reaches; all of the organization's if absent.
    pub application: Option<ApplicationId>,
    /// What their key may do.
    pub scopes: Scopes,
    key: Arc<ApiKey>,
}

impl Caller {
    /// Who makes the changes of this request, for the audit log.
    pub fn author(&self) -> Author {
        Author { organization: self.organization, actor: Actor::Key { id: self.key.id, name: self.key.name.clone() } }
    }

    /// The same one, who acts in the organization that a field or parameter `tenant_id` names: their own, or any for an admin.
    pub async fn within(self, api: &Api, tenant: Option<&str>) -> Result<Self, ApiError> {
        let Some(name) = tenant else { return Ok(self) };
        let of = Ref::parse(name).ok_or_else(|| ApiError::not_found("organization"))?;
        let organization = api.organization_of(&self, &of).await?;
        Ok(Self { organization, ..self })
    }
}

macro_rules! scoped {
    ($($(#[$doc:meta])* $name:ident needs $scope:expr;)+) => {$(
        $(#[$doc])*
        pub struct $name(pub Caller);

        impl FromRequestParts<Arc<Api>> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
                let caller = identify(api, &parts.headers, Some($scope)).await?;
                if matches!($scope, Scope::Manage | Scope::Admin) && !parts.method.is_safe() {
                    api.changes.take(&caller, 1, api.line.ports.clock.now())?;
                }
                if let Some(context) = parts.extensions.get::<RequestContext>() {
                    context.set_organization(caller.organization);
                    if parts.method.is_safe() {
                        context.take_turn(api.reads.turn(caller.organization).await);
                        context.check_answers().map_err(ApiError::unread_answers)?;
                    }
                }
                // Last, because it may read: reads take turns, and changes have a rate.
                reach::check(api, &caller, parts).await?;
                Ok(Self(caller))
            }
        }
    )+};
}

scoped! {
    /// Somebody who may publish.
    MayPublish needs Scope::Publish;
    /// Somebody who may read everything but secrets.
    MayRead needs Scope::Read;
    /// Somebody who may change everything in their organization.
    MayManage needs Scope::Manage;
    /// Somebody who may do everything on this server, in whatever organization.
    MayAdminister needs Scope::Admin;
}

/// An admin who names an organization in the path. To others every organization but their own is not there.
pub struct MayAdministerNamed(pub Caller, pub Ref<OrganizationId>);

impl FromRequestParts<Arc<Api>> for MayAdministerNamed {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let refused = match MayAdminister::from_request_parts(parts, api).await {
            Ok(MayAdminister(caller)) => {
                let Named(of) = Named::from_request_parts(parts, api).await?;
                return Ok(Self(caller, of));
            }
            Err(refused) => refused,
        };
        if refused.status() != StatusCode::FORBIDDEN {
            return Err(refused);
        }
        let Named(of) = Named::from_request_parts(parts, api).await?;
        let caller = identify(api, &parts.headers, None).await?;
        // A key that may not see it gets 404; a key of its owner gets 403.
        api.organization_of(&caller, &of).await?;
        Err(refused)
    }
}

async fn identify(api: &Api, headers: &HeaderMap, needed: Option<Scope>) -> Result<Caller, ApiError> {
    let text = bearer(headers)?;
    let now = api.line.ports.clock.now();
    let look_up = async |hash: &ApiKeyHash| api.line.publishers.api_key(hash).await;
    let key = api.keys.find(look_up, text, now).await.map_err(|error| ApiError::of_look_up("API key", error))?;
    let key = key
        .ok_or_else(|| ApiError::new(ProblemKind::ApiKeyInvalid, "the API key is not known to this server: it was mistyped or revoked"))?;
    if key.expires_at.is_some_and(|at| at <= now) {
        return Err(ApiError::new(ProblemKind::ApiKeyExpired, "the API key has expired"));
    }
    if let Some(needed) = needed.filter(|needed| !key.scopes.allow(*needed)) {
        let words = format!("this request requires a key with the scope `{}`", needed.as_str());
        return Err(ApiError::new(ProblemKind::InsufficientScope, words));
    }
    let organization = acts_in(api, headers, &key).await?;
    Ok(Caller { organization, application: key.application, scopes: key.scopes, key })
}

/// A header that may be sent once only: a proxy in front of the server may take another of two values than this server.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(ApiError::bad_request(format!("the header `{name}` is given more than once")));
    }
    Ok(first)
}

/// The key that a request shows. A missing key and a malformed one are distinguished.
fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let Some(value) = only(headers, &header::AUTHORIZATION)? else {
        return Err(ApiError::new(ProblemKind::ApiKeyMissing, "send an API key: `Authorization: Bearer eh_…`"));
    };
    let key = value.to_str().ok().and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let key = key.map(|(_, key)| key.trim()).filter(|key| key.starts_with(api_keys::PREFIX) && key.len() <= KEY_BYTES_MAX);
    key.ok_or_else(|| ApiError::new(ProblemKind::ApiKeyInvalid, "the header Authorization is not of the form `Bearer eh_…`"))
}

/// An admin acts in the organization that is named, or in `default`; everybody else in their own, and may say so.
async fn acts_in(api: &Api, headers: &HeaderMap, key: &ApiKey) -> Result<OrganizationId, ApiError> {
    let is_admin = key.scopes.allow(Scope::Admin);
    let Some(named) = only(headers, &ORGANIZATION_HEADER)? else {
        return Ok(if is_admin { api.default_organization } else { key.organization });
    };
    let missing = || ApiError::not_found("organization");
    let of = named.to_str().ok().and_then(Ref::parse).ok_or_else(missing)?;
    let found = api.line.publishers.organization(&of).await.map_err(|error| ApiError::of_look_up("organization", error))?;
    found.filter(|id| is_admin || *id == key.organization).ok_or_else(missing)
}

/// How many changes an organization may ask of one node in the long run, a second: enough to make ten thousand endpoints in three minutes, and too few
/// to fill memory or a disk with what is made and deleted again.
const CHANGES_PER_SECOND: NonZeroU32 = NonZeroU32::new(50).expect("not zero");
/// How many of them may come at once: what a deployment changes.
const CHANGES_AT_ONCE: NonZeroU32 = NonZeroU32::new(1_000).expect("not zero");

/// Limits the rate of changes of an organization: everything but publishing and reading. Admin keys belong to the operator, and are not limited.
#[derive(Default)]
pub struct ChangeRates(Mutex<Pruned<OrganizationId, Bucket>>);

impl ChangeRates {
    /// Takes what so many changes cost, or nothing.
    ///
    /// # Errors
    /// 429 if they are too many for now, with the time after which they are not.
    pub fn take(&self, caller: &Caller, changes: u32, now: Timestamp) -> Result<(), ApiError> {
        if caller.scopes.allow(Scope::Admin) {
            return Ok(());
        }
        let limit = RateLimit::per_second(CHANGES_PER_SECOND, Some(CHANGES_AT_ONCE));
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.entry(caller.organization, |bucket| !bucket.is_full(now), || Bucket::new(limit, now));
        bucket.try_take_many(changes, now).map_err(|until| {
            let words = format!("the organization may change its configuration {CHANGES_PER_SECOND} times per second: try again later");
            ApiError::too_many(ProblemKind::ChangeRateLimit, words, until.since(now))
        })
    }
}

/// The keys that were shown lately, so that a publish does not read the store for its key. Unknown keys are not kept: guesses would fill it.
///
/// It also remembers when each was last used, which is written now and then and never on a request's way.
pub struct KeyCache {
    /// Held while a key is looked up in the store.
    look_ups: Semaphore,
    keys: RwLock<FxHashMap<ApiKeyHash, Arc<KnownKey>>>,
    /// Counts revocations, so that a read that began before one is not kept after it.
    revocations: AtomicU64,
}

/// A key, and when it was last used.
struct KnownKey {
    key: Arc<ApiKey>,
    /// In microseconds, as far as it was noticed.
    used_at: AtomicI64,
    /// As far as it was written.
    written_at: AtomicI64,
}

impl KnownKey {
    fn new(key: ApiKey) -> Self {
        let used_at = key.last_used_at.map_or(i64::MIN, Timestamp::as_micros);
        Self { key: Arc::new(key), used_at: used_at.into(), written_at: used_at.into() }
    }

    /// Notices a use. Most of them only read: a write would take the line of memory from the other threads.
    fn used(&self, now: Timestamp) {
        if now.as_micros().saturating_sub(self.used_at.load(Ordering::Relaxed)) >= USE_NOTICED_MICROS {
            self.used_at.store(now.as_micros(), Ordering::Relaxed);
        }
    }

    fn last_used_at(&self) -> Option<Timestamp> {
        Some(self.used_at.load(Ordering::Relaxed)).filter(|at| *at > i64::MIN).map(Timestamp::from_micros)
    }
}

impl Default for KeyCache {
    fn default() -> Self {
        Self { look_ups: Semaphore::new(LOOK_UPS_MAX), keys: RwLock::default(), revocations: AtomicU64::default() }
    }
}

impl KeyCache {
    /// The key of this text, from memory or by a look-up.
    async fn find(
        &self,
        look_up: impl AsyncFnOnce(&ApiKeyHash) -> Result<Option<ApiKey>, LookUpError>,
        text: &str,
        now: Timestamp,
    ) -> Result<Option<Arc<ApiKey>>, LookUpError> {
        let hash = api_keys::hash(text);
        if let Some(key) = self.kept(&hash, now) {
            return Ok(Some(key));
        }
        let _look_up = self.look_ups.acquire().await;
        // Another request with the same key may have been before this one.
        if let Some(key) = self.kept(&hash, now) {
            return Ok(Some(key));
        }
        let revocations_before = self.revocations.load(Ordering::Acquire);
        let Some(known) = look_up(&hash).await?.map(KnownKey::new) else { return Ok(None) };
        known.used(now);
        let key = known.key.clone();
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if self.revocations.load(Ordering::Acquire) == revocations_before {
            // Uses that were not written yet are forgotten with the rest: a minute of ten thousand keys, which come back with their next use.
            if keys.len() >= KEYS_MAX {
                keys.clear();
            }
            keys.insert(hash, Arc::new(known));
        }
        Ok(Some(key))
    }

    fn kept(&self, hash: &ApiKeyHash, now: Timestamp) -> Option<Arc<ApiKey>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let known = keys.get(hash)?;
        known.used(now);
        Some(known.key.clone())
    }

    /// Drops a key that was revoked: it is refused from the next request on.
    pub fn forget(&self, id: ApiKeyId) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        self.revocations.fetch_add(1, Ordering::AcqRel);
        keys.retain(|_, known| known.key.id != id);
    }

    /// Drops what other nodes may have revoked.
    pub fn forget_stale(&self, stale: StaleKeys) {
        match stale {
            StaleKeys::One(id) => self.forget(id),
            StaleKeys::All => {
                let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
                self.revocations.fetch_add(1, Ordering::AcqRel);
                keys.clear();
            }
        }
    }

    /// When the keys that are kept were last used, which may not be written yet.
    pub fn last_uses(&self) -> FxHashMap<ApiKeyId, Timestamp> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.values().filter_map(|known| Some((known.key.id, known.last_used_at()?))).collect()
    }

    /// Writes the uses that are not written yet. Called once a minute, and when the server stops.
    pub async fn write_uses(&self, api_keys: &dyn ApiKeyStore) -> Result<(), StoreError> {
        let known: Vec<_> = self.keys.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let is_news = |known: &Arc<KnownKey>| known.used_at.load(Ordering::Relaxed) > known.written_at.load(Ordering::Relaxed);
        let news: Vec<_> = known.into_iter().filter(is_news).filter_map(|known| known.last_used_at().map(|at| (known, at))).collect();
        for some in news.chunks(USES_WRITTEN_MAX) {
            api_keys.note_key_uses(some.iter().map(|(known, at)| (known.key.id, *at)).collect()).await?;
            for (known, at) in some {
                known.written_at.store(at.as_micros(), Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn key() -> ApiKey {
        ApiKey {
            id: ApiKeyId::from_uuid(Uuid::from_u128(1)),
            organization: OrganizationId::from_uuid(Uuid::from_u128(2)),
            application: None,
            name: "k".to_owned(),
            prefix: "eh_ab12".to_owned(),
            scopes: Scopes::default(),
            created_at: NOW,
            expires_at: None,
            last_used_at: None,
        }
    }

    #[tokio::test]
    async fn a_key_that_was_read_before_a_revocation_is_not_kept_after_it() {
        let revocations: [fn(&KeyCache); 3] = [
            |cache| cache.forget(key().id),
            // Another's, too: which key is being read is not known.
            |cache| cache.forget(ApiKeyId::from_uuid(Uuid::from_u128(9))),
            |cache| cache.forget_stale(StaleKeys::All),
        ];
        for revoke in revocations {
            let cache = KeyCache::default();
            let revoked_meanwhile = async |_: &ApiKeyHash| {
                revoke(&cache);
                Ok(Some(key()))
            };
            assert!(cache.find(revoked_meanwhile, "eh_a", NOW).await.unwrap().is_some(), "this one request was admitted before");
            assert!(cache.kept(&api_keys::hash("eh_a"), NOW).is_none());
            // Without a revocation it is kept, and not looked up again.
            cache.find(async |_: &ApiKeyHash| Ok(Some(key())), "eh_a", NOW).await.unwrap();
            let again = cache.find(async |_: &ApiKeyHash| panic!("it is kept"), "eh_a", NOW).await.unwrap();
            assert_eq!(again.map(|found| found.id), Some(key().id));
        }
    }

    #[test]
    fn only_a_bearer_key_of_ours_is_looked_at() {
        let table = [
            ("Bearer eh_abc", Some("eh_abc")),
            ("bearer  eh_abc ", Some("eh_abc")),
            ("Basic eh_abc", None),
            ("Bearer abc", None),
            ("eh_abc", None),
            ("", None),
        ];
        for (value, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(bearer(&headers).ok(), expected, "{value}");
        }
        assert!(bearer(&HeaderMap::new()).is_err());
    }
}
