//! Rules that hold for every kind: timestamps, repeated headers, secrets, sizes, answers, tokens, fetched keys, what makes two items the same.

use std::{sync::Arc, time::Duration};

use super::{
    NOW, Sent, accepted, custom, golden, refused, secrets,
    signers::{hex, hmac256, jwt},
    verifier_of,
};
use crate::{
    inbound::{
        Credentials, FetchedKey, KeyAnswer, KeyRequest, Reading, Recipe, RecipeFields, SECRETS_MAX, Verifier, dedupe_key, fields::NONE,
        kind,
    },
    model::DedupeBy,
    time::Timestamp,
};

const STRIPE: &str = "a secret of stripe";

fn stripe(time: &str) -> Sent {
    let signature = hex(hmac256(STRIPE.as_bytes(), format!("{time}.{{}}").as_bytes()));
    Sent::post("{}").with("Stripe-Signature", format!("t={time},v0=00,v1={signature}"))
}

#[test]
fn a_timestamp_may_be_as_old_or_as_new_as_the_tolerance() {
    let verifier = verifier_of("stripe", &secrets(&[STRIPE]));
    for at in [-300, -1, 0, 299, 300] {
        accepted(stripe(&(NOW.as_secs() + at).to_string()).read(&verifier, NOW));
    }
    let old = refused(stripe(&(NOW.as_secs() - 301).to_string()).read(&verifier, NOW));
    assert_eq!((old.reason(), old.detail().as_str()), ("timestamp_too_old", "the timestamp is 301 s old; at most 300 s are accepted"));
    let new = refused(stripe(&(NOW.as_secs() + 301).to_string()).read(&verifier, NOW));
    assert_eq!((new.reason(), new.status()), ("timestamp_too_new", 401));
    let wider = Verifier::new(Arc::new(kind("stripe").unwrap().compile()), &secrets(&[STRIPE]), Some(Duration::from_secs(600))).unwrap();
    accepted(stripe(&(NOW.as_secs() - 600).to_string()).read(&wider, NOW));
}

#[test]
fn a_tolerance_is_bounded_and_only_possible_where_the_time_is_signed() {
    let set = |name: &str, seconds: u64| {
        Verifier::new(Arc::new(kind(name).unwrap().compile()), &secrets(&["s"]), Some(Duration::from_secs(seconds)))
    };
    for (name, seconds) in [("github", 300), ("sentry", 300), ("stripe", 0), ("stripe", 8 * 24 * 3_600)] {
        assert_eq!(set(name, seconds).unwrap_err()[0].field, "tolerance", "{name} {seconds}");
    }
}

#[test]
fn a_timestamp_is_ascii_digits_and_nothing_else() {
    let verifier = verifier_of("stripe", &secrets(&[STRIPE]));
    for time in ["", "+1700000000", "-1", " 1700000000", "1700000000.0", "1.7e9", "١٧٠٠٠٠٠٠٠٠", "0x6553f100", "9999999999999999999999"]
    {
        let refusal = refused(stripe(time).read(&verifier, NOW));
        assert_eq!(refusal.status(), 401, "{time}");
        assert_eq!(refusal.reason(), "unreadable_timestamp", "{time}");
    }
    let refusal = refused(stripe("999999999999999999").read(&verifier, NOW));
    assert_eq!(refusal.reason(), "timestamp_too_new");
}

#[test]
fn a_header_that_is_there_twice_must_say_the_same() {
    let github = golden::golden("github");
    let verifier = verifier_of("github", &github.credentials);
    let (name, value) = github.sent.headers[0].clone();
    accepted(github.sent.clone().with(&name, &value).read(&verifier, NOW));
    for sent in [
        github.sent.clone().with(&name, "sha256=00"),
        Sent { headers: Vec::new(), ..github.sent.clone() }.with(&name, "sha256=00").with(&name, &value),
    ] {
        let refusal = refused(sent.read(&verifier, NOW));
        assert_eq!((refusal.status(), refusal.reason()), (401, "unreadable_signature"));
    }
    let standard = golden::golden("standard");
    let verifier = verifier_of("standard", &standard.credentials);
    for name in ["webhook-id", "webhook-timestamp"] {
        assert_eq!(refused(standard.sent.clone().with(name, "1").read(&verifier, NOW)).status(), 401, "{name}");
    }
    let pairs = Sent::post("{}").with("Stripe-Signature", "t=1700000000,t=1,v1=00");
    assert_eq!(refused(pairs.read(&verifier_of("stripe", &secrets(&[STRIPE])), NOW)).reason(), "unreadable_timestamp");
}

