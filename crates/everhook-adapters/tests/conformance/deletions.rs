//! Deleting applications and organizations: what others see at once, and what is left to steps.

use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventTypeId, LaneId, OrganizationId, Ref, Uid},
    model::{
        ApiKey, ApiKeyHash, ApplicationKind, AuditEntry, Endpoint, EndpointState, EventTypeDefinition, FailingRule, OrganizationLimits,
        Scope, Tally, minute_of,
    },
    ports::{AuditFilter, ContentsDeleted, Created, Deleted, Effect as _, EndpointFilter, Recorded, RetentionClass, StoreError, Updated},
};

use super::{
    directory::ALL,
    given::{Given, NOW, after, application, deletion, deletion_with, endpoint, entry, event_type, id, organization},
};

/// A key of an application, or of all.
async fn key(given: &Given, of: OrganizationId, application: Option<ApplicationId>, byte: u8) -> (ApiKeyId, ApiKeyHash) {
    let key = ApiKey {
        id: ApiKeyId::from_uuid(id()),
        organization: of,
        application,
        name: "k".to_owned(),
        prefix: "eh_ab12".to_owned(),
        scopes: [Scope::Publish].into_iter().collect(),
        created_at: NOW,
        expires_at: None,
        last_used_at: None,
    };
    let hash = ApiKeyHash([byte; 32]);
    assert_eq!(given.store.create_api_key(key.clone(), hash, 100, entry()).await.unwrap(), Created::Created);
    given.store.note_key_uses(vec![(key.id, NOW)]).await.unwrap();
    (key.id, hash)
}

/// Deletes everything that is left, a little at a time, and says which endpoints were awaited.
async fn delete_contents(given: &Given, limit: u32) -> Vec<(ApplicationId, EndpointId)> {
    let mut awaited = Vec::new();
    for _ in 0..100 {
        let step = given.store.delete_contents(after(5), limit).await.unwrap();
        awaited.extend(step.awaited);
        if !step.has_more {
            return awaited;
        }
    }
    panic!("there is no end of it");
}

#[tokio::test]
async fn a_deleted_application_is_found_by_nobody_and_its_names_and_keys_are_gone() {
    let given = Given::new().await;
    let shop = application(given.organization);
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    let (own, own_hash) = key(&given, given.organization, Some(shop.id), 1).await;
    let (_, other_hash) = key(&given, given.organization, None, 2).await;
    let stranger = OrganizationId::from_uuid(id());
    // The entry is written with it, and the operation begins with it; with one that does not take place, neither.
    let telling = || deletion_with(AuditEntry { organization: given.organization, ..entry() });
    let (refused, deleting) = (telling(), telling());
    let (not_begun, begun) = (refused.operation.clone(), deleting.operation.clone());
    assert_eq!(given.store.delete_application(stranger, shop.id, refused).await.unwrap(), Deleted::NotFound);
    assert_eq!(given.store.delete_application(given.organization, shop.id, deleting.clone()).await.unwrap(), Deleted::Deleted(vec![own]));
    assert_eq!(given.store.operation(given.organization, not_begun.id).await.unwrap(), None);
    assert_eq!(given.store.operation(given.organization, begun.id).await.unwrap(), Some(begun.clone()));
    let open = given.store.open_operations(10).await.unwrap();
    assert!(open.iter().any(|open| open.operation == begun && open.selection == deleting.selection), "{open:?}");
    assert_eq!(given.store.audit_log(given.organization, AuditFilter::default(), ALL).await.unwrap().rows.len(), 1);
    assert_eq!(given.store.application(given.organization, &Ref::Id(shop.id)).await.unwrap(), None);
    assert!(given.store.application_row(shop.id).await.unwrap().is_none());
    assert_eq!(given.store.api_key(&own_hash).await.unwrap(), None);
    assert!(given.store.api_key(&other_hash).await.unwrap().is_some());
    assert_eq!(given.store.delete_application(given.organization, shop.id, deletion()).await.unwrap(), Deleted::NotFound);
    let again = everhook_core::model::Application { id: ApplicationId::from_uuid(id()), ..shop.clone() };
    assert_eq!(given.store.create_application(again, entry()).await.unwrap(), Created::Created);
    assert_eq!(given.store.create_endpoint(endpoint(given.organization, shop.id), entry()).await.unwrap(), Created::NoSuchApplication);
}

