//! Workouts, whether a device measured them or the user typed them in: the same members as those of Strava.

use super::{START_TIME, SUMMARY_ID};
use crate::{
    health::{
        details::Details,
        item::{Item, Names},
        metrics::{BEATS, COUNT, SECONDS, Span},
    },
    model::health::{MetricDraft, MetricType},
};

const START: Names = START_TIME;
const RECORD: Names = &[SUMMARY_ID[0], "activityId"];
const DURATION: Names = &["durationInSeconds"];
const SPORT: Names = &["activityType"];
const DISTANCE: Names = &["distanceInMeters"];
const HEART_RATE: Names = &["averageHeartRateInBeatsPerMinute"];
const CALORIES: Names = &["activeKilocalories"];
const ELEVATION: Names = &["totalElevationGainInMeters"];

pub(super) fn map(item: &mut Item<'_>) -> Vec<MetricDraft> {
    let (start, duration) = (item.instant(START), item.number(DURATION, SECONDS));
    let (Some(start), Some(duration)) = (start, duration) else { return Vec::new() };
    let details = Details::default()
        .text("type", item.text(SPORT).as_deref())
        .number("distance", item.number(DISTANCE, COUNT))
        .number("avgHeartRate", item.number(HEART_RATE, BEATS))
        .number("calories", item.number(CALORIES, COUNT))
        .number("elevationGain", item.rare_number(ELEVATION, COUNT));
    let (record_id, raw) = (item.id(RECORD), item.kept_whole());
    let metric = Span::lasting(start, duration).metric(MetricType::Activity, Some(duration));
    vec![MetricDraft { details: details.finish(), record_id, raw, ..metric }]
}
