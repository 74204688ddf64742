//! What the directory lists, by every filter and both ways.

use std::num::NonZeroU32;

use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventTypeId, OrganizationId, ScheduleId, Uid},
    model::{ApiKey, ApiKeyHash, Cursor, Endpoint, EndpointState, EventTypeDefinition, PageRequest, Scope},
    ports::{EndpointFilter, UidsRead},
};
use uuid::Uuid;

use super::{
    directory::{ALL, full_endpoint},
    directory_changes::schedule,
    given::{Given, NOW, after, application, endpoint, entry, event_type, id, organization},
    walking::{both_ways, walk},
};

#[tokio::test]
async fn endpoints_are_listed_by_every_filter() {
    let given = Given::new().await;
    let other = application(given.organization);
    given.store.create_application(other.clone(), entry()).await.unwrap();
    let full = full_endpoint(&given);
    let schedule = schedule(&given, "mine").await;
    given.store.create_retry_schedule(schedule.clone(), 10, entry()).await.unwrap();
    let mut elsewhere = endpoint(given.organization, other.id);
    (elsewhere.follows, elsewhere.retry_schedule) = (Some(schedule.id), schedule.version);
    elsewhere.labels = [("region".to_owned(), "us".to_owned())].into();
    let mut deleted = endpoint(given.organization, given.application);
    deleted.state = EndpointState::Deleted { at: NOW };
    for endpoint in [&full, &elsewhere, &deleted] {
        given.store.create_endpoint(endpoint.clone(), entry()).await.unwrap();
    }
    let any = EndpointFilter::default;
    let in_application = || EndpointFilter { application: Some(other.id), ..any() };
    let labelled = |name: &str, value: Option<&str>| EndpointFilter { label: Some((name.to_owned(), value.map(str::to_owned))), ..any() };
    let getting = |name| EndpointFilter { event_type: Some(event_type(name)), ..any() };
    let (plain, full, elsewhere) = (given.endpoint, full.id, elsewhere.id);
    let cases = [
        (any(), vec![elsewhere, full, plain]),
        (in_application(), vec![elsewhere]),
        (EndpointFilter { enabled: Some(true), ..any() }, vec![elsewhere, plain]),
        (EndpointFilter { enabled: Some(false), ..any() }, vec![full]),
        (EndpointFilter { enabled: Some(true), ..in_application() }, vec![elsewhere]),
        (EndpointFilter { enabled: Some(false), ..in_application() }, vec![]),
        (EndpointFilter { follows: Some(schedule.id), ..any() }, vec![elsewhere]),
        (EndpointFilter { follows: Some(ScheduleId::from_uuid(id())), ..any() }, vec![]),
        (labelled("region", None), vec![elsewhere, full]),
        (labelled("region", Some("eu")), vec![full]),
        (labelled("region", Some("EU")), vec![]),
        (labelled("eu", None), vec![]),
        (getting("user.created"), vec![elsewhere, full, plain]),
        (getting("user.created.late"), vec![elsewhere, plain]),
        (getting("order.paid.late"), vec![elsewhere, full, plain]),
        (getting("order"), vec![elsewhere, plain]),
        (getting("orders.paid"), vec![elsewhere, plain]),
        (getting("Order.paid"), vec![elsewhere, plain]),
    ];
    for (filter, expected) in cases {
        let list = async |page| given.store.endpoints(given.organization, filter.clone(), page).await.unwrap();
        assert_eq!(walk(list, |endpoint| endpoint.id).await, both_ways(expected), "{filter:?}");
    }
    let stranger = given.store.endpoints(OrganizationId::from_uuid(id()), any(), ALL).await.unwrap();
    assert_eq!(stranger.rows, []);
}

#[tokio::test]
async fn a_page_compares_no_more_endpoints_than_it_may_and_its_cursor_continues() {
    let given = Given::new().await;
    let mut few = vec![];
    for number in 0..7 {
        let mut new = endpoint(given.organization, given.application);
        if number % 3 == 0 {
            new.labels = [("region".to_owned(), "eu".to_owned())].into();
            few.insert(0, new.id);
        }
        given.store.create_endpoint(new, entry()).await.unwrap();
    }
    for application in [None, Some(given.application)] {
        for compared_max in 1..=9 {
            let compared_max = NonZeroU32::new(compared_max);
            let filter =
                EndpointFilter { application, label: Some(("region".to_owned(), None)), compared_max, ..EndpointFilter::default() };
            let read = async |cursor| {
                let page = PageRequest { limit: 2, cursor };
                given.store.endpoints(given.organization, filter.clone(), page).await.unwrap()
            };
            let (mut forth, mut pages, mut cursor) = (vec![], 0, Some(Cursor::Newest));
            while let Some(at) = cursor {
                let page = read(at).await;
                forth.extend(page.rows.iter().map(|endpoint| endpoint.id));
                (cursor, pages) = (page.next, pages + 1);
            }
            let (mut back, mut cursor) = (vec![], Some(Cursor::NewerThan(Uuid::nil())));
            while let Some(at) = cursor {
                let page = read(at).await;
                back.splice(0..0, page.rows.iter().map(|endpoint| endpoint.id));
                cursor = page.prev;
            }
            assert_eq!((&forth, &back), (&few, &few), "{compared_max:?}");
            // Eight in all: one at a time takes a page each, and all at once as many as the three that match take.
            let expected = match compared_max.map(NonZeroU32::get) {
                Some(1) => Some(8),
                Some(9) => Some(2),
                _ => None,
            };
            assert!(expected.is_none_or(|expected| pages == expected), "{pages} pages of {compared_max:?}");
        }
    }
}

