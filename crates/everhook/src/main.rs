//! The binary: an allocator, a runtime, and the command that was given.

use std::process::ExitCode;

use clap::Parser as _;
use everhook::cli::{self, Cli};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("the system gives threads");
    match runtime.block_on(cli::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("everhook: {error:#}");
            ExitCode::FAILURE
        }
    }
}
