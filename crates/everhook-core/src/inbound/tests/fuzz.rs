//! A loop that mangles what is right: requests, recipes, lists of signatures and batches. Nothing panics, and nothing is forged.
//!
//! `FUZZ_RUNS` says how often each of the four runs, `FUZZ_SEED` where the numbers begin; the number of executions is written to standard error.

use super::{
    NOW, Sent, custom,
    golden::{Golden, Part, golden},
    secrets, verifier_of,
};
use crate::inbound::{Credentials, Kind, Reading, Recipe, RecipeFields, Verifier, fields::NONE, kinds};

/// A sequence of numbers that is the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

#[expect(clippy::disallowed_methods, reason = "the size of a run by hand")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Repeats something, as often as is asked for.
fn repeat(what: &str, runs: u64, mut once: impl FnMut(u64, &mut Numbers)) {
    let (runs, seed) = (number("FUZZ_RUNS").unwrap_or(runs), number("FUZZ_SEED").unwrap_or(42));
    let mut numbers = Numbers(seed);
    (0..runs).for_each(|run| once(run, &mut numbers));
    eprintln!("fuzz: {what}: {runs} executions (FUZZ_SEED={seed})");
}

/// Every kind with a request that it accepts.
fn rows() -> Vec<(&'static Kind, Verifier, Golden)> {
    let row = |kind: &'static Kind| {
        let golden = golden(kind.name);
        (kind, verifier_of(kind.name, &golden.credentials), golden)
    };
    kinds().iter().map(row).collect()
}

fn read(sent: &Sent, verifier: &Verifier, golden: &Golden) -> Reading {
    sent.read_by(|request| match &golden.key {
        Some(key) => verifier.read_with_key(request, NOW, key),
        None => verifier.read(request, NOW),
    })
}

#[test]
fn a_hundred_thousand_mangled_requests_do_not_panic_and_forge_nothing() {
    let rows = rows();
    repeat("requests", 100_000, |run, numbers| {
        let (row, verifier, golden) = &rows[run as usize % rows.len()];
        let mut sent = golden.sent.clone();
        for _ in 0..=numbers.below(3) {
            mangle(&mut sent, numbers);
        }
        let reading = read(&sent, verifier, golden);
        let is_changed = (golden.signs_body && sent.body != golden.sent.body) || golden.signs_parts.iter().any(|part| lacks(&sent, part));
        let is_forged = is_changed && matches!(reading, Reading::Accepted(_));
        let may_be_unsigned = row.recipe.require == "if_present" || row.recipe.body == "form";
        assert!(!is_forged || may_be_unsigned, "{}: {sent:?}", row.name);
    });
}

/// Whether a part that counts is not in the request any more. Signatures in hexadecimal may be in either case.
fn lacks(sent: &Sent, part: &Part) -> bool {
    let has = |whole: &[u8], text: &str| whole.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes()));
    match part {
        Part::Body(text) => !has(&sent.body, text),
        Part::Url(text) => !has(sent.url.as_bytes(), text),
        // Nothing mangles it.
        Part::Path => false,
    }
}

#[test]
fn mangled_recipes_do_not_panic_and_those_that_compile_read_requests() {
    // One kind has no field at all.
    let rows: Vec<_> = rows().into_iter().filter(|(row, ..)| !row.recipe.pairs().is_empty()).collect();
    let mut compiled = 0_u64;
    repeat("recipes", 20_000, |run, numbers| {
        let (row, _, golden) = &rows[run as usize % rows.len()];
        let mut texts: Vec<(&str, String)> = row.recipe.pairs().into_iter().map(|(name, text)| (name, text.to_owned())).collect();
        for _ in 0..=numbers.below(2) {
            let at = numbers.below(texts.len());
            let mut bytes = std::mem::take(&mut texts[at].1).into_bytes();
            mangle_bytes(&mut bytes, numbers);
            texts[at].1 = String::from_utf8_lossy(&bytes).into_owned();
        }
        let fields = RecipeFields::from_pairs(texts.iter().map(|(name, text)| (*name, text.as_str()))).expect("the names are ours");
        let Ok(recipe) = Recipe::compile(&fields) else { return };
        compiled += 1;
        if let Ok(verifier) = Verifier::new(recipe.into(), &golden.credentials, None) {
            let _ = read(&golden.sent, &verifier, golden);
        }
    });
    assert!(compiled > 0, "no mangled recipe compiles: they are mangled too much");
}

