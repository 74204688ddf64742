//! A fetched activity. Called with the answer of Strava's API, which may be anything.

use crate::{
    health::{
        Effect, Mapped, Unmappable,
        details::Details,
        item::{Item, Names},
        metrics::{BEATS, COUNT, SECONDS, Span, VO2MAX},
        value,
    },
    model::health::{ExternalUserId, MetricDraft, MetricType, RecordId, Vo2maxSport},
};

const ID: Names = &["id"];
const ATHLETE: Names = &["athlete"];
const START: Names = &["start_date"];
const MOVING: Names = &["moving_time"];
const ELAPSED: Names = &["elapsed_time"];
const SPORT: Names = &["sport_type", "type"];
const DISTANCE: Names = &["distance"];
const HEART_RATE: Names = &["average_heartrate"];
const CALORIES: Names = &["calories"];
const ELEVATION: Names = &["total_elevation_gain"];
const VO2MAX_ESTIMATE: Names = &["vo2_max", "vo2max", "vo2max_estimate"];

/// What a fetched activity means: its metric, and one of oxygen uptake if it has an estimate.
///
/// Events are unsigned. One that names a user and the activity of somebody else must not bring that activity into the user's profile: the answer must be
/// of the activity that was asked for, and of this athlete.
///
/// # Errors
/// [`Unmappable`] if it is no activity, has no start or no length, or is somebody else's.
pub fn activity(bytes: &[u8], asked: &RecordId, athlete: &ExternalUserId) -> Result<Mapped, Unmappable> {
    let mut item = Item::read(bytes)?;
    if !is_the_one(&item, asked, athlete) {
        return Err(Unmappable::SomebodyElses);
    }
    let (start, moving) = (item.instant(START), item.number(MOVING, SECONDS));
    let elapsed = item.number(ELAPSED, SECONDS).or(moving);
    let (Some(start), Some(elapsed)) = (start, elapsed) else {
        return Err(Unmappable::NothingUsable { missing: item.into_missing() });
    };
    let span = Span::lasting(start, elapsed);
    let sport = item.text(SPORT);
    let details = Details::default()
        .text("type", sport.as_deref())
        .number("distance", item.number(DISTANCE, COUNT))
        .number("avgHeartRate", item.rare_number(HEART_RATE, BEATS))
        .number("calories", item.rare_number(CALORIES, COUNT))
        .number("elevationGain", item.rare_number(ELEVATION, COUNT));
    let (record_id, raw) = (Some(asked.clone()), item.kept_whole());
    let workout = MetricDraft { details: details.finish(), record_id, raw, ..span.metric(MetricType::Activity, moving) };
    let estimate = item.rare_number(VO2MAX_ESTIMATE, VO2MAX).map(|value| vo2max(span, value, sport.as_deref(), asked));
    let drafts = std::iter::once(workout).chain(estimate).collect();
    Ok(Mapped { effect: Effect::Metrics(drafts), missing: item.into_missing() })
}

/// Strava says in every answer whose the activity is. One that does not say it is taken for the one that was asked for.
fn is_the_one(item: &Item<'_>, asked: &RecordId, athlete: &ExternalUserId) -> bool {
    let id_of = |item: &Item<'_>| item.raw(ID).and_then(value::id);
    let is_asked = id_of(item).is_none_or(|id| id == asked.as_str());
    is_asked && item.object(ATHLETE).as_ref().and_then(id_of).is_none_or(|id| id == athlete.as_str())
}

fn vo2max(span: Span, value: f64, sport: Option<&str>, record: &RecordId) -> MetricDraft {
    let is_cycling = sport.is_some_and(|sport| sport.contains("Ride"));
    let (sport, name) = if is_cycling { (Vo2maxSport::Cycling, "cycling") } else { (Vo2maxSport::Running, "running") };
    let details = Details::default().text("type", Some(name)).finish();
    let record_id = Some(record.clone());
    MetricDraft { sport: Some(sport), details, record_id, ..span.metric(MetricType::Vo2max, Some(value)) }
}
