//! Revisions of what shapes an endpoint's requests.

use everhook_core::{
    ids::{EndpointId, OrganizationId, Ref, RevisionNumber},
    model::{Endpoint, EndpointState, PayloadStyle, RetrySchedule, Revision, SealedSecret, SealedSecrets, SignatureStyle, Target},
    policy::presets,
    ports::{EndpointUpdated, RetentionClass},
    time::Timestamp,
};

use super::given::{Given, NOW, after, entry, id};

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

/// Later than everything that the tests make, and than whatever may still be under way then.
const LATER: Timestamp = Timestamp::from_secs(1_700_010_000);

/// Changes what a receiver can see, so many times.
async fn reshape(given: &Given, times: u64) {
    for n in 1..=times {
        let before = found(given).await;
        let changed = Endpoint { updated_at: after(n), ..reshaped(before.clone()) };
        assert_eq!(given.store.update_endpoint(changed, before.updated_at, entry()).await.unwrap(), EndpointUpdated::Updated);
    }
}

async fn delete(given: &Given, endpoint: EndpointId, at: Timestamp) {
    let before = given.store.endpoint(given.organization, &Ref::Id(endpoint)).await.unwrap().unwrap();
    let deleted = Endpoint { updated_at: at, state: EndpointState::Deleted { at }, ..before.clone() };
    assert_eq!(given.store.update_endpoint(deleted, before.updated_at, entry()).await.unwrap(), EndpointUpdated::Updated);
}

#[tokio::test]
async fn a_replaced_revision_goes_if_nothing_that_is_kept_was_sent_by_it() {
    let given = Given::new().await;
    reshape(&given, 3).await;
    // Not before its time.
    assert_eq!(given.purge(RetentionClass::Revisions, NOW).await, 0);
    assert_eq!(given.purge_in_steps(RetentionClass::Revisions, LATER, 2).await.0, 3);
    assert_eq!((kept(&given, 3).await, kept(&given, 4).await), (None, Some(Revision::of(&found(&given).await))));
    assert_eq!(given.purge(RetentionClass::Revisions, LATER).await, 0);
}

#[tokio::test]
async fn a_replaced_revision_stays_while_a_delivery_may_have_been_sent_by_it() {
    let given = Given::new().await;
    given.published().await;
    reshape(&given, 3).await;
    assert_eq!(given.purge(RetentionClass::Revisions, LATER).await, 0);
    assert!(kept(&given, 1).await.is_some());
}

#[tokio::test]
async fn a_deleted_endpoint_goes_once_nothing_names_it() {
    let given = Given::new().await;
    let (named, unused, newest) = (given.endpoint, given.another_endpoint().await, given.another_endpoint().await);
    given.published().await;
    for endpoint in [named, unused] {
        delete(&given, endpoint, after(4)).await;
    }
    assert_eq!(given.purge(RetentionClass::DeletedEndpoints, after(4)).await, 0, "not before its time");
    assert_eq!(given.purge_in_steps(RetentionClass::DeletedEndpoints, LATER, 1).await.0, 1);
    let is_there = async |endpoint| given.store.endpoint(given.organization, &Ref::Id(endpoint)).await.unwrap().is_some();
    assert_eq!((is_there(named).await, is_there(unused).await, is_there(newest).await), (true, false, true));
    assert_eq!(given.store.revision(given.organization, unused, RevisionNumber::FIRST).await.unwrap(), None);
    // What is made afterwards is another, and gets what is published.
    let next = given.another_endpoint().await;
    let new = given.event(&[next]).await;
    given.record(new).await;
}

fn schedule(max_attempts: u32) -> RetrySchedule {
    RetrySchedule { max_attempts, ..presets::standard() }
}

fn hours(count: u64) -> Timestamp {
    after(10 + count * 3_600)
}

#[tokio::test]
async fn a_version_of_a_schedule_that_nobody_has_goes_an_hour_after_that_was_noticed() {
    let given = Given::new().await;
    let mut versions = Vec::new();
    for max_attempts in [7, 8, 9, 10] {
        versions.push(given.store.schedule_version(&schedule(max_attempts)).await.unwrap());
    }
    let [unused, again, followed, newest] = versions[..] else { panic!("four were made") };
    let before = found(&given).await;
    let follower = Endpoint { retry_schedule: followed, updated_at: after(1), ..before.clone() };
    assert_eq!(given.store.update_endpoint(follower, before.updated_at, entry()).await.unwrap(), EndpointUpdated::Updated);
    assert_eq!(given.purge_in_steps(RetentionClass::ScheduleVersions, hours(0), 1).await.0, 0);
    // Somebody wants one of them again meanwhile.
    assert_eq!(given.store.schedule_version(&schedule(8)).await.unwrap(), again);
    given.purge_in_steps(RetentionClass::ScheduleVersions, hours(2), 1).await;
    let is_there = async |version| given.store.schedule(version).await.unwrap().is_some();
    assert_eq!((is_there(unused).await, is_there(again).await, is_there(followed).await), (false, true, true));
    // It can be made anew, and its number is not given again.
    let anew = given.store.schedule_version(&schedule(7)).await.unwrap();
    assert!(anew > newest, "{anew:?} after {newest:?}");
    assert_eq!(given.store.schedule(anew).await.unwrap(), Some(schedule(7)));
}

#[tokio::test]
async fn a_version_of_a_schedule_stays_while_an_event_is_kept_whose_deliveries_may_have_it() {
    let given = Given::new().await;
    given.published().await;
    let unused = given.store.schedule_version(&schedule(7)).await.unwrap();
    given.store.schedule_version(&schedule(8)).await.unwrap();
    for hour in [0, 2, 4] {
        assert_eq!(given.purge(RetentionClass::ScheduleVersions, hours(hour)).await, 0);
    }
    assert!(given.store.schedule(unused).await.unwrap().is_some());
}
