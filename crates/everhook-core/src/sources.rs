//! The sources that requests come in at, opened: what the door would otherwise read and prepare for every request.
//!
//! Asked by the door with what stands in the URL. The store stays the judge: every change marks what is known as stale, on this node and, through
//! `nodes/follow`, on others. While the store is away, what is known is served all the same: a provider whose webhook is refused for an hour deletes it.

mod activity;
mod known;
mod opening;
mod provider_keys;
mod refusals;
mod tallies;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Semaphore;

use self::known::{Found, Key, Known};
pub use self::{
    activity::{ACTIVITY_WRITTEN_EVERY, Activity},
    opening::{OpenSource, RecipeError, compile, credentials, takes_key, tolerance},
    provider_keys::{KnownKey, NotFetched, ProviderKeys},
    refusals::{Refusals, RefusedRequest, network_of},
    tallies::{ReceivedOutcome, SourceTallies},
};
use crate::{
    ids::{ApplicationId, OrganizationId, Ref, SourceId, Uid},
    model::{DEFAULT_ORGANIZATION_UID, Source},
    ports::{Clock, OrganizationStore, Ports, SourceStore, StoreError, Vault, within},
    reading::Reading,
};

/// How many sources that are not known are looked up at once; more wait. Guesses come without end, and the store's readers are also the deliveries'.
const LOOK_UPS_MAX: usize = 32;

/// How long the store may take to say whether a source that is known has changed: a provider waits for its answer, and some wait for two seconds.
const PATIENCE_WITH_KNOWN: Duration = Duration::from_millis(250);

/// The same for a source that nobody here knows: there is nothing else to answer with.
const PATIENCE_WITH_UNKNOWN: Duration = Duration::from_secs(3);

/// For how long nobody asks again after the store failed.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A cache of opened sources.
pub struct Sources {
    store: Arc<dyn SourceStore>,
    organizations: Arc<dyn OrganizationStore>,
    vault: Arc<dyn Vault>,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
    reading: Reading<Key, OpenSource>,
    look_ups: Semaphore,
    /// Up to when the store is not asked, as uptime in milliseconds.
    is_away_until: AtomicU64,
    default_organization: OnceLock<OrganizationId>,
    /// What happens at sources.
    pub activity: Activity,
    /// The same in numbers.
    pub tallies: SourceTallies,
    /// What was refused last.
    pub refusals: Refusals,
    /// Keys that requests are verified with and that stand on providers' servers.
    pub provider_keys: Arc<ProviderKeys>,
}

impl Sources {
    /// Over these ports, and knowing nothing yet.
    pub(crate) fn new(ports: &Ports) -> Self {
        Self {
            store: ports.sources.clone(),
            organizations: ports.organizations.clone(),
            vault: ports.vault.clone(),
            clock: ports.clock.clone(),
            known: Mutex::default(),
            reading: Reading::default(),
            look_ups: Semaphore::new(LOOK_UPS_MAX),
            is_away_until: AtomicU64::new(0),
            default_organization: OnceLock::new(),
            activity: Activity::default(),
            tallies: SourceTallies::default(),
            refusals: Refusals::default(),
            provider_keys: Arc::new(ProviderKeys::new(ports.transport.clone(), ports.clock.clone())),
        }
    }

    /// The source that a URL names: by its id, or by its name if it is one of the organization `default`. `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if it had to be read and could not be, or cannot be opened.
    pub async fn lookup(&self, segment: &str) -> Result<Option<Arc<OpenSource>>, StoreError> {
        let Some(key) = Key::parse(segment) else { return Ok(None) };
        match self.known().find(&key, self.clock.uptime()) {
            Found::Current(source) => return Ok(Some(source)),
            Found::Absent => return Ok(None),
            Found::Stale(_) | Found::Unknown => {}
        }
        // On the heap, because it is rare: every request carries the room for it.
        Box::pin(self.reading.read(key.clone(), self.read(&key))).await
    }

    /// Takes note that a source was made or changed here, and is as given now: the next request meets it so, also if the store is slow to say it again.
    pub fn changed(&self, source: &Source) {
        let opened = OpenSource::open(source.clone(), &*self.vault);
        let is_named = self.default_organization.get() == Some(&source.organization);
        let mut known = self.known();
        known.forget(|known| known.id == source.id);
        let changes = known.changes();
        // Somebody else may have changed it since, and been quicker to say so.
        if let (Ok(opened), None) = (opened, known.newer(source)) {
            known.keep(&Arc::new(opened), is_named, changes, self.clock.uptime());
        }
    }

