//! Which database the spool is of. Its events are of applications that only that one knows, and so is whom it admits: forwarded to another, they would
//! find no application, and all of them would be set aside. Asked by whoever starts a node, before anything is forwarded.

use everhook_core::ports::StoreError;
use rusqlite::{OptionalExtension, params};
use uuid::Uuid;

use super::{SqliteSpool, publisher_cache, queue};
use crate::sqlite::{fault::Outcome, transaction::Tx};

const BOUND: &str = include_str!("queries/spool_binding.sql");
const COUNT: &str = include_str!("queries/count_spool_events.sql");
const BIND: &str = include_str!("queries/bind_spool.sql");

/// Whether a spool that is of another database may become this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// If there is no event in it. Whom it admits is forgotten then.
    IfEmpty,
    /// Never: publishers were admitted by it since it was opened, and what they sent may still be on its way into it.
    Never,
}

/// Why a spool cannot be used with a database.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// It is another one's.
    #[error(
        "this spool belongs to another database: it contains {events} events for the installation {bound}, but this database is the installation {found}. Start with that database, or name another folder with --spool"
    )]
    OtherDatabase {
        /// The one that it is of.
        bound: Uuid,
        /// The one that it should be used with.
        found: Uuid,
        /// How many events it holds.
        events: u64,
    },
    /// Its file failed.
    #[error("cannot read or write the spool")]
    File(#[from] StoreError),
}

/// How a spool and a database stand to each other.
enum Relation {
    Bound,
    TakenOver { from: Uuid },
    Another { bound: Uuid, events: u64 },
}

impl SqliteSpool {
    /// Binds the spool to the database with this id, if it is of none yet; otherwise makes sure that it is this one's.
    ///
    /// # Errors
    /// [`BindError::OtherDatabase`] if it is another one's: it is as it was, and its events must not be forwarded to this one.
    pub async fn bind(&self, installation: Uuid, takeover: Takeover) -> Result<(), BindError> {
        match self.writer.write(4, move |tx| relate(tx, installation, takeover)).await? {
            Relation::Bound => Ok(()),
            Relation::TakenOver { from } => {
                *self.known() = publisher_cache::Known::default();
                tracing::info!("the empty spool of another database (installation {from}) now belongs to this one ({installation})");
                Ok(())
            }
            Relation::Another { bound, events } => Err(BindError::OtherDatabase { bound, found: installation, events }),
        }
    }
}

fn relate(tx: &Tx<'_>, installation: Uuid, takeover: Takeover) -> Outcome<Relation> {
    let bound = tx.prepare(BOUND)?.query_row([], |row| row.get("installation")).optional()?.map(Uuid::from_bytes);
    let Some(bound) = bound else {
        bind(tx, installation)?;
        return Ok(Relation::Bound);
    };
    if bound == installation {
        return Ok(Relation::Bound);
    }
    let events = tx.prepare(COUNT)?.query_row([], |row| queue::number(row, "events"))?;
    if events > 0 || takeover == Takeover::Never {
        return Ok(Relation::Another { bound, events });
    }
    publisher_cache::delete_all(tx)?;
    bind(tx, installation)?;
    Ok(Relation::TakenOver { from: bound })
}

fn bind(tx: &Tx<'_>, installation: Uuid) -> Outcome<()> {
    tx.prepare(BIND)?.execute(params![installation.as_bytes()])?;
    Ok(())
}
