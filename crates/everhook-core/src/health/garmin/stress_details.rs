//! A day's stress: the mean of the samples that were measured, with the body battery beside it.
//!
//! Samples are averages of three minutes from 1 to 100; −1 and −2 say that nothing could be measured.

use super::{day, record_id};
use crate::{
    health::{
        Why,
        details::Details,
        item::{Item, Names},
        metrics::{BEATS, MEASURED_PERCENT, PERCENT},
        samples::{Measured, Samples},
    },
    model::health::{MetricDraft, MetricType},
};

const SAMPLES: Names = &["timeOffsetStressLevelValues", "stressValuesArray", "stressLevelValues"];
const AVERAGE: Names = &["averageStressLevel", "averageStresslevel", "avgStressLevel"];
const MIN: Names = &["minStressLevel", "minStress"];
const MAX: Names = &["maxStressLevel", "maxStress"];
const BODY_BATTERY: Names = &["timeOffsetBodyBatteryValues", "bodyBatteryValuesArray"];
const BODY_BATTERY_LAST: Names = &["bodyBatteryMostRecentValue", "bodyBatteryValue"];
const BODY_BATTERY_MIN: Names = &["bodyBatteryLowestValue"];
const BODY_BATTERY_MAX: Names = &["bodyBatteryHighestValue"];
const RESTING_HR: Names = &["restingHeartRateInBeatsPerMinute", "restingHeartRate", "restingHR"];

pub(super) fn map(item: &mut Item<'_>) -> Vec<MetricDraft> {
    let Some(span) = day(item) else { return Vec::new() };
    let samples = item.samples(SAMPLES, MEASURED_PERCENT);
    let Stress { average, min, max } = stress(item, samples);
    let battery = body_battery(item);
    if samples.is_none() && average.is_none() && battery.last.is_none() {
        return Vec::new();
    }
    let details = Details::default()
        .number("min", min)
        .number("max", max)
        .number("bodyBattery", battery.last)
        .number("bodyBatteryMin", battery.min)
        .number("bodyBatteryMax", battery.max)
        .number("restingHeartRate", item.rare_number(RESTING_HR, BEATS));
    let record_id = record_id(item);
    let raw = match samples {
        Some(samples) => item.kept(SAMPLES[0], samples.text),
        None => item.kept_whole(),
    };
    vec![MetricDraft { details: details.finish(), record_id, raw, ..span.metric(MetricType::Stress, average) }]
}

struct Stress {
    average: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

/// What was measured; without samples, what the provider counted itself.
fn stress(item: &mut Item<'_>, samples: Option<Samples<'_>>) -> Stress {
    if let Some(Measured { mean, min, max, .. }) = samples.and_then(|samples| samples.measured) {
        return Stress { average: Some(mean), min: Some(min), max: Some(max) };
    }
    item.lacks(SAMPLES[0], if samples.is_some() { Why::NotMeasured } else { Why::Absent });
    Stress {
        average: item.rare_number(AVERAGE, MEASURED_PERCENT),
        min: item.rare_number(MIN, MEASURED_PERCENT),
        max: item.rare_number(MAX, MEASURED_PERCENT),
    }
}

struct BodyBattery {
    last: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

fn body_battery(item: &mut Item<'_>) -> BodyBattery {
    if let Some(Measured { last, min, max, .. }) = item.samples(BODY_BATTERY, PERCENT).and_then(|samples| samples.measured) {
        return BodyBattery { last: Some(last), min: Some(min), max: Some(max) };
    }
    let last = item.rare_number(BODY_BATTERY_LAST, PERCENT);
    if last.is_none() {
        item.lacks(BODY_BATTERY[0], Why::Absent);
    }
    BodyBattery { last, min: item.rare_number(BODY_BATTERY_MIN, PERCENT), max: item.rare_number(BODY_BATTERY_MAX, PERCENT) }
}
