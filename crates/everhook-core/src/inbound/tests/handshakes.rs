//! Every shape of handshake: what it answers, and what it does not take for one.

use super::{
    NOW, Sent, accepted, custom, golden, refused, secrets,
    signers::{b64, hex, hmac1, hmac256, sha1, sha256},
    verifier_of,
};
use crate::inbound::{Credentials, HANDSHAKES, HandshakeEffect, Reading, RecipeFields, Reply, Verifier, fields::NONE};

const SECRET: &str = "a secret of the source";

#[track_caller]
fn answered(reading: Reading) -> Reply {
    match reading {
        Reading::Handshake(handshake) => {
            assert_eq!(handshake.effect, None);
            handshake.reply
        }
        other => panic!("no handshake: {other:?}"),
    }
}

#[track_caller]
fn assert_answer(reply: &Reply, content_type: &str, body: &str) {
    let header = |name: &str| reply.headers.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str());
    assert_eq!(String::from_utf8_lossy(&reply.body), body);
    assert_eq!((reply.status, header("content-type"), header("x-content-type-options")), (200, Some(content_type), Some("nosniff")));
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

fn with_token(name: &str) -> Verifier {
    let credentials = Credentials { verify_token: Some("tok".to_owned()), app_id: Some("pub".to_owned()), ..secrets(&[SECRET]) };
    verifier_of(name, &credentials)
}

#[test]
fn a_get_is_answered_with_its_challenge_as_text() {
    for (name, query) in [
        ("meta", "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=tok"),
        ("dropbox", "challenge=1158201444"),
        ("nylas", "challenge=1158201444"),
    ] {
        assert_answer(&answered(Sent::get(query).read(&with_token(name), NOW)), TEXT, "1158201444");
    }
}

