//! Organizations, applications, endpoints and keys.

use std::{num::NonZeroU32, time::Duration};

use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, OrganizationId, Ref, RevisionNumber, ScheduleVersion, Uid},
    model::{
        ApiKey, ApiKeyHash, Application, ApplicationKind, Backoff, BreakerConfig, CheckChange, Cursor, DisabledReason, Endpoint,
        EndpointState, EventTypePattern, Jitter, OrderingMode, Organization, OrganizationLimits, PageRequest, PayloadStyle, RateLimit,
        RetrySchedule, ScheduleName, Scope, SealedSecret, SealedSecrets, SignatureStyle, Strategy, Target,
    },
    ports::{Created, EndpointUpdated, Updated},
};

use super::given::{Given, NOW, after, application, endpoint, entry, id, organization};

pub const ALL: PageRequest = PageRequest { limit: 100, cursor: Cursor::Newest };

pub fn uid(text: &str) -> Option<Uid> {
    Some(Uid::parse(text).unwrap())
}

#[tokio::test]
async fn an_organization_is_found_by_id_and_uid_with_its_built_in_applications() {
    let given = Given::new().await;
    let mut new = organization();
    new.organization.uid = uid("acme");
    assert_eq!(given.store.create_organization(new.clone(), entry()).await.unwrap(), Created::Created);
    for of in [Ref::Id(new.organization.id), Ref::Uid(Uid::parse("acme").unwrap())] {
        assert_eq!(given.store.organization(&of).await.unwrap().as_ref(), Some(&new.organization));
    }
    for (kind, expected) in [(ApplicationKind::Default, new.default), (ApplicationKind::Operational, new.operational)] {
        assert_eq!(given.store.built_in_application(new.organization.id, kind).await.unwrap(), Some(expected));
    }
    assert_eq!(given.store.organization(&Ref::Id(OrganizationId::from_uuid(id()))).await.unwrap(), None);
}

#[tokio::test]
async fn an_organizations_uid_is_its_own() {
    let given = Given::new().await;
    let (mut first, mut second) = (organization(), organization());
    first.organization.uid = uid("acme");
    given.store.create_organization(first.clone(), entry()).await.unwrap();
    given.store.create_organization(second.clone(), entry()).await.unwrap();
    let third = {
        let mut third = organization();
        third.organization.uid = uid("acme");
        third
    };
    assert_eq!(given.store.create_organization(third, entry()).await.unwrap(), Created::UidTaken);
    let read = second.organization.clone();
    second.organization.uid = uid("acme");
    assert_eq!(given.store.update_organization(read, second.organization, entry()).await.unwrap(), Updated::UidTaken);
    let found = given.store.organization(&Ref::Id(first.organization.id)).await.unwrap();
    assert_eq!(found, Some(first.organization));
}

#[tokio::test]
async fn an_organization_is_changed_as_it_was_read_or_not_at_all() {
    let given = Given::new().await;
    let read = given.store.organization(&Ref::Id(given.organization)).await.unwrap().unwrap();
    let renamed = Organization { name: "Acme Inc".to_owned(), ..read.clone() };
    assert_eq!(given.store.update_organization(read.clone(), renamed.clone(), entry()).await.unwrap(), Updated::Updated);
    // Whoever read it before the change would undo it.
    let limits = OrganizationLimits { concurrency: Some(3), ..read.limits };
    let limited = Organization { limits, ..read.clone() };
    let version = given.config_version().await;
    assert_eq!(given.store.update_organization(read, limited, entry()).await.unwrap(), Updated::Changed);
    assert_eq!(given.store.organization(&Ref::Id(given.organization)).await.unwrap(), Some(renamed));
    assert_eq!(given.config_version().await, version);
    let unknown = organization().organization;
    assert_eq!(given.store.update_organization(unknown.clone(), unknown, entry()).await.unwrap(), Updated::Changed);
}

