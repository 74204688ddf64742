//! Texts that the server has its own opinion of: a NUL, which it does not take, and lengths that its indexes do not.

use std::time::Duration;

use everhook_core::{
    model::{Backoff, Cursor, PageRequest, RetrySchedule, ScheduleName, Strategy},
    policy::presets,
    ports::{EndpointFilter, ScheduleRef},
};

use crate::postgres::given::Given;

#[tokio::test]
async fn nothing_is_found_by_a_text_with_a_nul() {
    let given = Given::new().await;
    let by_name = ScheduleRef::Name("nul\0".to_owned());
    assert_eq!(given.store.retry_schedule(given.organization, &by_name).await.unwrap(), None);
    let page = PageRequest { limit: 10, cursor: Cursor::Newest };
    let filter = EndpointFilter { label: Some(("region".to_owned(), Some("nul\0".to_owned()))), ..EndpointFilter::default() };
    let found = given.store.endpoints(given.organization, filter, page).await.unwrap();
    assert_eq!((found.rows, found.next, found.prev), (vec![], None, None));
}

#[tokio::test]
async fn the_longest_schedule_has_a_version_like_any_other() {
    let given = Given::new().await;
    // Nothing in it repeats, so that nothing can be pressed together.
    let name: String = (0..256_u32).map(|n| char::from_u32(0x20000 + n * 7919 % 0x8000).unwrap()).collect();
    let delays = (1..=100_u64).map(|n| Duration::from_micros(100_000_000_000 + n * 987_654_321 * 7919 % 500_000_000_000)).collect();
    let longest = RetrySchedule {
        name: ScheduleName(name),
        strategy: Strategy::Exponential(Backoff::Intervals(delays)),
        give_up_on: (0..100).map(|n| 100 + n * 83 % 500).collect(),
        ..presets::standard()
    };
    let version = given.store.schedule_version(&longest).await.unwrap();
    assert_eq!(given.store.schedule_version(&longest).await.unwrap(), version);
    assert_eq!(given.store.schedule(version).await.unwrap(), Some(longest.clone()));
    let other = RetrySchedule { max_attempts: 3, ..longest };
    assert_ne!(given.store.schedule_version(&other).await.unwrap(), version);
}
