//! `everhook app check`: whether an app conforms to the contract of calls. For the people who write apps; it needs no server.

mod door;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use everhook_adapters::http::{HttpSettings, HttpTransport};
use everhook_core::{
    calls::contract::{self, CallbackDoor, CallbacksExpected, ContractCheck, ContractSubject},
    ids::OrganizationId,
    model::{SigningKey, Target},
    policy::{address::AddressRules, calls::job::refusal_of_payload, schema::Schema},
};
use serde_json::json;
use url::Url;
use uuid::Uuid;

use self::door::ListeningDoor;

/// Work with apps that a platform calls.
#[derive(Debug, clap::Args)]
pub struct AppArgs {
    #[command(subcommand)]
    command: AppCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AppCommand {
    /// Test whether an app conforms to the contract. Exits with 0 if it does and with 1 if it does not
    Check(CheckArgs),
}

/// Test an app with up to 15 requests.
#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The URL of the capability.
    url: Url,
    /// The secret that signs requests (`whsec_…`).
    #[arg(long, env = "APP_SECRET", hide_env_values = true, value_name = "SECRET")]
    secret: String,
    /// A payload that the app can answer: JSON.
    #[arg(long, default_value = "{}", value_name = "JSON")]
    payload: String,
    /// The name of the capability that the app is called with.
    #[arg(long, default_value = "check", value_name = "NAME")]
    capability: String,
    /// The path of the health page on the same host.
    #[arg(long, default_value = "/health", value_name = "PATH")]
    health_path: String,
    /// A file with a JSON Schema that the data of answers must match.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// How long an answer may take, in milliseconds.
    #[arg(long, default_value_t = 5_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    timeout_ms: u64,
    /// The capability is `async`: the app takes jobs over and calls back. The command listens for that
    #[arg(long = "async")]
    is_async: bool,
    /// How long the app may take to call back, in milliseconds.
    #[arg(long, default_value_t = 30_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1_000..=3_600_000), requires = "is_async")]
    callback_timeout_ms: u64,
    /// Where the command listens for callbacks. Port 0 is any that is free.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", requires = "is_async")]
    callback_listen: SocketAddr,
    /// What the URLs of callbacks begin with, if the app reaches this machine by another address.
    #[arg(long, value_name = "URL", requires = "is_async")]
    callback_url: Option<Url>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command that was given. Ends the process with 1 if an app does not conform to the contract.
///
/// # Errors
/// When nothing could be tested: a bad secret, payload or schema.
pub async fn run(args: AppArgs) -> anyhow::Result<()> {
    let AppCommand::Check(args) = args.command;
    let checks = check(&args).await?;
    let is_kept = contract::is_kept(&checks);
    if args.json {
        let shown = |check: &ContractCheck| json!({"name": check.name, "passed": check.passed, "detail": check.detail, "duration_ms": check.took.as_secs_f64() * 1e3});
        anstream::println!("{}", json!({"passed": is_kept, "checks": checks.iter().map(shown).collect::<Vec<_>>()}));
    } else {
        checks.iter().for_each(|check| anstream::println!("{}", line(check)));
        anstream::println!("\n{}", if is_kept { "the app conforms to the contract" } else { "the app does not conform to the contract" });
    }
    if !is_kept {
        std::process::exit(1);
    }
    Ok(())
}

fn line(check: &ContractCheck) -> String {
    let mark = match check.passed {
        Some(true) => "ok",
        Some(false) => "FAILED",
        None => "skipped",
    };
    format!("{mark:<8} {:<20} {:>8.1} ms  {}", check.name, check.took.as_secs_f64() * 1e3, check.detail)
}

async fn check(args: &CheckArgs) -> anyhow::Result<Vec<ContractCheck>> {
    let key = SigningKey::parse(args.secret.trim()).ok().context("--secret: must be a secret that begins with `whsec_`")?;
    serde_json::from_str::<serde::de::IgnoredAny>(&args.payload).context("--payload: not JSON")?;
    ensure!(matches!(args.url.scheme(), "http" | "https"), "`{}`: only http and https are supported", args.url);
    let schema = args.schema.as_deref().map(read_schema).transpose()?;
    let health = args.url.join(&args.health_path).context("--health-path")?;
    // It tests what the person at the terminal names: an app on their own machine, most often.
    let transport = HttpTransport::new(HttpSettings::new(AddressRules::allowing_private()))?;
    let target = |url: &Url| Arc::new(Target { written: url.to_string(), url: url.clone() });
    let door = match args.is_async {
        true => Some(open_door(args).await?),
        false => None,
    };
    let callback_timeout = Duration::from_millis(args.callback_timeout_ms);
    let subject = ContractSubject {
        organization: OrganizationId::from_uuid(Uuid::nil()),
        capability: &args.capability,
        target: target(&args.url),
        health: target(&health),
        key: &key,
        payload: Bytes::from(args.payload.clone()),
        schema: schema.as_ref(),
        timeout: Duration::from_millis(args.timeout_ms),
        callbacks: door.as_ref().map(|door| CallbacksExpected {
            door: door as &dyn CallbackDoor,
            timeout: callback_timeout,
            wait: callback_timeout,
        }),
    };
    Ok(contract::check(&transport, &subject, &Uuid::now_v7).await?)
}

async fn open_door(args: &CheckArgs) -> anyhow::Result<ListeningDoor> {
    if let Some(reason) = refusal_of_payload(args.payload.as_bytes()) {
        anyhow::bail!("--payload: {reason}");
    }
    ListeningDoor::open(args.callback_listen, args.callback_url.as_ref()).await
}

fn read_schema(file: &Path) -> anyhow::Result<Schema> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Schema::compile(&text).map_err(|reason| anyhow::anyhow!("--schema: {reason}"))
}
