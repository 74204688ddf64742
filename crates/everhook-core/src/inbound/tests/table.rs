//! The whole table: every row compiles, takes its golden request, and refuses every change of one byte of what is signed.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    NOW, accepted,
    golden::{Golden, Part, golden},
    verifier_of,
};
use crate::{
    inbound::{Kind, Reading, Recipe, Verifier, kind, kinds},
    model::EventType,
};

#[test]
fn every_row_compiles_and_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = kinds().iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), kinds().len());
    assert!(kinds().len() >= 60, "{} rows", kinds().len());
    for row in kinds() {
        Recipe::compile(&row.recipe).unwrap_or_else(|faults| panic!("{}: {faults:?}", row.name));
        assert!(EventType::parse(row.name).is_some() && !row.title.is_empty(), "{}", row.name);
        assert_eq!(kind(row.name).map(|found| found.title), Some(row.title));
    }
    assert!(kind("nobody").is_none());
}

#[test]
fn the_providers_that_were_asked_for_are_there() {
    let wanted = "standard svix github gitlab stripe shopify slack twilio sendgrid mailgun adyen braintree paddle square hubspot hubspot-v1 hubspot-v2 zoom \
                  discord telegram meta linear notion asana trello intercom zendesk typeform docusign dropbox box okta auth0 sentry pagerduty vercel \
                  netlify xero fitbit oura whoop polar garmin strava custom hmac none paypal aws-sns google-pubsub";
    for name in wanted.split_ascii_whitespace() {
        assert!(kind(name).is_some(), "{name}");
    }
}

fn read(golden: &Golden, verifier: &Verifier) -> Reading {
    golden.sent.read_by(|request| match &golden.key {
        Some(key) => verifier.read_with_key(request, NOW, key),
        None => verifier.read(request, NOW),
    })
}

/// Every row but those that bring no recipe.
fn rows() -> impl Iterator<Item = (&'static Kind, Golden, Verifier)> {
    kinds().iter().map(|row| {
        let golden = golden(row.name);
        let verifier = verifier_of(row.name, &golden.credentials);
        (row, golden, verifier)
    })
}

#[test]
fn every_kind_accepts_its_golden_request() {
    for (row, golden, verifier) in rows() {
        match read(&golden, &verifier) {
            Reading::Accepted(accepted) => assert!(!accepted.items.is_empty(), "{}", row.name),
            other => panic!("{}: {other:?}", row.name),
        }
        if let Some(key) = &golden.key {
            let without = golden.sent.read(&verifier, NOW);
            assert!(matches!(&without, Reading::NeedsKey(request) if *request == key.request), "{}: {without:?}", row.name);
        }
    }
}

#[test]
fn no_kind_accepts_what_another_secret_signed() {
    for (row, golden, _) in rows().filter(|(_, golden, _)| !golden.credentials.secrets.is_empty()) {
        let mut other = golden.credentials.clone();
        let Some(secret) = changed_secret(row, &golden) else { continue };
        other.secrets = vec![secret];
        let reading = read(&golden, &verifier_of(row.name, &other));
        assert!(matches!(&reading, Reading::Refused(refusal) if refusal.status() == 401), "{}: {reading:?}", row.name);
        // Beside the right one, a wrong one does no harm: that is how secrets are rotated.
        other.secrets.extend(golden.credentials.secrets.iter().cloned());
        accepted(read(&golden, &verifier_of(row.name, &other)));
    }
}

/// Another secret that can be read; none for public keys, which cannot be changed at one place.
fn changed_secret(row: &Kind, golden: &Golden) -> Option<String> {
    if !row.recipe.key_sig.is_empty() || row.recipe.jwt.starts_with("RS") {
        return None;
    }
    let secret = &golden.credentials.secrets[0];
    let at = secret.len() / 2;
    let other = if &secret[at..=at] == "a" { "b" } else { "a" };
    Some(format!("{}{other}{}", &secret[..at], &secret[at + 1..]))
}

#[test]
fn every_change_of_one_byte_of_what_is_signed_is_refused() {
    let mut changes = 0_u32;
    for (row, golden, verifier) in rows() {
        let mut check = |what: &str, changed: &Golden| {
            changes += 1;
            let reading = read(changed, &verifier);
            assert!(
                !matches!(reading, Reading::Accepted(_) | Reading::Handshake(_)),
                "{}: {what} was changed: {:?}",
                row.name,
                changed.sent
            );
        };
        for header in &golden.signs_headers {
            let place = golden.sent.headers.iter().position(|(name, _)| name.eq_ignore_ascii_case(header)).unwrap();
            for at in 0..golden.sent.headers[place].1.len() {
                let mut changed = golden.clone();
                changed.sent.headers[place].1[at] ^= 1;
                check(header, &changed);
            }
        }
        for at in (0..golden.sent.body.len()).filter(|_| golden.signs_body) {
            for bits in [1, 0x20, 0x80] {
                let mut changed = golden.clone();
                changed.sent.body[at] ^= bits;
                if !is_same_form(&golden, &changed) {
                    check("the body", &changed);
                }
            }
        }
        for at in (0..golden.sent.url.len()).filter(|_| golden.signs_url) {
            let mut url = golden.sent.url.clone().into_bytes();
            url[at] ^= 1;
            let mut changed = golden.clone();
            changed.sent.url = String::from_utf8(url).unwrap();
            check("the URL", &changed);
        }
        for part in &golden.signs_parts {
            for changed in each_change(&golden, part) {
                if !is_same_form(&golden, &changed) {
                    check(&format!("{part:?}"), &changed);
                }
            }
        }
    }
    assert!(changes > 20_000, "{changes}");
}

