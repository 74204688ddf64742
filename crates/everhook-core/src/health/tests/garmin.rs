//! Garmin's data, in the shapes that it pushes and in the older spellings.

use super::{assert_garmin, garmin};
use crate::{
    health::{Effect, Unmappable},
    model::health::{MetricDraft, Vo2maxSport},
};

#[test]
fn a_night_becomes_its_time_asleep_with_its_stages() {
    // The end is the start and everything that the night consists of; the day is that of waking and places nothing.
    assert_garmin(
        "sleeps",
        r#"{"userId":"u","summaryId":"s-1","calendarDate":"2016-01-10","durationInSeconds":15264,"startTimeInSeconds":1452419581,
            "startTimeOffsetInSeconds":7200,"unmeasurableSleepDurationInSeconds":60,"deepSleepDurationInSeconds":11231,
            "lightSleepDurationInSeconds":3541,"remSleepInSeconds":0,"awakeDurationInSeconds":492,
            "sleepLevelsMap":{"deep":[{"startTimeInSeconds":1452419581,"endTimeInSeconds":1452478724}]},"validation":"Device",
            "overallSleepScore":{"value":87,"qualifierKey":"GOOD"},"naps":[{"napStartTimeInSeconds":1}]}"#,
        &[concat!(
            "sleep 2016-01-10T09:53:01Z 2016-01-10T14:16:37Z 15264 seconds ",
            r#"{"deep":11231,"light":3541,"rem":0,"awake":492,"sleepScore":87} s-1"#
        )],
        &[],
    );
}

#[test]
fn a_night_with_oxygen_saturation_becomes_two_metrics() {
    assert_garmin(
        "sleeps",
        r#"{"userId":9876543210123456789,"summaryId":"s-2","durationInSeconds":11900,"startTimeInSeconds":1452467493,
            "unmeasurableSleepDurationInSeconds":0,"deepSleepDurationInSeconds":9446,"lightSleepDurationInSeconds":0,"remSleepInSeconds":2142,
            "awakeDurationInSeconds":312,"timeOffsetSleepSpo2":{"0":95,"60":96,"120":97,"180":93,"240":94,"300":-1,"360":95},
            "timeOffsetSleepRespiration":{"60":15.31}}"#,
        &[
            r#"sleep 2016-01-10T23:11:33Z 2016-01-11T02:35:05Z 11900 seconds {"deep":9446,"light":0,"rem":2142,"awake":312} s-2"#,
            r#"spo2 2016-01-10T23:11:33Z 2016-01-11T02:35:05Z 95 percent {"min":93,"max":97,"samples":6} s-2"#,
        ],
        &["`overallSleepScore` is missing"],
    );
}

#[test]
fn nights_are_read_in_the_older_spellings() {
    assert_garmin(
        "sleep",
        r#"{"sleepStartTimestampGMT":1452419581000,"sleepEndTimestampGMT":1452435337000,"sleepTimeSeconds":"15264","deepSleepSeconds":11231,
            "lightSleepSeconds":3541,"remSleepSeconds":5,"awakeDurationSeconds":492,"overallScore":"71","averageSpO2Value":96.5,"summaryId":5001968355}"#,
        &[
            concat!(
                "sleep 2016-01-10T09:53:01Z 2016-01-10T14:15:37Z 15264 seconds ",
                r#"{"deep":11231,"light":3541,"rem":5,"awake":492,"sleepScore":71} 5001968355"#
            ),
            "spo2 2016-01-10T09:53:01Z 2016-01-10T14:15:37Z 96.5 percent - 5001968355",
        ],
        &[],
    );
}

#[test]
fn stress_is_the_mean_of_what_was_measured() {
    let beside = r#"{"min":18,"max":51,"bodyBattery":59,"bodyBatteryMin":55,"bodyBatteryMax":59} s"#;
    assert_garmin(
        "stressDetails",
        r#"{"userId":"u","summaryId":"s","startTimeInSeconds":1490245200,"calendarDate":"2017-03-23","durationInSeconds":540,
            "timeOffsetStressLevelValues":{"0":18,"180":51,"360":28,"540":29,"720":-1,"900":-2},
            "timeOffsetBodyBatteryValues":{"0":55,"180":56,"360":59}}"#,
        &[&format!("stress 2017-03-23T00:00:00Z 2017-03-23T23:59:59Z 31.5 score {beside}")],
        &[],
    );
    // The same as arrays; the body battery's last is the latest, wherever it stands.
    assert_garmin(
        "stress-details",
        r#"{"summaryId":"s","calendarDate":"2017-03-23","stressValuesArray":[[1490245200000,18],[1490245380000,51],[1490245560000,28],
            [1490245740000,29],[1490245920000,-1]],"bodyBatteryValuesArray":[[3,"MEASURED",59,2.0],[1,"MEASURED",55,2.0],[2,"MEASURED",56,2.0]]}"#,
        &[&format!("stress 2017-03-23T00:00:00Z 2017-03-23T23:59:59Z 31.5 score {beside}")],
        &[],
    );
}

