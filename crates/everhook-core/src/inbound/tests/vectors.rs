//! Signatures that providers or their libraries publish.

use super::{NOW, Sent, accepted, custom, refused, secrets, verifier_of};
use crate::{
    inbound::{Credentials, RecipeFields, fields::NONE},
    time::Timestamp,
};

#[test]
fn github_and_bitbucket() {
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let verifier = verifier_of("github", &secrets(&["It's a Secret to Everybody"]));
    let sent =
        Sent::post("Hello, World!").with("X-Hub-Signature-256", signature).with("X-GitHub-Event", "push").with("X-GitHub-Delivery", "d-1");
    let item = accepted(sent.read(&verifier, NOW)).items.remove(0);
    assert_eq!((item.event_type.as_str(), item.id.as_deref()), ("push", Some("d-1")));

    // Bitbucket publishes the same vector under the older name of the header; its bodies are JSON.
    let fields = RecipeFields { mac: "sha256 hex", sig: "X-Hub-Signature prefix=sha256=", over: "{body}", body: "any", ..NONE };
    let sent = Sent::post("Hello, World!").with("X-Hub-Signature", signature);
    accepted(sent.read(&custom(&fields, &secrets(&["It's a Secret to Everybody"])), NOW));
}

#[test]
fn slack() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&\
                user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F\
                96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let verifier = verifier_of("slack", &secrets(&["8f742231b10e8888abcd99yyyzzz85a5"]));
    let sent = Sent::post(body)
        .with("X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503")
        .with("X-Slack-Request-Timestamp", "1531420618")
        .with("content-type", "application/x-www-form-urlencoded");
    let item = accepted(sent.read(&verifier, Timestamp::from_secs(1_531_420_618 + 300))).items.remove(0);
    assert_eq!(item.body.len(), body.len());
    assert_eq!(item.content_type.as_deref(), Some("application/x-www-form-urlencoded"));
    let refusal = refused(sent.read(&verifier, Timestamp::from_secs(1_531_420_618 + 412)));
    assert_eq!((refusal.status(), refusal.reason()), (401, "timestamp_too_old"));
    assert_eq!(refusal.detail(), "the timestamp is 412 s old; at most 300 s are accepted");
}

#[test]
fn twilio_with_and_without_a_port() {
    let body = "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212";
    let verifier = verifier_of("twilio", &secrets(&["12345"]));
    for url in ["https://mycompany.com/myapp.php?foo=1&bar=2", "https://mycompany.com:443/myapp.php?foo=1&bar=2"] {
        let sent = Sent::post(body)
            .to(url)
            .with("X-Twilio-Signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8=")
            .with("content-type", "application/x-www-form-urlencoded");
        let item = accepted(sent.read(&verifier, NOW)).items.remove(0);
        assert_eq!((item.event_type.as_str(), item.id.as_deref()), ("twilio", Some("CA1234567890ABCDE")), "{url}");
    }
    let other =
        Sent::post(body).to("https://mycompany.com/myapp.php?foo=1&bar=3").with("X-Twilio-Signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8=");
    assert_eq!(refused(other.with("content-type", "application/x-www-form-urlencoded").read(&verifier, NOW)).status(), 401);
}

#[test]
fn twilio_signs_json_through_its_hash_in_the_url() {
    let verifier = verifier_of("twilio", &secrets(&["12345"]));
    let body = r#"{"property": "value", "boolean": true}"#;
    let hash = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620";
    let url = format!("https://mycompany.com/myapp.php?bodySHA256={hash}");
    let signature = super::signers::b64(super::signers::hmac1(b"12345", url.as_bytes()));
    let sent = Sent::post(body).to(&url).with("X-Twilio-Signature", &signature).with("content-type", "application/json");
    accepted(sent.read(&verifier, NOW));
    let forged = Sent { body: b"{}".to_vec(), ..sent.clone() };
    assert_eq!(refused(forged.read(&verifier, NOW)).reason(), "bad_signature");
    // Without the hash in the URL, nothing would sign the body.
    let bare = "https://mycompany.com/myapp.php";
    let signature = super::signers::b64(super::signers::hmac1(b"12345", bare.as_bytes()));
    let unsigned = Sent::post(body).to(bare).with("X-Twilio-Signature", &signature).with("content-type", "application/json");
    assert_eq!(refused(unsigned.read(&verifier, NOW)).reason(), "missing_part");
}

