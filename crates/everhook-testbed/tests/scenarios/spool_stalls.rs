//! The spool, when the store takes events of some applications and not of others: order holds within each, and nobody waits for another.

use everhook_core::{
    ids::{ApplicationId, EventId},
    line::publish::{Acceptance, PublishError, publish},
    model::OrderingMode,
};
use everhook_testbed::{Receiver, World, secs};

/// Room for as many events as a scenario has.
const ROOMY: u64 = 1 << 20;

/// Longer than a stalled application waits for its next try.
const LONGEST_WAIT: std::time::Duration = secs(31);

/// An application whose endpoint wants order, and what was accepted for it.
struct Tenant {
    application: ApplicationId,
    endpoint: Receiver,
    accepted: Vec<EventId>,
}

impl Tenant {
    /// One that the node has taken an event of before.
    async fn new(world: &mut World) -> Self {
        let application = world.another_application().await;
        let endpoint = world.endpoint().of(application).in_order(OrderingMode::Strict).create().await;
        let mut tenant = Self { application, endpoint, accepted: Vec::new() };
        tenant.publish(world).await;
        world.pass(secs(1)).await;
        tenant
    }

    /// Publishes, and expects it to go straight into the store.
    async fn publish(&mut self, world: &World) {
        self.accepted.push(world.event("order.paid").to(self.application).publish().await.event);
    }

    /// Publishes, and expects the spool to take it.
    async fn spool(&mut self, world: &World) {
        self.accepted.push(world.event("order.paid").to(self.application).spool().await.event);
    }

    /// Publishes, wherever it comes to.
    async fn accept(&mut self, world: &World) {
        let accepted = world.event("order.paid").to(self.application).accept().await;
        self.accepted.push(accepted.expect("the event is accepted").event());
    }

    /// From now on, its endpoint's filter cannot be read.
    async fn become_unreadable(&mut self, world: &World) {
        world.change(&self.endpoint, |endpoint| endpoint.filter = Some("damaged".to_owned())).await;
    }

    /// An event of it waits, and it cannot be read.
    async fn stall(&mut self, world: &mut World) {
        world.faults.set_away(true);
        self.spool(world).await;
        self.become_unreadable(world).await;
        world.faults.set_away(false);
        world.pass(secs(1)).await;
    }

    async fn become_readable(&mut self, world: &World) {
        world.change(&self.endpoint, |endpoint| endpoint.filter = None).await;
    }

    /// The events that arrived, in order.
    fn arrived(&self, world: &World) -> Vec<String> {
        world.arrivals_of(&self.endpoint).into_iter().map(|arrival| arrival.event).collect()
    }

    /// Says that so many of its events arrived, each once and in order.
    fn assert_arrived(&self, world: &World, count: usize) {
        let expected: Vec<String> = self.accepted[..count].iter().map(EventId::to_string).collect();
        assert_eq!(self.arrived(world), expected);
    }

    fn assert_all_arrived(&self, world: &World) {
        self.assert_arrived(world, self.accepted.len());
    }
}

fn spooled(world: &World) -> u64 {
    world.line().ports.spool.as_ref().expect("a spool").status().events
}

#[tokio::test]
async fn an_application_that_cannot_be_read_waits_by_itself_until_it_can() {
    // Given an application that cannot be read, and a moment without the store.
    let mut world = World::spooling(ROOMY).await;
    let (mut shop, mut other) = (Tenant::new(&mut world).await, Tenant::new(&mut world).await);
    shop.become_unreadable(&world).await;
    world.faults.set_away(true);
    other.spool(&world).await;
    shop.spool(&world).await;
    world.faults.set_away(false);
    world.pass(secs(2)).await;
    // Then others are delivered, and go straight into the store; its own wait, however many come.
    for _ in 0..5 {
        other.publish(&world).await;
        shop.spool(&world).await;
        world.pass(secs(20)).await;
    }
    other.assert_all_arrived(&world);
    shop.assert_arrived(&world, 1);
    assert_eq!((world.line().backlog.stalled_count(), spooled(&world)), (1, 6));
    // When it can be read again, they arrive in order, and the next one waits for nobody.
    shop.become_readable(&world).await;
    world.pass(LONGEST_WAIT).await;
    shop.assert_all_arrived(&world);
    assert_eq!((world.line().backlog.stalled_count(), spooled(&world)), (0, 0));
    shop.publish(&world).await;
    world.pass(secs(1)).await;
    shop.assert_all_arrived(&world);
}

