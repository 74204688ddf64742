//! What an explanation promises: the reason that the records bear out, and no guess beyond it.

use std::num::NonZeroU32;

use uuid::Uuid;

use super::*;
use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId, ScheduleVersion},
    model::Priority,
};

const NOW: i64 = 1_000;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn delivery(stage: Stage, attempts: u32) -> Delivery {
    Delivery {
        id: DeliveryId::from_uuid(Uuid::nil()),
        organization: OrganizationId::from_uuid(Uuid::nil()),
        application: ApplicationId::from_uuid(Uuid::nil()),
        event: EventId::from_uuid(Uuid::nil()),
        event_type: EventType::parse("order.paid").expect("a type"),
        lane_id: LaneId::from_uuid(Uuid::nil()),
        kind: crate::model::LaneKind::Endpoint,
        priority: Priority::Normal,
        retry_schedule: ScheduleVersion(1),
        stage,
        attempts,
        failure_category: None,
        last_error: (attempts > 0).then(|| "answered 503".to_owned()),
        replay_of: None,
        operation: None,
        created_at: at(0),
    }
}

#[test]
fn a_delivery_is_explained_by_its_stage() {
    let lane = LaneFacts { ordering: OrderingMode::Strict, ..LaneFacts::default() };
    let dead = |cause| Stage::Dead { at: at(9), cause };
    #[rustfmt::skip]
    let table = [
        (Stage::Delivered { at: at(9) }, 2, "delivered", "delivered at 1970-01-01T00:00:09Z, by attempt 2"),
        (dead(DeathCause::RetriesExhausted), 8, "retries_exhausted", "failed for good at 1970-01-01T00:00:09Z after 8 attempts because its retry schedule has no attempts left: answered 503"),
        (dead(DeathCause::GivenUp), 1, "given_up", "failed for good at 1970-01-01T00:00:09Z after 1 attempt because this response is not retried: answered 503"),
        (dead(DeathCause::Gone), 1, "gone", "failed for good at 1970-01-01T00:00:09Z after 1 attempt because the endpoint answered 410 Gone: answered 503"),
        (dead(DeathCause::TlsFailed), 3, "tls_failed", "failed for good at 1970-01-01T00:00:09Z after 3 attempts because the TLS handshake failed too often: answered 503"),
        (Stage::Cancelled { at: at(9), cause: CancelCause::EndpointDisabled }, 0, "endpoint_disabled", "cancelled at 1970-01-01T00:00:09Z because the endpoint was disabled"),
        (Stage::Cancelled { at: at(9), cause: CancelCause::DestinationDeleted }, 0, "destination_deleted", "cancelled at 1970-01-01T00:00:09Z because its destination was deleted"),
        (Stage::Cancelled { at: at(9), cause: CancelCause::Erased }, 1, "erased", "cancelled at 1970-01-01T00:00:09Z because the event's data was erased"),
        (Stage::Held, 0, "waits_for_order", "waits until the preceding delivery has ended, because the endpoint's deliveries are ordered"),
    ];
    for (stage, attempts, reason, words) in table {
        assert_eq!(of_delivery(&delivery(stage, attempts), &lane, at(NOW)), Why::new(reason, words));
    }
}

#[test]
fn a_waiting_delivery_is_explained_by_what_keeps_it_longest() {
    let open = LaneFacts { in_flight: (0, 5), ..LaneFacts::default() };
    let limit = RateLimit::per_minute(NonZeroU32::new(60).expect("not zero"), None);
    let (retry, due) = (NOW + 300, NOW - 5);
    // (facts of the lane, when it is due, attempts, the reason, until)
    #[rustfmt::skip]
    let table = [
        (open, retry, 1, "retry", Some(retry)),
        (open, retry, 0, "not_due", Some(retry)),
        (open, due, 0, "turn", None),
        (LaneFacts { rate_limit: Some(limit), ..open }, due, 0, "turn", None),
        (LaneFacts { paused_at: Some(at(1)), circuit: Circuit::Open(None), ..open }, retry, 1, "paused", None),
        (LaneFacts { circuit: Circuit::Open(None), ..open }, due, 1, "circuit_open", None),
        (LaneFacts { circuit: Circuit::Open(Some(at(NOW + 30))), ..open }, due, 1, "circuit_open", Some(NOW + 30)),
        // The breaker ends first, and the schedule keeps it longer.
        (LaneFacts { circuit: Circuit::Open(Some(at(NOW + 30))), ..open }, retry, 1, "retry", Some(retry)),
        (LaneFacts { circuit: Circuit::HalfOpen, ..open }, due, 1, "circuit_half_open", None),
        (LaneFacts { circuit: Circuit::HalfOpen, ..open }, retry, 1, "retry", Some(retry)),
        (LaneFacts { held_until: Some(at(NOW + 60)), ..open }, due, 1, "retry_after", Some(NOW + 60)),
        (LaneFacts { held_until: Some(at(NOW - 1)), ..open }, due, 1, "turn", None),
        (LaneFacts { held_until: Some(at(NOW + 60)), ..open }, retry, 1, "retry", Some(retry)),
        (LaneFacts { held_until: Some(at(NOW + 60)), circuit: Circuit::Open(Some(at(NOW + 30))), ..open }, due, 1, "retry_after", Some(NOW + 60)),
    ];
    for (row, (lane, due_at, attempts, reason, until)) in table.into_iter().enumerate() {
        let why = of_delivery(&delivery(Stage::Waiting { due_at: at(due_at) }, attempts), &lane, at(NOW));
        assert_eq!((why.reason, why.until), (reason, until.map(at)), "row {row}: {}", why.words);
    }
    let why = of_delivery(&delivery(Stage::Waiting { due_at: at(due) }, 0), &LaneFacts { rate_limit: Some(limit), ..open }, at(NOW));
    assert!(why.words.ends_with("0 of at most 5 requests are in progress, and 60 may start per minute"), "{}", why.words);
}