#[test]
fn stress_without_samples_is_what_the_provider_counted() {
    for average in ["averageStressLevel", "averageStresslevel", "avgStressLevel"] {
        assert_garmin(
            "stressDetails",
            &format!(
                r#"{{"summaryId":"s","calendarDate":"2017-03-23","{average}":43,"maxStressLevel":87,"bodyBatteryMostRecentValue":20,
                     "bodyBatteryLowestValue":18,"bodyBatteryHighestValue":90,"restingHeartRateInBeatsPerMinute":51}}"#
            ),
            &[concat!(
                "stress 2017-03-23T00:00:00Z 2017-03-23T23:59:59Z 43 score ",
                r#"{"max":87,"bodyBattery":20,"bodyBatteryMin":18,"bodyBatteryMax":90,"restingHeartRate":51} s"#
            )],
            &["`timeOffsetStressLevelValues` is missing"],
        );
    }
}

#[test]
fn stress_that_was_not_measured_is_no_number() {
    assert_garmin(
        "stressDetails",
        r#"{"summaryId":"s","calendarDate":"2017-03-23","timeOffsetStressLevelValues":{"0":-1,"180":-2},"averageStressLevel":-1}"#,
        &["stress 2017-03-23T00:00:00Z 2017-03-23T23:59:59Z none score - s"],
        &["`timeOffsetStressLevelValues` was not measured", "`timeOffsetBodyBatteryValues` is missing"],
    );
}

