//! Reads files of an archive back, with what is encrypted opened where the key is there. Called by the command line.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use everhook_core::{model::SealedSecret, ports::Vault};
use serde_json::{Value, json};
use uuid::Uuid;

use super::lines::{SEALED, merge, plain};

/// The longest line that is read: far above what the largest event takes, as text of an encrypted value.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// What was found in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFile {
    /// How many records.
    pub records: u64,
    /// How many of them are encrypted and could not be opened.
    pub unopened: u64,
    /// Whether the file ends in the middle of a block, as a crash leaves it. What the block holds was still in the store then, and is in a later file.
    pub is_cut_off: bool,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file, or what it is told to.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none of ours, or is damaged.
    #[error("line {0} is not a record of an archive")]
    Line(u64),
}

/// Tells each record of a file as a line of JSON, with what the vault opens in place of what is encrypted.
///
/// # Errors
/// [`ReadError`], after what could be read was told.
pub fn read(path: &Path, vault: Option<&dyn Vault>, mut tell: impl FnMut(&str) -> io::Result<()>) -> Result<ReadFile, ReadError> {
    let mut lines = BufReader::new(zstd::stream::read::Decoder::new(File::open(path)?)?);
    let (mut found, mut line) = (ReadFile::default(), Vec::new());
    loop {
        line.clear();
        match lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return Ok(found),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(ReadFile { is_cut_off: true, ..found });
            }
            Err(error) => return Err(error.into()),
        }
        let number = found.records + 1;
        let mut record: Value = serde_json::from_slice(&line).map_err(|_| ReadError::Line(number))?;
        if record.get(SEALED).is_some() && !vault.is_some_and(|vault| open(&mut record, vault)) {
            found.unopened += 1;
        }
        found.records = number;
        tell(&record.to_string())?;
    }
}

/// Says `false` if it does not open, and leaves it as it is.
fn open(record: &mut Value, vault: &dyn Vault) -> bool {
    let Some(opened) = opened(record, vault) else { return false };
    if let Some(fields) = record.as_object_mut() {
        fields.remove(SEALED);
    }
    merge(record, Some(opened));
    true
}

fn opened(record: &Value, vault: &dyn Vault) -> Option<Value> {
    let owner: Uuid = record["id"].as_str()?.parse().ok()?;
    let open = |name: &str| {
        let sealed = STANDARD.decode(record[SEALED][name].as_str()?).ok()?;
        vault.open(&owner, &SealedSecret(sealed)).ok()
    };
    let headers = match record[SEALED].get("headers") {
        Some(_) => Some(serde_json::from_slice(&open("headers")?).unwrap_or(json!([]))),
        None => None,
    };
    Some(plain(&open("data")?, headers))
}
