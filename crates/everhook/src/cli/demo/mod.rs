//! `everhook demo`: a server in this process, a receiver with good and bad manners, and sample events, so that a newcomer sees
//! deliveries, retries and dead letters within seconds of building.
//!
//! It is the real server with its real settings; only the defaults of folder, port, key and allowed networks differ.

mod receiver;
mod screen;
mod script;

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http::Method;
use tokio::{sync::mpsc, time::MissedTickBehavior};

use self::{
    receiver::{Answer, Attempt, Receiver},
    screen::{Place, Tally},
    script::{DeadLetters, EndpointNames},
};
use super::{
    client::{Connection, Server},
    scratch::ScratchFolder,
    stop_signal::StopSignal,
};
use crate::{
    config::{Config, Origin, ServeArgs},
    wiring,
};

/// Run a server with sample endpoints and events.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Stop after this many events, when all their deliveries have ended.
    #[arg(long, value_name = "N")]
    events: Option<u64>,
    /// Sample events per second.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
}

/// Says the demo's own defaults of the server's settings, where they differ: see [`Stage::prepare`].
pub fn own_default(arg: clap::Arg) -> clap::Arg {
    match arg.get_id().as_str() {
        "data" => arg.help("Store all data in this folder [default: a temporary one, which is removed at the end]"),
        "listen" => arg.help("Listen on this address [default: 127.0.0.1:8080, or the next free port]"),
        "allow_private_networks" => {
            arg.help("Permit endpoints in private networks: `true`, or a list of CIDR blocks [default: 127.0.0.0/8]")
        }
        "admin_key" => arg.help("Create this admin key [default: a new one, which is printed]"),
        _ => arg,
    }
}

/// How many received requests may wait to be printed; past it the receiver waits for the screen.
const SCREEN_QUEUE: usize = 1_024;
/// How often dead letters are looked for.
const DEAD_LETTER_LOOK: Duration = Duration::from_millis(400);
/// How long `--events` waits for the last deliveries to end: longer than all retries of a demo endpoint.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Runs until Ctrl-C, or until `--events` have been seen through.
///
/// # Errors
/// When the server cannot be started or refuses the demo's endpoints, or when a signature was wrong.
pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let stage = Stage::prepare(args.serve)?;
    let mut stop = StopSignal::listen()?;
    let running = wiring::start(&stage.config).await.context("cannot start the server")?;
    let url = format!("http://{}", running.address);
    let place = Place {
        url: &url,
        admin_key: &stage.admin_key,
        data: &stage.config.data,
        is_temporary: stage.scratch.is_some(),
        port_note: stage.port_note.clone(),
    };
    anstream::println!("{}", screen::head(&place));
    let server = Server::new(&url.parse()?, Some(&stage.admin_key))?;
    let shown = Show::open(server).await;
    let played = match shown {
        Ok(mut show) => {
            let played = tokio::select! {
                played = show.play(args.events, args.rate) => played,
                () = stop.received() => Ok(()),
            };
            played.map(|()| show.tally)
        }
        Err(refused) => Err(refused),
    };
    running.stop().await;
    let tally = played?;
    anstream::println!("\n{}", screen::summary(&tally));
    anyhow::ensure!(tally.wrong_signatures == 0, "{} requests had a wrong signature", tally.wrong_signatures);
    Ok(())
}

/// The settings of the demo's server.
struct Stage {
    config: Config,
    admin_key: String,
    port_note: Option<String>,
    /// Held for its end, which removes the folder.
    scratch: Option<ScratchFolder>,
}

