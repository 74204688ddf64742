//! A PostgreSQL server of a test's own, that it may stop and start again. Made from the programs of the machine, as `scripts/services` does.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// The user that PostgreSQL runs as where the test is run by root, which it refuses to serve.
const USER: &str = "postgres";
/// What holds for the server: nobody but this machine reaches it, and what it loses with the machine does not matter.
const SETTINGS: &str = "-c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off";

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Connections are ended, and everything is written.
    Fast,
    /// As if it had crashed.
    Immediate,
}

/// A server. It goes when this is dropped.
pub struct PostgresServer {
    folder: TempDir,
    port: u16,
}

impl PostgresServer {
    /// Makes one and starts it.
    ///
    /// # Panics
    /// If the machine has no PostgreSQL: there is no good test without one.
    pub fn start() -> Self {
        // Where its user can walk in: a checkout in somebody's home need not allow that.
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder for the server");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
        let server = Self { folder, port };
        if is_root() {
            run(Command::new("chown").arg(USER).arg(server.folder.path()));
        }
        let data = server.data();
        run(program("initdb").args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--username=everhook", "--pgdata"]).arg(data));
        server.start_again();
        server
    }

    /// Starts it again, and returns once it answers.
    pub fn start_again(&self) {
        let settings = format!("{SETTINGS} -c port={}", self.port);
        let mut start = self.pg_ctl("start");
        run(start.args(["--wait", "--options", &settings, "--log"]).arg(self.folder.path().join("server.log")));
    }

    /// Stops it, and returns once it is gone.
    pub fn stop(&self, how: Stop) {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        run(self.pg_ctl("stop").args(["--wait", "--mode", mode]));
    }

    /// The address of its database.
    pub fn url(&self) -> String {
        format!("postgres://everhook@127.0.0.1:{}/postgres", self.port)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn pg_ctl(&self, what: &str) -> Command {
        let mut command = program("pg_ctl");
        command.arg(what).arg("--pgdata").arg(self.data());
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // It may be stopped already.
        let _ = self.pg_ctl("stop").args(["--mode", "immediate"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

/// Debian keeps several versions side by side, none of them in the path.
fn program(name: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists()).collect();
    found.sort();
    let path = found.pop().unwrap_or_else(|| Path::new(name).to_owned());
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", USER, "--"]).arg(path);
    command
}

fn run(command: &mut Command) {
    let status = command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let succeeded = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    assert!(succeeded, "{command:?} failed: {status:?}; this test needs the programs of PostgreSQL, as `scripts/services` installs them");
}
