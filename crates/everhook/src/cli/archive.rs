//! `everhook archive`: reads what expired and was archived. It needs no server, and the sealing key for what is encrypted.

use std::{io::Write as _, path::PathBuf};

use anyhow::{Context as _, bail};
use everhook_adapters::{archive, vault::AesVault};
use everhook_core::ports::Vault;

use crate::{
    config::{Config, SealKey, ServeArgs},
    sealing,
};

/// Work with the archive.
#[derive(Debug, clap::Args)]
pub struct ArchiveArgs {
    #[command(subcommand)]
    command: ArchiveCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ArchiveCommand {
    /// Print the records of archive files as JSON lines, decrypted with the server's sealing key
    Read(ReadArgs),
}

/// Print archive files.
#[derive(Debug, clap::Args)]
struct ReadArgs {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    serve: ServeArgs,
}

/// Prints all records of all files. What cannot be opened is printed as it is, and counted.
///
/// # Errors
/// If a file cannot be read, or is none of an archive.
pub fn run(args: &ArchiveArgs) -> anyhow::Result<()> {
    let ArchiveCommand::Read(args) = &args.command;
    let vault = vault(&args.serve.load()?.config)?;
    let mut unopened = 0;
    for file in &args.files {
        let out = anstream::AutoStream::never(std::io::stdout().lock());
        let mut out = std::io::BufWriter::new(out);
        let read = archive::read(file, vault.as_ref().map(|vault| vault as &dyn Vault), |line| writeln!(out, "{line}"));
        let read = read.with_context(|| format!("cannot read {}", file.display()))?;
        out.flush()?;
        if read.is_cut_off {
            anstream::eprintln!(
                "{}: the last block is incomplete, as a crash leaves it. Its records were not removed from the store then, and are in a later file",
                file.display()
            );
        }
        unopened += read.unopened;
    }
    if unopened > 0 {
        bail!(
            "{unopened} records are encrypted with another sealing key than the configured ones: see `sealed.key_id`, and set that key as EVERHOOK_SEAL_KEY, or name its file in EVERHOOK_SEAL_KEY_FILE"
        );
    }
    Ok(())
}

/// The keys that are configured; `None` if there are none.
fn vault(config: &Config) -> anyhow::Result<Option<AesVault>> {
    match &config.seal_key {
        SealKey::File(path) if !path.exists() => Ok(None),
        _ => Ok(Some(sealing::given_vault(config)?)),
    }
}
