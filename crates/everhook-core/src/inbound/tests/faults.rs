//! Faults of recipes: each names its field, says what is wrong and what would be right; all of them come at once.

use crate::inbound::{Recipe, RecipeFault, RecipeFields, fields::NONE};

fn faults(fields: &RecipeFields<'_>) -> Vec<RecipeFault> {
    Recipe::compile(fields).err().unwrap_or_default()
}

/// A recipe that is right, to be changed in one place.
const RIGHT: RecipeFields<'static> = RecipeFields { mac: "sha256 hex", sig: "X-Sig", over: "{body}", ..NONE };

#[test]
fn a_recipe_that_is_right_has_no_faults() {
    assert!(faults(&RIGHT).is_empty() && faults(&NONE).is_empty());
}

#[test]
fn every_wrong_field_is_named_with_what_would_be_right() {
    let cases: Vec<(RecipeFields<'_>, &str, &str)> = vec![
        (RecipeFields { mac: "md5 hex", ..RIGHT }, "mac", "sha256"),
        (RecipeFields { mac: "sha256", ..RIGHT }, "mac", "base64url"),
        (RecipeFields { mac: "sha256 base32", ..RIGHT }, "mac", "base64url"),
        (RecipeFields { mac: "plain-sha256 hex", ..RIGHT }, "over", "{secret}"),
        (RecipeFields { over: "{secret}{body}", ..RIGHT }, "over", "must not hold {secret}"),
        (RecipeFields { over: "", ..RIGHT }, "over", "such as {body}"),
        (RecipeFields { over: "fixed", ..RIGHT }, "over", "signs nothing"),
        (RecipeFields { over: "{body}{or}fixed", ..RIGHT }, "over", "signs nothing"),
        (RecipeFields { over: "{body", ..RIGHT }, "over", "not closed"),
        (RecipeFields { over: "{payload}", ..RIGHT }, "over", "{body}"),
        (RecipeFields { over: "{b:no-slash}", ..RIGHT }, "over", "{b:/pointer}"),
        (RecipeFields { over: "{h:}{body}", ..RIGHT }, "over", "{h:Name}"),
        (RecipeFields { over: "{form}", ..RIGHT }, "over", "`body` is not form"),
        (RecipeFields { over: "{ts}.{body}", ..RIGHT }, "ts", "is missing"),
        (RecipeFields { over: "{id}.{body}", ..RIGHT }, "id", "H:Name"),
        (RecipeFields { over: "{id}.{body}", id: "/id", ..RIGHT }, "id", "H:Name"),
        (RecipeFields { ts: "X-Time s 5m", ..RIGHT }, "ts", "a time that is not signed proves nothing"),
        (RecipeFields { ts: "X-Time s 5m", over: "{ts}{body}{or}{body}", ..RIGHT }, "ts", "not signed"),
        (RecipeFields { ts: "kv:t s 5m", over: "{ts}{body}", ..RIGHT }, "ts", "kv= in `sig`"),
        (RecipeFields { ts: "X-Time h 5m", ..RIGHT }, "ts", "rfc3339"),
        (RecipeFields { ts: "X-Time s 500h", ..RIGHT }, "ts", "168h"),
        (RecipeFields { ts: "X-Time", ..RIGHT }, "ts", "then s, ms"),
        (RecipeFields { sig: "", ..RIGHT }, "sig", "write a place"),
        (RecipeFields { sig: "X Sig", ..RIGHT }, "sig", "prefix="),
        (RecipeFields { sig: "X-Sig 'prefix=", ..RIGHT }, "sig", "quote"),
        (RecipeFields { sig: "X-Sig kv= v1", ..RIGHT }, "sig", "separator"),
        (RecipeFields { sig: "X-Sig-1..1000", ..RIGHT }, "sig", "1..100"),
        (RecipeFields { sig: "a|b|c|d|e|f", ..RIGHT }, "sig", "header"),
        (RecipeFields { sig: "form:sig", ..RIGHT }, "sig", "`body` is not form"),
        (RecipeFields { sig: "body:sig", ..RIGHT }, "sig", "JSON pointer"),
        (RecipeFields { key_sig: "ed25519 hex", ..RIGHT }, "key_sig", "choose one"),
        (RecipeFields { key_sig: "rsa hex", sig: "X-Sig", over: "{body}", ..NONE }, "key_sig", "rsa-sha256"),
        (RecipeFields { key_sig: "ed25519 hex", sig: "X-Sig", over: "{body}", key_format: "whsec", ..NONE }, "key_format", "spki"),
        (
            RecipeFields { key_sig: "ed25519 hex", sig: "X-Sig", over: "{body}", key_from: "jwks https://a.example/", ..NONE },
            "key_from",
            "use `jwt`",
        ),
        (RecipeFields { key_format: "spki", ..RIGHT }, "key_format", "public keys"),
        (RecipeFields { key_format: "rot13", ..RIGHT }, "key_format", "whsec"),
        (RecipeFields { key_from: "cert X-Url hosts=a.example", ..RIGHT }, "key_from", "leave it out"),
        (RecipeFields { jwt: "none", sig: "X-Jwt", ..NONE }, "jwt", "HS256"),
        (RecipeFields { jwt: "HS256 sub=a", sig: "X-Jwt", ..NONE }, "jwt", "iss="),
        (RecipeFields { jwt: "RS256", sig: "X-Jwt", key_from: "jwks http://a.example/", ..NONE }, "key_from", "https"),
        (RecipeFields { jwt: "RS256", sig: "X-Jwt", key_from: "cert X-Url hosts=*", ..NONE }, "key_from", "hosts="),
        (RecipeFields { jwt: "HS256", sig: "X-Jwt", key_from: "jwks https://a.example/", ..NONE }, "key_from", "HS256"),
        (RecipeFields { jwt: "RS256", sig: "X-Jwt", body: "jwt", ..NONE }, "sig", "leave it out"),
        (RecipeFields { token: "X-Token suffix=a", ..NONE }, "token", "prefix="),
        (RecipeFields { token: "X-Token", over: "{body}", ..NONE }, "over", "leave it out"),
        (RecipeFields { sig: "X-Sig", ..NONE }, "sig", "no mechanism"),
        (RecipeFields { url: "https", ..RIGHT }, "url", "port"),
        (RecipeFields { require: "never", ..RIGHT }, "require", "if_present"),
        (RecipeFields { check: "/a", ..RIGHT }, "check", "/pointer in a,b"),
        (RecipeFields { check: "/a = secret", ..RIGHT }, "check", "subscription_id"),
        (RecipeFields { body: "xml", ..RIGHT }, "body", "any"),
        (RecipeFields { body: "jwt", ..RIGHT }, "body", "`jwt`"),
        (RecipeFields { body: "form", each: "/a/*", ..RIGHT }, "body", "form:name"),
        (RecipeFields { each: "/events", ..RIGHT }, "each", "/events/*"),
        (RecipeFields { each: "/a/*/b/*", ..RIGHT }, "each", "/events/*"),
        (RecipeFields { event_type: "key", ..RIGHT }, "each", "{key}"),
        (RecipeFields { event_type: "type", ..RIGHT }, "type", "/pointer"),
        (RecipeFields { event_type: "/a~2", ..RIGHT }, "type", "/pointer"),
        (RecipeFields { id: "H:a b", ..RIGHT }, "id", "H:Header"),
        (RecipeFields { user: "/a|/b|/c|/d|/e|/f|/g|/h|/i", ..RIGHT }, "user", "more than 8"),
        (RecipeFields { handshake: "wave", ..RIGHT }, "handshake", "get-echo-text"),
        (RecipeFields { handshake: "get-echo-text", ..RIGHT }, "handshake", "parameter"),
        (RecipeFields { handshake: "header-echo X-Other", ..RIGHT }, "handshake", "X-Hook-Secret"),
        (RecipeFields { handshake: "head-ok;head-ok;head-ok;head-ok;head-ok", ..RIGHT }, "handshake", "at most 4"),
        (RecipeFields { ok: "404", ..RIGHT }, "ok", "200 to 299"),
        (RecipeFields { ok: "204 text a", ..RIGHT }, "ok", "204 cannot"),
        (RecipeFields { ok: "200 json {", ..RIGHT }, "ok", "json"),
        (RecipeFields { max_body: "1G", ..RIGHT }, "max_body", "3M"),
        (RecipeFields { max_body: "17M", ..RIGHT }, "max_body", "16M"),
        (RecipeFields { tolerance: "5m", ..RIGHT }, "tolerance", "without `ts`"),
        (RecipeFields { tolerance: "soon", ts: "X-Time s", ..RIGHT }, "tolerance", "5m"),
    ];
    for (fields, field, hint) in cases {
        let found = faults(&fields);
        let named = found.iter().find(|fault| fault.field == field).unwrap_or_else(|| panic!("{fields:?}: {found:?}"));
        assert!(named.reason.contains(hint), "{fields:?}: `{}` does not say `{hint}`", named.reason);
    }
}

