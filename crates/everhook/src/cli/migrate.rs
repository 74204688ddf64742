//! `everhook migrate`: moves a data folder into PostgreSQL, and says what to do next.
//!
//! What is moved, how, and how it is checked is in the adapters' `moving`; here it is asked for and shown.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::bail;
use everhook_adapters::moving::{self, BATCH_ROWS, MoveError, MoveSettings, Moved, Progress, Step};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::stop_signal::StopSignal;
use crate::sealing;

/// How often a program is told how far a table is.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// How often, and how long apart, a move is tried that another process seems to make: ten seconds in all.
const LOCK_ROUNDS_MAX: u32 = 20;
const LOCK_DELAY: Duration = Duration::from_millis(500);

/// What the help says below the flags.
const HELP: &str = "\
Stop the server of the folder first. The database must be new and empty; its tables are created. Everything is copied: organizations, endpoints with their \
secrets, API keys, events, waiting deliveries, history. Then all of it is read back, and counts and hashes are compared. Until this has succeeded, \
no node starts on the database. The folder is not changed.

If it is interrupted, run the same command again to continue.

Example:
  everhook migrate --from everhook-data --to postgres://everhook:secret@db.example/everhook";

/// Copy a data folder into PostgreSQL and verify the copy. The folder is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct MigrateArgs {
    /// The data folder, as passed to `everhook serve --data`. It is only read
    #[arg(long, value_name = "FOLDER")]
    from: PathBuf,
    /// The database: postgres://user:password@host:5432/database
    #[arg(long, value_name = "URL", env = "EVERHOOK_DATABASE", hide_env_values = true)]
    to: String,
    /// Print JSON, one object per line: the progress of each table, and finally the result
    #[arg(long)]
    json: bool,
}

/// Moves the folder, and shows how far that is.
///
/// # Errors
/// Says what is in the way, and what to do.
pub async fn run(args: &MigrateArgs) -> anyhow::Result<()> {
    let mut stop = StopSignal::listen()?;
    let settings =
        MoveSettings { from: args.from.clone(), to: args.to.clone(), seal_key_id: sealing::key_id_of(&args.from)?, batch_rows: BATCH_ROWS };
    let key = NodesKey::of(&args.from, settings.seal_key_id.clone().unwrap_or_default())?;
    if let Some(warning) = key.warning() {
        anstream::eprintln!("Warning: {warning}");
    }
    let began = Instant::now();
    let mut screen = Screen::new(args.json);
    let mut tell = |progress| {
        screen.show(progress);
        ControlFlow::Continue(())
    };
    let moved = tokio::select! {
        moved = move_when_free(&settings, &mut tell) => moved,
        () = stop.received() => bail!("stopped. Run the same command again to continue"),
    };
    screen.end();
    let moved = match moved {
        Err(MoveError::AlreadyMoved { folder }) => {
            tell_already_moved(args, &key, &folder);
            return Ok(());
        }
        moved => moved?,
    };
    if args.json {
        anstream::println!("{}", as_json(&moved, &key, began.elapsed()));
    } else {
        anstream::println!("{}\n\n{}", as_table(&moved, began.elapsed()), key.next_steps());
    }
    Ok(())
}

/// Moves the folder. A process that was just killed holds its lock until the database has noticed, so that a taken lock is waited for.
async fn move_when_free(settings: &MoveSettings, tell: moving::Tell<'_>) -> Result<Moved, MoveError> {
    for _ in 0..LOCK_ROUNDS_MAX {
        match moving::move_up(settings, &mut *tell).await {
            Err(MoveError::AlreadyMoving) => tokio::time::sleep(LOCK_DELAY).await,
            ended => return ended,
        }
    }
    Err(MoveError::AlreadyMoving)
}

