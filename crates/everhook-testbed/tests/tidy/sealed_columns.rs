//! Every column that can hold sealed values is known to the rotation of the sealing key: whatever it forgets cannot be opened once the old key is gone.
//!
//! Each column of bytes is listed here, as sealed and with the statement that seals it again, or as not sealed. A new one is a violation until somebody
//! has decided. Sealed values in a column of text cannot be seen in a schema: whoever makes such a column adds it to `SEALED`.

use std::collections::BTreeSet;

use crate::tree::{Tree, identifier};

/// Where schemas are, what their columns of bytes are called, and whether ids are such columns.
const SCHEMAS: [(&str, &str, bool); 3] = [
    ("crates/everhook-adapters/src/sqlite/", "BLOB", true),
    ("crates/everhook-adapters/src/postgres/", "bytea", false),
    ("crates/everhook-adapters/src/spool/", "BLOB", true),
];

/// Columns with sealed values, and the statement that replaces or removes them.
const SEALED: [(&str, &str); 26] = [
    ("application_secrets.previous_secret", "reseal_application_secrets"),
    ("application_secrets.secret", "reseal_application_secrets"),
    ("approvals.call", "reseal_approval"),
    ("approvals.data", "reseal_approval"),
    ("cached_answers.data", "forget_answer_sealed_otherwise"),
    ("endpoint_revisions.headers", "reseal_revision"),
    ("endpoint_revisions.previous_secret", "reseal_revision"),
    ("endpoint_revisions.secret", "reseal_revision"),
    ("channels.credentials", "reseal_channel"),
    ("endpoints.headers", "reseal_endpoint"),
    ("endpoints.previous_secret", "reseal_endpoint"),
    ("endpoints.secret", "reseal_endpoint"),
    ("events.body", "reseal_payload"),
    ("events.received_headers", "reseal_payload"),
    ("health_connections.access_token", "reseal_health_connection"),
    ("health_connections.refresh_token", "reseal_health_connection"),
    ("health_metrics.raw", "reseal_health_metric"),
    ("jobs.answer", "reseal_job"),
    ("payloads.body", "reseal_payload"),
    ("received_events.headers", "reseal_received_headers"),
    ("sources.secrets", "reseal_source"),
    ("sources.verify_token", "reseal_source"),
    ("spooled_events.body", "reseal_spooled_event"),
    ("spooled_events.received_headers", "reseal_spooled_event"),
    ("unforwarded.body", "reseal_unforwarded_event"),
    ("unforwarded.received_headers", "reseal_unforwarded_event"),
];

/// Columns of bytes that nothing seals: hashes, ids that are not called so, and what is kept as it came.
const NOT_SEALED: [&str; 32] = [
    "api_keys.hash",
    "approvals.unpublished",
    "attempts.response_body_sample",
    "attempts.response_headers",
    "binding.installation",
    "cached_answers.hash",
    "deletions.reached",
    "deliveries.replay_of",
    "draws.list_hash",
    "draws.seed",
    "event_aliases.alias",
    "health_connections.refreshing_by",
    "health_metrics.dedupe_hash",
    "idempotency_keys.fingerprint",
    "jobs.answer_hash",
    "jobs.tokens",
    "known_keys.hash",
    "moved_tables.last_key",
    "moved_tables.sum",
    "moves.fingerprint",
    "operation_items.replay_of",
    "operations.selected_until",
    "pending_alerts.data",
    "received_events.duplicate_of",
    "rollups.answers",
    "rollups.deliveries",
    "rollups.durations",
    "source_rollups.latencies",
    "spooled_events.duplicate_of",
    "unfinished_erasures.done_until",
    "unfinished_fanouts.deliveries",
    "unforwarded.duplicate_of",
];

/// Columns that the lists do not name, entries of no column, and statements that do not do what the list says.
pub fn violations(tree: &Tree) -> Vec<String> {
    found_in(tree, &SEALED, &NOT_SEALED)
}

