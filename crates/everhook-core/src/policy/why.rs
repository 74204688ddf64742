//! Why an event was delivered to a destination, was not yet, or never will be: one line for a person who asks. Pure; called by `manage::why`.
//!
//! It says what the records say. What an endpoint asked for when the event was published is not kept, so that a missing delivery is explained
//! by what it asks for now, and says so where that does not explain it.

pub mod absences;

use crate::{
    model::{
        CancelCause, DeathCause, Delivery, DisabledReason, EndpointState, EventType, EventTypePattern, OrderingMode, Parking, Period,
        RateLimit, Stage,
    },
    policy::{
        labels::{self, Labels},
        matching,
    },
    time::Timestamp,
};

/// The result of an event at one destination, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// One word of a fixed set, for programs.
    pub reason: &'static str,
    /// One sentence, for people.
    pub words: String,
    /// When that ends, where it is known.
    pub until: Option<Timestamp>,
}

impl Why {
    fn new(reason: &'static str, words: impl Into<String>) -> Self {
        debug_assert!(REASONS.contains(&reason), "{reason} is not listed, and so not documented");
        Self { reason, words: words.into(), until: None }
    }

    fn until(self, until: Timestamp) -> Self {
        Self { until: Some(until), ..self }
    }
}

/// What holds a lane up now, beside the times of its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFacts {
    /// What explanations call its destination, such as "endpoint".
    pub destination: &'static str,
    /// Since when it is paused.
    pub paused_at: Option<Timestamp>,
    /// Whether its breaker keeps requests back, and until when as far as that is known.
    pub circuit: Circuit,
    /// Until when the endpoint asked to be left alone.
    pub held_until: Option<Timestamp>,
    /// How many requests are under way, and how many may be.
    pub in_flight: (u32, u32),
    /// How many requests may start in a time.
    pub rate_limit: Option<RateLimit>,
    /// Which deliveries go one after the other.
    pub ordering: OrderingMode,
}

impl Default for LaneFacts {
    /// An endpoint that nothing holds up.
    fn default() -> Self {
        Self {
            destination: "endpoint",
            paused_at: None,
            circuit: Circuit::Closed,
            held_until: None,
            in_flight: (0, 0),
            rate_limit: None,
            ordering: OrderingMode::None,
        }
    }
}

/// Whether a breaker keeps requests back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Circuit {
    /// It does not.
    #[default]
    Closed,
    /// Nothing is sent, until this instant if it has an end.
    Open(Option<Timestamp>),
    /// A few requests try whether the endpoint is back.
    HalfOpen,
}

/// What an endpoint asks of events, by its current settings.
pub struct EndpointCriteria<'a> {
    /// The types.
    pub event_types: &'a [EventTypePattern],
    /// The labels.
    pub labels: &'a Labels,
    /// Whether the event's data passes its filter; `true` if it has none.
    pub passes_filter: bool,
    /// Whether it gets events.
    pub state: EndpointState,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Every reason, as a code.
pub const REASONS: [&str; 32] = [
    "delivered",
    "retry",
    "not_due",
    "turn",
    "paused",
    "circuit_open",
    "circuit_half_open",
    "retry_after",
    "waits_for_order",
    "parked",
    "retries_exhausted",
    "given_up",
    "gone",
    "tls_failed",
    "endpoint_disabled",
    "destination_deleted",
    "erased",
    "by_person",
    "endpoint_is_newer",
    "type_differs",
    "labels_differ",
    "filtered",
    "changed_since",
    "duplicate",
    "not_forwarded",
    "addressed",
    "no_processor",
    "not_requested",
    "channel_is_newer",
    "channel_disabled",
    "less_serious",
    "not_a_recipient",
];