#[test]
fn standard_webhooks() {
    let verifier = verifier_of("standard", &secrets(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]));
    let sent = Sent::post(r#"{"test": 2432232314}"#)
        .with("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
        .with("webhook-timestamp", "1614265330")
        .with("webhook-signature", "v1a,xyz v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let item = accepted(sent.read(&verifier, Timestamp::from_secs(1_614_265_330))).items.remove(0);
    assert_eq!(item.id.as_deref(), Some("msg_p5jXN8AQM9LWM0D4loKWxJek"));
    assert_eq!(item.event_type.as_str(), "standard");
}

#[test]
fn what_the_standard_library_signs_is_accepted() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = r#"{"type":"a.b","data":{}}"#;
    let signature = standardwebhooks::Webhook::new(secret).unwrap().sign("msg_1", NOW.as_secs(), body.as_bytes()).unwrap();
    let sent = Sent::post(body)
        .with("webhook-id", "msg_1")
        .with("webhook-timestamp", NOW.as_secs().to_string())
        .with("webhook-signature", signature);
    let item = accepted(sent.read(&verifier_of("standard", &secrets(&[secret])), NOW)).items.remove(0);
    assert_eq!(item.event_type.as_str(), "a.b");
}

#[test]
fn adyen() {
    let item = r#"{"pspReference":"7914073381342284","merchantAccountCode":"TestMerchant","merchantReference":"TestPayment-1407325143704","amount":{"value":1130,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true","additionalData":{"hmacSignature":"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="}}"#;
    let body = format!(r#"{{"live":"false","notificationItems":[{{"NotificationRequestItem":{item}}}]}}"#);
    let verifier = verifier_of("adyen", &secrets(&["44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"]));
    let accepted = accepted(Sent::post(body).read(&verifier, NOW));
    assert_eq!((accepted.reply.status, accepted.reply.body.as_slice()), (200, b"[accepted]".as_slice()));
    assert_eq!(accepted.items[0].id.as_deref(), Some("7914073381342284:AUTHORISATION"));
    assert_eq!(accepted.items[0].body, item.as_bytes());
}

#[test]
fn sendgrid() {
    // From the tests of the provider's library.
    let key =
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";
    let body = "[{\"email\":\"hello@world.com\",\"event\":\"dropped\",\"reason\":\"Bounced Address\",\"sg_event_id\":\"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA\",\"sg_message_id\":\"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0\",\"smtp-id\":\"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>\",\"timestamp\":1600112492}]\r\n";
    let sent = Sent::post(body)
        .with(
            "X-Twilio-Email-Event-Webhook-Signature",
            "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=",
        )
        .with("X-Twilio-Email-Event-Webhook-Timestamp", "1600112502");
    let items = accepted(sent.read(&verifier_of("sendgrid", &secrets(&[key])), NOW)).items;
    assert_eq!((items.len(), items[0].event_type.as_str()), (1, "dropped"));
}

#[test]
fn hubspot_v1_and_v2() {
    // The examples of the provider's documentation: `secret + body`, and `secret + method + URL + body`.
    let body = r#"[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1564113600000,"subscriptionType":"contact.creation","attemptNumber":0,"objectId":123,"changeSource":"CRM","changeFlag":"NEW","appId":54321}]"#;
    let sent = Sent::post(body).with("X-HubSpot-Signature", "232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de");
    let item = accepted(sent.read(&verifier_of("hubspot-v1", &secrets(&["yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy"])), NOW)).items.remove(0);
    assert_eq!(
        (item.event_type.as_str(), item.id.as_deref(), item.external_user.as_deref()),
        ("contact.creation", Some("1"), Some("62515"))
    );
}

#[test]
fn a_tiny_crc_and_a_url_with_percent_codes() {
    let fields = RecipeFields { mac: "sha256 hex", sig: "X-S", over: "{crc32}", ..NONE };
    let signature = super::signers::hex(super::signers::hmac256(b"secret", b"2745614147"));
    accepted(Sent::post("{}").with("X-S", signature).read(&custom(&fields, &secrets(&["secret"])), NOW));

    let fields = RecipeFields { mac: "sha256 hex", sig: "X-S", over: "{url}", url: "hubspot", ..NONE };
    let signature = super::signers::hex(super::signers::hmac256(b"secret", "https://a.example/b?c=d:e/f%20%25g%".as_bytes()));
    let sent = Sent::post("{}").to("https://a.example/b?c=d%3Ae%2f%66%20%25g%".replace("%66", "f").as_str()).with("X-S", signature);
    accepted(sent.read(&custom(&fields, &Credentials { ..secrets(&["secret"]) }), NOW));
}
