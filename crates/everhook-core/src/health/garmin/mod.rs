//! Garmin Health: one file a type of data. A push holds whole summaries; a ping says where they are.

mod activities;
mod dailies;
pub(super) mod notices;
mod sleeps;
mod stress_details;
mod user_metrics;

use super::{
    Effect, GarminType, KeptRaw, Mapped, Unmappable,
    item::{Item, Names},
    metrics::Span,
};
use crate::model::health::RecordId;

/// The longest address of a ping that is read, in bytes: Garmin's have some 300.
const CALLBACK_URL_BYTES_MAX: usize = 2_048;

/// How Garmin identifies a summary.
const SUMMARY_ID: Names = &["summaryId"];
/// The day that a summary is about.
const CALENDAR_DATE: Names = &["calendarDate"];
/// When a summary's span begins.
const START_TIME: Names = &["startTimeInSeconds"];
/// How far the user's clock was ahead of UTC.
const START_OFFSET: Names = &["startTimeOffsetInSeconds"];
/// Where a ping says that the data is.
const CALLBACK_URL: Names = &["callbackURL", "callbackUrl", "callback_url"];
/// More than any offset of a time zone.
const OFFSET_SECONDS_MAX: f64 = 86_400.0;

/// Types that are known and become no metric, in the spellings in use.
const WITHOUT_METRIC: &[&str] = &[
    "activityDetails",
    "activityFiles",
    "allDayRespiration",
    "bloodPressure",
    "bloodPressures",
    "bodyComps",
    "epochs",
    "healthSnapshot",
    "hrv",
    "mct",
    "menstrualCycleTracking",
    "moveIQ",
    "moveIQActivities",
    "pulseOx",
    "respiration",
    "skinTemp",
    "solarIntensity",
    "thirdPartyDailies",
];

/// Names that stand for others.
const DEREGISTRATIONS: &[&str] = &["deregistration", "deregistrations", "userDeregistration", "userDeregistrations"];
const PERMISSION_CHANGES: &[&str] = &[
    "userPermission",
    "userPermissions",
    "userPermissionChange",
    "userPermissionsChange",
    "userPermissionChanges",
    "userPermissionsChanges",
];
const SINGULARS: &[(&str, GarminType)] = &[
    ("sleep", GarminType::Sleeps),
    ("stress", GarminType::StressDetails),
    ("stressDetail", GarminType::StressDetails),
    ("userMetric", GarminType::UserMetrics),
    ("daily", GarminType::Dailies),
    ("activity", GarminType::Activities),
    ("manuallyUpdatedActivity", GarminType::ManuallyUpdatedActivities),
];

/// What one item means.
pub(super) fn map(event_type: &str, bytes: &[u8]) -> Result<Mapped, Unmappable> {
    let item = Item::read(bytes)?;
    let is_one_of = |names: &[&str]| names.iter().any(|name| is_spelling_of(event_type, name));
    if let Some(data) = type_of(event_type) {
        return if item.raw(CALLBACK_URL).is_some() { ping(item, data) } else { summary(item, data) };
    }
    if is_one_of(DEREGISTRATIONS) {
        return Ok(Mapped { effect: Effect::Deregistration, missing: Vec::new() });
    }
    if is_one_of(PERMISSION_CHANGES) {
        return Ok(notices::permission_change(item));
    }
    let kept = if is_one_of(WITHOUT_METRIC) { KeptRaw::NoMetricOfType } else { KeptRaw::UnknownType };
    Ok(Mapped { effect: Effect::KeptRaw(kept), missing: Vec::new() })
}

/// The type of data that a name stands for, if it is one that becomes metrics.
pub(super) fn type_of(name: &str) -> Option<GarminType> {
    let plural = GarminType::ALL.into_iter().find(|data| is_spelling_of(name, data.as_str()));
    plural.or_else(|| SINGULARS.iter().find(|(singular, _)| is_spelling_of(name, singular)).map(|(_, data)| *data))
}

/// Whether a name is a type's, in another case or with hyphens or underscores.
pub(super) fn is_spelling_of(name: &str, spelled: &str) -> bool {
    let letters = name.bytes().filter(|byte| !matches!(byte, b'-' | b'_' | b'.'));
    letters.map(|byte| byte.to_ascii_lowercase()).eq(spelled.bytes().map(|byte| byte.to_ascii_lowercase()))
}

fn ping(mut item: Item<'_>, data: GarminType) -> Result<Mapped, Unmappable> {
    match item.whole_text(CALLBACK_URL, CALLBACK_URL_BYTES_MAX) {
        Some(callback_url) => Ok(Mapped { effect: Effect::Ping { data, callback_url }, missing: Vec::new() }),
        None => Err(Unmappable::NothingUsable { missing: item.into_missing() }),
    }
}

/// The metrics of a summary.
pub(super) fn summary(mut item: Item<'_>, data: GarminType) -> Result<Mapped, Unmappable> {
    let drafts = match data {
        GarminType::Sleeps => sleeps::map(&mut item),
        GarminType::StressDetails => stress_details::map(&mut item),
        GarminType::UserMetrics => user_metrics::map(&mut item),
        GarminType::Dailies => dailies::map(&mut item),
        GarminType::Activities | GarminType::ManuallyUpdatedActivities => activities::map(&mut item),
    };
    let missing = item.into_missing();
    if drafts.is_empty() { Err(Unmappable::NothingUsable { missing }) } else { Ok(Mapped { effect: Effect::Metrics(drafts), missing }) }
}

fn record_id(item: &mut Item<'_>) -> Option<RecordId> {
    item.id(SUMMARY_ID)
}

/// The day that a summary is about. Where it does not say, it is that of its start by the user's clock.
fn day(item: &mut Item<'_>) -> Option<Span> {
    if let Some(midnight) = item.day(CALENDAR_DATE) {
        return Some(Span::day(midnight));
    }
    let start = item.rare_instant(START_TIME)?;
    let offset = item.rare_number(START_OFFSET, -OFFSET_SECONDS_MAX..=OFFSET_SECONDS_MAX).unwrap_or(0.0);
    Some(Span::day_of(start, offset))
}
