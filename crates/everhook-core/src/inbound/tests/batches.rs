//! Batches: items with their own bytes, type, id and user. Garmin and Strava in the shapes that they push.

use super::{NOW, Sent, accepted, custom, golden, refused, secrets, signers, verifier_of};
use crate::inbound::{Credentials, RecipeFields, fields::NONE};

fn unsigned(name: &str) -> crate::inbound::Verifier {
    verifier_of(name, &Credentials::default())
}

#[test]
fn an_envelope_of_several_arrays_becomes_one_item_for_each_element() {
    let daily = r#"{ "userId": "sub-1", "summaryId":"EXAMPLE 67891", "steps": 4210.0 }"#;
    let sleep = r#"{"userId":9876543210123456789,"summaryId":"x"}"#;
    let body = format!("{{\n  \"dailies\": [ {daily},\n {sleep} ], \"sleeps\": [{sleep}], \"empty\": [], \"note\": 1 }}");
    let accepted = accepted(Sent::post(&body).read(&unsigned("garmin"), NOW));
    let seen: Vec<(&str, Option<&str>, &[u8])> =
        accepted.items.iter().map(|item| (item.event_type.as_str(), item.external_user.as_deref(), item.body.as_ref())).collect();
    assert_eq!(
        seen,
        [
            ("dailies", Some("sub-1"), daily.as_bytes()),
            ("dailies", Some("9876543210123456789"), sleep.as_bytes()),
            ("sleeps", Some("9876543210123456789"), sleep.as_bytes()),
        ]
    );
    assert_eq!((accepted.reply.status, accepted.items[0].content_type.as_deref()), (200, None));
}

