//! A server under attack, the attacker's and the neighbor's organizations on it, and a watch over how the neighbor fares.

use std::{
    io::Write as _,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use axum::{Router, extract::State, http::HeaderMap, routing::post};
use everhook::cli::client::{Connection, Server};
use everhook_testbed::node::{ADMIN_KEY, Node, ResourceLimits};
use http::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

/// Enough for a healthy server with all its arenas and stacks, and far less than the machine has.
const LIMITS: ResourceLimits = ResourceLimits { address_space_bytes: 6 << 30, open_files: 4_096, open_files_soft: None };
/// How often the neighbor publishes and asks for the server's health.
const WATCH_INTERVAL: Duration = Duration::from_millis(5);
/// How many publishes a percentile is taken of where the promised bounds are asserted: fewer would make it the one slowest, which may be a slow flush of the disk.
const PUBLISHES_MIN: usize = 300;
/// How often the neighbor lists its events and deliveries: one time in so many.
const LIST_EVERY: usize = 4;
/// How long requests in progress may take to end once the server was asked to stop; see "Shutdown" in `docs/operating.md`.
const GRACE: Duration = Duration::from_secs(30);
/// How long the neighbor waits for one delivery before it counts as stuck.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// One attack at a time: they measure how others fare, and would be each other's noise.
static TURN: OnceLock<Arc<tokio::sync::Mutex<()>>> = OnceLock::new();

/// A server, and two organizations that know nothing of each other.
pub struct Arena {
    pub node: Node,
    pub attacker: Tenant,
    pub neighbor: Tenant,
    _turn: tokio::sync::OwnedMutexGuard<()>,
}

/// An organization with a key of its own that may manage it.
#[derive(Clone)]
pub struct Tenant {
    pub organization: String,
    pub key: String,
    server: Arc<Server>,
}

impl Arena {
    /// Starts a server with these flags beside the usual ones.
    pub async fn start<const N: usize>(flags: [&str; N]) -> Self {
        Self::start_limited(LIMITS, flags).await
    }

    /// Starts one that may have only so much.
    pub async fn start_limited<const N: usize>(limits: ResourceLimits, flags: [&str; N]) -> Self {
        let turn = TURN.get_or_init(Arc::default).clone().lock_owned().await;
        let mut node = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR"))).with_flags(flags).with_limits(limits);
        node.start();
        node.wait_until_ready().await;
        let attacker = Tenant::create(&node, "attacker").await;
        let neighbor = Tenant::create(&node, "neighbor").await;
        Self { node, attacker, neighbor, _turn: turn }
    }

    /// One more organization on the same server.
    pub async fn tenant(&self, uid: &str) -> Tenant {
        Tenant::create(&self.node, uid).await
    }

    /// Watches how the neighbor fares until [`Watch::end`]: an endpoint that answers at once gets an event now and then.
    pub async fn watch(&self) -> Watch {
        Watch::begin(self).await
    }

    /// Asks the server to stop while the attack goes on, writes down how long it took to end, and asserts that it was within its time.
    pub async fn stop(&mut self, attack: &str, left: LeftToEnd) {
        let (most, asked_at) = (left.most(), Instant::now());
        self.node.ask_to_stop();
        let (status, log) = self.node.wait_until_ended_within(most + Duration::from_secs(30)).await;
        let took = asked_at.elapsed();
        let _ = writeln!(std::io::stderr(), "attack `{attack}`: asked to stop, the server ended after {took:?}");
        assert!(status.success(), "{attack}: the server ended with {status}:\n{log}");
        assert!(took <= most, "{attack}: the server took {took:?} to end:\n{log}");
    }

    /// What the server's process holds in memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        memory_bytes(self.node.pid())
    }
}

/// What is in progress when the server is asked to stop.
#[derive(Clone, Copy)]
pub enum LeftToEnd {
    /// Nothing, or only what is refused or ends by itself.
    Nothing,
    /// Reads: each ends by itself within seconds, those that wait for their turn included.
    Reads,
    /// Requests that do not end by themselves: they have their time, and are then ended.
    Hanging,
}