#[tokio::test]
async fn organizations_and_applications_are_walked_both_ways() {
    let given = Given::new().await;
    let (mut organizations, mut applications) = (vec![given.organization], Vec::new());
    for _ in 0..4 {
        let new = organization();
        organizations.insert(0, new.organization.id);
        given.store.create_organization(new, entry()).await.unwrap();
        applications.insert(0, given.another_application().await);
    }
    let list = async |page| given.store.organizations(page).await.unwrap();
    assert_eq!(walk(list, |organization| organization.id).await, both_ways(organizations));
    let list = async |page| given.store.applications(given.organization, page).await.unwrap();
    let (forth, back) = walk(list, |application| application.id).await;
    assert_eq!(forth, back);
    assert_eq!((&forth[..4], forth.len()), (&applications[..], 6), "the two that it was born with are the oldest");
}

#[tokio::test]
async fn an_organizations_keys_are_walked_both_ways() {
    let given = Given::new().await;
    let mut keys = Vec::new();
    for number in 0..5 {
        let key = ApiKey {
            id: ApiKeyId::from_uuid(id()),
            organization: if number == 2 { OrganizationId::from_uuid(id()) } else { given.organization },
            application: None,
            name: number.to_string(),
            prefix: "eh_ab12".to_owned(),
            scopes: [Scope::Publish].into_iter().collect(),
            created_at: NOW,
            expires_at: None,
            last_used_at: None,
        };
        given.store.create_api_key(key.clone(), ApiKeyHash([number; 32]), 100, entry()).await.unwrap();
        keys.insert(0, key);
    }
    keys.remove(2);
    let list = async |page| given.store.api_keys(given.organization, page).await.unwrap();
    assert_eq!(walk(list, Clone::clone).await, both_ways(keys));
}

#[tokio::test]
async fn the_uids_of_a_page_are_read_at_once_and_no_strangers() {
    let given = Given::new().await;
    let mut named = endpoint(given.organization, given.application);
    named.uid = Uid::parse("hook");
    given.store.create_endpoint(named.clone(), entry()).await.unwrap();
    let mut deleted = Endpoint { id: EndpointId::from_uuid(id()), uid: Uid::parse("gone"), ..named.clone() };
    given.store.create_endpoint(deleted.clone(), entry()).await.unwrap();
    (deleted.state, deleted.updated_at) = (EndpointState::Deleted { at: NOW }, after(1));
    given.store.update_endpoint(deleted.clone(), named.updated_at, entry()).await.unwrap();
    let mut shop = application(given.organization);
    shop.uid = Uid::parse("shop");
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    let endpoints = vec![named.id, given.endpoint, deleted.id, EndpointId::from_uuid(id())];
    let applications = vec![shop.id, ApplicationId::from_uuid(id())];
    let mut read = given.store.uids(given.organization, endpoints.clone(), applications.clone()).await.unwrap();
    read.endpoints.sort_by_key(|(id, _)| *id);
    assert_eq!(read.applications, [(shop.id, shop.uid.unwrap())]);
    assert_eq!(read.endpoints, [(named.id, named.uid.unwrap()), (deleted.id, deleted.uid.unwrap())]);
    let stranger = OrganizationId::from_uuid(id());
    assert_eq!(given.store.uids(stranger, endpoints, applications).await.unwrap(), UidsRead::default());
}

#[tokio::test]
async fn event_types_are_walked_both_ways_archived_or_not() {
    let given = Given::new().await;
    let mut definitions = Vec::new();
    for number in 0..6 {
        let definition = EventTypeDefinition {
            id: EventTypeId::from_uuid(id()),
            organization: given.organization,
            name: event_type(&format!("order.{number}")),
            description: None,
            schema: None,
            example: None,
            archived: number % 2 == 1,
            created_at: NOW,
            updated_at: NOW,
        };
        given.store.create_event_type(definition.clone(), 10, entry()).await.unwrap();
        definitions.insert(0, definition);
    }
    for wanted in [None, Some(true), Some(false)] {
        let expected = definitions.iter().filter(|definition| wanted.is_none_or(|wanted| definition.archived == wanted)).cloned().collect();
        let list = async |page| given.store.event_types(given.organization, wanted, page).await.unwrap();
        assert_eq!(walk(list, Clone::clone).await, both_ways(expected), "{wanted:?}");
    }
    let all = PageRequest { limit: 10, cursor: Cursor::Newest };
    assert_eq!(given.store.event_types(OrganizationId::from_uuid(id()), None, all).await.unwrap().rows, []);
}
