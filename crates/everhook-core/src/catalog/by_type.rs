//! The enabled endpoints of an application by the event types they want: an event finds those that want it without asking the others.

use std::{hash::Hasher as _, sync::Arc};

use rustc_hash::FxHasher;

use super::Destination;
use crate::{
    model::{EndpointState, EventType, EventTypePattern},
    policy::matching,
};

/// An index over the event type patterns of endpoints. Texts are kept as hashes: a tenant may have 200 patterns at each of many endpoints.
#[derive(Default)]
pub(super) struct EndpointsByType {
    /// In the order of their making.
    enabled: Vec<Arc<Destination>>,
    /// Places in `enabled` of those that want every type.
    any: Vec<u32>,
    /// Hashes of exact types and of families' prefixes, each with the place of an endpoint that wants it; sorted.
    named: Vec<(u64, u32)>,
}

impl EndpointsByType {
    pub(super) fn new<'a>(destinations: impl Iterator<Item = &'a Arc<Destination>>) -> Self {
        let is_enabled = |destination: &&Arc<Destination>| destination.endpoint.state == EndpointState::Enabled;
        let mut enabled: Vec<_> = destinations.filter(is_enabled).cloned().collect();
        enabled.sort_by_key(|destination| destination.endpoint.id);
        let (mut any, mut named) = (Vec::new(), Vec::new());
        for (place, destination) in (0..).zip(&enabled) {
            for pattern in &destination.endpoint.event_types {
                match pattern {
                    EventTypePattern::Any => any.push(place),
                    EventTypePattern::Family(prefix) => named.push((hash(prefix), place)),
                    EventTypePattern::Exact(event_type) => named.push((hash(event_type.as_str()), place)),
                }
            }
        }
        named.sort_unstable();
        Self { enabled, any, named }
    }

    /// Those that want events of this type, in the order of their making.
    pub(super) fn wanting(&self, event_type: &EventType) -> Arc<[Arc<Destination>]> {
        let text = event_type.as_str();
        let families = text.match_indices('.').map(|(dot, _)| &text[..=dot]);
        let named = families.chain([text]).flat_map(|name| self.places_of(hash(name)));
        let mut places: Vec<u32> = self.any.iter().copied().chain(named).collect();
        places.sort_unstable();
        places.dedup();
        let candidates = places.into_iter().filter_map(|place| self.enabled.get(place as usize));
        // Two texts may have one hash.
        candidates.filter(|destination| matching::wants(&destination.endpoint.event_types, event_type)).cloned().collect()
    }

    fn places_of(&self, name: u64) -> impl Iterator<Item = u32> {
        let first = self.named.partition_point(|(hash, _)| *hash < name);
        self.named[first..].iter().take_while(move |(hash, _)| *hash == name).map(|(_, place)| *place)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}
