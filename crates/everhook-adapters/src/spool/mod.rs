//! The spool: one SQLite file behind the port `Spool`, where events wait while the store that nodes share is away.
//!
//! `queue` has the events, `waiting` how many there are, `publisher_cache` what admits their publishers meanwhile, `binding` which database all of it is
//! of, and `retrying` how events come back that the store did not take. It writes through the embedded store's writer: what waits is written in one
//! commit and answered after its flush. There are no readers: whoever empties it is the only one who reads.

mod binding;
mod publisher_cache;
mod queue;
mod resealing;
mod retrying;
mod waiting;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, OrganizationId, Ref},
    model::{ApiKey, ApiKeyHash},
    ports::{IncomingEvent, KnownPublisher, PublisherCache, Spool, SpoolStatus, SpooledEvent, StoreError, Taken, Vault},
    time::Timestamp,
};
use rusqlite::{Connection, Row};
use tokio::sync::watch;

pub use self::binding::{BindError, Takeover};
use self::{publisher_cache::Known, waiting::Waiting};
use crate::{
    commits,
    encoding::payload::Seals,
    sqlite::{
        OpenError, WriterMode, connect,
        folder::Folder,
        group_commit::{self, GroupCommit},
        migrate::{Migration, migrate_by},
        writer::Writer,
    },
    system::system_time,
};

/// The name of the spool's file.
const DATABASE_FILE: &str = "spool.db";
/// What the header of the file says about who made it: the letters "EvHs".
const APPLICATION_ID: i32 = 0x4576_4873;

const MIGRATIONS: [Migration; 1] = [Migration { version: 1, sql: include_str!("migrations/0001_lay_the_tables.sql") }];

const STATUS: &str = include_str!("queries/spool_status.sql");

/// Where a spool is, and how large it may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// Its folder. Made if it is not there; held by one process at a time.
    pub folder: PathBuf,
    /// How many bytes of events there may be.
    pub bytes_max: u64,
    /// Who writes.
    pub mode: WriterMode,
}

/// A spool on this machine's disk. Dropping it finishes what waits to be written and gives the folder free.
pub struct SqliteSpool {
    writer: Writer,
    bytes_max: u64,
    waiting: Waiting,
    /// As how many bytes what waits and what is being written counts.
    bytes: AtomicU64,
    known: Mutex<Known>,
    broken: watch::Receiver<bool>,
    /// What opens events' data that is sealed.
    seals: Seals,
}

impl SqliteSpool {
    /// Takes the folder and brings the file up to date. Blocks for a few milliseconds.
    ///
    /// # Errors
    /// [`OpenError`] says what to do.
    pub fn open(settings: SpoolSettings) -> Result<Self, OpenError> {
        let folder = Folder::take(&settings.folder, DATABASE_FILE)?;
        let connection = connect::writer(folder.database(), APPLICATION_ID)?;
        // What is forwarded is the store's to erase: no copy is to stay here. The file is small, and written only while the store is away.
        connection.pragma_update(None, "secure_delete", "ON")?;
        migrate_by(&MIGRATIONS, &connection, system_time())?;
        retry_unforwarded(&connection);
        let (waiting, bytes) = (Waiting::read(&connection)?, read_bytes(&connection)?);
        let known = Mutex::new(Known::read(&connection)?);
        let (breaks, broken) = watch::channel(false);
        let writer = Writer::start(folder, GroupCommit::new(connection, breaks), settings.mode, None)?;
        Ok(Self { writer, bytes_max: settings.bytes_max, waiting, bytes: bytes.into(), known, broken, seals: Seals::default() })
    }

    /// Seals and opens events' data with this vault from now on; without one, what is to be sealed is not taken. The first one stays.
    pub fn seal_with(&self, vault: Arc<dyn Vault>) {
        self.seals.set(vault);
    }

    /// Returns once the disk has failed to keep what was written. From then on nothing is taken: end the process, a restart recovers.
    pub async fn broken(&self) {
        group_commit::broken(self.broken.clone()).await;
    }

