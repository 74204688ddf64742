//! How the configuration of an application is read: whole, or only what changed; and that a catalog which reads only what changed knows the same as one
//! that reads everything.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use everhook_core::{
    catalog::{ApplicationView, Catalog, CatalogPorts},
    ids::{DeliveryId, EndpointId, EventTypeId, Ref, ScheduleVersion},
    model::{
        DisabledReason, Endpoint, EndpointState, EventTypeDefinition, EventTypePattern, Organization, OrganizationLimits,
        OrganizationSchedule, Placement, Profile,
    },
    ports::{
        APPLICATION_CONFIG_BYTES_MAX, CONFIG_PAGE_BYTES, CONFIG_PAGE_ENDPOINTS, ConfigCursor, ConfigPage, ConfigRead, ConfigVersion,
        Created, EndpointUpdated, NewDelivery, Recorded, Updated,
    },
};
use futures_util::future::join_all;

use super::{
    directory_changes,
    given::{Given, NOW, after, endpoint, entry, event_type, id},
};

fn catalog(given: &Given) -> Catalog {
    let (configuration, retry_schedules, event_types) = (given.store.clone(), given.store.clone(), given.store.clone());
    Catalog::new(CatalogPorts { configuration, retry_schedules, event_types }, Profile::default())
}

async fn page(given: &Given, cursor: ConfigCursor) -> ConfigPage {
    match given.store.configuration(given.application, cursor).await.unwrap() {
        ConfigRead::Page(page) => *page,
        other => panic!("no page: {other:?}"),
    }
}

async fn version(given: &Given) -> ConfigVersion {
    let mut cursor = ConfigCursor::START;
    loop {
        let page = page(given, cursor).await;
        match page.next {
            Some(next) => cursor = next,
            None => return page.version,
        }
    }
}

async fn found(given: &Given, of: EndpointId) -> Endpoint {
    given.store.endpoint(given.organization, &Ref::Id(of)).await.unwrap().unwrap()
}

/// Changes an endpoint as it stands.
async fn change(given: &Given, of: EndpointId, edit: impl FnOnce(&mut Endpoint)) {
    let mut changed = found(given, of).await;
    let read_at = changed.updated_at;
    changed.updated_at = read_at + Duration::from_secs(1);
    edit(&mut changed);
    assert_eq!(given.store.update_endpoint(changed, read_at, entry()).await.unwrap(), EndpointUpdated::Updated);
}

fn disabled() -> EndpointState {
    EndpointState::Disabled { at: NOW, reason: DisabledReason::ByOwner }
}

#[tokio::test]
async fn what_changed_since_a_version_is_told_and_nothing_else() {
    let given = Given::new().await;
    let [first, second, third] = [given.another_endpoint().await, given.another_endpoint().await, given.another_endpoint().await];
    let known = version(&given).await;
    let changed = async |since| {
        let page = page(&given, ConfigCursor::after(since)).await;
        assert_eq!(page.next, None);
        (page.endpoints.iter().map(|endpoint| endpoint.id).collect::<Vec<_>>(), page.version)
    };
    assert_eq!(changed(known).await, (vec![], known));
    change(&given, second, |endpoint| endpoint.state = disabled()).await;
    change(&given, first, |endpoint| endpoint.state = EndpointState::Deleted { at: NOW }).await;
    let (ids, later) = changed(known).await;
    assert_eq!(ids, [second, first], "in the order of the changes, what was deleted included");
    assert_eq!(later.total(), known.total() + 2);
    // One that changes again is told once, at its last change.
    change(&given, third, |endpoint| endpoint.max_concurrency = 9).await;
    change(&given, second, |endpoint| endpoint.state = EndpointState::Enabled).await;
    assert_eq!(changed(known).await.0, [first, third, second]);
    assert_eq!(changed(later).await.0, [third, second]);
    // Whoever knows nothing is not told of what was deleted.
    let all = page(&given, ConfigCursor::START).await;
    assert!(all.endpoints.iter().all(|endpoint| endpoint.id != first) && all.endpoints.len() == 3);
}