#[tokio::test]
async fn an_application_that_cannot_be_read_holds_up_nobody_also_if_nothing_else_waits() {
    let mut world = World::spooling(ROOMY).await;
    let (mut shop, mut other) = (Tenant::new(&mut world).await, Tenant::new(&mut world).await);
    shop.stall(&mut world).await;
    assert!(!world.line().backlog.holds_up_all() && world.line().backlog.holds_up(shop.application));
    other.publish(&world).await;
    // It cannot be read still.
    world.leaves_work_over();
}

#[tokio::test]
async fn an_application_whose_rows_are_locked_waits_by_itself_until_they_are_not() {
    let mut world = World::spooling(ROOMY).await;
    let (mut shop, mut other) = (Tenant::new(&mut world).await, Tenant::new(&mut world).await);
    // Given that nothing of one application can be recorded, while nothing else waits: the store takes other writes, so that it is not the store.
    world.faults.lock(shop.application);
    shop.spool(&world).await;
    world.pass(secs(3)).await;
    assert_eq!(world.line().backlog.stalled_count(), 1);
    // From then on others go straight into the store.
    for _ in 0..5 {
        other.publish(&world).await;
        shop.spool(&world).await;
        world.pass(secs(20)).await;
    }
    other.assert_all_arrived(&world);
    shop.assert_arrived(&world, 1);
    // And once they are free, its own arrive in order.
    world.faults.unlock(shop.application);
    world.pass(LONGEST_WAIT).await;
    shop.assert_all_arrived(&world);
    shop.publish(&world).await;
}

#[tokio::test]
async fn a_second_application_that_is_locked_alone_may_be_the_store_until_another_comes_through() {
    let mut world = World::spooling(ROOMY).await;
    let (mut shop, mut second, mut other) = (Tenant::new(&mut world).await, Tenant::new(&mut world).await, Tenant::new(&mut world).await);
    for tenant in [&mut shop, &mut second] {
        world.faults.lock(tenant.application);
        tenant.spool(&world).await;
        world.pass(secs(3)).await;
    }
    assert_eq!(world.line().backlog.stalled_count(), 1);
    other.spool(&world).await;
    world.pass(secs(1)).await;
    assert_eq!(world.line().backlog.stalled_count(), 2);
    other.publish(&world).await;
    for tenant in [&shop, &second] {
        world.faults.unlock(tenant.application);
    }
    world.pass(LONGEST_WAIT).await;
    for tenant in [&shop, &second, &other] {
        tenant.assert_all_arrived(&world);
    }
}

#[tokio::test]
async fn a_batch_is_spooled_as_far_as_it_is_of_a_stalled_application() {
    let mut world = World::spooling(ROOMY).await;
    let (mut shop, mut other) = (Tenant::new(&mut world).await, Tenant::new(&mut world).await);
    shop.stall(&mut world).await;
    let batch = [shop.application, other.application, shop.application, other.application];
    let batch = batch.map(|application| world.event("order.paid").to(application).publication()).into();
    let answers: Vec<Acceptance> = publish(world.line(), batch).await.into_iter().map(|answer| answer.expect("accepted")).collect();
    let is_spooled: Vec<bool> = answers.iter().map(|answer| matches!(answer, Acceptance::Spooled(_))).collect();
    assert_eq!(is_spooled, [true, false, true, false]);
    shop.accepted.extend([0, 2].map(|place: usize| answers[place].event()));
    other.accepted.extend([1, 3].map(|place: usize| answers[place].event()));
    shop.become_readable(&world).await;
    world.pass(LONGEST_WAIT).await;
    shop.assert_all_arrived(&world);
    other.assert_all_arrived(&world);
}

#[tokio::test]
async fn while_the_store_is_away_nobody_is_stalled_and_each_application_keeps_its_order() {
    let mut world = World::spooling(ROOMY).await;
    let mut tenants = Vec::new();
    for _ in 0..12 {
        tenants.push(Tenant::new(&mut world).await);
    }
    world.faults.set_away(true);
    for _ in 0..3 {
        for tenant in &mut tenants {
            tenant.spool(&world).await;
        }
        world.pass(secs(20)).await;
        assert_eq!(world.line().backlog.stalled_count(), 0);
    }
    world.faults.set_away(false);
    // Whoever comes now is behind them.
    for tenant in &mut tenants {
        tenant.spool(&world).await;
    }
    world.pass(secs(5)).await;
    for tenant in &mut tenants {
        tenant.assert_all_arrived(&world);
        tenant.publish(&world).await;
    }
}