#[test]
fn a_list_has_at_most_ten_signatures() {
    let standard = golden::golden("standard");
    let verifier = verifier_of("standard", &standard.credentials);
    let right = String::from_utf8(standard.sent.headers[2].1.clone()).unwrap();
    let list = |before: usize| {
        let mut sent = standard.sent.clone();
        sent.headers[2].1 = format!("{}{right}", "v1,AAAA ".repeat(before)).into_bytes();
        sent
    };
    accepted(list(9).read(&verifier, NOW));
    assert_eq!(refused(list(10).read(&verifier, NOW)).reason(), "unreadable_signature");
    assert_eq!(refused(list(100_000).read(&verifier, NOW)).reason(), "unreadable_signature");
    let docusign = golden::golden("docusign");
    let (_, value) = docusign.sent.headers[0].clone();
    let far = Sent { headers: Vec::new(), ..docusign.sent }.with("X-DocuSign-Signature-1", "AAAA").with("X-DocuSign-Signature-100", value);
    accepted(far.read(&verifier_of("docusign", &docusign.credentials), NOW));
}

#[test]
fn secrets_that_are_none_are_refused_also_once_they_are_decoded() {
    let faults =
        |name: &str, given: &[&str]| Verifier::new(Arc::new(kind(name).unwrap().compile()), &secrets(given), None).map(drop).unwrap_err();
    let cases: [(&str, &[&str]); 13] = [
        ("github", &[]),
        ("github", &[""]),
        ("github", &[" \t\n"]),
        ("github", &["\0\0"]),
        ("github", &["right", " "]),
        ("standard", &["whsec_"]),
        ("standard", &["whsec_AAAA"]),
        ("standard", &["whsec_not base64"]),
        ("adyen", &["0000"]),
        ("adyen", &["abc"]),
        ("discord", &["00ff"]),
        ("sendgrid", &["AAAA"]),
        ("wix", &["-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"]),
    ];
    for (name, given) in cases {
        let faults = faults(name, given);
        assert_eq!(faults[0].field, "secrets", "{name} {given:?}: {faults:?}");
        assert!(!faults[0].reason.contains("right") || given.len() == 1, "a message repeats no secret: {faults:?}");
    }
    let long = "x".repeat(5_000);
    assert_eq!(faults("github", &[&long])[0].field, "secrets");
    assert_eq!(faults("github", &["a"; SECRETS_MAX + 1])[0].field, "secrets");
    assert_eq!(faults("none", &["a"])[0].field, "secrets");
    Verifier::new(Arc::new(kind("github").unwrap().compile()), &secrets(&["a"; SECRETS_MAX]), None).unwrap();
    let blank = Credentials { verify_token: Some(" ".to_owned()), ..secrets(&["a"]) };
    assert_eq!(Verifier::new(Arc::new(kind("meta").unwrap().compile()), &blank, None).unwrap_err()[0].field, "verify_token");
}

#[test]
fn debug_output_shows_no_secret() {
    let credentials = Credentials { verify_token: Some("very-secret".to_owned()), ..secrets(&["very-secret"]) };
    let verifier = verifier_of("github", &credentials);
    assert!(!format!("{credentials:?} {verifier:?}").contains("very-secret"));
}

#[test]
fn sizes_and_methods_are_bounded() {
    let verifier = custom(&RecipeFields { max_body: "10", body: "any", ..NONE }, &Credentials::default());
    accepted(Sent::post("0123456789").read(&verifier, NOW));
    let refusal = refused(Sent::post("01234567890").read(&verifier, NOW));
    assert_eq!((refusal.status(), refusal.reason()), (413, "body_too_large"));
    for method in ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "post"] {
        assert_eq!(refused(Sent { method, ..Sent::post("") }.read(&verifier, NOW)).status(), 405, "{method}");
    }
}

