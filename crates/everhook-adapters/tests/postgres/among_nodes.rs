//! Two nodes that change the same configuration at the same time.

use std::sync::Arc;

use everhook_adapters::postgres::PostgresStore;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, EndpointId, Ref, ScheduleId, Uid},
    model::{ApiKey, ApiKeyHash, Cursor, Endpoint, OrderingMode, Organization, OrganizationSchedule, PageRequest, Scope, Scopes, Source},
    policy::presets,
    ports::{
        ApiKeyStore, ApplicationStore, Change, Changes, Created, Deleted, EndpointFilter, EndpointStore, EndpointUpdated,
        OrganizationStore, RetryScheduleStore, ScheduleDeleted, Updated,
    },
};
use tokio_postgres::NoTls;

use crate::postgres::{
    conformance::sources::source,
    given::{Given, NOW, after, application, deletion, endpoint, entry, id, organization},
};

/// How many changes each node makes at once.
const CHANGES: usize = 10;

/// Has two nodes make changes at once, half of them each, and returns the answers.
async fn on_two_nodes<A, F>(given: &Given, change: impl Fn(Arc<PostgresStore>, usize) -> F) -> Vec<A>
where
    F: Future<Output = A> + Send + 'static,
    A: Send + 'static,
{
    let nodes = [Arc::new(given.backing.node().await), Arc::new(given.backing.node().await)];
    let begun: Vec<_> = (0..2 * CHANGES).map(|n| tokio::spawn(change(Arc::clone(&nodes[n % 2]), n))).collect();
    let mut answers = Vec::new();
    for task in begun {
        answers.push(task.await.unwrap());
    }
    answers
}

fn count<A: PartialEq>(answers: &[A], answer: A) -> usize {
    answers.iter().filter(|found| **found == answer).count()
}