impl Stage {
    /// Takes what the user wrote, and the demo's own defaults where nothing was written.
    fn prepare(mut args: ServeArgs) -> anyhow::Result<Self> {
        let written = args.load()?;
        let is_default = |name: &str| written.settings.iter().any(|setting| setting.name == name && setting.origin == Origin::Default);
        let mut scratch = None;
        if is_default("data") {
            let folder = ScratchFolder::make(&std::env::temp_dir(), "demo")?;
            args.data = Some(folder.path().display().to_string());
            scratch = Some(folder);
        }
        let mut port_note = None;
        if is_default("listen") {
            let port = free_port();
            args.listen = Some(format!("127.0.0.1:{port}"));
            port_note = (port != USUAL_PORT).then(|| format!("{USUAL_PORT} is taken"));
        }
        if is_default("allow_private_networks") {
            args.allow_private_networks = Some("127.0.0.0/8".to_owned());
        }
        if is_default("admin_key") {
            args.admin_key = Some(format!("eh_demo_{}", uuid::Uuid::now_v7().simple()));
        }
        let config = args.load()?.config;
        let admin_key = config.admin_key.as_ref().map(|key| key.expose().clone()).context("the demo has no admin key")?;
        Ok(Self { config, admin_key, port_note, scratch })
    }
}

const USUAL_PORT: u16 = 8080;
/// How many ports are tried before the system may choose any.
const PORTS_TRIED: u16 = 20;

/// The usual port, or the next one that nobody listens on.
fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (USUAL_PORT..USUAL_PORT + PORTS_TRIED).find(is_free).unwrap_or(0)
}

/// The demo under way.
struct Show {
    publisher: Connection,
    dead_letters: DeadLetters,
    names: EndpointNames,
    attempts: mpsc::Receiver<Attempt>,
    tally: Tally,
}

impl Show {
    async fn open(server: Arc<Server>) -> anyhow::Result<Self> {
        let (sender, attempts) = mpsc::channel(SCREEN_QUEUE);
        let receiver = Receiver::start(sender).await?;
        let dead_letters = DeadLetters::watch(&server).await?;
        let names = script::make_endpoints(&server, &receiver).await?;
        Ok(Self { publisher: Connection::new(server), dead_letters, names, attempts, tally: Tally::default() })
    }

    /// Publishes and prints; ends only if `events_max` is given.
    async fn play(&mut self, events_max: Option<u64>, rate: u32) -> anyhow::Result<()> {
        let mut publish_tick = tokio::time::interval(Duration::from_secs(1) / rate);
        let mut look_tick = tokio::time::interval(DEAD_LETTER_LOOK);
        // A computer that slept must not publish the events of a night at once.
        publish_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut settle_by = None;
        loop {
            let is_published = events_max.is_some_and(|max| self.tally.events >= max);
            tokio::select! {
                Some(attempt) = self.attempts.recv() => self.show_attempt(&attempt),
                _ = look_tick.tick() => {
                    self.show_dead_letters().await?;
                    let deadline = *settle_by.get_or_insert_with(|| Instant::now() + SETTLE_TIMEOUT);
                    if is_published && (self.dead_letters.is_all_settled().await? || Instant::now() > deadline) {
                        return self.show_rest().await;
                    }
                    if !is_published {
                        settle_by = None;
                    }
                }
                _ = publish_tick.tick(), if !is_published => self.publish().await?,
            }
        }
    }

    async fn publish(&mut self) -> anyhow::Result<()> {
        let event = script::sample(self.tally.events);
        self.publisher.ask(Method::POST, "/v1/events", Some(&event)).await.context("an event was not accepted")?;
        self.tally.events += 1;
        Ok(())
    }

    fn show_attempt(&mut self, attempt: &Attempt) {
        self.tally.requests += 1;
        match attempt.answer {
            Answer::Status(status) if status.is_success() => self.tally.taken += 1,
            Answer::Status(_) | Answer::Nothing => {}
            Answer::WrongSignature => self.tally.wrong_signatures += 1,
        }
        anstream::println!("{}", screen::attempt(attempt));
    }

    async fn show_dead_letters(&mut self) -> anyhow::Result<()> {
        for letter in self.dead_letters.fresh().await? {
            self.tally.dead += 1;
            anstream::println!("{}", screen::dead_letter(&letter, &self.names));
        }
        Ok(())
    }

    /// What was reported but not printed when the last delivery ended.
    async fn show_rest(&mut self) -> anyhow::Result<()> {
        while let Ok(attempt) = self.attempts.try_recv() {
            self.show_attempt(&attempt);
        }
        self.show_dead_letters().await
    }
}
