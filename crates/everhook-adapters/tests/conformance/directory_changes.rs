//! Retry schedules and event types: what several endpoints and applications share, and what a change of it changes for them.

use everhook_core::{
    ids::{EventTypeId, OrganizationId, Ref, ScheduleId, ScheduleVersion, Uid},
    model::{Endpoint, EventTypeDefinition, EventTypeMark, OrganizationSchedule, RetrySchedule, ScheduleName},
    policy::presets,
    ports::{Created, EndpointFilter, EndpointUpdated, MoveEndpoints, Moved, ScheduleDeleted, ScheduleRef, Updated},
};

use super::{
    directory::ALL,
    given::{Given, NOW, after, endpoint, entry, event_type, id},
};

pub async fn schedule(given: &Given, name: &str) -> OrganizationSchedule {
    let policy = RetrySchedule { name: ScheduleName(name.to_owned()), ..presets::standard() };
    let version = given.store.schedule_version(&policy).await.unwrap();
    let id = ScheduleId::from_uuid(id());
    OrganizationSchedule { id, organization: given.organization, policy, version, created_at: NOW, updated_at: NOW }
}

#[tokio::test]
async fn an_organizations_schedules_are_found_by_id_and_name_and_counted() {
    let given = Given::new().await;
    let (first, second) = (schedule(&given, "one").await, schedule(&given, "two").await);
    assert_eq!(given.store.create_retry_schedule(first.clone(), 2, entry()).await.unwrap(), Created::Created);
    assert_eq!(given.store.create_retry_schedule(schedule(&given, "one").await, 2, entry()).await.unwrap(), Created::NameTaken);
    assert_eq!(given.store.create_retry_schedule(second.clone(), 2, entry()).await.unwrap(), Created::Created);
    assert_eq!(given.store.create_retry_schedule(schedule(&given, "three").await, 2, entry()).await.unwrap(), Created::TooMany);
    for of in [ScheduleRef::Id(first.id), ScheduleRef::Name("one".to_owned())] {
        assert_eq!(given.store.retry_schedule(given.organization, &of).await.unwrap().as_ref(), Some(&first));
        assert_eq!(given.store.retry_schedule(OrganizationId::from_uuid(id()), &of).await.unwrap(), None);
    }
    assert_eq!(given.store.retry_schedules(given.organization).await.unwrap(), [second, first]);
}

#[tokio::test]
async fn a_changed_schedule_is_the_newest_version_of_every_endpoint_that_follows_it() {
    let given = Given::new().await;
    let mut schedule = schedule(&given, "mine").await;
    let mut follower = endpoint(given.organization, given.application);
    (follower.follows, follower.retry_schedule) = (Some(schedule.id), schedule.version);
    assert_eq!(given.store.create_endpoint(follower.clone(), entry()).await.unwrap(), Created::NoSuchSchedule);
    given.store.create_retry_schedule(schedule.clone(), 10, entry()).await.unwrap();
    assert_eq!(given.store.create_endpoint(follower.clone(), entry()).await.unwrap(), Created::Created);
    let before = given.config_version().await;

    schedule.policy.max_attempts = 3;
    schedule.version = given.store.schedule_version(&schedule.policy).await.unwrap();
    schedule.updated_at = after(1);
    assert_eq!(given.store.update_retry_schedule(schedule.clone(), after(9), entry()).await.unwrap(), Updated::Changed);
    assert_eq!(given.store.update_retry_schedule(schedule.clone(), NOW, entry()).await.unwrap(), Updated::Updated);
    assert_eq!(given.config_version().await, before + 1);
    let found = given.store.endpoint(given.organization, &Ref::Id(follower.id)).await.unwrap().unwrap();
    assert_eq!((found.follows, found.retry_schedule), (Some(schedule.id), schedule.version));
    // An endpoint that was read before the change writes no old version back.
    follower.updated_at = after(2);
    assert_eq!(given.store.update_endpoint(follower.clone(), found.updated_at, entry()).await.unwrap(), EndpointUpdated::Updated);
    let found = given.store.endpoint(given.organization, &Ref::Id(follower.id)).await.unwrap().unwrap();
    assert_eq!(found.retry_schedule, schedule.version);
}