#[test]
fn the_samples_of_stress_are_kept_beside_it() {
    let samples = r#"{"0":18, "180":51}"#;
    let mapped = garmin("stressDetails", &format!(r#"{{"calendarDate":"2017-03-23","timeOffsetStressLevelValues":{samples}}}"#));
    let Ok(Effect::Metrics(drafts)) = mapped.map(|mapped| mapped.effect) else { panic!("it has a metric") };
    assert_eq!(drafts[0].raw.as_deref(), Some(samples.as_bytes()));
}

#[test]
fn oxygen_uptake_of_running_and_cycling_are_two_metrics() {
    assert_garmin(
        "userMetrics",
        r#"{"userId":"u","summaryId":"s","calendarDate":"2017-03-23","vo2Max":48.0,"vo2MaxCycling":"51.5","enhanced":true,"fitnessAge":32}"#,
        &[
            r#"vo2max 2017-03-23T00:00:00Z 2017-03-23T00:00:00Z 48 ml/kg/min {"type":"running","fitnessAge":32} s"#,
            r#"vo2max 2017-03-23T00:00:00Z 2017-03-23T00:00:00Z 51.5 ml/kg/min {"type":"cycling","fitnessAge":32} s#cycling"#,
        ],
        &[],
    );
    assert_garmin(
        "user_metrics",
        r#"{"summaryId":7,"calendarDate":"2017-03-23","vo2MaxCycling":51}"#,
        &[r#"vo2max 2017-03-23T00:00:00Z 2017-03-23T00:00:00Z 51 ml/kg/min {"type":"cycling"} 7#cycling"#],
        &["`fitnessAge` is missing"],
    );
    let mapped = garmin("userMetrics", r#"{"calendarDate":"2017-03-23","vo2Max":48,"vo2MaxCycling":51}"#).expect("it is good");
    let Effect::Metrics(drafts) = mapped.effect else { panic!("it has metrics") };
    let sports: Vec<_> = drafts.iter().map(|draft: &MetricDraft| draft.sport).collect();
    assert_eq!(sports, [Some(Vo2maxSport::Running), Some(Vo2maxSport::Cycling)]);
}

#[test]
fn a_day_becomes_four_metrics() {
    let metrics = [
        "steps 2016-01-11T00:00:00Z 2016-01-11T23:59:59Z 4210 steps - s",
        "resting_hr 2016-01-11T00:00:00Z 2016-01-11T23:59:59Z 64 bpm - s",
        "calories 2016-01-11T00:00:00Z 2016-01-11T23:59:59Z 321 kcal - s",
        "distance 2016-01-11T00:00:00Z 2016-01-11T23:59:59Z 3146.5 meters - s",
    ];
    for item in [
        r#"{"userId":"u","summaryId":"s","calendarDate":"2016-01-11","activityType":"WALKING","activeKilocalories":321,"bmrKilocalories":1731,
            "steps":4210,"distanceInMeters":3146.5,"restingHeartRateInBeatsPerMinute":64,"startTimeInSeconds":1452470400,
            "startTimeOffsetInSeconds":3600,"timeOffsetHeartRateSamples":{"15":75},"averageStresslevel":43}"#,
        r#"{"summaryId":"s","calendarDate":"2016-01-11","activeKilocalories":"321","totalSteps":4210,"totalDistanceMeters":3146.5,"restingHeartRate":64}"#,
        // Without its date, a day is that of its start by the user's clock.
        r#"{"summaryId":"s","calendarDate":null,"startTimeInSeconds":1452466800,"startTimeOffsetInSeconds":3600,"activeKilocalories":321,"steps":4210,
            "distanceInMeters":3146.5,"restingHeartRateInBeatsPerMinute":64}"#,
        r#"{"summaryId":"s","startTimeInSeconds":1452585600,"startTimeOffsetInSeconds":-36000,"activeKilocalories":321,"steps":4210,
            "distanceInMeters":3146.5,"restingHeartRateInBeatsPerMinute":64}"#,
    ] {
        let missing: &[&str] = if item.contains(r#""calendarDate":""#) { &[] } else { &["`calendarDate` is missing"] };
        assert_garmin("dailies", item, &metrics, missing);
    }
}

#[test]
fn a_partial_day_gives_what_it_has() {
    assert_garmin(
        "dailies",
        r#"{"summaryId":"s","calendarDate":"2016-01-11","steps":0,"restingHeartRateInBeatsPerMinute":0,"activeKilocalories":"many","distanceInMeters":-3}"#,
        &["steps 2016-01-11T00:00:00Z 2016-01-11T23:59:59Z 0 steps - s"],
        &["`restingHeartRateInBeatsPerMinute` cannot be read", "`activeKilocalories` cannot be read", "`distanceInMeters` cannot be read"],
    );
}

#[test]
fn a_workout_becomes_one_metric() {
    for event_type in ["activities", "manuallyUpdatedActivities"] {
        assert_garmin(
            event_type,
            r#"{"userId":"u","summaryId":"5001968355","activityId":5001968355,"activityType":"RUNNING","startTimeInSeconds":1452470400,
                "startTimeOffsetInSeconds":0,"durationInSeconds":11580,"averageHeartRateInBeatsPerMinute":144,"distanceInMeters":519818.125,
                "activeKilocalories":448,"totalElevationGainInMeters":12,"deviceName":"Forerunner 910XT"}"#,
            &[concat!(
                "activity 2016-01-11T00:00:00Z 2016-01-11T03:13:00Z 11580 seconds ",
                r#"{"type":"RUNNING","distance":519818.125,"avgHeartRate":144,"calories":448,"elevationGain":12} 5001968355"#
            )],
            &[],
        );
    }
    // Without the id of the summary, that of the activity names it.
    assert_garmin(
        "activity",
        r#"{"activityId":9876543210123456789,"startTimeInSeconds":"1452506094","durationInSeconds":1824}"#,
        &["activity 2016-01-11T09:54:54Z 2016-01-11T10:25:18Z 1824 seconds - 9876543210123456789"],
        &[
            "`activityType` is missing",
            "`distanceInMeters` is missing",
            "`averageHeartRateInBeatsPerMinute` is missing",
            "`activeKilocalories` is missing",
        ],
    );
}

#[test]
fn what_cannot_be_placed_is_malformed_and_says_why() {
    for (event_type, item, text) in [
        ("sleeps", r#"{"summaryId":"s","durationInSeconds":1,"awakeDurationInSeconds":2}"#, "`startTimeInSeconds` is missing"),
        ("sleeps", r#"{"startTimeInSeconds":1452419581,"awakeDurationInSeconds":2}"#, "`durationInSeconds` is missing"),
        ("stressDetails", r#"{"timeOffsetStressLevelValues":{"0":18}}"#, "`calendarDate` is missing"),
        ("stressDetails", r#"{"calendarDate":"2017-02-30","timeOffsetStressLevelValues":{"0":18}}"#, "`calendarDate` cannot be read"),
        (
            "stressDetails",
            r#"{"calendarDate":"2017-03-23"}"#,
            "`timeOffsetStressLevelValues` is missing, `timeOffsetBodyBatteryValues` is missing",
        ),
        ("userMetrics", r#"{"calendarDate":"2017-03-23","fitnessAge":32}"#, "`vo2Max` is missing"),
        ("userMetrics", r#"{"calendarDate":"2017-03-23","vo2Max":0}"#, "`vo2Max` cannot be read"),
        ("activities", r#"{"durationInSeconds":5}"#, "`startTimeInSeconds` is missing"),
        ("activities", r#"{"startTimeInSeconds":1452419581}"#, "`durationInSeconds` is missing"),
        (
            "dailies",
            r#"{"calendarDate":"2016-01-11","summaryId":"s"}"#,
            "`steps` is missing, `restingHeartRateInBeatsPerMinute` is missing, `activeKilocalories` is missing, `distanceInMeters` is missing",
        ),
    ] {
        let error = garmin(event_type, item).expect_err(item);
        assert!(matches!(error, Unmappable::NothingUsable { .. }), "{item}");
        assert_eq!(error.to_string(), format!("the item has nothing that can be used: {text}"), "{item}");
    }
}
