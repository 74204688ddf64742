//! Spans for a collector of OpenTelemetry, over OTLP with HTTP and protobuf: the port `Spans`.
//!
//! Whoever makes a span never waits: it goes into a queue, and is dropped and counted if that is full. One task sends what is there, once a second or when there
//! is much; what the collector does not take in time is dropped, too. A collector that is away or hangs costs as much memory as the queue has.

mod encode;
mod sampler;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use everhook_core::{
    ids::OrganizationId,
    metrics::Counter,
    model::{Sent, Span, Target, TraceContext},
    policy::address::AddressRules,
    ports::{OutgoingHeader, OutgoingMethod, OutgoingRequest, SpanCounts, Spans, Transport as _},
    repeated_failure::RepeatedFailure,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
};
use uuid::Uuid;

pub use self::{encode::Resource, sampler::Sampler};
use crate::http::{HttpSettings, HttpSetupError, HttpTransport};

/// How many spans may wait to be sent: some megabytes.
const QUEUE_MAX: usize = 8_192;

/// How many spans one request has: some hundreds of kilobytes.
const BATCH_MAX: usize = 512;

/// How long spans gather before they are sent.
const GATHER_FOR: Duration = Duration::from_secs(1);

/// How long the collector may take to answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many connections to the collector are kept: one request is made at a time.
const CONNECTIONS_KEPT: usize = 1;

/// Where spans go, and which.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    /// Where the collector takes traces: the whole URL. The operator's choice, so that its address is not vetted.
    pub target: Target,
    /// Headers that it asks for: lower case, checked.
    pub headers: Vec<(String, String)>,
    /// Which traces are recorded.
    pub sampler: Sampler,
    /// What is known of this process.
    pub resource: Resource,
}

/// Sends spans to a collector.
pub struct OtlpExporter {
    queue: mpsc::Sender<Span>,
    sampler: Sampler,
    counts: Arc<Counts>,
    stopping: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Counts {
    exported: Counter,
    dropped: Counter,
}

impl OtlpExporter {
    /// Starts on the current runtime.
    ///
    /// # Errors
    /// [`HttpSetupError`] if TLS or the resolver cannot be set up.
    pub fn start(settings: OtlpSettings) -> Result<Self, HttpSetupError> {
        let transport =
            HttpTransport::new(HttpSettings { idle_total_max: CONNECTIONS_KEPT, ..HttpSettings::new(AddressRules::allowing_private()) })?;
        let (queue, spans) = mpsc::channel(QUEUE_MAX);
        let (counts, stopping): (Arc<Counts>, Arc<Notify>) = Default::default();
        let sampler = settings.sampler;
        let sending = Sending {
            spans,
            transport,
            settings,
            counts: counts.clone(),
            stopping: stopping.clone(),
            began: Instant::now(),
            outage: RepeatedFailure::reported_at_once(),
        };
        let task = Mutex::new(Some(tokio::spawn(sending.run())));
        Ok(Self { queue, sampler, counts, stopping, task })
    }

    /// Sends what is there and ends, within `grace`.
    pub async fn stop(&self, grace: Duration) {
        self.stopping.notify_one();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut task) = task else { return };
        if tokio::time::timeout(grace, &mut task).await.is_err() {
            task.abort();
            tracing::info!("some spans were not sent before shutdown");
        }
    }
}

impl Spans for OtlpExporter {
    fn wants(&self, context: &TraceContext) -> bool {
        self.sampler.samples(context)
    }

    fn record(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.counts.dropped.add(1);
        }
    }

    fn counts(&self) -> SpanCounts {
        SpanCounts { exported: self.counts.exported.get(), dropped: self.counts.dropped.get() }
    }
}

/// The task that sends.
struct Sending {
    spans: mpsc::Receiver<Span>,
    transport: HttpTransport,
    settings: OtlpSettings,
    counts: Arc<Counts>,
    stopping: Arc<Notify>,
    began: Instant,
    outage: RepeatedFailure,
}

impl Sending {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            tokio::select! {
                received = self.spans.recv_many(&mut batch, BATCH_MAX) => {
                    if received == 0 {
                        return;
                    }
                }
                // What is there is still received; nothing comes after it.
                () = self.stopping.notified() => {
                    self.spans.close();
                    continue;
                }
            }
            self.gather(&mut batch).await;
            self.export(&batch).await;
            batch.clear();
        }
    }

    async fn gather(&mut self, batch: &mut Vec<Span>) {
        let time_is_up = tokio::time::sleep(GATHER_FOR);
        tokio::pin!(time_is_up);
        while batch.len() < BATCH_MAX {
            let room = BATCH_MAX - batch.len();
            tokio::select! {
                received = self.spans.recv_many(batch, room) => {
                    if received == 0 {
                        return;
                    }
                }
                () = self.stopping.notified() => self.spans.close(),
                () = &mut time_is_up => return,
            }
        }
    }

    async fn export(&mut self, batch: &[Span]) {
        let report = self.transport.send(self.request(batch)).await;
        let refusal = match report.sent {
            Sent::Answered(response) if (200..300).contains(&response.status) => None,
            Sent::Answered(response) => Some(format!("it answered {}", response.status)),
            Sent::Failed { error, .. } | Sent::Refused { error, .. } | Sent::OutOfResources { error } => Some(error),
            Sent::Parked { .. } => Some("it took nothing".to_owned()),
        };
        let (count, now) = (batch.len() as u64, self.began.elapsed());
        match refusal {
            None => {
                self.counts.exported.add(count);
                if self.outage.worked(now).is_some() {
                    tracing::info!("spans are sent again to {}", self.settings.target.requested());
                }
            }
            Some(why) => {
                self.counts.dropped.add(count);
                if self.outage.failed(now).is_some() {
                    let to = self.settings.target.requested();
                    tracing::warn!(
                        "cannot send spans to {to}: {why}; spans are dropped until the collector accepts them. Deliveries are not affected"
                    );
                }
            }
        }
    }

    fn request(&self, batch: &[Span]) -> OutgoingRequest {
        let mut headers: Vec<(OutgoingHeader, Bytes)> = vec![
            ("content-type".into(), Bytes::from_static(b"application/x-protobuf")),
            ("user-agent".into(), Bytes::from(format!("Everhook/{}", self.settings.resource.version))),
        ];
        headers.extend(self.settings.headers.iter().map(|(name, value)| (name.clone().into(), Bytes::from(value.clone()))));
        OutgoingRequest {
            // Connections are kept by organization; the collector's are nobody's.
            organization: OrganizationId::from_uuid(Uuid::nil()),
            method: OutgoingMethod::Post,
            target: Arc::new(self.settings.target.clone()),
            headers,
            body: Bytes::from(encode::export_request(&self.settings.resource, batch)),
            timeout: EXPORT_TIMEOUT,
        }
    }
}
