//! Who is asking, and what they may do. A handler names the scope it needs by the extractor it takes, so that forgetting one does not compile.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

use axum::extract::FromRequestParts;
use everhook_core::{
    ids::{ApiKeyId, OrganizationId, Ref},
    manage::api_keys,
    model::{ApiKey, ApiKeyHash, Scope, Scopes},
    ports::{Directory, StoreError},
};
use http::{HeaderMap, StatusCode, header, request::Parts};
use rustc_hash::FxHashMap;

use super::{Api, error::ApiError};

/// How many keys are kept. Past it all are dropped and read again: rare, and simpler than an order of use.
const KEYS_MAX: usize = 10_000;

/// The longest key that is hashed: longer ones are not ours.
const KEY_BYTES_MAX: usize = 128;

/// Names the organization that an admin acts in.
const ORGANIZATION_HEADER: &str = "x-organization";

/// Somebody whose key is good.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The organization that they act in.
    pub organization: OrganizationId,
    /// What their key may do.
    pub scopes: Scopes,
}

macro_rules! scoped {
    ($($(#[$doc:meta])* $name:ident needs $scope:expr;)+) => {$(
        $(#[$doc])*
        pub struct $name(pub Caller);

        impl FromRequestParts<Arc<Api>> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
                identify(api, &parts.headers, $scope).await.map(Self)
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
}

/// Somebody who may do everything on this server, in whatever organization.
pub struct MayAdminister;

impl FromRequestParts<Arc<Api>> for MayAdminister {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        identify(api, &parts.headers, Scope::Admin).await.map(|_| Self)
    }
}

async fn identify(api: &Api, headers: &HeaderMap, needed: Scope) -> Result<Caller, ApiError> {
    let text = bearer(headers).ok_or_else(|| unauthorized("send an API key: `Authorization: Bearer eh_…`"))?;
    let key = api.keys.find(&*api.line.ports.directory, text).await?;
    let key = key.ok_or_else(|| unauthorized("the API key is not known"))?;
    if key.expires_at.is_some_and(|at| at <= api.line.ports.clock.now()) {
        return Err(unauthorized("the API key has expired"));
    }
    if !key.scopes.allow(needed) {
        let words = format!("this needs a key with the scope `{}`", needed.as_str());
        return Err(ApiError::new(StatusCode::FORBIDDEN, words));
    }
    let organization = acts_in(api, headers, &key).await?;
    Ok(Caller { organization, scopes: key.scopes })
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && key.starts_with(api_keys::PREFIX) && key.len() <= KEY_BYTES_MAX).then_some(key)
}

/// An admin acts in the organization that is named, or in `default`; everybody else in their own, and may say so.
async fn acts_in(api: &Api, headers: &HeaderMap, key: &ApiKey) -> Result<OrganizationId, ApiError> {
    let is_admin = key.scopes.allow(Scope::Admin);
    let Some(named) = headers.get(ORGANIZATION_HEADER) else {
        return Ok(if is_admin { api.default_organization } else { key.organization });
    };
    let missing = || ApiError::not_found("organization");
    let of = named.to_str().ok().and_then(Ref::parse).ok_or_else(missing)?;
    let found = api.line.ports.directory.organization(&of).await?.ok_or_else(missing)?;
    if is_admin || found.id == key.organization { Ok(found.id) } else { Err(missing()) }
}

fn unauthorized(detail: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, detail)
}

/// The keys that were shown lately, so that a publish does not read the store for its key. Unknown keys are not kept: guesses would fill it.
#[derive(Default)]
pub struct KeyCache {
    keys: RwLock<FxHashMap<ApiKeyHash, Arc<ApiKey>>>,
    /// Counts revocations, so that a read that began before one is not kept after it.
    revocations: AtomicU64,
}

impl KeyCache {
    async fn find(&self, directory: &dyn Directory, text: &str) -> Result<Option<Arc<ApiKey>>, StoreError> {
        let hash = api_keys::hash(text);
        if let Some(key) = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(&hash) {
            return Ok(Some(key.clone()));
        }
        let revocations_before = self.revocations.load(Ordering::Acquire);
        let Some(key) = directory.api_key(&hash).await?.map(Arc::new) else { return Ok(None) };
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if self.revocations.load(Ordering::Acquire) == revocations_before {
            if keys.len() >= KEYS_MAX {
                keys.clear();
            }
            keys.insert(hash, key.clone());
        }
        Ok(Some(key))
    }

    /// Drops a key that was revoked: it is refused from the next request on.
    pub fn forget(&self, id: ApiKeyId) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        self.revocations.fetch_add(1, Ordering::AcqRel);
        keys.retain(|_, key| key.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(bearer(&headers), expected, "{value}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
