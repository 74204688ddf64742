//! The servers of the tests: the one that all share, and one of a test's own that can be stopped.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::services;

/// A start takes milliseconds; the machine may be busy.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Where the shared server is; `None`, said loudly, if there is none.
pub fn shared() -> Option<String> {
    services::address("EVERHOOK_TEST_REDIS")
}

/// A server of a test's own.
pub struct Server {
    port: u16,
    /// How it is started.
    args: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// One that runs; `None`, said loudly, if there is no such program or the services are not wanted.
    pub fn start() -> Option<Self> {
        Self::start_as(|port| vec!["--port".to_owned(), port])
    }

    /// One that is started like this, with the port that it should listen on.
    pub fn start_as(args: impl FnOnce(String) -> Vec<String>) -> Option<Self> {
        shared()?;
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
        let mut server = Self { port, args: args(port.to_string()), child: None };
        server.resume();
        server.child.is_some().then_some(server)
    }

    /// Its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, without TLS.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Ends it at once, with all that it held.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it is gone");
    }

    /// Starts it again, empty.
    pub fn resume(&mut self) {
        let spawned = Command::new("redis-server")
            .args(&self.args)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = spawned else {
            services::skipped("redis-server is not installed");
            return;
        };
        self.child = Some(child);
        let deadline = Instant::now() + START_TIMEOUT;
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
