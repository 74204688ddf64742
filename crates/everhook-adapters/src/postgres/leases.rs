//! Who holds what: the port `Leases`, and the boot that settling is fenced by.
//!
//! The server's clock decides. A boot's row is renewed each second; whoever wants what a boot holds deletes the row first, if its lease has ended.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use everhook_core::{
    model::{Duty, DutySet, Shard, ShardSet},
    ports::{Held, LEASE_GOOD_FOR, Leases, Renewed, Roles, StoreError, Terms, Wish},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::{Fault, Outcome},
    rows::{Columns, micros},
    transaction::Tx,
};

const BEGIN: &str = include_str!("queries/begin_boot.sql");
const MAKE_DUTIES: &str = include_str!("queries/make_duties.sql");
const RENEW: &str = include_str!("queries/renew_boot.sql");
const LOCK: &str = include_str!("queries/lock_boot.sql");
const BURY: &str = include_str!("queries/bury_boots.sql");
const TAKE_SHARDS: &str = include_str!("queries/take_shards.sql");
const TAKE_DUTIES: &str = include_str!("queries/take_duties.sql");
const RELEASE_SHARDS: &str = include_str!("queries/release_shards.sql");
const RELEASE_DUTIES: &str = include_str!("queries/release_duties.sql");
const END: &str = include_str!("queries/end_boot.sql");

/// The boot that this process speaks for, once it has begun one.
#[derive(Default)]
pub(super) struct Boot(Mutex<Option<Uuid>>);

impl Boot {
    /// `None` before the first: then nothing is fenced.
    pub(super) fn get(&self) -> Option<Uuid> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, boot: Uuid) -> Option<Uuid> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(boot)
    }

    fn known(&self) -> Outcome<Uuid> {
        self.get().ok_or(Fault::Fenced)
    }
}

#[async_trait]
impl Leases for PostgresStore {
    fn terms(&self) -> Terms {
        Terms::Shared
    }

    async fn begin(&self, roles: Roles) -> Result<(), StoreError> {
        let connection = self.lease_reader().await?;
        if let Some(former) = self.boot.get() {
            connection.execute(END, &[&former]).await?;
        }
        let duties: Vec<&str> = Duty::ALL.iter().map(|duty| duty.as_str()).collect();
        connection.execute(MAKE_DUTIES, &[&duties]).await?;
        let boot = Uuid::now_v7();
        connection.execute(BEGIN, &[&boot, &self.node, &roles.worker, &roles.scheduler, &good_for()]).await?;
        self.boot.set(boot);
        Ok(())
    }

    async fn renew(&self) -> Result<Renewed, StoreError> {
        let boot = self.boot.known()?;
        let row = self.lease_reader().await?.query_one(RENEW, &[&boot, &good_for()]).await?;
        Ok(renewed_of_row(&row)?)
    }

    async fn take(&self, wish: Wish) -> Result<Held, StoreError> {
        Ok(self.take_free(wish).await?)
    }

    async fn release(&self, held: Held) -> Result<(), StoreError> {
        let boot = self.boot.known()?;
        let mut connection = self.pools.lease().await?;
        let tx = Tx::begin(&mut connection).await?;
        lock(&tx, boot).await?;
        tx.execute(RELEASE_SHARDS, &[&boot, &numbers(held.shards)]).await?;
        tx.execute(RELEASE_DUTIES, &[&boot, &names(held.duties)]).await?;
        Ok(tx.commit().await?)
    }

    async fn end(&self) -> Result<(), StoreError> {
        if let Some(boot) = self.boot.get() {
            self.lease_reader().await?.execute(END, &[&boot]).await?;
        }
        Ok(())
    }
}

impl PostgresStore {
    async fn take_free(&self, wish: Wish) -> Outcome<Held> {
        let boot = self.boot.known()?;
        let mut connection = self.pools.lease().await?;
        let tx = Tx::begin(&mut connection).await?;
        lock(&tx, boot).await?;
        tx.execute(BURY, &[&boot]).await?;
        let shards = tx.query(TAKE_SHARDS, &[&boot, &i64::from(wish.shards_max)]).await?;
        let duties = tx.query(TAKE_DUTIES, &[&boot, &names(wish.duties)]).await?;
        let shards = shards.iter().map(|row| row.value("number")).collect::<Outcome<Vec<i16>>>()?;
        let duties = duties.iter().map(|row| row.value("name")).collect::<Outcome<Vec<&str>>>()?;
        let held = Held { shards: shard_set(shards), duties: duty_set(&duties) };
        tx.commit().await?;
        Ok(held)
    }
}

/// A boot that was buried holds nothing, and must not take anything.
async fn lock(tx: &Tx<'_>, boot: Uuid) -> Outcome<()> {
    tx.query_opt(LOCK, &[&boot]).await?.map(drop).ok_or(Fault::Fenced)
}

fn good_for() -> i64 {
    micros(LEASE_GOOD_FOR)
}

fn renewed_of_row(row: &Row) -> Outcome<Renewed> {
    if !row.value::<bool>("is_known")? {
        return Ok(Renewed::Lost);
    }
    let held = Held { shards: shard_set(row.value::<Vec<i16>>("shards")?), duties: duty_set(&row.value::<Vec<&str>>("duties")?) };
    Ok(Renewed::Held { held, workers: row.number("workers")?, store_time: row.instant("store_time")? })
}

fn shard_set(numbers: Vec<i16>) -> ShardSet {
    numbers.into_iter().filter_map(|number| Shard::from_number(u32::try_from(number).ok()?)).collect()
}

fn numbers(shards: ShardSet) -> Vec<i16> {
    shards.iter().filter_map(|shard| i16::try_from(shard.number()).ok()).collect()
}

/// Those that a newer version has are not ours to do.
fn duty_set(names: &[&str]) -> DutySet {
    names.iter().filter_map(|name| Duty::parse(name)).collect()
}

fn names(duties: DutySet) -> Vec<&'static str> {
    Duty::ALL.into_iter().filter(|duty| duties.contains(*duty)).map(Duty::as_str).collect()
}