#[tokio::test]
async fn endpoints_of_a_deleted_application_are_not_listed_and_their_uids_are_free_before_they_are_deleted() {
    let given = Given::new().await;
    let shop = given.another_application().await;
    let uid = Uid::parse("hook").unwrap();
    let with_uid = |application| Endpoint { uid: Some(uid.clone()), ..endpoint(given.organization, application) };
    let (left, next) = (with_uid(shop), with_uid(given.application));
    assert_eq!(given.store.create_endpoint(left.clone(), entry()).await.unwrap(), Created::Created);
    assert_eq!(given.store.create_endpoint(next.clone(), entry()).await.unwrap(), Created::UidTaken);
    given.store.delete_application(given.organization, shop, deletion()).await.unwrap();
    for application in [None, Some(shop)] {
        let filter = EndpointFilter { application, ..EndpointFilter::default() };
        let listed = given.store.endpoints(given.organization, filter, ALL).await.unwrap().rows;
        assert!(listed.iter().all(|found| found.id != left.id), "{application:?}");
    }
    assert!(given.store.endpoint(given.organization, &Ref::Uid(uid.clone())).await.unwrap().is_none());
    assert_eq!(given.store.create_endpoint(next.clone(), entry()).await.unwrap(), Created::Created);
    assert_eq!(given.store.endpoint(given.organization, &Ref::Uid(uid)).await.unwrap().map(|found| found.id), Some(next.id));
    // It is deleted all the same, and nothing else is.
    assert_eq!(delete_contents(&given, 10).await, []);
    let states = async |of: EndpointId| given.store.endpoint(given.organization, &Ref::Id(of)).await.unwrap().unwrap().state;
    assert_eq!((states(left.id).await, states(next.id).await), (EndpointState::Deleted { at: after(5) }, EndpointState::Enabled));
}

#[tokio::test]
async fn a_built_in_application_is_not_deleted() {
    let given = Given::new().await;
    for kind in [ApplicationKind::Default, ApplicationKind::Operational] {
        let built_in = given.store.built_in_application(given.organization, kind).await.unwrap().unwrap();
        assert_eq!(given.store.delete_application(given.organization, built_in.id, deletion()).await.unwrap(), Deleted::NotFound);
    }
    assert_eq!(given.store.delete_contents(NOW, 10).await.unwrap(), ContentsDeleted::default());
}

#[tokio::test]
async fn nothing_is_recorded_for_an_application_that_was_deleted_since_it_was_matched() {
    let given = Given::new().await;
    let shop = given.another_application().await;
    let hook = given.endpoint_of(shop).await;
    let (late, other) = (given.event_of(shop, &[hook]).await, given.event(&[given.endpoint]).await);
    given.store.delete_application(given.organization, shop, deletion()).await.unwrap();
    let answers = given.record_all(vec![late, other]).await;
    assert!(matches!(answers[..], [Recorded::ConfigChanged, Recorded::Accepted { .. }]), "{answers:?}");
}