/// Why a delivery is in its stage.
pub fn of_delivery(delivery: &Delivery, lane: &LaneFacts, now: Timestamp) -> Why {
    let last_error = delivery.last_error.as_deref().unwrap_or("nothing was recorded");
    match &delivery.stage {
        Stage::Delivered { at } => Why::new("delivered", format!("delivered at {at}, by attempt {}", delivery.attempts)),
        Stage::Dead { at, cause } => Why::new(
            cause.as_str(),
            format!("failed for good at {at} after {} because {}: {last_error}", times(delivery.attempts), death(*cause, lane.destination)),
        ),
        Stage::Cancelled { at, cause } => {
            Why::new(cause.as_str(), format!("cancelled at {at} because {}", cancelled(*cause, lane.destination)))
        }
        Stage::Held => Why::new(
            "waits_for_order",
            format!("waits until the preceding delivery has ended, because {}", order(lane.ordering, lane.destination)),
        ),
        Stage::Parked(parking) => of_parked(parking),
        Stage::Waiting { due_at } => of_waiting(delivery.attempts, last_error, *due_at, lane, now),
    }
}

fn of_parked(parking: &Parking) -> Why {
    let waits = format!("parked: waits for {}", parking.waits_for);
    match parking.expiry {
        None => Why::new("parked", waits),
        Some(expiry) => Why::new("parked", format!("{waits}, at most until {}", expiry.at)).until(expiry.at),
    }
}

/// What a person decided comes first, then what lasts longest.
fn of_waiting(attempts: u32, last_error: &str, due_at: Timestamp, lane: &LaneFacts, now: Timestamp) -> Why {
    if let Some(at) = lane.paused_at {
        return Why::new("paused", format!("waits because the {} is paused since {at}", lane.destination));
    }
    if lane.circuit == Circuit::Open(None) {
        return Why::new("circuit_open", "waits because the circuit breaker was forced open until it is reset");
    }
    let later_than_due = |until: &Timestamp| *until > due_at && *until > now;
    let open_until = if let Circuit::Open(until) = lane.circuit { until.filter(later_than_due) } else { None };
    let held_until = lane.held_until.filter(later_than_due);
    match (open_until, held_until) {
        (Some(until), held) if held.is_none_or(|held| held <= until) => {
            return Why::new("circuit_open", format!("waits until {until} because the circuit breaker is open")).until(until);
        }
        (_, Some(until)) => {
            let words = format!("waits until {until} because of the {}'s Retry-After", lane.destination);
            return Why::new("retry_after", words).until(until);
        }
        _ => {}
    }
    if due_at > now && attempts > 0 {
        return Why::new("retry", format!("waits until {due_at} because attempt {attempts} failed: {last_error}")).until(due_at);
    }
    if due_at > now {
        return Why::new("not_due", format!("waits until {due_at}, when its first attempt is due")).until(due_at);
    }
    of_turn(due_at, lane)
}

/// Why a delivery that is due now has not ended.
pub fn of_due(lane: &LaneFacts, now: Timestamp) -> Why {
    of_waiting(0, "", now, lane, now)
}

/// What keeps a delivery that is due now from being attempted; `None` if nothing is known to.
pub fn of_lane(lane: &LaneFacts, now: Timestamp) -> Option<Why> {
    let (in_flight, most) = lane.in_flight;
    Some(of_due(lane, now)).filter(|why| why.reason != "turn" || in_flight >= most)
}

/// Why one whose time has come is not on its way, or perhaps is.
fn of_turn(due_at: Timestamp, lane: &LaneFacts) -> Why {
    let (in_flight, most) = lane.in_flight;
    if lane.circuit == Circuit::HalfOpen {
        return Why::new(
            "circuit_half_open",
            format!("due since {due_at}; the circuit breaker is half-open and tests the {} with a few requests", lane.destination),
        );
    }
    let rate = lane.rate_limit.map_or(String::new(), |limit| match limit.per {
        Period::Minute => format!(", and {} may start per minute", limit.requests),
        Period::Second => format!(", and {} may start per second", limit.requests),
    });
    let words =
        format!("due since {due_at}: in progress, or waiting for its turn; {in_flight} of at most {most} requests are in progress{rate}");
    Why::new("turn", words)
}

