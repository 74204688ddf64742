//! A golden request for every kind, made from a description of its own: what header, what signed text, what key.

use std::sync::LazyLock;

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};

use super::{
    Sent,
    signers::{b64, b64url, hex, hmac1, hmac256, hmac512, jwt, sha1, sha256},
};
use crate::inbound::{Credentials, FetchedKey, KeyAnswer, KeyRequest, Verifier};

/// A request that must be accepted, and what of it is signed.
#[derive(Clone, Debug)]
pub(super) struct Golden {
    pub(super) sent: Sent,
    pub(super) credentials: Credentials,
    pub(super) signs_body: bool,
    pub(super) signs_url: bool,
    /// Headers each byte of which counts.
    pub(super) signs_headers: Vec<&'static str>,
    /// Where the body, the URL or the path is not signed as a whole: texts in them each byte of which counts, each of which is there once.
    pub(super) signs_parts: Vec<Part>,
    pub(super) key: Option<FetchedKey>,
}

/// A part of a request each byte of which counts.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// A text in the body.
    Body(String),
    /// A text in the URL.
    Url(String),
    /// What follows the source in the path.
    Path,
}

pub(super) const SECRET: &str = "k7w9-Secret_of.the/source+0123456789";
const TIME_S: &str = "1700000000";
const TIME_MS: &str = "1700000000123";
const TIME_RFC: &str = "2023-11-14T22:13:20Z";
const BODY: &str = r#"{"type":"order.paid","id":"evt_1","n":12345,"é":"\u00e9"}"#;
const EVENTS: &str = r#"{"events":[{"type":"a","id":"1"},{"type":"b","id":"2"}]}"#;
const ARRAY: &str = r#"[{"type":"a","id":"1"},{"type":"b","id":"2"}]"#;

type Sign = fn(&[u8]) -> String;

