//! `everhook doctor`: checks a server, its configuration and the services that it uses, and reports what is wrong and what to do.
//!
//! It reads the same configuration as `everhook serve`, so that it is run with the same flags and environment, on the same machine. `machine` checks what a
//! node needs on its own, `services` what it is connected to, `server` one that runs, and `loop_back` has that one send an event to this command.
//! Nothing that it finds is changed.

mod growth;
mod loop_back;
mod machine;
mod report;
mod server;
mod services;
mod stored;

use std::path::PathBuf;

use anyhow::Context as _;
use everhook_core::model::EmailAddress;
use url::Url;

use self::report::{Check, Report};
use crate::config::{Config, ServeArgs};

/// Check a server, its configuration and the services it uses. Takes the flags of `serve`; exits with 1 if there is a problem.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// The server's address [default: where the configuration says that it listens]
    #[arg(long, env = "EVERHOOK_URL", value_name = "URL")]
    url: Option<Url>,
    /// The API key to use (`eh_…`), with the scope `admin` [default: the configured admin key]
    #[arg(long, env = "EVERHOOK_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<String>,
    /// Send a test mail to this address
    #[arg(long, value_name = "ADDRESS")]
    mail_to: Option<String>,
    /// Skip the test delivery, for which the server creates an application and an endpoint and deletes them again
    #[arg(long)]
    skip_delivery: bool,
    /// Report how much each table has grown since the report in this file, which an earlier run printed with `--json`
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

/// Runs every check and prints the report. Ends the process with 1 if there is a problem.
///
/// # Errors
/// If the arguments cannot be understood.
pub async fn run(args: DoctorArgs) -> anyhow::Result<()> {
    let mail_to = args.mail_to.as_deref().map(EmailAddress::parse).transpose().context("--mail-to")?;
    let report = examine(&args, mail_to).await;
    let text = if args.json { report.as_json() } else { report.as_text() };
    anstream::println!("{text}");
    if report.has_problem() {
        std::process::exit(1);
    }
    Ok(())
}

async fn examine(args: &DoctorArgs, mail_to: Option<EmailAddress>) -> Report {
    let mut report = Report::default();
    let config = match args.serve.load() {
        Ok(loaded) => loaded.config,
        Err(faults) => {
            report.add(Check::problem(
                "configuration",
                faults.to_string(),
                "correct it: `everhook config` shows each value and its source",
            ));
            return report;
        }
    };
    report.add(Check::ok("configuration", "valid"));
    let found = server::examine(args, &config, &mut report).await;
    machine::examine(&config, found.as_ref(), &mut report).await;
    services::examine(&config, mail_to, &mut report).await;
    stored::examine(&config, found.as_ref(), args.since.as_deref(), &mut report).await;
    match &found {
        Some(found) if !args.skip_delivery => report.add(loop_back::check(found).await),
        Some(_) => report.add(Check::skipped("delivery", "not asked for")),
        None => report.add(Check::skipped("delivery", "no server runs")),
    }
    report
}

/// What the store is, for people: a folder or a database.
fn store_name(config: &Config) -> String {
    match &config.database {
        Some(url) => format!("PostgreSQL {}", everhook_adapters::postgres::place(url.expose()).unwrap_or_default()),
        None => format!("data folder {}", config.data.display()),
    }
}