#[test]
fn mangled_lists_of_signatures_do_not_panic_and_are_refused() {
    let places = ["X-S prefix=v1=", "X-S kv=, v1", "X-S kv=; v1", "X-S list=' ' v1,", "X-S list=& after=|", "X-S-1..9"];
    let lists = ["v1=00", "t=1700000000,v1=00,v1=11,v0=22", "t=1700000000;v1=00;v1=11", "v1,AAAA v1,BBBB v1a,CC", "a|00&b|11&c", "00"];
    let verifier = |sig: &&str| {
        let ts = if sig.contains("kv=") { "kv:t s 5m" } else { "X-T s 5m" };
        custom(&RecipeFields { mac: "sha256 hex", sig, ts, over: "{ts}{body}", ..NONE }, &secrets(&["s"]))
    };
    let verifiers: Vec<Verifier> = places.iter().map(verifier).collect();
    repeat("lists of signatures", 20_000, |run, numbers| {
        let mut list = lists[numbers.below(lists.len())].as_bytes().to_vec();
        for _ in 0..=numbers.below(6) {
            mangle_bytes(&mut list, numbers);
        }
        list.truncate(4_096);
        let sent = Sent::post("{}").with("X-S", &list).with("X-S-1", &list).with("X-T", "1700000000");
        let reading = sent.read(&verifiers[run as usize % verifiers.len()], NOW);
        assert!(matches!(&reading, Reading::Refused(refusal) if refusal.status() == 401), "{list:?}: {reading:?}");
    });
}

#[test]
fn mangled_batches_do_not_panic_and_their_items_are_parts_of_them() {
    let shapes = ["/*", "/a/*", "/{key}/*", "/a/*/b", ""];
    let bodies: [&str; 4] = [
        r#"[{"a":1},{"a":"\u0062","b":{"a":[]}}]"#,
        r#"{"a":[{"b":{"a":1}},{"b":[1,2]}],"b":"x"}"#,
        r#"{"dailies":[{"userId":"1"}],"sleeps":[{"userId":"2"},{"userId":"3"}]}"#,
        r#" { "a" : [ 1 , -2.5e3 , "\"" , null ] , "\u0061" : true } "#,
    ];
    let verifier = |each: &&str| {
        let event_type = if each.contains("{key}") { "key" } else { "/a|root:/b" };
        custom(&RecipeFields { each, event_type, id: "/b/a", user: "/userId", ..NONE }, &Credentials::default())
    };
    let verifiers: Vec<Verifier> = shapes.iter().map(verifier).collect();
    repeat("batches", 20_000, |run, numbers| {
        let mut body = bodies[numbers.below(bodies.len())].as_bytes().to_vec();
        for _ in 0..numbers.below(5) {
            mangle_bytes(&mut body, numbers);
        }
        body.truncate(4_096);
        let sent = Sent::post(&body);
        if let Reading::Accepted(accepted) = sent.read(&verifiers[run as usize % verifiers.len()], NOW) {
            let text = std::str::from_utf8(&body).expect("only text is accepted");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
            for item in accepted.items {
                let item = std::str::from_utf8(&item.body).expect("a part of a text");
                assert!(text.contains(item) && serde_json::from_str::<serde_json::Value>(item).is_ok(), "{item} of {text}");
            }
        }
    });
}

/// Changes, removes, repeats or inserts something.
fn mangle(sent: &mut Sent, numbers: &mut Numbers) {
    let bytes = match numbers.below(4) {
        0 if !sent.headers.is_empty() => {
            let at = numbers.below(sent.headers.len());
            match numbers.below(3) {
                0 => {
                    let header = sent.headers[at].clone();
                    sent.headers.push(header);
                    return;
                }
                1 => drop(sent.headers.remove(at)),
                _ => {}
            }
            if sent.headers.is_empty() {
                return;
            }
            let at = numbers.below(sent.headers.len());
            &mut sent.headers[at].1
        }
        1 => {
            sent.method = ["GET", "HEAD", "OPTIONS", "POST"][numbers.below(4)];
            sent.awaiting_handshake ^= true;
            return;
        }
        2 => {
            sent.url.push_str(["?validationToken=a", "?hub.challenge=b", "&crc_token=c", "%zz", "?key="][numbers.below(5)]);
            return;
        }
        _ => &mut sent.body,
    };
    mangle_bytes(bytes, numbers);
}

fn mangle_bytes(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let at = numbers.below(bytes.len());
    match numbers.below(5) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
        1 if !bytes.is_empty() => drop(bytes.remove(at)),
        2 => bytes.truncate(at),
        3 => bytes.insert(at, [0, b'"', b'{', b',', b'=', 0xff][numbers.below(6)]),
        _ => {
            let copy = bytes[at..].to_vec();
            bytes.extend(copy);
        }
    }
}
