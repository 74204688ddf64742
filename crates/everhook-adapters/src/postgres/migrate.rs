//! Brings a database to the schema that this binary knows, when a node starts. A migration that was applied is never changed.
//!
//! Nodes that start together take turns. Nodes of the version before go on while it runs: a migration may add, and takes away only what no node
//! of the version before reads.

use everhook_core::time::Timestamp;
use tokio_postgres::{Client, Transaction, error::SqlState};

use super::OpenError;

/// A step from one version of the schema to the next.
struct Migration {
    version: i64,
    sql: &'static str,
}

/// Every step, oldest first.
const MIGRATIONS: [Migration; 1] = [Migration { version: 1, sql: include_str!("migrations/0001_create_tables.sql") }];

const ENCODING: &str = include_str!("queries/server_encoding.sql");
const TAKE_TURN: &str = include_str!("queries/lock_migrations.sql");
const MAKE_SCHEMA: &str = include_str!("queries/make_schema.sql");
const MAKE_LEDGER: &str = include_str!("queries/make_migration_ledger.sql");
const NEWEST: &str = include_str!("queries/newest_migration.sql");
const HASH_OF: &str = include_str!("queries/migration_hash.sql");
const NOTE: &str = include_str!("queries/note_migration.sql");

/// Whoever has the turn makes tables, which may take longer than a lock is worth waiting for on the line.
const WAIT_FOR_TURN: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '30s'";

/// Nodes of the version before publish meanwhile, and queue up behind whoever waits for a table that somebody reads for long: a start that finds one gives
/// up and is tried again.
const HOLD_UP_NOBODY: &str = "SET LOCAL lock_timeout = '200ms'";

/// How often the ledger is made. The second time it is there, unless somebody drops it at this very moment.
const LEDGER_TRIES: u32 = 3;

/// Applies what is missing, all or nothing.
///
/// # Errors
/// [`OpenError::Encoding`] for a database that cannot hold every text, [`OpenError::TooNew`] for one of a newer Everhook, [`OpenError::ChangedMigration`] for one that was made by another history.
pub(super) async fn migrate(client: &mut Client, now: Timestamp) -> Result<(), OpenError> {
    let encoding: String = client.query_one(ENCODING, &[]).await?.get("encoding");
    if encoding != "UTF8" {
        return Err(OpenError::Encoding { found: encoding });
    }
    let transaction = client.transaction().await?;
    migrate_within(&transaction, now).await?;
    transaction.commit().await?;
    Ok(())
}

/// The same in a transaction that goes on: until its commit nobody sees the schema, and nobody else makes it.
pub(super) async fn migrate_within(transaction: &Transaction<'_>, now: Timestamp) -> Result<(), OpenError> {
    take_turn(transaction).await?;
    let known = MIGRATIONS.last().map_or(0, |newest| newest.version);
    let found: i64 = transaction.query_one(NEWEST, &[]).await?.get(0);
    if found > known {
        return Err(OpenError::TooNew { found, known });
    }
    transaction.batch_execute(HOLD_UP_NOBODY).await?;
    for migration in &MIGRATIONS {
        apply(transaction, migration, now).await?;
    }
    transaction.batch_execute("SET LOCAL lock_timeout = DEFAULT").await?;
    Ok(())
}

/// Waits until nobody else changes the schema, and keeps others from it until the commit.
async fn take_turn(transaction: &Transaction<'_>) -> Result<(), OpenError> {
    transaction.batch_execute(WAIT_FOR_TURN).await?;
    for _ in 0..LEDGER_TRIES {
        transaction.batch_execute("SAVEPOINT ledger").await?;
        match make_ledger(transaction).await {
            Ok(()) => break,
            // Somebody else made it meanwhile, and has ended: now it is there.
            Err(error) if is_there_already(&error) => transaction.batch_execute("ROLLBACK TO SAVEPOINT ledger").await?,
            Err(error) => return Err(error.into()),
        }
    }
    transaction.batch_execute(TAKE_TURN).await?;
    Ok(())
}

async fn make_ledger(transaction: &Transaction<'_>) -> Result<(), tokio_postgres::Error> {
    transaction.batch_execute(MAKE_SCHEMA).await?;
    transaction.batch_execute(MAKE_LEDGER).await
}

fn is_there_already(error: &tokio_postgres::Error) -> bool {
    // Two that make one schema or table at the same moment collide at its name, its type or its index.
    const TAKEN: [SqlState; 4] =
        [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    error.code().is_some_and(|code| TAKEN.contains(code))
}

async fn apply(transaction: &Transaction<'_>, migration: &Migration, now: Timestamp) -> Result<(), OpenError> {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, migration.sql.as_bytes());
    let applied: Option<Vec<u8>> = transaction.query_opt(HASH_OF, &[&migration.version]).await?.map(|row| row.get(0));
    match applied {
        Some(applied) if applied == hash.as_ref() => Ok(()),
        Some(_) => Err(OpenError::ChangedMigration { version: migration.version }),
        None => {
            transaction.batch_execute(migration.sql).await?;
            transaction.execute(NOTE, &[&migration.version, &hash.as_ref(), &now.as_micros()]).await?;
            Ok(())
        }
    }
}
