//! Brings a file to the schema that this binary knows, when it is opened. A migration that was applied is never changed.

use everhook_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::OpenError;

/// A step from one version of the schema to the next.
struct Migration {
    version: i64,
    sql: &'static str,
}

/// Every step, oldest first.
const MIGRATIONS: [Migration; 5] = [
    Migration { version: 1, sql: include_str!("migrations/0001_lay_the_tables.sql") },
    Migration { version: 2, sql: include_str!("migrations/0002_control_plane.sql") },
    Migration { version: 3, sql: include_str!("migrations/0003_statistics.sql") },
    Migration { version: 4, sql: include_str!("migrations/0004_operations.sql") },
    Migration { version: 5, sql: include_str!("migrations/0005_audit.sql") },
];

const MAKE_LEDGER: &str = include_str!("queries/make_migration_ledger.sql");
const NEWEST: &str = include_str!("queries/newest_migration.sql");
const HASH_OF: &str = include_str!("queries/migration_hash.sql");
const NOTE: &str = include_str!("queries/note_migration.sql");

/// Applies what is missing, all or nothing.
///
/// # Errors
/// [`OpenError::TooNew`] for a file of a newer Everhook, [`OpenError::ChangedMigration`] for one that was made by another history.
pub(super) fn migrate(connection: &Connection, now: Timestamp) -> Result<(), OpenError> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute_batch(MAKE_LEDGER)?;
    let known = MIGRATIONS.last().map_or(0, |newest| newest.version);
    let found: i64 = transaction.query_row(NEWEST, [], |row| row.get(0))?;
    if found > known {
        return Err(OpenError::TooNew { found, known });
    }
    for migration in &MIGRATIONS {
        apply(&transaction, migration, now)?;
    }
    transaction.commit()?;
    Ok(())
}

fn apply(connection: &Connection, migration: &Migration, now: Timestamp) -> Result<(), OpenError> {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, migration.sql.as_bytes());
    let applied: Option<Vec<u8>> = connection.query_row(HASH_OF, [migration.version], |row| row.get(0)).optional()?;
    match applied {
        Some(applied) if applied == hash.as_ref() => Ok(()),
        Some(_) => Err(OpenError::ChangedMigration { version: migration.version }),
        None => {
            connection.execute_batch(migration.sql)?;
            connection.execute(NOTE, params![migration.version, hash.as_ref(), now.as_micros()])?;
            Ok(())
        }
    }
}