#[tokio::test]
async fn if_the_store_goes_away_while_one_is_stalled_everything_is_spooled_at_once_after_the_first() {
    let mut world = World::spooling(ROOMY).await;
    let (mut shop, mut first, mut second) = (Tenant::new(&mut world).await, Tenant::new(&mut world).await, Tenant::new(&mut world).await);
    shop.stall(&mut world).await;
    first.publish(&world).await;
    // When the store goes away, one publisher finds out, and nobody after it asks the store.
    world.faults.set_away(true);
    assert!(!world.line().backlog.holds_up_all());
    first.spool(&world).await;
    assert!(world.line().backlog.holds_up_all());
    for _ in 0..3 {
        for tenant in [&mut shop, &mut first, &mut second] {
            tenant.spool(&world).await;
        }
        world.pass(secs(20)).await;
        assert!(world.line().backlog.holds_up_all());
    }
    // When it is back, all but the one that cannot be read are delivered; when that can be, it is too.
    world.faults.set_away(false);
    world.pass(secs(5)).await;
    first.assert_all_arrived(&world);
    second.assert_all_arrived(&world);
    shop.assert_arrived(&world, 1);
    shop.become_readable(&world).await;
    world.pass(LONGEST_WAIT).await;
    shop.assert_all_arrived(&world);
}

#[tokio::test]
async fn after_a_crash_the_same_applications_wait_and_the_others_do_not() {
    let mut world = World::spooling(ROOMY).await;
    let (mut unreadable, mut locked, mut other) =
        (Tenant::new(&mut world).await, Tenant::new(&mut world).await, Tenant::new(&mut world).await);
    // Given two that are stalled for different reasons, and others that wait for the store.
    unreadable.become_unreadable(&world).await;
    world.faults.lock(locked.application);
    for _ in 0..3 {
        for tenant in [&mut unreadable, &mut locked, &mut other] {
            let answer = world.event("order.paid").to(tenant.application).accept().await;
            // What cannot be read is refused until the spool holds something that comes before it.
            tenant.accepted.extend(answer.ok().map(|accepted| accepted.event()));
        }
        world.pass(secs(2)).await;
    }
    world.faults.set_away(true);
    for tenant in [&mut other, &mut unreadable, &mut locked] {
        tenant.spool(&world).await;
    }
    // When the node dies, and the store is back in its next life.
    world.crash().await;
    world.faults.set_away(false);
    world.pass(secs(5)).await;
    // Then the same hold up nobody, and nothing of them arrives.
    other.assert_all_arrived(&world);
    unreadable.assert_arrived(&world, 1);
    locked.assert_arrived(&world, 1);
    other.publish(&world).await;
    // And each comes through when it can, once and in order.
    unreadable.become_readable(&world).await;
    world.faults.unlock(locked.application);
    world.pass(LONGEST_WAIT).await;
    for tenant in [&unreadable, &locked, &other] {
        tenant.assert_all_arrived(&world);
    }
    assert_eq!(spooled(&world), 0);
}

#[tokio::test]
async fn however_many_are_locked_the_others_come_through() {
    // Given more locked applications than are tried at once, all before the one that is not.
    let mut world = World::spooling(ROOMY).await;
    let mut locked = Vec::new();
    for _ in 0..20 {
        locked.push(Tenant::new(&mut world).await);
    }
    let mut other = Tenant::new(&mut world).await;
    for tenant in &mut locked {
        world.faults.lock(tenant.application);
        tenant.accept(&world).await;
        tenant.accept(&world).await;
    }
    // Then every event of the other arrives soon, and in the end none of them is spooled.
    for _ in 0..10 {
        other.accept(&world).await;
        world.pass(secs(3)).await;
        other.assert_all_arrived(&world);
    }
    other.publish(&world).await;
    for tenant in &locked {
        tenant.assert_arrived(&world, 1);
        world.faults.unlock(tenant.application);
    }
    world.pass(LONGEST_WAIT).await;
    for tenant in &locked {
        tenant.assert_all_arrived(&world);
    }
}

#[tokio::test]
async fn a_stalled_application_leaves_half_of_the_spool_to_the_others() {
    let mut world = World::spooling(20_000).await;
    let (mut shop, mut other) = (Tenant::new(&mut world).await, Tenant::new(&mut world).await);
    world.faults.lock(shop.application);
    shop.spool(&world).await;
    other.spool(&world).await;
    world.pass(secs(1)).await;
    let refusal = loop {
        match world.event("order.paid").to(shop.application).accept().await {
            Ok(accepted) => shop.accepted.push(accepted.event()),
            Err(refusal) => break refusal,
        }
        assert!(shop.accepted.len() < 40, "it is never full");
    };
    assert!(matches!(refusal, PublishError::SpoolFull), "{refusal:?}");
    world.faults.set_away(true);
    other.spool(&world).await;
    world.faults.set_away(false);
    world.faults.unlock(shop.application);
    world.pass(LONGEST_WAIT).await;
    shop.assert_all_arrived(&world);
    other.assert_all_arrived(&world);
    shop.publish(&world).await;
}
