//! What closed breakers have counted, from one owner of a lane to the next.

use std::time::{Duration, Instant, SystemTime};

use everhook_adapters::redis::{Redis, RedisSettings};
use everhook_core::{
    ids::LaneId,
    model::{KeptSlice, KeptWindow, Shard, ShardSet},
    ports::{BreakerWindows, LaneWindow},
    time::Timestamp,
};
use uuid::Uuid;

use crate::redis::server;

fn now() -> Timestamp {
    Timestamp::EPOCH + SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

fn window(endpoint: u128, at: Timestamp, failures: u32) -> LaneWindow {
    let slice = KeptSlice { number: at.as_secs(), since: at, successes: 4, failures };
    let window = KeptWindow { at, slice: Duration::from_secs(1), slices: vec![slice] };
    LaneWindow { lane_id: LaneId::from_uuid(Uuid::from_u128(endpoint)), window }
}

#[tokio::test]
async fn the_next_owner_reads_what_the_last_one_counted_unless_it_is_too_old() {
    let Some(url) = server::shared() else { return };
    let settings = RedisSettings { url, authorities: None, installation: Uuid::now_v7() };
    let (last, next) = (Redis::start(&settings).await.unwrap(), Redis::start(&settings).await.unwrap());
    let (young, old) = (window(1, now(), 3), window(2, now() - Duration::from_secs(301), 3));
    let changed = window(1, now(), 5);
    last.keep(vec![old, young, window(64 + 9, now(), 1)]);
    last.keep(vec![changed.clone()]);
    // Only the shards that were gained are read.
    let shards: ShardSet = [Shard::from_number(1).unwrap(), Shard::from_number(2).unwrap()].into_iter().collect();
    let deadline = Instant::now() + Duration::from_secs(10);
    while next.windows(shards).await != [changed.clone()] {
        assert!(Instant::now() < deadline, "{:?}", next.windows(shards).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(next.windows(ShardSet::ALL).await.len(), 2);
}
