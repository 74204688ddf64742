//! Revisions of what shapes an endpoint's requests.

use everhook_core::{
    ids::{EndpointId, OrganizationId, Ref, RevisionNumber},
    model::{Endpoint, EndpointState, PayloadStyle, Revision, SealedSecret, SealedSecrets, SignatureStyle, Target},
    ports::EndpointUpdated,
};

use super::given::{Given, after, entry, id};

async fn found(given: &Given) -> Endpoint {
    given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap()
}

async fn kept(given: &Given, number: u32) -> Option<Revision> {
    given.store.revision(given.organization, given.endpoint, RevisionNumber(number)).await.unwrap()
}

/// Everything that a receiver could see is another.
fn reshaped(endpoint: Endpoint) -> Endpoint {
    let url = "https://moved.example:8443/a?b=c";
    Endpoint {
        target: Target { written: url.to_owned(), url: url.parse().unwrap() },
        secrets: SealedSecrets { current: SealedSecret(vec![9; 40]), previous: Some((endpoint.secrets.current.clone(), after(90))) },
        signature_style: SignatureStyle::Hex,
        payload_style: PayloadStyle::Raw,
        headers: vec![("X-Key".to_owned(), "ü \"".to_owned()), ("A".to_owned(), String::new())],
        revision: endpoint.revision.next(),
        ..endpoint
    }
}

#[tokio::test]
async fn a_new_endpoint_has_its_first_revision() {
    let given = Given::new().await;
    let endpoint = found(&given).await;
    assert_eq!(endpoint.revision, RevisionNumber::FIRST);
    assert_eq!(kept(&given, 1).await, Some(Revision::of(&endpoint)));
    assert_eq!(kept(&given, 2).await, None);
}

#[tokio::test]
async fn a_change_keeps_its_revision_beside_those_before_for_good() {
    let given = Given::new().await;
    let first = found(&given).await;
    let second = Endpoint { updated_at: after(1), ..reshaped(first.clone()) };
    assert_eq!(given.store.update_endpoint(second.clone(), first.updated_at, entry()).await.unwrap(), EndpointUpdated::Updated);
    let deleted = Endpoint { updated_at: after(2), state: EndpointState::Deleted { at: after(2) }, ..second.clone() };
    assert_eq!(given.store.update_endpoint(deleted, after(1), entry()).await.unwrap(), EndpointUpdated::Updated);
    let given = given.reopened().await;
    assert_eq!(found(&given).await.revision, RevisionNumber(2));
    assert_eq!(kept(&given, 1).await, Some(Revision::of(&first)));
    assert_eq!(kept(&given, 2).await, Some(Revision::of(&second)));
}

#[tokio::test]
async fn a_change_that_was_refused_keeps_no_revision() {
    let given = Given::new().await;
    let changed = reshaped(found(&given).await);
    assert_eq!(given.store.update_endpoint(changed, after(1_000), entry()).await.unwrap(), EndpointUpdated::Changed);
    assert_eq!((found(&given).await.revision, kept(&given, 2).await), (RevisionNumber::FIRST, None));
}

#[tokio::test]
async fn a_change_under_a_number_that_is_kept_leaves_the_revision_as_it_is() {
    let given = Given::new().await;
    let first = found(&given).await;
    let renamed = Endpoint { name: Some("another".to_owned()), updated_at: after(1), ..first.clone() };
    assert_eq!(given.store.update_endpoint(renamed, first.updated_at, entry()).await.unwrap(), EndpointUpdated::Updated);
    assert_eq!((kept(&given, 1).await, kept(&given, 2).await), (Some(Revision::of(&first)), None));
}

#[tokio::test]
async fn revisions_are_found_by_their_own_organization_and_endpoint_only() {
    let given = Given::new().await;
    let other = given.another_endpoint().await;
    let (stranger, nobody) = (OrganizationId::from_uuid(id()), EndpointId::from_uuid(id()));
    for (organization, endpoint, is_found) in [
        (given.organization, given.endpoint, true),
        (given.organization, other, true),
        (given.organization, nobody, false),
        (stranger, given.endpoint, false),
    ] {
        let revision = given.store.revision(organization, endpoint, RevisionNumber::FIRST).await.unwrap();
        assert_eq!(revision.is_some(), is_found);
    }
}
