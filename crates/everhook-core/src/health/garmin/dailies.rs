//! Days: steps, resting heart rate, active energy and distance, a metric each.

use super::{day, record_id};
use crate::{
    health::{
        item::{Item, Names},
        metrics::{BEATS, COUNT},
    },
    model::health::{MetricDraft, MetricType},
};

const STEPS: Names = &["steps", "totalSteps"];
const RESTING_HR: Names = &["restingHeartRateInBeatsPerMinute", "restingHeartRate"];
const CALORIES: Names = &["activeKilocalories"];
const DISTANCE: Names = &["distanceInMeters", "totalDistanceMeters", "totalDistanceInMeters"];

/// What is beside the values in a summary stays with the received event: it would be the same four times.
pub(super) fn map(item: &mut Item<'_>) -> Vec<MetricDraft> {
    let Some(span) = day(item) else { return Vec::new() };
    let record_id = record_id(item);
    let values = [
        (MetricType::Steps, item.number(STEPS, COUNT)),
        (MetricType::RestingHr, item.number(RESTING_HR, BEATS)),
        (MetricType::Calories, item.number(CALORIES, COUNT)),
        (MetricType::Distance, item.number(DISTANCE, COUNT)),
    ];
    let draft = |(metric_type, value): (MetricType, Option<f64>)| {
        value.map(|value| MetricDraft { record_id: record_id.clone(), ..span.metric(metric_type, Some(value)) })
    };
    values.into_iter().filter_map(draft).collect()
}
