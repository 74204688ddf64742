//! Sources as the door sees them: opened once, current after every change, and served while the store is away.

use std::sync::Arc;

use everhook_core::{
    ids::{Ref, SourceId},
    manage::{
        Change,
        applications::{self, ApplicationChange},
        organizations,
        sources::{self, Captured, NewSource, SourceChange},
    },
    model::{Author, PauseMode, Secret, Source},
    policy::{address::AddressRules, target::TargetRules},
    ports::Clock as _,
    sources::OpenSource,
};
use everhook_testbed::{World, mins, secs};
use futures_util::FutureExt as _;

/// Who acts in the organization `default`.
async fn owner(world: &World) -> Author {
    Author::server(organizations::ensure_default(world.line(), None).await.unwrap().id)
}

async fn create(world: &World, by: &Author, name: &str) -> Source {
    let settings = SourceChange {
        name: Change::Set(name.to_owned()),
        kind: Change::Set("hmac".to_owned()),
        header: Change::Set("X-Signature".to_owned()),
        secrets: Change::Set(vec![Secret::new("a secret of the provider".to_owned())]),
        ..SourceChange::default()
    };
    sources::create(world.line(), by, NewSource { application: None, settings }).await.unwrap()
}

/// The source that a URL names, by its id; `None` if there is none.
async fn found(world: &World, segment: &str) -> Option<SourceId> {
    world.line().sources.lookup(segment).await.unwrap().map(|open| open.source.id)
}

#[tokio::test]
async fn a_source_is_found_by_its_id_and_in_the_organization_default_by_its_name() {
    let world = World::new().await;
    let (owner, other) = (owner(&world).await, world.author());
    let (named, unnamed) = (create(&world, &owner, "shop").await, create(&world, &other, "elsewhere").await);
    assert_eq!(found(&world, "shop").await, Some(named.id));
    assert_eq!(found(&world, &named.id.to_string()).await, Some(named.id));
    assert_eq!(found(&world, &unnamed.id.to_string()).await, Some(unnamed.id));
    assert_eq!(found(&world, "elsewhere").await, None, "names belong to the organization `default`");
    for nobody in ["nobody", "not a name", "../etc", "", "01920000-0000-7000-8000-000000000000"] {
        assert_eq!(found(&world, nobody).await, None, "{nobody:?}");
    }
}

#[tokio::test]
async fn every_change_is_in_force_with_the_next_request() {
    let world = World::new().await;
    let (line, by) = (world.line(), owner(&world).await);
    assert_eq!(found(&world, "shop").await, None);
    let source = create(&world, &by, "shop").await;
    assert_eq!(found(&world, "shop").await, Some(source.id), "made after somebody asked in vain");
    let of = Ref::Id(source.id);
    let opened = async || line.sources.lookup(&source.id.to_string()).await.unwrap().map(|open| open.source.clone());
    sources::pause(line, &by, &of, Some("refuse")).await.unwrap();
    assert_eq!(opened().await.unwrap().paused.unwrap().mode, PauseMode::Refuse);
    sources::resume(line, &by, &of).await.unwrap();
    assert_eq!(opened().await.unwrap().paused, None);
    let renamed = SourceChange { name: Change::Set("renamed".to_owned()), ..SourceChange::default() };
    sources::change(line, &by, &of, renamed).await.unwrap();
    assert_eq!((found(&world, "shop").await, found(&world, "renamed").await), (None, Some(source.id)));
    let successor = create(&world, &by, "shop").await;
    assert_eq!(found(&world, "shop").await, Some(successor.id));
    sources::delete(line, &by, &of).await.unwrap();
    assert_eq!((opened().await, found(&world, "renamed").await), (None, None));
}

#[tokio::test]
async fn sources_of_a_deleted_application_are_not_found() {
    let mut world = World::new().await;
    let (line, by) = (world.line(), owner(&world).await);
    let shop = ApplicationChange { name: Change::Set("Shop".to_owned()), ..ApplicationChange::default() };
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    let shop = applications::create(line, &rules, &by, shop).await.unwrap();
    create(&world, &by, "kept").await;
    let settings = SourceChange { name: Change::Set("gone".to_owned()), kind: Change::Set("none".to_owned()), ..SourceChange::default() };
    let gone = sources::create(line, &by, NewSource { application: Some(shop.id.to_string()), settings }).await.unwrap();
    assert_eq!(found(&world, "gone").await, Some(gone.id));
    applications::delete(line, &by, &Ref::Id(shop.id)).await.unwrap();
    assert_eq!((found(&world, "gone").await, found(&world, &gone.id.to_string()).await), (None, None));
    assert!(found(&world, "kept").await.is_some());
    world.pass(secs(10)).await;
}

