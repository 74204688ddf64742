//! The processes that `bench` starts: a sink, and a throw-away server of this same executable.
//!
//! Both end with the value that stands for them, also when the bench fails half-way.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use http::Method;
use url::Url;

use crate::cli::client::{Connection, Server};

/// Longer than any start or stop takes: a server finishes what is in flight within 30 s.
const START_OR_STOP_TIMEOUT: Duration = Duration::from_secs(40);
/// How often a process is looked at that starts or stops: the precision of those times.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// What seals secrets on a shared store, where no key is made: those of a bench protect nothing.
const BENCH_SEAL_KEY: &str = "YmVuY2gga2V5LCBub3Qgc2VjcmV0LCAzMiBieXRlcyE=";
/// How much of a failed server's log is shown.
const LOG_LINES_SHOWN: usize = 20;

/// A child process that is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a process that has ended, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running sink.
pub struct SinkProcess {
    process: Process,
    /// Where it listens: `http://127.0.0.1:<port>`.
    pub url: Url,
}

impl SinkProcess {
    /// Starts a sink and waits for the line that tells its address.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let child = command.arg("bench-sink").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start the sink")?;
        let mut process = Process(child);
        let mut address = String::new();
        let stdout = process.0.stdout.take().context("the sink has no standard output")?;
        BufReader::new(stdout).read_line(&mut address)?;
        let url = format!("http://{}", address.trim()).parse().context("the sink did not report its address")?;
        Ok(Self { process, url })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

/// A running server with a data folder of its own.
pub struct ServerProcess {
    process: Process,
    log: PathBuf,
    /// How to reach it, as its administrator.
    pub server: Arc<Server>,
    /// From its start until it was ready to take events.
    pub ready_after: Duration,
}

impl ServerProcess {
    /// Starts a server on an empty folder and waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// When it ends or is not ready in time; the end of its log is part of the message.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_on(folder, None).await
    }

    /// Starts a server on a folder, empty or of a server that was stopped, or on a PostgreSQL database.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_on(folder: &Path, database: Option<&str>) -> anyhow::Result<Self> {
        Self::start_with(folder, database, &[]).await
    }

    /// As [`Self::start_on`], with settings (`EVERHOOK_…`) that are not the defaults.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with(folder: &Path, database: Option<&str>, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let listen = format!("127.0.0.1:{port}");
        let admin_key = format!("eh_bench_{}", uuid::Uuid::now_v7().simple());
        let log = folder.join("server.log");
        let log_file = File::create(&log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "--listen", &listen, "--allow-private-networks=127.0.0.0/8", "--data"]).arg(folder.join("data"));
        // The caller's settings and everhook.toml must not reach in: the results are those of the defaults.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("EVERHOOK_")) {
            command.env_remove(name);
        }
        command.env("EVERHOOK_ADMIN_KEY", &admin_key).envs(settings.iter().copied()).current_dir(folder);
        if let Some(database) = database {
            // By the environment, where other users of this machine do not see the password.
            command.env("EVERHOOK_DATABASE", database).env("EVERHOOK_SEAL_KEY", BENCH_SEAL_KEY);
        }
        command.stdin(Stdio::null()).stdout(log_file.try_clone()?).stderr(log_file);
        let started_at = Instant::now();
        let process = Process(command.spawn().context("cannot start the server")?);
        let server = Server::new(&format!("http://{listen}").parse()?, Some(&admin_key))?;
        let mut starting = Self { process, log, server, ready_after: Duration::ZERO };
        starting.wait_until_ready(started_at).await?;
        starting.ready_after = started_at.elapsed();
        Ok(starting)
    }

    async fn wait_until_ready(&mut self, started_at: Instant) -> anyhow::Result<()> {
        let mut connection = Connection::new(self.server.clone());
        while started_at.elapsed() < START_OR_STOP_TIMEOUT {
            let answer = connection.send(Method::GET, "/readyz", "").await;
            if answer.is_ok_and(|answer| answer.status.is_success()) {
                return Ok(());
            }
            if let Some(status) = self.process.0.try_wait()? {
                bail!("the server exited ({status}) before it was ready:\n{}", self.log_end());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        bail!("the server was not ready within {} s:\n{}", START_OR_STOP_TIMEOUT.as_secs(), self.log_end())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Kills it at once (SIGKILL): what it did not write is lost.
    pub fn kill(self) {
        drop(self.process);
    }

    /// Asks it to stop as an operator would (SIGTERM), and says how long that took.
    ///
    /// # Errors
    /// When it does not stop in time, or not with success.
    pub async fn stop(mut self) -> anyhow::Result<Duration> {
        let asked_at = Instant::now();
        // The standard library can only kill; `kill` is on every system that has signals.
        let asked = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().context("cannot run `kill`")?;
        anyhow::ensure!(asked.success(), "the server exited before it was asked to stop:\n{}", self.log_end());
        while asked_at.elapsed() < START_OR_STOP_TIMEOUT {
            if let Some(status) = self.process.0.try_wait()? {
                anyhow::ensure!(status.success(), "the server did not stop cleanly ({status}):\n{}", self.log_end());
                return Ok(asked_at.elapsed());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        bail!("the server did not stop within {} s", START_OR_STOP_TIMEOUT.as_secs())
    }

    fn log_end(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}