#[tokio::test]
async fn the_endpoints_of_a_deleted_application_are_deleted_in_steps_over_a_reopening() {
    let given = Given::new().await;
    let shop = given.another_application().await;
    let mut hooks = Vec::new();
    for _ in 0..5 {
        hooks.push(given.endpoint_of(shop).await);
    }
    given.record(given.event_of(shop, &hooks[1..3]).await).await;
    // Its organization may have no more than there are.
    let read = given.store.organization(&Ref::Id(given.organization)).await.unwrap().unwrap();
    let limits = OrganizationLimits { endpoints: Some(6), ..read.limits };
    let changed = everhook_core::model::Organization { limits, ..read.clone() };
    assert_eq!(given.store.update_organization(read, changed, entry()).await.unwrap(), Updated::Updated);
    given.store.delete_application(given.organization, shop, deletion()).await.unwrap();
    let first = given.store.delete_contents(after(4), 2).await.unwrap();
    assert_eq!(first, ContentsDeleted { awaited: vec![(shop, hooks[1])], has_more: true });
    let given = given.reopened().await;
    assert_eq!(delete_contents(&given, 2).await, [(shop, hooks[2])]);
    for (hook, at) in hooks.iter().zip([4, 4, 5, 5, 5]) {
        let found = given.store.endpoint(given.organization, &Ref::Id(*hook)).await.unwrap().unwrap();
        assert_eq!(found.state, EndpointState::Deleted { at: after(at) });
    }
    let left = given.store.endpoints(given.organization, EndpointFilter::default(), ALL).await.unwrap().rows;
    assert_eq!(left.iter().map(|endpoint| endpoint.id).collect::<Vec<_>>(), [given.endpoint]);
    for _ in 0..5 {
        given.another_endpoint().await;
    }
    assert_eq!(given.store.create_endpoint(endpoint(given.organization, given.application), entry()).await.unwrap(), Created::TooMany);
}

#[tokio::test]
async fn a_deleted_organization_is_found_by_nobody_and_changed_by_nobody() {
    let given = Given::new().await;
    let mut other = organization();
    other.organization.uid = Uid::parse("acme");
    let (of, default) = (other.organization.id, other.default.id);
    given.store.create_organization(other.clone(), entry()).await.unwrap();
    let hook = endpoint(of, default);
    given.store.create_endpoint(hook.clone(), entry()).await.unwrap();
    let definition = EventTypeDefinition {
        id: EventTypeId::from_uuid(id()),
        organization: of,
        name: event_type("order.paid"),
        description: None,
        schema: None,
        example: None,
        archived: false,
        created_at: NOW,
        updated_at: NOW,
    };
    given.store.create_event_type(definition, 10, entry()).await.unwrap();
    let (revoked, hash) = key(&given, of, None, 1).await;
    let (_, kept) = key(&given, given.organization, None, 2).await;
    let mut late = given.event_of(default, &[hook.id]).await;
    late.organization = of;

    // The operation is of the organization that does it: the deleted one shows nothing to anybody.
    let deleting = deletion_with(AuditEntry { organization: given.organization, ..entry() });
    let begun = deleting.operation.id;
    assert_eq!(given.store.delete_organization(of, NOW, deleting).await.unwrap(), Deleted::Deleted(vec![revoked]));
    assert!(given.store.operation(given.organization, begun).await.unwrap().is_some());
    assert_eq!(given.record_all(vec![late]).await, [Recorded::ConfigChanged]);
    assert_eq!(given.store.organization(&Ref::Id(of)).await.unwrap(), None);
    assert!(given.store.organizations(ALL).await.unwrap().rows.iter().all(|row| row.id != of));
    assert!(given.store.application_row(default).await.unwrap().is_none());
    assert_eq!(given.store.api_key(&hash).await.unwrap(), None);
    assert!(given.store.api_key(&kept).await.unwrap().is_some());
    let own = AuditEntry { organization: of, ..entry() };
    let refused = given.store.create_application(application(of), own).await;
    assert!(matches!(refused, Err(StoreError::Conflict)), "{refused:?}");
    // Its uid is free.
    let mut again = organization();
    again.organization.uid = other.organization.uid.clone();
    assert_eq!(given.store.create_organization(again, entry()).await.unwrap(), Created::Created);

    let given = given.reopened().await;
    delete_contents(&given, 1).await;
    assert_eq!(given.store.applications(of, ALL).await.unwrap().rows, []);
    assert_eq!(given.store.event_types(of, None, ALL).await.unwrap().rows, []);
    let found = given.store.endpoint(of, &Ref::Id(hook.id)).await.unwrap().unwrap();
    assert_eq!(found.state, EndpointState::Deleted { at: after(5) });
    assert!(given.store.application_row(given.application).await.unwrap().is_some(), "the others are as they were");
}

