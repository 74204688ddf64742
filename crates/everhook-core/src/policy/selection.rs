//! What an operation is about. Asked once for each dead letter, or for each event and endpoint, when the selection is fixed. Pure.

use crate::{
    model::{
        DeadLetter, DeadLetterSelection, DeadLetterStatus, ErasureCandidate, ErasureSelection, EventType, EventTypePattern, NewestDelivery,
        Wanted,
    },
    policy::matching,
    time::Timestamp,
};

/// Whether a dead letter is meant: one that was dead at `as_of` and still is.
pub fn takes_dead_letter(selection: &DeadLetterSelection, letter: &DeadLetter, as_of: Timestamp) -> bool {
    letter.status == DeadLetterStatus::Dead
        && letter.last_failure_at <= as_of
        && selection.application.is_none_or(|application| application == letter.application)
        && (selection.endpoints.is_empty() || selection.endpoints.contains(&letter.lane_id.endpoint()))
        && takes_type(&selection.event_types, &letter.event_type)
        && (selection.categories.is_empty() || selection.categories.contains(&letter.failure_category))
        && selection.from.is_none_or(|from| from <= letter.first_failure_at)
        && selection.to.is_none_or(|to| letter.first_failure_at < to)
}

/// Whether a list of patterns, which does not narrow if it is empty, takes a type.
pub fn takes_type(patterns: &[EventTypePattern], event_type: &EventType) -> bool {
    patterns.is_empty() || matching::wants(patterns, event_type)
}

/// Whether an event is meant by an erasure: one that still has its data and fits everything that is given.
pub fn takes_for_erasure(selection: &ErasureSelection, event: &ErasureCandidate) -> bool {
    !event.is_erased
        && event.accepted_at < selection.to
        && selection.from.is_none_or(|from| from <= event.accepted_at)
        && selection.application.is_none_or(|application| application == event.application)
        && selection.label.as_ref().is_none_or(|(key, value)| event.labels.get(key) == Some(value))
}

/// What is done about an (event, endpoint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is delivered again.
    Take,
    /// A delivery is open: it counts as skipped.
    Skip,
    /// It is not meant.
    Leave,
}

