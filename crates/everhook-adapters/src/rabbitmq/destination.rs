//! Deliveries to a broker: published persistent and mandatory, and done only when the broker has confirmed.
//!
//! The engine calls it for every attempt at an `amqp` endpoint. An acknowledged message counts as an answer with 200; whatever else the broker
//! says is a failed attempt, tried again as the endpoint's schedule says.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::{
    model::{Cut, FailureCategory, Report, Response, Sent},
    policy::{address::AddressRules, broker},
    ports::{OutgoingRequest, Transport},
};
use lapin::Confirmation;

use super::{
    failure,
    link::Link,
    message,
    pool::{Key, Lease, Pool},
    publisher::Publisher,
};
use crate::http::{Connector, Failure, HttpSettings, HttpSetupError, Progress, Resolve, Stage, SystemResolver};

/// What stands for an acknowledgment where HTTP has a status.
const ACKNOWLEDGED: u16 = 200;

/// Publishes deliveries to brokers, over links kept for the next one.
pub struct AmqpTransport {
    connector: Connector,
    pool: Arc<Pool>,
}

impl AmqpTransport {
    /// A transport under the rules that hold for HTTP as well.
    ///
    /// # Errors
    /// [`HttpSetupError`] if TLS or the resolver cannot be set up.
    pub fn new(rules: AddressRules) -> Result<Self, HttpSetupError> {
        let resolver = Arc::new(SystemResolver::new().map_err(HttpSetupError::Resolver)?);
        Self::with_resolver(HttpSettings::new(rules), resolver)
    }

    /// A transport with settings and a resolver of the caller's choice. How many HTTP connections are kept does not concern it.
    ///
    /// # Errors
    /// [`HttpSetupError`] if a root certificate is unusable or TLS cannot be set up.
    pub fn with_resolver(settings: HttpSettings, resolver: Arc<dyn Resolve>) -> Result<Self, HttpSetupError> {
        let settings = HttpSettings { protocol: None, ..settings };
        Ok(Self { connector: Connector::new(settings, resolver)?, pool: Arc::default() })
    }

    async fn publish(&self, request: &OutgoingRequest, progress: &mut Progress, lease: &mut Option<Lease>) -> Result<(), Failure> {
        let place = broker::place(&request.target.url).map_err(|fault| Failure::new(FailureCategory::ClientError, fault.to_string()))?;
        let outgoing = message::compose(request, &place)?;
        let (organization, login) = (request.organization, message::login(request)?);
        let key = Key { organization, url: request.target.url.to_string(), login };
        let mut repeated = false;
        loop {
            progress.stage = Stage::Connecting;
            let opening = self.open(request, &key, &place.vhost, progress);
            let current = lease.insert(self.pool.lease(&key, opening).await?);
            progress.stage = Stage::Waiting;
            let started = Instant::now();
            let confirmed = current.link.publish(&outgoing, &request.body).await;
            progress.phases.first_byte = Some(started.elapsed());
            let error = match confirmed {
                Ok(confirmation) => return judge(confirmation),
                Err(error) => error,
            };
            if !failure::is_loss(&error) {
                return Err(failure::of(&error));
            }
            // A link that was kept may have ended unnoticed: once more, on a fresh one. As with a kept HTTP connection: if the broker had taken the
            // message after all, it is there twice, under the same id.
            let was_open = current.was_open;
            discard(lease);
            if repeated || !was_open {
                return Err(failure::of(&error));
            }
            repeated = true;
        }
    }

    async fn open(&self, request: &OutgoingRequest, key: &Key, vhost: &str, progress: &mut Progress) -> Result<Publisher, Failure> {
        let stream = self.connector.reach(&request.target, Some(request.organization), progress).await?;
        progress.stage = Stage::Waiting;
        Link::open(stream, &key.login, vhost).await.map(Publisher::new).map_err(|error| failure::of(&error))
    }
}

#[async_trait]
impl Transport for AmqpTransport {
    async fn send(&self, request: OutgoingRequest) -> Report {
        let started = Instant::now();
        let (mut progress, mut lease) = (Progress::default(), None);
        let ended = tokio::time::timeout(request.timeout, self.publish(&request, &mut progress, &mut lease)).await;
        let sent = match ended {
            Ok(Ok(())) => Sent::Answered(acknowledged()),
            Ok(Err(failure)) => failed(failure),
            Err(_) => {
                // What the broker did not confirm in time is not waited for on this link, nor anything after it.
                discard(&mut lease);
                failed(deadline(progress.stage, request.timeout))
            }
        };
        Report { sent, duration: started.elapsed(), phases: progress.phases }
    }
}

fn judge(confirmation: Confirmation) -> Result<(), Failure> {
    match confirmation {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => Err(failure::returned(&returned)),
        Confirmation::Nack(None) => Err(failure::nacked()),
        Confirmation::NotRequested => Err(failure::unconfirmed()),
    }
}

fn discard(lease: &mut Option<Lease>) {
    if let Some(lease) = lease.take() {
        lease.discard();
    }
}

fn deadline(stage: Stage, timeout: Duration) -> Failure {
    match stage {
        Stage::Waiting => Failure::new(FailureCategory::Timeout, format!("the broker did not confirm within {} ms", timeout.as_millis())),
        before => Failure::deadline(before, timeout),
    }
}

fn failed(failure: Failure) -> Sent {
    failure.into_sent(None)
}

fn acknowledged() -> Response {
    Response { status: ACKNOWLEDGED, headers: Vec::new(), body_sample: Bytes::new(), cut: Cut::default(), retry_after: None }
}