#[tokio::test]
async fn endpoints_are_moved_a_few_at_a_time_and_then_their_schedule_can_go() {
    let given = Given::new().await;
    let (from, to) = (schedule(&given, "from").await, schedule(&given, "to").await);
    for schedule in [&from, &to] {
        given.store.create_retry_schedule(schedule.clone(), 10, entry()).await.unwrap();
    }
    for _ in 0..3 {
        let follower = Endpoint { follows: Some(from.id), ..endpoint(given.organization, given.application) };
        given.store.create_endpoint(follower, entry()).await.unwrap();
    }
    let delete = |id| given.store.delete_retry_schedule(given.organization, id, entry());
    assert_eq!(delete(from.id).await.unwrap(), ScheduleDeleted::InUse(3));
    let request =
        MoveEndpoints { organization: given.organization, from: from.id, to: Some(to.id), version: to.version, now: after(1), limit: 2 };
    let nowhere = MoveEndpoints { to: Some(ScheduleId::from_uuid(id())), ..request };
    assert_eq!(given.store.move_endpoints(nowhere, entry()).await.unwrap(), Moved::NoSuchSchedule);
    for moved in [2, 1, 0] {
        assert_eq!(given.store.move_endpoints(request, entry()).await.unwrap(), Moved::Moved(moved));
    }
    let filter = EndpointFilter { follows: Some(to.id), ..EndpointFilter::default() };
    let following = given.store.endpoints(given.organization, filter, ALL).await.unwrap();
    assert!(following.rows.iter().all(|endpoint| endpoint.updated_at == after(1)), "whoever read them before reads them again");
    assert_eq!(following.rows.len(), 3);
    assert_eq!(delete(from.id).await.unwrap(), ScheduleDeleted::Deleted);
    assert_eq!(delete(from.id).await.unwrap(), ScheduleDeleted::NotFound);
}

