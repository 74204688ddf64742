//! Moving up: everything that a data folder holds is copied into PostgreSQL, and read back to see that it is there. Called by `everhook migrate`.
//!
//! Read it in this order: `table` (how a table of one store is made of the other's), `tables` (all of them), `value` and `sum` (what makes rows the same
//! on both sides), `reading`, `writing`. It knows both stores, which do not know each other: `sqlite::moving_out` and `postgres::moving_in` are the doors.
//!
//! Nothing of the folder is ever changed. Nothing is decided about a delivery: rows are copied as they stand.

mod error;
mod reading;
mod sum;
mod table;
mod tables;
mod value;
mod writing;

use std::{collections::BTreeMap, ops::ControlFlow, path::PathBuf};

use tokio::sync::mpsc;

pub use self::{
    error::{Mismatch, MoveError},
    table::Table,
};
use self::{
    reading::{Batch, Reached},
    sum::Sum,
    value::Value,
};
use crate::{
    postgres::{
        Fault,
        moving_in::{self, MovingIn},
    },
    sqlite::MovingOut,
};

/// How many rows a transaction takes, unless their bytes end it first. More does not make it faster, and a move that is stopped repeats at most one.
pub const BATCH_ROWS: usize = 5_000;
/// How many batches are ready while one is written: reading is done by then, as a rule.
const BATCHES_AHEAD: usize = 2;

/// What is moved, and where to.
#[derive(Clone)]
pub struct MoveSettings {
    /// The data folder.
    pub from: PathBuf,
    /// The address of the database. It may hold a password, and is never shown.
    pub to: String,
    /// The id of the key that the folder's secrets are sealed with, if it is known: nodes with another will refuse to start.
    pub seal_key_id: Option<String>,
    /// How many rows a transaction takes at most: [`BATCH_ROWS`].
    pub batch_rows: usize,
}

/// What is being done to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its rows are copied.
    Copying,
    /// They are read back.
    Checking,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub step: Step,
    /// To which table.
    pub table: &'static str,
    /// How many of its rows that was done to.
    pub rows: i64,
    /// How many it has.
    pub of: i64,
}

/// Hears how far it is; what breaks off is a move that goes on the next time.
pub type Tell<'t> = &'t mut (dyn FnMut(Progress) -> ControlFlow<()> + Send);

/// A move that has ended well: everything is there, and nodes may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Each table, with how many rows it has and the sum of their hashes, which are the same on both sides.
    pub tables: Vec<(&'static str, i64, String)>,
    /// Whether it went on from where an earlier one was.
    pub was_resumed: bool,
}

/// Every table that is moved.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    tables::all()
}

/// Moves a data folder into a database, or goes on with it.
///
/// Until it has ended well, no node starts on the database; whatever ends it earlier, the next call goes on where it was.
///
/// # Errors
/// [`MoveError`] says what to do. The folder is as it was.
pub async fn move_up(settings: &MoveSettings, tell: Tell<'_>) -> Result<Moved, MoveError> {
    let path = settings.from.clone();
    let source = on_a_thread(move || Ok(MovingOut::open(&path)?)).await?;
    let seal_key_id = settings.seal_key_id.as_deref().ok_or(MoveError::NoSealKey)?;
    let mut target = MovingIn::connect(&settings.to).await?;
    if !target.take().await? {
        return Err(MoveError::AlreadyMoving);
    }
    let mut under_way = Move { source: Some(source), target, batch_rows: settings.batch_rows };
    let was_resumed = under_way.begin(seal_key_id).await?;
    if !under_way.target.take().await? {
        return Err(MoveError::AlreadyMoving);
    }
    under_way.make_partitions().await?;
    let copied = under_way.copy_all(tell).await?;
    let tables = under_way.check_all(&copied, tell).await?;
    under_way.finish().await?;
    Ok(Moved { tables, was_resumed })
}

/// A move under way.
struct Move {
    /// Absent while a thread reads from it.
    source: Option<MovingOut>,
    target: MovingIn,
    batch_rows: usize,
}

