//! Signatures, against the published vector, an independent implementation and our own verification.

use uuid::Uuid;

use super::*;

/// The example that Standard Webhooks publishes. Its id is not a UUID, so it enters below [`sign`].
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const ID: &str = "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk";
const AT: i64 = 1_649_367_553;
const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
const SIGNATURE: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";

const OTHER_SECRET: &str = "a secret of their own";

fn key(text: &str) -> SigningKey {
    SigningKey::parse(text).unwrap()
}

fn ed25519() -> SigningKey {
    SigningKey::ed25519_from_random([7; 32])
}

fn event() -> EventId {
    EventId::from_uuid(Uuid::from_u128(0x018f_3a2b_7c4d_7e5f_8a6b_0123_4567_89ab))
}

fn one(current: SigningKey) -> Keys {
    Keys { current, previous: None }
}

/// Rotated from `OTHER_SECRET` to `SECRET`, with a grace that ends a second after `AT`.
fn rotated() -> Keys {
    Keys { current: key(SECRET), previous: Some((key(OTHER_SECRET), Timestamp::from_secs(AT + 1))) }
}

fn sign_at(keys: &Keys, style: SignatureStyle, at: Timestamp) -> Signatures {
    sign(keys, &Signable { event: event(), at, body: BODY, style })
}

fn sign_now(keys: &Keys, style: SignatureStyle) -> Signatures {
    sign_at(keys, style, Timestamp::from_secs(AT))
}

fn hex_hmac(secret: &str, content: &[u8]) -> String {
    let mut out = String::new();
    push_hex(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), content).as_ref(), &mut out);
    out
}

#[test]
fn the_published_vector_is_signed_and_verified() {
    let signed = standard(&key(SECRET), None, &[ID.as_bytes(), b".", b"1649367553", b".", BODY]);
    assert_eq!(signed, SIGNATURE);
    assert!(verify(&key(SECRET), ID, AT, BODY, SIGNATURE));
}

#[test]
fn another_implementation_signs_the_same() {
    let theirs = standardwebhooks::Webhook::new(SECRET).unwrap().sign(&event().to_string(), AT, BODY).unwrap();
    assert_eq!(sign_now(&one(key(SECRET)), SignatureStyle::Timestamped).webhook_signature, theirs);

    let old = standardwebhooks::Webhook::from_bytes(OTHER_SECRET.as_bytes().to_vec()).unwrap();
    let old = old.sign(&event().to_string(), AT, BODY).unwrap();
    let rotating = sign_now(&rotated(), SignatureStyle::Timestamped).webhook_signature;
    assert_eq!(rotating, format!("{theirs} {old}"), "new, then old");
}

#[test]
fn each_style_writes_its_own_header() {
    let keys = one(key(OTHER_SECRET));
    let of_body = hex_hmac(OTHER_SECRET, BODY);
    let with_time = hex_hmac(OTHER_SECRET, &[b"1649367553.", BODY].concat());
    let cases = [
        (SignatureStyle::Timestamped, format!("t=1649367553,v1={with_time}")),
        (SignatureStyle::Sha256, format!("sha256={of_body}")),
        (SignatureStyle::Hex, of_body),
    ];
    for (style, expected) in cases {
        let signed = sign_now(&keys, style);
        assert_eq!(signed.x_webhook_signature, expected, "{style:?}");
        assert_eq!(signed.x_webhook_signature_next, None, "{style:?}");
    }
}

#[test]
fn hex_is_lower_case_with_leading_zeros() {
    let mut out = String::new();
    push_hex(&[0x00, 0x0a, 0xf0, 0xff], &mut out);
    assert_eq!(out, "000af0ff");
}

#[test]
fn a_rotation_signs_with_both_keys_in_every_style() {
    let (new, old) = (one(key(SECRET)), one(key(OTHER_SECRET)));
    for style in [SignatureStyle::Sha256, SignatureStyle::Hex] {
        let signed = sign_now(&rotated(), style);
        assert_eq!(signed.x_webhook_signature, sign_now(&old, style).x_webhook_signature, "{style:?}: old until the grace ends");
        assert_eq!(signed.x_webhook_signature_next, Some(sign_now(&new, style).x_webhook_signature), "{style:?}: new beside it");
    }
    let [new, old] = [new, old].map(|keys| sign_now(&keys, SignatureStyle::Timestamped).x_webhook_signature);
    let (_, old_part) = old.split_once(',').unwrap();
    let signed = sign_now(&rotated(), SignatureStyle::Timestamped);
    assert_eq!(signed.x_webhook_signature, format!("{new},{old_part}"));
    assert_eq!(signed.x_webhook_signature_next, None);
}

#[test]
fn the_old_key_stops_signing_when_the_grace_ends() {
    let end = Timestamp::from_secs(AT + 1);
    let just_before = Timestamp::from_micros(end.as_micros() - 1);
    for style in [SignatureStyle::Timestamped, SignatureStyle::Sha256, SignatureStyle::Hex] {
        assert_ne!(sign_at(&rotated(), style, just_before), sign_at(&one(key(SECRET)), style, just_before), "{style:?}");
        assert_eq!(sign_at(&rotated(), style, end), sign_at(&one(key(SECRET)), style, end), "{style:?}");
    }
}