#[tokio::test]
async fn an_event_type_is_known_to_every_application_of_its_organization() {
    let given = Given::new().await;
    let definition = EventTypeDefinition {
        id: EventTypeId::from_uuid(id()),
        organization: given.organization,
        name: event_type("order.paid"),
        description: Some("An order was paid".to_owned()),
        schema: Some(r#"{ "type": "object" }"#.to_owned()),
        example: Some("{}".to_owned()),
        archived: false,
        created_at: NOW,
        updated_at: NOW,
    };
    let before = given.config_version().await;
    assert_eq!(given.store.create_event_type(definition.clone(), 1, entry()).await.unwrap(), Created::Created);
    assert_eq!(given.store.create_event_type(definition.clone(), 1, entry()).await.unwrap(), Created::NameTaken);
    let another = EventTypeDefinition { id: EventTypeId::from_uuid(id()), name: event_type("other"), ..definition.clone() };
    assert_eq!(given.store.create_event_type(another, 1, entry()).await.unwrap(), Created::TooMany);
    for of in [Ref::Id(definition.id), Ref::Uid(Uid::parse("order.paid").unwrap())] {
        assert_eq!(given.store.event_type(given.organization, &of).await.unwrap().as_ref(), Some(&definition));
        assert_eq!(given.store.event_type(OrganizationId::from_uuid(id()), &of).await.unwrap(), None);
    }
    let changed = EventTypeDefinition { schema: None, archived: true, updated_at: after(1), ..definition };
    assert_eq!(given.store.update_event_type(changed.clone(), after(9), entry()).await.unwrap(), Updated::Changed);
    assert_eq!(given.store.update_event_type(changed.clone(), NOW, entry()).await.unwrap(), Updated::Updated);
    let row = given.store.application_row(given.application).await.unwrap().unwrap();
    let mark = EventTypeMark { id: changed.id, name: changed.name.clone(), archived: true, has_schema: false, updated_at: after(1) };
    assert_eq!((row.event_types, row.config_version), (vec![mark], before + 2));
    for (archived, count) in [(None, 1), (Some(true), 1), (Some(false), 0)] {
        assert_eq!(given.store.event_types(given.organization, archived, ALL).await.unwrap().rows.len(), count);
    }
    assert!(!given.store.delete_event_type(OrganizationId::from_uuid(id()), changed.id, entry()).await.unwrap());
    assert!(given.store.delete_event_type(given.organization, changed.id, entry()).await.unwrap());
    assert_eq!(given.config_version().await, before + 3);
}

#[tokio::test]
async fn a_name_that_another_has_cannot_be_taken_by_a_change() {
    let given = Given::new().await;
    let (first, mut second) = (schedule(&given, "one").await, schedule(&given, "two").await);
    for schedule in [&first, &second] {
        given.store.create_retry_schedule(schedule.clone(), 10, entry()).await.unwrap();
    }
    second.policy.name = ScheduleName("one".to_owned());
    assert_eq!(given.store.update_retry_schedule(second.clone(), NOW, entry()).await.unwrap(), Updated::NameTaken);
    second.policy.name = ScheduleName("two".to_owned());
    assert_eq!(given.store.retry_schedules(given.organization).await.unwrap(), [second, first]);
    assert_eq!(given.store.retry_schedules(OrganizationId::from_uuid(id())).await.unwrap(), []);
}

#[tokio::test]
async fn nobody_changes_what_belongs_to_another_organization() {
    let given = Given::new().await;
    let mine = schedule(&given, "mine").await;
    given.store.create_retry_schedule(mine.clone(), 10, entry()).await.unwrap();
    let follower = Endpoint { follows: Some(mine.id), ..endpoint(given.organization, given.application) };
    given.store.create_endpoint(follower.clone(), entry()).await.unwrap();
    let stranger = OrganizationId::from_uuid(id());
    let stolen = OrganizationSchedule { organization: stranger, updated_at: after(1), ..mine.clone() };
    assert_eq!(given.store.update_retry_schedule(stolen, NOW, entry()).await.unwrap(), Updated::Changed);
    assert_eq!(given.store.delete_retry_schedule(stranger, mine.id, entry()).await.unwrap(), ScheduleDeleted::NotFound);
    let away = MoveEndpoints { organization: stranger, from: mine.id, to: None, version: ScheduleVersion(1), now: after(1), limit: 9 };
    assert_eq!(given.store.move_endpoints(away, entry()).await.unwrap(), Moved::Moved(0));
    assert_eq!(given.store.retry_schedule(given.organization, &ScheduleRef::Id(mine.id)).await.unwrap(), Some(mine.clone()));
    // The owner can, and a preset is followed by nobody.
    let away = MoveEndpoints { organization: given.organization, ..away };
    let version = given.config_version().await;
    assert_eq!(given.store.move_endpoints(away, entry()).await.unwrap(), Moved::Moved(1));
    let found = given.store.endpoint(given.organization, &Ref::Id(follower.id)).await.unwrap().unwrap();
    assert_eq!((found.follows, found.retry_schedule), (None, ScheduleVersion(1)));
    assert_eq!(given.config_version().await, version + 1);
}

#[tokio::test]
async fn an_endpoint_cannot_be_changed_to_follow_a_schedule_that_is_gone() {
    let given = Given::new().await;
    let mut endpoint = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
    (endpoint.follows, endpoint.updated_at) = (Some(ScheduleId::from_uuid(id())), after(1));
    assert_eq!(given.store.update_endpoint(endpoint, NOW, entry()).await.unwrap(), EndpointUpdated::NoSuchSchedule);
    let found = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
    assert_eq!((found.follows, found.updated_at), (None, NOW));
}
