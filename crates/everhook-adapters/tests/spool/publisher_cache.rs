//! What the node remembers of its publishers.

use everhook_core::{
    ids::{ApiKeyId, Ref, Uid},
    model::{ApiKey, ApiKeyHash, Scope},
    ports::{KnownPublisher, PublisherCache},
};

use super::*;

fn key(name: &str) -> ApiKey {
    ApiKey {
        id: ApiKeyId::from_uuid(id()),
        organization: OrganizationId::from_uuid(id()),
        application: Some(ApplicationId::from_uuid(id())),
        name: name.to_owned(),
        prefix: "eh_ab12".to_owned(),
        scopes: [Scope::Publish].into_iter().collect(),
        created_at: NOW,
        expires_at: Some(NOW),
        last_used_at: None,
    }
}

fn uid(text: &str) -> Uid {
    Uid::parse(text).unwrap()
}

#[tokio::test]
async fn a_key_is_remembered_over_a_reopening_until_it_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let (known, revoked) = (key("shop"), key("old"));
    let [known_hash, revoked_hash] = [1, 2].map(|byte| ApiKeyHash([byte; 32]));
    // When it was last used is not part of it.
    let used = ApiKey { last_used_at: Some(NOW), ..known.clone() };
    spool.remember(KnownPublisher::Key(known_hash, used)).await.unwrap();
    spool.remember(KnownPublisher::Key(revoked_hash, revoked.clone())).await.unwrap();
    spool.forget_key(revoked.id).await.unwrap();
    assert_eq!(spool.api_key(&revoked_hash), None);
    drop(spool);
    let spool = open(&folder);
    assert_eq!((spool.api_key(&known_hash), spool.api_key(&revoked_hash)), (Some(known.clone()), None));
    assert_eq!(spool.api_keys(), [(known_hash, known.id)]);
    spool.forget_keys().await.unwrap();
    drop(spool);
    assert_eq!(open(&folder).api_keys(), []);
}

#[tokio::test]
async fn an_application_that_was_deleted_is_forgotten_over_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let organization = OrganizationId::from_uuid(id());
    let [shop, other] = [id(), id()].map(ApplicationId::from_uuid);
    for id in [shop, other] {
        spool.remember(KnownPublisher::Application { id, organization, uid: None, is_default: false }).await.unwrap();
    }
    spool.forget_application(shop).await.unwrap();
    spool.forget_application(ApplicationId::from_uuid(id())).await.unwrap();
    let known = |spool: &dyn PublisherCache| [shop, other].map(|id| spool.application(organization, &Ref::Id(id)).is_some());
    assert_eq!(known(&spool), [false, true]);
    drop(spool);
    assert_eq!(known(&open(&folder)), [false, true]);
}

#[tokio::test]
async fn an_application_is_found_by_its_id_its_uid_and_as_the_default_in_its_own_organization_alone() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let [organization, other] = [id(), id()].map(OrganizationId::from_uuid);
    let [default, shop] = [id(), id()].map(ApplicationId::from_uuid);
    spool.remember(KnownPublisher::Organization { id: organization, uid: Some(uid("acme")) }).await.unwrap();
    spool.remember(KnownPublisher::Application { id: default, organization, uid: None, is_default: true }).await.unwrap();
    spool.remember(KnownPublisher::Application { id: shop, organization, uid: Some(uid("shop")), is_default: false }).await.unwrap();
    drop(spool);
    let spool = open(&folder);
    assert_eq!(spool.organization(&Ref::Uid(uid("acme"))), Some(organization));
    assert_eq!(spool.organization(&Ref::Id(other)), None);
    assert_eq!(spool.default_application(organization), Some(default));
    assert_eq!(spool.application(organization, &Ref::Uid(uid("shop"))), Some(shop));
    assert_eq!(spool.application(organization, &Ref::Id(shop)), Some(shop));
    assert_eq!((spool.application(other, &Ref::Id(shop)), spool.default_application(other)), (None, None));
}

#[tokio::test]
async fn a_uid_that_another_has_now_finds_that_one() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let organization = OrganizationId::from_uuid(id());
    let [before, after] = [id(), id()].map(ApplicationId::from_uuid);
    for id in [before, after] {
        spool.remember(KnownPublisher::Application { id, organization, uid: Some(uid("shop")), is_default: false }).await.unwrap();
    }
    assert_eq!(spool.application(organization, &Ref::Uid(uid("shop"))), Some(after));
    drop(spool);
    let spool = open(&folder);
    assert_eq!(spool.application(organization, &Ref::Uid(uid("shop"))), Some(after));
    assert_eq!(spool.application(organization, &Ref::Id(before)), Some(before));
}
