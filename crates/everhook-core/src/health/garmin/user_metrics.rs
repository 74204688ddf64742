//! Oxygen uptake: one metric for running and one for cycling. A summary has a day and no time: both start and end at its beginning.

use super::{CALENDAR_DATE, record_id};
use crate::{
    health::{
        Why,
        details::Details,
        item::{Item, Names},
        metrics::{AGE, Span, VO2MAX},
    },
    model::health::{MetricDraft, MetricType, RecordId, Vo2maxSport},
};

const RUNNING: Names = &["vo2Max", "vo2MaxRunning", "vo2MaxValue"];
const CYCLING: Names = &["vo2MaxCycling"];
const FITNESS_AGE: Names = &["fitnessAge"];

pub(super) fn map(item: &mut Item<'_>) -> Vec<MetricDraft> {
    let Some(midnight) = item.day(CALENDAR_DATE) else { return Vec::new() };
    let (running, cycling) = (item.rare_number(RUNNING, VO2MAX), item.rare_number(CYCLING, VO2MAX));
    if running.is_none() && cycling.is_none() {
        let is_there = [RUNNING, CYCLING].iter().any(|names| item.raw(names).is_some());
        item.lacks(RUNNING[0], if is_there { Why::Unreadable } else { Why::Absent });
        return Vec::new();
    }
    let (record_id, fitness_age, raw) = (record_id(item), item.number(FITNESS_AGE, AGE), item.kept_whole());
    let draft = |(sport, name, value): (Vo2maxSport, &str, Option<f64>)| {
        let value = value?;
        let details = Details::default().text("type", Some(name)).number("fitnessAge", fitness_age).finish();
        let record_id = record_id.as_ref().and_then(|id| record_of(id, sport));
        let metric = Span::instant(midnight).metric(MetricType::Vo2max, Some(value));
        Some(MetricDraft { sport: Some(sport), details, record_id, raw: raw.clone(), ..metric })
    };
    [(Vo2maxSport::Running, "running", running), (Vo2maxSport::Cycling, "cycling", cycling)].into_iter().filter_map(draft).collect()
}

/// The id of the summary holds for both: the second metric needs one of its own.
fn record_of(summary: &RecordId, sport: Vo2maxSport) -> Option<RecordId> {
    match sport {
        Vo2maxSport::Running => Some(summary.clone()),
        Vo2maxSport::Cycling => RecordId::of(&format!("{summary}#cycling")),
    }
}
