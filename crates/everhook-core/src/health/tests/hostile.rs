//! Input that was made to cost: every item is read in a time that grows with its size alone.

use std::time::{Duration, Instant};

use super::garmin;
use crate::{
    health::{Effect, Unmappable, item::MEMBERS_MAX, map, map_activity},
    model::health::{ExternalUserId, Provider, RAW_BYTES_MAX, RecordId},
};

const MEGABYTE: usize = 1024 * 1024;
/// A megabyte is read in milliseconds. A hundred times that, for machines that are busy and builds without optimization.
const PATIENCE: Duration = Duration::from_secs(4);

/// A megabyte of a text that is repeated with a number in it.
fn many(part: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(MEGABYTE + 64);
    for number in 0.. {
        if text.len() >= MEGABYTE {
            break;
        }
        if number > 0 {
            text.push(',');
        }
        text += &part(number);
    }
    text
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it takes on this machine is what is tested")]
fn the_worst_megabyte_is_read_in_bounded_time() {
    let samples = many(|number| format!(r#""{number}":{}"#, number % 100));
    let pairs = many(|number| format!("[{number},{}]", number % 100));
    let members = many(|number| format!(r#""m{number}":1"#));
    let same_members = many(|_| r#""steps":1"#.to_owned());
    let deep = format!("{}{}", "[".repeat(MEGABYTE / 2), "]".repeat(MEGABYTE / 2));
    let digits = "9".repeat(MEGABYTE);
    let permissions = many(|number| format!(r#""P{number}""#));
    let escapes = r"\u0041".repeat(MEGABYTE / 6);
    let began = Instant::now();
    for (event_type, item) in [
        ("stressDetails", format!(r#"{{"calendarDate":"2017-03-23","timeOffsetStressLevelValues":{{{samples}}}}}"#)),
        ("stressDetails", format!(r#"{{"calendarDate":"2017-03-23","stressValuesArray":[{pairs}]}}"#)),
        ("stressDetails", format!(r#"{{"calendarDate":"2017-03-23","stressValuesArray":[[{pairs}]]}}"#)),
        ("sleeps", format!(r#"{{"startTimeInSeconds":1,"durationInSeconds":1,"timeOffsetSleepSpo2":{{{samples}}}}}"#)),
        ("dailies", format!("{{{members}}}")),
        ("dailies", format!("{{{same_members}}}")),
        ("dailies", format!(r#"{{"calendarDate":"2017-03-23","steps":{deep}}}"#)),
        ("dailies", format!(r#"{{"calendarDate":"2017-03-23","steps":{digits}}}"#)),
        ("dailies", format!(r#"{{"calendarDate":"{escapes}","summaryId":"{escapes}"}}"#)),
        ("activities", format!(r#"{{"startTimeInSeconds":1,"durationInSeconds":1,"activityType":"{escapes}"}}"#)),
        ("userPermissionsChange", format!(r#"{{"permissions":[{permissions}]}}"#)),
        ("sleeps", deep.clone()),
        ("sleeps", format!(r#"{{"startTimeInSeconds":1,"durationInSeconds":1,"overallSleepScore":{{{members}}}}}"#)),
    ] {
        drop(garmin(event_type, &item));
        drop(map(Provider::Strava, event_type, item.as_bytes()));
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn an_item_of_too_many_members_is_refused() {
    let members = |count: usize| (0..count).map(|number| format!(r#""m{number}":1"#)).collect::<Vec<_>>().join(",");
    assert_eq!(garmin("dailies", &format!("{{{}}}", members(MEMBERS_MAX + 1))), Err(Unmappable::TooManyMembers { max: MEMBERS_MAX }));
    let most = format!(r#"{{"calendarDate":"2017-03-23","steps":1,{}}}"#, members(MEMBERS_MAX - 2));
    assert!(garmin("dailies", &most).is_ok());
}

#[test]
fn what_is_kept_beside_a_metric_is_bounded() {
    let padding = "x".repeat(RAW_BYTES_MAX);
    let mapped =
        garmin("sleeps", &format!(r#"{{"startTimeInSeconds":1,"durationInSeconds":1,"padding":"{padding}"}}"#)).expect("it is good");
    let Effect::Metrics(drafts) = mapped.effect else { panic!("it has a metric") };
    assert_eq!(drafts[0].raw, None);
    assert!(mapped.missing.iter().any(|missing| missing.to_string() == "`raw_payload_json` is too large to be kept with the metric"));
}

#[test]
fn texts_are_kept_short_and_without_control_characters() {
    let item = format!(r#"{{"startTimeInSeconds":1,"durationInSeconds":1,"activityType":"a\u0000\n{}"}}"#, "é".repeat(1_000));
    let Ok(Effect::Metrics(drafts)) = garmin("activities", &item).map(|mapped| mapped.effect) else { panic!("it has a metric") };
    assert_eq!(drafts[0].details, Some(format!(r#"{{"type":"a{}"}}"#, "é".repeat(63))));
}

#[test]
fn numbers_out_of_all_bounds_are_not_used() {
    for number in ["1e308", "-1e308", "1e999", "9223372036854775807", "NaN", "-0.5"] {
        let item = format!(r#"{{"startTimeInSeconds":{number},"durationInSeconds":{number}}}"#);
        assert!(garmin("sleeps", &item).is_err(), "{number}");
        let item = format!(r#"{{"startTimeInSeconds":1,"durationInSeconds":{number}}}"#);
        assert!(garmin("activities", &item).is_err(), "{number}");
    }
}

/// Texts that are cut and changed at random still end in an answer.
#[test]
fn no_text_makes_the_mapping_fail() {
    let whole = r#"{"userId":9876543210123456789,"summaryId":"s","calendarDate":"2016-01-10","durationInSeconds":15264,"startTimeInSeconds":1452419581,
        "timeOffsetSleepSpo2":{"0":95,"60":96},"overallSleepScore":{"value":87},"timeOffsetStressLevelValues":{"0":18},"vo2Max":48.0,"steps":5,
        "permissions":["A"],"callbackURL":7,"object_type":"activity","aspect_type":"create","object_id":1,"start_date":"2018-02-16T14:52:54Z"}"#;
    let (asked, athlete) = (RecordId::of("1").expect("it is good"), ExternalUserId::parse("2").expect("it is good"));
    let types = ["sleeps", "stressDetails", "userMetrics", "dailies", "activities", "deregistrations", "userPermissionsChange", "hrv"];
    let try_all = |bytes: &[u8]| {
        for event_type in types {
            drop(map(Provider::Garmin, event_type, bytes));
        }
        drop(map(Provider::Strava, "activity.create", bytes));
        drop(map_activity(bytes, &asked, &athlete));
    };
    for at in 0..whole.len() {
        try_all(&whole.as_bytes()[..at]);
        for byte in [0, b'"', b'{', b'[', b'9', b'-', 0xff] {
            let mut bytes = whole.as_bytes().to_vec();
            bytes[at] = byte;
            try_all(&bytes);
        }
    }
}