impl LeftToEnd {
    /// How long the server may take to end: what is promised, and what a debug build on a busy machine keeps.
    fn most(self) -> Duration {
        let promised = match self {
            Self::Nothing => Duration::from_secs(1),
            Self::Reads => GRACE + Duration::from_secs(2),
            Self::Hanging => GRACE + Duration::from_secs(2),
        };
        if is_strict() { promised } else { promised + Duration::from_secs(8) }
    }
}

/// Sends a request again and again from so many clients, each time over a new connection, until the server takes no more of them.
pub fn keep_sending(url: &str, request: &str, clients: usize) -> JoinSet<()> {
    let address = url.strip_prefix("http://").expect("an http URL");
    let mut sending = JoinSet::new();
    for _ in 0..clients {
        let (address, request) = (address.to_owned(), request.to_owned());
        sending.spawn(async move {
            while let Ok(mut stream) = TcpStream::connect(&address).await {
                let mut answer = Vec::new();
                // Whatever comes back, it goes on.
                let _ = stream.write_all(request.as_bytes()).await;
                let _ = stream.read_to_end(&mut answer).await;
            }
        });
    }
    sending
}

impl Tenant {
    async fn create(node: &Node, uid: &str) -> Self {
        let mut admin = Connection::new(node.server());
        let made = admin.ask(Method::POST, "/v1/organizations", Some(&json!({"name": uid, "uid": uid}))).await.expect("an organization");
        let organization = made["id"].as_str().expect("its id").to_owned();
        let body = json!({"name": uid, "scopes": ["manage"]}).to_string();
        let head = format!(
            "POST /v1/api-keys HTTP/1.1\r\nHost: everhook\r\nAuthorization: Bearer {ADMIN_KEY}\r\nX-Organization: {organization}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let answer = exchange(&node.url(), &(head + &body)).await;
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let made: Value = serde_json::from_str(body).expect("the key as JSON");
        let key = made["key"].as_str().expect("the key itself").to_owned();
        let server = Server::new(&node.url().parse().expect("a URL"), Some(&key)).expect("an address");
        Self { organization, key, server }
    }

    /// A new connection that uses its key.
    pub fn connect(&self) -> Connection {
        Connection::new(self.server.clone())
    }

    /// Makes an endpoint, and says its id.
    pub async fn endpoint(&self, url: &str, event_types: &[&str], settings: Value) -> String {
        let mut body = json!({"url": url, "event_types": event_types});
        body.as_object_mut().expect("an object").extend(settings.as_object().cloned().unwrap_or_default());
        let made = self.connect().ask(Method::POST, "/v1/endpoints", Some(&body)).await.expect("an endpoint");
        made["id"].as_str().expect("its id").to_owned()
    }
}

/// Sends these bytes over a connection of their own, and reads what is answered until the server closes it.
pub async fn exchange(url: &str, request: &str) -> String {
    let address = url.strip_prefix("http://").expect("an http URL");
    let mut stream = TcpStream::connect(address).await.expect("the server takes a connection");
    stream.write_all(request.as_bytes()).await.expect("it takes the request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("it answers and closes");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The most that may be taken from the neighbor. `strict` is what is promised; `loose` what a debug build on a busy machine keeps.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub publish_p99: Duration,
    /// From the answer to the publisher until the request arrives.
    pub first_attempt_max: Duration,
    pub healthz_p99: Duration,
    /// Of the neighbor's own lists of events and deliveries.
    pub list_p99: Duration,
    pub memory_growth_bytes: u64,
    /// Watched at least this often, while the attack goes on.
    pub publishes_min: usize,
}

impl Bounds {
    const STRICT: Self = Self {
        publish_p99: Duration::from_millis(50),
        first_attempt_max: Duration::from_millis(100),
        healthz_p99: Duration::from_millis(50),
        list_p99: Duration::from_millis(250),
        memory_growth_bytes: 300 << 20,
        publishes_min: PUBLISHES_MIN,
    };
    const LOOSE: Self = Self {
        publish_p99: Duration::from_secs(2),
        first_attempt_max: Duration::from_secs(4),
        healthz_p99: Duration::from_secs(2),
        list_p99: Duration::from_secs(4),
        memory_growth_bytes: 450 << 20,
        publishes_min: 1,
    };

    /// Those that this run asserts.
    pub fn of_this_run() -> Self {
        if is_strict() { Self::STRICT } else { Self::LOOSE }
    }

    /// The same, but for what the memory of a debug build may grow by.
    pub fn of_this_run_growing(memory_growth_bytes: u64) -> Self {
        if is_strict() { Self::STRICT } else { Self { memory_growth_bytes, ..Self::LOOSE } }
    }
}

/// Whether this run asserts what is promised.
fn is_strict() -> bool {
    std::env::var_os("EVERHOOK_TEST_STRICT").is_some()
}

/// The neighbor at work.
pub struct Watch {
    stop: Arc<AtomicBool>,
    published: Arc<AtomicUsize>,
    thread: JoinHandle<Seen>,
}

/// What the neighbor saw.
#[derive(Default, Debug)]
struct Seen {
    publishes: Vec<Duration>,
    first_attempts: Vec<Duration>,
    healthz: Vec<Duration>,
    lists: Vec<Duration>,
    failures: Vec<String>,
    memory_before: u64,
    memory_most: u64,
}

impl Watch {
    async fn begin(arena: &Arena) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let published = Arc::new(AtomicUsize::new(0));
        let (progress, neighbor, pid) = ((stop.clone(), published.clone()), arena.neighbor.clone(), arena.node.pid());
        let health = Connection::new(arena.node.server());
        let (ready, began) = tokio::sync::oneshot::channel();
        // The neighbor and its receiver have a thread and a runtime of their own, so that the server is measured and not the attacker's own queue of tasks.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let receiver = Receiver::start().await;
                neighbor.endpoint(&receiver.url(), &["neighbor.event"], json!({})).await;
                // Other nodes see the new endpoint within half a second, which is not what is measured.
                tokio::time::sleep(Duration::from_secs(1)).await;
                let _ = ready.send(());
                look_on(neighbor.connect(), health, receiver, pid, progress).await
            })
        });
        began.await.expect("the neighbor's endpoint is made");
        Self { stop, published, thread }
    }

    /// Ends it, writes down what was seen, and asserts that the neighbor did not suffer.
    pub async fn end(self, attack: &str) {
        self.end_within(attack, Bounds::of_this_run()).await;
    }

    /// As [`Watch::end`], with bounds of this attack's own.
    pub async fn end_within(self, attack: &str, bounds: Bounds) {
        while bounds.publishes_min > self.published.load(Ordering::Relaxed) && !self.thread.is_finished() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.stop.store(true, Ordering::Relaxed);
        let mut seen =
            tokio::task::spawn_blocking(|| self.thread.join()).await.expect("a thread to wait on").expect("the watch does not panic");
        let grown = seen.memory_most.saturating_sub(seen.memory_before);
        let publish_p99 = percentile(&mut seen.publishes, 99);
        let publish_max = percentile(&mut seen.publishes, 100);
        let healthz_p99 = percentile(&mut seen.healthz, 99);
        let list_p99 = percentile(&mut seen.lists, 99);
        let first_attempt_max = percentile(&mut seen.first_attempts, 100);
        let _ = writeln!(
            std::io::stderr(),
            "attack `{attack}`: {} publishes p99 {publish_p99:?} (slowest {publish_max:?}), first attempt at most {first_attempt_max:?}, healthz p99 {healthz_p99:?}, {} lists p99 {list_p99:?}, memory +{} MiB",
            seen.publishes.len(),
            seen.lists.len(),
            grown >> 20,
        );
        assert!(
            seen.failures.is_empty(),
            "{attack}: the neighbor was refused or kept waiting: {:?}",
            &seen.failures[..seen.failures.len().min(5)]
        );
        assert!(!seen.publishes.is_empty(), "{attack}: nothing was watched");
        assert!(publish_p99 <= bounds.publish_p99, "{attack}: publishing took {publish_p99:?}");
        assert!(first_attempt_max <= bounds.first_attempt_max, "{attack}: a first attempt came after {first_attempt_max:?}");
        assert!(healthz_p99 <= bounds.healthz_p99, "{attack}: /healthz took {healthz_p99:?}");
        assert!(list_p99 <= bounds.list_p99, "{attack}: a list of the neighbor's own took {list_p99:?}");
        assert!(grown <= bounds.memory_growth_bytes, "{attack}: memory grew by {} MiB", grown >> 20);
    }
}