/// Whether an (event, endpoint) is meant. `was_there` says whether the endpoint had been made when the event was accepted.
pub const fn choose(wanted: Wanted, newest: NewestDelivery, was_there: bool) -> Choice {
    match (wanted, newest) {
        (_, NewestDelivery::Open(_)) => Choice::Skip,
        (Wanted::Any, _) | (_, NewestDelivery::Failed(_)) => Choice::Take,
        (Wanted::Missed, NewestDelivery::Absent) if was_there => Choice::Take,
        (Wanted::Failed | Wanted::Missed, NewestDelivery::Absent | NewestDelivery::Delivered(_)) => Choice::Leave,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        ids::{ApplicationId, DeliveryId, EndpointId, EventId, OrganizationId},
        model::{DeathCause, FailureCategory, LaneKind},
    };

    #[test]
    fn what_is_delivered_again_depends_on_the_newest_delivery() {
        let delivery = DeliveryId::from_uuid(Uuid::nil());
        let (open, delivered, failed) =
            (NewestDelivery::Open(delivery), NewestDelivery::Delivered(delivery), NewestDelivery::Failed(delivery));
        // wanted, newest delivery, was the endpoint there → choice
        let table = [
            (Wanted::Any, open, true, Choice::Skip),
            (Wanted::Any, delivered, true, Choice::Take),
            (Wanted::Any, failed, true, Choice::Take),
            (Wanted::Any, NewestDelivery::Absent, false, Choice::Take),
            (Wanted::Failed, open, true, Choice::Skip),
            (Wanted::Failed, delivered, true, Choice::Leave),
            (Wanted::Failed, failed, true, Choice::Take),
            (Wanted::Failed, NewestDelivery::Absent, true, Choice::Leave),
            (Wanted::Missed, open, true, Choice::Skip),
            (Wanted::Missed, delivered, true, Choice::Leave),
            (Wanted::Missed, failed, true, Choice::Take),
            (Wanted::Missed, NewestDelivery::Absent, true, Choice::Take),
            (Wanted::Missed, NewestDelivery::Absent, false, Choice::Leave),
        ];
        for (wanted, newest, was_there, expected) in table {
            assert_eq!(choose(wanted, newest, was_there), expected, "{wanted:?}, {newest:?}, was there: {was_there}");
        }
    }

    #[test]
    fn an_erasure_takes_what_fits_everything_that_is_given_and_still_has_its_data() {
        let (mine, other) = (ApplicationId::from_uuid(Uuid::from_u128(1)), ApplicationId::from_uuid(Uuid::from_u128(2)));
        let label = |value: &str| Some(("customer".to_owned(), value.to_owned()));
        let at = Timestamp::from_secs;
        let event = ErasureCandidate {
            event: EventId::from_uuid(Uuid::nil()),
            application: mine,
            labels: label("7").into_iter().collect(),
            accepted_at: at(100),
            is_erased: false,
        };
        // application, label, from, to → is it taken
        let table = [
            (Some(mine), None, None, 101, true),
            (Some(other), None, None, 101, false),
            (None, label("7"), None, 101, true),
            (None, label("8"), None, 101, false),
            (Some(mine), label("7"), Some(100), 101, true),
            (Some(mine), None, Some(101), 200, false),
            (Some(mine), None, None, 100, false),
        ];
        for (application, label, from, to, expected) in table {
            let selection = ErasureSelection { deleted_organization: None, application, label, from: from.map(at), to: at(to) };
            assert_eq!(takes_for_erasure(&selection, &event), expected, "{selection:?}");
            let erased = ErasureCandidate { is_erased: true, ..event.clone() };
            assert!(!takes_for_erasure(&selection, &erased), "it was erased before");
        }
    }

    #[test]
    fn every_part_of_a_filter_narrows() {
        let now = Timestamp::from_secs(1_000);
        let endpoint = EndpointId::from_uuid(Uuid::from_u128(1));
        let letter = DeadLetter {
            id: DeliveryId::from_uuid(Uuid::nil()),
            organization: OrganizationId::from_uuid(Uuid::nil()),
            application: ApplicationId::from_uuid(Uuid::nil()),
            event: EventId::from_uuid(Uuid::nil()),
            event_type: EventType::parse("order.paid").expect("a type"),
            lane_id: endpoint.into(),
            kind: LaneKind::Endpoint,
            target: String::new(),
            last_delivery: DeliveryId::from_uuid(Uuid::nil()),
            status: DeadLetterStatus::Dead,
            cause: DeathCause::RetriesExhausted,
            failure_category: FailureCategory::Timeout,
            last_error: String::new(),
            attempts: 1,
            failures: 1,
            first_failure_at: now,
            last_failure_at: now,
            requeued_at: None,
        };
        let all = DeadLetterSelection::default;
        let pattern = |text| vec![EventTypePattern::parse(text).expect("a pattern")];
        let other = EndpointId::from_uuid(Uuid::from_u128(2));
        let later = Timestamp::from_secs(1_001);
        let table = [
            (all(), true),
            (DeadLetterSelection { application: Some(ApplicationId::from_uuid(Uuid::nil())), ..all() }, true),
            (DeadLetterSelection { application: Some(ApplicationId::from_uuid(Uuid::from_u128(1))), ..all() }, false),
            (DeadLetterSelection { endpoints: vec![endpoint], ..all() }, true),
            (DeadLetterSelection { endpoints: vec![other], ..all() }, false),
            (DeadLetterSelection { event_types: pattern("order.*"), ..all() }, true),
            (DeadLetterSelection { event_types: pattern("user.*"), ..all() }, false),
            (DeadLetterSelection { categories: vec![FailureCategory::Timeout], ..all() }, true),
            (DeadLetterSelection { categories: vec![FailureCategory::Dns], ..all() }, false),
            (DeadLetterSelection { from: Some(now), to: Some(later), ..all() }, true),
            (DeadLetterSelection { from: Some(later), ..all() }, false),
            (DeadLetterSelection { to: Some(now), ..all() }, false),
        ];
        for (selection, expected) in table {
            assert_eq!(takes_dead_letter(&selection, &letter, now), expected, "{selection:?}");
        }
        assert!(!takes_dead_letter(&all(), &letter, Timestamp::from_secs(999)), "it died after the selection was fixed");
        let retrying = DeadLetter { status: DeadLetterStatus::Retrying, ..letter };
        assert!(!takes_dead_letter(&all(), &retrying, now), "it is not dead");
    }
}
