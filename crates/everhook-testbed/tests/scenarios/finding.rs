//! Finding deliveries by what no index knows.

use std::collections::BTreeSet;

use everhook_core::{
    manage::finding::{FoundDeliveries, find_deliveries},
    model::{Cursor, PageRequest},
    ports::DeliveryFilter,
};
use everhook_testbed::{Answer, World, secs};

#[tokio::test]
async fn a_rare_status_is_found_over_many_steps_and_a_frequent_one_page_by_page() {
    // Given one delivery that was refused, and many behind it that were not: more than one step of a search looks at.
    let mut world = World::new().await;
    world.endpoint().answering_in_turn([Answer::Status(503)]).retrying_after([]).create().await;
    let refused = world.event("order.paid").publish().await.event;
    world.pass(secs(1)).await;
    let mut delivered = BTreeSet::new();
    for _ in 0..600 {
        delivered.insert(world.event("order.paid").publish().await.event);
    }
    world.pass(secs(10)).await;
    let find = async |http_status, limit, cursor| -> FoundDeliveries {
        let filter = DeliveryFilter { http_status: Some(http_status), ..DeliveryFilter::default() };
        find_deliveries(world.line(), world.organization, &filter, PageRequest { limit, cursor }).await.expect("the store answers")
    };
    // Then the one is found, and everything was looked at.
    let found = find((500, 599), 10, Cursor::Newest).await;
    assert_eq!(found.rows.iter().map(|delivery| delivery.event).collect::<Vec<_>>(), [refused]);
    assert!(found.next.is_none() && found.searched_until == Some(found.rows[0].created_at));
    // And the others come page by page, each once and in order.
    let (mut found, mut cursor) = (Vec::new(), Some(Cursor::Newest));
    while let Some(from) = cursor {
        let page = find((200, 200), 70, from).await;
        assert!(page.rows.len() <= 70);
        found.extend(page.rows.iter().map(|delivery| (delivery.id, delivery.event)));
        cursor = page.next;
    }
    assert!(found.is_sorted_by(|(newer, _), (older, _)| newer > older));
    assert_eq!(found.iter().map(|(_, event)| *event).collect::<BTreeSet<_>>(), delivered);
    assert!(find((404, 404), 10, Cursor::Newest).await.rows.is_empty());
}
