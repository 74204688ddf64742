//! The receiving end of `bench`, in a process of its own so that its CPU time is not counted as the server's or the publishers'.
//!
//! Answers every `POST /e/<endpoint>` with 200 at once and keeps what arrived; `/well/…` with 200 too, `/fail/…` with 500 and `/hang/…` never, and
//! forgets what they got. `/app/…` is an app that is called (`app`). The bench reads the result through `/control/…`:
//! - `POST /control/expect?run=R&events=N&endpoints=E` forgets everything and expects run R;
//! - `GET /control/counts` answers counters, with `?latency` also percentiles;
//! - `GET /control/arrivals` answers one byte per (endpoint, event): how often it arrived.

use std::{
    io::{Read as _, Write as _},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::{
    app::App,
    marker::{Marker, now_ns},
    report::Percentiles,
};

/// The largest run that is expected: a byte each.
const ARRIVALS_MAX: u64 = 1 << 28;

/// Receive and count the deliveries of a bench. Started by `everhook bench`; exits when its standard input is closed.
#[derive(Debug, clap::Args)]
pub struct BenchSinkArgs {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Prints its address as the first line, then serves until standard input ends.
///
/// # Errors
/// When the address is taken, or connections can no longer be accepted.
pub async fn run(args: BenchSinkArgs) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.listen).await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    std::thread::spawn(end_with_standard_input);
    let sink = Arc::new(Sink::default());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(serve(sink.clone(), stream));
    }
}

/// A bench that was killed closes its end of the pipe: nobody is left to stop this process otherwise.
fn end_with_standard_input() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

async fn serve(sink: Arc<Sink>, stream: TcpStream) {
    let service = service_fn(|request| {
        let sink = sink.clone();
        async move { sink.answer(request).await }
    });
    // A connection that breaks is the sender's to notice: it will repeat the delivery, which is counted.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

#[derive(Default)]
struct Sink {
    record: Mutex<Record>,
    app: App,
}

impl Sink {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let path = request.uri().path();
        if let Some(what) = path.strip_prefix("/control/") {
            return Ok(self.control(what, request.uri().query().unwrap_or_default()));
        }
        if let Some(behavior) = path.strip_prefix("/app/").map(str::to_owned) {
            request.into_body().collect().await?;
            let (status, body) = self.app.answer(&behavior).await;
            return Ok(respond(status, body));
        }
        let neighbor = ["/well/", "/fail/", "/hang/"].into_iter().find(|kind| path.starts_with(kind));
        let endpoint = path.rsplit('/').next().and_then(|number| number.parse().ok());
        let body = request.into_body().collect().await?.to_bytes();
        match neighbor {
            None => {}
            Some("/well/") => return Ok(respond(StatusCode::OK, Bytes::from_static(b"ok"))),
            Some("/fail/") => return Ok(respond(StatusCode::INTERNAL_SERVER_ERROR, Bytes::from_static(b"no"))),
            // Until the sender gives up and closes the connection.
            Some(_) => std::future::pending().await,
        }
        let arrived_ns = now_ns();
        let marker = Marker::find(&body);
        self.record().arrived(endpoint, marker, arrived_ns);
        Ok(respond(StatusCode::OK, Bytes::from_static(b"ok")))
    }

    fn control(&self, what: &str, query: &str) -> Response<Full<Bytes>> {
        let pairs = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let number = |name: &str| pairs().find(|(key, _)| *key == name).and_then(|(_, value)| value.parse::<u64>().ok());
        match what {
            "expect" => match Record::expecting(number("run"), number("events"), number("endpoints")) {
                Some(record) => {
                    *self.record() = record;
                    respond(StatusCode::OK, Bytes::from_static(b"{}"))
                }
                None => {
                    respond(StatusCode::BAD_REQUEST, Bytes::from_static(b"run, events and endpoints must be given, and not be too many"))
                }
            },
            "counts" => {
                let with_latency = pairs().any(|(key, _)| key == "latency");
                respond(StatusCode::OK, Bytes::from(self.record().counts(with_latency).to_string()))
            }
            "app" => respond(StatusCode::OK, Bytes::from(self.app.take_counts().to_string())),
            "arrivals" => respond(StatusCode::OK, Bytes::from(self.record().arrivals.clone())),
            _ => respond(StatusCode::NOT_FOUND, Bytes::new()),
        }
    }
}