#[tokio::test]
async fn a_deleted_organization_is_forgotten_when_nothing_is_kept_of_it() {
    let given = Given::new().await;
    let other = organization();
    let (of, default) = (other.organization.id, other.default.id);
    let telling = AuditEntry { organization: of, ..entry() };
    given.store.create_organization(other, telling).await.unwrap();
    given.store.create_endpoint(endpoint(of, default), entry()).await.unwrap();
    // The newest endpoint may stay: its lane has the highest number.
    given.another_endpoint().await;
    given.store.delete_organization(of, NOW, deletion()).await.unwrap();
    let horizon = after(60);
    let forget = async |what| given.purge(what, horizon).await;
    assert_eq!(forget(RetentionClass::DeletedOrganizations).await, 0, "its applications are left");
    delete_contents(&given, 10).await;
    assert_eq!(forget(RetentionClass::DeletedOrganizations).await, 0, "its endpoint is left");
    assert_eq!(forget(RetentionClass::DeletedEndpoints).await, 1);
    assert_eq!(forget(RetentionClass::DeletedOrganizations).await, 0, "its audit log is left");
    given.purge(RetentionClass::AuditLog, after(24 * 3_600)).await;
    assert_eq!(forget(RetentionClass::DeletedOrganizations).await, 1);
    assert!(given.store.organization(&Ref::Id(given.organization)).await.unwrap().is_some());
}

#[tokio::test]
async fn what_was_counted_of_a_deleted_organization_and_its_apps_does_not_keep_it() {
    let given = Given::new().await;
    let other = organization();
    let (of, default) = (other.organization.id, other.default.clone());
    given.store.create_organization(other, AuditEntry { organization: of, ..entry() }).await.unwrap();
    let lane_id = LaneId::from_uuid(id());
    let manifest = super::manifests::manifest(of, default.id, 1);
    let putting = AuditEntry { organization: of, ..entry() };
    assert!(
        given
            .store
            .put_manifest(
                everhook_core::ports::ManifestChange { read: default, manifest },
                super::manifests::job_lanes([lane_id]),
                None,
                Vec::new(),
                super::manifests::BOUNDS,
                putting
            )
            .await
            .unwrap()
            .took_place()
    );
    let mut tally = Tally::new(lane_id, minute_of(NOW));
    tally.count(None, std::time::Duration::from_millis(5), NOW);
    given.store.add(vec![tally], FailingRule::default()).await.unwrap();
    // The newest lane may stay: it has the highest number.
    given.another_endpoint().await;
    let horizon = after(24 * 3_600);
    given.purge(RetentionClass::DeletedEndpoints, horizon).await;
    assert_eq!(given.store.attempt_statistics(of.into(), NOW, after(60)).await.unwrap().total(), 1, "nothing of it is deleted yet");
    given.store.delete_organization(of, NOW, deletion()).await.unwrap();
    delete_contents(&given, 10).await;
    given.purge(RetentionClass::DeletedEndpoints, horizon).await;
    given.purge(RetentionClass::AuditLog, horizon).await;
    assert_eq!(given.purge(RetentionClass::DeletedOrganizations, horizon).await, 0, "its statistics are left");
    assert_eq!(given.purge(RetentionClass::Rollups, horizon).await, 3);
    given.purge(RetentionClass::DeletedEndpoints, horizon).await;
    assert_eq!(given.purge(RetentionClass::DeletedOrganizations, horizon).await, 1);
}