#[test]
fn an_ed25519_key_signs_v1a_and_its_public_half_verifies() {
    let signed = sign_now(&one(ed25519()), SignatureStyle::Timestamped);
    assert!(signed.webhook_signature.starts_with("v1a,"));
    assert!(signed.x_webhook_signature.starts_with("t=1649367553,v1a="));

    let public = VerifyingKey::parse(&ed25519().public_text().unwrap()).unwrap();
    assert!(public.verify(&event().to_string(), AT, BODY, &signed.webhook_signature));
    assert_eq!(public.verify_timestamped(BODY, &signed.x_webhook_signature), Some(Timestamp::from_secs(AT)));

    let stranger = VerifyingKey::from(&SigningKey::ed25519_from_random([8; 32]));
    assert!(!stranger.verify(&event().to_string(), AT, BODY, &signed.webhook_signature));
    assert_eq!(stranger.verify_timestamped(BODY, &signed.x_webhook_signature), None);
}

#[test]
fn an_ed25519_seed_is_never_used_as_an_hmac_key() {
    for style in [SignatureStyle::Timestamped, SignatureStyle::Sha256, SignatureStyle::Hex] {
        let signed = sign_now(&one(ed25519()), style);
        assert!(signed.x_webhook_signature.contains(",v1a="), "{style:?}");
        assert!(style_fits(style, &key(SECRET)));
        assert_eq!(style_fits(style, &ed25519()), style == SignatureStyle::Timestamped);
    }
}

#[test]
fn a_rotation_between_kinds_of_key_serves_both_receivers() {
    let keys = Keys { current: ed25519(), previous: Some((key(SECRET), Timestamp::FAR_FUTURE)) };
    let signed = sign_now(&keys, SignatureStyle::Timestamped);
    for receiver in [ed25519(), key(SECRET)] {
        assert!(verify(&receiver, &event().to_string(), AT, BODY, &signed.webhook_signature));
        assert!(VerifyingKey::from(&receiver).verify_timestamped(BODY, &signed.x_webhook_signature).is_some());
    }
}

/// Secret, id, seconds, body, header, and whether the header is right.
type Case<'a> = (&'a str, &'a str, i64, &'a [u8], &'a str, bool);

#[test]
fn a_standard_signature_is_right_only_for_what_was_signed() {
    let id = event().to_string();
    let header = sign_now(&rotated(), SignatureStyle::Timestamped).webhook_signature;
    let cut = &header[..20];
    let cases: [Case<'_>; 14] = [
        (SECRET, &id, AT, BODY, &header, true),
        (OTHER_SECRET, &id, AT, BODY, &header, true),
        ("another secret than both", &id, AT, BODY, &header, false),
        (SECRET, "another id", AT, BODY, &header, false),
        (SECRET, &id, AT + 1, BODY, &header, false),
        (SECRET, &id, AT, b"{}", &header, false),
        (SECRET, &id, AT, BODY, cut, false),
        (SECRET, &id, AT, BODY, "", false),
        (SECRET, &id, AT, BODY, "v1,", false),
        (SECRET, &id, AT, BODY, "v1,not base64", false),
        (SECRET, ID, AT, BODY, &SIGNATURE.replace("v1,", "v2,"), false),
        (SECRET, ID, AT, BODY, &SIGNATURE.replace("v1,", "v1a,"), false),
        (SECRET, ID, AT, BODY, &format!("v2,abc v1,abc  {SIGNATURE}"), true),
        (SECRET, ID, AT, BODY, &format!("{} {SIGNATURE}", "v1,abc ".repeat(8)), false),
    ];
    for (secret, id, at, body, header, right) in cases {
        assert_eq!(verify(&key(secret), id, at, body, header), right, "{secret} {id} {at} `{header}`");
    }
}

#[test]
fn a_header_in_any_style_is_right_only_for_its_body() {
    let verifier = VerifyingKey::parse(SECRET).unwrap();
    let header = |style| sign_now(&one(key(SECRET)), style).x_webhook_signature;

    for plain in [header(SignatureStyle::Sha256), header(SignatureStyle::Hex), header(SignatureStyle::Hex).to_uppercase()] {
        assert!(verifier.verify_plain(BODY, &plain));
        assert!(!verifier.verify_plain(b"{}", &plain));
        assert!(!verifier.verify_plain(BODY, &plain[..plain.len() - 1]), "an odd number of digits");
        assert!(!verifier.verify_plain(BODY, &plain[..plain.len() - 2]));
    }
    assert!(!verifier.verify_plain(BODY, ""));

    let timestamped = header(SignatureStyle::Timestamped);
    assert_eq!(verifier.verify_timestamped(BODY, &timestamped), Some(Timestamp::from_secs(AT)));
    assert_eq!(verifier.verify_timestamped(b"{}", &timestamped), None);
    assert_eq!(verifier.verify_timestamped(BODY, &timestamped.replace("t=1649367553", "t=1649367554")), None);
    for nonsense in ["", "t=", "t=soon,v1=00", "t=1649367553", "v1=00", "t=1649367553,v1=zz"] {
        assert_eq!(verifier.verify_timestamped(BODY, nonsense), None, "`{nonsense}`");
    }
}

#[test]
fn a_verifying_key_is_read_in_every_spelling() {
    let public = ed25519().public_text().unwrap();
    let private = ed25519().text().expose().clone();
    let cases = [
        (SECRET, true),
        (OTHER_SECRET, true),
        (public.as_str(), true),
        (private.as_str(), true),
        ("whpk_", false),
        ("whpk_not base64 at all", false),
        ("whpk_AAAA", false),
        ("whsec_AAAA", false),
        ("short", false),
    ];
    for (text, readable) in cases {
        assert_eq!(VerifyingKey::parse(text).is_ok(), readable, "{text}");
    }
}

#[test]
fn every_instant_has_its_seconds_written() {
    for seconds in [0, 1, -1, AT, i64::MAX, i64::MIN] {
        assert_eq!(write_seconds(seconds, &mut [0; SECONDS_BYTES_MAX]), seconds.to_string().as_bytes());
    }
}