fn respond(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}

/// What arrived of one run.
#[derive(Default)]
struct Record {
    run: u64,
    events: u64,
    /// `arrivals[endpoint × events + number]`, at most 255.
    arrivals: Vec<u8>,
    latencies_us: Vec<u32>,
    unique: u64,
    doubled: u64,
    /// Of another run, or not of any.
    strays: u64,
    /// When the last delivery arrived that had not arrived before.
    last_new_ns: u64,
}

impl Record {
    fn expecting(run: Option<u64>, events: Option<u64>, endpoints: Option<u64>) -> Option<Self> {
        let (run, events) = (run?, events?);
        let slots = events.checked_mul(endpoints?).filter(|slots| *slots <= ARRIVALS_MAX)?;
        let slots = usize::try_from(slots).ok()?;
        Some(Self { run, events, arrivals: vec![0; slots], latencies_us: Vec::with_capacity(slots), ..Self::default() })
    }

    fn arrived(&mut self, endpoint: Option<u64>, marker: Option<Marker>, arrived_ns: u64) {
        let known = endpoint.zip(marker).filter(|(_, marker)| marker.run == self.run && marker.number < self.events);
        let slot = known.and_then(|(endpoint, marker)| Some((usize::try_from(endpoint * self.events + marker.number).ok()?, marker)));
        let Some((arrivals, marker)) = slot.and_then(|(index, marker)| Some((self.arrivals.get_mut(index)?, marker))) else {
            self.strays += 1;
            return;
        };
        *arrivals = arrivals.saturating_add(1);
        if *arrivals > 1 {
            self.doubled += 1;
            return;
        }
        self.unique += 1;
        self.last_new_ns = arrived_ns;
        let latency_us = arrived_ns.saturating_sub(marker.sent_ns) / 1_000;
        self.latencies_us.push(u32::try_from(latency_us).unwrap_or(u32::MAX));
    }

    fn counts(&self, with_latency: bool) -> Value {
        let mut counts = json!({"unique": self.unique, "doubled": self.doubled, "strays": self.strays, "last_new_ns": self.last_new_ns});
        if with_latency {
            counts["latency_ms"] = Percentiles::of_micros(self.latencies_us.clone()).to_json();
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(run: u64, number: u64) -> Option<Marker> {
        Some(Marker { run, number, sent_ns: 1_000_000 })
    }

    #[test]
    fn arrivals_are_counted_per_endpoint_and_event() {
        let mut record = Record::expecting(Some(9), Some(2), Some(2)).expect("a small run");
        record.arrived(Some(0), marker(9, 1), 3_000_000);
        record.arrived(Some(1), marker(9, 1), 4_000_000);
        record.arrived(Some(1), marker(9, 1), 9_000_000);
        assert_eq!(record.arrivals, [0, 1, 0, 2]);
        assert_eq!((record.unique, record.doubled, record.last_new_ns), (2, 1, 4_000_000));
        assert_eq!(record.latencies_us, [2_000, 3_000]);
    }

    #[test]
    fn what_does_not_belong_to_the_run_is_a_stray() {
        let mut record = Record::expecting(Some(9), Some(2), Some(1)).expect("a small run");
        record.arrived(Some(0), marker(8, 0), 1);
        record.arrived(Some(0), marker(9, 2), 1);
        record.arrived(Some(1), marker(9, 0), 1);
        record.arrived(None, marker(9, 0), 1);
        record.arrived(Some(0), None, 1);
        assert_eq!((record.strays, record.unique), (5, 0));
    }

    #[test]
    fn a_run_too_large_for_memory_is_refused() {
        assert!(Record::expecting(Some(1), Some(u64::MAX), Some(2)).is_none());
        assert!(Record::expecting(Some(1), Some(ARRIVALS_MAX), Some(2)).is_none());
    }
}