/// The same command again is no failure: scripts repeat what may have been interrupted.
fn tell_already_moved(args: &MigrateArgs, key: &NodesKey, folder: &str) {
    if args.json {
        let seal_key_file = key.is_in_file().then(|| key.file());
        let told = json!({ "step": "finished", "already_moved": true, "seal_key_id": key.needed, "seal_key_file": seal_key_file });
        anstream::println!("{told}");
    } else {
        anstream::println!("{folder} was already copied into this database: nothing is left to do.\n\n{}", key.next_steps());
    }
}

/// The key that all nodes will need, and whether the folder has it. A move does not: secrets stay sealed as they are.
struct NodesKey {
    folder: PathBuf,
    /// The id of the key that the secrets are sealed with.
    needed: String,
    /// The id of the key in the folder's own file, if it has one.
    in_file: Option<String>,
}

impl NodesKey {
    fn of(folder: &Path, needed: String) -> anyhow::Result<Self> {
        let in_file = sealing::key_id_in_file_of(folder)?;
        Ok(Self { folder: folder.canonicalize().unwrap_or_else(|_| folder.to_owned()), needed, in_file })
    }

    fn is_in_file(&self) -> bool {
        self.in_file.as_ref() == Some(&self.needed)
    }

    fn file(&self) -> PathBuf {
        self.folder.join(sealing::KEY_FILE)
    }

    /// Said before anything is copied: that is harmless without the key, and of no use if nobody has it any more.
    fn warning(&self) -> Option<String> {
        let in_file = self.in_file.as_ref().filter(|_| !self.is_in_file())?;
        let (needed, file) = (&self.needed, self.file());
        Some(format!(
            "the secrets in this folder are encrypted with the sealing key {needed}, but {} contains another key, {in_file}. Everything is copied, but no node starts on the database without the key {needed}, and nothing else decrypts the endpoints' secrets: make sure that you have it",
            file.display()
        ))
    }

    fn next_steps(&self) -> String {
        let (needed, file, folder) = (&self.needed, self.file(), self.folder.display());
        let from_elsewhere = "the one that was set as EVERHOOK_SEAL_KEY or EVERHOOK_SEAL_KEY_FILE for the server of the folder";
        let key = match &self.in_file {
            Some(_) if self.is_in_file() => {
                format!("EVERHOOK_SEAL_KEY_FILE={}, or a copy of that file, or its text as EVERHOOK_SEAL_KEY", file.display())
            }
            Some(other) => format!("NOT {}, which contains another key ({other}), but {from_elsewhere}", file.display()),
            None => from_elsewhere.to_owned(),
        };
        format!(
            "Next steps:\n\
             1. Give every node the same sealing key ({needed}): {key}.\n\
             2. Start the nodes: everhook serve --database postgres://… They continue with the waiting deliveries.\n\
             3. Keep {folder} until you are satisfied, but start no server on it: both would send."
        )
    }
}

