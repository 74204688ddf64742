//! Nights: how long, in which stages, and the oxygen saturation meanwhile as a metric of its own.
//!
//! `durationInSeconds` is the time asleep, without the time awake in between; `calendarDate` is the day of waking and places nothing.

use super::{START_TIME, record_id};
use crate::{
    health::{
        Why,
        details::Details,
        item::{Item, Names},
        metrics::{MEASURED_PERCENT, PERCENT, SECONDS, Span},
    },
    model::health::{MetricDraft, MetricType, RecordId},
    time::Timestamp,
};

const START: Names = &[START_TIME[0], "sleepStartTimestampGMT"];
const END: Names = &["sleepEndTimestampGMT"];
const DURATION: Names = &["durationInSeconds", "sleepTimeSeconds"];
const DEEP: Names = &["deepSleepDurationInSeconds", "deepSleepSeconds"];
const LIGHT: Names = &["lightSleepDurationInSeconds", "lightSleepSeconds"];
const REM: Names = &["remSleepInSeconds", "remSleepDurationInSeconds", "remSleepSeconds"];
const AWAKE: Names = &["awakeDurationInSeconds", "awakeDurationSeconds", "awakeSleepSeconds"];
const UNMEASURABLE: Names = &["unmeasurableSleepDurationInSeconds", "unmeasurableSleepInSeconds", "unmeasurableSleepSeconds"];
const SCORE: Names = &["overallSleepScore", "overallScore", "sleepScore"];
const SPO2_SAMPLES: Names = &["timeOffsetSleepSpo2", "timeOffsetSleepSpO2", "sleepSpo2Values"];
const SPO2_AVERAGE: Names = &["averageSpO2Value", "averageSpo2", "averageSpO2"];

pub(super) fn map(item: &mut Item<'_>) -> Vec<MetricDraft> {
    let duration = item.number(DURATION, SECONDS);
    let awake = item.number(AWAKE, SECONDS);
    let Some(span) = span(item, duration, awake) else { return Vec::new() };
    let record_id = record_id(item);
    let details = Details::default()
        .number("deep", item.number(DEEP, SECONDS))
        .number("light", item.number(LIGHT, SECONDS))
        .number("rem", item.number(REM, SECONDS))
        .number("awake", awake)
        .number("sleepScore", score(item));
    let raw = item.kept_whole();
    let sleep = MetricDraft { details: details.finish(), record_id: record_id.clone(), raw, ..span.metric(MetricType::Sleep, duration) };
    std::iter::once(sleep).chain(spo2(item, span, record_id)).collect()
}

/// From the start to the end where it is said, else over all that the night consists of.
fn span(item: &mut Item<'_>, duration: Option<f64>, awake: Option<f64>) -> Option<Span> {
    let start = item.instant(START)?;
    let end: Option<Timestamp> = item.rare_instant(END).filter(|end| *end >= start);
    let unmeasurable = item.rare_number(UNMEASURABLE, SECONDS).unwrap_or(0.0);
    end.map(|end| Span { start, end }).or_else(|| Some(Span::lasting(start, duration? + awake.unwrap_or(0.0) + unmeasurable)))
}

/// `{"value": 87, "qualifierKey": "GOOD"}`, or the number alone.
fn score(item: &mut Item<'_>) -> Option<f64> {
    let within = item.object(SCORE).and_then(|score| score.rare_number(&["value"], PERCENT));
    within.or_else(|| item.number(SCORE, PERCENT))
}

/// The mean of the samples of a night that has some.
fn spo2(item: &mut Item<'_>, span: Span, record_id: Option<RecordId>) -> Option<MetricDraft> {
    let samples = item.samples(SPO2_SAMPLES, MEASURED_PERCENT);
    if let Some(found) = samples.and_then(|samples| samples.measured) {
        let details = Details::default().number("min", Some(found.min)).number("max", Some(found.max));
        let details = details.number("samples", Some(f64::from(found.count))).finish();
        let raw = samples.and_then(|samples| item.kept(SPO2_SAMPLES[0], samples.text));
        return Some(MetricDraft { details, record_id, raw, ..span.metric(MetricType::Spo2, Some(found.mean)) });
    }
    if samples.is_some() {
        item.lacks(SPO2_SAMPLES[0], Why::NotMeasured);
    }
    let average = item.rare_number(SPO2_AVERAGE, MEASURED_PERCENT)?;
    Some(MetricDraft { record_id, ..span.metric(MetricType::Spo2, Some(average)) })
}