#[tokio::test]
async fn a_change_of_one_endpoint_is_one_endpoint_to_read_however_many_there_are() {
    let given = Given::new().await;
    let mut count = 1;
    for size in [10, 1_000, 3 * CONFIG_PAGE_ENDPOINTS / 2] {
        while count < size {
            let some = (size - count).min(100);
            join_all((0..some).map(|_| given.another_endpoint())).await;
            count += some;
        }
        let known = version(&given).await;
        change(&given, given.endpoint, |endpoint| endpoint.max_concurrency += 1).await;
        let page = page(&given, ConfigCursor::after(known)).await;
        assert_eq!((page.endpoints.len(), page.next), (1, None), "of {size} endpoints");
    }
    let row = given.store.application_row(given.application).await.unwrap().unwrap();
    assert_eq!(row.endpoints.len(), count, "all of them, page by page");
}

#[tokio::test]
async fn what_changes_between_two_pages_is_told_by_a_later_one() {
    let given = Given::new().await;
    for _ in 0..CONFIG_PAGE_ENDPOINTS.div_ceil(100) {
        join_all((0..100).map(|_| given.another_endpoint())).await;
    }
    let first = page(&given, ConfigCursor::START).await;
    let (gone, paused) = (first.endpoints[3].id, first.endpoints[7].id);
    change(&given, gone, |endpoint| endpoint.state = EndpointState::Deleted { at: NOW }).await;
    change(&given, paused, |endpoint| endpoint.paused_at = Some(NOW)).await;
    let second = page(&given, first.next.expect("there are more than a page has")).await;
    let told = |id| second.endpoints.iter().find(|endpoint| endpoint.id == id);
    assert!(matches!(told(gone).unwrap().state, EndpointState::Deleted { .. }));
    assert_eq!(told(paused).unwrap().paused_at, Some(NOW));
}

/// An endpoint with so many bytes of headers.
fn large(given: &Given, bytes: usize) -> Endpoint {
    let headers = vec![("x-padding".to_owned(), "p".repeat(bytes))];
    Endpoint { headers, ..endpoint(given.organization, given.application) }
}

#[tokio::test]
async fn a_page_ends_when_it_is_large_and_the_next_goes_on_behind_it() {
    let given = Given::new().await;
    let bytes = usize::try_from(CONFIG_PAGE_BYTES).unwrap() / 2;
    for _ in 0..5 {
        assert_eq!(given.store.create_endpoint(large(&given, bytes), entry()).await.unwrap(), Created::Created);
    }
    let (mut sizes, mut cursor) = (Vec::new(), Some(ConfigCursor::START));
    while let Some(next) = cursor {
        let page = page(&given, next).await;
        sizes.push(page.endpoints.len());
        cursor = page.next;
    }
    assert!(sizes.iter().all(|size| *size <= 3) && sizes.iter().sum::<usize>() == 6, "{sizes:?}");
    let read = given.store.application_row(given.application).await.unwrap().unwrap();
    assert_eq!(read.endpoints.len(), 6);
}

#[tokio::test]
async fn the_endpoints_of_an_application_have_so_many_bytes_together_and_no_more() {
    let given = Given::new().await;
    let third = usize::try_from(APPLICATION_CONFIG_BYTES_MAX).unwrap() / 3;
    let [first, second, small] = [large(&given, third), large(&given, third), large(&given, 1)];
    for made in [&first, &second, &small] {
        assert_eq!(given.store.create_endpoint(made.clone(), entry()).await.unwrap(), Created::Created);
    }
    let one_more = async || given.store.create_endpoint(large(&given, third), entry()).await.unwrap();
    assert_eq!(one_more().await, Created::ConfigTooLarge);
    // Nor by a change; what does not grow can be changed all the same.
    let grown = Endpoint { headers: large(&given, third).headers, updated_at: NOW + Duration::from_secs(1), ..small.clone() };
    let written = given.store.update_endpoint(grown, small.updated_at, entry()).await.unwrap();
    assert_eq!(written, EndpointUpdated::ConfigTooLarge);
    assert_eq!(found(&given, small.id).await, small, "nothing was written");
    change(&given, first.id, |endpoint| endpoint.max_concurrency += 1).await;
    // A refused one does not count, and what is deleted makes room.
    change(&given, second.id, |endpoint| endpoint.state = EndpointState::Deleted { at: NOW }).await;
    assert_eq!([one_more().await, one_more().await], [Created::Created, Created::ConfigTooLarge]);
    change(&given, first.id, |endpoint| endpoint.headers.clear()).await;
    assert_eq!(one_more().await, Created::Created);
}