#[test]
fn only_a_body_that_is_said_to_be_json_must_be_json() {
    let json = custom(&NONE, &Credentials::default());
    for body in ["", "{", "nope", "1", "\"a\"", "{\"a\":1}}", "\u{feff}{}", "{\"a\":01}"] {
        assert_eq!(refused(Sent::post(body).read(&json, NOW)).status(), 400, "{body}");
    }
    assert_eq!(refused(Sent::post(b"{\"a\":\"\xff\"}").read(&json, NOW)).status(), 400);
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    accepted(Sent::post(&deep).read(&json, NOW));
    let any = custom(&RecipeFields { body: "any", event_type: "/type", ..NONE }, &Credentials::default());
    let item = accepted(Sent::post(b"\xff<x/>").with("content-type", "text/xml").read(&any, NOW)).items.remove(0);
    assert_eq!(
        (item.event_type.as_str(), item.content_type.as_deref(), item.body.as_ref()),
        ("received", Some("text/xml"), b"\xff<x/>".as_slice())
    );
}

#[test]
fn answers_are_what_the_provider_wants() {
    let answer =
        |ok: &'static str| accepted(Sent::post("{}").read(&custom(&RecipeFields { ok, ..NONE }, &Credentials::default()), NOW)).reply;
    assert_eq!((answer("").status, answer("").body.len()), (200, 0));
    assert_eq!((answer("204").status, answer("204").headers.len()), (204, 0));
    assert_eq!(answer("200 text [accepted]").body, b"[accepted]");
    assert_eq!(answer("201 json {\"ok\": true}").body, b"{\"ok\": true}");
    assert!(String::from_utf8(answer("200 soap-ack").body).unwrap().contains("<Ack>true</Ack>"));
}