#[test]
fn a_get_is_answered_with_its_challenge_as_json() {
    for (name, query, body) in [
        (
            "strava",
            "hub.mode=subscribe&hub.challenge=15f7d1a91c1f40f8a748fd134752feb3&hub.verify_token=tok",
            r#"{"hub.challenge":"15f7d1a91c1f40f8a748fd134752feb3"}"#,
        ),
        ("oura", "verification_token=tok&challenge=a%22b", r#"{"challenge":"a\"b"}"#),
    ] {
        assert_answer(&answered(Sent::get(query).read(&with_token(name), NOW)), JSON, body);
    }
    let okta = Sent::get("").with("X-Okta-Verification-Challenge", "abc");
    assert_answer(&answered(okta.read(&with_token("okta"), NOW)), JSON, r#"{"verification":"abc"}"#);
}

#[test]
fn a_wrong_or_missing_verify_token_is_refused() {
    for query in ["hub.challenge=1&hub.verify_token=other", "hub.challenge=1", "hub.challenge=1&hub.verify_token=tok&hub.verify_token=x"] {
        let refusal = refused(Sent::get(query).read(&with_token("strava"), NOW));
        assert_eq!((refusal.status(), refusal.reason()), (401, "bad_handshake"), "{query}");
    }
    let without = verifier_of("strava", &Credentials::default());
    assert_eq!(refused(Sent::get("hub.challenge=1&hub.verify_token=").read(&without, NOW)).status(), 401);
}

#[test]
fn a_challenge_is_printable_ascii_of_at_most_a_kibibyte() {
    let verifier = with_token("dropbox");
    let longest = "x".repeat(1_024);
    assert_answer(&answered(Sent::get(&format!("challenge={longest}")).read(&verifier, NOW)), TEXT, &longest);
    for wrong in ["", "%00", "%0d%0aSet-Cookie:a", "%c3%a9", "%ff", &"x".repeat(1_025)] {
        assert_eq!(refused(Sent::get(&format!("challenge={wrong}")).read(&verifier, NOW)).status(), 401, "{wrong}");
    }
    // Repeated as text that no browser takes for a page.
    assert_answer(&answered(Sent::get("challenge=%3Cscript%3E").read(&verifier, NOW)), TEXT, "<script>");
    assert_eq!(refused(Sent::get("other=1").read(&verifier, NOW)).status(), 405);
}

#[test]
fn a_challenge_is_signed() {
    let x = answered(Sent::get("crc_token=NDc2MDYx-_%3D").read(&with_token("x"), NOW));
    assert_answer(&x, JSON, &format!(r#"{{"response_token":"sha256={}"}}"#, b64(hmac256(SECRET.as_bytes(), b"NDc2MDYx-_="))));
    let code = "890e4665-4dfe-4ab1-b689-ed553bceeed0";
    let linkedin = answered(Sent::get(&format!("challengeCode={code}")).read(&with_token("linkedin"), NOW));
    assert_answer(
        &linkedin,
        JSON,
        &format!(r#"{{"challengeCode":"{code}","challengeResponse":"{}"}}"#, hex(hmac256(SECRET.as_bytes(), code.as_bytes()))),
    );
    let challenge = "20f9f8ed05f77439fe955c977e4c8a53";
    let braintree = answered(Sent::get(&format!("bt_challenge={challenge}")).read(&with_token("braintree"), NOW));
    assert_answer(&braintree, TEXT, &format!("pub|{}", hex(hmac1(&sha1(SECRET.as_bytes()), challenge.as_bytes()))));
    let fields = RecipeFields { handshake: "get-hmac ebay", ..NONE };
    let url = "https://hooks.example.com/in/src_1";
    let credentials = Credentials { verify_token: Some("tok".to_owned()), public_url: Some(url.to_owned()), ..Credentials::default() };
    let ebay = answered(Sent::get("challenge_code=abc").read(&custom(&fields, &credentials), NOW));
    assert_answer(&ebay, JSON, &format!(r#"{{"challengeResponse":"{}"}}"#, hex(sha256(format!("abctok{url}").as_bytes()))));
}

#[test]
fn nobody_can_have_an_event_signed_by_a_handshake() {
    for (name, query) in [
        ("x", "crc_token=%7B%22a%22%3A1%7D"),
        ("x", "crc_token="),
        ("x", "crc_token=%3D%3D"),
        ("linkedin", "challengeCode=hmacsha256%3D%7B%7D"),
        ("braintree", "bt_challenge=abc"),
        ("braintree", "bt_challenge=PG5vdGlmaWNhdGlvbi8%2B"),
    ] {
        assert_eq!(refused(Sent::get(query).read(&with_token(name), NOW)).status(), 401, "{name} {query}");
    }
    let body = r#"{"event":"endpoint.url_validation","payload":{"plainToken":"v0:1700000000:{}"}}"#;
    assert_eq!(refused(Sent::post(body).read(&with_token("zoom"), NOW)).status(), 401);
}

#[test]
fn a_get_is_compared() {
    let status = |name: &str, query: &str| answered(Sent::get(query).read(&with_token(name), NOW)).status;
    assert_eq!((status("fitbit", "verify=tok"), status("fitbit", "verify=other"), status("mailchimp", "")), (204, 404, 200));
    let without = verifier_of("fitbit", &secrets(&[SECRET]));
    assert_eq!(answered(Sent::get("verify=").read(&without, NOW)).status, 404);
}

#[test]
fn a_post_is_answered_with_its_challenge() {
    let slack = Sent::post(r#"{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV","type":"url_verification"}"#);
    assert_answer(&answered(slack.read(&with_token("slack"), NOW)), TEXT, "3eZbrw1aBm2rZgRNFdxV");
    let monday = Sent::post(r#"{"challenge":"3eZbrw1a"}"#);
    assert_answer(&answered(monday.read(&with_token("monday"), NOW)), JSON, r#"{"challenge":"3eZbrw1a"}"#);
    let graph = Sent::post("").to("https://hooks.example.com/in/src_1?validationToken=Validation%3a+a+b");
    assert_answer(&answered(graph.read(&with_token("microsoft-graph"), NOW)), TEXT, "Validation: a b");
    // What looks like one but is an event must be signed like one.
    for (name, body) in
        [("slack", r#"{"type":"event_callback","text":"url_verification","challenge":"a"}"#), ("monday", r#"{"challenge":"a","event":{}}"#)]
    {
        assert_eq!(refused(Sent::post(body).read(&with_token(name), NOW)).status(), 401, "{name}");
    }
}

#[test]
fn signed_handshakes_are_answered_once_their_signature_was_right() {
    let body = r#"{"challenge":"pogchamp-kappa-360noscope-vohiyo"}"#;
    let time = "2023-11-14T22:13:20Z";
    let signature = format!("sha256={}", hex(hmac256(SECRET.as_bytes(), format!("m1{time}{body}").as_bytes())));
    let twitch = Sent::post(body)
        .with("Twitch-Eventsub-Message-Id", "m1")
        .with("Twitch-Eventsub-Message-Timestamp", time)
        .with("Twitch-Eventsub-Message-Type", "webhook_callback_verification");
    assert_eq!(refused(twitch.clone().read(&with_token("twitch"), NOW)).status(), 401);
    let reply = answered(twitch.with("Twitch-Eventsub-Message-Signature", signature).read(&with_token("twitch"), NOW));
    assert_answer(&reply, TEXT, "pogchamp-kappa-360noscope-vohiyo");

    let grid =
        Sent::post(r#"[{"id":"1","eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"512d38b6"}}]"#)
            .with("aeg-event-type", "SubscriptionValidation");
    assert_eq!(refused(grid.read(&with_token("azure-event-grid"), NOW)).status(), 401);
    let grid = grid.to(&format!("https://hooks.example.com/in/src_1?key={}", SECRET.replace(' ', "%20")));
    assert_answer(&answered(grid.read(&with_token("azure-event-grid"), NOW)), JSON, r#"{"validationResponse":"512d38b6"}"#);

    let mut discord = golden::golden("discord");
    assert_eq!(accepted(discord.sent.read(&verifier_of("discord", &discord.credentials), NOW)).reply.status, 204);
    discord.sent.body = br#"{"type":1}"#.to_vec();
    assert_eq!(refused(discord.sent.read(&verifier_of("discord", &discord.credentials), NOW)).status(), 401);
    let pair = aws_lc_rs::signature::Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    discord.sent.headers[0].1 = hex(pair.sign(br#"1700000000{"type":1}"#)).into_bytes();
    assert_answer(&answered(discord.sent.read(&verifier_of("discord", &discord.credentials), NOW)), JSON, r#"{"type":1}"#);
}

#[test]
fn zoom_gets_its_token_signed() {
    let token = "qgg8vlvZRS6UYooatFL8Aw";
    let body = format!(r#"{{"payload":{{"plainToken":"{token}"}},"event_ts":1654503849680,"event":"endpoint.url_validation"}}"#);
    let reply = answered(Sent::post(body).read(&with_token("zoom"), NOW));
    let signed = hex(hmac256(SECRET.as_bytes(), token.as_bytes()));
    assert_answer(&reply, JSON, &format!(r#"{{"encryptedToken":"{signed}","plainToken":"{token}"}}"#));
}

#[test]
fn a_secret_is_captured_only_while_somebody_waits_for_it() {
    let key = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81";
    let asana = Sent::post("{}").with("X-Hook-Secret", key);
    let notion = Sent::post(format!(r#"{{"verification_token":"{key}"}}"#));
    for (name, sent) in [("asana", asana.clone()), ("notion", notion)] {
        let verifier = verifier_of(name, &Credentials::default());
        let refusal = refused(sent.read(&verifier, NOW));
        assert_eq!((refusal.status(), refusal.reason()), (401, "bad_handshake"), "{name}");
        let Reading::Handshake(handshake) = (Sent { awaiting_handshake: true, ..sent }).read(&verifier, NOW) else { panic!("{name}") };
        let Some(HandshakeEffect::Capture(secret)) = handshake.effect else { panic!("{name}") };
        assert_eq!((secret.expose().as_str(), handshake.reply.status), (key, 200));
        let echoed = handshake.reply.headers.iter().find(|(header, _)| *header == "x-hook-secret").map(|(_, value)| value.as_str());
        assert_eq!(echoed, (name == "asana").then_some(key));
    }
    for short in ["short", "with a blank in it and long enough"] {
        let sent = Sent { awaiting_handshake: true, ..Sent::post("{}").with("X-Hook-Secret", short) };
        assert_eq!(refused(sent.read(&verifier_of("asana", &Credentials::default()), NOW)).status(), 401, "{short}");
    }
    // An event of Notion may have such a member beside others.
    let event = Sent::post(format!(r#"{{"verification_token":"{key}","type":"page.created"}}"#));
    assert_eq!(refused(event.read(&verifier_of("notion", &secrets(&[key])), NOW)).reason(), "missing_signature");
}

#[test]
fn a_head_and_an_options_request_are_answered() {
    for name in ["trello", "withings", "intercom", "mandrill"] {
        assert_eq!(answered(Sent { method: "HEAD", ..Sent::get("") }.read(&with_token(name), NOW)).status, 200, "{name}");
    }
    let options = Sent { method: "OPTIONS", ..Sent::get("") };
    let reply = answered(options.clone().with("WebHook-Request-Origin", "eventemitter.example.com").read(&with_token("cloudevents"), NOW));
    let headers = [("webhook-allowed-origin", "eventemitter.example.com"), ("webhook-allowed-rate", "1000"), ("allow", "POST")];
    assert_eq!(reply.headers, headers.map(|(name, value)| (name, value.to_owned())));
    assert_eq!(refused(options.clone().read(&with_token("cloudevents"), NOW)).status(), 405);
    assert_eq!(refused(options.with("WebHook-Request-Origin", "a\r\nSet-Cookie: b").read(&with_token("cloudevents"), NOW)).status(), 401);
}

#[test]
fn pings_are_answered_and_not_stored() {
    let polar = Sent::post(r#"{"timestamp":"2023-11-14T22:13:20Z","event":"PING"}"#);
    assert_eq!(answered(polar.read(&with_token("polar"), NOW)).status, 200);
    assert_eq!(refused(Sent::post(r#"{"event":"EXERCISE","note":"PING"}"#).read(&with_token("polar"), NOW)).status(), 401);
    assert_eq!(answered(Sent::post("webhook_id=17").read(&with_token("woocommerce"), NOW)).status, 200);
    for other in ["webhook_id=", "webhook_id=17&a=b", "webhook_id=x"] {
        assert_eq!(refused(Sent::post(other).read(&with_token("woocommerce"), NOW)).status(), 401, "{other}");
    }
}

#[test]
fn a_subscription_of_sns_is_confirmed_where_its_signature_and_its_topic_are_right() {
    let (right, verifier) = golden::subscription("https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t");
    let read = |golden: &golden::Golden, verifier: &Verifier| {
        golden.sent.read_by(|request| verifier.read_with_key(request, NOW, golden.key.as_ref().unwrap()))
    };
    let Reading::Handshake(handshake) = read(&right, &verifier) else { panic!() };
    let url = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t".to_owned();
    assert_eq!(handshake.effect, Some(HandshakeEffect::Visit(url)));
    let (elsewhere, verifier) = golden::subscription("https://evil.example/?Action=ConfirmSubscription&Token=t");
    assert_eq!(refused(read(&elsewhere, &verifier)).reason(), "bad_handshake");
    let stranger = verifier_of("aws-sns", &Credentials { app_id: Some("arn:other".to_owned()), ..Credentials::default() });
    assert_eq!(refused(read(&right, &stranger)).reason(), "not_ours");
    let mut forged = right;
    forged.sent.body = String::from_utf8(forged.sent.body).unwrap().replace("Token=t", "Token=u").into_bytes();
    assert_eq!(refused(read(&forged, &verifier)).reason(), "bad_signature");
}

#[test]
fn there_are_twelve_shapes_and_each_says_how_it_is_written() {
    assert_eq!(HANDSHAKES.len(), 12);
    assert!(HANDSHAKES.iter().all(|(name, how)| how.starts_with(name)));
}
