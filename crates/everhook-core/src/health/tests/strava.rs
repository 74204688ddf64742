//! Strava's events, and the activities that are fetched for them.

use super::lines;
use crate::{
    health::{ActivityChange, Effect, KeptRaw, Unmappable, map, map_activity},
    model::health::{ExternalUserId, Provider, RecordId, Vo2maxSport},
};

fn effect(item: &str) -> Result<Effect, Unmappable> {
    map(Provider::Strava, "whatever", item.as_bytes()).map(|mapped| mapped.effect)
}

#[test]
fn an_event_says_which_activity_to_fetch_or_to_remove() {
    let activity = |change| Ok(Effect::Activity { id: RecordId::of("1360128428").expect("it is good"), change });
    for (aspect, updates, change) in [
        ("create", r#","updates":{}"#, ActivityChange::Fetch),
        ("create", "", ActivityChange::Fetch),
        ("update", r#","updates":{"title":"Messy"}"#, ActivityChange::Fetch),
        ("update", r#","updates":{"private":"true"}"#, ActivityChange::Fetch),
        ("update", r#","updates":{"type":"Ride"}"#, ActivityChange::Fetch),
        ("update", r#","updates":[]"#, ActivityChange::Fetch),
        ("delete", r#","updates":{}"#, ActivityChange::Delete),
    ] {
        for id in ["1360128428", r#""1360128428""#] {
            let item = format!(
                r#"{{"object_type":"activity","object_id":{id},"aspect_type":"{aspect}"{updates},"owner_id":134815,"subscription_id":"120475","event_time":1516126040}}"#
            );
            assert_eq!(effect(&item), activity(change), "{item}");
        }
    }
}

#[test]
fn only_an_athlete_who_is_no_longer_authorized_is_deauthorized() {
    for (updates, expected) in [
        (r#"{"authorized":"false"}"#, Effect::Deauthorized),
        (r#"{"authorized":false}"#, Effect::Deauthorized),
        (r#"{"authorized":"true"}"#, Effect::KeptRaw(KeptRaw::AthleteChange)),
        (r#"{"authorized":null}"#, Effect::KeptRaw(KeptRaw::AthleteChange)),
        (r#"{"weight":"70"}"#, Effect::KeptRaw(KeptRaw::AthleteChange)),
        ("{}", Effect::KeptRaw(KeptRaw::AthleteChange)),
        ("null", Effect::KeptRaw(KeptRaw::AthleteChange)),
    ] {
        let item =
            format!(r#"{{"object_type":"athlete","object_id":134815,"aspect_type":"update","updates":{updates},"owner_id":134815}}"#);
        assert_eq!(effect(&item), Ok(expected), "{item}");
    }
}

#[test]
fn an_id_that_is_no_number_becomes_no_request() {
    for id in [r#""1/../../athlete""#, r#""""#, "-1", "1.5", "null", "{}", r#""123456789012345678901""#] {
        let item = format!(r#"{{"object_type":"activity","object_id":{id},"aspect_type":"create"}}"#);
        assert!(matches!(effect(&item), Err(Unmappable::NothingUsable { .. })), "{item}");
    }
    assert!(effect(r#"{"object_type":"activity","object_id":18446744073709551615,"aspect_type":"create"}"#).is_ok());
    assert_eq!(effect(r#"{"object_type":"segment","aspect_type":"create"}"#), Ok(Effect::KeptRaw(KeptRaw::UnknownType)));
    assert_eq!(effect(r#"{"object_type":"activity","object_id":1,"aspect_type":"x"}"#), Ok(Effect::KeptRaw(KeptRaw::UnknownType)));
    assert!(effect("{}").is_err());
}

fn fetched(answer: &str) -> Result<(Vec<String>, Vec<String>), Unmappable> {
    let (asked, athlete) = (RecordId::of("1360128428").expect("it is good"), ExternalUserId::parse("134815").expect("it is good"));
    map_activity(answer.as_bytes(), &asked, &athlete).map(|mapped| lines(&mapped))
}

#[test]
fn a_fetched_activity_ends_when_it_had_elapsed() {
    let (metrics, missing) = fetched(
        r#"{"resource_state":3,"id":1360128428,"athlete":{"id":134815,"resource_state":1},"name":"Ride","distance":28099,"moving_time":4207,
            "elapsed_time":4410,"total_elevation_gain":516,"type":"Ride","sport_type":"MountainBikeRide","start_date":"2018-02-16T14:52:54Z",
            "start_date_local":"2018-02-16T06:52:54Z","average_heartrate":140.3,"calories":870.2,"map":{"polyline":"ki{eFvqfiVqAW"}}"#,
    )
    .expect("it is an activity");
    assert_eq!(
        metrics,
        [concat!(
            "activity 2018-02-16T14:52:54Z 2018-02-16T16:06:24Z 4207 seconds ",
            r#"{"type":"MountainBikeRide","distance":28099,"avgHeartRate":140.3,"calories":870.2,"elevationGain":516} 1360128428"#
        )]
    );
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_partial_activity_gives_what_it_has() {
    let (metrics, missing) =
        fetched(r#"{"moving_time":60,"type":"Run","start_date":"2018-02-16T14:52:54Z","distance":null}"#).expect("it is one");
    assert_eq!(metrics, [r#"activity 2018-02-16T14:52:54Z 2018-02-16T14:53:54Z 60 seconds {"type":"Run"} 1360128428"#]);
    assert_eq!(missing, ["`elapsed_time` is missing", "`distance` is missing"]);
    let (metrics, _) = fetched(r#"{"elapsed_time":60,"start_date":"2018-02-16T14:52:54Z"}"#).expect("it is one");
    assert_eq!(metrics, ["activity 2018-02-16T14:52:54Z 2018-02-16T14:53:54Z none seconds - 1360128428"]);
}

#[test]
fn an_estimate_of_oxygen_uptake_is_a_metric_of_its_own() {
    for (sport, expected) in [("Run", Vo2maxSport::Running), ("EBikeRide", Vo2maxSport::Cycling)] {
        let answer =
            format!(r#"{{"moving_time":60,"elapsed_time":60,"sport_type":"{sport}","start_date":"2018-02-16T14:52:54Z","vo2_max":51.2}}"#);
        let (asked, athlete) = (RecordId::of("1").expect("it is good"), ExternalUserId::parse("2").expect("it is good"));
        let Ok(Effect::Metrics(drafts)) = map_activity(answer.as_bytes(), &asked, &athlete).map(|mapped| mapped.effect) else {
            panic!("{sport}")
        };
        assert_eq!((drafts.len(), drafts[1].value, drafts[1].sport), (2, Some(51.2), Some(expected)));
    }
}

#[test]
fn an_activity_of_somebody_else_is_not_taken() {
    let answer = |id: &str, athlete: &str| {
        format!(r#"{{"id":{id},"athlete":{athlete},"moving_time":60,"elapsed_time":60,"start_date":"2018-02-16T14:52:54Z"}}"#)
    };
    assert!(fetched(&answer("1360128428", r#"{"id":134815}"#)).is_ok());
    assert!(fetched(&answer(r#""1360128428""#, r#"{"id":"134815"}"#)).is_ok());
    assert_eq!(fetched(&answer("1360128429", r#"{"id":134815}"#)), Err(Unmappable::SomebodyElses));
    assert_eq!(fetched(&answer("1360128428", r#"{"id":134816}"#)), Err(Unmappable::SomebodyElses));
}

#[test]
fn an_answer_that_is_no_activity_is_malformed() {
    for answer in
        ["", "[]", "<html>", r#"{"message":"Rate Limit Exceeded"}"#, r#"{"start_date":"2018-02-16T14:52:54Z"}"#, r#"{"moving_time":60}"#]
    {
        assert!(fetched(answer).is_err(), "{answer}");
    }
}