/// Why an endpoint has no delivery of an event of this type and with these labels, accepted at this instant.
pub fn of_absence(event_type: &EventType, event_labels: &Labels, accepted_at: Timestamp, criteria: &EndpointCriteria<'_>) -> Why {
    if let Some(why) = of_absence_by_type(event_type, accepted_at, criteria) {
        return why;
    }
    if !labels::has_all(event_labels, criteria.labels) {
        return Why::new("labels_differ", lacking(event_labels, criteria.labels));
    }
    if !criteria.passes_filter {
        return Why::new("filtered", "no delivery because the event's data does not match the endpoint's filter");
    }
    let words = "no delivery, although the endpoint would receive it with its current settings: it was disabled or had other settings then, or the event was a test of another endpoint";
    Why::new("changed_since", words)
}

/// The same for an event that has neither labels nor data any more.
pub fn of_absence_of_erased(event_type: &EventType, accepted_at: Timestamp, erased_at: Timestamp, criteria: &EndpointCriteria<'_>) -> Why {
    let known = of_absence_by_type(event_type, accepted_at, criteria);
    let words = || format!("no delivery; the reason is unknown, because the event's data and labels were erased at {erased_at}");
    known.unwrap_or_else(|| Why::new("erased", words()))
}

/// What is known without an event's labels and data.
fn of_absence_by_type(event_type: &EventType, accepted_at: Timestamp, criteria: &EndpointCriteria<'_>) -> Option<Why> {
    if criteria.created_at > accepted_at {
        let words = format!("no delivery because the endpoint was created at {}, after the event", criteria.created_at);
        return Some(Why::new("endpoint_is_newer", words));
    }
    match criteria.state {
        EndpointState::Disabled { at, reason } if at <= accepted_at => {
            let by = match reason {
                DisabledReason::ByOwner => "by its owner",
                DisabledReason::Gone => "because it answered 410 Gone",
                DisabledReason::Failing => "because it had failed for days",
            };
            return Some(Why::new("endpoint_disabled", format!("no delivery because the endpoint was disabled at {at}, {by}")));
        }
        EndpointState::Deleted { at } if at <= accepted_at => {
            return Some(Why::new("destination_deleted", format!("no delivery because the endpoint was deleted at {at}")));
        }
        _ => {}
    }
    if !matching::wants(criteria.event_types, event_type) {
        let patterns: Vec<String> = criteria.event_types.iter().map(ToString::to_string).collect();
        return Some(Why::new("type_differs", format!("no delivery because `{event_type}` does not match {}", patterns.join(", "))));
    }
    None
}

/// Names the first label that is missing or different.
fn lacking(event: &Labels, wanted: &Labels) -> String {
    let differing = wanted.iter().find(|(key, value)| event.get(*key) != Some(value));
    let Some((key, value)) = differing else { return "no delivery because its labels differ".to_owned() };
    match event.get(key) {
        Some(other) => format!("no delivery because the endpoint requires the label `{key}` to be `{value}`, and it is `{other}`"),
        None => format!("no delivery because the endpoint requires the label `{key}`, which the event does not have"),
    }
}

fn death(cause: DeathCause, destination: &str) -> String {
    match cause {
        DeathCause::RetriesExhausted => "its retry schedule has no attempts left".to_owned(),
        DeathCause::GivenUp => "this response is not retried".to_owned(),
        DeathCause::Gone => format!("the {destination} answered 410 Gone"),
        DeathCause::TlsFailed => "the TLS handshake failed too often".to_owned(),
    }
}

fn cancelled(cause: CancelCause, destination: &str) -> String {
    match cause {
        CancelCause::EndpointDisabled => format!("the {destination} was disabled"),
        CancelCause::DestinationDeleted => "its destination was deleted".to_owned(),
        CancelCause::Erased => "the event's data was erased".to_owned(),
        CancelCause::ByPerson => "a person cancelled it".to_owned(),
    }
}

fn order(mode: OrderingMode, destination: &str) -> String {
    let ordered = match mode {
        OrderingMode::Strict => "are ordered",
        OrderingMode::PerEventType => "are ordered by event type",
        OrderingMode::PerKey => "are ordered by ordering key",
        OrderingMode::None => "were ordered when it was created",
    };
    format!("the {destination}'s deliveries {ordered}")
}

fn times(attempts: u32) -> String {
    if attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") }
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