#[test]
fn a_missing_delivery_is_explained_by_what_the_endpoint_asks_for() {
    let labels = |pairs: &[(&str, &str)]| -> Labels { pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect() };
    let disabled = |secs, reason| EndpointState::Disabled { at: at(secs), reason };
    let enabled = EndpointState::Enabled;
    // (made at, state, pattern, labels asked for, passes the filter, the reason, a part of the words), for an event accepted at 100.
    #[rustfmt::skip]
    let table = [
        (200, enabled, "*", labels(&[]), true, "endpoint_is_newer", "created at 1970-01-01T00:03:20Z, after the event"),
        (0, disabled(50, DisabledReason::ByOwner), "*", labels(&[]), true, "endpoint_disabled", "by its owner"),
        (0, disabled(50, DisabledReason::Gone), "*", labels(&[]), true, "endpoint_disabled", "410 Gone"),
        (0, EndpointState::Deleted { at: at(50) }, "*", labels(&[]), true, "destination_deleted", "deleted at"),
        (0, enabled, "user.*", labels(&[]), true, "type_differs", "`order.paid` does not match user.*"),
        (0, enabled, "*", labels(&[("region", "us")]), true, "labels_differ", "`region` to be `us`, and it is `eu`"),
        (0, enabled, "*", labels(&[("tier", "gold")]), true, "labels_differ", "the label `tier`, which the event does not have"),
        (0, enabled, "*", labels(&[("region", "eu")]), false, "filtered", "does not match the endpoint"),
        (0, enabled, "*", labels(&[("region", "eu")]), true, "changed_since", "current settings"),
        // It was disabled later, which explains nothing.
        (0, disabled(150, DisabledReason::ByOwner), "user.*", labels(&[]), true, "type_differs", "does not match"),
    ];
    for (created_at, state, pattern, asked, passes_filter, reason, part) in table {
        let event_types = [EventTypePattern::parse(pattern).expect("a pattern")];
        let criteria = EndpointCriteria { event_types: &event_types, labels: &asked, passes_filter, state, created_at: at(created_at) };
        let why = of_absence(&EventType::parse("order.paid").expect("a type"), &labels(&[("region", "eu")]), at(100), &criteria);
        assert_eq!((why.reason, why.words.contains(part)), (reason, true), "{}", why.words);
    }
}

#[test]
fn a_missing_delivery_of_an_erased_event_is_explained_as_far_as_can_be_told() {
    let labels = Labels::from([("region".to_owned(), "us".to_owned())]);
    for (pattern, reason) in [("user.*", "type_differs"), ("*", "erased")] {
        let event_types = [EventTypePattern::parse(pattern).expect("a pattern")];
        let (state, created_at) = (EndpointState::Enabled, at(0));
        let criteria = EndpointCriteria { event_types: &event_types, labels: &labels, passes_filter: true, state, created_at };
        let why = of_absence_of_erased(&EventType::parse("order.paid").expect("a type"), at(100), at(200), &criteria);
        assert_eq!(why.reason, reason, "{}", why.words);
    }
}

#[test]
fn a_delivery_to_another_destination_is_explained_by_that_ones_name() {
    let processor = LaneFacts { destination: "processor", ordering: OrderingMode::PerKey, ..LaneFacts::default() };
    let held = of_delivery(&delivery(Stage::Held, 0), &processor, at(NOW));
    assert_eq!(held.words, "waits until the preceding delivery has ended, because the processor's deliveries are ordered by ordering key");
    let app = LaneFacts { destination: "app", held_until: Some(at(NOW + 60)), ..LaneFacts::default() };
    let waits = of_delivery(&delivery(Stage::Waiting { due_at: at(NOW) }, 1), &app, at(NOW));
    assert_eq!((waits.reason, waits.words.as_str()), ("retry_after", "waits until 1970-01-01T00:17:40Z because of the app's Retry-After"));
}

#[test]
fn an_event_that_no_endpoint_gets_says_so_and_one_for_anybody_leaves_it_to_the_endpoint() {
    use super::absences::{Addressee, at_endpoints};
    let original = EventId::from_uuid(Uuid::nil());
    let source = crate::model::SourceName::parse("shop").expect("a name");
    for (addressee, reason) in [
        (Addressee::Nobody(original), Some("duplicate")),
        (Addressee::ProcessorOnly(source), Some("not_forwarded")),
        (Addressee::CapabilityOnly, Some("addressed")),
        (Addressee::CallerOnly, Some("addressed")),
        (Addressee::Anybody, None),
    ] {
        assert_eq!(at_endpoints(&addressee).map(|why| why.reason), reason, "{addressee:?}");
    }
}
