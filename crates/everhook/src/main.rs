//! The binary: an allocator, a runtime, and the command that was given.

use std::{process::ExitCode, time::Duration};

use clap::Parser as _;
use everhook::cli::{self, Cli};

/// How long threads that are in the middle of something may take to notice that the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("the system gives threads");
    let ended = runtime.block_on(cli::run(cli));
    // Whatever still runs was given its time.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("everhook: {error:#}");
            ExitCode::FAILURE
        }
    }
}