async fn look_on(
    mut publisher: Connection,
    mut health: Connection,
    receiver: Receiver,
    pid: u32,
    progress: (Arc<AtomicBool>, Arc<AtomicUsize>),
) -> Seen {
    let (stop, published) = progress;
    let mut seen = Seen { memory_before: memory_bytes(pid), ..Seen::default() };
    let body = json!({"type": "neighbor.event", "data": {"n": 1}});
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        match publisher.ask(Method::POST, "/v1/events", Some(&body)).await {
            Ok(answer) => {
                let answered = Instant::now();
                seen.publishes.push(answered - began);
                published.fetch_add(1, Ordering::Relaxed);
                match receiver.wait_for(answer["id"].as_str().unwrap_or_default()).await {
                    Some(at) => seen.first_attempts.push(at.saturating_duration_since(answered)),
                    None => seen.failures.push(format!("no delivery within {ARRIVAL_TIMEOUT:?}")),
                }
            }
            Err(error) => seen.failures.push(format!("publish: {error:#}")),
        }
        let began = Instant::now();
        match health.ask(Method::GET, "/healthz", None).await {
            Ok(_) => seen.healthz.push(began.elapsed()),
            Err(error) => seen.failures.push(format!("healthz: {error:#}")),
        }
        // Both kinds from the start, so that the shortest watch has seen them.
        if seen.publishes.len() % LIST_EVERY == 1 {
            for path in ["/v1/events", "/v1/deliveries"] {
                let began = Instant::now();
                match publisher.ask(Method::GET, path, None).await {
                    Ok(_) => seen.lists.push(began.elapsed()),
                    Err(error) => seen.failures.push(format!("GET {path}: {error:#}")),
                }
            }
        }
        seen.memory_most = seen.memory_most.max(memory_bytes(pid));
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
    seen
}