/// Kinds whose signature is of the body alone: header, what stands before the signature, the signature, the body.
const OF_BODY: &[(&str, &str, &str, Sign, &str)] = &[
    ("hmac", "X-Signature", "", hex256, BODY),
    ("github", "X-Hub-Signature-256", "sha256=", hex256, BODY),
    ("bitbucket", "X-Hub-Signature", "sha256=", hex256, BODY),
    ("jira", "X-Hub-Signature", "sha256=", hex256, BODY),
    ("gitea", "X-Gitea-Signature", "", hex256, BODY),
    ("forgejo", "X-Forgejo-Signature", "", hex256, BODY),
    ("sentry", "Sentry-Hook-Signature", "", hex256, BODY),
    ("pagerduty", "X-PagerDuty-Signature", "v1=", hex256, BODY),
    ("circleci", "circleci-signature", "v1=", hex256, BODY),
    ("vercel", "x-vercel-signature", "", |body| hex(hmac1(SECRET.as_bytes(), body)), BODY),
    ("heroku", "Heroku-Webhook-Hmac-SHA256", "", base256, BODY),
    ("expo", "expo-signature", "sha1=", |body| hex(hmac1(SECRET.as_bytes(), body)), BODY),
    ("launchdarkly", "X-LD-Signature", "", hex256, BODY),
    ("hookdeck", "X-Hookdeck-Signature", "", base256, BODY),
    ("shopify", "X-Shopify-Hmac-Sha256", "", base256, BODY),
    ("razorpay", "X-Razorpay-Signature", "", hex256, BODY),
    ("lemon-squeezy", "X-Signature", "", hex256, BODY),
    ("paystack", "x-paystack-signature", "", |body| hex(hmac512(SECRET.as_bytes(), body)), BODY),
    ("gocardless", "Webhook-Signature", "", hex256, EVENTS),
    ("mollie", "X-Mollie-Signature", "sha256=", hex256, BODY),
    ("fastspring", "X-FS-Signature", "", base256, EVENTS),
    ("woocommerce", "X-WC-Webhook-Signature", "", base256, BODY),
    ("picqer", "X-Picqer-Signature", "", base256, BODY),
    ("xero", "x-xero-signature", "", base256, EVENTS),
    ("quickbooks", "intuit-signature", "", base256, BODY),
    ("alchemy", "X-Alchemy-Signature", "", hex256, BODY),
    ("uber", "X-Uber-Signature", "", hex256, BODY),
    ("nylas", "x-nylas-signature", "", hex256, BODY),
    ("pusher", "X-Pusher-Signature", "", hex256, EVENTS),
    ("line", "X-Line-Signature", "", base256, EVENTS),
    ("meta", "X-Hub-Signature-256", "sha256=", hex256, META),
    ("whatsapp", "X-Hub-Signature-256", "sha256=", hex256, META),
    ("instagram", "X-Hub-Signature-256", "sha256=", hex256, META),
    ("x", "x-twitter-webhooks-signature", "sha256=", base256, BODY),
    ("intercom", "X-Hub-Signature", "sha1=", |body| hex(hmac1(SECRET.as_bytes(), body)), BODY),
    ("attentive", "x-attentive-hmac-sha256", "", hex256, BODY),
    ("notion", "X-Notion-Signature", "sha256=", hex256, BODY),
    ("asana", "X-Hook-Signature", "", hex256, EVENTS),
    ("typeform", "Typeform-Signature", "sha256=", base256, BODY),
    ("tally", "Tally-Signature", "", base256, BODY),
    ("docusign", "X-DocuSign-Signature-3", "", base256, "<Envelope/>"),
    ("dropbox", "X-Dropbox-Signature", "", hex256, BODY),
    ("scrapfly", "X-Scrapfly-Webhook-Signature", "", |body| hex256(body).to_uppercase(), BODY),
    ("garmin", "X-Garmin-Signature", "", hex256, r#"{"dailies":[{"userId":"u1","summaryId":"s"}]}"#),
    ("polar", "Polar-Webhook-Signature", "", hex256, BODY),
    ("suunto", "X-HMAC-SHA256-Signature", "", hex256, BODY),
    ("fitbit", "X-Fitbit-Signature", "", |body| b64(hmac1(format!("{SECRET}&").as_bytes(), body)), ARRAY),
    ("linkedin", "X-LI-Signature", "", |body| hex256(&[b"hmacsha256=", body].concat()), BODY),
    ("hubspot-v1", "X-HubSpot-Signature", "", |body| hex(sha256(&[SECRET.as_bytes(), body].concat())), ARRAY),
    ("recharge", "X-Recharge-Hmac-Sha256", "", |body| hex(sha256(&[SECRET.as_bytes(), body].concat())), BODY),
    ("linear", "Linear-Signature", "", hex256, r#"{"action":"create","webhookTimestamp":1700000000123}"#),
];

const META: &str = r#"{"object":"page","entry":[{"id":"1","changes":[{"field":"feed","value":"\u00e9"}]},{"id":"2"}]}"#;

/// A kind with a timestamp among the signature's pairs: header, separator, its key, its value, the signature's key, what joins it with the body.
type OfPairs = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str, &'static str, Sign, &'static str);

/// All of them.
const OF_PAIRS: &[OfPairs] = &[
    ("stripe", "Stripe-Signature", ",", "t", TIME_S, "v1", ".", hex256, BODY),
    ("tailscale", "Tailscale-Webhook-Signature", ",", "t", TIME_S, "v1", ".", hex256, ARRAY),
    ("cloudflare-stream", "Webhook-Signature", ",", "time", TIME_S, "sig1", ".", hex256, BODY),
    ("sanity", "sanity-webhook-signature", ",", "t", TIME_MS, "v1", ".", |text| b64url(hmac256(SECRET.as_bytes(), text)), BODY),
    ("workos", "WorkOS-Signature", ", ", "t", TIME_MS, "v1", ".", hex256, BODY),
    ("paddle", "Paddle-Signature", ";", "ts", TIME_S, "h1", ":", hex256, BODY),
    ("fintoc", "Fintoc-Signature", ",", "t", TIME_S, "v1", ".", hex256, BODY),
    ("knock", "x-knock-signature", ",", "t", TIME_MS, "s", ".", base256, BODY),
    ("elevenlabs", "ElevenLabs-Signature", ",", "t", TIME_S, "v0", ".", hex256, BODY),
    ("calendly", "Calendly-Webhook-Signature", ",", "t", TIME_S, "v1", ".", hex256, BODY),
    ("mux", "Mux-Signature", ",", "t", TIME_S, "v1", ".", hex256, BODY),
    ("persona", "Persona-Signature", ",", "t", TIME_S, "v1", ".", hex256, BODY),
    ("strava", "X-Strava-Signature", ",", "t", TIME_S, "v1", ".", hex256, STRAVA),
    ("terra", "terra-signature", ",", "t", TIME_S, "v1", ".", hex256, BODY),
];

const STRAVA: &str = r#"{"object_type":"activity","object_id":13,"aspect_type":"create","owner_id":7,"subscription_id":"9","updates":{}}"#;

/// Kinds with a timestamp in a header: header of the signature, what stands before it, header of the time, its value, and the signed text with `T` and `B`.
const OF_HEADER: &[(&str, &str, &str, &str, &str, &str, Sign)] = &[
    ("slack", "X-Slack-Signature", "v0=", "X-Slack-Request-Timestamp", TIME_S, "v0:T:B", hex256),
    ("zoom", "x-zm-signature", "v0=", "x-zm-request-timestamp", TIME_S, "v0:T:B", hex256),
    ("customer-io", "X-CIO-Signature", "", "X-CIO-Timestamp", TIME_S, "v0:T:B", hex256),
    ("revolut", "Revolut-Signature", "v1=", "Revolut-Request-Timestamp", TIME_MS, "v1.T.B", hex256),
    ("airwallex", "x-signature", "", "x-timestamp", TIME_MS, "TB", hex256),
    ("orb", "X-Orb-Signature", "v1=", "X-Orb-Timestamp", TIME_RFC, "v1:T:B", hex256),
    ("zendesk", "X-Zendesk-Webhook-Signature", "", "X-Zendesk-Webhook-Signature-Timestamp", TIME_RFC, "TB", base256),
    ("box", "BOX-SIGNATURE-SECONDARY", "", "BOX-DELIVERY-TIMESTAMP", TIME_RFC, "BT", base256),
    ("webflow", "x-webflow-signature", "", "x-webflow-timestamp", TIME_MS, "T:B", hex256),
    ("oura", "x-oura-signature", "", "x-oura-timestamp", TIME_S, "TB", |text| hex256(text).to_uppercase()),
    ("whoop", "X-WHOOP-Signature", "", "X-WHOOP-Signature-Timestamp", TIME_MS, "TB", base256),
];

/// Kinds that get the secret itself: the header, or none, and its value.
const TOKENS: &[(&str, &str, &str, &str)] = &[
    ("token", "X-Webhook-Token", SECRET, BODY),
    ("datadog", "X-Webhook-Token", SECRET, BODY),
    ("gitlab", "X-Gitlab-Token", SECRET, BODY),
    ("huggingface", "X-Webhook-Secret", SECRET, BODY),
    ("okta", "Authorization", SECRET, r#"{"data":{"events":[{"uuid":"1","eventType":"user.created"}]}}"#),
    ("auth0", "Authorization", SECRET, ARRAY),
    ("aws-eventbridge", "X-Api-Key", SECRET, BODY),
    ("telegram", "X-Telegram-Bot-Api-Secret-Token", SECRET, BODY),
    ("google-health", "Authorization", concat!("Bearer ", "k7w9-Secret_of.the/source+0123456789"), BODY),
    ("basic", "Authorization", "Basic azd3OS1TZWNyZXRfb2YudGhlL3NvdXJjZSswMTIzNDU2Nzg5", BODY),
    ("chargebee", "Authorization", "Basic azd3OS1TZWNyZXRfb2YudGhlL3NvdXJjZSswMTIzNDU2Nzg5", BODY),
    ("postmark", "Authorization", "Basic azd3OS1TZWNyZXRfb2YudGhlL3NvdXJjZSswMTIzNDU2Nzg5", BODY),
];

fn hex256(text: &[u8]) -> String {
    hex(hmac256(SECRET.as_bytes(), text))
}

fn base256(text: &[u8]) -> String {
    b64(hmac256(SECRET.as_bytes(), text))
}

/// The golden request of a kind.
pub(super) fn golden(kind: &str) -> Golden {
    if let Some((_, header, prefix, sign, body)) = OF_BODY.iter().find(|row| row.0 == kind) {
        return signed(Sent::post(body).with(header, format!("{prefix}{}", sign(body.as_bytes()))), &[header]);
    }
    if let Some((_, header, separator, time_key, time, key, join, sign, body)) = OF_PAIRS.iter().find(|row| row.0 == kind) {
        let signature = sign(format!("{time}{join}{body}").as_bytes());
        return signed(Sent::post(body).with(header, format!("{time_key}={time}{separator}{key}={signature}")), &[header]);
    }
    if let Some((_, header, prefix, time_header, time, text, sign)) = OF_HEADER.iter().find(|row| row.0 == kind) {
        let signature = sign(text.replace('T', time).replace('B', BODY).as_bytes());
        return signed(Sent::post(BODY).with(header, format!("{prefix}{signature}")).with(time_header, time), &[header, time_header]);
    }
    if let Some((_, header, value, body)) = TOKENS.iter().find(|row| row.0 == kind) {
        return Golden { signs_body: false, ..signed(Sent::post(body).with(header, value), &[header]) };
    }
    special(kind)
}

fn signed(sent: Sent, headers: &[&'static str]) -> Golden {
    let credentials = Credentials { secrets: vec![SECRET.to_owned()], ..Credentials::default() };
    Golden { sent, credentials, signs_body: true, signs_url: false, signs_headers: headers.to_vec(), signs_parts: Vec::new(), key: None }
}

/// The same, of which only these texts of the body count.
fn of_parts(golden: Golden, texts: &[&str]) -> Golden {
    Golden { signs_body: false, signs_parts: texts.iter().map(|text| Part::Body((*text).to_owned())).collect(), ..golden }
}

fn with_secret(golden: Golden, secret: &str) -> Golden {
    Golden { credentials: Credentials { secrets: vec![secret.to_owned()], ..golden.credentials }, ..golden }
}

fn with_app_id(golden: Golden, app_id: &str) -> Golden {
    Golden { credentials: Credentials { app_id: Some(app_id.to_owned()), ..golden.credentials }, ..golden }
}

fn special(kind: &str) -> Golden {
    const URL: &str = "https://hooks.example.com/in/src_1";
    match kind {
        "standard" | "svix" | "anthropic" | "clerk" | "etsy" | "lithic" | "openai" | "replicate" | "resend" | "brex" | "supabase"
        | "polar-sh" | "gitlab-signed" => standard(kind),
        "custom" | "none" => Golden { signs_body: false, credentials: Credentials::default(), ..signed(Sent::post(BODY), &[]) },
        "cloudevents" => query_token("access_token", BODY),
        "azure-event-grid" => query_token("key", ARRAY),
        "mailchimp" => query_token("key", "type=subscribe"),
        "meraki" => {
            let golden = signed(Sent::post(format!(r#"{{"sharedSecret":"{SECRET}","alertType":"x"}}"#)), &[]);
            of_parts(golden, &[r#""sharedSecret""#, SECRET])
        }
        "microsoft-graph" => {
            let golden = signed(Sent::post(format!(r#"{{"value":[{{"clientState":"{SECRET}","changeType":"updated"}}]}}"#)), &[]);
            of_parts(golden, &[r#""clientState""#, SECRET])
        }
        "salesforce" | "withings" => {
            let sent = Sent { path_type: Some(SECRET.to_owned()), ..Sent::post("userid=1&appli=4") }.with("content-type", FORM);
            Golden { signs_body: false, signs_parts: vec![Part::Path], ..signed(sent, &[]) }
        }
        "square" => url_signed(
            Sent::post(BODY).with("x-square-hmacsha256-signature", base256(format!("{URL}{BODY}").as_bytes())),
            "x-square-hmacsha256-signature",
        ),
        "trello" => {
            let signature = b64(hmac1(SECRET.as_bytes(), format!("{BODY}{URL}").as_bytes()));
            url_signed(Sent::post(BODY).with("X-Trello-Webhook", signature), "X-Trello-Webhook")
        }
        "hubspot" => {
            let signature = base256(format!("POST{URL}{ARRAY}{TIME_MS}").as_bytes());
            let golden = url_signed(
                Sent::post(ARRAY).with("X-HubSpot-Signature-v3", signature).with("X-HubSpot-Request-Timestamp", TIME_MS),
                "X-HubSpot-Signature-v3",
            );
            Golden { signs_headers: vec!["X-HubSpot-Signature-v3", "X-HubSpot-Request-Timestamp"], ..golden }
        }
        "hubspot-v2" => {
            let signature = hex(sha256(format!("{SECRET}POST{URL}{ARRAY}").as_bytes()));
            url_signed(Sent::post(ARRAY).with("X-HubSpot-Signature", signature), "X-HubSpot-Signature")
        }
        "twilio" | "mandrill" => {
            let (header, body) = match kind {
                "twilio" => ("X-Twilio-Signature", "To=%2B1800&Body=a+b&MessageSid=SM1&Body=c"),
                _ => ("X-Mandrill-Signature", "mandrill_events=%5B%5D&a=1"),
            };
            let text = match kind {
                "twilio" => "Bodya bBodycMessageSidSM1To+1800",
                _ => "a1mandrill_events[]",
            };
            let signature = b64(hmac1(SECRET.as_bytes(), format!("{URL}{text}").as_bytes()));
            url_signed(Sent::post(body).with("content-type", FORM).with(header, signature), header)
        }
        "braintree" => {
            let payload = "PG5vdGlmaWNhdGlvbi8+\n";
            let signature = hex(hmac1(&sha1(SECRET.as_bytes()), payload.as_bytes()));
            let body = format!("bt_payload=PG5vdGlmaWNhdGlvbi8%2B%0A&bt_signature=other%7C00%26pub%7C{signature}");
            let golden = signed(Sent::post(body).with("content-type", FORM), &[]);
            // The public key before it says whose signature it is, and is not signed.
            with_app_id(of_parts(golden, &["bt_payload=PG5vdGlmaWNhdGlvbi8%2B%0A&bt_signature", &signature]), "pub")
        }
        "adyen" => adyen(),
        "adyen-platform" => {
            let key = sha256(b"adyen");
            with_secret(signed(Sent::post(BODY).with("HmacSignature", b64(hmac256(&key, BODY.as_bytes()))), &["HmacSignature"]), &hex(&key))
        }
        "airtable" => {
            let key = sha256(b"airtable");
            let signature = format!("hmac-sha256={}", hex(hmac256(&key, BODY.as_bytes())));
            with_secret(signed(Sent::post(BODY).with("X-Airtable-Content-MAC", signature), &["X-Airtable-Content-MAC"]), &b64(&key))
        }
        "tiktok-shop" => {
            let signature = hex256(format!("app-key{BODY}").as_bytes());
            with_app_id(signed(Sent::post(BODY).with("Authorization", signature), &["Authorization"]), "app-key")
        }
        "mailgun" => {
            let (time, token) = (TIME_S, "t0ken");
            let signature = hex256(format!("{time}{token}").as_bytes());
            let body = format!(
                r#"{{"signature":{{"timestamp":"{time}","token":"{token}","signature":"{signature}"}},"event-data":{{"event":"opened"}}}}"#
            );
            of_parts(signed(Sent::post(body), &[]), &[r#""timestamp":"1700000000""#, r#""token":"t0ken""#, &signature])
        }
        "twitch" => {
            let signature = hex256(format!("msg-1{TIME_RFC}{BODY}").as_bytes());
            let sent = Sent::post(BODY)
                .with("Twitch-Eventsub-Message-Id", "msg-1")
                .with("Twitch-Eventsub-Message-Timestamp", TIME_RFC)
                .with("Twitch-Eventsub-Message-Signature", format!("sha256={signature}"));
            signed(sent, &["Twitch-Eventsub-Message-Id", "Twitch-Eventsub-Message-Timestamp", "Twitch-Eventsub-Message-Signature"])
        }
        "netlify" => {
            let claims = format!(r#"{{"iss":"netlify","sha256":"{}"}}"#, hex(sha256(BODY.as_bytes())));
            by_jwt("X-Webhook-Signature", "", r#"{"alg":"HS256","typ":"JWT"}"#, &claims, true)
        }
        "fusionauth" => {
            let claims = format!(r#"{{"request_body_sha256":"{}"}}"#, b64(sha256(BODY.as_bytes())));
            by_jwt("X-FusionAuth-Signature-JWT", "", r#"{"alg":"HS256"}"#, &claims, true)
        }
        "monday" => by_jwt("Authorization", "", r#"{"alg":"HS256"}"#, r#"{"exp":1700000300}"#, false),
        "google-pubsub" => pubsub(),
        "wix" => {
            let token = jwt(r#"{"alg":"RS256"}"#, BODY, rsa_sign);
            with_secret(signed(Sent::post(token), &[]), &rsa_public_pem())
        }
        "discord" => {
            let pair = ed25519();
            let signature = hex(pair.sign(format!("{TIME_S}{BODY}").as_bytes()));
            let sent = Sent::post(BODY).with("X-Signature-Ed25519", signature).with("X-Signature-Timestamp", TIME_S);
            with_secret(signed(sent, &["X-Signature-Ed25519", "X-Signature-Timestamp"]), &hex(pair.public_key()))
        }
        "telnyx" => {
            let pair = ed25519();
            let signature = b64(pair.sign(format!("{TIME_S}|{BODY}").as_bytes()));
            let sent = Sent::post(BODY).with("telnyx-signature-ed25519", signature).with("telnyx-timestamp", TIME_S);
            with_secret(signed(sent, &["telnyx-signature-ed25519", "telnyx-timestamp"]), &b64(pair.public_key()))
        }
        "sendgrid" => sendgrid(),
        "paypal" => paypal(),
        "aws-sns" => sns(),
        other => panic!("the kind `{other}` has no golden request"),
    }
}

const FORM: &str = "application/x-www-form-urlencoded; charset=UTF-8";

fn url_signed(sent: Sent, header: &'static str) -> Golden {
    Golden { signs_url: true, ..signed(sent, &[header]) }
}

fn query_token(name: &str, body: &str) -> Golden {
    let token = format!("&{name}={}", SECRET.replace('+', "%2B"));
    let sent = Sent::post(body).to(&format!("https://hooks.example.com/in/src_1?a=b{token}"));
    Golden { signs_body: false, signs_parts: vec![Part::Url(token)], ..signed(sent.with("content-type", FORM), &[]) }
}

fn standard(kind: &str) -> Golden {
    let key = if kind == "polar-sh" { SECRET.as_bytes().to_vec() } else { sha256(kind.as_bytes()) };
    let secret = match kind {
        "polar-sh" => SECRET.to_owned(),
        "supabase" => format!("v1,whsec_{}", b64(&key)),
        _ => format!("whsec_{}", b64(&key)),
    };
    let names = if kind == "svix" {
        ["svix-id", "svix-timestamp", "svix-signature"]
    } else {
        ["webhook-id", "webhook-timestamp", "webhook-signature"]
    };
    let signature = b64(hmac256(&key, format!("msg_1.{TIME_S}.{BODY}").as_bytes()));
    let sent = Sent::post(BODY).with(names[0], "msg_1").with(names[1], TIME_S).with(names[2], format!("v1,{signature}"));
    with_secret(signed(sent, &names), &secret)
}

fn adyen() -> Golden {
    let key = sha256(b"adyen");
    let signature = b64(hmac256(&key, b"psp1::Shop:ref-1:1130:EUR:AUTHORISATION:true"));
    let item = format!(
        r#"{{"pspReference":"psp1","merchantAccountCode":"Shop","merchantReference":"ref-1","amount":{{"value":1130,"currency":"EUR"}},"eventCode":"AUTHORISATION","success":"true","additionalData":{{"hmacSignature":"{signature}"}}}}"#
    );
    let body = format!(r#"{{"live":"false","notificationItems":[{{"NotificationRequestItem":{item}}}]}}"#);
    const FIELDS: [&str; 6] = [
        r#""pspReference":"psp1""#,
        r#""merchantAccountCode":"Shop""#,
        r#""merchantReference":"ref-1""#,
        r#""amount":{"value":1130,"currency":"EUR"}"#,
        r#""eventCode":"AUTHORISATION""#,
        r#""success":"true""#,
    ];
    let golden = of_parts(signed(Sent::post(body), &[]), &FIELDS);
    let with_signature = [golden.signs_parts.as_slice(), &[Part::Body(signature)]].concat();
    with_secret(Golden { signs_parts: with_signature, ..golden }, &hex(&key))
}

fn by_jwt(name: &'static str, prefix: &str, header: &str, claims: &str, signs_body: bool) -> Golden {
    let token = jwt(header, claims, |text| hmac256(SECRET.as_bytes(), text));
    Golden { signs_body, ..signed(Sent::post(BODY).with(name, format!("{prefix}{token}")), &[name]) }
}

/// Randomness is a port in the product; a test may have its own.
#[allow(clippy::disallowed_methods)]
fn random() -> SystemRandom {
    SystemRandom::new()
}

fn ed25519() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

fn sendgrid() -> Golden {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let signature = b64(pair.sign(&random(), format!("{TIME_S}{ARRAY}").as_bytes()).unwrap());
    // SubjectPublicKeyInfo of a P-256 key: a fixed beginning, then the point.
    const BEGIN: [u8; 26] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01,
        0x07, 0x03, 0x42, 0x00,
    ];
    let public = b64([BEGIN.as_slice(), pair.public_key().as_ref()].concat());
    const SIGNATURE: &str = "X-Twilio-Email-Event-Webhook-Signature";
    const TIMESTAMP: &str = "X-Twilio-Email-Event-Webhook-Timestamp";
    with_secret(signed(Sent::post(ARRAY).with(SIGNATURE, signature).with(TIMESTAMP, TIME_S), &[SIGNATURE, TIMESTAMP]), &public)
}

/// One RSA key and its certificate for all tests: making one takes a moment.
static RSA: LazyLock<(RsaKeyPair, String, String)> = LazyLock::new(|| {
    let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["sns.example.com".to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2060, 1, 1);
    let certificate = parameters.self_signed(&key).unwrap().pem();
    (RsaKeyPair::from_pkcs8(&key.serialize_der()).unwrap(), key.public_key_pem(), certificate)
});

fn rsa_sign(text: &[u8]) -> Vec<u8> {
    let mut signature = vec![0; RSA.0.public_modulus_len()];
    RSA.0.sign(&RSA_PKCS1_SHA256, &random(), text, &mut signature).unwrap();
    signature
}

fn rsa_public_pem() -> String {
    RSA.1.clone()
}

/// The certificate of the tests' RSA key.
pub(super) fn certificate_pem() -> &'static str {
    &RSA.2
}

fn certificate_at(url: &str) -> FetchedKey {
    let request = KeyRequest { url: url.to_owned(), answer: KeyAnswer::Certificate };
    FetchedKey::parse(&request, certificate_pem().as_bytes()).unwrap()
}

fn paypal() -> Golden {
    const URL: &str = "https://api.paypal.com/v1/notifications/certs/CERT-1";
    // zlib.crc32 of the body, computed elsewhere.
    let body = r#"{"id":"WH-1","event_type":"PAYMENT.SALE.COMPLETED"}"#;
    let text = format!("tid-1|{TIME_RFC}|WEBHOOK-1|{CRC}", CRC = 1_429_317_798_u32);
    let sent = Sent::post(body)
        .with("PAYPAL-TRANSMISSION-ID", "tid-1")
        .with("PAYPAL-TRANSMISSION-TIME", TIME_RFC)
        .with("PAYPAL-CERT-URL", URL)
        .with("PAYPAL-AUTH-ALGO", "SHA256withRSA")
        .with("PAYPAL-TRANSMISSION-SIG", b64(rsa_sign(text.as_bytes())));
    let golden = signed(sent, &["PAYPAL-TRANSMISSION-ID", "PAYPAL-TRANSMISSION-TIME", "PAYPAL-TRANSMISSION-SIG", "PAYPAL-CERT-URL"]);
    let credentials = Credentials { app_id: Some("WEBHOOK-1".to_owned()), ..Credentials::default() };
    Golden { credentials, key: Some(certificate_at(URL)), ..golden }
}

fn sns() -> Golden {
    const URL: &str = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem";
    const TOPIC: &str = "arn:aws:sns:eu-west-1:1:topic";
    let text = format!("Message\nhi \"you\"\nMessageId\nm-1\nTimestamp\n{TIME_RFC}\nTopicArn\n{TOPIC}\nType\nNotification\n");
    let body = format!(
        r#"{{"Type":"Notification","MessageId":"m-1","TopicArn":"{TOPIC}","Message":"hi \"you\"","Timestamp":"{TIME_RFC}","SignatureVersion":"2","Signature":"{}","SigningCertURL":"{URL}"}}"#,
        b64(rsa_sign(text.as_bytes()))
    );
    let credentials = Credentials { app_id: Some(TOPIC.to_owned()), ..Credentials::default() };
    // All of it counts but the version, which is not signed: the signature is tried by both.
    let (head, tail) = body.split_once(r#""SignatureVersion":"2""#).expect("it says its version");
    let golden = of_parts(signed(Sent::post(&body), &[]), &[head, tail]);
    Golden { credentials, key: Some(certificate_at(URL)), ..golden }
}

/// A signed request of SNS to confirm a subscription at this URL.
pub(super) fn subscription(url: &str) -> (Golden, Verifier) {
    let golden = sns();
    let topic = golden.credentials.app_id.clone().unwrap();
    let text = format!(
        "Message\nconfirm\nMessageId\nm-1\nSubscribeURL\n{url}\nTimestamp\n{TIME_RFC}\nToken\nt\nTopicArn\n{topic}\nType\nSubscriptionConfirmation\n"
    );
    let body = format!(
        r#"{{"Type":"SubscriptionConfirmation","MessageId":"m-1","TopicArn":"{topic}","Message":"confirm","SubscribeURL":"{url}","Token":"t","Timestamp":"{TIME_RFC}","Signature":"{}","SigningCertURL":"{}"}}"#,
        b64(rsa_sign(text.as_bytes())),
        golden.key.as_ref().unwrap().request.url,
    );
    let verifier = super::verifier_of("aws-sns", &golden.credentials);
    (Golden { sent: Sent::post(body), ..golden }, verifier)
}

fn pubsub() -> Golden {
    const URL: &str = "https://www.googleapis.com/oauth2/v3/certs";
    let claims = r#"{"iss":"https://accounts.google.com","aud":"https://hooks.example.com","email":"push@example.com","email_verified":true,"exp":1700000300}"#;
    let token = jwt(r#"{"alg":"RS256","kid":"k1"}"#, claims, rsa_sign);
    // SEQUENCE { INTEGER of 2,048 bits, INTEGER of three bytes }.
    let public = RSA.0.public_key().as_ref();
    assert_eq!((public.len(), public[..9].last()), (270, Some(&0)));
    let (modulus, exponent) = (&public[9..265], &public[267..]);
    let set = format!(
        r#"{{"keys":[{{"kid":"k0","kty":"oct"}},{{"kid":"k1","kty":"RSA","n":"{}","e":"{}"}}]}}"#,
        b64url(modulus),
        b64url(exponent)
    );
    let key = FetchedKey::parse(&KeyRequest { url: URL.to_owned(), answer: KeyAnswer::KeySet }, set.as_bytes()).unwrap();
    let credentials = Credentials {
        app_id: Some("push@example.com".to_owned()),
        audience: Some("https://hooks.example.com".to_owned()),
        ..Credentials::default()
    };
    let sent = Sent::post(r#"{"message":{"messageId":"1","data":"aGk="}}"#).with("Authorization", format!("Bearer {token}"));
    Golden { credentials, signs_body: false, key: Some(key), ..signed(sent, &["Authorization"]) }
}