/// The request with one byte of a part changed, for each byte of it. Not by the bit that tells upper from lower case: signatures in hexadecimal are in either.
fn each_change(golden: &Golden, part: &Part) -> Vec<Golden> {
    let place = |whole: &[u8], text: &str| {
        let mut places = (0..whole.len()).filter(|at| whole[*at..].starts_with(text.as_bytes()));
        let (place, other) = (places.next(), places.next());
        assert!(other.is_none(), "`{text}` is there twice");
        place.unwrap_or_else(|| panic!("`{text}` is not there"))
    };
    let flipped = |text: &str, at: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] ^= 1;
        String::from_utf8(bytes).expect("the golden request is ASCII there")
    };
    let mut changes = Vec::new();
    match part {
        Part::Body(text) => {
            let begin = place(&golden.sent.body, text);
            for (at, bits) in (begin..begin + text.len()).flat_map(|at| [(at, 1), (at, 0x80)]) {
                let mut changed = golden.clone();
                changed.sent.body[at] ^= bits;
                changes.push(changed);
            }
        }
        Part::Url(text) => {
            let begin = place(golden.sent.url.as_bytes(), text);
            for at in begin..begin + text.len() {
                let mut changed = golden.clone();
                changed.sent.url = flipped(&golden.sent.url, at);
                changes.push(changed);
            }
        }
        Part::Path => {
            let path = golden.sent.path_type.clone().expect("the golden request has one");
            for at in 0..path.len() {
                let mut changed = golden.clone();
                changed.sent.path_type = Some(flipped(&path, at));
                changes.push(changed);
            }
        }
    }
    changes
}

#[test]
fn every_kind_that_proves_anything_names_the_bytes_that_count() {
    for (row, golden, _) in rows() {
        let counts = golden.signs_body || golden.signs_url || !golden.signs_headers.is_empty() || !golden.signs_parts.is_empty();
        assert_eq!(counts, !matches!(row.name, "none" | "custom"), "{}", row.name);
    }
}

/// A form is signed by what its fields mean: `%2b` and `%2B` are the same.
fn is_same_form(one: &Golden, other: &Golden) -> bool {
    let is_form = one.sent.headers.iter().any(|(_, value)| value.starts_with(b"application/x-www-form-urlencoded"));
    let fields = |golden: &Golden| -> Vec<(String, String)> { url::form_urlencoded::parse(&golden.sent.body).into_owned().collect() };
    is_form && fields(one) == fields(other)
}

#[test]
fn a_request_without_its_signature_is_refused_where_one_is_required() {
    for (row, golden, verifier) in rows().filter(|(_, golden, _)| !golden.signs_headers.is_empty()) {
        let mut bare = golden.clone();
        bare.sent.headers.retain(|(name, _)| !golden.signs_headers.iter().any(|signed| signed.eq_ignore_ascii_case(name)));
        let reading = read(&bare, &verifier);
        match row.recipe.require {
            "if_present" => drop(accepted(reading)),
            _ => assert!(matches!(&reading, Reading::Refused(refusal) if refusal.status() == 401), "{}: {reading:?}", row.name),
        }
    }
}

#[test]
fn what_a_kind_needs_is_said() {
    let needs = |name: &str| kind(name).unwrap().needs().into_iter().map(|need| (need.field, need.required)).collect::<Vec<_>>();
    assert_eq!(needs("github"), [("secrets", true)]);
    assert_eq!(needs("strava"), [("secrets", false), ("verify_token", false), ("subscription_id", false)]);
    assert_eq!(needs("notion"), [("secrets", false)]);
    assert_eq!(needs("paypal"), [("app_id", true)]);
    assert_eq!(needs("google-pubsub"), [("app_id", true), ("audience", true)]);
    assert_eq!(needs("square"), [("secrets", true), ("public_url", false)]);
    assert!(needs("none").is_empty());
    let recipe = Arc::new(kind("aws-sns").unwrap().compile());
    let faults = Verifier::new(recipe, &crate::inbound::Credentials::default(), None).unwrap_err();
    assert_eq!(faults[0].field, "app_id");
}
