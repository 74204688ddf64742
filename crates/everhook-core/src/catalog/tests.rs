//! What the catalog keeps, and how current it holds it for. That a view brought up to date equals one that was read anew is tested on both stores.

use std::{collections::BTreeMap, sync::Arc};

use url::Url;
use uuid::Uuid;

use super::{
    ApplicationView, CATALOG_BYTES,
    applications::{APPLICATIONS_MAX, Applications, RECENT_CHANGES_MAX, Stale},
    view::{Endpoints, SharedDefinitions},
};
use crate::{
    ids::{ApplicationId, EndpointId, OrganizationId, RevisionNumber, ScheduleVersion, Uid},
    model::{
        Application, ApplicationKind, BreakerConfig, Endpoint, EndpointState, EventTypePattern, Ordering, OrganizationLimits, PayloadStyle,
        PoolAssignment, Profile, SealedSecret, SealedSecrets, SignatureStyle, Target,
    },
    ports::{ConfigPage, ConfigVersion},
    time::Timestamp,
};

fn view(application: u128, organization: u128) -> Arc<ApplicationView> {
    let endpoints = Endpoints::default();
    Arc::new(ApplicationView::new(page(application, organization), endpoints, Arc::new(SharedDefinitions::default()), Profile::plain()))
}

fn page(application: u128, organization: u128) -> ConfigPage {
    ConfigPage {
        application: Application {
            id: ApplicationId::from_uuid(Uuid::from_u128(application)),
            organization: OrganizationId::from_uuid(Uuid::from_u128(organization)),
            uid: None,
            name: "shop".to_owned(),
            kind: ApplicationKind::Custom,
            strict_event_types: false,
            owner_email: None,
            base_url: None,
            health_path: None,
            created_at: Timestamp::from_secs(1),
        },
        version: ConfigVersion { application: 1, organization: 0 },
        limits: OrganizationLimits::default(),
        pool: PoolAssignment::only(),
        endpoints: Vec::new(),
        next: None,
    }
}

/// An application with so many endpoints that have so many bytes of headers each.
async fn large_view(application: u128, organization: u128, endpoints: u128, header_bytes: usize) -> Arc<ApplicationView> {
    let mut page = page(application, organization);
    page.endpoints = (0..endpoints).map(|n| endpoint(&page.application, (application << 64) + n, header_bytes)).collect();
    let mut known = Endpoints::default();
    known.apply(&mut page, Profile::plain()).await.unwrap();
    Arc::new(ApplicationView::new(page, known, Arc::new(SharedDefinitions::default()), Profile::plain()))
}

/// An endpoint as most are, with so many bytes of headers.
fn endpoint(of: &Application, id: u128, header_bytes: usize) -> Endpoint {
    let url = Url::parse("https://example.com/webhooks/everhook").unwrap();
    let header = |_| ("x-padding".to_owned(), "p".repeat(1_024));
    Endpoint {
        id: EndpointId::from_uuid(Uuid::from_u128(id)),
        organization: of.organization,
        application: of.id,
        uid: Uid::parse("customer-12345"),
        name: None,
        description: None,
        target: Target { written: url.to_string(), url },
        verify_url: false,
        event_types: ["order.paid", "order.shipped"].into_iter().filter_map(EventTypePattern::parse).collect(),
        labels: BTreeMap::new(),
        filter: None,
        secrets: SealedSecrets { current: SealedSecret(vec![1; 80]), previous: None },
        signature_style: SignatureStyle::default(),
        payload_style: PayloadStyle::default(),
        headers: (0..header_bytes / 1_024).map(header).collect(),
        revision: RevisionNumber::FIRST,
        metadata: None,
        retry_schedule: ScheduleVersion(1),
        follows: None,
        timeout: None,
        timeout_growth_factor: 1.0,
        max_concurrency: 10,
        ordering: Ordering::default(),
        rate_limit: None,
        breaker: BreakerConfig::window(),
        drain: None,
        paused_at: None,
        state: EndpointState::Enabled,
        created_at: Timestamp::from_secs(1),
        updated_at: Timestamp::from_secs(1),
    }
}

#[test]
fn what_was_read_before_a_change_that_concerns_it_is_not_current_after_it() {
    let read = view(1, 7);
    let (mine, other) = (read.application.id, view(2, 8).application.id);
    let (my_organization, other_organization) = (read.application.organization, view(2, 8).application.organization);
    let table = [
        (vec![], true),
        (vec![Stale::Application(other), Stale::Organization(other_organization)], true),
        (vec![Stale::Application(mine)], false),
        (vec![Stale::Organization(my_organization), Stale::Application(other)], false),
        (vec![Stale::All], false),
        // More than is remembered: one of them may have concerned it.
        (vec![Stale::Application(other); RECENT_CHANGES_MAX + 1], false),
    ];
    for (meanwhile, is_current) in table {
        let mut applications = Applications::within(CATALOG_BYTES);
        applications.note(Stale::All);
        let before = applications.read_from(mine).changes;
        let count = meanwhile.len();
        meanwhile.into_iter().for_each(|stale| applications.note(stale));
        applications.keep(&read, before);
        assert_eq!(applications.current(mine).is_some(), is_current, "after {count} changes");
    }
}

