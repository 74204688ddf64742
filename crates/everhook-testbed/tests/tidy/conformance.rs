//! Every method of a port is called by a test of the adapters: what is not tested there is promised by nobody.

use crate::tree::{Tree, identifier};

pub const PORTS: &str = "crates/everhook-core/src/ports/";
const TESTS: &str = "crates/everhook-adapters/tests/";

/// Ports that no outside thing is behind, or that an adapter's own unit tests cover.
const NOT_OUTSIDE: &[(&str, &str)] = &[
    ("Clock", "the unit tests of the adapters' `system.rs`"),
    ("Entropy", "the unit tests of the adapters' `system.rs`"),
    ("Vault", "the unit tests of the adapters' `vault.rs`"),
    ("WakeUp", "the engine itself, in the scenarios"),
    ("Lanes", "the engine itself, in the scenarios"),
    ("Effect", "the values that commits return, in every conformance test"),
];

/// Methods that no test of the adapters calls yet. Test one and remove its line; add none.
const TOLERATED: &[(&str, &str)] = &[("BreakerWindows", "are_kept"), ("BreakerWindows", "are_away"), ("Leases", "terms")];

/// Methods that are not called, and exceptions that are not needed.
pub fn violations(tree: &Tree) -> Vec<String> {
    found_in(tree, TOLERATED)
}

fn found_in(tree: &Tree, tolerated: &[(&str, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.files(PORTS, ".rs") {
        for (port, method) in methods(text).into_iter().filter(|(port, _)| NOT_OUTSIDE.iter().all(|(name, _)| name != port)) {
            let is_called = tree.files(TESTS, ".rs").any(|(_, text)| calls(text, method));
            let is_tolerated = tolerated.contains(&(port, method));
            if !is_called && !is_tolerated {
                found
                    .push(format!("{path}: no test under {TESTS} calls `{port}::{method}`: add what it promises to the conformance suite"));
            } else if is_called && is_tolerated {
                found.push(format!("`{port}::{method}` is tested: remove it from `TOLERATED` in tests/tidy/conformance.rs"));
            }
        }
    }
    found
}

pub fn calls(text: &str, method: &str) -> bool {
    [".", "::"].iter().any(|before| text.contains(&format!("{before}{method}(")))
}

/// Each trait of a file with each of its methods. Written by rustfmt: a trait begins and ends at the margin, its methods are indented once.
pub fn methods(text: &str) -> Vec<(&str, &str)> {
    let (mut port, mut found) = (None, Vec::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("pub trait ") {
            port = Some(identifier(rest));
        } else if line == "}" {
            port = None;
        }
        let signature =
            line.strip_prefix("    ").map(|rest| rest.strip_prefix("async ").unwrap_or(rest)).and_then(|rest| rest.strip_prefix("fn "));
        found.extend(port.zip(signature).map(|(port, signature)| (port, identifier(signature))));
    }
    found
}

#[test]
fn a_method_that_no_test_calls_is_found() {
    let port =
        "pub trait Shelf: Send {\n    /// Puts.\n    async fn put(&self);\n    fn take(\n        &self,\n    );\n}\n\nfn free() {}\n";
    let tree = Tree::planted([
        ("crates/everhook-core/src/ports/shelf.rs", port),
        ("crates/everhook-adapters/tests/conformance/shelf.rs", "shelf.put().await;"),
    ]);
    let found = found_in(&tree, &[]);
    assert!(found.len() == 1 && found[0].contains("calls `Shelf::take`"), "{found:?}");
    assert_eq!(found_in(&tree, &[("Shelf", "take")]), [""; 0]);
    let found = found_in(&tree, &[("Shelf", "take"), ("Shelf", "put")]);
    assert!(found.len() == 1 && found[0].contains("`Shelf::put` is tested"), "{found:?}");
}
