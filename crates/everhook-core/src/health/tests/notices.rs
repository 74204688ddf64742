//! What Garmin says about users, pings, and types that become no metric.

use super::garmin;
use crate::{
    health::{Effect, GarminType, KeptRaw, Unmappable},
    time::Timestamp,
};

#[test]
fn a_deregistration_is_known_in_every_spelling() {
    for event_type in ["deregistration", "deregistrations", "userDeregistration", "De-Registrations"] {
        assert_eq!(garmin(event_type, r#"{"userId":"u"}"#).map(|mapped| mapped.effect), Ok(Effect::Deregistration), "{event_type}");
    }
}

#[test]
fn a_permission_change_says_what_is_on() {
    for event_type in ["userPermissionsChange", "user_permission", "user-permission", "userPermissions"] {
        let mapped = garmin(
            event_type,
            r#"{"userId":"u","summaryId":"x","permissions":["HEALTH_EXPORT","ACTIVITY_EXPORT","NEW_ONE"],"changeTimeInSeconds":1613065860}"#,
        )
        .expect(event_type);
        let Effect::PermissionChange { permissions: Some(permissions), changed_at } = mapped.effect else { panic!("{event_type}") };
        assert_eq!(permissions.iter().collect::<Vec<_>>(), ["ACTIVITY_EXPORT", "HEALTH_EXPORT", "NEW_ONE"]);
        assert_eq!(changed_at, Some(Timestamp::from_secs(1_613_065_860)));
    }
}

#[test]
fn a_permission_change_without_permissions_still_says_that_something_changed() {
    for (item, missing) in [
        (r#"{"userId":"u","changeTimeInSeconds":1613065860}"#, "`permissions` is missing"),
        (r#"{"userId":"u","changeTimeInSeconds":1613065860,"permissions":"ALL"}"#, "`permissions` cannot be read"),
    ] {
        let mapped = garmin("userPermissionsChange", item).expect(item);
        assert!(matches!(mapped.effect, Effect::PermissionChange { permissions: None, .. }), "{item}");
        assert_eq!(mapped.missing.iter().map(ToString::to_string).collect::<Vec<_>>(), [missing]);
    }
    let everything_off = garmin("userPermissionsChange", r#"{"userId":"u","permissions":[],"changeTimeInSeconds":1}"#).expect("it is good");
    assert!(matches!(everything_off.effect, Effect::PermissionChange { permissions: Some(none), .. } if none.is_empty()));
}

#[test]
fn a_ping_says_where_the_data_is() {
    let url = "https://apis.garmin.com/wellness-api/rest/dailies?uploadStartTimeInSeconds=1234567890&uploadEndTimeInSeconds=1234567900&token=XXXXX";
    for (event_type, data) in [("dailies", GarminType::Dailies), ("sleeps", GarminType::Sleeps), ("activities", GarminType::Activities)] {
        let item = format!(r#"{{"userId":"9876543210","callbackURL":"{url}"}}"#);
        let expected = Effect::Ping { data, callback_url: url.to_owned() };
        assert_eq!(garmin(event_type, &item).map(|mapped| mapped.effect), Ok(expected));
    }
    for bad in ["7".to_owned(), r#""""#.to_owned(), format!(r#""https://{}""#, "x".repeat(3_000))] {
        let error = garmin("dailies", &format!(r#"{{"callbackURL":{bad}}}"#)).expect_err(&bad);
        assert_eq!(error.to_string(), "the item has nothing that can be used: `callbackURL` cannot be read");
    }
}

#[test]
fn types_that_become_no_metric_are_kept_as_they_came() {
    let known = "activityDetails activityFiles moveIQActivities moveIQ moveiq pulseox pulseOx respiration allDayRespiration bodyComps bloodPressure \
                 bloodPressures hrv skinTemp healthSnapshot mct thirdPartyDailies epochs";
    // A ping of such a type is not fetched either: there is nothing to make of the answer.
    for item in [r#"{"userId":"u"}"#, r#"{"userId":"u","callbackURL":"https://apis.garmin.com/wellness-api/rest/activityFile?id=1"}"#] {
        for event_type in known.split_ascii_whitespace() {
            let effect = garmin(event_type, item).map(|mapped| mapped.effect);
            assert_eq!(effect, Ok(Effect::KeptRaw(KeptRaw::NoMetricOfType)), "{event_type}");
        }
    }
    let effect = garmin("gravity", r#"{"userId":"u"}"#).map(|mapped| mapped.effect);
    assert_eq!(effect, Ok(Effect::KeptRaw(KeptRaw::UnknownType)));
}

#[test]
fn what_is_no_object_is_malformed_whatever_its_type() {
    for event_type in ["sleeps", "deregistrations", "userPermissionsChange", "hrv", "gravity"] {
        for item in ["", "[]", "7", r#""x""#, "null", "{", r#"{"a":1}x"#, "\u{feff}{}"] {
            assert_eq!(garmin(event_type, item), Err(Unmappable::NotAnObject), "{event_type} {item}");
        }
    }
}
