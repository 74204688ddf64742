//! Part of step 1: which of the endpoints that want an event's type also want its labels and its data.
//!
//! Most endpoints ask for neither, and then nothing is copied or parsed. The data is parsed once an event, and only if a filter asks.

use std::{cell::OnceCell, sync::Arc};

use serde_json::Value;

use crate::{
    catalog::Destination,
    policy::{
        filter::Filter,
        labels::{self, Labels},
    },
};

/// Narrows the endpoints that want an event's type to those that want the event.
pub(super) fn select(by_type: Arc<[Arc<Destination>]>, labels: &Labels, data: &[u8]) -> Arc<[Arc<Destination>]> {
    let is_choosy = |destination: &Arc<Destination>| !destination.endpoint.labels.is_empty() || destination.filter.is_some();
    if !by_type.iter().any(is_choosy) {
        return by_type;
    }
    let parsed = OnceCell::new();
    // Data that holds a number which no double can hold, or nests as deep as it may, cannot be looked into, and passes: too much is better
    // than too little.
    let read_data = || serde_json::from_slice::<Value>(data).ok();
    let passes = |filter: &Filter| parsed.get_or_init(read_data).as_ref().is_none_or(|data| filter.passes(data));
    let wants = |destination: &&Arc<Destination>| {
        labels::has_all(labels, &destination.endpoint.labels) && destination.filter.as_ref().is_none_or(passes)
    };
    by_type.iter().filter(wants).cloned().collect()
}