async fn current(given: &Given, of: EndpointId) -> Endpoint {
    given.store.endpoint(given.organization, &Ref::Id(of)).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_among_nodes() {
    let given = Given::new().await;
    let read = given.store.organization(&Ref::Id(given.organization)).await.unwrap().unwrap();
    let mut limited = read.clone();
    (limited.limits.endpoints, limited.limits.applications) = (Some(4), Some(3));
    assert_eq!(given.store.update_organization(read, limited, entry()).await.unwrap(), Updated::Updated);
    let (of, application_id) = (given.organization, given.application);
    // One endpoint is there already; built-in applications do not count.
    let made = on_two_nodes(&given, move |node, _| async move { node.create_endpoint(endpoint(of, application_id), entry()).await }).await;
    let made: Vec<Created> = made.into_iter().map(Result::unwrap).collect();
    assert_eq!((count(&made, Created::Created), count(&made, Created::TooMany)), (3, 2 * CHANGES - 3));
    let made = on_two_nodes(&given, move |node, _| async move { node.create_application(application(of), entry()).await.unwrap() }).await;
    assert_eq!((count(&made, Created::Created), count(&made, Created::TooMany)), (3, 2 * CHANGES - 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_uid_is_given_once_among_nodes_also_by_changes() {
    let given = Given::new().await;
    let uid = Uid::parse("acme").unwrap();
    let wanted = uid.clone();
    let answers = on_two_nodes(&given, move |node, _| {
        let uid = wanted.clone();
        async move {
            let new = organization();
            let read = new.organization.clone();
            assert_eq!(node.create_organization(new, entry()).await.unwrap(), Created::Created);
            let named = Organization { uid: Some(uid), ..read.clone() };
            node.update_organization(read, named, entry()).await.unwrap()
        }
    })
    .await;
    assert_eq!((count(&answers, Updated::Updated), count(&answers, Updated::UidTaken)), (1, 2 * CHANGES - 1));
    let (of, application) = (given.organization, given.application);
    let answers = on_two_nodes(&given, move |node, _| {
        let new = Endpoint { uid: Some(uid.clone()), ..endpoint(of, application) };
        async move { node.create_endpoint(new, entry()).await.unwrap() }
    })
    .await;
    assert_eq!((count(&answers, Created::Created), count(&answers, Created::UidTaken)), (1, 2 * CHANGES - 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_changes_to_one_reading_of_an_endpoint_one_is_made_and_every_change_is_a_version() {
    let given = Given::new().await;
    let read = current(&given, given.endpoint).await;
    let version = given.config_version().await;
    let answers = on_two_nodes(&given, move |node, n| {
        let changed = Endpoint { updated_at: after(1 + n as u64), ..read.clone() };
        async move { node.update_endpoint(changed, NOW, entry()).await.unwrap() }
    })
    .await;
    assert_eq!((count(&answers, EndpointUpdated::Updated), count(&answers, EndpointUpdated::Changed)), (1, 2 * CHANGES - 1));
    assert_eq!(given.config_version().await, version + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_many_applications_at_once_wait_for_each_other_and_never_in_a_circle() {
    let given = Given::new().await;
    let mut applications = vec![given.application];
    for _ in 0..5 {
        let application = application(given.organization);
        applications.push(application.id);
        given.store.create_application(application, entry()).await.unwrap();
    }
    let (of, all) = (given.organization, applications.clone());
    let answers = on_two_nodes(&given, move |node, n| {
        let application = all[n % all.len()];
        async move {
            match n % 3 {
                0 => {
                    let organization = node.organization(&Ref::Id(of)).await.unwrap().unwrap();
                    node.update_organization(organization.clone(), organization, entry()).await.unwrap() == Updated::Updated
                }
                _ => node.create_endpoint(endpoint(of, application), entry()).await.unwrap() == Created::Created,
            }
        }
    })
    .await;
    assert_eq!(count(&answers, true), 2 * CHANGES);
    // Each change of the organization is a version of every application, each endpoint one of its own.
    let of_organization = (0..2 * CHANGES).filter(|n| n % 3 == 0).count();
    for (place, application) in applications.iter().enumerate() {
        let own = (0..2 * CHANGES).filter(|n| n % 3 != 0 && n % applications.len() == place).count();
        let born = if *application == given.application { 1 } else { 0 };
        assert_eq!(version(&given, *application).await, (1 + born + of_organization + own) as i64);
    }
}

async fn version(given: &Given, application: ApplicationId) -> i64 {
    given.store.application_row(application).await.unwrap().unwrap().config_version
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_schedules_share_one_version_whichever_node_makes_it_first() {
    let given = Given::new().await;
    let versions = on_two_nodes(&given, |node, _| async move { node.schedule_version(&presets::standard()).await.unwrap() }).await;
    assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_endpoint_follows_a_schedule_that_another_node_deletes() {
    let given = Given::new().await;
    let policy = presets::standard();
    let version = given.store.schedule_version(&policy).await.unwrap();
    let (of, application) = (given.organization, given.application);
    let schedule_id = ScheduleId::from_uuid(id());
    let schedule = OrganizationSchedule { id: schedule_id, organization: of, policy, version, created_at: NOW, updated_at: NOW };
    given.store.create_retry_schedule(schedule, 1, entry()).await.unwrap();
    let answers = on_two_nodes(&given, move |node, n| async move {
        if n == CHANGES {
            return Err(node.delete_retry_schedule(of, schedule_id, entry()).await.unwrap());
        }
        let follower = Endpoint { follows: Some(schedule_id), ..endpoint(of, application) };
        Ok(node.create_endpoint(follower, entry()).await.unwrap())
    })
    .await;
    let following = count(&answers, Ok(Created::Created));
    match answers[CHANGES] {
        Err(ScheduleDeleted::Deleted) => assert_eq!(following, 0),
        Err(ScheduleDeleted::InUse(_)) => assert_eq!(following, 2 * CHANGES - 1),
        ref other => panic!("the schedule was there: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_one_node_deletes_has_no_endpoint_left_and_the_others_hear_of_it() {
    let given = Given::new().await;
    let (of, shop) = (given.organization, given.another_application().await);
    let node = given.backing.node().await;
    let seen = node.newest().await.unwrap();
    let answers = on_two_nodes(&given, move |node, n| async move {
        if n == CHANGES {
            return Err(node.delete_application(of, shop, deletion()).await.unwrap());
        }
        Ok(node.create_endpoint(endpoint(of, shop), entry()).await.unwrap())
    })
    .await;
    assert_eq!(answers[CHANGES], Err(Deleted::Deleted(Vec::new())));
    assert!(answers.iter().flatten().all(|made| [Created::Created, Created::NoSuchApplication].contains(made)), "{answers:?}");
    while given.store.delete_contents(after(1), 2).await.unwrap().has_more {}
    let page = PageRequest { limit: 250, cursor: Cursor::Newest };
    let left = given.store.endpoints(of, EndpointFilter::default(), page).await.unwrap().rows;
    assert_eq!(left.iter().map(|endpoint| endpoint.id).collect::<Vec<_>>(), [given.endpoint]);
    assert!(node.changes(seen).await.unwrap().changes.contains(&Change::Application(shop)));
}

#[tokio::test]
async fn a_source_that_one_node_makes_changes_or_deletes_is_heard_of_by_the_others() {
    let given = Given::new().await;
    let (of, shop) = (given.organization, given.another_application().await);
    let node = given.backing.node().await;
    let heard = async |seen, id| node.changes(seen).await.unwrap().changes.contains(&Change::Source(id));
    let (made, other) = (source(of, shop, "made"), source(of, shop, "other"));
    for (step, source) in [("made", &made), ("made", &other)] {
        let seen = node.newest().await.unwrap();
        given.store.create_source(source.clone(), 10, entry()).await.unwrap();
        assert!(heard(seen, source.id).await, "{step}");
    }
    let seen = node.newest().await.unwrap();
    given.store.update_source(Source { updated_at: after(1), ..made.clone() }, NOW, entry()).await.unwrap();
    assert!(heard(seen, made.id).await, "changed");
    let seen = node.newest().await.unwrap();
    given.store.delete_source(of, made.id, entry()).await.unwrap();
    assert!(heard(seen, made.id).await, "deleted");
    let seen = node.newest().await.unwrap();
    given.store.delete_application(of, shop, deletion()).await.unwrap();
    assert!(heard(seen, other.id).await, "deleted with its application");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_of_a_key_is_the_latest_that_any_node_tells() {
    let given = Given::new().await;
    let of = given.organization;
    let mut keys = Vec::new();
    for n in 0..3_u8 {
        let key = ApiKey {
            id: ApiKeyId::from_uuid(id()),
            organization: of,
            application: None,
            name: "key".to_owned(),
            prefix: "eh_ab12".to_owned(),
            scopes: Scopes::from_iter([Scope::Publish]),
            created_at: NOW,
            expires_at: None,
            last_used_at: None,
        };
        keys.push(key.id);
        given.store.create_api_key(key, ApiKeyHash([n; 32]), 100, entry()).await.unwrap();
    }
    let told = keys.clone();
    on_two_nodes(&given, move |node, n| {
        // In either order, and one of them twice.
        let mut uses: Vec<_> = told.iter().map(|key| (*key, after(n as u64))).collect();
        uses.push((told[0], NOW));
        if n % 2 == 0 {
            uses.reverse();
        }
        async move { node.note_key_uses(uses).await.unwrap() }
    })
    .await;
    for key in keys {
        let found = given.store.api_key_by_id(of, key).await.unwrap().unwrap();
        assert_eq!(found.last_used_at, Some(after(2 * CHANGES as u64 - 1)));
    }
}

#[tokio::test]
async fn an_order_that_is_changed_while_something_is_open_raises_a_barrier() {
    let given = Given::new().await;
    let strict = |read: &Endpoint, at| {
        let mut changed = Endpoint { updated_at: at, ..read.clone() };
        changed.ordering.mode = OrderingMode::Strict;
        changed
    };
    let read = current(&given, given.endpoint).await;
    let other = endpoint(given.organization, given.application);
    given.store.create_endpoint(other.clone(), entry()).await.unwrap();
    given
        .tamper(&format!(
            "INSERT INTO open_deliveries (lane, id, event_id, priority, stage, attempts, retry_schedule, due_at, created_at)
             SELECT lane, '{}', '{}', 1, 0, 0, 7, 0, 0 FROM endpoints WHERE id = '{}';
             UPDATE application_counters SET next_sequence = 42 WHERE application_id = '{}'",
            id(),
            id(),
            given.endpoint.as_uuid(),
            given.application.as_uuid()
        ))
        .await;
    // A change of an older row is refused for that.
    let outdated = given.store.update_endpoint(strict(&read, after(1)), after(9), entry()).await.unwrap();
    assert_eq!(outdated, EndpointUpdated::Changed);
    assert_eq!(given.store.update_endpoint(strict(&read, after(1)), NOW, entry()).await.unwrap(), EndpointUpdated::Updated);
    let changed = current(&given, given.endpoint).await;
    assert_eq!((changed.ordering.mode, changed.ordering.barrier), (OrderingMode::Strict, Some(42)));
    // It settles: no other mode yet, but any other change.
    let mut again = Endpoint { updated_at: after(2), ..changed.clone() };
    assert_eq!(given.store.update_endpoint(again.clone(), after(1), entry()).await.unwrap(), EndpointUpdated::Updated);
    (again.ordering.mode, again.updated_at) = (OrderingMode::None, after(3));
    assert_eq!(given.store.update_endpoint(again, after(2), entry()).await.unwrap(), EndpointUpdated::OrderSettles);
    // With nothing open there is nothing to wait for.
    assert_eq!(given.store.update_endpoint(strict(&other, after(1)), NOW, entry()).await.unwrap(), EndpointUpdated::Updated);
    assert_eq!(current(&given, other.id).await.ordering.barrier, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_rolled_back_because_of_a_deadlock_is_made_again() {
    let given = Given::new().await;
    let node = Arc::new(given.backing.node().await);
    // Given a session that keeps what a change needs last,
    let (session, connection) = tokio_postgres::connect(&given.backing.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    session.batch_execute("BEGIN; SET LOCAL deadlock_timeout = '1min'").await.unwrap();
    session
        .execute("SELECT 1 FROM application_counters WHERE application_id = $1 FOR UPDATE", &[given.application.as_uuid()])
        .await
        .unwrap();
    let (organization, application) = (given.organization, given.application);
    let change = tokio::spawn(async move { node.create_endpoint(endpoint(organization, application), entry()).await });
    // and asks for what it took first, once it waits.
    let waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while session.query(waits, &[]).await.unwrap().is_empty() {
        // A transaction is shown the sessions as they were when it first looked, unless it forgets that.
        session.execute("SELECT pg_stat_clear_snapshot()", &[]).await.unwrap();
        tokio::task::yield_now().await;
    }
    session.execute("SELECT 1 FROM organizations WHERE id = $1 FOR UPDATE", &[organization.as_uuid()]).await.unwrap();
    // Then the change gives way, and is made when the session has ended.
    session.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(change.await.unwrap().unwrap(), Created::Created);
}
