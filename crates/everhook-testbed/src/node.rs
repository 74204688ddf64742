//! The real binary as a child process, on one data folder and one port for all its lives: for tests of what only a process can show.

use std::{
    fs::OpenOptions,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use everhook::cli::client::{Connection, Server};
use http::Method;
use tempfile::TempDir;

/// The admin key of every node.
pub const ADMIN_KEY: &str = "eh_the_key_of_a_test_node";
/// A start on a folder that a kill left behind takes milliseconds; this machine may be busy.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK_INTERVAL: Duration = Duration::from_millis(3);

/// A server that can be killed and started again.
pub struct Node {
    folder: TempDir,
    listen: String,
    server: Arc<Server>,
    flags: Vec<String>,
    /// The private networks that it may reach.
    networks: &'static str,
    limits: Option<ResourceLimits>,
    child: Option<Child>,
}

/// What the system allows the process, so that a server that misbehaves fails instead of taking the machine with it.
#[derive(Clone, Copy, Debug)]
pub struct ResourceLimits {
    /// Its address space. Allocators reserve far more than they use: give a few GiB.
    pub address_space_bytes: u64,
    /// Its open files: the hard limit, and the soft one as well, unless there is another.
    pub open_files: u64,
    /// The soft limit on its open files where it is below the hard one.
    pub open_files_soft: Option<u64>,
}

impl Node {
    /// Chooses a folder of its own inside `parent`, which should be on a real disk, and a free port. Nothing runs yet.
    pub fn new(parent: &Path) -> Self {
        let folder = tempfile::tempdir_in(parent).expect("a folder for the data");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
        let listen = format!("127.0.0.1:{port}");
        let url = format!("http://{listen}").parse().expect("a URL");
        let server = Server::new(&url, Some(ADMIN_KEY)).expect("an address");
        Self { folder, listen, server, flags: Vec::new(), networks: "127.0.0.0/8", limits: None, child: None }
    }

    /// The same one, started with these flags as well.
    pub fn with_flags<const N: usize>(mut self, flags: [&str; N]) -> Self {
        self.flags = flags.map(str::to_owned).into();
        self
    }

    /// Starts it with these flags, too, from the next start on.
    pub fn add_flags(&mut self, flags: &[&str]) {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }

    /// The same one; of private networks it reaches these alone.
    pub fn reaching(mut self, networks: &'static str) -> Self {
        self.networks = networks;
        self
    }

    /// The same one, with resource limits set on its process.
    pub fn with_limits(mut self, limits: ResourceLimits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// The id of its process, while it runs.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was started").id()
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Its address, as the commands take it.
    pub fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// How to reach it, while it is up.
    pub fn server(&self) -> Arc<Server> {
        self.server.clone()
    }

    /// Starts the binary; does not wait for it.
    pub fn start(&mut self) {
        let log = OpenOptions::new().create(true).append(true).open(self.log()).expect("a log file");
        let mut command = self.limits.map_or_else(command, limited_command);
        command
            .args(["serve", "--listen", &self.listen, &format!("--allow-private-networks={}", self.networks), "--data"])
            .arg(self.data())
            .args(&self.flags);
        command.env("EVERHOOK_ADMIN_KEY", ADMIN_KEY).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
        self.child = Some(command.spawn().expect("the server starts"));
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it was started");
        if let Some(status) = child.try_wait().expect("its state") {
            panic!("the server ended by itself ({status}):\n{}", self.log_end());
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it is gone");
    }

    /// Asks it to stop as an operator would; does not wait for it.
    pub fn ask_to_stop(&self) {
        let pid = self.child.as_ref().expect("it was started").id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status().expect("`kill` can be run");
        assert!(asked.success(), "{asked}");
    }

    /// How often it has said this in all its lives.
    pub fn times_said(&self, words: &str) -> usize {
        std::fs::read_to_string(self.log()).expect("its log").matches(words).count()
    }

    /// Waits until it takes events, and says since when.
    pub async fn wait_until_ready(&self) -> Instant {
        let ready_at = self.ready_before(Instant::now() + READY_TIMEOUT).await;
        ready_at.unwrap_or_else(|| panic!("the server was not ready within {READY_TIMEOUT:?}:\n{}", self.log_end()))
    }

    /// The instant at which it took events; `None` if the deadline came first.
    pub async fn ready_before(&self, deadline: Instant) -> Option<Instant> {
        let mut connection = Connection::new(self.server());
        while Instant::now() < deadline {
            if connection.send(Method::GET, "/readyz", "").await.is_ok_and(|answer| answer.status.is_success()) {
                return Some(Instant::now());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        None
    }

    /// Waits until it has ended by itself, and says how, and what it said last.
    pub async fn wait_until_ended(&mut self) -> (ExitStatus, String) {
        self.wait_until_ended_within(READY_TIMEOUT).await
    }

    /// The same for one that may take so long.
    pub async fn wait_until_ended_within(&mut self, within: Duration) -> (ExitStatus, String) {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            if let Some(status) = self.child.as_mut().expect("it was started").try_wait().expect("its state") {
                self.child = None;
                return (status, self.log_end());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        panic!("the server did not end within {within:?}:\n{}", self.log_end())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn log_end(&self) -> String {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether no delivery waits or is held.
///
/// # Panics
/// If the node does not answer.
pub async fn is_nothing_open(connection: &mut Connection) -> bool {
    let open = connection.ask(Method::GET, "/v1/deliveries?status=pending&limit=1", None).await.expect("a page of deliveries");
    open["data"].as_array().expect("rows").is_empty()
}

/// The binary with none of the caller's settings: the test says all there is.
pub fn command() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("EVERHOOK_")) {
        command.env_remove(name);
    }
    command
}

/// The same, started by a shell that sets the limits and then becomes the binary.
fn limited_command(limits: ResourceLimits) -> Command {
    let binary = command();
    let ResourceLimits { address_space_bytes, open_files, open_files_soft } = limits;
    let soft = open_files_soft.unwrap_or(open_files);
    let script = format!("ulimit -v {} && ulimit -n {open_files} && ulimit -Sn {soft} && exec \"$0\" \"$@\"", address_space_bytes / 1024);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(binary.get_program());
    for (name, value) in binary.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// The binary beside this test's own, `target/<profile>/everhook`, or the one that `EVERHOOK_TEST_BINARY` names: measurements are asked of a release build.
fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("EVERHOOK_TEST_BINARY") {
        return named.into();
    }
    let test = std::env::current_exe().expect("this test's path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/<profile>/deps/<test>");
    let binary = profile.join(format!("everhook{}", std::env::consts::EXE_SUFFIX));
    assert!(binary.exists(), "{} is missing: build it first (cargo build -p everhook, or run scripts/test)", binary.display());
    binary
}
