//! The command line: one file a command.

pub mod app;
pub mod archive;
pub mod bench;
pub mod channels;
pub mod client;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod migrate;
pub mod publish;
pub mod scratch;
pub mod serve;
pub mod simulate;
pub mod stop_signal;
pub mod verify;

use clap::{Parser, Subcommand};

use crate::config::ServeArgs;

/// A webhook server: publish an event once, and it is delivered to every subscribed endpoint.
#[derive(Debug, Parser)]
#[command(name = "everhook", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(ServeArgs),
    /// Run a server with sample endpoints and events
    #[command(mut_args(demo::own_default))]
    Demo(demo::DemoArgs),
    /// Publish one event
    Publish(publish::PublishArgs),
    /// Test a notification channel
    Channels(channels::ChannelsArgs),
    /// Check the signature of a received request
    Verify(verify::VerifyArgs),
    /// Test an app that a platform calls
    App(app::AppArgs),
    /// Measure this machine, and check that nothing is lost or duplicated
    Bench(bench::BenchArgs),
    /// Receive the deliveries of a bench
    #[command(hide = true)]
    BenchSink(bench::sink::BenchSinkArgs),
    /// Simulate an outage under a retry schedule
    Simulate(simulate::SimulateArgs),
    /// Copy a data folder into PostgreSQL
    Migrate(migrate::MigrateArgs),
    /// Check a server, its configuration and the services it uses, and report the size of its data
    Doctor(doctor::DoctorArgs),
    /// Read archived events and dead letters that retention has removed
    Archive(archive::ArchiveArgs),
    /// Print the effective configuration and the source of each value
    Config(config::ConfigArgs),
}

/// Runs the command that was given.
///
/// # Errors
/// Says what went wrong, for the person at the terminal.
pub async fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve(args) => serve::run(&args).await,
        Command::Demo(args) => demo::run(args).await,
        Command::Publish(args) => publish::run(args).await,
        Command::Channels(args) => channels::run(args).await,
        Command::Verify(args) => verify::run(args),
        Command::App(args) => app::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::BenchSink(args) => bench::sink::run(args).await,
        Command::Simulate(args) => simulate::run(args),
        Command::Migrate(args) => migrate::run(&args).await,
        Command::Doctor(args) => doctor::run(args).await,
        Command::Archive(args) => archive::run(&args),
        Command::Config(args) => config::run(&args),
    }
}
