//! The audit log: written with the change or not at all, and read back whole.

use std::sync::Arc;

use everhook_core::{
    ids::{ApiKeyId, ApplicationId, OrganizationId},
    model::{Actor, Application, AuditAction, AuditEntry, AuditNote, Cursor, DeathCause, PageRequest, Stage},
    ports::{ActorFilter, AuditFilter, Created, Settlement, TimeRange},
};

use super::{
    given::{Given, NOW, after, application, disabling, endpoint, entry, failure, id, settlement},
    walking::{both_ways, walk},
};

const ALL: PageRequest = PageRequest { limit: 50, cursor: Cursor::Newest };

async fn actions(given: &Given, organization: OrganizationId, filter: AuditFilter) -> Vec<AuditAction> {
    let page = given.store.audit_log(organization, filter, ALL).await.unwrap();
    page.rows.into_iter().map(|entry| entry.action).collect()
}

#[tokio::test]
async fn an_entry_is_read_back_as_it_was_written() {
    let given = Given::new().await;
    let note = AuditNote { before: Some(r#"{"url":"a"}"#.into()), after: Some(r#"{"url":"b"}"#.into()), is_cut: true };
    let actor = Actor::Key { id: ApiKeyId::from_uuid(id()), name: "ci".to_owned() };
    let written = AuditEntry { actor, note, organization: given.organization, ..entry() };
    given.store.create_application(application(given.organization), written.clone()).await.unwrap();
    assert_eq!(given.store.audit_log(given.organization, AuditFilter::default(), ALL).await.unwrap().rows, [written]);
}

#[tokio::test]
async fn a_change_that_did_not_take_place_leaves_no_entry() {
    let given = Given::new().await;
    let organization = OrganizationId::from_uuid(id());
    let telling = || AuditEntry { organization, ..entry() };
    let application = application(given.organization);
    assert_eq!(given.store.create_application(application.clone(), telling()).await.unwrap(), Created::Created);
    let rival = Application { id: ApplicationId::from_uuid(id()), uid: None, ..application };
    assert_eq!(given.store.create_application(rival, telling()).await.unwrap(), Created::NameTaken);
    let unknown = endpoint(given.organization, given.application);
    given.store.update_endpoint(unknown, NOW, telling()).await.unwrap();
    assert_eq!(actions(&given, organization, AuditFilter::default()).await.len(), 1);
}

#[tokio::test]
async fn a_settlement_that_disables_its_endpoint_is_entered_and_one_that_comes_too_late_is_not() {
    let given = Given::new().await;
    let log = disabling().entry.organization;
    let told = || {
        let mut disabling = disabling();
        disabling.entry.organization = log;
        Some(disabling)
    };
    for entries in [1, 1] {
        let (_, delivery) = given.published().await;
        let gone = Stage::Dead { at: after(1), cause: DeathCause::Gone };
        let gone = Settlement { disables: told(), ..settlement(delivery, given.endpoint, failure(1), gone) };
        given.store.settle(Arc::new(vec![gone])).await.unwrap();
        assert_eq!(actions(&given, log, AuditFilter::default()).await.len(), entries);
    }
}

#[tokio::test]
async fn entries_are_found_by_who_what_whom_and_when() {
    use AuditAction::{ApiKeyCreate, EndpointUpdate};
    let given = Given::new().await;
    let (log, resource, key) = (OrganizationId::from_uuid(id()), id(), ApiKeyId::from_uuid(id()));
    let by_key = Actor::Key { id: key, name: "ci".to_owned() };
    let entries = [
        AuditEntry { organization: log, action: ApiKeyCreate, ..entry() },
        AuditEntry { organization: log, actor: by_key, resource, at: after(10), ..entry() },
        AuditEntry { organization: log, resource, at: after(20), ..entry() },
    ];
    for entry in entries {
        given.store.create_application(application(given.organization), entry).await.unwrap();
    }
    let any = AuditFilter::default();
    let made = |from, to| AuditFilter { made: TimeRange { from, to }, ..any };
    #[rustfmt::skip]
    let table = [
        (any,                                                                  vec![EndpointUpdate, EndpointUpdate, ApiKeyCreate]),
        (AuditFilter { actor: Some(ActorFilter::Key(key)), ..any },            vec![EndpointUpdate]),
        (AuditFilter { actor: Some(ActorFilter::Server), ..any },              vec![EndpointUpdate, ApiKeyCreate]),
        (AuditFilter { action: Some(ApiKeyCreate), ..any },                    vec![ApiKeyCreate]),
        (AuditFilter { resource: Some(resource), ..any },                      vec![EndpointUpdate, EndpointUpdate]),
        (AuditFilter { resource: Some(resource), actor: Some(ActorFilter::Server), ..any }, vec![EndpointUpdate]),
        (made(Some(NOW), Some(after(10))),                                    vec![ApiKeyCreate]),
        (AuditFilter { resource: Some(resource), action: Some(ApiKeyCreate), ..any }, vec![]),
        (AuditFilter { resource: Some(resource), made: TimeRange { from: None, to: Some(after(20)) }, ..any }, vec![EndpointUpdate]),
        (AuditFilter { actor: Some(ActorFilter::Key(ApiKeyId::from_uuid(id()))), ..any }, vec![]),
        (made(None, Some(after(20))),                                         vec![EndpointUpdate, ApiKeyCreate]),
        (made(Some(after(10)), None),                                         vec![EndpointUpdate, EndpointUpdate]),
        (AuditFilter { resource: Some(id()), ..any },                          vec![]),
    ];
    for (filter, expected) in table {
        let list = async |page| given.store.audit_log(log, filter, page).await.unwrap();
        assert_eq!(walk(list, |entry| entry.action).await, both_ways(expected), "{filter:?}");
    }
    assert_eq!(actions(&given, OrganizationId::from_uuid(id()), any).await, []);
}

#[tokio::test]
async fn pages_go_both_ways() {
    let given = Given::new().await;
    let (log, resource) = (OrganizationId::from_uuid(id()), id());
    let mut ids = Vec::new();
    for _ in 0..5 {
        let entry = AuditEntry { organization: log, resource, ..entry() };
        ids.push(entry.id);
        given.store.create_application(application(given.organization), entry).await.unwrap();
    }
    ids.reverse();
    for filter in [AuditFilter::default(), AuditFilter { resource: Some(resource), ..AuditFilter::default() }] {
        let list = async |page| given.store.audit_log(log, filter, page).await.unwrap();
        assert_eq!(walk(list, |entry| entry.id).await, both_ways(ids.clone()));
    }
}