#[test]
fn every_shape_of_garmin_is_accepted() {
    let shapes = [
        (
            "activities",
            r#"{"userId":"sub-1","userAccessToken":"t","summaryId":"5001968355","activityId":5001968355,"averageSpeed":2.88}"#,
            "sub-1",
        ),
        (
            "dailies",
            r#"{"userId":"9876543210","callbackURL":"https://apis.garmin.com/wellness-api/rest/dailies?token=XXXXX"}"#,
            "9876543210",
        ),
        (
            "sleeps",
            r#"{"userId":"sub-2","userAccessToken":"token-1","sleepLevelsMap":{"deep":[{"startTimeInSeconds":1}]},"naps":[]}"#,
            "sub-2",
        ),
        ("stressDetails", r#"{"userId":"u","timeOffsetStressLevelValues":{"0":18,"180":51}}"#, "u"),
        ("userMetrics", r#"{"userId":"u","vo2Max":48.0,"enhanced":true}"#, "u"),
        ("deregistrations", r#"{"userId":"u"}"#, "u"),
        (
            "userPermissionsChange",
            r#"{"userId":"u","summaryId":"x","permissions":["ACTIVITY_EXPORT"],"changeTimeInSeconds":1613065860}"#,
            "u",
        ),
    ];
    let others = "manuallyUpdatedActivities activityDetails activityFiles moveIQActivities moveIQ moveiq pulseox pulseOx respiration allDayRespiration \
                  bodyComps bloodPressure bloodPressures hrv skinTemp healthSnapshot mct thirdPartyDailies epochs";
    for (key, item, user) in shapes.into_iter().chain(others.split_ascii_whitespace().map(|key| (key, r#"{"userId":"u"}"#, "u"))) {
        let items = accepted(Sent::post(format!(r#"{{"{key}":[{item}]}}"#)).read(&unsigned("garmin"), NOW)).items;
        let [found] = items.as_slice() else { panic!("{key}: {items:?}") };
        assert_eq!((found.event_type.as_str(), found.external_user.as_deref(), found.body.as_ref()), (key, Some(user), item.as_bytes()));
        let id = (key == "userPermissionsChange").then_some("userPermissionsChange:u:1613065860");
        assert_eq!(found.id.as_deref(), id);
    }
}

#[test]
fn a_bare_object_of_garmin_is_one_item_of_the_type_in_the_path() {
    let sent = Sent { path_type: Some("deregistration".to_owned()), ..Sent::post(r#"{"userId":"u1"}"#) };
    let items = accepted(sent.read(&unsigned("garmin"), NOW)).items;
    assert_eq!((items.len(), items[0].event_type.as_str(), items[0].external_user.as_deref()), (1, "deregistration", Some("u1")));
    for body in ["{}", "[]", "7", "", "{\"dailies\":[1]}", "{\"dailies\":", "{\"dailies\":[{}]}x"] {
        assert_eq!(refused(Sent::post(body).read(&unsigned("garmin"), NOW)).status(), 400, "{body}");
    }
}

#[test]
fn every_shape_of_strava_is_accepted_and_unknown_ones_are_not() {
    let event = |object: &str, aspect: &str, updates: &str| {
        format!(
            r#"{{"object_type":"{object}","object_id":1360128428,"aspect_type":"{aspect}","updates":{updates},"owner_id":134815,"subscription_id":120475,"event_time":1516126040}}"#
        )
    };
    let verifier = verifier_of("strava", &Credentials { subscription_id: Some("120475".to_owned()), ..Credentials::default() });
    let known = [
        ("activity", "create", "{}"),
        ("activity", "delete", "{}"),
        ("activity", "update", r#"{"private":true}"#),
        ("activity", "update", r#"{"title":"Messy"}"#),
        ("athlete", "update", r#"{"authorized":"false"}"#),
    ];
    for (object, aspect, updates) in known {
        let body = event(object, aspect, updates);
        for body in [body.replace("120475", "\"120475\""), body] {
            let item = accepted(Sent::post(&body).read(&verifier, NOW)).items.remove(0);
            assert_eq!((item.event_type.as_str(), item.external_user.as_deref()), (format!("{object}.{aspect}").as_str(), Some("134815")));
            assert_eq!(item.body, body.as_bytes());
        }
    }
    let refusals = [
        (event("segment", "create", "{}"), 400, "unknown_object_type"),
        (event("activity", "renamed", "{}"), 400, "unknown_aspect_type"),
        (event("activity", "create", "{}").replace("120475", "120476"), 401, "not_ours"),
        (event("activity", "create", "{}").replace("subscription_id", "subscription"), 401, "not_ours"),
        ("{}".to_owned(), 400, "unknown_object_type"),
        ("not json".to_owned(), 400, "unreadable_body"),
    ];
    for (body, status, reason) in refusals {
        let refusal = refused(Sent::post(&body).read(&verifier, NOW));
        assert_eq!((refusal.status(), refusal.reason()), (status, reason), "{body}: {refusal}");
    }
    accepted(Sent::post(event("activity", "create", "{}")).read(&unsigned("strava"), NOW));
}

#[test]
fn where_a_secret_is_set_a_signature_that_is_there_must_be_right() {
    let strava = golden::golden("strava");
    let verifier = verifier_of("strava", &strava.credentials);
    accepted(strava.sent.read(&verifier, NOW));
    let forged = Sent { headers: Vec::new(), ..strava.sent.clone() }.with("X-Strava-Signature", "t=1700000000,v1=00");
    assert_eq!(refused(forged.read(&verifier, NOW)).reason(), "bad_signature");
    accepted(Sent { headers: Vec::new(), ..strava.sent }.read(&verifier, NOW));
}

#[test]
fn one_wrong_signature_among_the_items_refuses_all_of_them() {
    let right = golden::golden("adyen");
    let verifier = verifier_of("adyen", &right.credentials);
    let body = String::from_utf8(right.sent.body.clone()).unwrap();
    let item = &body[body.find("{\"NotificationRequestItem").unwrap()..body.len() - 2];
    let both = body.replace(item, &format!("{item},{item}"));
    assert_eq!(accepted(Sent::post(&both).read(&verifier, NOW)).items.len(), 2);
    let forged = body.replace(item, &format!("{item},{}", item.replace("1130", "1131")));
    assert_eq!(refused(Sent::post(forged).read(&verifier, NOW)).reason(), "bad_signature");
    // Nothing in an empty batch proves whose it is, and a member that is there twice is read differently by different readers.
    assert_eq!(refused(Sent::post(r#"{"notificationItems":[]}"#).read(&verifier, NOW)).reason(), "unreadable_body");
    let twice = body.replace("\"pspReference\":\"psp1\"", "\"pspReference\":\"psp1\",\"pspReference\":\"psp2\"");
    assert_eq!(refused(Sent::post(twice).read(&verifier, NOW)).status(), 400);
}

#[test]
fn items_know_values_of_their_envelope() {
    let meta = golden::golden("meta");
    let items = accepted(meta.sent.read(&verifier_of("meta", &meta.credentials), NOW)).items;
    let seen: Vec<_> = items.iter().map(|item| (item.event_type.as_str(), item.external_user.as_deref())).collect();
    assert_eq!(seen, [("page.feed", Some("1")), ("page", Some("2"))]);
}

#[test]
fn an_empty_batch_is_accepted_where_the_request_is_signed() {
    let body = r#"{"events":[]}"#;
    let signature = signers::hex(signers::hmac256(b"a secret of asana", body.as_bytes()));
    let sent = Sent::post(body).with("X-Hook-Signature", signature);
    assert!(accepted(sent.read(&verifier_of("asana", &secrets(&["a secret of asana"])), NOW)).items.is_empty());
}

#[test]
fn a_batch_has_at_most_ten_thousand_items() {
    let fields = RecipeFields { each: "/*", event_type: "/t", ..NONE };
    let body = |count: usize| format!("[{}]", vec![r#"{"t":"a"}"#; count].join(","));
    assert_eq!(accepted(Sent::post(body(10_000)).read(&custom(&fields, &Credentials::default()), NOW)).items.len(), 10_000);
    let refusal = refused(Sent::post(body(10_001)).read(&custom(&fields, &Credentials::default()), NOW));
    assert_eq!((refusal.status(), refusal.reason()), (413, "too_many_items"));
}

#[test]
fn types_and_ids_of_any_text_can_be_stored() {
    let fields = RecipeFields { event_type: "/t", id: "/i", user: "/u", ..NONE };
    let verifier = custom(&fields, &Credentials::default());
    let read = |body: &str| accepted(Sent::post(body).read(&verifier, NOW)).items.remove(0);
    assert_eq!(read(r#"{"t":"orders/create"}"#).event_type.as_str(), "orders.create");
    assert_eq!(read(r#"{"t":"größe 1"}"#).event_type.as_str(), "gr..e.1");
    assert_eq!(read(&format!(r#"{{"t":"{}"}}"#, "a".repeat(300))).event_type.as_str().len(), 128);
    assert_eq!(read(r#"{"t":""}"#).event_type.as_str(), "received");
    assert_eq!(read(r#"{"i":18446744073709551615,"u":-9223372036854775808}"#).id.as_deref(), Some("18446744073709551615"));
    let long = read(&format!(r#"{{"i":"{}"}}"#, "a".repeat(257))).id.unwrap();
    assert!(long.starts_with("sha256:") && long.len() == 71, "{long}");
    assert!(read("{\"i\":\"a\\u0000b\"}").id.unwrap().starts_with("sha256:"));
    for absent in [r#"{"i":null}"#, r#"{"i":{}}"#, r#"{"i":[1]}"#, r#"{"i":""}"#] {
        assert_eq!(read(absent).id, None, "{absent}");
    }
}
