//! Who holds what: the port `Leases`, and the boot that settling is fenced by.
//!
//! A boot's row is renewed each second. Whoever wants what a boot holds deletes the row first, if it looks as it did when that boot was found to be
//! overdue; the server's clock has no say in it.
//! Shards are those of the node's pool; duties are everybody's.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use everhook_core::{
    ids::OrganizationId,
    model::{Duty, DutySet, Shard, ShardSet},
    ports::{Clock, Departure, Heartbeat, Held, LEASE_GOOD_FOR, LeaseRequest, Leases, Offset, Renewed, Roles, StoreError, Terms},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::{Fault, Outcome},
    rows::{Columns, Int, Key, micros},
    transaction::Tx,
};

const LOCK_BOOTS_SHARED: &str = include_str!("queries/lock_boots_shared.sql");
const BEGIN: &str = include_str!("queries/begin_boot.sql");
const MAKE_SHARDS: &str = include_str!("queries/make_shards.sql");
const FORGET_DEPARTURES: &str = include_str!("queries/forget_departures.sql");
const DEPART: &str = include_str!("queries/delete_departures.sql");
const WITHOUT_WORKERS: &str = include_str!("queries/pools_without_workers.sql");
const MAKE_DUTIES: &str = include_str!("queries/make_duties.sql");
const RENEW: &str = include_str!("queries/renew_boot.sql");
const LOCK: &str = include_str!("queries/lock_boot.sql");
const BURY: &str = include_str!("queries/bury_boots.sql");
const TAKE_SHARDS: &str = include_str!("queries/take_shards.sql");
const TAKE_DUTIES: &str = include_str!("queries/take_duties.sql");
const RELEASE_SHARDS: &str = include_str!("queries/release_shards.sql");
const RELEASE_DUTIES: &str = include_str!("queries/release_duties.sql");
const END: &str = include_str!("queries/end_boot.sql");
const STORE_TIME: &str = include_str!("queries/store_time.sql");

/// The boot that this process speaks for, once it has begun one.
#[derive(Default)]
pub(super) struct Boot(Mutex<Option<Uuid>>);

impl Boot {
    /// `None` before the first: then nothing is fenced.
    pub(super) fn get(&self) -> Option<Uuid> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, boot: Uuid) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(boot);
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
        connection.execute(FORGET_DEPARTURES, &[]).await?;
        if roles.worker {
            connection.execute(MAKE_SHARDS, &[&self.pool, &Int(i64::from(Shard::COUNT))]).await?;
        }
        drop(connection);
        let boot = Uuid::now_v7();
        if !self.insert_boot(boot, roles).await? {
            return Err(StoreError::unavailable("a data folder is being migrated into this database"));
        }
        self.boot.set(boot);
        Ok(())
    }

    async fn renew(&self) -> Result<Renewed, StoreError> {
        let boot = self.boot.known()?;
        let connection = self.lease_reader().await?;
        let row = connection.query_one(RENEW, &[&boot, &good_for(), &self.pool]).await?;
        Ok(renewed_of_row(&row)?)
    }

    async fn take(&self, request: LeaseRequest, overdue: Vec<Heartbeat>) -> Result<Held, StoreError> {
        Ok(self.take_free(request, &overdue).await?)
    }

    async fn release(&self, held: Held) -> Result<(), StoreError> {
        let boot = self.boot.known()?;
        let mut connection = self.pools.lease().await?;
        let tx = Tx::begin(&mut connection).await?;
        lock(&tx, boot).await?;
        tx.execute(RELEASE_SHARDS, &[&boot, &numbers(held.shards), &self.pool]).await?;
        tx.execute(RELEASE_DUTIES, &[&boot, &names(held.duties)]).await?;
        Ok(tx.commit().await?)
    }

    async fn depart(&self, departures: Vec<Departure>) -> Result<(), StoreError> {
        let boot = self.boot.known()?;
        let (organizations, moves): (Vec<Uuid>, Vec<i64>) =
            departures.iter().map(|departure| (departure.organization.key(), departure.moves)).unzip();
        self.lease_reader().await?.execute(DEPART, &[&boot, &organizations, &moves]).await?;
        Ok(())
    }

    async fn end(&self) -> Result<(), StoreError> {
        if let Some(boot) = self.boot.get() {
            self.lease_reader().await?.execute(END, &[&boot]).await?;
        }
        Ok(())
    }
}

impl PostgresStore {
    /// The pools that organizations belong to and that no node sends for: their deliveries wait.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server cannot be asked.
    pub async fn pools_without_workers(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.reader().await?.query(WITHOUT_WORKERS, &[]).await?;
        Ok(rows.iter().map(|row| row.value("worker_pool")).collect::<Outcome<_>>()?)
    }

    /// Measures how far the server's clock is from the machine's, for a node that is about to start. `None` if the server is too slow to tell.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server cannot be asked.
    pub async fn clock_offset(&self, clock: &dyn Clock) -> Result<Option<Offset>, StoreError> {
        let connection = self.lease_reader().await?;
        // The first time takes longer: the statement is prepared.
        connection.query_one(STORE_TIME, &[]).await?;
        let asked = clock.reading();
        let store_time = connection.query_one(STORE_TIME, &[]).await?.instant("store_time")?;
        Ok(Offset::measured(store_time, asked, clock.reading()))
    }

    /// Says whether the boot may begin.
    async fn insert_boot(&self, boot: Uuid, roles: Roles) -> Outcome<bool> {
        let mut connection = self.pools.lease().await?;
        let tx = Tx::begin(&mut connection).await?;
        tx.query_one(LOCK_BOOTS_SHARED, &[]).await?;
        let keys = self.seals.vault().ok().map(|vault| vault.keys());
        let (wanted, in_use) = (keys.map(|keys| keys.wanted.to_string()), keys.map(|keys| keys.in_use.to_string()));
        let begun =
            tx.execute(BEGIN, &[&boot, &self.node, &self.pool, &roles.worker, &roles.scheduler, &good_for(), &wanted, &in_use]).await?;
        tx.commit().await?;
        Ok(begun > 0)
    }

    async fn take_free(&self, request: LeaseRequest, overdue: &[Heartbeat]) -> Outcome<Held> {
        let boot = self.boot.known()?;
        let mut connection = self.pools.lease().await?;
        let tx = Tx::begin(&mut connection).await?;
        lock(&tx, boot).await?;
        let (boots, renewals): (Vec<Uuid>, Vec<i64>) = overdue.iter().map(|of| (of.boot, of.renewals.cast_signed())).unzip();
        tx.execute(BURY, &[&boot, &boots, &renewals]).await?;
        let shards = tx.query(TAKE_SHARDS, &[&boot, &i64::from(request.shards_max), &self.pool]).await?;
        let duties = tx.query(TAKE_DUTIES, &[&boot, &names(request.duties)]).await?;
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
    let organizations = row.value::<Vec<Uuid>>("departing")?.into_iter().map(OrganizationId::from_uuid);
    let moves = row.value::<Vec<i64>>("departing_moves")?;
    let departures = organizations.zip(moves).map(|(organization, moves)| Departure { organization, moves }).collect();
    let renewals = row.value::<Vec<i64>>("other_renewals")?.into_iter().map(i64::cast_unsigned);
    let others = row.value::<Vec<Uuid>>("others")?.into_iter().zip(renewals).map(|(boot, renewals)| Heartbeat { boot, renewals }).collect();
    Ok(Renewed::Held { held, departures, workers: row.number("workers")?, others, store_time: row.instant("store_time")? })
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