    /// Takes note that a source was deleted here: no request meets it any more, whatever the store does.
    pub fn deleted(&self, id: SourceId) {
        let mut known = self.known();
        known.forget(|source| source.id == id);
        known.note_absence(&Key::Id(id), self.clock.uptime());
    }

    /// Takes note that a source was made, changed or deleted, here or elsewhere.
    pub fn forget(&self, id: SourceId) {
        self.known().forget(|source| source.id == id);
    }

    /// Takes note that an application was deleted, and its sources with it.
    pub fn forget_application(&self, id: ApplicationId) {
        self.known().forget(|source| source.application == id);
    }

    /// Takes note that an organization was deleted, and its sources with it.
    pub fn forget_organization(&self, id: OrganizationId) {
        self.known().forget(|source| source.organization == id);
    }

    /// Takes note that any source may have changed.
    pub fn forget_all(&self) {
        self.known().forget(|_| true);
    }

    async fn read(&self, key: &Key) -> Result<Option<Arc<OpenSource>>, StoreError> {
        let stale = match self.known().find(key, self.clock.uptime()) {
            // It may have been read while this waited for its turn.
            Found::Current(source) => return Ok(Some(source)),
            Found::Absent => return Ok(None),
            Found::Stale(source) => Some(source),
            Found::Unknown => None,
        };
        let _look_up = match stale {
            Some(_) => None,
            None => self.look_ups.acquire().await.ok(),
        };
        let changes = self.known().changes();
        let read = if self.is_away() {
            Err(StoreError::unavailable("it did not answer a moment ago"))
        } else {
            self.ask(key, stale.is_some()).await
        };
        let opened = read.and_then(|source| source.map(|source| OpenSource::open(source, &*self.vault)).transpose());
        match opened {
            Ok(Some(source)) => {
                let mut known = self.known();
                // It was changed here after the store had answered: the answer is of before that.
                if let Some(newer) = known.newer(&source.source) {
                    return Ok(Some(newer));
                }
                let source = Arc::new(source);
                let is_named = self.default_organization.get() == Some(&source.source.organization);
                known.keep(&source, is_named, changes, self.clock.uptime());
                Ok(Some(source))
            }
            Ok(None) => {
                self.known().note_absence(key, self.clock.uptime());
                Ok(None)
            }
            Err(error) => stale.map(Some).ok_or(error),
        }
    }

    /// Asks the store, for as long as there is patience.
    async fn ask(&self, key: &Key, is_known: bool) -> Result<Option<Source>, StoreError> {
        let patience = if is_known { PATIENCE_WITH_KNOWN } else { PATIENCE_WITH_UNKNOWN };
        let asking = async {
            match key {
                Key::Id(id) => {
                    // Whether it is reached by its name, too.
                    self.find_default_organization().await?;
                    self.store.source_by_id(*id).await
                }
                Key::Name(name) => {
                    let Some(organization) = self.find_default_organization().await? else { return Ok(None) };
                    let Some(of) = Ref::parse(name.as_str()) else { return Ok(None) };
                    self.store.source(organization, &of).await
                }
            }
        };
        let silence = || Err(StoreError::unavailable(format!("it did not answer within {patience:?}")));
        let answer = within(&*self.clock, patience, asking).await.unwrap_or_else(silence);
        if let Err(StoreError::Unavailable(_)) = &answer {
            let until = self.clock.uptime() + ASKED_AGAIN_AFTER;
            self.is_away_until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        answer
    }

    /// Its id never changes, so that it is read once.
    async fn find_default_organization(&self) -> Result<Option<OrganizationId>, StoreError> {
        if let Some(id) = self.default_organization.get() {
            return Ok(Some(*id));
        }
        let uid = Uid::parse(DEFAULT_ORGANIZATION_UID).expect("`default` is a well-formed uid");
        let found = self.organizations.organization(&Ref::Uid(uid)).await?;
        Ok(found.map(|organization| *self.default_organization.get_or_init(|| organization.id)))
    }

    fn is_away(&self) -> bool {
        self.clock.uptime().as_millis() < u128::from(self.is_away_until.load(Ordering::Relaxed))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
