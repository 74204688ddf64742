//! Ports are small: one with many methods is about several subjects, and whoever needs one of them gets all.

use std::collections::BTreeMap;

use crate::{
    conformance::{PORTS, methods},
    tree::Tree,
};

/// How many methods a port has at most. About ten are wanted; the rest is room for a port to grow before it is split.
const METHODS_MAX: usize = 12;

/// Ports that are larger. Split one and remove its line; add none.
const TOLERATED: &[&str] = &[];

/// Ports that are too large, and exceptions that are not needed.
pub fn violations(tree: &Tree) -> Vec<String> {
    found_in(tree, TOLERATED)
}

fn found_in(tree: &Tree, tolerated: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.files(PORTS, ".rs") {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (port, _) in methods(text) {
            *counts.entry(port).or_default() += 1;
        }
        for (port, count) in counts {
            match (count > METHODS_MAX, tolerated.contains(&port)) {
                (true, false) => found.push(format!("{path}: `{port}` has {count} methods, at most {METHODS_MAX}: split it by subject")),
                (false, true) => found.push(format!("`{port}` is small: remove it from `TOLERATED` in tests/tidy/port_sizes.rs")),
                _ => {}
            }
        }
    }
    found
}

#[test]
fn a_port_with_too_many_methods_is_found() {
    let port = |count: usize| {
        let methods: String = (0..count).map(|number| format!("    async fn method_{number}(&self);\n")).collect();
        format!("pub trait Shelf: Send {{\n{methods}}}\n\npub trait Small: Send {{\n    fn one(&self);\n}}\n")
    };
    let (large, small) = (port(METHODS_MAX + 1), port(METHODS_MAX));
    let planted = |text| Tree::planted([("crates/everhook-core/src/ports/shelf.rs", text)]);
    let found = found_in(&planted(large.as_str()), &[]);
    assert!(found.len() == 1 && found[0].contains("`Shelf` has 13 methods"), "{found:?}");
    assert_eq!(found_in(&planted(large.as_str()), &["Shelf"]), [""; 0]);
    assert_eq!(found_in(&planted(small.as_str()), &[]), [""; 0]);
    let found = found_in(&planted(small.as_str()), &["Shelf"]);
    assert!(found.len() == 1 && found[0].contains("`Shelf` is small"), "{found:?}");
}
