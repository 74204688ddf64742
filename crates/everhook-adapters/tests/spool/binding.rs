//! Which database a spool is of, and what could not be forwarded to it.

use everhook_adapters::spool::{BindError, Takeover};
use everhook_core::{
    ids::{Ref, Uid},
    ports::{IncomingEvent, KnownPublisher, PublisherCache, Spool, Taken},
};

use super::*;

/// A spool that knows an organization of the database.
async fn bound_to(folder: &TempDir, database: Uuid) -> SqliteSpool {
    let spool = open(folder);
    spool.bind(database, Takeover::IfEmpty).await.unwrap();
    let organization = OrganizationId::from_uuid(id());
    spool.remember(KnownPublisher::Organization { id: organization, uid: Some(Uid::parse("acme").unwrap()) }).await.unwrap();
    spool
}

fn knows_acme(spool: &SqliteSpool) -> bool {
    spool.organization(&Ref::Uid(Uid::parse("acme").unwrap())).is_some()
}

async fn set_all_aside(spool: &SqliteSpool) {
    for spooled in spool.oldest(spool.applications(), 100).await.unwrap() {
        spool.set_aside(spooled.position, "its application does not exist in the store".to_owned(), NOW).await.unwrap();
    }
}

async fn keys(spool: &SqliteSpool) -> Vec<String> {
    let waiting = spool.oldest(spool.applications(), 500).await.unwrap();
    waiting.into_iter().map(|spooled| spooled.incoming.event.idempotency_key).collect()
}

#[tokio::test]
async fn a_spool_with_events_is_refused_by_another_database_and_waits_for_its_own() {
    for set_aside in [false, true] {
        let (folder, [own, other]) = (tempfile::tempdir().unwrap(), [id(), id()]);
        let spool = bound_to(&folder, own).await;
        spool.take(vec![event("one"), event("two")]).await.unwrap();
        if set_aside {
            set_all_aside(&spool).await;
        }
        for takeover in [Takeover::IfEmpty, Takeover::Never] {
            let refused = spool.bind(other, takeover).await.unwrap_err();
            let told = refused.to_string();
            assert!(matches!(refused, BindError::OtherDatabase { bound, found, events: 2 } if bound == own && found == other), "{told}");
            assert!(told.contains("this spool belongs to another database") && told.contains("--spool"), "{told}");
        }
        drop(spool);
        // Nothing of it has changed.
        let spool = open(&folder);
        assert!(spool.bind(other, Takeover::IfEmpty).await.is_err());
        spool.bind(own, Takeover::Never).await.unwrap();
        assert!(knows_acme(&spool));
        assert_eq!(keys(&spool).await, ["one", "two"]);
    }
}

#[tokio::test]
async fn an_empty_spool_is_taken_over_and_knows_nobody_then() {
    let (folder, [own, other]) = (tempfile::tempdir().unwrap(), [id(), id()]);
    let spool = bound_to(&folder, own).await;
    spool.take(vec![event("one")]).await.unwrap();
    let position = spool.oldest(spool.applications(), 1).await.unwrap()[0].position;
    spool.forwarded(vec![position]).await.unwrap();
    // Not while somebody may have been admitted by what it knows.
    assert!(matches!(spool.bind(other, Takeover::Never).await, Err(BindError::OtherDatabase { events: 0, .. })));
    assert!(knows_acme(&spool));
    spool.bind(other, Takeover::IfEmpty).await.unwrap();
    assert!(!knows_acme(&spool));
    drop(spool);
    let spool = open(&folder);
    assert!(!knows_acme(&spool));
    spool.bind(other, Takeover::Never).await.unwrap();
    assert!(spool.bind(own, Takeover::Never).await.is_err());
}

#[tokio::test]
async fn what_could_not_be_forwarded_is_tried_again_at_the_next_start_behind_what_waits() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    // More than are put back in one commit.
    let events: Vec<IncomingEvent> = (0..150).map(|n| event(&format!("old-{n}"))).collect();
    spool.take(events).await.unwrap();
    set_all_aside(&spool).await;
    set_all_aside(&spool).await;
    spool.take(vec![event("new")]).await.unwrap();
    let bytes = spool.status().bytes;
    drop(spool);
    let spool = open(&folder);
    assert_eq!((spool.status().events, spool.status().bytes), (151, bytes));
    let expected: Vec<String> = std::iter::once("new".to_owned()).chain((0..150).map(|n| format!("old-{n}"))).collect();
    assert_eq!(keys(&spool).await, expected);
    let positions = spool.oldest(spool.applications(), 500).await.unwrap().into_iter().map(|spooled| spooled.position).collect();
    spool.forwarded(positions).await.unwrap();
    assert_eq!((spool.status().events, spool.status().bytes), (0, 0));
}

#[tokio::test]
async fn one_whose_key_waits_again_is_tried_once_that_one_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let (first, second) = (event("order-1"), event("order-1"));
    let ids = [first.event.id, second.event.id];
    spool.take(vec![first]).await.unwrap();
    set_all_aside(&spool).await;
    assert_eq!(spool.take(vec![second]).await.unwrap(), [Taken::Taken]);
    drop(spool);
    for id in [ids[1], ids[0]] {
        let spool = open(&folder);
        let waiting = spool.oldest(spool.applications(), 100).await.unwrap();
        assert_eq!(waiting.iter().map(|spooled| spooled.incoming.event.id).collect::<Vec<_>>(), [id]);
        spool.forwarded(vec![waiting[0].position]).await.unwrap();
    }
    assert_eq!(open(&folder).status().bytes, 0);
}