#[tokio::test]
async fn an_application_is_changed_as_it_was_read_or_not_at_all() {
    let given = Given::new().await;
    let read = given.store.application_row(given.application).await.unwrap().unwrap().application;
    let renamed = Application { name: "Shop".to_owned(), ..read.clone() };
    assert_eq!(given.store.update_application(read.clone(), renamed.clone(), CheckChange::Keep, entry()).await.unwrap(), Updated::Updated);
    let named = Application { uid: uid("shop"), ..read.clone() };
    assert_eq!(given.store.update_application(read, named, CheckChange::Keep, entry()).await.unwrap(), Updated::Changed);
    assert_eq!(given.store.application_row(given.application).await.unwrap().unwrap().application, renamed);
    let unknown = application(given.organization);
    assert_eq!(given.store.update_application(unknown.clone(), unknown, CheckChange::Keep, entry()).await.unwrap(), Updated::Changed);
}

#[tokio::test]
async fn an_applications_uid_and_name_are_its_own_within_its_organization() {
    let given = Given::new().await;
    let mut first = application(given.organization);
    (first.uid, first.name) = (uid("shop"), "Shop".to_owned());
    assert_eq!(given.store.create_application(first.clone(), entry()).await.unwrap(), Created::Created);
    for of in [Ref::Id(first.id), Ref::Uid(Uid::parse("shop").unwrap())] {
        assert_eq!(given.store.application(given.organization, &of).await.unwrap().as_ref(), Some(&first));
        assert_eq!(given.store.application(OrganizationId::from_uuid(id()), &of).await.unwrap(), None);
    }
    let mut second = application(given.organization);
    let read = second.clone();
    given.store.create_application(second.clone(), entry()).await.unwrap();
    second.uid = uid("shop");
    assert_eq!(given.store.update_application(read.clone(), second.clone(), CheckChange::Keep, entry()).await.unwrap(), Updated::UidTaken);
    (second.uid, second.name) = (None, "Shop".to_owned());
    assert_eq!(given.store.update_application(read, second.clone(), CheckChange::Keep, entry()).await.unwrap(), Updated::NameTaken);
    second.id = ApplicationId::from_uuid(id());
    assert_eq!(given.store.create_application(second.clone(), entry()).await.unwrap(), Created::NameTaken);
    (second.uid, second.name) = (uid("shop"), "Other".to_owned());
    assert_eq!(given.store.create_application(second.clone(), entry()).await.unwrap(), Created::UidTaken);
    let elsewhere = organization();
    given.store.create_organization(elsewhere.clone(), entry()).await.unwrap();
    second.organization = elsewhere.organization.id;
    assert_eq!(given.store.create_application(second, entry()).await.unwrap(), Created::Created);
}

