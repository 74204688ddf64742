//! Brings a file to the schema that this binary knows, when it is opened. A migration that was applied is never changed.

use aws_lc_rs::digest::{Digest, SHA256, digest};
use everhook_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::OpenError;

/// A step from one version of the schema to the next.
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) sql: &'static str,
}

/// Every step, oldest first.
const MIGRATIONS: [Migration; 1] = [Migration { version: 1, sql: include_str!("migrations/0001_create_tables.sql") }];

const MAKE_LEDGER: &str = include_str!("queries/make_migration_ledger.sql");
const NEWEST: &str = include_str!("queries/newest_migration.sql");
const HASH_OF: &str = include_str!("queries/migration_hash.sql");
const NOTE: &str = include_str!("queries/note_migration.sql");

/// Applies what is missing, all or nothing.
///
/// # Errors
/// [`OpenError::TooNew`] for a file of a newer Everhook, [`OpenError::ChangedMigration`] for one that was made by another history.
pub(super) fn migrate(connection: &Connection, now: Timestamp) -> Result<(), OpenError> {
    migrate_by(&MIGRATIONS, connection, now)
}

/// The same for a file with another history of its own.
pub(crate) fn migrate_by(migrations: &[Migration], connection: &Connection, now: Timestamp) -> Result<(), OpenError> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute_batch(MAKE_LEDGER)?;
    let known = migrations.last().map_or(0, |newest| newest.version);
    let found: i64 = transaction.query_row(NEWEST, [], |row| row.get(0))?;
    if found > known {
        return Err(OpenError::TooNew { found, known });
    }
    for migration in migrations {
        apply(&transaction, migration, now)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Says whether a file that is only to be read has just the schema that this binary knows.
///
/// # Errors
/// As [`migrate`], and [`OpenError::TooOld`] for a file that would have to be brought up to date first.
pub(super) fn check(connection: &Connection) -> Result<(), OpenError> {
    let known = MIGRATIONS.last().map_or(0, |newest| newest.version);
    let found: i64 = connection.query_row(NEWEST, [], |row| row.get(0))?;
    if found > known {
        return Err(OpenError::TooNew { found, known });
    }
    for migration in &MIGRATIONS {
        let applied: Option<Vec<u8>> = connection.query_row(HASH_OF, [migration.version], |row| row.get(0)).optional()?;
        match applied {
            None => return Err(OpenError::TooOld { found, known }),
            Some(applied) if applied != hash_of(migration).as_ref() => {
                return Err(OpenError::ChangedMigration { version: migration.version });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn hash_of(migration: &Migration) -> Digest {
    digest(&SHA256, migration.sql.as_bytes())
}

fn apply(connection: &Connection, migration: &Migration, now: Timestamp) -> Result<(), OpenError> {
    let hash = hash_of(migration);
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
