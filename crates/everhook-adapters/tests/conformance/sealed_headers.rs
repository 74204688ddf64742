//! The values of endpoints' headers, sealed in front of a store.

use std::sync::Arc;

use everhook_adapters::{sealed_endpoints::SealedEndpoints, vault::AesVault};
use everhook_core::{
    ids::{Ref, RevisionNumber},
    model::{Cursor, Endpoint, PageRequest},
    ports::{ConfigurationReader, EndpointFilter, EndpointStore, EndpointUpdated, StoreError},
};

use super::given::{Given, after, endpoint, entry};

fn sealed(given: &Given, key: u8) -> SealedEndpoints {
    SealedEndpoints::new(given.store.clone(), given.store.clone(), Arc::new(AesVault::from_key([key; 32])))
}

fn token(value: &str) -> Vec<(String, String)> {
    vec![("Authorization".to_owned(), value.to_owned()), ("X-Empty".to_owned(), String::new())]
}

#[tokio::test]
async fn the_store_has_the_values_of_headers_sealed_and_whoever_asks_sees_them() {
    let given = Given::new().await;
    let endpoints = sealed(&given, 1);
    let first = Endpoint { headers: token("Bearer first"), ..endpoint(given.organization, given.application) };
    endpoints.create_endpoint(first.clone(), entry()).await.unwrap();
    let of = Ref::Id(first.id);
    assert_eq!(endpoints.endpoint(given.organization, &of).await.unwrap().unwrap().headers, first.headers);
    let second = Endpoint { headers: token("Bearer second"), revision: first.revision.next(), updated_at: after(1), ..first.clone() };
    let updated = endpoints.update_endpoint(second.clone(), first.updated_at, entry()).await.unwrap();
    assert_eq!(updated, EndpointUpdated::Updated);
    // By every way in.
    let page = PageRequest { limit: 10, cursor: Cursor::Newest };
    let listed = endpoints.endpoints(given.organization, EndpointFilter::default(), page).await.unwrap().rows;
    let row = endpoints.application_row(given.application).await.unwrap().unwrap();
    for list in [listed, row.endpoints] {
        assert_eq!(list.into_iter().find(|found| found.id == first.id).unwrap().headers, second.headers);
    }
    for (number, shaped) in [(1, &first), (2, &second)] {
        let revision = endpoints.revision(given.organization, first.id, RevisionNumber(number)).await.unwrap().unwrap();
        assert_eq!(revision.headers, shaped.headers);
    }
    // The store itself has the names alone.
    let kept = given.store.endpoint(given.organization, &of).await.unwrap().unwrap().headers;
    let revision = given.store.revision(given.organization, first.id, RevisionNumber::FIRST).await.unwrap().unwrap().headers;
    for headers in [kept, revision] {
        assert_eq!(headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["Authorization", "X-Empty"]);
        assert!(headers.iter().all(|(_, value)| !value.contains("Bearer") && value.len() > 20), "{headers:?}");
    }
    // Another key opens nothing.
    let refused = sealed(&given, 2).endpoint(given.organization, &of).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
}