#[test]
fn claims_of_a_token_are_checked() {
    let fields = RecipeFields { jwt: "HS256 iss=a,b aud=audience exp", sig: "X-Jwt", ..NONE };
    let credentials = Credentials { audience: Some("us".to_owned()), ..secrets(&["secret of the token"]) };
    let verifier = custom(&fields, &credentials);
    let read = |header: &str, claims: &str| {
        Sent::post("{}").with("X-Jwt", jwt(header, claims, |text| hmac256(b"secret of the token", text))).read(&verifier, NOW)
    };
    const HEADER: &str = r#"{"alg":"HS256"}"#;
    accepted(read(HEADER, r#"{"iss":"b","aud":["x","us"],"exp":1699999941,"nbf":1700000060}"#));
    let wrong = [
        (r#"{"iss":"c","aud":"us","exp":1700000001}"#, "iss"),
        (r#"{"aud":"us","exp":1700000001}"#, "iss"),
        (r#"{"iss":"a","aud":"them","exp":1700000001}"#, "aud"),
        (r#"{"iss":"a","exp":1700000001}"#, "aud"),
        (r#"{"iss":"a","aud":"us"}"#, "exp"),
        (r#"{"iss":"a","aud":"us","exp":"1700000001"}"#, "exp"),
        (r#"{"iss":"a","aud":"us","exp":1699999939}"#, "exp"),
        (r#"{"iss":"a","aud":"us","exp":1700000001,"nbf":1700000061}"#, "nbf"),
    ];
    for (claims, claim) in wrong {
        let refusal = refused(read(HEADER, claims));
        assert_eq!((refusal.status(), refusal.reason()), (401, "bad_claim"), "{claims}");
        assert!(refusal.detail().contains(claim), "{claims}: {refusal}");
    }
    const RIGHT: &str = r#"{"iss":"a","aud":"us","exp":1700000001}"#;
    for header in [r#"{"alg":"none"}"#, r#"{"alg":"RS256"}"#, r#"{"alg":"hs256"}"#, "{}", r#"{"alg":"HS256","crit":["b64"]}"#, "[]"] {
        assert_eq!(refused(read(header, RIGHT)).reason(), "unreadable_signature", "{header}");
    }
}

#[test]
fn a_certificate_is_fetched_from_listed_hosts_only() {
    let sns = golden::golden("aws-sns");
    let verifier = verifier_of("aws-sns", &sns.credentials);
    let body = String::from_utf8(sns.sent.body.clone()).unwrap();
    let forbidden = [
        "http://sns.eu-west-1.amazonaws.com/a.pem",
        "https://sns.eu-west-1.amazonaws.com:8443/a.pem",
        "https://user@sns.eu-west-1.amazonaws.com/a.pem",
        "https://sns.eu-west-1.amazonaws.com.evil.example/a.pem",
        "https://sns.s3-us-west-2.amazonaws.com/a.pem",
        "https://sns.s3.amazonaws.com/a.pem",
        "https://evil.example/sns.eu-west-1.amazonaws.com/a.pem",
        "https://sns.eu-west-1.amazonaws.com@evil.example/a.pem",
        "https://169.254.169.254/a.pem",
        "file:///etc/passwd",
        "nothing",
        "",
    ];
    for url in forbidden {
        let sent = Sent::post(body.replace("https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem", url));
        let refusal = refused(sent.read(&verifier, NOW));
        assert_eq!((refusal.status(), refusal.reason()), (401, "forbidden_key_url"), "{url}");
    }
    for url in ["https://sns.us-gov-west-1.amazonaws.com/a.pem", "https://sns.cn-north-1.amazonaws.com.cn/a.pem"] {
        let sent = Sent::post(body.replace("https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem", url));
        assert!(
            matches!(sent.read(&verifier, NOW), Reading::NeedsKey(KeyRequest { url: asked, answer: KeyAnswer::Certificate }) if asked == url)
        );
        // A key that was fetched for another URL does not count.
        let reading = sent.read_by(|request| verifier.read_with_key(request, NOW, sns.key.as_ref().unwrap()));
        assert!(matches!(reading, Reading::NeedsKey(_)), "{reading:?}");
    }
}

#[test]
fn a_certificate_counts_within_its_dates() {
    let sns = golden::golden("aws-sns");
    let verifier = verifier_of("aws-sns", &sns.credentials);
    let key = sns.key.unwrap();
    let at = |text: &str| sns.sent.read_by(|request| verifier.read_with_key(request, Timestamp::parse_rfc3339(text).unwrap(), &key));
    accepted(at("2020-01-01T00:00:00Z"));
    accepted(at("2060-01-01T00:00:00Z"));
    for outside in ["2019-12-31T23:59:59Z", "2060-01-01T00:00:01Z"] {
        assert_eq!(refused(at(outside)).reason(), "unreadable_signature", "{outside}");
    }
}

#[test]
fn a_message_of_another_topic_is_refused_although_amazon_signed_it() {
    let sns = golden::golden("aws-sns");
    let verifier =
        verifier_of("aws-sns", &Credentials { app_id: Some("arn:aws:sns:eu-west-1:1:other".to_owned()), ..Credentials::default() });
    let refusal = refused(sns.sent.read_by(|request| verifier.read_with_key(request, NOW, sns.key.as_ref().unwrap())));
    assert_eq!((refusal.status(), refusal.reason()), (401, "not_ours"));
}

#[test]
fn what_is_no_certificate_and_no_set_of_keys_is_not_taken_for_one() {
    let pem = golden::certificate_pem();
    let certificate = KeyRequest { url: "https://a.example/".to_owned(), answer: KeyAnswer::Certificate };
    FetchedKey::parse(&certificate, pem.as_bytes()).unwrap();
    for answer in [
        "",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        &pem[..pem.len() / 2],
    ] {
        FetchedKey::parse(&certificate, answer.as_bytes()).unwrap_err();
    }
    let set = KeyRequest { url: "https://a.example/".to_owned(), answer: KeyAnswer::KeySet };
    let key = FetchedKey::parse(
        &set,
        br#"{"keys":[{"kid":"a","kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kid":"b","kty":"RSA","n":"AQAB","e":"AQAB"}]}"#,
    )
    .unwrap();
    assert!(key.has_key("b") && !key.has_key("a"));
    for answer in ["", "{}", "[]", "{\"keys\":7}"] {
        FetchedKey::parse(&set, answer.as_bytes()).unwrap_err();
    }
}

#[test]
fn a_source_whose_secret_comes_with_a_handshake_refuses_events_until_then() {
    let notion = golden::golden("notion");
    let verifier = verifier_of("notion", &Credentials::default());
    let refusal = refused(notion.sent.read(&verifier, NOW));
    assert_eq!((refusal.status(), refusal.reason()), (401, "no_secret"));
}

#[test]
fn items_are_told_apart_by_what_the_source_says() {
    let verifier = custom(&RecipeFields { each: "/*", id: "/id", ..NONE }, &Credentials::default());
    let sent = Sent::post(r#"[{"id":"1","n":{"m": 7}},{"id":"2","n":{"m": 7}},{"n":1}]"#).with("X-Delivery", "d-1");
    let keys = |by: &DedupeBy| {
        let mut keys = Vec::new();
        sent.read_by(|request| {
            let reading = verifier.read(request, NOW);
            let Reading::Accepted(found) = &reading else { panic!("{reading:?}") };
            keys.extend(found.items.iter().enumerate().map(|(index, item)| dedupe_key(by, request, item, index)));
            reading
        });
        keys
    };
    assert_eq!(keys(&DedupeBy::Id), [Some("1".to_owned()), Some("2".to_owned()), None]);
    let by_pointer = keys(&DedupeBy::Pointer("/n/m".to_owned()));
    assert!(by_pointer[0].is_some() && by_pointer[0] == by_pointer[1] && by_pointer[2].is_none());
    let (by_header, by_body) = (keys(&DedupeBy::Header("x-delivery".to_owned())), keys(&DedupeBy::Body));
    assert!(by_header[0].is_some() && by_header[0] != by_header[1] && by_body[0] != by_body[1]);
}

#[test]
fn the_short_form_of_hmac_says_the_same_as_a_recipe() {
    let short = crate::inbound::HmacFields { header: "X-Sig", algorithm: "sha512", encoding: "hex", prefix: "v1 = " };
    let (mac, sig) = short.mac_and_sig();
    let verifier = custom(&RecipeFields { mac: &mac, sig: &sig, over: "{body}", ..NONE }, &secrets(&["s3cret"]));
    let signature = hex(super::signers::hmac512(b"s3cret", b"{}"));
    accepted(Sent::post("{}").with("X-Sig", format!("v1 = {signature}")).read(&verifier, NOW));
    let wrong = crate::inbound::HmacFields { algorithm: "md5", prefix: "it's", ..short };
    let (mac, sig) = wrong.mac_and_sig();
    let faults = Recipe::compile(&RecipeFields { mac: &mac, sig: &sig, over: "{body}", ..NONE }).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.field).collect::<Vec<_>>(), ["mac", "sig"]);
}

#[test]
fn a_token_that_is_to_stand_in_the_body_beside_items_is_no_recipe() {
    let fields = RecipeFields { jwt: "HS256", sig: "body:/token", each: "/items/*", ..NONE };
    let faults = Recipe::compile(&fields).unwrap_err();
    assert!(faults.iter().any(|fault| fault.field == "sig"), "{faults:?}");
}

#[test]
fn a_certificate_is_not_taken_from_an_answer_that_quotes_one() {
    let certificate = KeyRequest { url: "https://a.example/".to_owned(), answer: KeyAnswer::Certificate };
    let quoted = format!("<Error>{}</Error>", golden::certificate_pem());
    FetchedKey::parse(&certificate, quoted.as_bytes()).unwrap_err();
}

#[test]
fn what_mailgun_signed_cannot_be_moved_from_its_token_to_its_timestamp() {
    let mailgun = golden::golden("mailgun");
    let verifier = verifier_of("mailgun", &mailgun.credentials);
    accepted(mailgun.sent.read(&verifier, NOW));
    let mut body: serde_json::Value = serde_json::from_slice(&mailgun.sent.body).unwrap();
    let signature = &mut body["signature"];
    let moved = format!("{}{}", signature["timestamp"].as_str().unwrap(), signature["token"].as_str().unwrap());
    (signature["timestamp"], signature["token"]) = (moved.into(), "".into());
    refused(Sent::post(body.to_string()).read(&verifier, NOW));
}