#[test]
fn all_faults_come_at_once() {
    let fields = RecipeFields {
        mac: "md5",
        sig: "a b",
        over: "{x}",
        ts: "t",
        body: "x",
        each: "x",
        event_type: "x",
        handshake: "x",
        ok: "x",
        ..NONE
    };
    let named: Vec<&str> = faults(&fields).iter().map(|fault| fault.field).collect();
    for field in ["mac", "sig", "over", "ts", "body", "each", "type", "handshake", "ok"] {
        assert!(named.contains(&field), "{field} is not among {named:?}");
    }
}

#[test]
fn texts_pieces_and_pointers_are_bounded() {
    let long = "x".repeat(1_025);
    assert!(faults(&RecipeFields { sig: &long, ..RIGHT })[0].reason.contains("1024"));
    let pieces = "{ts}".repeat(65);
    assert!(faults(&RecipeFields { over: &pieces, ts: "X-T s", ..RIGHT }).iter().any(|fault| fault.reason.contains("64 pieces")));
    let pointers: String = (0..60).map(|number| format!("{{b:/{number}}}")).collect();
    let fields = RecipeFields { over: &pointers, event_type: "/a|/b|/c|/d|/e|/f", ..RIGHT };
    assert!(faults(&fields).iter().any(|fault| fault.reason.contains("66 pointers")), "{:?}", faults(&fields));
    let deep = "/a".repeat(17);
    assert_eq!(faults(&RecipeFields { event_type: &deep, ..RIGHT })[0].field, "type");
    let alternatives = "{body}{or}{body}{or}{body}{or}{body}{or}{body}";
    assert!(faults(&RecipeFields { over: alternatives, ..RIGHT })[0].reason.contains("4 alternatives"));
}

#[test]
fn fields_are_read_and_written_by_name() {
    let pairs = [("mac", "sha256 hex"), ("sig", "X-Sig"), ("over", "{body}"), ("type", "/type")];
    let fields = RecipeFields::from_pairs(pairs).unwrap();
    assert_eq!((fields.event_type, fields.mac), ("/type", "sha256 hex"));
    assert_eq!(fields.pairs(), pairs);
    let wrong = RecipeFields::from_pairs([("mac", "a"), ("hmac", "b"), ("mac", "c")]).unwrap_err();
    assert_eq!(wrong.len(), 2);
    assert!(wrong[0].reason.contains("`hmac`") && wrong[0].reason.contains("key_sig"), "{wrong:?}");
    assert_eq!(wrong[1].to_string(), "`recipe` holds `mac` twice");
}
