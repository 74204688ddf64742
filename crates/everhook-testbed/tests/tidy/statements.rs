//! SQL has its own home: one statement a file, which says the index it needs and the lock it takes, under the same name in both stores.

use std::collections::BTreeSet;

use crate::tree::Tree;

const SQLITE: &str = "crates/everhook-adapters/src/sqlite/queries/";
const POSTGRES: &str = "crates/everhook-adapters/src/postgres/queries/";
/// Statements that one store alone needs, a name a line. Most are one row's in the one and many rows' in the other.
const SQLITE_ALONE: &str = include_str!("statements_of_sqlite_alone.txt");
const POSTGRES_ALONE: &str = include_str!("statements_of_postgres_alone.txt");

/// Statements without a header, without their other half, and lists that name too many.
pub fn violations(tree: &Tree) -> Vec<String> {
    found_in(tree, SQLITE_ALONE, POSTGRES_ALONE)
}

fn found_in(tree: &Tree, sqlite_alone: &str, postgres_alone: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.files("crates/everhook-adapters/src/", ".sql").filter(|(path, _)| path.contains("/queries/")) {
        let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
        for word in ["Index:", "Lock:"].into_iter().filter(|word| !header.contains(word)) {
            found.push(format!(
                "{path} does not say `{word}` in its header: say which index it needs and which lock it takes (or that it needs none)"
            ));
        }
    }
    let (sqlite, postgres) = (names(tree, SQLITE), names(tree, POSTGRES));
    found.extend(without_the_other(&sqlite, &postgres, sqlite_alone, ("sqlite", "postgres")));
    found.extend(without_the_other(&postgres, &sqlite, postgres_alone, ("postgres", "sqlite")));
    found
}

fn names<'a>(tree: &'a Tree, folder: &'a str) -> BTreeSet<&'a str> {
    tree.files(folder, ".sql").map(|(path, _)| path[folder.len()..].trim_end_matches(".sql")).collect()
}

fn without_the_other(these: &BTreeSet<&str>, others: &BTreeSet<&str>, alone: &str, (store, other): (&str, &str)) -> Vec<String> {
    let alone: BTreeSet<&str> = alone.lines().collect();
    let missing = these.difference(others).filter(|name| !alone.contains(**name)).map(|name| {
        format!(
            "{store}/queries/{name}.sql has no counterpart in {other}/queries: give the same question the same name there, \
             or list it in tests/tidy/statements_of_{store}_alone.txt"
        )
    });
    let stale = alone.iter().filter(|name| !these.contains(**name) || others.contains(**name));
    let stale = stale.map(|name| {
        format!("`{name}` is not a statement of {store} alone any more: remove it from tests/tidy/statements_of_{store}_alone.txt")
    });
    missing.chain(stale).collect()
}

#[test]
fn a_statement_without_a_header_or_a_counterpart_is_found() {
    let tree = Tree::planted([
        ("crates/everhook-adapters/src/sqlite/queries/a_question.sql", "-- Asks.\n-- Index: the primary key.\nSELECT 1; -- Lock: too late"),
        (
            "crates/everhook-adapters/src/postgres/queries/another_question.sql",
            "-- Asks.\n-- Index: the primary key. Lock: none.\nSELECT 1;",
        ),
    ]);
    let found = found_in(&tree, "", "");
    let expected = [
        "a_question.sql does not say `Lock:`",
        "sqlite/queries/a_question.sql has no counterpart",
        "postgres/queries/another_question.sql has no",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn an_entry_of_a_statement_that_both_stores_have_or_none_has_is_found() {
    let statement = "-- Asks.\n-- Index: the primary key. Lock: none.\nSELECT 1;";
    let tree = Tree::planted([
        ("crates/everhook-adapters/src/sqlite/queries/both.sql", statement),
        ("crates/everhook-adapters/src/postgres/queries/both.sql", statement),
        ("crates/everhook-adapters/src/sqlite/queries/alone.sql", statement),
    ]);
    assert_eq!(found_in(&tree, "alone", ""), [""; 0]);
    let found = found_in(&tree, "alone\nboth\ngone", "");
    let expected = ["`both` is not a statement of sqlite alone", "`gone` is not a statement of sqlite alone"];
    assert!(found.len() == 2 && found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{found:?}");
}
