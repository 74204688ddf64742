//! Which endpoints an event is for. Asked by the publish flow once for each endpoint of the application, so it allocates nothing.

use crate::model::{EventType, EventTypePattern};

/// Whether an endpoint with these patterns gets events of this type. No patterns want nothing.
pub fn wants(patterns: &[EventTypePattern], event_type: &EventType) -> bool {
    patterns.iter().any(|pattern| match pattern {
        EventTypePattern::Any => true,
        EventTypePattern::Family(prefix) => event_type.as_str().starts_with(prefix.as_str()),
        EventTypePattern::Exact(wanted) => wanted == event_type,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_gets_the_types_that_its_patterns_name() {
        let cases: &[(&[&str], &str, bool)] = &[
            (&["user.created"], "user.created", true),
            (&["user.created"], "user.created.v2", false),
            (&["user.created"], "User.created", false),
            (&["order.*"], "order.paid", true),
            (&["order.*"], "order.item.added", true),
            (&["order.*"], "order", false),
            (&["order.*"], "orders.paid", false),
            (&["order.item.*"], "order.paid", false),
            (&["*"], "anything:at-all", true),
            (&["user.created", "order.*"], "order.paid", true),
            (&["user.created", "order.*"], "user.deleted", false),
            (&[], "user.created", false),
        ];
        for (patterns, event_type, wanted) in cases {
            let parsed: Vec<_> = patterns.iter().map(|text| EventTypePattern::parse(text).unwrap()).collect();
            let event_type = EventType::parse(event_type).unwrap();
            assert_eq!(wants(&parsed, &event_type), *wanted, "{patterns:?} and {event_type}");
        }
    }
}
