//! What the catalog keeps of an answer that was on its way while something changed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use everhook_core::{
    catalog::{Catalog, CatalogPorts},
    ids::{ApplicationId, OrganizationId},
    model::Profile,
    ports::{ConfigCursor, ConfigRead, ConfigurationReader, Definitions, Deleted, StoreError},
};
use tokio::sync::Notify;

use super::{
    given::{Given, deletion},
    store::Store,
};

/// The store, with its first answer held back until it is let go.
struct Delayed {
    store: Arc<dyn Store>,
    has_answered: AtomicBool,
    answered: Notify,
    let_go: Notify,
}

#[async_trait]
impl ConfigurationReader for Delayed {
    async fn configuration(&self, id: ApplicationId, after: ConfigCursor) -> Result<ConfigRead, StoreError> {
        let answer = self.store.configuration(id, after).await;
        if !self.has_answered.swap(true, Ordering::Relaxed) {
            self.answered.notify_one();
            self.let_go.notified().await;
        }
        answer
    }

    async fn definitions(&self, organization: OrganizationId) -> Result<Definitions, StoreError> {
        self.store.definitions(organization).await
    }
}

/// A catalog over a reader that holds its first answer back.
fn delayed(given: &Given) -> (Arc<Delayed>, Arc<Catalog>) {
    let (store, has_answered) = (given.store.clone(), AtomicBool::new(false));
    let reader = Arc::new(Delayed { store, has_answered, answered: Notify::new(), let_go: Notify::new() });
    let ports = CatalogPorts { configuration: reader.clone(), retry_schedules: given.store.clone(), event_types: given.store.clone() };
    (reader, Arc::new(Catalog::new(ports, Profile::default())))
}

#[tokio::test]
async fn an_endpoint_that_is_created_while_its_application_is_read_is_known_at_the_next_look() {
    let given = Given::new().await;
    let (reader, catalog) = delayed(&given);
    let reading = tokio::spawn({
        let (catalog, id) = (catalog.clone(), given.application);
        async move { catalog.application(id).await.unwrap().unwrap().endpoint_count() }
    });
    reader.answered.notified().await;
    let created = given.another_endpoint().await;
    catalog.forget(given.application);
    reader.let_go.notify_one();
    let before = reading.await.unwrap();
    let after = catalog.application(given.application).await.unwrap().unwrap();
    assert_eq!(after.endpoint_count(), before + 1);
    assert!(after.destination(created.into()).is_some());
}

#[tokio::test]
async fn an_application_that_is_deleted_while_it_is_read_is_not_found_at_the_next_look() {
    let given = Given::new().await;
    let shop = given.another_application().await;
    let (reader, catalog) = delayed(&given);
    let reading = tokio::spawn({
        let catalog = catalog.clone();
        async move { catalog.application(shop).await.unwrap().is_some() }
    });
    reader.answered.notified().await;
    let deleted = given.store.delete_application(given.organization, shop, deletion()).await.unwrap();
    assert_eq!(deleted, Deleted::Deleted(Vec::new()));
    catalog.forget(shop);
    reader.let_go.notify_one();
    assert!(reading.await.unwrap(), "the answer was made before");
    assert!(catalog.application(shop).await.unwrap().is_none());
}