#[test]
fn what_is_not_current_is_kept_to_be_brought_up_to_date() {
    let read = view(1, 7);
    let mine = read.application.id;
    let mut applications = Applications::within(CATALOG_BYTES);
    applications.keep(&read, 0);
    applications.note(Stale::Application(mine));
    let from = applications.read_from(mine);
    assert!(applications.current(mine).is_none() && from.base.is_some_and(|base| Arc::ptr_eq(&base, &read)));
    // A change during the read that brings it up to date has it read once more.
    applications.note(Stale::Application(mine));
    applications.keep(&read, from.changes);
    assert!(applications.current(mine).is_none() && applications.read_from(mine).base.is_some());
    // Where nobody can say what changed, nothing is built upon.
    applications.note(Stale::All);
    assert!(applications.read_from(mine).base.is_none());
}

#[test]
fn an_organization_with_much_pushes_out_its_own_and_nobody_elses() {
    let mut applications = Applications::within(CATALOG_BYTES);
    applications.keep(&view(1, 1), 0);
    for n in 0..APPLICATIONS_MAX as u128 {
        applications.keep(&view(1_000 + n, 7), 0);
    }
    assert!(applications.current(view(1, 1).application.id).is_some());
    assert!(applications.len() <= APPLICATIONS_MAX);
}

#[test]
fn a_change_concerns_what_it_names_and_nothing_else() {
    let all = [view(1, 7), view(2, 7), view(3, 8)];
    let left = |stale: Stale| {
        let mut applications = Applications::within(CATALOG_BYTES);
        all.iter().for_each(|view| applications.keep(view, 0));
        applications.note(stale);
        all.iter().filter(|view| applications.current(view.application.id).is_some()).count()
    };
    let first = &all[0].application;
    assert_eq!([Stale::Application(first.id), Stale::Organization(first.organization), Stale::All].map(left), [2, 1, 0]);
}

#[tokio::test]
async fn an_ordinary_endpoint_takes_a_kilobyte_or_so_and_headers_what_they_have() {
    let bytes = |endpoints: u128, header_bytes: usize| async move {
        let (one, more) = (large_view(1, 1, 1, header_bytes).await, large_view(1, 1, 1 + endpoints, header_bytes).await);
        (more.bytes() - one.bytes()) / endpoints as usize
    };
    let (ordinary, with_headers) = (bytes(100, 0).await, bytes(100, 16 * 1_024).await);
    assert!((800..1_500).contains(&ordinary), "{ordinary}");
    assert!((16_384..20_000).contains(&(with_headers - ordinary)), "{with_headers}");
}

#[tokio::test]
async fn what_takes_too_many_bytes_pushes_out_its_own_organizations_and_nobody_elses() {
    let small = large_view(1, 1, 10, 0).await;
    let large: Vec<_> = [2, 3, 4, 5].map(|application| large_view(application, 7, 50, 16 * 1_024)).into();
    let large = futures_util::future::join_all(large).await;
    let mut applications = Applications::within(3 * large[0].bytes());
    applications.keep(&small, 0);
    for view in &large {
        applications.keep(view, 0);
        assert!(applications.bytes() <= 3 * large[0].bytes());
        assert!(applications.current(view.application.id).is_some(), "what was read last is kept");
    }
    assert!(applications.current(small.application.id).is_some());
    // A change of one endpoint of a large application is kept in its place.
    let last = large.last().unwrap();
    let (before, kept) = (applications.bytes(), applications.len());
    applications.keep(last, 0);
    assert_eq!((applications.bytes(), applications.len()), (before, kept));
}

#[tokio::test]
async fn room_is_made_while_an_application_is_read() {
    let (small, large) = (large_view(1, 1, 10, 0).await, large_view(2, 7, 50, 16 * 1_024).await);
    let max = 2 * large.bytes();
    let mut applications = Applications::within(max);
    applications.keep(&small, 0);
    applications.keep(&large, 0);
    applications.count_growth(large.application.organization, 0, large.bytes());
    assert!(applications.bytes() + large.bytes() <= max, "the organization's own went");
    assert!(applications.current(small.application.id).is_some() && applications.current(large.application.id).is_none());
    applications.end_growth(large.bytes());
    applications.keep(&large, 0);
    assert!(applications.current(large.application.id).is_some());
}