fn found_in(tree: &Tree, sealed: &[(&str, &str)], not_sealed: &[&str]) -> Vec<String> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for (folder, bytes, has_ids_as_bytes) in SCHEMAS {
        for (column, kind) in columns(tree, folder) {
            let is_id = has_ids_as_bytes && (column.ends_with(".id") || column.ends_with("_id"));
            match sealed.iter().find(|(name, _)| *name == column) {
                Some((_, statement)) => found.extend(without_statement(tree, folder, &column, statement)),
                None if kind == bytes && !is_id && !not_sealed.contains(&column.as_str()) => found.push(format!(
                    "{folder}migrations has a column of bytes `{column}`: if it holds sealed values, let the rotation of the sealing key seal them \
                     again (`SealedKind`, `resealing`); then list it in tests/tidy/sealed_columns.rs as sealed or not"
                )),
                None => {}
            }
            known.insert(column);
        }
    }
    let listed = sealed.iter().map(|(name, _)| *name).chain(not_sealed.iter().copied());
    let stale = listed.filter(|name| !known.contains(*name));
    found.extend(stale.map(|name| format!("`{name}` is not a column any more: remove it from tests/tidy/sealed_columns.rs")));
    found
}

/// Every column of the schema in a folder as `table.column`, and its type.
fn columns(tree: &Tree, folder: &str) -> Vec<(String, String)> {
    let (mut table, mut columns) = (String::new(), Vec::new());
    let migrations = format!("{folder}migrations/");
    for line in tree.files(&migrations, ".sql").flat_map(|(_, text)| text.lines()) {
        if let Some((_, name)) = line.split_once("CREATE TABLE ").or_else(|| line.split_once("ALTER TABLE ")) {
            table = identifier(name).to_owned();
        }
        let definition = match line.split_once(" ADD COLUMN ") {
            Some((_, definition)) => definition,
            None if line.starts_with(' ') => line.trim_start(),
            None => continue,
        };
        let mut words = definition.split([' ', ',', ';']);
        if let (Some(name), Some(kind)) = (words.next(), words.next()) {
            columns.push((format!("{table}.{name}"), kind.to_owned()));
        }
    }
    columns
}

/// Says if the statement does not replace or remove the column.
fn without_statement(tree: &Tree, folder: &str, column: &str, statement: &str) -> Option<String> {
    let path = format!("{folder}queries/{statement}.sql");
    let (table, name) = column.split_once('.').expect("a table and a column");
    let does = tree.text(&path).is_some_and(|sql| {
        let set = sql.split_once(&format!("UPDATE {table} SET ")).map(|(_, set)| set.split("WHERE").next().expect("at least one part"));
        let sets = set.is_some_and(|set| set.split(',').any(|part| part.trim_start().starts_with(&format!("{name} = "))));
        sets || sql.contains(&format!("DELETE FROM {table} "))
    });
    (!does).then(|| format!("{path} does not replace `{column}`: sealed values of it would be lost with the old key"))
}

#[cfg(test)]
const SCHEMA: &str = "CREATE TABLE a (\n    id BLOB PRIMARY KEY,\n    secret BLOB NOT NULL,\n    note TEXT\n);\n";

#[test]
fn a_new_column_of_bytes_is_found_until_it_is_listed() {
    let tree = Tree::planted([("crates/everhook-adapters/src/sqlite/migrations/0001.sql", SCHEMA)]);
    assert_eq!(found_in(&tree, &[], &["a.secret"]), [""; 0]);
    let found = found_in(&tree, &[], &[]);
    assert!(found.len() == 1 && found[0].contains("a column of bytes `a.secret`"), "{found:?}");
    let added = "ALTER TABLE a ADD COLUMN token bytea;\n";
    let tree = Tree::planted([("crates/everhook-adapters/src/postgres/migrations/0002.sql", added)]);
    let found = found_in(&tree, &[], &["a.gone"]);
    assert!(found.len() == 2 && found[0].contains("`a.token`") && found[1].contains("`a.gone` is not a column"), "{found:?}");
}

#[test]
fn a_sealed_column_without_the_statement_that_replaces_it_is_found() {
    let of = |sql: &str| {
        let tree = Tree::planted([
            ("crates/everhook-adapters/src/sqlite/migrations/0001.sql", SCHEMA),
            ("crates/everhook-adapters/src/sqlite/queries/reseal_a.sql", sql),
        ]);
        found_in(&tree, &[("a.secret", "reseal_a")], &[])
    };
    for replaces in ["UPDATE a SET note = ?2, secret = ?3 WHERE id = ?1;", "DELETE FROM a WHERE id = ?1;"] {
        assert_eq!(of(replaces), [""; 0], "{replaces}");
    }
    for does_not in ["UPDATE a SET note = ?2 WHERE id = ?1 AND secret = ?3;", "UPDATE b SET secret = ?2;", "SELECT secret FROM a;"] {
        let found = of(does_not);
        assert!(found.len() == 1 && found[0].contains("does not replace `a.secret`"), "{does_not}: {found:?}");
    }
}
