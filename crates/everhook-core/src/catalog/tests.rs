//! What the catalog keeps, and how current it holds it for. That a view brought up to date equals one that was read anew is tested on both stores.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    ApplicationView,
    applications::{APPLICATIONS_MAX, Applications, RECENT_CHANGES_MAX, Stale},
    view::{Endpoints, SharedDefinitions},
};
use crate::{
    ids::{ApplicationId, OrganizationId},
    model::{Application, ApplicationKind, OrganizationLimits, PoolAssignment, Profile},
    ports::{ConfigPage, ConfigVersion},
    time::Timestamp,
};

fn view(application: u128, organization: u128) -> Arc<ApplicationView> {
    let page = ConfigPage {
        application: Application {
            id: ApplicationId::from_uuid(Uuid::from_u128(application)),
            organization: OrganizationId::from_uuid(Uuid::from_u128(organization)),
            uid: None,
            name: "shop".to_owned(),
            kind: ApplicationKind::Custom,
            strict_event_types: false,
            created_at: Timestamp::from_secs(1),
        },
        version: ConfigVersion { application: 1, organization: 0 },
        limits: OrganizationLimits::default(),
        post: PoolAssignment::only(),
        endpoints: Vec::new(),
        next: None,
    };
    Arc::new(ApplicationView::new(page, Endpoints::default(), Arc::new(SharedDefinitions::default()), Profile::plain()))
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
        let mut applications = Applications::default();
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
    let mut applications = Applications::default();
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
    let mut applications = Applications::default();
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
        let mut applications = Applications::default();
        all.iter().for_each(|view| applications.keep(view, 0));
        applications.note(stale);
        all.iter().filter(|view| applications.current(view.application.id).is_some()).count()
    };
    let first = &all[0].application;
    assert_eq!([Stale::Application(first.id), Stale::Organization(first.organization), Stale::All].map(left), [2, 1, 0]);
}
