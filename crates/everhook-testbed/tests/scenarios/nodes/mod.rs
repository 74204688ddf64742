//! Several nodes on one store: each lane has one owner, and loses nothing when it changes hands.

mod changes;
mod hand_over;

use everhook_core::ids::EventId;
use everhook_testbed::{
    Receiver,
    cluster::{
        Cluster,
        life::{LifePlan, run},
    },
    mins,
};

/// So many endpoints of which every one gets every event.
async fn endpoints(cluster: &mut Cluster, count: usize) -> Vec<Receiver> {
    let mut made = Vec::new();
    for _ in 0..count {
        made.push(cluster.endpoint().create().await);
    }
    made
}

async fn publish(cluster: &Cluster, count: usize) -> Vec<EventId> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(cluster.event("order.paid").publish().await.event);
    }
    events
}

fn arrived(cluster: &Cluster, receiver: &Receiver) -> Vec<String> {
    cluster.arrivals_of(receiver).into_iter().map(|arrival| arrival.event).collect()
}

fn in_words(events: &[EventId]) -> Vec<String> {
    events.iter().map(EventId::to_string).collect()
}

fn assert_one_sender_a_lane(cluster: &Cluster) {
    assert_eq!(cluster.senders.overlaps(), [""; 0]);
}

#[test]
fn whatever_happens_to_nodes_nothing_is_lost_overtaken_or_sent_by_two() {
    for seed in 0..2 {
        let life = run(LifePlan { seed, nodes: 3, pools: 1, span: mins(3) });
        assert_eq!(life.violation, None, "seed {seed}");
        assert!(life.tally.accepted > 20 && life.tally.requests > 100, "{:?}", life.tally);
    }
}
