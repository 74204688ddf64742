//! Hostile input: nothing panics, and nothing that was changed is taken for the provider's.

use proptest::prelude::*;

use super::{NOW, Sent, custom, golden::golden, secrets, verifier_of};
use crate::inbound::{
    Credentials, Reading, Recipe, RecipeFields, Verifier,
    document::{Plan, Pointer, Values, elements, members},
    fields::NONE,
};

/// Texts that are nearly recipes.
fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[ -~]{0,12}",
        prop::sample::select(vec![
            "sha256",
            "hex",
            "base64",
            "ed25519",
            "kv=,",
            "list=' '",
            "prefix=",
            "after=|",
            "v1",
            "body:/a",
            "form:a",
            "query:a",
            "kv:t",
            "s",
            "ms",
            "rfc3339",
            "5m",
            "{body}",
            "{ts}",
            "{id}",
            "{or}",
            "{b:/a}",
            "{n:A}",
            "{form}",
            "{f:a}",
            "{secret}",
            "/a/*",
            "/{key}/*",
            "/*",
            "H:A",
            "key",
            "path",
            "|",
            "+",
            "'",
            "cert",
            "jwks",
            "hosts=a.b",
            "https://a.b",
            "HS256",
            "iss=a",
            "200",
            "json {}",
            "get-echo-text",
            "any",
            "spki",
            "X-1..100",
            "é",
            "\0",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(word, 0..5).prop_map(|words| words.join(" ").replace(" |", "|"))
}

fn secret() -> Credentials {
    Credentials { app_id: Some("app".to_owned()), audience: Some("aud".to_owned()), ..secrets(&["c2VjcmV0IG9mIHRoZSBzb3VyY2U="]) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_recipe_makes_the_compiler_or_the_reader_panic(texts in prop::collection::vec(text(), 21), body in "[ -~]{0,40}", header in "[ -~]{0,40}") {
        let names = "mac key_sig token jwt key_from key_format sig ts over url require check body each type id user handshake ok max_body tolerance";
        // Most fields are left out, so that some recipes compile.
        let pairs = names.split_ascii_whitespace().zip(&texts).filter(|(_, text)| text.len() % 3 == 0).map(|(name, text)| (name, text.as_str()));
        let fields = RecipeFields::from_pairs(pairs).unwrap();
        if let Ok(recipe) = Recipe::compile(&fields) {
            let _ = recipe.needs();
            if let Ok(verifier) = Verifier::new(recipe.into(), &secret(), None) {
                for sent in [Sent::post(&body).with("a", &header), Sent::get(&body)] {
                    let _ = sent.read(&verifier, NOW);
                }
            }
        }
    }

    #[test]
    fn no_header_makes_the_reader_of_signatures_panic(value in prop::collection::vec(any::<u8>(), 0..200), list in "[v1=, |.;t0-9a-f]{0,200}") {
        let places = ["X-S", "X-S prefix=v1=", "X-S kv=, v1", "X-S kv=; v1", "X-S list=' ' v1,", "X-S list=& after=|", "X-S-1..9"];
        for sig in places {
            let ts = if sig.contains("kv=") { "kv:t s 5m" } else { "X-S s 5m" };
            let verifier = custom(&RecipeFields { mac: "sha256 hex", sig, ts, over: "{ts}{body}", ..NONE }, &secrets(&["s"]));
            for bytes in [value.as_slice(), list.as_bytes()] {
                let reading = Sent::post("{}").with("X-S", bytes).with("X-S-1", bytes).read(&verifier, NOW);
                prop_assert!(matches!(reading, Reading::Refused(refusal) if refusal.status() == 401));
            }
        }
    }

    #[test]
    fn no_body_makes_the_splitter_panic_and_items_are_slices_of_it(body in json(), cut in any::<prop::sample::Index>()) {
        let short = &body[..(0..=cut.index(body.len() + 1)).rev().find(|at| body.is_char_boundary(*at)).unwrap()];
        for each in ["/*", "/a/*", "/{key}/*", "/a/*/b", ""] {
            let verifier = custom(&RecipeFields { each, event_type: "/a|root:/b", id: "/b/a", ..NONE }, &Credentials::default());
            for text in [body.as_str(), short] {
                if let Reading::Accepted(accepted) = Sent::post(text).read(&verifier, NOW) {
                    prop_assert!(serde_json::from_str::<serde_json::Value>(text).is_ok());
                    for item in accepted.items {
                        let item = std::str::from_utf8(&item.body).unwrap();
                        prop_assert!(text.contains(item) && serde_json::from_str::<serde_json::Value>(item).is_ok());
                    }
                }
            }
        }
    }

    #[test]
    fn pointers_find_what_a_parsed_document_has(body in json()) {
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        for pointer in ["/a", "/b/a", "/a/0", "/a/0/b", "/1", "/a/b/a"] {
            let mut plan = Plan::default();
            let (whole, slot) = (plan.add(&Pointer(Vec::new())), plan.add(&Pointer::parse(pointer).unwrap()));
            // A member that is there twice is refused; otherwise both must agree.
            let Ok(values) = Values::read(&body, &plan) else { continue };
            let found = values.raw(slot).map(|raw| serde_json::from_str::<serde_json::Value>(raw).unwrap());
            prop_assert_eq!(found.as_ref(), value.pointer(pointer), "{} {}", pointer, body);
            prop_assert_eq!(values.raw(whole).map(str::trim), Some(body.trim()));
        }
        let _ = (elements(&body, 3), members(&body, 3));
    }

    #[test]
    fn no_url_query_or_form_makes_the_reader_panic(url in "[ -~]{0,60}", body in "[ -~]{0,60}") {
        for kind in ["twilio", "hubspot", "braintree", "strava", "microsoft-graph", "x"] {
            let golden = golden(kind);
            let verifier = verifier_of(kind, &golden.credentials);
            for method in ["POST", "GET"] {
                let sent = Sent { method, body: body.clone().into_bytes(), ..golden.sent.clone() }.to(&url).with("content-type", "application/x-www-form-urlencoded");
                let _ = sent.read(&verifier, NOW);
            }
        }
    }
}

/// Small documents of objects and arrays, with blanks and escapes.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["1", "-0.5e3", "true", "null", "\"\"", "\"a\\u00e9\\n\"", "18446744073709551616", "\"é\""])
        .prop_map(str::to_owned);
    let inner = leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop::sample::select(vec!["a", "b", "1", "\\u0061", "c"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[ {} ]", items.join(" ,"))),
            prop::collection::vec((name, inner), 0..4).prop_map(|members| format!(
                "{{{}}}",
                members.iter().map(|(name, value)| format!("\"{name}\" : {value}")).collect::<Vec<_>>().join(",")
            )),
        ]
    });
    inner.prop_filter("an object or an array", |text| text.starts_with(['{', '[']))
}
