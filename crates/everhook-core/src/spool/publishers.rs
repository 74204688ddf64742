//! Who may publish where: what publishing asks the store about keys, organizations and applications, and what it knows of them while the store
//! is away.
//!
//! Used by the API to admit publishers, and by `publish`. What the store answers is remembered beside the spool; what it does not answer is
//! taken from there. Where there is no spool, every question goes to the store alone.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::{
    catalog::{ApplicationView, Catalog},
    ids::{ApiKeyId, ApplicationId, OrganizationId, Ref},
    model::{ApiKey, ApiKeyHash, Application, ApplicationKind, EventTypeMark, Organization},
    ports::{ApiKeyStore, ApplicationStore, Clock, KnownPublisher, OrganizationStore, Ports, Spool, StoreError, within},
    spool::{backlog::SpoolBacklog, intake::STORE_PATIENCE},
    time::Timestamp,
};

/// Answers who may publish where.
pub struct Publishers {
    organizations: Arc<dyn OrganizationStore>,
    applications: Arc<dyn ApplicationStore>,
    api_keys: Arc<dyn ApiKeyStore>,
    spool: Option<Arc<dyn Spool>>,
    backlog: Arc<SpoolBacklog>,
    clock: Arc<dyn Clock>,
    /// Counts revocations, so that a key that was read before one is not remembered after it. Held while a key is remembered or forgotten: the
    /// spool does one after the other then, also in its file.
    revocations: Mutex<u64>,
}

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum LookUpError {
    /// The store failed.
    #[error("cannot query the store")]
    Store(#[source] StoreError),
    /// The store is away, and this node has not read of it before.
    #[error("the store is unavailable, and this node does not know it yet")]
    NotKnown(#[source] StoreError),
}

/// What is known of an application.
pub(crate) enum KnownApplicationState {
    /// Everything.
    Fully(Arc<ApplicationView>),
    /// That it is this organization's, and no more: the store is away.
    ByName,
    /// There is none.
    NotAtAll,
}

impl Publishers {
    /// Over these ports.
    pub(crate) fn new(ports: &Ports, backlog: Arc<SpoolBacklog>) -> Self {
        Self {
            organizations: ports.organizations.clone(),
            applications: ports.applications.clone(),
            api_keys: ports.api_keys.clone(),
            spool: ports.spool.clone(),
            backlog,
            clock: ports.clock.clone(),
            revocations: Mutex::default(),
        }
    }

    /// The record of a key; `None` if there is no such key.
    ///
    /// # Errors
    /// [`LookUpError`] if nobody knows.
    pub async fn api_key(&self, hash: &ApiKeyHash) -> Result<Option<ApiKey>, LookUpError> {
        let revocations_before = *self.revocations.lock().await;
        let reading = async { Ok(self.api_keys.api_key(hash).await?.map(|key| (Some(KnownPublisher::Key(*hash, key.clone())), key))) };
        let recall = |spool: &dyn Spool| spool.api_key(hash).map(|key| (None, key));
        let Some((news, key)) = self.ask(None, reading, recall, |_| None).await? else {
            if let Some(revoked) = self.spool.as_ref().and_then(|spool| spool.api_key(hash)) {
                self.forget_key(revoked.id).await;
            }
            return Ok(None);
        };
        if let (Some(spool), Some(news)) = (&self.spool, news) {
            let revocations = self.revocations.lock().await;
            // After a revocation, this one or another, it is remembered at its next use.
            if *revocations == revocations_before {
                note_failure(spool.remember(news).await);
            }
        }
        Ok(Some(key))
    }

    /// The organization that is named; `None` if there is none.
    ///
    /// # Errors
    /// [`LookUpError`] if nobody knows.
    pub async fn organization(&self, of: &Ref<OrganizationId>) -> Result<Option<OrganizationId>, LookUpError> {
        let reading = async { Ok(self.organizations.organization(of).await?.map(Named::from)) };
        let recall = |spool: &dyn Spool| spool.organization(of).map(|id| Named { id, about: None });
        Ok(self.ask(None, reading, recall, Named::to_known_publisher).await?.map(|found| found.id))
    }

    /// The application of an organization that is named; `None` if there is none.
    ///
    /// # Errors
    /// [`LookUpError`] if nobody knows.
    pub async fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Option<ApplicationId>, LookUpError> {
        let reading = async { Ok(self.applications.application(organization, of).await?.map(Named::from)) };
        let recall = |spool: &dyn Spool| spool.application(organization, of).map(|id| Named { id, about: None });
        Ok(self.ask(None, reading, recall, Named::to_known_publisher).await?.map(|found| found.id))
    }

    /// The application of an organization that is meant where none is named; `None` if there is no such organization.
    ///
    /// # Errors
    /// [`LookUpError`] if nobody knows.
    pub async fn default_application(&self, organization: OrganizationId) -> Result<Option<ApplicationId>, LookUpError> {
        let reading = async { Ok(self.applications.built_in_application(organization, ApplicationKind::Default).await?.map(Named::from)) };
        let recall = |spool: &dyn Spool| spool.default_application(organization).map(|id| Named { id, about: None });
        Ok(self.ask(None, reading, recall, Named::to_known_publisher).await?.map(|found| found.id))
    }

    /// Takes note that a key was revoked: it admits nobody any more, also while the store is away.
    pub async fn forget_key(&self, id: ApiKeyId) {
        if let Some(spool) = &self.spool {
            let mut revocations = self.revocations.lock().await;
            *revocations += 1;
            note_failure(spool.forget_key(id).await);
        }
    }

    /// Takes note that an application was deleted: nothing is taken for it, also while the store is away.
    pub async fn forget_application(&self, id: ApplicationId) {
        if let Some(spool) = &self.spool {
            note_failure(spool.forget_application(id).await);
        }
    }

    /// Takes note that any key may have been revoked. Those that were not are remembered again at their next use.
    pub async fn forget_keys(&self) {
        if let Some(spool) = &self.spool {
            let mut revocations = self.revocations.lock().await;
            *revocations += 1;
            note_failure(spool.forget_keys().await);
        }
    }

    /// Forgets the keys that were revoked while nobody here could see it. Asked once after a start.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be asked: ask again.
    pub async fn check_keys(&self) -> Result<(), StoreError> {
        for (hash, id) in self.spool.iter().flat_map(|spool| spool.api_keys()) {
            if self.api_keys.api_key(&hash).await?.is_none() {
                self.forget_key(id).await;
            }
        }
        Ok(())
    }

    /// An application, with all that matching needs if the store can be asked or was asked before.
    pub(crate) async fn view(
        &self,
        catalog: &Catalog,
        organization: OrganizationId,
        id: ApplicationId,
    ) -> Result<KnownApplicationState, LookUpError> {
        if let Some(view) = catalog.known(id) {
            self.remember_application(&view.application).await;
            return Ok(KnownApplicationState::Fully(view));
        }
        let whole = |view: Arc<ApplicationView>| {
            let about = Named::from(view.application.clone()).about;
            (KnownApplicationState::Fully(view), about)
        };
        let reading = async { Ok(catalog.application(id).await?.map(whole)) };
        let recall = |spool: &dyn Spool| spool.application(organization, &Ref::Id(id)).map(|_| (KnownApplicationState::ByName, None));
        let remember = |(_, about): &(KnownApplicationState, Option<KnownPublisher>)| about.clone();
        let Some((found, _)) = self.ask(Some(id), reading, recall, remember).await? else {
            // The store has answered: it was deleted, or never was.
            self.forget_application(id).await;
            return Ok(KnownApplicationState::NotAtAll);
        };
        Ok(found)
    }

    /// The text of the schema that data of a type must fit; `None` if there is none, or if it is not known while the store is away: an event that nobody
    /// can check is accepted.
    pub(crate) async fn schema_text(
        &self,
        catalog: &Catalog,
        of: &Application,
        mark: &EventTypeMark,
    ) -> Result<Option<(Timestamp, String)>, StoreError> {
        let reading = catalog.schema_text(of, mark);
        if self.spool.is_none() {
            return reading.await;
        }
        match within(&*self.clock, STORE_PATIENCE, reading).await {
            None | Some(Err(StoreError::Unavailable(_))) => Ok(None),
            Some(read) => read,
        }
    }

    /// Remembers an application that somebody else has read before.
    async fn remember_application(&self, application: &Application) {
        let Some(spool) = &self.spool else { return };
        if spool.application(application.organization, &Ref::Id(application.id)).is_none()
            && let Some(about) = Named::from(application.clone()).about
        {
            note_failure(spool.remember(about).await);
        }
    }

    /// Asks the store, and remembers its answer; or finds what was remembered if it does not answer. While events wait in the spool that hold up
    /// everybody, or those of the application that this is `about`, the store is away or busy with them: what is remembered comes first then.
    async fn ask<T>(
        &self,
        about: Option<ApplicationId>,
        reading: impl Future<Output = Result<Option<T>, StoreError>>,
        recall: impl Fn(&dyn Spool) -> Option<T>,
        remember: impl FnOnce(&T) -> Option<KnownPublisher>,
    ) -> Result<Option<T>, LookUpError> {
        let Some(spool) = &self.spool else { return reading.await.map_err(LookUpError::Store) };
        if about.map_or_else(|| self.backlog.holds_up_all(), |application| self.backlog.holds_up(application))
            && let Some(known) = recall(&**spool)
        {
            return Ok(Some(known));
        }
        let silence = || Err(StoreError::unavailable(format!("it did not answer within {STORE_PATIENCE:?}")));
        match within(&*self.clock, STORE_PATIENCE, reading).await.unwrap_or_else(silence) {
            Ok(found) => {
                if let Some(news) = found.as_ref().and_then(remember) {
                    note_failure(spool.remember(news).await);
                }
                Ok(found)
            }
            Err(error @ StoreError::Unavailable(_)) => recall(&**spool).map(Some).ok_or(LookUpError::NotKnown(error)),
            Err(error) => Err(LookUpError::Store(error)),
        }
    }
}

/// An id, and what is to be remembered about it if it was read just now.
struct Named<Id> {
    id: Id,
    about: Option<KnownPublisher>,
}

impl<Id> Named<Id> {
    fn to_known_publisher(&self) -> Option<KnownPublisher> {
        self.about.clone()
    }
}

impl From<Organization> for Named<OrganizationId> {
    fn from(Organization { id, uid, .. }: Organization) -> Self {
        Self { id, about: Some(KnownPublisher::Organization { id, uid }) }
    }
}

impl From<Application> for Named<ApplicationId> {
    fn from(Application { id, organization, uid, kind, .. }: Application) -> Self {
        let is_default = kind == ApplicationKind::Default;
        // Nobody publishes to `operational`, and a copy that does not say what an application is for would admit whoever names it.
        let is_open = kind != ApplicationKind::Operational;
        Self { id, about: is_open.then_some(KnownPublisher::Application { id, organization, uid, is_default }) }
    }
}

/// A copy that is not kept costs nothing today; it is missing if the node starts while the store is away.
fn note_failure(kept: Result<(), StoreError>) {
    if let Err(error) = kept {
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot save the list of known publishers for outages of the store");
    }
}