    /// Counts so many bytes if there is room for them.
    fn reserve(&self, bytes: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

#[async_trait]
impl Spool for SqliteSpool {
    async fn take(&self, events: Vec<IncomingEvent>) -> Result<Vec<Taken>, StoreError> {
        let mut offers = events.into_iter().map(|event| queue::Offer::new(event, &self.seals)).collect::<Result<Vec<_>, _>>()?;
        let seals = self.seals.clone();
        let mut has_room = true;
        for offer in &mut offers {
            has_room = has_room && self.reserve(offer.bytes);
            offer.has_room = has_room;
        }
        let reserved: u64 = offers.iter().filter(|offer| offer.has_room).map(|offer| offer.bytes).sum();
        let costs: Vec<_> = offers.iter().map(|offer| (offer.application(), offer.bytes)).collect();
        let rows = offers.iter().map(queue::Offer::rows).sum();
        let taken = self.writer.write(rows, move |tx| offers.iter().map(|offer| queue::take(tx, offer, &seals)).collect()).await;
        let taken: Vec<Taken> = taken.inspect_err(|_| self.give_back(reserved))?;
        let kept = || taken.iter().zip(&costs).filter(|(taken, _)| **taken == Taken::Taken).map(|(_, cost)| *cost);
        // Counted before anybody is answered: whoever publishes after that must queue behind them.
        self.waiting.add(kept().map(|(application, _)| application));
        self.give_back(reserved - kept().map(|(_, bytes)| bytes).sum::<u64>());
        Ok(taken)
    }

    async fn oldest(&self, of: Vec<ApplicationId>, limit: u32) -> Result<Vec<SpooledEvent>, StoreError> {
        let seals = self.seals.clone();
        let read = self.writer.write(1, move |tx| queue::oldest(tx, &of, limit, system_time(), &seals)).await?;
        self.waiting.remove(read.damaged);
        Ok(read.events)
    }

    async fn forwarded(&self, positions: Vec<i64>) -> Result<(), StoreError> {
        let rows = positions.len().min(commits::ROWS_MAX);
        let removed = self.writer.write(rows, move |tx| queue::remove(tx, &positions)).await?;
        self.give_back(removed.bytes);
        self.waiting.remove(removed.events);
        Ok(())
    }

    async fn set_aside(&self, position: i64, reason: String, at: Timestamp) -> Result<(), StoreError> {
        let removed = self.writer.write(2, move |tx| queue::set_aside(tx, position, &reason, at)).await?;
        // Its bytes still count: they are on the disk.
        self.waiting.remove(removed.events);
        Ok(())
    }

    async fn reseal(&self, after: i64) -> Result<Option<i64>, StoreError> {
        let (seals, in_use) = (self.seals.clone(), self.seals.vault()?.keys().in_use);
        self.writer.write(commits::ROWS_MAX, move |tx| resealing::step(tx, after, in_use, &seals)).await
    }

    fn status(&self) -> SpoolStatus {
        // Nothing has room on a disk that failed.
        let bytes_max = if *self.broken.borrow() { 0 } else { self.bytes_max };
        SpoolStatus { events: self.waiting.events(), bytes: self.bytes.load(Ordering::Acquire), bytes_max }
    }

    fn applications(&self) -> Vec<ApplicationId> {
        self.waiting.applications()
    }

    fn any_waits(&self, is_meant: &dyn Fn(ApplicationId) -> bool) -> bool {
        self.waiting.any(is_meant)
    }
}

#[async_trait]
impl PublisherCache for SqliteSpool {
    async fn remember(&self, publisher: KnownPublisher) -> Result<(), StoreError> {
        let learned = self.known().learn(&publisher);
        match learned {
            publisher_cache::CacheWrite::Nothing => Ok(()),
            learned => self.writer.write(2, move |tx| publisher_cache::write(tx, &publisher, learned)).await,
        }
    }

    async fn forget_key(&self, id: ApiKeyId) -> Result<(), StoreError> {
        if !self.known().forget_key(id) {
            return Ok(());
        }
        self.writer.write(1, move |tx| publisher_cache::delete_key(tx, id)).await
    }

    async fn forget_keys(&self) -> Result<(), StoreError> {
        self.known().forget_keys();
        self.writer.write(1, publisher_cache::delete_keys).await
    }

    async fn forget_application(&self, id: ApplicationId) -> Result<(), StoreError> {
        if !self.known().forget_application(id) {
            return Ok(());
        }
        self.writer.write(1, move |tx| publisher_cache::delete_application(tx, id)).await
    }

    fn api_keys(&self) -> Vec<(ApiKeyHash, ApiKeyId)> {
        self.known().api_keys()
    }

    fn api_key(&self, hash: &ApiKeyHash) -> Option<ApiKey> {
        self.known().api_key(hash)
    }

    fn organization(&self, of: &Ref<OrganizationId>) -> Option<OrganizationId> {
        self.known().organization(of)
    }

    fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Option<ApplicationId> {
        self.known().application(organization, of)
    }

    fn default_application(&self, organization: OrganizationId) -> Option<ApplicationId> {
        self.known().default_application(organization)
    }
}

impl SqliteSpool {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// As how many bytes events count, those with them that were set aside.
fn read_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let read = |row: &Row<'_>| Ok((queue::number(row, "bytes")?, queue::number(row, "unforwarded")?));
    let (bytes, unforwarded) = connection.query_row(STATUS, [], read)?;
    if unforwarded > 0 {
        tracing::error!(
            "{unforwarded} accepted events could not be forwarded; they are in the spool's table `unforwarded` with the reason, and are tried again at the next start"
        );
    }
    Ok(bytes)
}

/// A failure is no reason not to start: what waits can still be forwarded.
fn retry_unforwarded(connection: &Connection) {
    match retrying::put_back(connection) {
        Ok(0) => {}
        Ok(events) => tracing::warn!(events, "trying again to forward {events} spooled events that failed before"),
        Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "cannot retry spooled events that failed before"),
    }
}
