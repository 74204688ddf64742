//! Slots of a node that is gone.

use std::num::NonZeroU32;

use everhook_adapters::redis::{Redis, RedisSettings};
use everhook_core::{
    ids::OrganizationId,
    model::SlotRequest,
    ports::{Ask, Grant, ThrottleStore, Wanted},
};
use uuid::Uuid;

use crate::redis::server::Server;

#[tokio::test]
async fn what_a_dead_node_held_comes_free_by_itself() {
    let Some(server) = Server::start() else { return };
    let settings = RedisSettings { url: server.url(), authorities: None, installation: Uuid::now_v7() };
    let (dead, living) = (Redis::start(&settings).await.unwrap(), Redis::start(&settings).await.unwrap());
    let slots = SlotRequest { limit: NonZeroU32::new(4).unwrap(), bound: 0, wanted: 4 };
    let ask = Ask { organization: OrganizationId::from_uuid(Uuid::from_u128(1)), what: Wanted::Slots(slots) };
    assert_eq!(dead.exchange(vec![ask]).await.unwrap(), [Grant::Slots(4)]);
    assert_eq!(living.exchange(vec![ask]).await.unwrap(), [Grant::Slots(0)]);
    // Five seconds later, as its entry has it.
    let mut client = redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let key: Vec<String> = redis::cmd("KEYS").arg("*:slots").query_async(&mut client).await.unwrap();
    let holders: Vec<String> = redis::cmd("HKEYS").arg(&key[0]).query_async(&mut client).await.unwrap();
    let first = holders.iter().min().unwrap();
    // Where Redis' clock was set back, its time comes in an hour, and is then no further away than ever.
    let until: String = redis::cmd("HGET").arg(&key[0]).arg(first).query_async(&mut client).await.unwrap();
    let until: u64 = until.rsplit(' ').next().unwrap().parse().unwrap();
    let _: () =
        redis::cmd("HSET").arg(&key[0]).arg(first).arg(format!("4 4 {}", until + 3_600_000_000)).query_async(&mut client).await.unwrap();
    assert_eq!(living.exchange(vec![ask]).await.unwrap(), [Grant::Slots(0)]);
    let capped: String = redis::cmd("HGET").arg(&key[0]).arg(first).query_async(&mut client).await.unwrap();
    let capped: u64 = capped.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(capped < until + 60_000_000, "{capped} is long after {until}");
    let _: () = redis::cmd("HSET").arg(&key[0]).arg(first).arg("4 4 1").query_async(&mut client).await.unwrap();
    assert_eq!(living.exchange(vec![ask]).await.unwrap(), [Grant::Slots(4)]);
}