#[tokio::test]
async fn while_the_store_is_away_what_is_known_is_served_and_what_is_not_is_an_error() {
    let mut world = World::new().await;
    let by = owner(&world).await;
    let (known, unknown) = (create(&world, &by, "known").await, create(&world, &by, "unknown").await);
    found(&world, "known").await;
    world.line().sources.forget(known.id);
    found(&world, "known").await;
    world.faults.set_away(true);
    // Also one that was changed meanwhile, as far as this node was told, and one whose time is over.
    for _ in 0..3 {
        assert_eq!(found(&world, "known").await, Some(known.id));
        assert_eq!(found(&world, &known.id.to_string()).await, Some(known.id));
        assert!(world.line().sources.lookup("unknown").await.is_err());
        world.line().sources.forget_all();
        world.pass(mins(10)).await;
    }
    world.faults.set_away(false);
    world.pass(secs(2)).await;
    assert_eq!(found(&world, "unknown").await, Some(unknown.id));
    assert_eq!(found(&world, "known").await, Some(known.id));
}

#[tokio::test]
async fn a_read_that_began_before_a_change_does_not_bring_the_old_source_back() {
    // Given a source that is being read again, and an answer that is on its way.
    let world = World::new().await;
    let (line, by) = (world.line(), owner(&world).await);
    let source = create(&world, &by, "shop").await;
    line.sources.forget(source.id);
    world.faults.hold_source_reads();
    let id = source.id.to_string();
    let mut reading = Box::pin(line.sources.lookup(&id));
    assert!((&mut reading).now_or_never().is_none(), "the store has answered, and nobody has the answer yet");
    // When the source is changed meanwhile.
    world.clock.move_to(world.clock.now() + secs(1));
    sources::pause(line, &by, &Ref::Id(source.id), Some("refuse")).await.unwrap();
    world.faults.let_source_reads_arrive();
    // Then whoever asked has it as it is now, and so has everybody while the store is away.
    let is_paused = |found: Option<Arc<OpenSource>>| found.is_some_and(|open| open.source.paused.is_some());
    assert!(is_paused(reading.await.unwrap()));
    world.faults.set_away(true);
    assert!(is_paused(line.sources.lookup(&id).await.unwrap()));
}

#[tokio::test]
async fn what_happens_at_a_source_is_shown_before_and_after_it_is_written_and_not_lost_while_the_store_is_away() {
    let world = World::new().await;
    let (line, by) = (world.line(), owner(&world).await);
    let source = create(&world, &by, "shop").await;
    let now = line.ports.clock.now();
    line.sources.activity.accepted(source.id, now);
    line.sources.activity.refused(source.id, now + secs(1), "bad_signature");
    let shown = async || sources::activity(line, &[source.id]).await.unwrap().remove(0);
    let before = shown().await;
    assert_eq!((before.accepted_at, before.refused.clone()), (Some(now), Some((now + secs(1), "bad_signature".to_owned()))));
    world.faults.set_away(true);
    assert!(line.sources.activity.write(&*line.ports.sources).await.is_err());
    world.faults.set_away(false);
    line.sources.activity.handshake_answered(source.id, now + secs(2));
    line.sources.activity.write(&*line.ports.sources).await.unwrap();
    assert_eq!(line.sources.activity.unwritten(source.id), Default::default());
    let after = shown().await;
    assert_eq!((after.accepted_at, after.refused, after.handshake_at), (before.accepted_at, before.refused, Some(now + secs(2))));
}

#[tokio::test]
async fn the_key_of_a_handshake_is_taken_only_while_somebody_waits_for_it_and_only_once() {
    let mut world = World::new().await;
    let by = owner(&world).await;
    let recipe =
        [("mac", "sha256 hex"), ("sig", "X-Hook-Signature"), ("over", "{body}"), ("key_format", "captured"), ("handshake", HANDSHAKE)];
    let settings = SourceChange {
        name: Change::Set("tasks".to_owned()),
        kind: Change::Set("custom".to_owned()),
        recipe: Change::Set(recipe.map(|(name, text)| (name.to_owned(), text.to_owned())).into()),
        ..SourceChange::default()
    };
    let source = sources::create(world.line(), &by, NewSource { application: None, settings }).await.unwrap();
    let of = Ref::Id(source.id);
    let key = |text: &str| Secret::new(text.to_owned());
    let secrets = async |world: &World| {
        let revealed = sources::reveal(world.line(), by.organization, &of).await.unwrap();
        revealed.secrets.iter().map(|secret| secret.expose().clone()).collect::<Vec<_>>()
    };
    let capture = async |world: &World, text: &str| sources::capture_key(world.line(), &source, &key(text)).await.unwrap();
    assert_eq!(capture(&world, "uninvited").await, Captured::NotAwaited);
    sources::await_handshake(world.line(), &by, &of).await.unwrap();
    assert_eq!(capture(&world, "first").await, Captured::Kept);
    assert_eq!(capture(&world, "second").await, Captured::NotAwaited, "one key for each request of a person");
    sources::await_handshake(world.line(), &by, &of).await.unwrap();
    world.pass(mins(10)).await;
    assert_eq!(capture(&world, "late").await, Captured::NotAwaited);
    sources::await_handshake(world.line(), &by, &of).await.unwrap();
    assert_eq!(capture(&world, "third").await, Captured::Kept);
    assert_eq!(secrets(&world).await, ["third", "first"]);
}

/// The handshake of a provider that sends its key in a header and wants it back.
const HANDSHAKE: &str = "header-echo X-Hook-Secret";