/// Where progress is shown: a bar for people, lines for programs.
enum Screen {
    Bar(ProgressBar),
    Lines { told: Option<(Step, &'static str, Instant)> },
}

impl Screen {
    fn new(json: bool) -> Self {
        if json {
            return Self::Lines { told: None };
        }
        let style = ProgressStyle::with_template("{msg:<32} {wide_bar} {human_pos}/{human_len} {per_sec}");
        Self::Bar(ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    fn show(&mut self, progress: Progress) {
        let Progress { step, table, rows, of } = progress;
        let verb = match step {
            Step::Copying => "copying",
            Step::Checking => "checking",
        };
        match self {
            Self::Bar(bar) => {
                let message = format!("{verb} {table}");
                if bar.message() != message {
                    bar.reset();
                    bar.set_message(message);
                }
                bar.set_length(u64::try_from(of).unwrap_or(0));
                bar.set_position(u64::try_from(rows).unwrap_or(0));
            }
            Self::Lines { told } => {
                // The beginning and the end of each table, and now and then in between.
                let is_news =
                    told.is_none_or(|(last_step, last_table, at)| (last_step, last_table) != (step, table) || at.elapsed() >= TELL_EVERY);
                if is_news || rows == of {
                    *told = Some((step, table, Instant::now()));
                    anstream::println!("{}", json!({ "step": verb, "table": table, "rows": rows, "of": of }));
                }
            }
        }
    }

    fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn as_json(moved: &Moved, key: &NodesKey, took: Duration) -> serde_json::Value {
    let table = |(table, rows, hash): &(&str, i64, String)| json!({ "table": table, "rows": rows, "hash": hash });
    json!({
        "step": "finished",
        "resumed": moved.was_resumed,
        "seconds": took.as_millis() as f64 / 1_000.0,
        "seal_key_id": key.needed,
        "seal_key_file": key.is_in_file().then(|| key.file()),
        "tables": moved.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

/// Tables without rows are told in one line.
fn as_table(moved: &Moved, took: Duration) -> String {
    let (filled, empty): (Vec<_>, Vec<_>) = moved.tables.iter().partition(|(_, rows, _)| *rows > 0);
    let width = filled.iter().map(|(table, ..)| table.len()).max().unwrap_or_default().max("table".len());
    let mut lines = vec![format!("{:width$}  {:>12}  check", "table", "rows")];
    lines.extend(filled.iter().map(|(table, rows, hash)| format!("{table:width$}  {rows:>12}  same on both sides ({})", &hash[..16])));
    if !empty.is_empty() {
        let names: Vec<&str> = empty.iter().map(|(table, ..)| *table).collect();
        lines.push(format!("empty on both sides: {}", names.join(", ")));
    }
    let went_on = if moved.was_resumed { ", continuing an earlier run" } else { "" };
    lines.push(format!("\nEverything was copied and verified in {:.1} s{went_on}.", took.as_secs_f64()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved() -> Moved {
        let hash = "00ff".repeat(16);
        Moved { tables: vec![("events", 12, hash.clone()), ("nodes", 1, hash.clone()), ("rollups", 0, hash)], was_resumed: true }
    }

    fn key(in_file: Option<&str>) -> NodesKey {
        NodesKey { folder: "/data".into(), needed: "1a2b3c4d".to_owned(), in_file: in_file.map(str::to_owned) }
    }

    #[test]
    fn nodes_are_pointed_to_the_folders_key_only_if_it_is_the_one_that_they_need() {
        for (in_file, expected, warns) in [
            (Some("1a2b3c4d"), "(1a2b3c4d): EVERHOOK_SEAL_KEY_FILE=/data/seal.key, or", false),
            (Some("ffffffff"), "(1a2b3c4d): NOT /data/seal.key, which contains another key (ffffffff), but the one that", true),
            (None, "(1a2b3c4d): the one that was set as EVERHOOK_SEAL_KEY", false),
        ] {
            let key = key(in_file);
            assert!(key.next_steps().contains(expected), "{}", key.next_steps());
            assert_eq!(key.warning().is_some(), warns);
            assert!(key.warning().is_none_or(|warning| warning.contains("1a2b3c4d") && warning.contains("ffffffff")));
        }
    }

    #[test]
    fn people_are_told_what_was_moved_and_that_it_is_the_same() {
        let table = as_table(&moved(), Duration::from_millis(1_250));
        assert!(table.contains("events            12  same on both sides (00ff00ff00ff00ff)"), "{table}");
        assert!(table.contains("verified in 1.2 s, continuing an earlier run."), "{table}");
        assert!(table.contains("empty on both sides: rollups\n"), "{table}");
    }

    #[test]
    fn programs_get_every_table_and_its_whole_hash() {
        let json = as_json(&moved(), &key(None), Duration::from_secs(2));
        assert_eq!((&json["seal_key_id"], &json["resumed"], &json["seconds"]), (&json!("1a2b3c4d"), &json!(true), &json!(2.0)));
        assert_eq!(json["seal_key_file"], json!(null));
        assert_eq!(json["tables"][2], json!({ "table": "rollups", "rows": 0, "hash": "00ff".repeat(16) }));
    }
}