/// The neighbor's receiver: answers at once, and remembers what came when.
pub struct Receiver {
    address: SocketAddr,
    arrived: Arc<Mutex<Vec<(String, Instant)>>>,
}

type Arrived = Arc<Mutex<Vec<(String, Instant)>>>;

impl Receiver {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let arrived = Arrived::default();
        let app = Router::new().route("/", post(receive)).with_state(arrived.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, arrived }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// When this event came, waiting for it if it has not come yet.
    pub async fn wait_for(&self, event: &str) -> Option<Instant> {
        let deadline = Instant::now() + ARRIVAL_TIMEOUT;
        while Instant::now() < deadline {
            let found = self.arrived.lock().expect("no panic").iter().rev().find(|(id, _)| id == event).map(|(_, at)| *at);
            if found.is_some() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        None
    }
}

async fn receive(State(arrived): State<Arrived>, headers: HeaderMap) {
    let at = Instant::now();
    let id = headers["webhook-id"].to_str().expect("an id").to_owned();
    arrived.lock().expect("no panic").push((id, at));
}

/// The value below which `percent` of them are; zero if there are none.
fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    values.sort_unstable();
    let index = (values.len() * percent).div_ceil(100).saturating_sub(1);
    values.get(index).copied().unwrap_or_default()
}

/// What a process holds in memory (resident), in bytes.
fn memory_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// The quiet case: what the watch measures when nobody attacks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neighbor_fares_well_while_nobody_attacks() {
    let mut arena = Arena::start([]).await;
    let watch = arena.watch().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    watch.end("none").await;
    assert!(arena.memory_bytes() > 0 && !arena.attacker.organization.is_empty() && !arena.attacker.key.is_empty());
    arena.stop("none", LeftToEnd::Nothing).await;
}