/// What was copied of each table, and how many rows it has in the folder.
type Copied = Vec<(&'static Table, Sum, i64)>;

impl Move {
    /// Makes sure that the database is for this folder alone, and says whether a move of it was begun before. The tables and the mark that no node
    /// may start come in one transaction: nobody ever finds the one without the other, whatever ends this.
    async fn begin(&mut self, seal_key_id: &str) -> Result<bool, MoveError> {
        let source = self.source.as_ref().expect("nothing is being read yet");
        let (folder, fingerprint) = (source.path().display().to_string(), source.fingerprint().to_vec());
        if let Some(table) = self.target.foreign_table().await? {
            return Err(MoveError::Foreign { table });
        }
        let tx = self.target.prepare().await?;
        // Nodes may run already on what was moved.
        let found = match moving_in::found(&tx).await? {
            Some(found) if found.is_finished && found.fingerprint == fingerprint => {
                return Err(MoveError::AlreadyMoved { folder: found.source });
            }
            Some(found) if found.is_finished => return Err(MoveError::Taken { folder: found.source }),
            found => found,
        };
        let nodes = moving_in::live_nodes(&tx).await?;
        if !nodes.is_empty() {
            return Err(MoveError::NodesAlive { nodes });
        }
        let was_begun = match found {
            Some(found) if found.fingerprint != fingerprint => {
                return Err(MoveError::OtherSource { folder: found.source });
            }
            Some(_) => true,
            None => {
                for table in tables::all() {
                    if tx.query_one(&table.exists_in_target(), &[]).await?.try_get(0)? {
                        return Err(MoveError::NotEmpty { table: table.name });
                    }
                }
                moving_in::begin(&tx, &folder, &fingerprint).await?;
                false
            }
        };
        let known = moving_in::keep_seal_key_id(&tx, seal_key_id).await?;
        if known != seal_key_id {
            return Err(MoveError::OtherSealKey { known, given: seal_key_id.to_owned() });
        }
        tx.commit().await?;
        Ok(was_begun)
    }

    /// Before there is anything in the way of them.
    async fn make_partitions(&mut self) -> Result<(), MoveError> {
        let days = self.read(reading::days).await?;
        Ok(self.target.make_days(days).await?)
    }

    async fn copy_all(&mut self, tell: Tell<'_>) -> Result<Copied, MoveError> {
        let mut reached = self.reached().await?;
        let mut copied = Vec::new();
        for table in tables::all() {
            let rows = self.read(|source| reading::count(source.connection(), table)).await?;
            let from = reached.remove(table.name).unwrap_or_default();
            copied.push((table, self.copy(table, from, rows, tell).await?, rows));
        }
        Ok(copied)
    }

    /// How far each table was when the move ended before.
    async fn reached(&mut self) -> Result<BTreeMap<String, Reached>, MoveError> {
        let mut reached = BTreeMap::new();
        for part in self.target.parts().await? {
            let unreadable = || Fault::Impossible(format!("the progress of `{}` is invalid", part.name));
            let sum = Sum::read(part.rows, &part.sum).ok_or_else(unreadable)?;
            let last_key = Value::read_all(&part.last_key).ok_or_else(unreadable)?;
            reached.insert(part.name, Reached { sum, last_key });
        }
        Ok(reached)
    }

    /// Copies the rest of a table; answers what was copied in all.
    async fn copy(&mut self, table: &'static Table, from: Reached, of: i64, tell: Tell<'_>) -> Result<Sum, MoveError> {
        let sum = from.sum;
        report(tell, Step::Copying, table, sum.rows, of)?;
        let (sender, mut batches) = mpsc::channel(BATCHES_AHEAD);
        let (source, batch_rows) = (self.source.take().expect("one table is read at a time"), self.batch_rows);
        let reading = tokio::task::spawn_blocking(move || {
            let outcome = reading::read(source.connection(), table, from, batch_rows, &sender);
            (source, outcome)
        });
        let written = self.write_all(table, sum, of, &mut batches, tell).await;
        // Whoever still reads stops now: the folder must be free when this has ended, however it ends.
        drop(batches);
        let (source, outcome) = reading.await.expect("reading does not panic");
        self.source = Some(source);
        outcome.and(written)
    }

    async fn write_all(
        &mut self,
        table: &Table,
        mut sum: Sum,
        of: i64,
        batches: &mut mpsc::Receiver<Batch>,
        tell: Tell<'_>,
    ) -> Result<Sum, MoveError> {
        let types = self.target.types(&table.select_target()).await.map_err(|fault| writing::refused(table, &fault))?;
        while let Some(batch) = batches.recv().await {
            writing::write(&mut self.target, table, &types, &batch).await?;
            sum = batch.reached.sum;
            report(tell, Step::Copying, table, sum.rows, of)?;
        }
        Ok(sum)
    }

    async fn check_all(&mut self, copied: &Copied, tell: Tell<'_>) -> Result<Vec<(&'static str, i64, String)>, MoveError> {
        let (mut same, mut mismatches) = (Vec::new(), Vec::new());
        for (table, copied, of) in copied {
            report(tell, Step::Checking, table, 0, *of)?;
            let found = writing::sum(&mut self.target, table, |rows| report(tell, Step::Checking, table, rows, *of)).await?;
            report(tell, Step::Checking, table, found.rows, *of)?;
            if found == *copied && found.rows == *of {
                same.push((table.name, found.rows, found.hex()));
            } else {
                let (source, target) = ((*of, copied.hex()), (found.rows, found.hex()));
                mismatches.push(Mismatch { table: table.name, source, target });
            }
        }
        if mismatches.is_empty() { Ok(same) } else { Err(MoveError::Mismatch(mismatches)) }
    }

    /// Lets nodes start.
    async fn finish(&mut self) -> Result<(), MoveError> {
        // So that the first plans know how large the tables are.
        self.target.client().batch_execute("ANALYZE").await?;
        let tx = self.target.lock().await?;
        for count_on in tables::all().filter_map(Table::count_on) {
            tx.batch_execute(&count_on).await?;
        }
        moving_in::finish(&tx).await?;
        Ok(tx.commit().await?)
    }

    /// Reads something small from the folder.
    async fn read<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&MovingOut) -> Result<T, MoveError> + Send + 'static,
    ) -> Result<T, MoveError> {
        let source = self.source.take().expect("one thing is read at a time");
        let (source, outcome) = on_a_thread(move || {
            let outcome = work(&source);
            Ok((source, outcome))
        })
        .await?;
        self.source = Some(source);
        outcome
    }
}

fn report(tell: Tell<'_>, step: Step, table: &Table, rows: i64, of: i64) -> Result<(), MoveError> {
    match tell(Progress { step, table: table.name, rows, of }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(MoveError::Stopped),
    }
}

async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, MoveError> + Send + 'static) -> Result<T, MoveError> {
    tokio::task::spawn_blocking(work).await.expect("reading does not panic")
}
