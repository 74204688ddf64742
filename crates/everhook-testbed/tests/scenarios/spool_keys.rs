//! The spool's copy of API keys: what was revoked does not come back by it.

use std::sync::{Arc, Mutex};

use everhook_core::{
    lanes,
    line::Line,
    manage::api_keys::{self, NewApiKey},
    model::{ApiKey, ApiKeyHash, PoolName, Scope},
    nodes::follow::{StaleKeys, follow},
    ports::{Change, Ports, Spool},
};
use everhook_testbed::{
    World,
    cluster::{Member, ReachedApiKeys, Registry},
    secs,
    world::line_settings,
};

/// A node beside the world's own, with the same spool, that hears of changes through a registry.
struct Node {
    line: Arc<Line>,
    member: Arc<Member>,
    registry: Arc<Registry>,
}

impl Node {
    fn of(world: &World) -> Self {
        let registry = Registry::new(world.clock.clone());
        let member = registry.member(1, PoolName::default());
        let bare = world.bare_ports();
        let api_keys = Arc::new(ReachedApiKeys::new(bare.api_keys.clone(), member.clone()));
        let ports = Ports { leases: member.clone(), changes: member.clone(), api_keys, ..bare };
        let line = Arc::new(Line::new(ports, lanes::hints().0, line_settings("beside")));
        Self { line, member, registry }
    }

    fn spool(&self) -> Arc<dyn Spool> {
        self.line.ports.spool.clone().expect("a spool")
    }

    async fn make_key(&self, world: &World) -> (ApiKey, ApiKeyHash) {
        let new = NewApiKey { name: Some("shop".to_owned()), scopes: vec!["publish".to_owned()], ..NewApiKey::default() };
        let made = api_keys::create(&self.line, &world.author(), [Scope::Manage].into_iter().collect(), new).await;
        let (key, text) = made.expect("the key is made");
        (key, api_keys::hash(text.expose()))
    }
}

#[tokio::test]
async fn the_spool_has_forgotten_a_revoked_key_when_the_others_hear_of_it() {
    // Whoever keeps keys asks the spool for those that it has just dropped: it must not find them there.
    for change in [Change::ApiKey as fn(_) -> Change, |_| Change::Everything] {
        let mut world = World::spooling(1 << 20).await;
        let node = Node::of(&world);
        let (key, hash) = node.make_key(&world).await;
        node.line.publishers.api_key(&hash).await.expect("the store answers").expect("there is such a key");
        assert!(node.spool().api_key(&hash).is_some());
        let seen = node.line.ports.changes.newest().await.expect("the registry answers");
        let heard: Arc<Mutex<Vec<(StaleKeys, bool)>>> = Arc::default();
        let note = {
            let (heard, spool) = (heard.clone(), node.spool());
            move |stale| heard.lock().expect("nobody panicked").push((stale, spool.api_key(&hash).is_some()))
        };
        let following = tokio::spawn(follow(node.line.clone(), seen, note));
        node.registry.record(change(key.id));
        world.pass(secs(2)).await;
        let stale = if change(key.id) == Change::Everything { StaleKeys::All } else { StaleKeys::One(key.id) };
        assert_eq!(*heard.lock().expect("nobody panicked"), [(stale, false)]);
        following.abort();
    }
}

#[tokio::test]
async fn an_answer_that_is_older_than_a_revocation_is_not_remembered_after_it() {
    let world = World::spooling(1 << 20).await;
    let node = Node::of(&world);
    let (key, hash) = node.make_key(&world).await;
    // Given an answer of the store that is on its way when the key is revoked.
    node.member.pause();
    let asking = tokio::spawn({
        let line = node.line.clone();
        async move { line.publishers.api_key(&hash).await }
    });
    world.let_run(8).await;
    api_keys::revoke(&node.line, &world.author(), [Scope::Manage].into_iter().collect(), key.id).await.expect("the key is revoked");
    node.member.resume();
    let found = asking.await.expect("nobody panicked").expect("the store answers");
    assert_eq!(found.map(|found| found.id), Some(key.id), "this one request was admitted before");
    // Then the spool admits nobody by it.
    assert_eq!((node.spool().api_key(&hash), node.spool().api_keys()), (None, vec![]));
    let again = node.line.publishers.api_key(&hash).await.expect("the store answers");
    assert_eq!(again, None);
}
