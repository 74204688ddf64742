//! Every method of a port on the delivery side is called for every kind of lane: in the files of the conformance suite that walk through the kinds.

use super::conformance::{PORTS, calls, methods};
use crate::tree::Tree;

/// The files of the suite that do everything for each kind of lane.
const SUITE: &str = "crates/everhook-adapters/tests/conformance/lane_kinds";

/// The ports whose methods read or write deliveries, or what is counted of them.
const DELIVERY_SIDE: [&str; 14] = [
    "AlertSignals",
    "BreakerStore",
    "BulkErasure",
    "DeliveryControl",
    "DeliveryQueue",
    "EventStore",
    "History",
    "OperationCandidates",
    "OperationStore",
    "Outbox",
    "ParkedDeliveries",
    "Retention",
    "Statistics",
    "StoreMeasurements",
];

/// Methods that need not be called there, and why not.
const EXCEPTED: &[(&str, &str, &str)] = &[
    ("AlertSignals", "source_minutes", "counts requests to sources, which are no lanes"),
    ("BulkErasure", "select_for_erasure", "called through the helper `Given::erasing`"),
    ("EventStore", "originals", "is about keys of events"),
    ("EventStore", "alias", "is about ids of events"),
    ("OperationStore", "operation", "reads operations, not deliveries"),
    ("OperationStore", "operations", "reads operations, not deliveries"),
    ("OperationStore", "open_operations", "reads operations, not deliveries"),
    ("Retention", "expiring", "called through the helper `Given::purge_archiving`"),
    ("Retention", "purge_archived", "called through the helper `Given::purge_archiving`"),
    ("Retention", "stored", "measures tables"),
    ("Statistics", "add_source_tallies", "counts requests to sources, which are no lanes"),
    ("Statistics", "source_statistics", "counts requests to sources, which are no lanes"),
    ("StoreMeasurements", "disabled_endpoint_count", "is about endpoints"),
];

/// Methods that are not called for every kind of lane, and exceptions that are not needed.
pub fn violations(tree: &Tree) -> Vec<String> {
    found_in(tree, EXCEPTED)
}

fn found_in(tree: &Tree, excepted: &[(&str, &str, &str)]) -> Vec<String> {
    let suite: Vec<&str> = tree.files(SUITE, ".rs").map(|(_, text)| text).collect();
    let mut found = Vec::new();
    for (path, text) in tree.files(PORTS, ".rs") {
        for (port, method) in methods(text).into_iter().filter(|(port, _)| DELIVERY_SIDE.contains(port)) {
            let is_called = suite.iter().any(|text| calls(text, method));
            let is_excepted = excepted.iter().any(|(of, name, _)| (*of, *name) == (port, method));
            if !is_called && !is_excepted {
                found.push(format!("{path}: `{port}::{method}` is not called in {SUITE}*.rs: call it there for every kind of lane"));
            } else if is_called && is_excepted {
                found.push(format!(
                    "`{port}::{method}` is called for every kind of lane: remove it from `EXCEPTED` in tests/tidy/lane_kinds.rs"
                ));
            }
        }
    }
    found
}

#[test]
fn a_method_that_is_not_called_for_every_kind_of_lane_is_found() {
    let port = "pub trait Outbox: Send {\n    async fn pending(&self);\n    async fn done(&self);\n}\n\npub trait Shelf {\n    fn put(&self);\n}\n";
    let tree = Tree::planted([
        ("crates/everhook-core/src/ports/outbox.rs", port),
        ("crates/everhook-adapters/tests/conformance/lane_kinds_reads.rs", "store.pending().await;"),
        ("crates/everhook-adapters/tests/conformance/outbox.rs", "store.done().await;"),
    ]);
    let found = found_in(&tree, &[]);
    assert!(found.len() == 1 && found[0].contains("`Outbox::done` is not called"), "{found:?}");
    assert_eq!(found_in(&tree, &[("Outbox", "done", "a reason")]), [""; 0]);
    let found = found_in(&tree, &[("Outbox", "done", "a reason"), ("Outbox", "pending", "a reason")]);
    assert!(found.len() == 1 && found[0].contains("`Outbox::pending` is called"), "{found:?}");
}