#[tokio::test]
async fn limits_are_held_against_counts_that_follow_every_creation_and_deletion() {
    let given = Given::new().await;
    let read = given.store.organization(&Ref::Id(given.organization)).await.unwrap().unwrap();
    let limits = OrganizationLimits { endpoints: Some(2), applications: Some(1), ..read.limits };
    given.store.update_organization(read.clone(), Organization { limits, ..read }, entry()).await.unwrap();
    let second = given.another_endpoint().await;
    let one_more = async || given.store.create_endpoint(endpoint(given.organization, given.application), entry()).await.unwrap();
    assert_eq!(one_more().await, Created::TooMany);
    change(&given, second, |endpoint| endpoint.state = disabled()).await;
    assert_eq!(one_more().await, Created::TooMany, "a disabled one counts");
    change(&given, second, |endpoint| endpoint.state = EndpointState::Deleted { at: NOW }).await;
    assert_eq!([one_more().await, one_more().await], [Created::Created, Created::TooMany]);
    given.another_application().await;
    let application = super::given::application(given.organization);
    assert_eq!(given.store.create_application(application, entry()).await.unwrap(), Created::TooMany);
}

/// What can be told apart of a view, by what deliveries are made with.
async fn told(given: &Given, view: &ApplicationView, endpoints: &[EndpointId]) -> String {
    let types = ["order.paid", "order.line.added", "user.created", "other"].map(event_type);
    let matching = |name: &everhook_core::model::EventType| {
        let ids: Vec<_> = view.matching(name).iter().filter_map(|destination| Some(destination.endpoint()?.id)).collect();
        (ids, view.event_type(name).cloned())
    };
    let known: Vec<_> = endpoints
        .iter()
        .filter_map(|id| view.destination((*id).into()))
        .map(|destination| {
            let lane = everhook_core::model::LanePolicy { config_version: 0, ..(**destination.lane()).clone() };
            (destination.lane_id(), destination.state(), view.retry_schedule(&destination), lane)
        })
        .collect();
    assert_eq!(known.len(), view.endpoint_count());
    let full = given.store.application_row(given.application).await.unwrap().unwrap();
    assert_eq!(view.config_version, full.config_version);
    format!("{:?} {:?} {:?} {known:?}", view.application, view.limits, types.each_ref().map(matching))
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn patterns(numbers: &mut Numbers) -> Vec<EventTypePattern> {
    let all = ["*", "order.*", "order.line.*", "order.paid", "user.created"];
    (0..=numbers.below(3)).map(|_| EventTypePattern::parse(all[numbers.below(all.len())]).unwrap()).collect()
}

/// Makes some change of anything that a view shows.
async fn change_something(given: &Given, endpoints: &mut Vec<EndpointId>, schedule: &mut OrganizationSchedule, numbers: &mut Numbers) {
    let of = endpoints[numbers.below(endpoints.len())];
    let is_deleted = matches!(found(given, of).await.state, EndpointState::Deleted { .. });
    match numbers.below(9) {
        0 | 1 => {
            let follows = (numbers.below(2) == 0).then_some(schedule.id);
            let new = Endpoint { event_types: patterns(numbers), follows, ..endpoint(given.organization, given.application) };
            endpoints.push(new.id);
            assert_eq!(given.store.create_endpoint(new, entry()).await.unwrap(), Created::Created);
        }
        2 if !is_deleted => change(given, of, |endpoint| endpoint.state = disabled()).await,
        3 if !is_deleted => change(given, of, |endpoint| endpoint.state = EndpointState::Enabled).await,
        4 if !is_deleted => {
            let patterns = patterns(numbers);
            change(given, of, |endpoint| endpoint.event_types = patterns).await;
        }
        5 if !is_deleted => change(given, of, |endpoint| endpoint.state = EndpointState::Deleted { at: NOW }).await,
        6 => {
            let read_at = schedule.updated_at;
            schedule.policy.max_attempts += 1;
            schedule.version = given.store.schedule_version(&schedule.policy).await.unwrap();
            schedule.updated_at = read_at + Duration::from_secs(1);
            assert_eq!(given.store.update_retry_schedule(schedule.clone(), read_at, entry()).await.unwrap(), Updated::Updated);
        }
        7 => define_or_delete_type(given, numbers).await,
        _ => {
            let read = given.store.organization(&Ref::Id(given.organization)).await.unwrap().unwrap();
            let limits = OrganizationLimits { concurrency: Some(1 + numbers.below(3) as u32), ..read.limits };
            given.store.update_organization(read.clone(), Organization { limits, ..read }, entry()).await.unwrap();
        }
    }
}

async fn define_or_delete_type(given: &Given, numbers: &mut Numbers) {
    let name = event_type(["order.paid", "user.created"][numbers.below(2)]);
    let of = Ref::parse(name.as_str()).unwrap();
    if let Some(known) = given.store.event_type(given.organization, &of).await.unwrap() {
        assert!(given.store.delete_event_type(given.organization, known.id, entry()).await.unwrap());
        return;
    }
    let definition = EventTypeDefinition {
        id: EventTypeId::from_uuid(id()),
        organization: given.organization,
        name,
        description: None,
        schema: None,
        example: None,
        archived: false,
        created_at: NOW,
        updated_at: NOW,
    };
    assert_eq!(given.store.create_event_type(definition, 10, entry()).await.unwrap(), Created::Created);
}

#[tokio::test]
async fn after_any_sequence_of_changes_a_catalog_that_read_only_them_equals_one_that_read_everything() {
    for seed in 0..8 {
        let given = Given::new().await;
        let (patched, mut numbers) = (catalog(&given), Numbers(seed));
        let mut schedule = directory_changes::schedule(&given, "mine").await;
        given.store.create_retry_schedule(schedule.clone(), 10, entry()).await.unwrap();
        let mut endpoints = vec![given.endpoint];
        for step in 0..40 {
            for _ in 0..=numbers.below(3) {
                change_something(&given, &mut endpoints, &mut schedule, &mut numbers).await;
            }
            patched.forget(given.application);
            let view = patched.application(given.application).await.unwrap().unwrap();
            let anew = catalog(&given).application(given.application).await.unwrap().unwrap();
            let (left, right) = (told(&given, &view, &endpoints).await, told(&given, &anew, &endpoints).await);
            assert_eq!(left, right, "seed {seed}, step {step}");
        }
    }
}

#[tokio::test]
async fn a_reader_keeps_the_view_that_it_began_with() {
    let given = Given::new().await;
    let catalog = catalog(&given);
    let before = catalog.application(given.application).await.unwrap().unwrap();
    change(&given, given.endpoint, |endpoint| endpoint.state = EndpointState::Deleted { at: NOW }).await;
    let new = given.another_endpoint().await;
    catalog.forget(given.application);
    let now = catalog.application(given.application).await.unwrap().unwrap();
    let ids = |view: &ApplicationView| {
        view.matching(&event_type("order.paid")).iter().filter_map(|found| Some(found.endpoint()?.id)).collect::<Vec<_>>()
    };
    assert_eq!((ids(&before), ids(&now)), (vec![given.endpoint], vec![new]));
    assert!(before.destination(new.into()).is_none() && now.destination(given.endpoint.into()).is_none());
}

/// How many events each publisher of the race below has accepted.
const RACING_EVENTS: u64 = 60;
/// Between two changes of one who makes them, so that events get through between them, as the rate of changes sees to at a server.
const BETWEEN_CHANGES: Duration = Duration::from_millis(15);

/// Whether an endpoint got events, between two moments of the test's own clock.
#[derive(Clone, Copy, Debug)]
struct Span {
    endpoint: EndpointId,
    /// Certainly from the second moment to the third, certainly not before the first or after the last.
    created: (u64, u64),
    ended: (u64, u64),
}

/// A publisher's event: the moments before and after it, and whom it went to.
struct Sent {
    from: u64,
    to: u64,
    endpoints: Vec<EndpointId>,
}

/// Publishes with a catalog as the line does: what the store refuses is matched again.
async fn publish(given: &Given, catalog: &Catalog, clock: &AtomicU64) -> Sent {
    let from = clock.fetch_add(1, Ordering::SeqCst);
    let mut new = given.event(&[]).await;
    loop {
        let view = catalog.application(given.application).await.unwrap().unwrap();
        let endpoints: Vec<_> = view.matching(&event_type("user.created")).iter().filter_map(|found| Some(found.endpoint()?.id)).collect();
        let delivery = |endpoint: &EndpointId| NewDelivery {
            id: DeliveryId::from_uuid(id()),
            lane_id: (*endpoint).into(),
            retry_schedule: ScheduleVersion(7),
            placement: Placement::default(),
        };
        (new.config_version, new.deliveries) = (view.config_version, endpoints.iter().map(delivery).collect());
        match given.record_all(vec![new.clone()]).await[..] {
            [Recorded::Accepted { .. }] => return Sent { from, to: clock.fetch_add(1, Ordering::SeqCst), endpoints },
            [Recorded::ConfigChanged] => catalog.forget(given.application),
            ref other => panic!("{other:?}"),
        }
    }
}

/// Creates an endpoint, and disables or deletes it a little later.
async fn come_and_go(given: &Given, catalog: &Catalog, clock: &AtomicU64, state: EndpointState) -> Span {
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let from = tick();
    let endpoint = given.another_endpoint().await;
    catalog.forget(given.application);
    let created = (from, tick());
    tokio::time::sleep(BETWEEN_CHANGES).await;
    let from = tick();
    change(given, endpoint, |endpoint| endpoint.state = state).await;
    catalog.forget(given.application);
    let ended = (from, tick());
    tokio::time::sleep(BETWEEN_CHANGES).await;
    Span { endpoint, created, ended }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_event_misses_an_endpoint_that_was_there_before_it_and_none_goes_to_one_that_was_gone_before() {
    let given = Arc::new(Given::new().await);
    let (clock, is_over) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
    // Two nodes: the changes are made at the first, and the second hears of none.
    let catalogs = [Arc::new(catalog(&given)), Arc::new(catalog(&given))];
    let changers = [EndpointState::Deleted { at: after(1) }, disabled()].map(|state| {
        let (given, catalog, clock, is_over) = (given.clone(), catalogs[0].clone(), clock.clone(), is_over.clone());
        tokio::spawn(async move {
            let mut spans = Vec::new();
            while !is_over.load(Ordering::SeqCst) {
                spans.push(come_and_go(&given, &catalog, &clock, state).await);
            }
            spans
        })
    });
    let publishers = catalogs.map(|catalog| {
        let (given, clock) = (given.clone(), clock.clone());
        tokio::spawn(async move {
            let mut sent = Vec::new();
            for _ in 0..RACING_EVENTS {
                sent.push(publish(&given, &catalog, &clock).await);
            }
            sent
        })
    });
    let sent: Vec<_> = join_all(publishers).await.into_iter().flat_map(Result::unwrap).collect();
    is_over.store(true, Ordering::SeqCst);
    let spans: Vec<_> = join_all(changers).await.into_iter().flat_map(Result::unwrap).collect();
    assert!(spans.len() > 4, "{} changes raced", spans.len());
    for event in &sent {
        for span in &spans {
            let got = event.endpoints.contains(&span.endpoint);
            let is_there = span.created.1 < event.from && event.to < span.ended.0;
            let is_not_there = event.to < span.created.0 || span.ended.1 < event.from;
            assert!(got || !is_there, "an event missed {span:?}");
            assert!(!got || !is_not_there, "an event went to {span:?}");
        }
    }
}

#[tokio::test]
async fn what_an_organization_defines_is_read_with_the_version_that_it_was_read_at() {
    let given = Given::new().await;
    let before = given.store.definitions(given.organization).await.unwrap();
    assert!(before.event_types.is_empty() && before.schedules.is_empty());
    define_or_delete_type(&given, &mut Numbers(0)).await;
    let schedule = directory_changes::schedule(&given, "mine").await;
    given.store.create_retry_schedule(schedule.clone(), 10, entry()).await.unwrap();
    let after = given.store.definitions(given.organization).await.unwrap();
    assert!(after.version > before.version, "{} and {}", after.version, before.version);
    assert_eq!((after.event_types.len(), after.schedules.len()), (1, 1));
    assert_eq!(after.schedules[0].0, schedule.id);
}