/// An endpoint with something in every field.
pub fn full_endpoint(given: &Given) -> Endpoint {
    let written = "https://Shop.example:8443/a b?c=ü".to_owned();
    let pattern = |text| EventTypePattern::parse(text).unwrap();
    Endpoint {
        uid: uid("shop-1"),
        name: Some("Shop".to_owned()),
        description: Some("the \"shop\"".to_owned()),
        target: Target { url: written.parse().unwrap(), written },
        event_types: vec![pattern("user.created"), pattern("order.*")],
        secrets: SealedSecrets { current: SealedSecret(vec![0, 255, 1]), previous: Some((SealedSecret(vec![9]), after(86_400))) },
        signature_style: SignatureStyle::Sha256,
        payload_style: PayloadStyle::Raw,
        headers: vec![("X-Key".to_owned(), "a\"b".to_owned()), ("X-Key".to_owned(), "ü".to_owned())],
        revision: RevisionNumber(5),
        metadata: Some("{\"a\" : 1.0}".to_owned()),
        retry_schedule: ScheduleVersion(3),
        follows: None,
        labels: [("region".to_owned(), "eu".to_owned())].into(),
        filter: Some(r#"{"data.amount": {"gte": 1}}"#.to_owned()),
        verify_url: true,
        timeout: Some(Duration::from_millis(1_500)),
        timeout_growth_factor: 1.1,
        max_concurrency: 17,
        ordering: everhook_core::model::Ordering::default(),
        rate_limit: None,
        breaker: everhook_core::model::BreakerConfig::window(),
        drain: None,
        paused_at: None,
        state: EndpointState::Disabled { at: after(3), reason: DisabledReason::ByOwner },
        updated_at: after(3),
        ..endpoint(given.organization, given.application)
    }
}

#[tokio::test]
async fn an_endpoint_is_read_back_whole() {
    let given = Given::new().await;
    let endpoint = full_endpoint(&given);
    assert_eq!(given.store.create_endpoint(endpoint.clone(), entry()).await.unwrap(), Created::Created);
    let given = given.reopened().await;
    for of in [Ref::Id(endpoint.id), Ref::Uid(Uid::parse("shop-1").unwrap())] {
        assert_eq!(given.store.endpoint(given.organization, &of).await.unwrap().as_ref(), Some(&endpoint));
        assert_eq!(given.store.endpoint(OrganizationId::from_uuid(id()), &of).await.unwrap(), None);
    }
}

#[tokio::test]
async fn how_an_endpoint_is_sent_to_is_read_back() {
    let given = Given::new().await;
    let number = |n| NonZeroU32::new(n).unwrap();
    for (n, mode) in (1..).zip([OrderingMode::None, OrderingMode::PerEventType, OrderingMode::Strict]) {
        let config = if n == 1 { BreakerConfig::consecutive() } else { BreakerConfig { enabled: false, ..BreakerConfig::window() } };
        let written = Endpoint {
            ordering: everhook_core::model::Ordering { mode, barrier: None },
            rate_limit: Some(RateLimit::per_minute(number(n * 60), Some(number(n)))),
            breaker: config,
            drain: Some(RateLimit::per_second(number(n), None)),
            paused_at: Some(after(u64::from(n))),
            ..endpoint(given.organization, given.application)
        };
        given.store.create_endpoint(written.clone(), entry()).await.unwrap();
        assert_eq!(given.store.endpoint(given.organization, &Ref::Id(written.id)).await.unwrap().as_ref(), Some(&written));
        // Its drain is over: that alone is different, and publishers and lanes read it again.
        let version = given.config_version().await;
        for _ in 0..2 {
            given.store.end_drain(written.id).await.unwrap();
            let found = given.store.endpoint(given.organization, &Ref::Id(written.id)).await.unwrap();
            assert_eq!(found, Some(Endpoint { drain: None, ..written.clone() }));
            assert_eq!(given.config_version().await, version + 1, "what is over cannot end again");
        }
    }
}

#[tokio::test]
async fn trying_to_write_changes_nothing() {
    let given = Given::new().await;
    let read = async || given.store.organization(&Ref::Id(given.organization)).await.unwrap().unwrap();
    let before = read().await;
    given.store.try_write(given.organization).await.unwrap();
    given.store.try_write(OrganizationId::from_uuid(id())).await.unwrap();
    assert_eq!(read().await, before);
}

#[tokio::test]
async fn an_endpoint_is_replaced_unless_somebody_changed_it_meanwhile() {
    let given = Given::new().await;
    let endpoint = Endpoint { id: given.endpoint, updated_at: after(9), ..full_endpoint(&given) };
    let version = given.config_version().await;
    assert_eq!(given.store.update_endpoint(endpoint.clone(), after(1), entry()).await.unwrap(), EndpointUpdated::Changed);
    assert_eq!(given.config_version().await, version);
    assert_eq!(given.store.update_endpoint(endpoint.clone(), NOW, entry()).await.unwrap(), EndpointUpdated::Updated);
    assert_eq!(given.config_version().await, version + 1);
    let found = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap();
    assert_eq!(found, Some(endpoint));
}

#[tokio::test]
async fn an_endpoints_uid_is_its_own_until_it_is_deleted() {
    let given = Given::new().await;
    let first = full_endpoint(&given);
    given.store.create_endpoint(first.clone(), entry()).await.unwrap();
    let second = Endpoint { id: EndpointId::from_uuid(id()), ..first.clone() };
    assert_eq!(given.store.create_endpoint(second.clone(), entry()).await.unwrap(), Created::UidTaken);
    let rival = Endpoint { id: given.endpoint, ..first.clone() };
    assert_eq!(given.store.update_endpoint(rival, NOW, entry()).await.unwrap(), EndpointUpdated::UidTaken);
    let deleted = Endpoint { state: EndpointState::Deleted { at: after(4) }, updated_at: after(4), ..first.clone() };
    assert_eq!(given.store.update_endpoint(deleted.clone(), first.updated_at, entry()).await.unwrap(), EndpointUpdated::Updated);
    assert_eq!(given.store.create_endpoint(second.clone(), entry()).await.unwrap(), Created::Created);
    let by_uid = given.store.endpoint(given.organization, &Ref::Uid(Uid::parse("shop-1").unwrap())).await.unwrap();
    assert_eq!(by_uid, Some(second));
    let by_id = given.store.endpoint(given.organization, &Ref::Id(deleted.id)).await.unwrap();
    assert_eq!(by_id.as_ref(), Some(&deleted));
    assert_eq!(
        given.store.update_endpoint(deleted, after(4), entry()).await.unwrap(),
        EndpointUpdated::Changed,
        "a deleted endpoint stays as it is"
    );
}

#[tokio::test]
async fn an_application_row_holds_its_endpoints_but_the_deleted() {
    let given = Given::new().await;
    let kept = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
    let disabled = full_endpoint(&given);
    let mut deleted = endpoint(given.organization, given.application);
    deleted.state = EndpointState::Deleted { at: NOW };
    given.store.create_endpoint(disabled.clone(), entry()).await.unwrap();
    given.store.create_endpoint(deleted, entry()).await.unwrap();
    let row = given.store.application_row(given.application).await.unwrap().unwrap();
    assert_eq!(row.application.id, given.application);
    assert_eq!(row.endpoints, [kept, disabled]);
    assert!(given.store.application_row(ApplicationId::from_uuid(id())).await.unwrap().is_none());
}

#[tokio::test]
async fn every_change_to_an_application_makes_a_new_version_of_its_configuration() {
    let given = Given::new().await;
    let version = given.config_version().await;
    given.another_endpoint().await;
    assert_eq!(given.config_version().await, version + 1);
    let read = given.store.application_row(given.application).await.unwrap().unwrap().application;
    let renamed = Application { name: "renamed".to_owned(), ..read.clone() };
    given.store.update_application(read, renamed, CheckChange::Keep, entry()).await.unwrap();
    assert_eq!(given.config_version().await, version + 2);
}

#[tokio::test]
async fn equal_schedules_share_a_version_and_versions_are_read_back() {
    let given = Given::new().await;
    let growing = Backoff::Growing { base: Duration::from_secs(1), multiplier: 1.7, max: Duration::from_secs(300) };
    let first = RetrySchedule {
        name: ScheduleName("mine".to_owned()),
        strategy: Strategy::Exponential(growing),
        max_attempts: 5,
        jitter: Jitter::Share(0.25),
        give_up_on: vec![410],
        timeout: None,
    };
    let second = RetrySchedule { max_attempts: 6, ..first.clone() };
    let version = given.store.schedule_version(&first).await.unwrap();
    let other = given.store.schedule_version(&second).await.unwrap();
    assert_ne!(version, other);
    let given = given.reopened().await;
    assert_eq!(given.store.schedule_version(&first).await.unwrap(), version);
    assert_eq!(given.store.schedule(version).await.unwrap(), Some(first));
    assert_eq!(given.store.schedule(other).await.unwrap(), Some(second));
    assert_eq!(given.store.schedule(ScheduleVersion(99)).await.unwrap(), None);
}

#[tokio::test]
async fn a_key_is_found_by_its_hash_until_it_is_revoked() {
    let given = Given::new().await;
    let key = ApiKey {
        id: ApiKeyId::from_uuid(id()),
        organization: given.organization,
        application: Some(given.application),
        name: "ci".to_owned(),
        prefix: "eh_ab12".to_owned(),
        scopes: [Scope::Publish, Scope::Read].into_iter().collect(),
        created_at: NOW,
        expires_at: Some(after(60)),
        last_used_at: None,
    };
    let hash = ApiKeyHash([7; 32]);
    assert_eq!(given.store.create_api_key(key.clone(), hash, 100, entry()).await.unwrap(), Created::Created);
    let again = ApiKey { id: ApiKeyId::from_uuid(id()), name: "other".to_owned(), ..key.clone() };
    assert_eq!(given.store.create_api_key(again, hash, 100, entry()).await.unwrap(), Created::UidTaken);
    let one_more = ApiKey { id: ApiKeyId::from_uuid(id()), ..key.clone() };
    assert_eq!(given.store.create_api_key(one_more, ApiKeyHash([8; 32]), 1, entry()).await.unwrap(), Created::TooMany);
    let of_nothing = ApiKey { id: ApiKeyId::from_uuid(id()), application: Some(ApplicationId::from_uuid(id())), ..key.clone() };
    let refused = given.store.create_api_key(of_nothing, ApiKeyHash([9; 32]), 100, entry()).await.unwrap();
    assert_eq!(refused, Created::NoSuchApplication);
    assert_eq!(given.store.api_key(&hash).await.unwrap().as_ref(), Some(&key));
    assert_eq!(given.store.api_keys(given.organization, ALL).await.unwrap().rows, std::slice::from_ref(&key));
    assert!(!given.store.revoke_api_key(OrganizationId::from_uuid(id()), key.id, entry()).await.unwrap());
    // A use is noted, and an older one changes nothing.
    for at in [after(60), after(30)] {
        given.store.note_key_uses(vec![(key.id, at), (ApiKeyId::from_uuid(id()), at)]).await.unwrap();
        let found = given.store.api_key_by_id(given.organization, key.id).await.unwrap().unwrap();
        assert_eq!(found.last_used_at, Some(after(60)));
    }
    assert_eq!(given.store.api_key_by_id(OrganizationId::from_uuid(id()), key.id).await.unwrap(), None);
    assert!(given.store.revoke_api_key(given.organization, key.id, entry()).await.unwrap());
    assert!(!given.store.revoke_api_key(given.organization, key.id, entry()).await.unwrap());
    assert_eq!(given.store.api_key(&hash).await.unwrap(), None);
}

#[tokio::test]
async fn an_organization_has_no_more_endpoints_and_applications_than_its_limits_allow() {
    let given = Given::new().await;
    let read = given.store.organization(&Ref::Id(given.organization)).await.unwrap().unwrap();
    let mut organization = read.clone();
    organization.limits = OrganizationLimits {
        deliveries_per_minute: Some(1),
        events_per_minute: Some(2),
        concurrency: Some(3),
        endpoints: Some(2),
        applications: Some(1),
        manual_retries_per_minute: Some(6),
    };
    assert_eq!(given.store.update_organization(read, organization.clone(), entry()).await.unwrap(), Updated::Updated);
    let found = given.store.organization(&Ref::Id(given.organization)).await.unwrap();
    assert_eq!(found, Some(organization));
    // One endpoint and two built-in applications are there.
    for expected in [Created::Created, Created::TooMany] {
        assert_eq!(given.store.create_endpoint(endpoint(given.organization, given.application), entry()).await.unwrap(), expected);
        assert_eq!(given.store.create_application(application(given.organization), entry()).await.unwrap(), expected);
    }
}
