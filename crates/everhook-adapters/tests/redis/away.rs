//! A Redis that goes away and comes back.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use everhook_adapters::redis::{Redis, RedisSettings};
use everhook_core::{
    ids::OrganizationId,
    model::{Budget, Credit, RateLimit, TokenRequest},
    ports::{Ask, StoreError, ThrottleStore, Wanted},
};
use uuid::Uuid;

use crate::redis::server::Server;

/// Longer than the longest wait between two tries, on a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(20);

async fn redis(server: &Server) -> Redis {
    Redis::start(&RedisSettings { url: server.url(), authorities: None, installation: Uuid::now_v7() }).await.unwrap()
}

pub async fn take(redis: &Redis) -> Result<(), StoreError> {
    let limit = RateLimit::per_minute(NonZeroU32::new(60).unwrap(), NonZeroU32::new(1_000));
    let draw = TokenRequest { limit, take: 1, give_back: 0, credit: Credit::Ahead(Duration::ZERO) };
    let organization = OrganizationId::from_uuid(Uuid::from_u128(1));
    redis.exchange(vec![Ask { organization, what: Wanted::Tokens(Budget::Events, draw) }]).await.map(drop)
}

#[tokio::test]
async fn nobody_waits_for_a_redis_that_is_away_and_it_is_used_again_when_it_is_back() {
    let Some(mut server) = Server::start() else { return };
    let redis = redis(&server).await;
    take(&redis).await.unwrap();
    assert!(!redis.is_away());
    // When it dies, the first that asks may wait a little, and nobody after that.
    server.kill();
    assert!(matches!(take(&redis).await, Err(StoreError::Unavailable(_))));
    assert!(redis.is_away());
    let began_at = Instant::now();
    for _ in 0..1_000 {
        assert!(take(&redis).await.is_err());
    }
    assert!(began_at.elapsed() < Duration::from_millis(500), "nobody waits: {:?}", began_at.elapsed());
    // When it is back, it is found.
    server.resume();
    let deadline = Instant::now() + BACK_WITHIN;
    while redis.is_away() {
        assert!(Instant::now() < deadline, "it was not found");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    take(&redis).await.unwrap();
}

#[tokio::test]
async fn a_redis_that_is_not_there_keeps_nobody_from_starting() {
    let Some(mut server) = Server::start() else { return };
    server.kill();
    let redis = redis(&server).await;
    assert!(redis.is_away() && take(&redis).await.is_err());
}

#[tokio::test]
async fn installations_that_share_a_redis_count_apart() {
    let Some(server) = Server::start() else { return };
    let limit = RateLimit::per_minute(NonZeroU32::MIN, None);
    let draw = TokenRequest { limit, take: 1, give_back: 0, credit: Credit::Owed };
    let ask = Ask { organization: OrganizationId::from_uuid(Uuid::from_u128(1)), what: Wanted::Tokens(Budget::Events, draw) };
    let (one, other) = (redis(&server).await, redis(&server).await);
    let first = one.exchange(vec![ask]).await.unwrap();
    assert_eq!(other.exchange(vec![ask]).await.unwrap(), first);
    assert_ne!(one.exchange(vec![ask]).await.unwrap(), first);
}

#[test]
fn addresses_are_told_apart_before_anything_is_started() {
    let table = [
        ("redis://127.0.0.1:6379/", true),
        ("rediss://user:secret@cache.example:6380/2", true),
        ("rediss://cache.example#insecure", true),
        ("http://cache.example", false),
        ("redis://", false),
        ("cache.example", false),
    ];
    for (address, expected) in table {
        assert_eq!(everhook_adapters::redis::is_address(address), expected, "{address}");
    }
}
